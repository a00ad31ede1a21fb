# SPDX-License-Identifier: GPL-3.0-or-later
"""A window is retired: what it kept of documents, queries and noise is purged; what is public stays.  SPEC G.13.

Each step is durable before the next begins, and each may be done again, so that a start after a crash anywhere goes on
where it stopped: that the window is retired, first, after which nobody is given its secrets; rows; the matrices that no
row names any more; the pages and the write-ahead log that held the rows; that all of it is done.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from ragseal.kernel.errors import AttestationError, ConfigurationError
from ragseal.kernel.verdict import PASSED
from ragseal.prover.storage.history import History
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.shred import shred

DAY = 86400
DEFAULT_RETAIN = 14 * DAY
MOST_RETAIN = 29 * DAY  #: a day is left for proofs that could not be made
LATEST = 30 * DAY  #: seconds after its closing at which a window is retired whatever stands in the way

WINDOW_TABLES = (
    "windows", "window_keys", "window_accounts", "enrolments", "enrolment_secrets", "versions", "version_texts",
    "thinnings",
)  # fmt: skip


def is_retired(state: State, manifest: bytes) -> bool:
    """Whether a window's secrets are purged, or are being purged."""
    return state.row("SELECT 1 FROM retirements WHERE manifest = ?", (manifest,)) is not None


def refusal() -> AttestationError:
    """What is said of a window that is retired."""
    return AttestationError(
        "this window is retired: its texts, queries and secrets are purged. Its receipts stay valid; a full audit is "
        "given the proofs that were made before, and nothing else of it can be answered or proven any more"
    )


def require_kept(state: State, manifest: bytes) -> None:
    """Raises AttestationError: the window is retired, and what is asked for cannot be made any more."""
    if is_retired(state, manifest):
        raise refusal()


def forgotten(window: Window, now: float) -> bool:
    """Whether a window's time was over a day ago and nobody has closed it, open or not."""
    return window.close is None and now >= window.closes + DAY


def over(history: History, window: Window, now: float) -> bool:
    """Whether a window answers nobody any more: it is closed, or never opens, passed over or with its time over."""
    never = window.beacon is None and forgotten(window, now)
    return window.stage is Stage.CLOSED or history.passed_over(window) or never


def passed(window: Window) -> bool:
    """Whether every auditor that the manifest names has entered that a window passed, and none anything worse."""
    good = {one.auditor for one in window.verdicts.values() if one.outcome in PASSED}
    failed = any(one.outcome == "FAIL" for one in window.verdicts.values())
    return not failed and good >= {seat.public_key for seat in window.manifest.auditors}


def due_at(history: History, window: Window, retain: int, on_pass: bool = False) -> float | None:
    """From when on a window is retired by itself, in seconds since 1970; None while it is open.

    One that never opens is audited by nobody: it is due at once if it was passed over, else a day after its time.

    Args:
        on_pass: a day is enough for one that has :func:`passed`; accounts ask again for what got lost within that.
    """
    if window.close is not None:
        return float(window.close.time + (min(retain, DAY) if on_pass and passed(window) else retain))
    if history.passed_over(window):
        return 0.0
    return float(window.closes + DAY) if window.beacon is None else None


def latest_at(history: History, window: Window, retain: int) -> float:
    """When a window is retired at the latest, by a provider that runs all the while: also of one that is open."""
    due = due_at(history, window, retain)
    return float(window.closes + DAY + retain) if due is None else due


# --- the steps -------------------------------------------------------------------------------------------------------


def begin(state: State, manifest: bytes, now: int) -> None:
    """From here on the window's secrets are nobody's, and whatever stops the purge, the next start takes it up."""
    with state.transaction() as db:
        db.execute("INSERT OR IGNORE INTO retirements VALUES (?, ?, NULL)", (manifest, now))


def unfinished(state: State) -> list[bytes]:
    """Windows whose purge was begun."""
    return [bytes(one) for (one,) in state.rows("SELECT manifest FROM retirements WHERE ended IS NULL")]


