# SPDX-License-Identifier: GPL-3.0-or-later
"""Auditors that no manifest names and that are given registry, links and proofs all the same.  SPEC A.8.9.

One that comes later, or whom another firm follows, has no seat in the beacon of windows that are over.  The operator
admits it by its key; what it is given is what a window's own auditors are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.storage.state import State

MOST = 16


@dataclass(frozen=True, slots=True)
class Admitted:
    """An auditor without a seat."""

    name: str
    public_key: bytes
    since: int  #: seconds since 1970


def admitted(state: State) -> list[Admitted]:
    """All of them, by name."""
    rows = state.rows("SELECT name, public_key, since FROM admitted_auditors ORDER BY name")
    return [Admitted(name, bytes(key), since) for name, key, since in rows]


def admit(state: State, name: str, public_key: bytes, now: int) -> Admitted:
    """Give an auditor what auditors are given, from now on and of every window.

    Raises:
        ConfigurationError: the name or the key is taken, or there are :data:`MOST`.
    """
    if not name or not name.isprintable() or len(name) > 100:
        raise ConfigurationError("an auditor's name has 1 to 100 printable characters")
    known = admitted(state)
    for one in known:
        if (one.name, one.public_key) == (name, public_key):
            return one
        if one.name == name or one.public_key == public_key:
            raise ConfigurationError(f"{one.name!r} is admitted with the key {one.public_key.hex()}: remove it first")
    if len(known) >= MOST:
        raise ConfigurationError(f"{MOST} auditors are admitted: remove one of them first")
    with state.transaction() as db:
        db.execute("INSERT INTO admitted_auditors VALUES (?, ?, ?)", (public_key, name, now))
    return Admitted(name, public_key, now)


def remove(state: State, name: str) -> None:
    """Give it nothing any more.  ConfigurationError: there is none of that name."""
    if name not in {one.name for one in admitted(state)}:
        raise ConfigurationError(f"no auditor {name!r} is admitted: `ragseal-provider auditors list` names them")
    with state.transaction() as db:
        db.execute("DELETE FROM admitted_auditors WHERE name = ?", (name,))
