# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider auditors``: who may audit though no manifest names it."""

from __future__ import annotations

from pathlib import Path

import click

from ragseal.prover.cli.access import administration
from ragseal.prover.cli.options import STATE, hexadecimal
from ragseal.runtime.terminal import JSON, Teaching, tell_result


@click.group(cls=Teaching, short_help="Admit auditors that have no seat")
def auditors() -> None:
    """Auditors without a seat in a window's beacon: later ones, or another firm.  (Seats: `commit --auditor`.)"""


@auditors.command("admit", short_help="Let an auditor ask for names and proofs")
@STATE
@click.argument("name")
@click.option("--key", required=True, help="Its key, 64 hexadecimal digits (`ragseal-verifier init` printed it).")
@JSON
def admit(directory: Path, name: str, key: str, as_json: bool) -> None:
    """Give an auditor accounts' names, links and proofs of every window, whenever it asks."""
    with administration(directory) as admin:
        told = admin.admit_auditor(name, hexadecimal(key, 32, "--key"))
    tell_result(as_json, told.values, told.text)


@auditors.command("remove", short_help="End what an auditor may ask for")
@STATE
@click.argument("name")
@JSON
def remove(directory: Path, name: str, as_json: bool) -> None:
    """Give it nothing any more."""
    with administration(directory) as admin:
        told = admin.remove_auditor(name)
    tell_result(as_json, told.values, told.text)


@auditors.command("list", short_help="List the admitted auditors by name")
@STATE
@JSON
def list_(directory: Path, as_json: bool) -> None:
    """The admitted auditors, by name."""
    with administration(directory) as admin:
        told = admin.list_auditors()
    tell_result(as_json, told.values, told.text)
