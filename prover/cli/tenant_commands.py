# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider tenants``: whose documents there are; and what is asked before there is a new one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click

from ragseal.kernel import signature
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.cli.access import Administration, administration
from ragseal.prover.cli.options import STATE
from ragseal.prover.commitment.documents import check_name
from ragseal.prover.commitment.tenants import near, remove
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.state import State
from ragseal.runtime.face import counted
from ragseal.runtime.terminal import JSON, Teaching, tell_result

NEW_TENANT = click.option(
    "--new-tenant", "agreed", is_flag=True, help="Yes, the tenant is new, though its name is near another's."
)


@click.group(cls=Teaching, short_help="List and remove tenants")
def tenants() -> None:
    """Whose documents there are.  A tenant begins with its first documents or its first account."""


@tenants.command("list", short_help="List every tenant with its documents")
@STATE
@JSON
def list_tenants(directory: Path, as_json: bool) -> None:
    """Every tenant, and how many documents and accounts it has."""
    with administration(directory) as admin:
        found = _known(admin)
    values = [{"tenant": name, "documents": d, "accounts": a} for name, (d, a) in sorted(found.items())]
    lines = [f"{name}  {counted(d, 'document')}  {counted(a, 'account')}" for name, (d, a) in sorted(found.items())]
    tell_result(as_json, {"tenants": values}, "\n".join(lines) or "no tenants")


@tenants.command("remove", short_help="Remove a tenant that has no documents")
@STATE
@click.argument("name")
@JSON
def remove_tenant(directory: Path, name: str, as_json: bool) -> None:
    """Forget the tenant NAME, once its documents and accounts are gone and no window answers it.

    The provider must not be running.  If a tenant of this name comes back while coins are carried on, the next window
    throws them anew, which costs unseen once more.
    """
    with State(directory) as state:
        ledger = state.open_ledger()
        try:
            remove(state, Journal(ledger, signature.public_bytes(state.key)).history, name, time.time())
        finally:
            ledger.close()
    tell_result(as_json, {"removed": name}, f"tenant {name} is removed")


def _known(admin: Administration) -> dict[str, tuple[int, int]]:
    """How many documents and accounts each tenant has."""
    documents: dict[str, int] = admin.status().values["tenants"]
    owners = [str(one["tenant"]) for one in admin.list_accounts().values["accounts"]]
    return {name: (documents.get(name, 0), owners.count(name)) for name in {*documents, *owners}}


def agree_to_tenants(admin: Administration, names: Iterable[str], agreed: bool) -> None:
    """Say of each tenant that is new that it is; where its name is near another's, ask first.

    Raises:
        ConfigurationError: nobody is there to be asked, or it was a slip.
        CommitmentError: no name that a tenant can have.
    """
    known, named = _known(admin), [*dict.fromkeys(names)]
    for name in named:
        check_name(name)
    new = [name for name in named if name not in known]
    for at, name in enumerate(new):
        alike = [repr(one) for one in near(name, known)]
        alike += [f"{one!r}, which is new too" for one in near(name, new[:at])]
        if alike and not agreed:
            _ask(name, alike)
    for name in new:
        click.echo(f"tenant {name} is new: it gets an index of its own", err=True)


def _ask(name: str, alike: list[str]) -> None:
    others = " and ".join(alike)
    if sys.stdin.isatty():
        if click.confirm(f"there is no tenant {name!r}, but {others}: make a new one?", err=True):
            return
        raise ConfigurationError(f"nothing was changed: name the tenant {others}")
    raise ConfigurationError(
        f"there is no tenant {name!r}, but {others}: nothing was changed. Correct the name, or say --new-tenant"
    )
