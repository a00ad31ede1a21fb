# SPDX-License-Identifier: GPL-3.0-or-later
"""The circuit classes that measurements are about where nothing else is asked for; by size, one each."""

from __future__ import annotations

from ragseal.circuits.circuit import load_classes
from ragseal.circuits.search import count_rows
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import ONE_SIDED

QUICK = "noise-tiny-two"  #: 126 slots: shows that everything is measured
SMALL = "noise-small-two-50"
LARGE = "noise-large-one-50"
LEAST_RETURNED = 10  #: classes that return fewer are for tests


def smallest_with_noise(documents: int) -> NoiseClass:
    """The class of one shard whose proofs cost least, with the noise that gives the best answers for a return."""
    known = [cls for cls in load_classes().values() if isinstance(cls, NoiseClass) and cls.law == ONE_SIDED]
    fitting = [cls for cls in known if documents <= cls.N and cls.K >= LEAST_RETURNED]
    return min(fitting, key=lambda cls: (count_rows(cls).domain, -cls.K, cls.N))
