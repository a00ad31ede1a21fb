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
from ragseal.verifier.evidence.evidence import Auditor, Evidence, Refused, Undecided
from ragseal.verifier.steps.manifest import Entered


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks about one window."""

    window: Entered
    auditor: Auditor
    evidence: Evidence
    now: Callable[[], int]  #: seconds since 1970
    random: Callable[[int], bytes]

    def registry(self) -> bytes:
        """A Registry."""
        return self._deliver(RegistryAsk)

    def proofs(self, seqs: Sequence[int]) -> bytes:
        """ProofBatch of exactly these records."""
        return self._deliver(lambda window, now, new: ProofsAsk(window, now, new, tuple(seqs)))

    def links(self) -> bytes:
        """SignedLinks of the window."""
        return self._deliver(LinksAsk)

    def blocks(self, key_digest: bytes, tenant: str, blocks: Sequence[Sequence[int]]) -> bytes:
        """BlockBatch of exactly these blocks of a tenant's records, proven under this key."""
        wanted = tuple(tuple(ranks) for ranks in blocks)
        return self._deliver(lambda window, now, new: BlocksAsk(window, now, new, key_digest, tenant, wanted))

    def _deliver(self, make: Callable[[bytes, int, bytes], Ask]) -> bytes:
        """The payload that the provider signed for an ask; asked again, each time anew, while nothing of that comes.

        Raises:
            Refused: the provider signed that it withholds what it owes.
            Undecided: it signed that it has no proofs under this auditor's key, or refuses without signing that.
            TransportError: what came is not signed by the provider, or nothing came.
        """
        return self.evidence.patiently(lambda: self._once(make(self.window.digest, self.now(), self.random(16))))

    def _once(self, ask: Ask) -> bytes:
        data = self.evidence.deliver(ask, self.auditor.sign(ask))
        try:
            answer = open_delivery(data, ask, self.window.manifest.window_key)
        except (AttestationError, EncodingError) as error:
            raise TransportError(f"what was delivered is not the provider's word: {error}") from None
        if not isinstance(answer, Refusal):
            return answer.payload
        signed = {"ask": ask.encode(), "refusal": answer.encode()}
        if isinstance(ask, BlocksAsk):
            raise Undecided(
                f"the provider does not prove the estimate under this auditor's key: {answer.reason}",
                "let the provider fetch this auditor's keys (fetch-keys), and audit again",
                **signed,
            )
        raise Refused(f"withheld: the provider signed that it does not deliver what it owes: {answer.reason}", **signed)
