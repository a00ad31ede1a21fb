# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan asks of a kind of law: what it trades for answers, how these are measured, and what is said of it.

A further kind of law is a file with subclasses of these two, and a line in :mod:`ragseal.prover.planning.laws`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.policy import Policy
from ragseal.prover.planning.budgets import Budget
from ragseal.prover.planning.candidates import COSINE_ONE, Candidate, Shape, Sizes, Window
from ragseal.prover.planning.quality import Measurement
from ragseal.prover.planning.workload import Workload


@dataclass(frozen=True, slots=True)
class Dial(ABC):
    """The policies of one class, score window and budget, counted so that epsilon and the quality of answers grow."""

    shape: Shape
    window: Window
    budget: Budget
    least: int
    most: int  #: the largest that the class compares; below ``least``: none

    @abstractmethod
    def at(self, turned: int) -> Candidate:
        """The policy at a place of the dial."""

    @abstractmethod
    def place_of(self, candidate: Candidate) -> int:
        """The other way round."""

    def of_return(self, target: float) -> int | None:
        """The largest place whose return is at most ``target``, below ``least`` if there is none; None: it does not
        follow at once."""
        return None

    @abstractmethod
    def places(self, scales: Mapping[str, Sequence[float]]) -> list[int]:
        """Those that a plan measures, for scales by law."""


@dataclass(frozen=True, slots=True)
class PlannedLaw(ABC):
    """A class of the law, as a plan sees it."""

    laws: ClassVar[tuple[str, ...]]
    least_setting: ClassVar[str]  #: what its least bound has, for people

    cls: AttestationClass

    @staticmethod
    @abstractmethod
    def in_words(law: str) -> str:
        """A law of this kind, for people."""

    # --- classes ---

    @staticmethod
    @abstractmethod
    def capacity(cls: AttestationClass) -> int:
        """Documents of an index that a plan compares, at most."""

    @staticmethod
    @abstractmethod
    def shapes(classes: Sequence[AttestationClass], sizes: Sizes, documents: int) -> list[Shape]:
        """What a plan compares of the classes of one law.

        Args:
            classes: those that an index of so many documents may be of, the fewest rows first; one at least.

        Raises:
            ConfigurationError: no class can return so many.
        """

    # --- what it trades ---

    @abstractmethod
    def dial(self, shape: Shape, window: Window, budget: Budget, dimension: int) -> Dial:
        """The policies of the class for vectors of so many entries."""

    # --- answers ---

    @property
    @abstractmethod
    def bits(self) -> int:
        """What of the class a measurement depends on besides law and capacity."""

    @staticmethod
    @abstractmethod
    def measurement(work: Workload, law: str, bits: int, capacity: int, draws: int, seed: int) -> Measurement:
        """The served mechanism, sampled.  ``bits``: as :attr:`bits`."""

    @abstractmethod
    def comes_back(self, policy: Policy, y: int) -> float:
        """How often a document that scores ``y`` comes back where no other scores above lo, without the coin."""

    @abstractmethod
    def shown_scores(self, lo: int, hi: int) -> tuple[int, ...]:
        """Scores of a document of which a policy says how often it comes back, the largest first."""

    # --- what is said ---

    def scale(self, gain: int, window: Window) -> float | None:
        """What one query can shift a score by, in units of the noise; None without noise."""
        return None

    def window_in_words(self, window: Window) -> str:
        """Which scores count."""
        lo, hi = window.cosines
        return f"[{lo:g}, {hi:g}]"

    @abstractmethod
    def setting(self, chosen: Candidate) -> str:
        """What the dial is set to, for people."""

    def row(self, chosen: Candidate) -> dict[str, Any]:
        """What `plan --json` says of a policy besides."""
        return {"decoys": None, "results_mean": None, "results_least": None}

    def about(self, chosen: Candidate) -> list[str]:
        """What is said of a recommended policy before the claim's numbers."""
        return []

    def comes_back_in_words(self, shares: Sequence[float], lo: int, hi: int) -> str:
        """How often documents at :meth:`shown_scores` come back."""
        cosines = [y / COSINE_ONE for y in self.shown_scores(lo, hi)]
        return (
            f"a document at cosine {cosines[0]:.3g} or above comes back in {shares[0]:.0%} of all queries, one at "
            f"{cosines[1]:.3g} in {shares[1]:.0%}, where nothing else scores above {lo / COSINE_ONE:.3g}"
        )

    def terms(self, policy: Policy) -> dict[str, Any]:
        """What `commit --json` says of a policy besides."""
        return {}

    def terms_in_words(self, terms: Mapping[str, Any]) -> list[str]:
        """The same for people, out of all terms of the policy."""
        return []

    @abstractmethod
    def policy_lines(self, chosen: Candidate) -> str:
        """Of a policy file, what only this law has."""
