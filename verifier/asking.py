# SPDX-License-Identifier: GPL-3.0-or-later
"""What this auditor asks a provider for with its signature, and what counts as the provider's answer.  SPEC G.8.

What comes back is the provider's word only if the provider signed it for this very ask.  Anything else may be
anybody's: it is no evidence, and no verdict follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragseal.kernel.errors import AttestationError, EncodingError, TransportError
from ragseal.kernel.inquiry import Ask, BlocksAsk, LinksAsk, ProofsAsk, Refusal, RegistryAsk, open_delivery
from ragseal.verifier.commitment import Window
from ragseal.verifier.evidence import Auditor, Evidence, Refused


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks about one window."""

    window: Window
    auditor: Auditor
    evidence: Evidence
    now: Callable[[], int]  #: seconds since 1970
    random: Callable[[int], bytes]

    def registry(self) -> bytes:
        """A Registry; not signed by itself, its root is the manifest's."""
        return self._deliver(RegistryAsk(self.window.digest, self.now(), self.random(16)))

    def proofs(self, seqs: Sequence[int]) -> bytes:
        """ProofBatch of exactly these records."""
        return self._deliver(ProofsAsk(self.window.digest, self.now(), self.random(16), tuple(seqs)))

    def links(self) -> bytes:
        """SignedLinks of the window."""
        return self._deliver(LinksAsk(self.window.digest, self.now(), self.random(16)))

    def blocks(self, key_digest: bytes, tenant: str, blocks: Sequence[Sequence[int]]) -> bytes:
        """BlockBatch of exactly these blocks of a tenant's records, proven under this key."""
        wanted = tuple(tuple(ranks) for ranks in blocks)
        return self._deliver(BlocksAsk(self.window.digest, self.now(), self.random(16), key_digest, tenant, wanted))

    def _deliver(self, ask: Ask) -> bytes:
        """The payload that the provider signed for this ask.

        Raises:
            Refused: the provider signed that it does not deliver.
            TransportError: what came is not signed by the provider, or nothing came: no verdict.
        """
        data = self.evidence.deliver(ask, self.auditor.sign(ask))
        provider_key = self.window.manifest.provider_key
        try:
            answer = open_delivery(data, ask, provider_key)
        except (AttestationError, EncodingError) as error:
            raise TransportError(f"what was delivered is not the provider's word: {error}") from None
        if isinstance(answer, Refusal):
            raise Refused(
                f"the provider refuses to deliver what it owes: {answer.reason}",
                ask=ask.encode(),
                refusal=answer.encode(),
            )
        return answer.payload
