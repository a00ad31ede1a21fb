# SPDX-License-Identifier: GPL-3.0-or-later
"""A policy of the claim answers from public numbers alone: what epsilon allows, what a keyword needs then.  SPEC A.6.

Nothing is measured on a corpus.  Epsilon follows from class, gain and filter, as an audit computes it (SPEC D.22).  A
keyword is worth something where so many documents share it that it stands out from the noise of all slots, which
follows from noise table, N, K and gain.  Which keywords documents share is another matter: ``python -m bench.answers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ragseal.accounting.answers import AnswersReport, answers_period
from ragseal.accounting.claims import claim_of
from ragseal.accounting.rounding import upward
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import class_digest
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.noise import build_table
from ragseal.kernel.params import GEOMETRIC
from ragseal.kernel.policy import ANSWERS, Policy, check_policy
from ragseal.prover.commitment.policy_file import ANSWERED_BY
from ragseal.prover.planning.chance import comes_back

HALF, MOST, ALWAYS = 0.5, 0.9, 0.99  #: shares of answers that a keyword is in; counts are clipped at the last
MOST_GAIN = 1 << 12
FILTER, WORDS_MAX, WORDS, EPSILON = 3, 6, 2000, 8.0  #: what `plan` takes where nothing is said
SIMILARITY = "0.35"
_ROOT = b"\x01" * 32  #: of no vocabulary: which one it is enters no number here


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a plan."""

    epsilon: float  #: at most, with the filter
    n_max: int
    accounts: int  #: of the window
    delta: Fraction
    participations: int = FILTER
    words_max: int = WORDS_MAX
    words: int = WORDS  #: of the vocabulary

    def __post_init__(self) -> None:
        if min(self.n_max, self.accounts, self.participations, self.words_max, self.words) < 1:
            raise ConfigurationError("accounts, questions, participations and words are at least 1")


@dataclass(frozen=True, slots=True)
class Choice:
    """One class and gain under a wish."""

    cls: AttestationClass
    policy: Policy
    found: AnswersReport  #: of one window in which every account asks all it may
    account: float  #: epsilon of one account's n_max answers
    half: int  #: documents whose keyword is in half of all answers, where no other has a count
    most: int  #: the same of nine in ten

    def row(self) -> dict[str, Any]:
        return {
            "class": self.cls.name, "slots": self.cls.N, "keywords": self.policy.ids, "gain": self.policy.gain,
            "hi": self.policy.hi, "epsilon_filtered": self.found.filtered.epsilon, "epsilon": self.found.plain.epsilon,
            "answers": self.found.plain.answers, "epsilon_account": self.account, "documents_for_half": self.half,
            "documents_for_nine_in_ten": self.most,
        }  # fmt: skip

    def policy_file(self) -> str:
        """The file to complete and to give to `commit`."""
        p = self.policy
        return (
            f'class = "{self.cls.name}"\nclaim = "{ANSWERS}"\n'
            'vocabulary = ""         # the root that `ragseal-provider vocabulary FILE` prints, of public words\n'
            f'estimate = "report"\nlo = 0\nhi = {p.hi}\ngain = {p.gain}\n'
            f"similarity = {SIMILARITY}       # cosine from which a document takes part: a public choice\n"
            f'answered_by = "{p.answered_by}s"     # from a request to its answer, whatever the model takes\n'
            f"words_max = {p.words_max}\nparticipations = {p.participations}\nn_max = {p.n_max}\nk_max = "
            f'{p.k_max}\ndelta = "{p.delta}"\n'
        )


def documents_for(cls: AttestationClass, gain: int, share: float) -> int:
    """The least count with which a keyword is in so many answers, where no other keyword has a count."""
    low, high = 1, 1
    while comes_back(cls, (gain * high) << cls.step_bits) < share:
        low, high = high + 1, 2 * high
    while low < high:
        middle = (low + high) // 2
        reached = comes_back(cls, (gain * middle) << cls.step_bits) >= share
        low, high = (low, middle) if reached else (middle + 1, high)
    return low


def choice(cls: AttestationClass, gain: int, wish: Wish) -> Choice:
    """Raises PolicyError: a gain that the class or its noise does not carry."""
    policy = Policy(
        class_name=cls.name, class_digest=class_digest(cls), table_digest=build_table(cls.law).digest(), dimension=384,
        claim=ANSWERS, hidden=0, lo=0, hi=documents_for(cls, gain, ALWAYS), gain=gain, n_max=wish.n_max, k_max=2,
        delta=str(wish.delta), epsilon_account="1", theta="9/10", tau=1000, gate=False, unit="slot",
        chunks_max=1, period_start=0, opens=0, closes=60, vocabulary=_ROOT, words_max=wish.words_max,
        participations=wish.participations, similarity=1, answered_by=ANSWERED_BY, ids=cls.most_ids(1),
    )  # fmt: skip
    check_policy(policy, cls, policy.class_digest)
    every = wish.n_max * wish.accounts
    found = answers_period([Spent("", policy, cls, wish.n_max, b"", wish.accounts, every)], wish.delta)
    alone = claim_of(policy).alone(policy, cls, wish.accounts).epsilon
    return Choice(cls, policy, found, alone, documents_for(cls, gain, HALF), documents_for(cls, gain, MOST))


