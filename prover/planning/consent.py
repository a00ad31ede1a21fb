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

from ragseal.accounting.claims import claim_of, named
from ragseal.accounting.rounding import upward
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.policy import Policy
from ragseal.kernel.verdict import NONE
from ragseal.prover.planning.chance import at, comes_back
from ragseal.prover.planning.laws import planned_law
from ragseal.prover.planning.levels import Levels, few_levels

ASK_ABOVE = 20  #: epsilon over the period: from there on a guess is wrong less than once in 400 million


def terms(policy: Policy, cls: AttestationClass, spent: Mapping[str, Any]) -> dict[str, Any]:
    """What `commit --json` says of a policy.

    Args:
        spent: of :func:`ragseal.prover.planning.spending.spending`, with this policy following.

    Returns:
        claim, epsilon (over the period, "inf" where none follows), epsilon_account, comes_back (how often a document at
        the window's upper end and middle does), or keyword_comes_back; where scores have few levels, levels (of
        :class:`ragseal.prover.planning.levels.Levels`); with decoys what they take of a list (decoys, of
        :class:`ragseal.accounting.delivered_decoys.ByChance`); and what the claim says of it, such as attacker_guess of
        one account and of the coalition, or unseen, return and presence_odds.
    """
    claim, epsilon = claim_of(policy), _epsilon(spent)
    if not claim.form.private:
        return {
            "claim": policy.claim,
            "epsilon": NONE,
            "epsilon_account": policy.epsilon_account,
            **_returned(policy, cls),
            **claim.terms(policy, math.inf, epsilon, spent),
        }
    account = float(Fraction(policy.epsilon_account))
    return {
        "claim": policy.claim,
        "epsilon": epsilon if math.isfinite(epsilon) else "inf",
        **{name: spent.get(name) for name in claim.beside_epsilon},
        "epsilon_account": policy.epsilon_account,
        **_returned(policy, cls),
        **claim.terms(policy, account, epsilon, spent),
    }


def lines(values: Mapping[str, Any], policy: Policy, cls: AttestationClass) -> list[str]:
    """The same for people."""
    return claim_of(policy).terms_words(values, policy, cls, _returned_words(values, policy, cls))


def _returned(policy: Policy, cls: AttestationClass) -> dict[str, Any]:
    """How often a keyword, or a document at the window's upper end and middle, comes back."""
    if policy.answers:
        counts = policy.hi, -(-policy.hi // 2)
        shares = [{"documents": n, "share": comes_back(cls, policy.factor(cls) * n)} for n in counts]
        return {"keyword_comes_back": shares}
    cosines = [(y, round(y / SCORE_UNIT**2, 4)) for y in planned_law(cls).shown_scores(policy.lo, policy.hi)]
    found: dict[str, Any] = {"comes_back": [{"cosine": cos, "share": at(policy, cls, y)} for y, cos in cosines]}
    found |= planned_law(cls).terms(policy)
    if (levels := few_levels(cls, policy.lo, policy.hi, policy.gain)) is not None:
        found["levels"] = asdict(levels)
    return found


def _returned_words(values: Mapping[str, Any], policy: Policy, cls: AttestationClass) -> list[str]:
    if "keyword_comes_back" in values:
        most, half = values["keyword_comes_back"]
        return [
            f"a keyword of {most['documents']} or more documents is in {most['share']:.0%} of all answers, one of "
            f"{half['documents']} in {half['share']:.0%}, where no other keyword has a count"
        ]
    law = planned_law(cls)
    comes = law.comes_back_in_words([one["share"] for one in values["comes_back"]], policy.lo, policy.hi)
    out = [comes]
    if "levels" in values:
        out = [f"{comes}; {Levels(**values['levels']).in_words}"]
    return [*out, *law.terms_in_words(values)]


def require(values: Mapping[str, Any], given: float | None, why: str | None = None) -> None:
    """A large epsilon is committed to only by who says its number.

    Args:
        values: of :func:`terms`; of a claim that has no epsilon there is none to say.
        given: what was said; an infinite epsilon takes ``inf``.
        why: no epsilon follows, where that is known.

    Raises:
        PolicyError: too large an epsilon for what was said; names the number, and what would make it smaller.
    """
    if not named(values["claim"]).form.private:
        return
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
    raise PolicyError(named(values["claim"]).too_large(values, text, said))


def _epsilon(values: Mapping[str, Any]) -> float:
    found = values.get("epsilon")
    return found if isinstance(found, float) else math.inf
