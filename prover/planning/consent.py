# SPDX-License-Identifier: GPL-3.0-or-later
"""What a window gives and costs, said before it is committed; above an epsilon that means something, only on purpose.

An epsilon is easily written and hardly read.  So the attacker's best guess stands beside it, and whoever commits to a
large one has to say the number (``--yes-epsilon-is``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from ragseal.accounting.guess import best_guess, presence_odds
from ragseal.accounting.rounding import per_cent, upward
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.params import COIN_BITS, SCORE_UNIT
from ragseal.kernel.policy import Policy, rational
from ragseal.prover.planning.budgets import chance_in_words, hidden_in_words, return_in_words, unseen_in_words
from ragseal.prover.planning.chance import Prizes, at, comes_back, prizes_of
from ragseal.prover.planning.levels import Levels, few_levels

ASK_ABOVE = (
    20  #: epsilon over the period, under either claim: from there on a guess is wrong less than once in 400 million
)


def terms(policy: Policy, cls: AttestationClass, spent: Mapping[str, Any]) -> dict[str, Any]:
    """What `commit --json` says of a policy.

    Args:
        spent: of :func:`ragseal.prover.planning.spending.spending`, with this policy following.

    Returns:
        claim, epsilon (over the period, "inf" where none follows), epsilon_account, comes_back (how often a document at
        the window's upper end and middle does).  Under every-list attacker_guess of one account and of the coalition;
        where scores have few levels, levels (of :class:`ragseal.prover.planning.levels.Levels`);
        under the lottery prizes (mean, and crowded: the share of queries in which fewer than ten results are left);
        under until-delivered unseen, return, hidden_share, chance, listed_by_chance and presence_odds (what even odds
        become: absent, present, per cent).
    """
    delta = float(rational(policy.delta, "delta"))
    account, epsilon = float(Fraction(policy.epsilon_account)), _epsilon(spent)
    if policy.answers:
        return {
            "claim": policy.claim,
            "epsilon": epsilon if math.isfinite(epsilon) else "inf",
            "epsilon_filtered": spent.get("epsilon_filtered"),
            "epsilon_account": policy.epsilon_account,
            "keyword_comes_back": [
                {"documents": n, "share": comes_back(cls, policy.factor(cls) * n)}
                for n in (policy.hi, -(-policy.hi // 2))
            ],
            "attacker_guess": {"account": best_guess(account, delta), "coalition": best_guess(epsilon, delta)},
        }
    middle = (policy.lo + policy.hi) // 2
    found: dict[str, Any] = {
        "claim": policy.claim,
        "epsilon": epsilon if math.isfinite(epsilon) else "inf",
        "epsilon_account": policy.epsilon_account,
        "comes_back": [
            {"cosine": round(y / SCORE_UNIT**2, 4), "share": at(policy, cls, y)} for y in (policy.hi, middle)
        ],
    }
    if isinstance(cls, LotteryClass):
        found["prizes"] = asdict(prizes_of(policy, cls))
    if (levels := few_levels(cls, policy.lo, policy.hi, policy.gain)) is not None:
        found["levels"] = asdict(levels)
    if not policy.coined:
        guess = {"account": best_guess(account, delta), "coalition": best_guess(epsilon, delta)}
        return {**found, "attacker_guess": guess}
    found["hidden_share"] = policy.hidden / (1 << COIN_BITS)
    if "unseen" in spent:
        found |= {name: spent[name] for name in ("unseen", "return", "chance", "listed_by_chance")}
        found["presence_odds"] = presence_odds(spent["unseen"])
    return found


def lines(values: Mapping[str, Any], policy: Policy, cls: AttestationClass) -> list[str]:
    """The same for people."""
    if policy.answers:
        return _lines_of_answers(values, policy)
    hi, middle = values["comes_back"]
    comes = (
        f"a document at cosine {hi['cosine']:.3g} or above comes back in {hi['share']:.0%} of all queries, one at "
        f"{middle['cosine']:.3g} in {middle['share']:.0%}, where nothing else scores above "
        f"{policy.lo / SCORE_UNIT**2:.3g}"
    )
    if "levels" in values:
        comes += f"; {Levels(**values['levels']).in_words}"
    if policy.coined:
        out = [comes, hidden_in_words(values["hidden_share"])]
        if "prizes" in values:
            out.append(Prizes(**values["prizes"]).in_words(cls.K))
        if "unseen" in values:
            out += [
                unseen_in_words(values["unseen"]),
                return_in_words(_number(values["return"]), values["hidden_share"], policy.whole(cls)),
                chance_in_words(values["listed_by_chance"], policy.n_max, cls),
            ]
        return out
    guess = values["attacker_guess"]
    account = float(Fraction(policy.epsilon_account))
    return [
        comes,
        f"from even odds an attacker guesses right, whether a slot is one thing or another, in up to "
        f"{per_cent(guess['account'])} of all cases with one account (epsilon {upward(account)} advertised at delta "
        f"{policy.delta}), in up to {per_cent(guess['coalition'])} with {policy.k_max} that work together",
    ]


def _lines_of_answers(values: Mapping[str, Any], policy: Policy) -> list[str]:
    """The same for people, of the claim answers."""
    most, half = values["keyword_comes_back"]
    guess = values["attacker_guess"]
    return [
        f"a keyword of {most['documents']} or more documents is in {most['share']:.0%} of all answers, one of "
        f"{half['documents']} in {half['share']:.0%}, where no other keyword has a count",
        f"a document takes part where its cosine is {policy.similarity / SCORE_UNIT**2:.3g} or more, in at most "
        f"{policy.participations} answers of the period, with at most {policy.words_max} keywords each: nobody can "
        "check that, and the verdict says so",
        f"from even odds an attacker guesses right, whether a document is there, in up to {per_cent(guess['account'])} "
        f"of all cases with one account (epsilon {upward(float(Fraction(policy.epsilon_account)))} advertised), in up "
        f"to {per_cent(guess['coalition'])} with all answers that the window allows",
    ]


def require(values: Mapping[str, Any], given: float | None, why: str | None = None) -> None:
    """A large epsilon is committed to only by who says its number.

    Args:
        values: of :func:`terms`.
        given: what was said; an infinite epsilon takes ``inf``.
        why: no epsilon follows, where that is known.

    Raises:
        PolicyError: too large an epsilon for what was said; names the number, and what would make it smaller.
    """
    text = upward(_epsilon(values))
    least = float(text)
    if least <= ASK_ABOVE or (given is not None and given >= least):
        return
    if math.isinf(least):
        raise PolicyError(
            f"no epsilon follows for this budget period{f' ({why})' if why else ''}, so no auditor will pass the "
            "window: begin a new period (period_start in the policy), or ask for less (gain, n_max, k_max); "
            "--yes-epsilon-is inf commits to it"
        )
    said = "" if given is None else f"--yes-epsilon-is {given:g} is less than that; "
    if "attacker_guess" not in values:
        raise PolicyError(
            f"epsilon over this budget period, which is unseen, is {text}: it can be proven but promises nearly "
            f"nothing. {said}Begin a new period (period_start; every throw of coins adds its unseen), use less unseen, "
            f"or commit to it all the same with --yes-epsilon-is {text}"
        )
    guess = per_cent(values["attacker_guess"]["coalition"])
    raise PolicyError(
        f"epsilon of the coalition over this budget period is {text}, which can be proven but promises nearly nothing: "
        f"from even odds it guesses right in up to {guess} of all cases. {said}Use less gain or fewer queries (gain, "
        "n_max, k_max; `ragseal-provider plan` shows what answers cost), or commit to it all the same with "
        f"--yes-epsilon-is {text}"
    )


def _epsilon(values: Mapping[str, Any]) -> float:
    found = values.get("epsilon")
    return found if isinstance(found, float) else math.inf


def _number(value: float | str) -> float:
    return value if isinstance(value, float) else math.inf
