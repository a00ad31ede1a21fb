# SPDX-License-Identifier: GPL-3.0-or-later
"""The classes of every law that hold a plan's documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from ragseal.circuits.search import count_rows
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.prover.planning.candidates import Shape
from ragseal.prover.planning.laws import law_named, planned_law


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
        which = f" with {law_named(laws[0]).in_words(laws[0])}" if len(laws) == 1 else ""
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
        f"{law_named(law).in_words(law)} is left out: its largest class holds {most[law]:,} documents; split the "
        "corpus into tenants to use it"
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
        return planned_law(like).returning(name, K)
    except PolicyError as error:
        raise ConfigurationError(f"no class of {like.N} slots can return {K}: {error}") from None
