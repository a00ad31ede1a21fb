# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a provider is and what it holds, as its operator is told.  All of it blocks."""

from __future__ import annotations

from typing import Any

from ragseal.kernel import signature
from ragseal.prover import assembly, spending
from ragseal.prover.attestation import backlog
from ragseal.prover.commitment import index, registry
from ragseal.prover.committing import Told
from ragseal.prover.provider import Provider
from ragseal.prover.storage import retirement
from ragseal.prover.storage.state import State
from ragseal.runtime.face import when


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


def status(
    provider: Provider,
    following: dict[str, Any] | None = None,
    ticks: dict[str, Any] | None = None,
    proving: dict[str, Any] | None = None,
) -> Told:
    """What a provider holds.

    Args:
        following: of one that serves windows one after the other.
        ticks: of one whose open window has a live index.
        proving: of one that serves, as :meth:`ragseal.prover.attestation.backlog.Backlog.status` has it.
    """
    state, windows = provider.state, list(provider.journal.history.windows.values())
    proven = dict(state.rows("SELECT manifest, COUNT(*) FROM proofs GROUP BY manifest"))
    values: dict[str, Any] = {
        **identity(state),
        "ledger_size": provider.ledger.size,
        "tenants": dict(index.tenants(state)),
        "accounts": len(registry.accounts(state)),
        "windows": [
            {
                "window": w.manifest.window,
                "manifest": w.digest.hex(),
                "stage": "passed over" if provider.journal.history.passed_over(w) else w.stage.name.lower(),
                "records": len(w.records),
                "proven": int(proven.get(w.digest, 0)),
                "retired": retirement.is_retired(state, w.digest),
            }
            for w in windows
        ],
        "budget": spending.spending(windows, assembly.circuit_class),
    }
    lines = [f"{key:13} {value}" for key, value in values.items() if key not in ("windows", "budget")]
    for w in values["windows"]:
        gone = ", retired" if w["retired"] else ""
        lines.append(f"window {w['window']}: {w['stage']}, {w['records']} records, {w['proven']} proven{gone}")
    lines += spending.lines(values["budget"])
    if ticks is not None:
        values["index"] = ticks
        lines.append(
            f"index: version {ticks['number']} is in force, the next comes at {when(ticks['next'])}; "
            f"{ticks['waiting']} documents and {ticks['accounts_waiting']} accounts wait for it"
        )
        if ticks["accounts_for_next_window"]:
            lines.append(
                f"{ticks['accounts_for_next_window']} accounts come with the next window only: no place is free, their "
                "tenant has no index in this one, or their name or key was removed from it or has another line there"
            )
        if ticks["trouble"]:
            lines.insert(0, f"NO NEW VERSION OF THE INDICES: {ticks['trouble']}")
    if proving is not None:
        values["proving"] = proving
        lines += backlog.lines(proving)
        if proving["trouble"]:
            lines.insert(0, f"NO PROOFS ARE MADE BY WORKERS: {proving['trouble']}")
    if following is not None:
        values["next"] = following
        if following["trouble"]:
            lines.insert(0, f"NO WINDOW FOLLOWS: {following['trouble']}")
    return Told(values, "\n".join(lines))
