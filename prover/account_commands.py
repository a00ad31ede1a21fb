# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider accounts``: who may ask."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.administration.access import administration
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.options import STATE, hexadecimal
from ragseal.prover.tenant_commands import NEW_TENANT, agree_to_tenants
from ragseal.runtime.terminal import (
    JSON,
    Teaching,
    tell_result,
)


@click.group(cls=Teaching)
def accounts() -> None:
    """Who may ask.  A change holds from the next window on, or from the next version of one with ticks."""


@accounts.command("add")
@STATE
@click.argument("name")
@click.option("--tenant", required=True, help="Whose documents the account may search.")
@click.option("--key", required=True, help="The account's public key, 64 hexadecimal digits (the client prints it).")
@NEW_TENANT
@JSON
def add_account(directory: Path, name: str, tenant: str, key: str, agreed: bool, as_json: bool) -> None:
    """Register an account for the windows committed from now on, and the next version of one with ticks."""
    public = hexadecimal(key, 32, "--key")
    with administration(directory) as admin:
        agree_to_tenants(admin, [tenant], agreed)
        told = admin.add_accounts([Registration(name, tenant, public)])
    tell_result(as_json, told.values, told.text)


@accounts.command("remove")
@STATE
@click.argument("name")
@JSON
def remove_account(directory: Path, name: str, as_json: bool) -> None:
    """Take an account out of the windows committed from now on.

    A window that has it keeps it; one with ticks gives it no answers from its next version on.
    """
    with administration(directory) as admin:
        told = admin.remove_account(name)
    tell_result(as_json, told.values, told.text)


@accounts.command("load")
@STATE
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@NEW_TENANT
@JSON
def load_accounts(directory: Path, file: Path, agreed: bool, as_json: bool) -> None:
    """Register the accounts of a TOML file, all of them or none.  (Or `accounts add`, as `register-line` prints it.)

    \b
    [alice]
    tenant = "acme"
    key = "64 hexadecimal digits"
    """
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f'cannot read the accounts {file}: {error}. An account is [NAME] with the lines tenant = "..." and '
            'key = "64 hexadecimal digits"'
        ) from None
    found = []
    for name, values in tables.items():
        if (
            not isinstance(values, dict)
            or set(values) != {"tenant", "key"}
            or not all(isinstance(value, str) for value in values.values())
        ):
            raise ConfigurationError(f"{file}: [{name}] must hold exactly the texts tenant and key")
        found.append(Registration(name, values["tenant"], hexadecimal(values["key"], 32, f"key of [{name}]")))
    with administration(directory) as admin:
        agree_to_tenants(admin, [one.tenant for one in found], agreed)
        told = admin.add_accounts(found)
    tell_result(as_json, told.values, told.text)


@accounts.command("list")
@STATE
@JSON
def list_accounts(directory: Path, as_json: bool) -> None:
    """The registered accounts, by name."""
    with administration(directory) as admin:
        told = admin.list_accounts()
    tell_result(as_json, told.values, told.text)