def fitting(classes: Iterable[AttestationClass], returned: Sequence[int], words: int) -> list[AttestationClass]:
    """For each K the smallest class with geometric noise that has a slot for every word.

    Raises:
        ConfigurationError: there is none.
    """
    found: list[AttestationClass] = []
    for K in returned:
        own = [c for c in classes if c.law == GEOMETRIC and c.most_ids(1) == K]
        large = [c for c in own if words <= c.N]
        if not large:
            there = ", ".join(f"{c.name} ({c.N} slots)" for c in own) or "none"
            raise ConfigurationError(
                f"no class returns {K} keywords of {words}: of that K there is {there}; take a smaller vocabulary, or "
                "see docs/how-to/new-class.md"
            )
        found.append(min(large, key=lambda c: c.N))
    return found


def best(cls: AttestationClass, wish: Wish, keeps: Callable[[Choice], bool]) -> Choice | None:
    """Of a class the largest gain that ``keeps``; None if not even 1 does."""

    def tried(gain: int) -> Choice | None:
        try:
            made = choice(cls, gain, wish)
        except PolicyError:
            return None
        return made if keeps(made) else None

    found, low, high = tried(1), 1, MOST_GAIN
    while found is not None and high - low > 1:
        middle = (low + high) // 2
        made = tried(middle)
        found, low, high = (found, low, middle) if made is None else (made, middle, high)
    return found


def plan_answers(wish: Wish, classes: Iterable[AttestationClass], returned: Sequence[int]) -> dict[str, Any]:
    """The plan as `--json` prints it: of each class the largest gain within the wish, and which one is recommended.

    Raises:
        ConfigurationError: as :func:`fitting`.
        PolicyError: not even the least gain has a finite epsilon.
    """
    own = fitting(list(classes), returned, wish.words)
    kept = [made for cls in own if (made := best(cls, wish, lambda one: one.found.filtered.epsilon <= wish.epsilon))]
    kept.sort(key=lambda one: (one.half, one.cls.N))
    nearest = None if kept else min((choice(cls, 1, wish) for cls in own), key=lambda one: one.found.filtered.epsilon)
    shown = kept or ([nearest] if nearest else [])
    first = shown[0]
    reasons = [
        f"a keyword of {first.half} documents is in half of all answers, one of {first.most} in nine of ten, where no "
        "other keyword has a count; one that fewer share is hardly ever told from noise",
        f"epsilon {upward(first.found.filtered.epsilon)} rests on the provider's word that a document takes part in at "
        f"most {wish.participations} answers of the period; what an auditor proves is epsilon "
        f"{upward(first.found.plain.epsilon)}, of {first.found.plain.answers} answers in one window",
        "nothing here was measured on documents: whether so many of them share keywords, `python -m bench.answers` "
        "shows on the demo's corpus",
    ]
    return {
        "claim": ANSWERS,
        "target": {"epsilon_filtered": wish.epsilon},
        "rows": [one.row() for one in shown],
        "recommended": {**kept[0].row(), "policy": kept[0].policy_file()} if kept else None,
        "nearest": None if nearest is None else {**nearest.row(), "policy": nearest.policy_file()},
        "reasons": reasons,
    }


def in_words(made: dict[str, Any]) -> str:
    """The same for people."""
    head = f"{'class':<20} {'K':>3} {'gain':>5} {'filtered':>9} {'all':>9} {'account':>9} {'half':>6} {'9 in 10':>8}"
    lines = [head] + [
        f"{row['class']:<20} {row['keywords']:>3} {row['gain']:>5} {upward(row['epsilon_filtered']):>9} "
        f"{upward(row['epsilon']):>9} {upward(row['epsilon_account']):>9} {row['documents_for_half']:>6} "
        f"{row['documents_for_nine_in_ten']:>8}"
        for row in made["rows"]
    ]
    found = made["recommended"] or made["nearest"]
    said = "recommended policy:" if made["recommended"] else "the target CANNOT be met; the nearest policy:"
    return "\n".join([*lines, "", said, found["policy"], *(f"- {reason}" for reason in made["reasons"])])
