# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a provider is and what it holds, as its operator is told; what is wrong comes first.  All of it blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragseal.kernel import signature
from ragseal.kernel.errors import AuditError
from ragseal.prover.administration import lasting
from ragseal.prover.answers import missed
from ragseal.prover.attestation import backlog
from ragseal.prover.base.check_report import NOT_CHECKED, OK, WRONG, could_not_look
from ragseal.prover.commitment import growth, index, registry
from ragseal.prover.planning import spending
from ragseal.prover.provider import assembly
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving import health
from ragseal.prover.serving.committing import Told
from ragseal.prover.serving.health import Running
from ragseal.prover.storage import retirement
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.face import counted, when

NEARLY_FULL = 0.9  #: of an index' places used: from then on an operator is told what follows

#: Values that have lines of their own.
_LISTED = ("wrong", "unchecked", "outcome", "tenants", "places", "windows", "still_answered", "budget")


def identity(state: State) -> dict[str, Any]:
    """Who a provider is."""
    return {
        "state": str(state.directory),
        "origin": state.settings.origin,
        "class": state.settings.class_name,
        "embedder": state.settings.embedder,
        "provider_key": signature.public_bytes(state.key).hex(),
        "ledger_key": state.log_key.vkey(),
    }


def status(provider: Provider, running: Running | None = None) -> Told:
    """What is wrong with a provider, and what it holds.

    Args:
        running: of one that serves.
    """
    state, windows = provider.state, list(provider.journal.history.windows.values())
    found = health.look(provider, running)
    values: dict[str, Any] = {
        "wrong": [{"what": one.what, "text": one.text} for one in found.wrong],
        "unchecked": found.unchecked,
        "outcome": WRONG if found.wrong else NOT_CHECKED if found.unchecked else OK,
        **identity(state),
        "ledger_size": provider.ledger.size,
        "tenants": dict(index.tenants(state)),
        "places": _places(state),
        "accounts": len(registry.accounts(state)),
        "windows": [_window(provider, one) for one in windows],
        "still_answered": lasting.still_answered(provider),
        "budget": spending.spending(windows, assembly.circuit_class),
    }
    lines = _wrong(found.wrong)
    lines += [f"NOT CHECKED: {one}" for one in found.unchecked]
    lines += [f"{key:13} {value}" for key, value in values.items() if key not in _LISTED]
    lines += [
        f"tenant {name}: {counted(documents, 'document')}{_crowded(values['places'][name])}"
        for name, documents in values["tenants"].items()
    ]
    for w in values["windows"]:
        gone = ", retired" if w["retired"] else ""
        lines.append(
            f"window {w['window']}: {w['stage']}, {_claims(w['claims'])}, {counted(w['records'], 'record')}, "
            f"{w['proven']} proven{gone}"
        )
    lines += lasting.lines(values["still_answered"])
    lines += spending.lines(values["budget"])
    if running is not None:
        lines += _of_running(values, running)
    return Told(values, "\n".join(lines))


def _places(state: State) -> dict[str, dict[str, int]]:
    """By tenant: places of its index that were used in this period, how many there are, and documents that wait."""
    waiting = growth.waiting(state)
    query = "SELECT name, counter, capacity / block_slots FROM tenants ORDER BY name"
    return {
        str(name): {"used": int(used), "places": int(places), "waiting": waiting.get(str(name), 0)}
        for name, used, places in state.rows(query)
    }


def _crowded(own: dict[str, int]) -> str:
    """What an operator should know of an index that is nearly full, or is."""
    used = f"{own['used']} of {own['places']} places were used in this period"
    if own["waiting"]:
        return (
            f"; {used}, and {counted(own['waiting'], 'document')} wait for the next window, whose index is larger and "
            "throws coins of its own"
        )
    if own["used"] < NEARLY_FULL * own["places"]:
        return ""
    return f"; {used}. Documents beyond them wait for the next window, which then throws coins of its own"


def unopened(directory: Path, error: AuditError) -> Told:
    """Of a provider that cannot be opened: that it is damaged, or why nobody can look here; and whether its disk is
    full, which may be the cause."""
    away = could_not_look(error)
    wrong = [] if away else [health.Wrong(health.DAMAGED, str(error))]
    with contextlib.suppress(OSError):
        wrong += health.crowded(directory)
    unchecked = [str(error)] if away else []
    values = {
        "wrong": [{"what": one.what, "text": one.text} for one in wrong],
        "unchecked": unchecked,
        "outcome": WRONG if wrong else NOT_CHECKED,
    }
    return Told(values, "\n".join([*_wrong(wrong), *(f"NOT CHECKED: {one}" for one in unchecked)]))


def _wrong(found: Sequence[health.Wrong]) -> list[str]:
    return [f"WRONG ({one.what}): {one.text}" for one in found]


def _window(provider: Provider, window: Window) -> dict[str, Any]:
    proven = provider.state.row("SELECT COUNT(*) FROM proofs WHERE manifest = ?", (window.digest,))
    stage = window.stage.name.lower()
    if provider.journal.history.passed_over(window):
        stage = "passed over"
    elif health.over(window, provider.environment.clock()):
        stage = "over, not closed" if window.stage is Stage.OPEN else "over, never opened"
    return {
        "window": window.manifest.window,
        "manifest": window.digest.hex(),
        "stage": stage,
        "closes": window.closes,
        "records": len(window.records),
        "proven": 0 if proven is None else int(proven[0]),
        "retired": retirement.is_retired(provider.state, window.digest),
        "claims": window.manifest.claims,
    }


def _claims(claims: Mapping[str, Sequence[str]]) -> str:
    """The claim, or of several each with its tenants."""
    if len(claims) == 1:
        return f"claim {next(iter(claims))}"
    return "claims " + ", ".join(f"{claim} ({', '.join(tenants)})" for claim, tenants in claims.items())


def _of_running(values: dict[str, Any], running: Running) -> Iterator[str]:
    """Adds what a provider that serves knows of itself, and gives lines of it."""
    ticks, proving = running.ticks, running.proving
    if ticks is not None:
        values["index"] = ticks
        yield (
            f"index: version {ticks['number']} is in force, the next comes at {when(ticks['next'])}; "
            f"for it wait {counted(ticks['waiting'], 'document')} and {counted(ticks['accounts_waiting'], 'account')}"
        )
        if ticks["accounts_for_next_window"]:
            yield (
                f"with the next window only: {counted(ticks['accounts_for_next_window'], 'account')}, since no place "
                "is free, their tenant has no index in this one, or their name or key was removed from it or has "
                "another line there"
            )
    if proving is not None:
        values["proving"] = proving
        yield from backlog.lines(proving)
    if running.missed:
        values["missed"] = running.missed
        yield from missed.lines(running.missed)
    if running.following is not None:
        values["next"] = running.following
