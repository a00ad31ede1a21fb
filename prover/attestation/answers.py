# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer as a function of ledger and secrets: openings of T and a receipt for a durable record.  SPEC B.4.

Nothing of it is stored.  Whoever asks again, after whatever crash, gets the same bytes, because every part is fixed:
the record and its proof by the ledger, T and its salt by the stored secrets, signatures by Ed25519, and the ephemeral
key of the seal by a secret of the window.
"""

from __future__ import annotations

from dataclasses import replace

from ragseal.kernel import signature
from ragseal.kernel.attestation import (
    MAX_OPENINGS_BYTES,
    AnswerAsk,
    Openings,
    Receipt,
    ReceiptBody,
    Record,
    SealedAnswer,
    SlotOpening,
    reseal_openings,
    seal_openings,
    sealed_digest,
)
from ragseal.kernel.errors import AttestationError
from ragseal.prover.attestation.retrieval import QUERY_KEY, QuerySecrets, query_key
from ragseal.prover.commitment.index import Version
from ragseal.prover.commitment.vocabularies import stored_vocabulary
from ragseal.prover.commitment.window_secrets import WindowSecrets
from ragseal.prover.storage.journal import Entry
from ragseal.prover.storage.retirement import require_kept
from ragseal.prover.storage.state import State


def secrets_of_record(state: State, record: Record) -> QuerySecrets:
    """What is kept of a record's query.

    Raises:
        AttestationError: nothing, or what belongs to another record; the message says how to go on.
    """
    place = query_key(record.manifest, record.signed)
    stored = state.row(f"SELECT secrets FROM queries WHERE {QUERY_KEY}", place)
    if stored is None:
        require_kept(state, record.manifest)
        raise AttestationError("the answer to this request is lost: the provider must restore state.db")
    kept = QuerySecrets.decode(stored[0])
    if (kept.c_y, kept.t_commits) != (record.c_y, record.t_commits):
        raise AttestationError("the stored secrets belong to a different record: the provider must restore state.db")
    return kept


class Answers:
    """Makes the answers of one provider.  Methods may be called from any thread."""

    def __init__(self, state: State, most: int = MAX_OPENINGS_BYTES) -> None:
        """``most``: bytes of openings that are sent."""
        self._state, self._most = state, most

    def openings(self, secrets: WindowSecrets, version: Version, kept: QuerySecrets) -> Openings:
        """What an answer opens, from the ``version`` that its request names; made before the answer has a record.

        Texts of flagged slots only: a slot without the flag is returned by its noise, and there is nothing to read.
        Not of the one that the window's guard withholds.  Where the claim is answers a slot's text is its keyword, and
        no document's.

        Raises:
            AttestationError: it is too long to be sent.  The index would not have been committed (SPEC A.4.3).
        """
        made = self._opened(secrets, version, kept)
        length = len(made.encode())
        if length > self._most:
            raise AttestationError(
                f"an answer of {length} bytes cannot be sent, {self._most} can: nothing was recorded. The provider has "
                "to commit shorter texts"
            )
        return made

    def _opened(self, secrets: WindowSecrets, version: Version, kept: QuerySecrets) -> Openings:
        policy = secrets.signed.manifest.rules(version.tenant)
        words = stored_vocabulary(self._state, policy.vocabulary, len(version.matrix)) if policy.answers else None
        read = version.open_text if words is None else words.open_text
        readable = {one.slot for one in kept.returned if one.flag} - set(kept.withheld)
        opened = [
            SlotOpening(one.slot, one.flag, (read(one.slot),) if one.slot in readable else ()) for one in kept.returned
        ]
        return Openings(kept.t_salt, tuple(opened), kept.answer)

    def sealed(self, secrets: WindowSecrets, record: Record, entry: Entry, openings: Openings) -> SealedAnswer:
        """The answer for a record that is in the ledger as ``entry``."""
        sealed = seal_openings(record, openings, secrets.blinding)
        body = ReceiptBody(
            manifest=record.manifest,
            request_digest=record.signed.request.digest(),
            record_digest=record.digest(),
            seq=record.seq,
            index=entry.index,
            openings_digest=openings.digest(),
            sealed_digest=sealed_digest(sealed),
            checkpoint=entry.checkpoint,
        )
        signed = signature.sign(secrets.key, "receipt", body.encode())
        return SealedAnswer(record, sealed, Receipt(body, signed, entry.path))

    def again(
        self, secrets: WindowSecrets, version: Version, entry: Entry, ask: AnswerAsk | None = None
    ) -> SealedAnswer:
        """The answer for the record that is ``entry`` of the ledger, from what is stored.

        Args:
            version: that the record names.
            ask: seals the openings for this ask, under the receipt as it was.

        Its length was found out before there was a record, so it is not asked again: the next request of this account
        has to acknowledge it.

        Raises:
            AttestationError: its secrets are lost.
        """
        record = Record.decode(entry.data)
        openings = self._opened(secrets, version, secrets_of_record(self._state, record))
        made = self.sealed(secrets, record, entry, openings)
        return made if ask is None else replace(made, sealed=reseal_openings(ask, record, openings, secrets.blinding))
