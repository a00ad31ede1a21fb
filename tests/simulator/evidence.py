# SPDX-License-Identifier: GPL-3.0-or-later
"""What an auditor can fetch from the provider of a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragseal.kernel.commitment import (
    SignedManifest,
)
from ragseal.kernel.inquiry import Ask, BlocksAsk, Delivery, LinksAsk, ProofsAsk, RegistryAsk

if TYPE_CHECKING:
    from tests.simulator.world import World


@dataclass
class SimulatedEvidence:
    """The provider's side of an audit."""

    world: World

    def checkpoint(self) -> bytes:
        return self.world.checkpoint()

    def cosigned(self) -> bytes | None:
        return self.world.cosigned

    def entries(self, start: int, stop: int) -> list[bytes]:
        return self.world.entries()[start:stop]

    def manifest(self, window: str) -> bytes:
        if self.world.shown_manifest is not None:
            return self.world.shown_manifest
        found = [m for m in self.world.messages if isinstance(m, SignedManifest) and window in ("", m.manifest.window)]
        return found[-1].encode()

    def deliver(self, ask: Ask, proof: bytes) -> bytes:
        """Whatever the provider has for an ask, signed by it."""
        match ask:
            case RegistryAsk():
                payload = self.registry()
            case ProofsAsk():
                payload = self.proofs(ask.manifest, ask.seqs)
            case LinksAsk():
                payload = self.estimate(ask.manifest)
            case BlocksAsk():
                payload = self.estimate_proofs(ask.manifest, ask.key_digest, ask.tenant, ask.blocks)
        return Delivery.sign(self.world.window_key, ask.digest(), payload).encode()

    def patiently(self, once: Callable[[], Any]) -> Any:
        return once()

    def registry(self) -> bytes:
        return self.world.registry_payload().encode()

    def index_file(self, manifest: bytes, tenant: str) -> bytes:
        return self.world.files[tenant].encode()

    def thinned_file(self, manifest: bytes, tenant: str) -> bytes:
        return self.world.thinned[manifest, tenant].encode()

    def version_file(self, manifest: bytes, number: int, tenant: str) -> bytes:
        return self.world.version_files[manifest, number, tenant].encode()

    def proofs(self, manifest: bytes, seqs: Sequence[int]) -> bytes:
        self.world.asked.append(list(seqs))
        return self.world.tamper_batch(self.world.batch(manifest, seqs)).encode()

    def estimate(self, manifest: bytes) -> bytes:
        return self.world.estimator.signed().encode()

    def estimate_proofs(
        self, manifest: bytes, key_digest: bytes, tenant: str, blocks: Sequence[Sequence[int]]
    ) -> bytes:
        return self.world.estimator.batch(tenant, blocks).encode()
