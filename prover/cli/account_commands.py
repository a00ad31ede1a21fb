# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider accounts``: who may ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.cli.access import administration
from ragseal.prover.cli.options import STATE, hexadecimal
from ragseal.prover.cli.tenant_commands import NEW_TENANT, agree_to_tenants
from ragseal.prover.commitment.registry import Registration
from ragseal.runtime import texts
from ragseal.runtime.terminal import (
    JSON,
    Teaching,
    tell_result,
)

FORM = (
    'An account is [NAME] with the lines tenant = "..." and key = "64 hexadecimal digits"; a name with other '
    'characters than a to z, digits, - and _ stands in quotes, ["alice@example.org"]'
)
MEMBERS = ("tenant", "key")


@click.group(cls=Teaching, short_help="Add, remove, load and list accounts")
def accounts() -> None:
    """Who may ask.  A change holds from the next window on, or from the next version of one with ticks."""


@accounts.command("add", short_help="Register one account")
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


@accounts.command("remove", short_help="Take an account out of later windows")
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


@accounts.command("load", short_help="Register the accounts of a TOML file")
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
    found = read_accounts(file)
    with administration(directory) as admin:
        agree_to_tenants(admin, [one.tenant for one in found], agreed)
        told = admin.add_accounts(found)
    tell_result(as_json, told.values, told.text)


def read_accounts(file: Path) -> list[Registration]:
    """The accounts of a TOML file.

    Raises:
        ConfigurationError: unreadable, or a table that is no account; says which line is wrong.
    """
    what = f"the accounts {file}"
    found = []
    for name, values in texts.read_toml(file, what, form=FORM).items():
        if not isinstance(values, dict):
            raise ConfigurationError(f"{what}: {name!r} stands in no table. {FORM}")
        if (parts := _dotted(name, values)) is not None:
            raise ConfigurationError(
                f"{what}: [{parts}] is a table in a table: write [{json.dumps(parts, ensure_ascii=False)}]"
            )
        here = f"{what}: [{name}]"
        for key in values:
            if key not in MEMBERS:
                raise ConfigurationError(f"{here} has the unknown key {key!r}: it takes tenant and key")
        for key in MEMBERS:
            if key not in values:
                raise ConfigurationError(f"{here} has no {key}. {FORM}")
            if not isinstance(values[key], str):
                raise ConfigurationError(f"{here}: {key} is a text in quotes, not {texts.shown(values[key])}")
        public = hexadecimal(values["key"], 32, f"{here}: key")
        found.append(Registration(name, texts.line_of(values["tenant"], f"{here}: tenant"), public))
    if not found:
        raise ConfigurationError(f"{what} holds no account. {FORM}")
    return found


def _dotted(name: str, values: Mapping[str, Any]) -> str | None:
    """The name with its dots, where TOML has read it as a table in a table."""
    for key, inner in values.items():
        if isinstance(inner, dict):
            return _dotted(f"{name}.{key}", inner) or f"{name}.{key}"
    return None


@accounts.command("list", short_help="List the registered accounts by name")
@STATE
@JSON
def list_accounts(directory: Path, as_json: bool) -> None:
    """The registered accounts, by name."""
    with administration(directory) as admin:
        told = admin.list_accounts()
    tell_result(as_json, told.values, told.text)
