# SPDX-License-Identifier: GPL-3.0-or-later
"""The classes of every law that hold a plan's documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from ragseal.circuits.search import count_rows
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.planning.candidates import Shape, Sizes
from ragseal.prover.planning.laws import law_named


def shapes(classes: Iterable[AttestationClass], laws: Sequence[str], sizes: Sizes, documents: int) -> list[Shape]:
    """Of every law the classes that hold the documents in the fewest rows, which prove fastest.  A law whose classes
    are all too small is left out.

    Args:
        laws: those that may be used.

    Raises:
        ConfigurationError: the corpus fits no class, or no class returns as many ids.
    """
    known, found, largest = list(classes), [], 0
    for law in laws:
        kind, own = law_named(law), [cls for cls in known if cls.law == law]
        largest = max([largest, *map(kind.capacity, own)])
        roomy = [cls for cls in own if documents <= kind.capacity(cls)]
        roomy.sort(key=lambda cls: (-(-documents // cls.N) * _rows(cls), cls.N))
        found += kind.shapes(roomy, sizes, documents) if roomy else []
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
    most = {law: max((law_named(law).capacity(cls) for cls in known if cls.law == law), default=0) for law in missing}
    return [
        f"{law_named(law).in_words(law)} is left out: its largest class holds {most[law]:,} documents; split the "
        "corpus into tenants to use it"
        for law in missing
    ]


@lru_cache(maxsize=256)
def _rows(cls: AttestationClass) -> int:
    """Of the class's circuit: what a proof takes grows with them."""
    return count_rows(cls).rows
