# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "exact": every answer is the best K of the committed index, and nothing is private.  SPEC Claims, D.23.

It is a claim about what was answered and not about what anybody learns, so it has no epsilon: nowhere, not even an
infinite one.  What the rest of the house computes with is infinite, so that whoever forgets to ask
``form.private`` shows the worst and never a zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ragseal.accounting.claims import notes
from ragseal.accounting.claims.bound import Around, Bound, Report, Values
from ragseal.accounting.claims.claim import Claim
from ragseal.accounting.claims.unseen import BEST
from ragseal.accounting.spent import Spent
from ragseal.kernel.claims import EXACT
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import Policy
from ragseal.kernel.verdict import NONE, Claimed

TEXT = (
    "Every answer is exact: its list has the slots that score highest for the committed question, of "
    "all slots of its tenant's index that score above the window's lower end, at most K of them, the lower slot first "
    "of equal scores, and it has no other. The index is the one that the manifest committed to, or the later version "
    "that the record names. Nothing is private: there is no noise, no decoy and no coin, answers may tell everything "
    "about the documents, and nothing bounds what anybody learns. This claim has no epsilon."
)
NOTHING = "Nothing is private here: what accounts were sent may tell everything about the documents."

_DOES_NOT_SAY = (
    "That anything is private. There is no noise, no decoy and no coin: every list tells what it holds and what it "
    "does not hold, and nothing bounds what accounts learn together.",
    "That the documents that come back are good answers: the list is that of the committed vectors.",
)
_ABOUT_OTHERS = (
    "That documents were embedded and assigned to tenants honestly.",
    "The generator's output and the returned text: once a slot is returned, its text is read, with id and metadata.",
    "That everybody was shown this log: a provider may keep two, and this one may lack what accounts were answered in "
    "the other. Receipts of the accounts and cosignatures of observers that follow the log find that.",
    "Signed requests that the provider never recorded: their accounts hold them as evidence.",
    "That the vectors of queries are those of their texts, where clients did not check them: the list is exact for the "
    "vector that the record commits to.",
)
_HOLDS = (
    ("no slot is empty that was committed to with a document", "steps 4 and 8: records are of the committed columns"),
    *BEST,
)


@dataclass(frozen=True, slots=True)
class NoBound(Bound):
    """Nothing is bounded."""

    asked: int

    @property
    def epsilon(self) -> float:
        """Infinite: nobody may take it for one."""
        return math.inf

    @property
    def queries(self) -> int:
        return self.asked

    @property
    def accountant(self) -> str:
        return NONE

    @property
    def disagreement(self) -> str:
        return ""

    @property
    def boundless(self) -> str:
        """Nothing is missing: the claim needs no number."""
        return ""

    def evidence(self, delta: Fraction) -> Values:
        return {"private": "nothing"}

    def details(self, around: Around) -> Values:
        return {"private": "nothing"}

    def conditions(self, policies: Sequence[Policy], late: bool) -> list[Values]:
        return notes.held(_HOLDS)

    def guess(self, account: float, delta: float, k_max: int) -> Values:
        raise PolicyError(NOTHING)

    def foreseen(self) -> Values:
        return {"private": "nothing"}


class Exact(Claim):
    """The claim of a provider whose answers are proven and not private."""

    name = EXACT
    all_accounts_count = False
    not_probed = "it hides nothing, so a probe finds everything"
    unchecked = "are those of their questions"
    weak_is = "exact answers, nothing is private"

    def account(self, windows: Sequence[Spent], delta: Fraction) -> NoBound:
        return NoBound(sum(one.all_queries for one in windows))

    def alone(self, policy: Policy, cls: AttestationClass, accounts: int) -> NoBound:
        return NoBound(accounts * policy.n_max)

    def row(self, so_far: Sequence[Spent], new: Sequence[Spent], period: Sequence[Spent], delta: Fraction) -> Values:
        raise PolicyError(NOTHING)

    def odometer(self, windows: Sequence[Spent], delta: Fraction) -> tuple[Values, ...]:
        """No row: nothing is spent where nothing is private."""
        return ()

    # --- what a verdict says ---

    def text(self, slots: int = 1) -> str:
        return TEXT

    def symbols(self, claimed: Claimed, ends: str) -> str:
        return f"the window's lower end is cosine {ends}, and K is the policy's number of ids"

    def does_not_say(self) -> list[str]:
        return [*_DOES_NOT_SAY, *_ABOUT_OTHERS]

    def in_short(self) -> list[str]:
        return [NOTHING, *_ABOUT_OTHERS[:3]]

    # --- how a report of it reads ---

    question = ""

    def grades(self, report: Report) -> list[tuple[str, float, float]]:
        """None: no guess is bounded."""
        return []

    def guesses(self, report: Report) -> tuple[str, str]:
        return "", ""

    def headline(self, report: Report, found: tuple[str, str]) -> str:
        return f"Every answer is the best of the committed index. {NOTHING}"

    def bounded(self, report: Report) -> str:
        return (
            "Proven is that every list has the documents that score highest, of those that the provider committed to "
            "before the window opened, and no other. What anybody learns is not bounded."
        )

    def strength(self, report: Report, found: tuple[str, str], weak: bool) -> str:
        return f"{NOTHING} This verdict is about answers, and is no promise of privacy."

    def facts(self, report: Report) -> list[tuple[str, Any]]:
        return [("private", "nothing")]

    # --- what a provider is told ---

    def target_refused(self, epsilon: float | None, returned: float | None) -> str:
        odd = [name for name, value in (("--epsilon", epsilon), ("--return", returned)) if value is not None]
        return f"the claim {self.name} bounds nothing: leave {' and '.join(odd)} out" if odd else ""

    def spent_row(self, row: Values) -> Values:
        raise PolicyError(NOTHING)

    def spent_words(self, row: Values, asked: int) -> str:
        raise PolicyError(NOTHING)

    def foreseen_words(self, values: Values) -> str:
        return f"an auditor will certify that answers are exact, and no epsilon. {NOTHING}"

    def spent_lines(self, values: Values) -> list[str]:
        return [self.foreseen_words(values)]

    def terms(self, policy: Policy, account: float, epsilon: float, foreseen: Report) -> Values:
        return {"private": "nothing"}

    def terms_words(self, values: Report, policy: Policy, cls: AttestationClass, returned: Sequence[str]) -> list[str]:
        return [
            *returned,
            f"{NOTHING} Windows of other claims that follow this one in the log begin a new budget period, and their "
            "verdicts say that the log has a window which they do not count",
        ]

    def promised(self, policy: Policy, cls: AttestationClass, accounts: int) -> Bound:
        raise PolicyError(NOTHING)

    def check_promise(self, policy: Policy, cls: AttestationClass, accounts: int, least: Fraction) -> None:
        """Nothing is advertised."""

    def too_little(
        self, policy: Policy, cls: AttestationClass, accounts: int, declared: Fraction, least: Fraction
    ) -> str:
        return NOTHING
