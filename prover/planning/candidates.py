# SPDX-License-Identifier: GPL-3.0-or-later
"""Among what a plan chooses: classes of every law that hold the documents, score windows, and policies made of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragseal.circuits.search import complete_lottery, complete_noise, count_rows
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.lottery_class import LOTTERY, LotteryClass
from ragseal.kernel.params import NOISE_LAWS, SCORE_UNIT
from ragseal.prover.planning.budgets import Budget

COSINE_ONE = SCORE_UNIT * SCORE_UNIT
PLANNED_LAWS = (*NOISE_LAWS, LOTTERY)  #: those that a plan compares


@dataclass(frozen=True, slots=True)
class Shape:
    """A circuit class that a plan may use."""

    cls: AttestationClass
    available: bool  #: in a class file; others have to be built and get keys first


@dataclass(frozen=True, slots=True)
class Window:
    """A score window in units of y."""

    lo: int
    hi: int

    @classmethod
    def of(cls, lo: float, hi: float) -> Window:
        """From cosines."""
        return cls(round(lo * COSINE_ONE), round(hi * COSINE_ONE))

    @property
    def cosines(self) -> tuple[float, float]:
        return round(self.lo / COSINE_ONE, 4), round(self.hi / COSINE_ONE, 4)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that a plan may recommend: all that its epsilon and the quality of its answers depend on.

    Raises:
        PolicyError: prizes that the class does not have.
    """

    shape: Shape
    window: Window
    gain: int
    budget: Budget
    prizes: int = 0  #: under the lottery, 1 to the class's; 0 of another law

    def __post_init__(self) -> None:
        most = self.cls.prizes if isinstance(self.cls, LotteryClass) else 0
        if not min(1, most) <= self.prizes <= most:
            raise PolicyError(f"class {self.cls.name!r} has {most} prizes at most and {self.prizes} are asked for")

    @property
    def cls(self) -> AttestationClass:
        return self.shape.cls


def in_words(law: str) -> str:
    """A law for people: "one-sided-16 noise", "the lottery"."""
    return "the lottery" if law == LOTTERY else f"{law} noise"


def shapes(
    classes: Iterable[AttestationClass], laws: Sequence[str], returned: Sequence[int], documents: int
) -> list[Shape]:
    """For every law and K the class that holds the documents in the fewest rows, which proves fastest; for a K that no
    class has, what it would be.  A law whose classes are all too small is left out.

    Args:
        laws: those that may be used.

    Raises:
        ConfigurationError: the corpus fits no class.
    """
    known, found, largest = list(classes), [], 0
    for law in laws:
        own = [cls for cls in known if cls.law == law]
        largest = max([largest, *(cls.N for cls in own)])
        roomy = sorted((cls for cls in own if documents <= cls.N), key=lambda cls: (_rows(cls), cls.N))
        for K in returned if roomy else ():
            like = next((cls for cls in roomy if cls.K == K), None)
            found.append(Shape(_returning(roomy[0], K), False) if like is None else Shape(like, True))
    if not found:
        which = f" with {in_words(laws[0])}" if len(laws) == 1 else ""
        raise ConfigurationError(
            f"{documents} documents fit no class{which}, the largest holds {largest}: split the corpus into tenants"
        )
    return found


def ready(used: Sequence[Shape]) -> list[Shape]:
    """Those that have a class; of a law that has none at all, what it would be."""
    there = {shape.cls.law for shape in used if shape.available}
    return [shape for shape in used if shape.available or shape.cls.law not in there]


def left_out(classes: Iterable[AttestationClass], laws: Sequence[str], used: Sequence[Shape]) -> list[str]:
    """Why :func:`shapes` has no class of some laws, a sentence each."""
    known, there = list(classes), {shape.cls.law for shape in used}
    missing = [law for law in laws if law not in there]
    most = {law: max((cls.N for cls in known if cls.law == law), default=0) for law in missing}
    return [
        f"{in_words(law)} is left out: its largest class holds {most[law]:,} documents; split the corpus into tenants "
        "to use it"
        for law in missing
    ]


@lru_cache(maxsize=256)
def _rows(cls: AttestationClass) -> int:
    """Of the class's circuit: what a proof takes grows with them."""
    return count_rows(cls).rows


def _returning(like: AttestationClass, K: int) -> AttestationClass:
    """A class of the same slots that returns so many.

    Raises:
        ConfigurationError: there is none.
    """
    name = f"{like.name}-k{K}"
    try:
        if isinstance(like, LotteryClass):
            return complete_lottery(name, like.N, K, like.m, like.q, like.c, like.prizes)
        return complete_noise(name, like.law, like.N, K, like.m, like.q, like.c, like.S)
    except PolicyError as error:
        raise ConfigurationError(f"no class of {like.N} slots can return {K}: {error}") from None
