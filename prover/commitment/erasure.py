# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents that somebody has a right to have erased: asked, out of answers, purged.  SPEC G.12.

An erasure takes the document out of the next version at once and waits for the windows that were committed with it;
once all of these are retired nothing of it is left here.  Until then its id is kept, to say what is waited for; then
only a keyed hash of tenant and id, so that no source brings it back by itself and its erasure is found again.
"""

from __future__ import annotations

import hmac
import sqlite3
from dataclasses import dataclass

from ragseal.kernel.errors import CommitmentError
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment import document_rows, documents
from ragseal.prover.storage import tombstones
from ragseal.prover.storage.state import State

MAX_REASON = 200  #: characters


@dataclass(frozen=True, slots=True)
class Erasure:
    """One request."""

    number: int
    tenant: str
    document: str | None  #: its id, until it is purged
    reason: str
    asked: int  #: seconds since 1970
    purged: int | None
    windows: tuple[bytes, ...]  #: manifests of those that were committed with it


def erase(state: State, tenant: str, name: str, reason: str, now: int, draw: Draw) -> int:
    """Take a document out of the next version, keep its source from bringing it back, and queue what else has it.

    One transaction.  No window may be committed meanwhile.

    Returns:
        The number of the erasure.

    Raises:
        CommitmentError: no reason, too long a one, or no such document: neither now, nor in a window that is kept, nor
            in an encrypted copy that its key would open.
    """
    documents.check_name(tenant)
    if not reason.strip() or len(reason) > MAX_REASON or not reason.isprintable():
        raise CommitmentError(f"the reason of an erasure is 1 to {MAX_REASON} printable characters on one line")
    here = "FROM documents WHERE tenant = ? AND document = ?"
    with state.transaction() as db:
        key = tombstones.key_of(db, draw)
        digest = tombstones.hash_of(key, tenant, name)
        present = db.execute(f"SELECT 1 {here}", (tenant, name)).fetchone() is not None
        query = "SELECT DISTINCT manifest FROM version_texts WHERE tenant = ? AND document = ?"
        holding = [one for (one,) in db.execute(query, (tenant, name)).fetchall()]
        copied = db.execute("SELECT 1 FROM copy_keys WHERE name = ?", (b"d" + digest,)).fetchone() is not None
        if not present and not holding and not copied:
            raise CommitmentError(
                f"tenant {tenant!r} has no document {name[:80]!r}, and no window that is kept was committed with one: "
                "nothing was changed; `documents list` shows what is there, `documents erasures` what was erased"
                + _perhaps_in(db)
            )
        if present:
            document_rows.remove(db, tenant, name)
        document_rows.changed(db, tenant)  # a sync that looked for erased ones before would bring it back
        db.execute("INSERT OR IGNORE INTO erased VALUES (?)", (digest,))
        db.execute("DELETE FROM copy_keys WHERE name = ?", (b"d" + digest,))  # and older copies forget it, too
        row = (tenant, digest, name, reason, now)
        made = db.execute(
            "INSERT INTO erasures (tenant, hash, document, reason, asked, purged) VALUES (?, ?, ?, ?, ?, NULL)", row
        )
        number = int(made.lastrowid or 0)
        db.executemany("INSERT INTO erasure_windows VALUES (?, ?)", [(number, one) for one in holding])
    return number


def _perhaps_in(db: sqlite3.Connection) -> str:
    """What to say of plain copies where nothing else has a document; of what they hold no list is kept."""
    query = "SELECT folder FROM backups WHERE NOT sealed ORDER BY made, rowid"
    plain = [str(folder) for (folder,) in db.execute(query)]
    if not plain:
        return ""
    which = plain[0] if len(plain) == 1 else f"{plain[0]} ... {plain[-1]}"
    return f". Plain copies of the folder may hold one that was deleted, delete them: {which}"


def erasures(state: State, tenant: str = "", name: str = "") -> list[Erasure]:
    """Every request, oldest first; of one document where ``name`` is its id, of one tenant where that is named."""
    query = "SELECT number, tenant, hash, document, reason, asked, purged FROM erasures ORDER BY number"
    key = tombstones.known_key(state)
    held: dict[int, list[bytes]] = {}
    for number, manifest in state.rows("SELECT number, manifest FROM erasure_windows ORDER BY rowid"):
        held.setdefault(number, []).append(bytes(manifest))
    found = []
    for number, whose, digest, document, reason, asked, purged in state.rows(query):
        if tenant and whose != tenant:
            continue
        if name and (key is None or not hmac.compare_digest(tombstones.hash_of(key, whose, name), digest)):
            continue
        found.append(
            Erasure(
                number=number,
                tenant=whose,
                document=document,
                reason=reason,
                asked=asked,
                purged=purged,
                windows=tuple(held.get(number, ())),
            )
        )
    return found


_WAITING = (
    "SELECT 1 FROM erasure_windows w LEFT JOIN retirements r ON r.manifest = w.manifest "
    "WHERE w.number = erasures.number AND r.manifest IS NULL "
    "AND EXISTS (SELECT 1 FROM windows k WHERE k.manifest = w.manifest)"
)


def forget_ids(state: State) -> None:
    """Drop the ids of erasures all of whose windows are retired."""
    with state.transaction() as db:
        db.execute(f"UPDATE erasures SET document = NULL WHERE purged IS NULL AND NOT EXISTS ({_WAITING})")


def end(state: State, now: int) -> None:
    """Nothing of those whose ids are forgotten is left."""
    with state.transaction() as db:
        gone = f"purged IS NULL AND document IS NULL AND NOT EXISTS ({_WAITING})"
        db.execute(f"UPDATE erasures SET purged = ? WHERE {gone}", (now,))


def waits_for(state: State, one: Erasure) -> list[bytes]:
    """Manifests of windows that still have the document."""
    return [] if one.purged is not None else [manifest for manifest in one.windows if _kept(state, manifest)]


def _kept(state: State, manifest: bytes) -> bool:
    query = (
        "SELECT 1 FROM windows w LEFT JOIN retirements r ON r.manifest = w.manifest "
        "WHERE w.manifest = ? AND r.manifest IS NULL"
    )
    return state.row(query, (manifest,)) is not None


# --- copies elsewhere ------------------------------------------------------------------------------------------------


def remember_backup(state: State, folder: str, now: int, sealed: bool) -> int:
    """Keep where a copy goes, so that a list of erasures can name those that hold what was erased; gives its row."""
    with state.transaction() as db:
        return int(db.execute("INSERT INTO backups VALUES (?, ?, ?)", (folder, now, sealed)).lastrowid or 0)


def forget_backup(state: State, row: int) -> None:
    """There is no such copy after all."""
    with state.transaction() as db:
        db.execute("DELETE FROM backups WHERE rowid = ?", (row,))


def backups_before(state: State, moment: int | None) -> list[str]:
    """Folders of plain copies that were made before a document was purged; all of them where it is not yet."""
    rows = state.rows("SELECT folder, made FROM backups WHERE NOT sealed ORDER BY made, rowid")
    return [str(folder) for folder, made in rows if moment is None or made <= moment]
