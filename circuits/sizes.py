# SPDX-License-Identifier: GPL-3.0-or-later
"""Which class holds an index: its size follows from the claim and the documents, with room to grow."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from ragseal.circuits.circuit import load_classes
from ragseal.kernel.claims import form_of
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError

SIZES = ("decoys-4k", "decoys-8k", "decoys-16k", "decoys-64k", "decoys-128k")  #: from the cheapest proof to the dearest
USUAL = SIZES[0]  #: of a provider that says nothing of its documents
OF_LISTS = ("noise-small-gaussian-50", "noise-large-gaussian-50")  #: of the claim every-list: the paper's noise
HEAD_ROOM = Fraction(5, 4)  #: slots for each document that there is


def names_for(claim: str) -> tuple[str, ...]:
    """Classes that hold a claim, from the cheapest proof to the dearest."""
    return OF_LISTS if form_of(claim).noisy else SIZES


def size_for(
    documents: int, among: Iterable[AttestationClass] = (), names: Iterable[str] = SIZES
) -> tuple[AttestationClass, int]:
    """The smallest class, and how many shards of it an index of so many documents has.

    Args:
        among: classes to choose from; none: those that ``names`` names.

    Raises:
        ConfigurationError: no class holds so many.
    """
    known = load_classes()
    classes = sorted(among, key=lambda cls: cls.N) or [known[name] for name in names]
    wanted, largest = -(-HEAD_ROOM.numerator * documents // HEAD_ROOM.denominator), classes[-1]
    found = next((cls for cls in classes if wanted <= cls.N), largest)
    shards = -(-wanted // found.N)
    if shards > found.S:
        raise ConfigurationError(
            f"{documents:,} documents are more than an index holds, {largest.S * largest.N:,} with head-room: spread "
            "them over several tenants"
        )
    return found, max(1, shards)
