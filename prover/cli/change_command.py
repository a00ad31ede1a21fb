# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider change``: another circuit class or embedder for the windows to come."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

import click

from ragseal.embedder import load_embedder
from ragseal.kernel import signature
from ragseal.kernel.policy import require_shards
from ragseal.prover.cli.options import STATE
from ragseal.prover.commitment import changing, growth
from ragseal.prover.provider import assembly
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.state import State
from ragseal.runtime.terminal import JSON, named_bars, tell_result


@click.command(short_help="Take another class, or another embedder")
@STATE
@click.option("--class", "class_name", help="Circuit class from now on; else as it is.")
@click.option("--shards", type=int, help="Shards of an index from now on; else as it is.")
@click.option("--embedder", help="Of documents and queries from now on, as for `init`; else as it is.")
@JSON
def change(directory: Path, class_name: str | None, shards: int | None, embedder: str | None, as_json: bool) -> None:
    """Take another circuit class, number of shards or embedder for the windows to come.

    Log, signing keys, accounts, documents and the budget that is spent stay.  All windows must be retired, and the
    provider must not be serving.  A new embedder reads all documents anew.
    """
    with State(directory, changing=True) as state:
        ledger = state.open_ledger()
        try:
            changing.require_retired(state, Journal(ledger, signature.public_bytes(state.key)).history)
        finally:
            ledger.close()
        known = state.settings
        if shards is None:
            in_use = class_name in (None, known.class_name)
            shards = growth.shards_in_use(state, assembly.circuit_class(known.class_name)) if in_use else known.shards
        made = replace(
            known,
            class_name=class_name or known.class_name,
            embedder=embedder or known.embedder,
            shards=shards,
        )
        require_shards(assembly.circuit_class(made.class_name), made.shards)
        cls, reading = assembly.circuit_class(made.class_name), load_embedder(made.embedder)
        with named_bars() as progress:
            counts = changing.change(state, made, cls, reading, secrets.token_bytes, progress)
    tell_result(
        as_json,
        {"class": made.class_name, "shards": made.shards, "embedder": made.embedder, "documents": counts},
        f"class {made.class_name}, embedder {made.embedder}; {sum(counts.values())} documents are placed afresh. Next: "
        "`fetch-keys`, and `policy` for one to start from",
    )
