# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider proofs``: what everybody may check of a closed window, as files."""

from __future__ import annotations

from pathlib import Path

import click

from ragseal.prover.cli.access import administration
from ragseal.prover.cli.options import STATE
from ragseal.runtime.terminal import JSON, Teaching, named_bars, tell_result


@click.group(cls=Teaching, short_help="Export the proofs of closed windows")
def proofs() -> None:
    """Proofs of closed windows, for everybody."""


@proofs.command(short_help="Write a closed window's proofs as files")
@STATE
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--window", default="", help="By default the newest that was closed.")
@JSON
def export(directory: Path, folder: Path, window: str, as_json: bool) -> None:
    """Write the proofs of a closed window, its keys and its indices' commitments to FOLDER, for any web server.

    With the log's tiles beside them (`ragseal-observer export --tiles FOLDER`) the observer's page checks the whole
    window in a visitor's browser. They are commitments and zero-knowledge proofs, and name nobody: accounts, links and
    texts are in none of them. What is not proven yet is proven now, also while the provider serves.
    """
    with administration(directory) as admin, named_bars() as progress:
        told = admin.export_proofs(folder.absolute(), window, progress)
    tell_result(as_json, told.values, told.text)
