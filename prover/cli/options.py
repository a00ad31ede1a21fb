# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several of the provider's commands take, and how their values are read."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from ragseal.circuits.sizes import USUAL, names_for, size_for
from ragseal.kernel.beacon import AUDITOR, AUDITOR_NAMED, Seat, is_auditor
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED
from ragseal.runtime.terminal import state_folder

STATE = state_folder("RAGSEAL_PROVIDER_STATE", "provider", "Folder with everything this provider keeps")


def sized(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that decide the size of indices; the command gets ``size``: the class's name, and its shards."""

    @wraps(command)
    def run(
        *given: Any, documents: int | None, claim: str | None, class_name: str | None, shards: int, **others: Any
    ) -> Any:
        if (documents, claim) != (None, None) and (class_name, shards) != (None, 1):
            raise ConfigurationError(
                "name either --documents and --claim, which decide the class, or --class with --shards"
            )
        names = names_for(claim or UNTIL_DELIVERED)
        size = class_name or names[0], shards
        if documents is not None:
            cls, count = size_for(documents, names=names)
            size = cls.name, count
        return command(*given, size=size, **others)

    for option in (
        click.option("--shards", default=1, show_default=True, help="With --class: an index is so many shards of it."),
        click.option("--class", "class_name", help="The circuit class by name, instead of --documents."),
        click.option("--documents", type=click.IntRange(min=1),
                     help="About how many the largest tenant has, which decides the size of indices; by default that "
                     f"of class {USUAL}."),
        click.option("--claim", type=click.Choice([UNTIL_DELIVERED, EVERY_LIST]),
                     help=f"What the class is for, {UNTIL_DELIVERED} by default; {EVERY_LIST} takes noise."),
    ):  # fmt: skip
        run = option(run)
    return run


def hexadecimal(text: str, size: int, what: str) -> bytes:
    """The bytes of an option; ConfigurationError names ``what`` and its length."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != size:
        raise ConfigurationError(f"{what} takes {2 * size} hexadecimal digits")
    return value


def auditor_seats(options: Sequence[str]) -> tuple[Seat, ...]:
    """``[NAME=]KEY``, as often as it is given: who sits where in a window's beacon.

    Raises:
        ConfigurationError: no such pair, or a name or a key twice.
    """
    found: list[Seat] = []
    for option in options:
        name, equals, key = option.rpartition("=")
        owner = AUDITOR if not equals else AUDITOR_NAMED + name
        seat = Seat(owner, hexadecimal(key, 32, f"--auditor {name}".rstrip()))
        if not is_auditor(owner) or seat.owner in {one.owner for one in found}:
            raise ConfigurationError(f"--auditor takes [NAME=]KEY, with another name for each, not {option!r}")
        if seat.public_key in {one.public_key for one in found}:
            raise ConfigurationError("--auditor names one key twice: an auditor has one seat")
        found.append(seat)
    return tuple(found)
