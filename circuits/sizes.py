# SPDX-License-Identifier: GPL-3.0-or-later
"""Which class of decoys holds an index: its size follows from the documents, with room to grow."""

from __future__ import annotations

from fractions import Fraction

from ragseal.circuits.circuit import load_classes
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError

SIZES = ("decoys-4k", "decoys-16k", "decoys-64k", "decoys-180k")  #: from the cheapest proof to the dearest
USUAL = SIZES[0]  #: of a provider that says nothing of its documents
HEAD_ROOM = Fraction(5, 4)  #: slots for each document that there is


def size_for(documents: int) -> tuple[AttestationClass, int]:
    """The smallest class, and how many shards of it an index of so many documents has.

    Raises:
        ConfigurationError: no class holds so many.
    """
    wanted, classes = -(-HEAD_ROOM.numerator * documents // HEAD_ROOM.denominator), load_classes()
    for name in SIZES:
        if wanted <= classes[name].N:
            return classes[name], 1
    largest = classes[SIZES[-1]]
    shards = -(-wanted // largest.N)
    if shards > largest.S:
        raise ConfigurationError(
            f"{documents:,} documents are more than an index holds, {largest.S * largest.N:,} with head-room: spread "
            "them over several tenants"
        )
    return largest, shards
