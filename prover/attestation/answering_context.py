# SPDX-License-Identifier: GPL-3.0-or-later
"""What answering takes besides state.  SPEC B."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragseal.backends.mechanism import Engine
from ragseal.embedder import Embedder
from ragseal.generators import Generator
from ragseal.kernel.attestation import MAX_OPENINGS_BYTES
from ragseal.kernel.bn254 import Group
from ragseal.prover.attestation.under_way import UnderWay
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment.readings import Readings
from ragseal.runtime.timer import Timer


@dataclass(frozen=True)
class AnsweringContext:
    """Engine, curve, embedder, and the edges' clock and randomness."""

    group: Group
    engine: Engine
    embedder: Embedder
    draw: Draw
    clock: Callable[[], float]  #: seconds since 1970
    timer: Timer
    under_way: UnderWay
    readings: Readings  #: for the generator of sentences
    answer_bytes: int = MAX_OPENINGS_BYTES  #: of openings that are sent
    generator: Generator | None = None  #: of answers in words; windows of the claim answers need one
