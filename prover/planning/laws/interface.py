# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan asks of a kind of law: what it trades for answers, how these are measured, and what is said of it.

A further kind of law is a file with subclasses of these two, and a line in :mod:`ragseal.prover.planning.laws`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.policy import Policy
from ragseal.prover.planning.budgets import Budget
from ragseal.prover.planning.candidates import Candidate, Shape, Window
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

    @abstractmethod
    def of_return(self, target: float) -> int:
        """The largest place whose return is at most ``target``; below ``least`` if there is none."""

    @abstractmethod
    def places(self, scales: Mapping[str, Sequence[float]]) -> list[int]:
        """Those that a plan measures, for scales by law."""


@dataclass(frozen=True, slots=True)
class PlannedLaw(ABC):
    """A class of the law, as a plan sees it."""

    laws: ClassVar[tuple[str, ...]]
    noun: ClassVar[str]  #: its kind, for people
    unbounded: ClassVar[str]  #: what of it bounds no list, for people
    exhausted: ClassVar[str] = ""  #: what beside the least gain is the least of it, for people

    cls: AttestationClass

    @staticmethod
    @abstractmethod
    def in_words(law: str) -> str:
        """A law of this kind, for people."""

    # --- classes ---

    @abstractmethod
    def returning(self, name: str, K: int) -> AttestationClass:
        """A class of the same slots that returns so many.

        Raises:
            PolicyError: there is none.
        """

    # --- what it trades ---

    @abstractmethod
    def dial(self, shape: Shape, window: Window, budget: Budget, most_gain: Callable[[Window], int]) -> Dial:
        """The policies of the class.  ``most_gain``: the largest gain that the class compares in a window."""

    @abstractmethod
    def gain_of_return(self, lo: int, hi: int, target: float, budget: Budget) -> int:
        """The largest gain whose return is at most ``target``; 0 if there is none.  For claim until-delivered."""

    def window(self, window: Window) -> Window:
        """The score window that a policy uses where one was chosen on public texts."""
        return window

    def usual_gain(self, most: int) -> int:
        """What a policy to start from takes of the largest gain that does."""
        return most

    def compared(self, gain: int, reach: int) -> int:
        """As much of a gain as the class compares of scores whose distances are at most ``reach``, in units of y."""
        return gain

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
    def comes_back(self, signal: int, prizes: int) -> float:
        """As :func:`ragseal.prover.planning.chance.comes_back`."""

    # --- what is said ---

    def scale(self, gain: int, window: Window) -> float | None:
        """What one query can shift a score by, in units of the noise; None without noise."""
        return None

    @abstractmethod
    def setting(self, chosen: Candidate) -> str:
        """What the dial is set to, for people."""

    def about(self, chosen: Candidate) -> list[str]:
        """What is said of a recommended policy before the claim's numbers."""
        return []

    def terms(self, policy: Policy) -> dict[str, Any]:
        """What `commit --json` says of a policy besides."""
        return {}

    def terms_in_words(self, terms: Mapping[str, Any]) -> list[str]:
        """The same for people, out of all terms of the policy."""
        return []

    def policy_text(self, text: str) -> str:
        """The template of a policy file as it is under this law."""
        return text
