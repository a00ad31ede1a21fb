# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents that an operator has erased for good, and what their purge waits for.  All of it blocks."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragseal.kernel.versions import nameable
from ragseal.prover.commitment import erasure
from ragseal.prover.commitment.erasure import Erasure
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.committing import Told
from ragseal.prover.storage import retirement
from ragseal.prover.storage.history import History
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.runtime.face import counted, when


def erase(state: State, tenant: str, name: str, reason: str, now: int) -> Told:
    """Take a document out of the next version and queue its erasure.  Raises as :func:`erasure.erase` does."""
    number = erasure.erase(state, tenant, name, reason, now, secrets.token_bytes)
    (made,) = [one for one in erasure.erasures(state) if one.number == number]
    waits = len(erasure.waits_for(state, made))
    text = f"{tenant}: document {name} is in no version that is committed from now on"
    if waits:
        text += (
            f"; it is purged once {counted(waits, 'window')} committed with it {'is' if waits == 1 else 'are'} retired "
            "(`documents erasures`)"
        )
    return Told({"tenant": tenant, "erasure": number, "windows": waits}, text)


def listed(provider: Provider, tenant: str, name: str) -> Told:
    """What was asked to be erased, since when it is out of answers, and what its purge waits for."""
    state, history = provider.state, provider.journal.history
    now = provider.environment.clock()
    found = [_erasure(state, history, one, now) for one in erasure.erasures(state, tenant, name)]
    lines = [line for one in found for line in _erasure_lines(one)]
    return Told({"erasures": found}, "\n".join(lines) or "nothing was asked to be erased")


def _erasure(state: State, history: History, one: Erasure, now: float) -> dict[str, Any]:
    known = [history.windows[manifest] for manifest in one.windows if manifest in history.windows]
    waits, retain = erasure.waits_for(state, one), retirement.retain_of(state)
    since, out = None, None
    left = [at for window in known if (at := _left(state, history, window, one, now)) is not None]
    if len(left) == len(known):
        since = max([one.asked, *left])
        later = (w for w in history.windows.values() if w.opened_at >= since and w.digest not in one.windows)
        out = next((w.manifest.window for w in later), None)
    return {
        "number": one.number,
        "tenant": one.tenant,
        "id": one.document,
        "reason": one.reason,
        "asked": one.asked,
        "out_of_answers": since,
        "first_window_without": out,
        "waits_for": [
            {
                "window": w.manifest.window,
                "stage": w.stage.name.lower(),
                "retired_at": retirement.due_at(history, w, retain),
                "retired_by": retirement.latest_at(history, w, retain),
            }
            for w in known
            if w.digest in waits
        ],
        "purged": one.purged,
        "backups": erasure.backups_before(state, one.purged),
    }


def _left(state: State, history: History, window: Window, one: Erasure, now: float) -> int | None:
    """Since when a window answers without an erased document, seconds since 1970; None while it may be in answers."""
    if retirement.over(history, window, now):
        return 0 if window.close is None else window.close.time
    if not window.every:
        return None
    query = (
        "SELECT MAX(COALESCE(until - 1, (SELECT MAX(number) FROM versions WHERE manifest = ?1))) FROM version_texts "
        "WHERE manifest = ?1 AND tenant = ?2 AND document = ?3"
    )
    found = state.row(query, (window.digest, one.tenant, one.document))
    if found is None or not found[0]:
        return 0  # what the manifest names answers nobody
    last = found[0] + nameable(window.manifest.policy)
    without = [update.time for _, update in window.updates if update.number >= last]
    return without[0] if without else None


def _erasure_lines(one: dict[str, Any]) -> Iterator[str]:
    named = f"document {one['id']}" if one["id"] is not None else "a document"
    out = "still in answers" if one["out_of_answers"] is None else f"out of answers since {when(one['out_of_answers'])}"
    purged = "not purged yet" if one["purged"] is None else f"purged {when(one['purged'])}"
    yield f"{one['number']}  {one['tenant']}: {named} ({one['reason']}): asked {when(one['asked'])}, {out}, {purged}"
    for window in one["waits_for"]:
        at, by = window["retired_at"], window["retired_by"]
        told = f", retired {when(at)}" if at else "" if at is not None else f", retired {when(by)} at the latest"
        yield f"   waits for window {window['window']} ({window['stage']}){told}"
    if one["backups"]:
        first, last = one["backups"][0], one["backups"][-1]
        which = first if first == last else f"{first} ... {last}"
        yield f"   {len(one['backups'])} backups were made before and may hold it, delete them: {which}"


@contextmanager
def copying(state: State, folder: Path, now: int, sealed: bool) -> Iterator[None]:
    """Keep where the block's copy goes: what is erased from now on is in it still, where it is not encrypted.

    Kept before it is begun, since one that is killed leaves files there; forgotten if it fails, which leaves none.
    """
    row = erasure.remember_backup(state, str(folder), now, sealed)
    try:
        yield
    except BaseException:
        erasure.forget_backup(state, row)
        raise
