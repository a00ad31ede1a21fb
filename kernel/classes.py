# SPDX-License-Identifier: GPL-3.0-or-later
"""The classes that a policy may name: of the statement with a dither and of the ranked one.  SPEC M.9.

What both have in common: ``name``, ``law``, ``N``, ``K``, ``R``, ``m``, ``q``, ``c``, ``L``, ``step_bits``,
``window_of``, ``shift_of``, and how T is packed.
"""

from __future__ import annotations

from ragseal.kernel.params import CircuitClass
from ragseal.kernel.ranked_class import RankedClass

AttestationClass = CircuitClass | RankedClass
