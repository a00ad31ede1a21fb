# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several of the provider's commands take, and how their values are read."""

from collections.abc import Sequence

from ragseal.kernel.beacon import AUDITOR, AUDITOR_NAMED, Seat, is_auditor
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.terminal import state_folder

STATE = state_folder("RAGSEAL_PROVIDER_STATE", "provider", "Folder with everything this provider keeps")


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
