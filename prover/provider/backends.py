# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider computes with, and where its secrets and time come from."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ragseal.backends.mechanism import Engine
from ragseal.embedder import Embedder
from ragseal.generators import Generator, SentenceGenerator
from ragseal.kernel.attestation import MAX_OPENINGS_BYTES
from ragseal.kernel.bn254 import Group
from ragseal.prover.base.randomness import Draw
from ragseal.prover.keys.keyring import AttestationKeys, BlockKeys, ThinningKeys
from ragseal.runtime.timer import Timer


@dataclass(frozen=True)
class Environment:
    """Where secrets and time come from, and what its messages hold; outside tests the operating system and gRPC."""

    draw: Draw = secrets.token_bytes
    clock: Callable[[], float] = time.time
    answer_bytes: int = MAX_OPENINGS_BYTES  #: of openings that are sent; a message holds no more
    timer: Timer = field(default_factory=Timer)  #: of the instants at which answers in words leave


@dataclass(frozen=True)
class Backends:
    """What computes: curve, mechanism, keys and embedder of this provider."""

    group: Group
    engine: Engine
    keys: AttestationKeys
    embedder: Embedder  #: of queries
    estimate_keys: Sequence[BlockKeys] = ()
    thinning_keys: ThinningKeys | None = None  #: needed by windows whose claim has a coin
    documents: Callable[[], Embedder] | None = None  #: makes one of documents' own: texts of one embedder queue up
    generator: Generator | None = None  #: of answers in words; None: sentences of the texts

    def writer(self) -> Generator:
        """What answers in words are written by."""
        return self.generator or SentenceGenerator()
