# SPDX-License-Identifier: GPL-3.0-or-later
"""A window whose log turns its key, and what somebody with the old key could sign."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ragseal.kernel.rotation import Rotation
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.signing import LogSigner
from ragseal.ledger.turns import TurnProof
from tests.simulator.parties import ORIGIN, key_of
from tests.simulator.world import World


class Turning(World):
    """Its auditor is given the first key."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.log_signer = LogSigner.of(self.signer)
        #: signs the newest note instead of the log, over the log as it is
        self.by: Callable[[Checkpoint], bytes] | None = None

    @property
    def size(self) -> int:
        return len(self.messages)

    def root(self, size: int) -> bytes:
        return MerkleTree(self.entries()[:size]).root()

    def turn(self, name: str = "second log key", overlap: int = 0, **changes: Any) -> Rotation:
        """Turn the log to the key of this name; ``changes`` override fields, which both keys sign."""
        new = NoteSigner(ORIGIN, key_of(name))
        old = self.log_signer.key(self.log_signer.log.newest.public_key)
        assert old is not None
        honest = replace(self.log_signer, signers=(new, *self.log_signer.signers))
        made = honest.turn(new, self.size, self.root(self.size), overlap)
        self.messages.append(replace(made, **changes).signed(old.private_key, new.private_key) if changes else made)
        self.log_signer = honest.turned(made)
        return made

    def proofs(self) -> list[TurnProof]:
        """Every turn as an account is shown it."""
        tree, sizes = MerkleTree(self.entries()), [turn.index + 1 for turn in self.log_signer.log.turns]
        return [
            TurnProof(
                turn,
                tuple(tree.path(turn.index, size)),
                self.log_signer.note(Checkpoint(ORIGIN, size, self.root(size))),
            )
            for turn, size in zip(self.log_signer.log.turns, sizes, strict=True)
        ]

    def checkpoint(self, signer: NoteSigner | None = None) -> bytes:
        point = Checkpoint(ORIGIN, self.size, self.root(self.size))
        if signer is not None:
            return point.sign(signer)
        return self.by(point) if self.by is not None else self.log_signer.note(point)

    @classmethod
    def turned(cls, overlap: int = 0, **changes: Any) -> Turning:
        """A closed window whose log turned its key between its third and its fourth record."""
        world = cls()
        world.commit()
        for account in ("alice", "bob", "carol"):
            world.ask(account)
        world.turn(overlap=overlap, **changes)
        for account in ("alice", "carol", "alice", "bob"):
            world.ask(account)
        world.close()
        return world
