# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of one update with all that answering from them and proving it takes, kept whole.  SPEC A.12."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ragseal.kernel.enrolment import Enrolments
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.commitment import index, slots
from ragseal.prover.commitment.dropped import is_dropped
from ragseal.prover.commitment.enrolling import store_enrolments
from ragseal.prover.commitment.index import Version
from ragseal.prover.commitment.texts import settle
from ragseal.prover.commitment.window_secrets import insert_version
from ragseal.prover.storage.retirement import require_kept
from ragseal.prover.storage.state import State


@dataclass(frozen=True, slots=True, weakref_slot=True)
class UpdateSecrets:
    """An update with the versions that it names.  Never printed, never sent."""

    entry: IndexUpdate  #: its time is that of its tick
    versions: Mapping[str, Version]  #: by tenant
    enrolments: Enrolments | None = None  #: all accounts up to this version, of one that is just made

    def __repr__(self) -> str:
        return f"UpdateSecrets({self.entry.number})"


def update_key(manifest: bytes, number: int) -> bytes:
    """What an update goes by in memory."""
    return manifest + number.to_bytes(4, "big")


def store_update(state: State, made: UpdateSecrets) -> None:
    """Make an update's secrets durable; must come before its entry.

    Its texts are read from what is stored here from now on: the snapshot that it was made of may end.  What a run left
    under the same number that broke off before its entry is replaced: nobody has seen it.
    """
    manifest, number = made.entry.manifest, made.entry.number
    require_kept(state, manifest)  # it was closed while this was made, and retired at once
    with state.transaction() as db:
        db.execute("DELETE FROM versions WHERE manifest = ? AND number >= ?", (manifest, number))
        slots.withdraw(db, manifest, number)
        for version in made.versions.values():
            insert_version(db, manifest, version)
        if made.enrolments is not None:
            store_enrolments(db, manifest, made.enrolments)
    for version in made.versions.values():
        settle(version.texts, slots.version_slots(state, manifest, version.tenant, number))


def load_update(state: State, entry: IndexUpdate) -> UpdateSecrets:
    """What :func:`store_update` kept.

    Args:
        entry: the log's.

    Raises:
        CommitmentError: this state holds no such versions, or others than the log names: answers from those would
            convict this provider.
    """
    if is_dropped(state, entry.manifest, entry.number):
        raise CommitmentError(
            f"version {entry.number} of the indices was deleted: no record named it when two newer ones were there"
        )
    versions = {}
    for line in entry.tenants:
        version = index.load_version(state, entry.manifest, line.tenant, bool(line.proof_digests), entry.number)
        if version.updated != line:
            raise CommitmentError(
                f"this provider's state does not hold version {entry.number} of the index of tenant {line.tenant!r} "
                "that the ledger names: restore the newest state.db"
            )
        versions[line.tenant] = replace(version, named=entry.index_digest(line.tenant))
    return UpdateSecrets(entry, versions)


def documents_waiting(state: State, manifest: bytes, number: int) -> int:
    """How many documents differ from those of a version: put, changed or deleted since, tenants of the window only.

    Those that wait for a place are not among them.
    """
    query = """
        SELECT (SELECT COUNT(*) FROM documents d LEFT JOIN version_texts v
                ON v.manifest = ?1 AND v.number <= ?2 AND (v.until IS NULL OR v.until > ?2)
                AND v.tenant = d.tenant AND v.document = d.document
                WHERE (v.document IS NULL OR v.text <> d.text OR v.metadata <> d.metadata)
                AND d.slot >= 0 AND d.tenant IN (SELECT tenant FROM versions WHERE manifest = ?1 AND number = 0))
             + (SELECT COUNT(*) FROM version_texts v LEFT JOIN documents d
                ON v.tenant = d.tenant AND v.document = d.document
                WHERE v.manifest = ?1 AND v.number <= ?2 AND (v.until IS NULL OR v.until > ?2)
                AND d.document IS NULL)
    """
    found = state.row(query, (manifest, number))
    return 0 if found is None else int(found[0])
