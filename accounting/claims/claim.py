# SPDX-License-Identifier: GPL-3.0-or-later
"""What a claim is to the rest of the house: one class each, chosen by the policy's name of it, and asked from then on.

A claim accounts windows (:meth:`Claim.account`), and what follows from them knows all that a verdict must say of it
(:class:`ragseal.accounting.claims.bound.Bound`).  The claim itself has what needs no numbers of a window: its text, its
limits, how a report of it reads, and what a provider is told before it commits.

A further claim is one file beside these, a line in :data:`ragseal.accounting.claims.CLAIMS`, and its form, by which
messages are decoded, in :mod:`ragseal.kernel.claims`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from ragseal.accounting.claims.bound import Bound, Report, Values, require_agreement
from ragseal.accounting.claims.planned import Planned
from ragseal.accounting.guess import best_guess
from ragseal.accounting.rounding import per_cent, upward
from ragseal.accounting.spent import Spent
from ragseal.kernel.claims import Form, form_of
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import Policy, rational
from ragseal.kernel.verdict import Claimed
from ragseal.runtime.face import when

MOST_ROWS = 12  #: windows that an odometer lists one by one; older ones share its first row


class Claim(ABC):
    """One claim."""

    name: str
    most_rows: int | None = MOST_ROWS  #: of an odometer
    alone_is: str = "epsilon_of_one_account"  #: what :meth:`alone` is of, as a step's evidence
    gives: str = "the noise gives"
    advertised_to: str = " to one account"
    all_accounts_count: bool = True  #: the queries of all accounts count for delta or epsilon
    planned: Planned | None = None  #: of a claim that is planned on a corpus
    not_probed: str = ""  #: why a probe of a live provider shows nothing
    unchecked: str = "do not depend on the index"  #: what it takes the embeddings to do that no account checked
    weak_is: str = "proven, but weak"  #: beside a PASS whose number is large, or that has none

    @property
    def form(self) -> Form:
        """What it means to the bytes."""
        return form_of(self.name)

    # --- accounting ---

    @abstractmethod
    def account(self, windows: Sequence[Spent], delta: Fraction) -> Bound:
        """What is promised for the windows together.

        Args:
            windows: those that opened, and those that never opened and whose coins may count.

        Raises:
            PolicyError: no window, windows of a claim that it does not go with, or numbers out of range.
        """

    @abstractmethod
    def alone(self, policy: Policy, cls: AttestationClass, accounts: int) -> Bound:
        """What a policy advertises: of one account's queries, or of one window of so many accounts.

        Raises:
            PolicyError: as :meth:`account`.
        """

    @abstractmethod
    def row(self, so_far: Sequence[Spent], new: Sequence[Spent], period: Sequence[Spent], delta: Fraction) -> Values:
        """What the period had cost after its first windows, the last of which are new: ``epsilon`` and more."""

    def odometer(self, windows: Sequence[Spent], delta: Fraction) -> tuple[Values, ...]:
        """What the period had cost after each window; older ones than ``most_rows`` share the first row.

        Raises:
            PolicyError: as :meth:`account`.
        """
        counted = self.counted(windows)
        older = 0 if self.most_rows is None else max(0, len(counted) - self.most_rows)
        rows = []
        for stop in range(max(1, older), len(counted) + 1):
            so_far = counted[:stop]
            new = so_far if stop == older else so_far[-1:]
            name = new[0].window if len(new) == 1 else f"({len(new)} windows)"
            rows.append({"window": name, **self.row(so_far, new, counted, delta)})
        return tuple(rows)

    def counted(self, windows: Sequence[Spent]) -> Sequence[Spent]:
        """The windows that it counts: those that opened."""
        return [one for one in windows if one.queries]

    # --- what a verdict says ---

    @abstractmethod
    def text(self, slots: int = 1) -> str:
        """What is claimed; ``slots``: the most that one document may fill."""

    @abstractmethod
    def symbols(self, claimed: Claimed, ends: str) -> str:
        """The values of the text's symbols; ``ends``: the lower end of the score window, as a cosine."""

    @abstractmethod
    def does_not_say(self) -> list[str]:
        """What it does not say, most important first."""

    @abstractmethod
    def in_short(self) -> list[str]:
        """The same for the first page, beside what rests on the provider's word."""

    def word(self, late: bool) -> frozenset[str]:
        """What of it rests on the provider's word, of :data:`ragseal.kernel.verdict.WORD_OF_THE_PROVIDER`."""
        return frozenset()

    # --- how a report of it reads: of a PASS only ---

    question: str  #: above the grades: what somebody guesses

    @abstractmethod
    def grades(self, report: Report) -> list[tuple[str, float, float]]:
        """(who guesses, epsilon, delta); KeyError, TypeError or ValueError of a report that was not made here."""

    def guesses(self, report: Report) -> tuple[str, str]:
        """(one account, the coalition): how often a guess is right at most; raises as :meth:`grades`."""
        account = (report["epsilon"] or {})["epsilon_of_one_account"]
        return self.guessed(float(account), report), self.guessed(float(report["epsilon_audit"]), report)

    def strength_number(self, report: Report) -> Any:
        """The number by which a PASS of it is weak or strong; no number where nothing is bounded."""
        return report["epsilon_audit"]

    def guessed(self, epsilon: float, report: Report) -> str:
        """How often a guess is right at most under an epsilon."""
        return per_cent(best_guess(epsilon, float(report["delta"])))

    @abstractmethod
    def headline(self, report: Report, found: tuple[str, str]) -> str:
        """For the banner."""

    @abstractmethod
    def bounded(self, report: Report) -> str:
        """The sentence that says what is bounded."""

    def strength(self, report: Report, found: tuple[str, str], weak: bool) -> str:
        """The sentence that says how strong or how weak it is."""
        if not weak:
            return (
                f"How strong: from even odds they guess right in at most {found[1]} of all cases; 50 % is mere chance."
            )
        return (
            f"How weak: from even odds they may guess right in up to {found[1]} of all cases ({self.one_asks}: "
            f"{found[0]}), so the number is proven, but protects hardly anybody; fewer questions or more noise would."
        )

    one_asks: str = "one account in this window"

    def facts(self, report: Report) -> list[tuple[str, Any]]:
        """Numbers in boxes that no sentence and no table has."""
        return []

    # --- what a provider is told before it commits ---

    @abstractmethod
    def spent_row(self, row: Values) -> Values:
        """A row of the odometer, as `status` has it."""

    @abstractmethod
    def spent_words(self, row: Values, asked: int) -> str:
        """What is spent, from the last of such rows."""

    @abstractmethod
    def foreseen_words(self, values: Values) -> str:
        """What an auditor will certify, from :meth:`Bound.foreseen`."""

    def spent_lines(self, values: Values) -> list[str]:
        """All that is said of a period, from :func:`ragseal.prover.planning.spending.spending`."""
        out, rows = [], values.get("windows", [])
        if rows:
            begins = f"budget period since {when(values['period_start'])}"
            out.append(f"{begins}{self.spent_words(rows[-1], values['asked'])}")
        if "epsilon" in values:
            out.append(self.foreseen_words(values))
        if "error" in values:
            out.append(f"no epsilon follows for this budget period: {values['error']}")
        return out

    beside_epsilon: tuple[str, ...] = ()  #: of :meth:`Bound.foreseen`, what the terms have right after epsilon

    def terms(self, policy: Policy, account: float, epsilon: float, foreseen: Report) -> Values:
        """What is said of a policy before it is committed to, beside how often something comes back.

        Args:
            account: epsilon that it advertises.
            epsilon: of the period with it.
            foreseen: of :meth:`Bound.foreseen`; empty where none follows.
        """
        delta = float(Fraction(policy.delta))
        return {"attacker_guess": {"account": best_guess(account, delta), "coalition": best_guess(epsilon, delta)}}

    @abstractmethod
    def terms_words(self, values: Report, policy: Policy, cls: AttestationClass, returned: Sequence[str]) -> list[str]:
        """The same for people; ``returned``: what was found of how often something comes back."""

    def too_large(self, values: Report, text: str, said: str) -> str:
        """Why an epsilon is committed to only by who says its number, and what would make it smaller.

        Args:
            values: the terms.
            text: the epsilon.
            said: that it was said wrongly, or nothing.
        """
        guess = per_cent(values["attacker_guess"]["coalition"])
        return (
            f"epsilon of the coalition over this budget period is {text}, which can be proven but promises nearly "
            f"nothing: from even odds it guesses right in up to {guess} of all cases. {said}Use less gain or fewer "
            "queries (gain, n_max, k_max; `ragseal-provider plan` shows what answers cost), or commit to it all the "
            f"same with --yes-epsilon-is {text}"
        )

    # --- how a policy is chosen ---

    def target_refused(self, epsilon: float | None, returned: float | None) -> str:
        """Why a plan has no such target; empty where it has."""
        return "" if returned is None else f"the claim {self.name} has no return: give --epsilon"

    # --- what a policy may advertise ---

    def promised(self, policy: Policy, cls: AttestationClass, accounts: int) -> Bound:
        """As :meth:`alone`, and any auditor would pass it.

        Raises:
            PolicyError: no finite epsilon follows, or two computations of it disagree; says what would do.
        """
        found = self.alone(policy, cls, accounts)
        if found.boundless:
            raise PolicyError(self.way_out(policy, cls, accounts, found))
        require_agreement(found)
        return found

    def way_out(self, policy: Policy, cls: AttestationClass, accounts: int, found: Bound) -> str:
        """Why no finite epsilon follows for a policy, and the nearest one that has one."""
        return found.boundless

    def check_promise(self, policy: Policy, cls: AttestationClass, accounts: int, least: Fraction) -> None:
        """What a policy advertises follows from coin and noise, and the claim has a finite epsilon.

        Args:
            least: that it may advertise: :meth:`promised`, rounded up.

        Raises:
            PolicyError: which bound is missed, and the nearest policy that would do.
        """
        declared = rational(policy.epsilon_account, "epsilon_account")
        if declared < least:
            raise PolicyError(self.too_little(policy, cls, accounts, declared, least))

    @abstractmethod
    def too_little(
        self, policy: Policy, cls: AttestationClass, accounts: int, declared: Fraction, least: Fraction
    ) -> str:
        """What a policy that advertises less than ``least`` is refused with: the nearest one that would do."""


def one_claim(policies: Sequence[Policy]) -> str:
    """The claim that all windows of a budget period make.

    Raises:
        PolicyError: no window, or windows of different claims; says the way out.
    """
    named = sorted({policy.claim for policy in policies})
    if not named:
        raise PolicyError("a period has at least one window")
    if len(named) > 1:
        raise PolicyError(
            f"no epsilon follows for a budget period that mixes the claims {' and '.join(named)}: begin a new period "
            "with period_start = the time at which this window opens, after the windows of the other claim have closed"
        )
    return named[0]


def largest(holds: Callable[[int], bool], most: int) -> int:
    """The largest x in 1..most for which a property holds that ends somewhere and stays ended; 0 if there is none."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def rounded(epsilon: Any) -> str:
    """An epsilon of a report, rounded up."""
    return upward(float(epsilon)) if isinstance(epsilon, int | float | str) else "?"
