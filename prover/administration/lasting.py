# SPDX-License-Identifier: GPL-3.0-or-later
"""How long what was deleted or changed is still answered: windows answer from versions that were committed before.

SPEC A.3.1, A.12.  All of it blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ragseal.kernel.versions import ANSWERING, tick_at
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.committing import Told
from ragseal.prover.storage import retirement
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.face import when

#: Rows of the versions that records may name, now or once what is made was entered, which are not what the tenant's
#: documents are now.
_FORMER = """
    SELECT v.document, v.tenant, MAX(COALESCE(v.until, ?2 + 1)) FROM version_texts v
    LEFT JOIN documents d ON d.tenant = v.tenant AND d.document = v.document
    WHERE v.manifest = ?1 AND (v.until IS NULL OR v.until > ?3)
    AND (d.document IS NULL OR d.text <> v.text OR d.metadata <> v.metadata)
    GROUP BY v.tenant, v.document ORDER BY v.tenant, v.document
"""


def still_answered(provider: Provider, tenant: str = "", names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What windows still answer, or will, of documents that were deleted or changed.

    Args:
        tenant: of this one only.
        names: of these documents only.

    Returns:
        One a window, tenant and moment: window, stage, tenant, ids, until (seconds since 1970; None: not known before
        the window opens) and tick (whether ``until`` is one of its ticks, not its end).
    """
    found: list[dict[str, Any]] = []
    for window in provider.journal.history.windows.values():
        if not retirement.over(provider.journal.history, window, provider.environment.clock()):
            found += _of_window(provider, window, tenant, set(names))
    return found


def _of_window(provider: Provider, window: Window, tenant: str, names: set[str]) -> Iterator[dict[str, Any]]:
    is_open = window.stage is Stage.OPEN
    if window.every and not is_open:
        return  # its first version is made when it opens, of the documents that are there then
    entered = len(window.updates)
    newest = max(entered, _made(provider, window))
    oldest = max(1, entered - ANSWERING + 1) if window.every else 0
    groups: dict[tuple[str, int], list[str]] = {}
    for document, whose, without in provider.state.rows(_FORMER, (window.digest, newest, oldest)):
        if tenant in ("", whose) and (not names or document in names):
            groups.setdefault((whose, without), []).append(document)
    for (whose, without), ids in groups.items():
        tick = 0
        if window.every:  # version ``without`` and the one behind it have to be there
            now, missing = int(provider.environment.clock()), without + ANSWERING - 1 - newest
            tick = tick_at(window.opened_at, window.every, now) + missing * window.every
        by_tick = 0 < tick <= window.closes
        yield {
            "window": window.manifest.window,
            "stage": window.stage.name.lower(),
            "tenant": whose,
            "ids": ids,
            "until": tick if by_tick else window.closes if is_open else None,
            "tick": by_tick,
        }


def _made(provider: Provider, window: Window) -> int:
    """The newest version that is stored.  It may wait for its entry, and whoever changes a document changes it no more.

    0 of a window whose indices stay.
    """
    row = provider.state.row("SELECT MAX(number) FROM versions WHERE manifest = ?", (window.digest,))
    return int(row[0] or 0) if row else 0


def lines(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The same for people."""
    for one in found:
        ids = one["ids"]
        what = f"document {ids[0]} as it was is" if len(ids) == 1 else f"{len(ids)} documents as they were are"
        what, window = f"{one['tenant']}: {what}", one["window"]
        if one["tick"]:
            yield f"{what} still answered by window {window} until its tick of {when(one['until'])}"
        elif one["until"] is not None:
            yield (
                f"{what} still answered by window {window} until {when(one['until'])}: end it now with `close`, or set "
                "version_every in the policies to come"
            )
        else:
            yield (
                f"{what} answered by window {window} once it opens, until it ends: commit another window in its place"
            )


def with_rest(provider: Provider, tenant: str, told: Told, names: Sequence[str] = ()) -> Told:
    """What was told of a change of documents, and how long the former ones are still answered."""
    found = still_answered(provider, tenant, names)
    return Told({**told.values, "still_answered": found}, "\n".join([told.text, *lines(found)]))
