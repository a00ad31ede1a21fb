# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider whose index is three shards, with a record; started as a program it dies while it proves that record.

``python -m tests.crash.shards_window FOLDER ENGINE PROOFS``: by "here" or "workers", after so many proofs.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ragseal.prover.attestation.proofs import Proofs
from ragseal.prover.attestation.shard_proofs import ShardProofs
from ragseal.prover.attestation.statements import ShardProving
from ragseal.prover.provider.provider import Provider
from ragseal.prover.workers.interface import Work, WorkResult
from ragseal.prover.workers.making import ProvingKeys
from tests.classes import TINY
from tests.simulator import provider as scene
from tests.workers.scene import Scripted

SHARDS = 3
KIND = scene.Kind(TINY, SHARDS)


async def make(folder: Path) -> None:
    """With a record that nobody has proven."""
    provider = scene.open_provider(folder, kind=KIND)
    provider.commit(scene.make_policy(KIND, gain=20, n_max=4, k_max=1), "w1")
    async with scene.serving_on(provider) as serving:
        await scene.open_window(serving)
        await scene.Asker("alice", serving).ask("acme report number 5")


def window_of(provider: Provider) -> bytes:
    newest = provider.journal.history.newest
    assert newest is not None
    return newest.digest


def engine_of(provider: Provider) -> Scripted:
    """Honest workers, one assignment at a time."""
    keys = ProvingKeys(provider.state.keys_directory)

    def gives(work: Work) -> WorkResult:
        return keys.prove(work, "honest")

    return Scripted(gives, places=1)


def main() -> None:
    folder, engine, left = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    find = ShardProofs.find

    def dies(self: ShardProofs, manifest: bytes, seq: int, shard: int, one: ShardProving) -> bytes | None:
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return find(self, manifest, seq, shard, one)

    ShardProofs.find = dies  # type: ignore[method-assign]
    provider = scene.open_provider(folder, kind=KIND)
    proofs: Proofs = provider.new_proofs(engine_of(provider) if engine == "workers" else None)
    proofs.prove(window_of(provider), 0)


if __name__ == "__main__":
    main()