def purge_rows(state: State, manifest: bytes, keep_coin: bool) -> None:
    """Delete a window's texts, salts, blinders, hidden slots, queries and seeds; what is public stays.

    Args:
        keep_coin: a later window may carry these coins on (A.11.9).
    """
    with state.transaction() as db:
        for table in ("version_texts", "queries", "prepared", "shard_proofs"):
            db.execute(f"DELETE FROM {table} WHERE manifest = ?", (manifest,))
        db.execute("UPDATE versions SET secret = x'', blinders = x'', matrix = '' WHERE manifest = ?", (manifest,))
        db.execute("UPDATE thinnings SET hidden = x'', blinders = x'' WHERE manifest = ?", (manifest,))
        db.execute("UPDATE windows SET seed = x'', nonce = x'', blinding = x'' WHERE manifest = ?", (manifest,))
        db.execute("DELETE FROM copy_keys WHERE name = ?", (b"w" + manifest,))  # and older copies forget it, too
        if not keep_coin:
            _forget_coins(db, [manifest])


def purge_coins(state: State, kept: Collection[bytes]) -> bool:
    """Delete the coin seeds of retired windows that no later one can carry on; whether there were any.

    Args:
        kept: digests of windows whose coins may still be carried on.
    """
    query = "SELECT w.manifest FROM windows w JOIN retirements r ON r.manifest = w.manifest WHERE coin_seed IS NOT NULL"
    gone = [bytes(one) for (one,) in state.rows(query) if one not in kept]
    if gone:
        with state.transaction() as db:
            _forget_coins(db, gone)
    return bool(gone)


def _forget_coins(db: sqlite3.Connection, manifests: Collection[bytes]) -> None:
    """Of these windows, and older copies forget them, too."""
    db.executemany("UPDATE windows SET coin_seed = NULL WHERE manifest = ?", [(one,) for one in manifests])
    db.executemany("DELETE FROM copy_keys WHERE name = ?", [(b"c" + one,) for one in manifests])


def purge_leftovers(state: State, known: Collection[bytes]) -> None:
    """Matrices that no row names any more, and what a crash left of windows that never entered the ledger.

    Nothing may be committed meanwhile.

    Args:
        known: digests of the ledger's windows.  A window with requests that the ledger lacks is left: ``fsck`` tells.
    """
    query = "SELECT manifest FROM windows w WHERE NOT EXISTS (SELECT 1 FROM queries q WHERE q.manifest = w.manifest)"
    gone = [(one,) for (one,) in state.rows(query) if one not in known]
    if gone:
        with state.transaction() as db:
            for table in WINDOW_TABLES:
                db.executemany(f"DELETE FROM {table} WHERE manifest = ?", gone)
    named = {name for (name,) in state.rows("SELECT matrix FROM versions")}
    for path in sorted(state.windows_directory.iterdir()):
        if path.name not in named:
            shred(path)


def end(state: State, now: int) -> None:
    """All that was begun is done."""
    with state.transaction() as db:
        db.execute("UPDATE retirements SET ended = ? WHERE ended IS NULL", (now,))


# --- how long --------------------------------------------------------------------------------------------------------


def retain_of(state: State) -> int:
    """For how many seconds after its closing a window is kept."""
    found = state.row("SELECT retain FROM erasing")
    return DEFAULT_RETAIN if found is None else int(found[0])


def set_retain(state: State, seconds: int, draw_key: bytes) -> None:
    """Keep windows for so long from now on.

    Args:
        draw_key: 32 random bytes, for a state that has no key for hashes of erased documents' ids yet.

    Raises:
        ConfigurationError: longer than :data:`MOST_RETAIN`, or negative.
    """
    if not 0 <= seconds <= MOST_RETAIN:
        raise ConfigurationError(
            f"--retain is at most {MOST_RETAIN // DAY}d: what was asked to be erased is purged within a month, and a "
            "day is left for proofs that could not be made"
        )
    with state.transaction() as db:
        db.execute("INSERT INTO erasing VALUES (1, ?, ?) ON CONFLICT DO UPDATE SET retain = excluded.retain",
                   (draw_key, seconds))  # fmt: skip


def carriable(history: History) -> set[bytes]:
    """Digests of windows whose coins a later one may carry on: the newest throw's, as :meth:`History.carried` looks."""
    for window in reversed(history.windows.values()):
        coins = window.manifest.coins
        if coins and not coins[0].thrown_by and window.seal is not None and not window.missing():
            return {window.digest}
    return set()
