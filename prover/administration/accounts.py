# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts, as an operator adds and removes them.  All of it blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragseal.prover.commitment import index, registry
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.serving.committing import Told
from ragseal.prover.storage.state import State
from ragseal.runtime.face import counted


def add(state: State, new: Sequence[Registration]) -> Told:
    """Register accounts, all or none.  CommitmentError: a name or key is taken, or malformed."""
    added = registry.add_accounts(state, new)
    known = {name for name, _ in index.tenants(state)}
    strangers = sorted({one.tenant for one in new} - known)
    values: dict[str, Any] = {"added": added, "skipped": len(new) - added}
    said = [f"{counted(added, 'account')} added, already there: {len(new) - added}"]
    if len(new) == 1:
        said = [f"account {new[0].name} of tenant {new[0].tenant} is registered"]
        values |= {"account": new[0].name, "tenant": new[0].tenant}
    said += [
        f"tenant {tenant} has no documents yet, and no window can be committed until it has some"
        for tenant in strangers
    ]
    return Told(values, "; ".join(said))


def remove(state: State, name: str) -> Told:
    """Take an account out of the windows to come, and with its next version of one whose indices change on a tick.

    Raises:
        CommitmentError: there is none of that name.
    """
    registry.remove_account(state, name)
    return Told(
        {"removed": name},
        f"account {name} is in no window that is committed from now on, and gets no answers in the open one from the "
        "next version of its indices on, if they change on a tick",
    )


def listed(state: State) -> Told:
    """The registered accounts, by name."""
    found = [{"name": a.name, "tenant": a.tenant, "key": a.public_key.hex()} for a in registry.accounts(state)]
    lines = "\n".join(f"{a['name']}  {a['tenant']}  {a['key']}" for a in found)
    return Told({"accounts": found}, lines or "no accounts")
