# SPDX-License-Identifier: GPL-3.0-or-later
"""What the commands ``auditors admit | remove | list`` do, with the provider's folder or beside its serving process."""

from __future__ import annotations

from ragseal.kernel.publickey import check_public_key
from ragseal.prover.serving.committing import Told
from ragseal.prover.storage import admitted
from ragseal.prover.storage.state import State
from ragseal.runtime.face import when


def admit(state: State, name: str, public_key: bytes, now: int) -> Told:
    """Give an auditor without a seat what a window's own auditors are given.  Raises as :func:`admitted.admit`."""
    check_public_key(public_key)
    one = admitted.admit(state, name, public_key, now)
    return Told(
        {"name": one.name, "key": one.public_key.hex(), "since": one.since},
        f"{one.name} may audit every window: it is given accounts' names, links and proofs when it asks with the key "
        f"{one.public_key.hex()}",
    )


def remove(state: State, name: str) -> Told:
    """Give it nothing any more.  Raises as :func:`admitted.remove`."""
    admitted.remove(state, name)
    return Told({"removed": name}, f"{name} is given nothing any more; in windows that name it, it keeps its seat")


def listed(state: State) -> Told:
    """The admitted ones, by name."""
    found = admitted.admitted(state)
    values = [{"name": one.name, "key": one.public_key.hex(), "since": one.since} for one in found]
    lines = "\n".join(f"{one.name}  {one.public_key.hex()}  since {when(one.since)}" for one in found)
    return Told({"auditors": values}, lines or "no auditor but those that manifests name")
