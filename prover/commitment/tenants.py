# SPDX-License-Identifier: GPL-3.0-or-later
"""Tenants: which names are near each other, and how one goes that has nothing left.  SPEC A.3.1, A.12."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from ragseal.kernel.errors import CommitmentError
from ragseal.prover.commitment import registry
from ragseal.prover.storage import retirement
from ragseal.prover.storage.history import History
from ragseal.prover.storage.state import State

_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s", "-": "", "_": "", ".": "", "/": "", " ": ""})
_SHORT, _LONG = 4, 8  #: letters from which on one, or two, may differ


def near(name: str, known: Iterable[str]) -> list[str]:
    """Those of the known names that ``name`` may be a slip of: alike but for case, marks and signs, or a letter off."""
    own = _skeleton(name)
    most = 0 if len(own) < _SHORT else 1 if len(own) < _LONG else 2
    return [one for one in sorted(known) if one != name and _distance(own, _skeleton(one), most) <= most]


def _skeleton(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).casefold()
    letters = "".join(ch for ch in plain if not unicodedata.combining(ch)).translate(_ALIKE)
    return letters.replace("rn", "m").replace("vv", "w")


def _distance(one: str, other: str, most: int) -> int:
    """Letters that are put, left out, changed or swapped with the next; more than ``most`` is ``most + 1``."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before, row = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, before_above, row = row, before, [i] + [0] * len(other)
        before = above
        for j, b in enumerate(other, 1):
            row[j] = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                row[j] = min(row[j], before_above[j - 2] + 1)
    return min(row[-1], most + 1)


def remove(state: State, history: History, tenant: str, now: float) -> None:
    """Forget a tenant that has neither documents nor accounts, and that no window answers any more.

    Windows that are over keep what audits of them ask for.  A tenant of this name that comes later is placed afresh:
    under coins that are carried on, the next window throws them anew (A.11.9).

    Raises:
        CommitmentError: there is none, or something of it is left.
    """
    documents = state.row("SELECT COUNT(*) FROM documents WHERE tenant = ?", (tenant,))
    owned = [one.name for one in registry.accounts(state) if one.tenant == tenant]
    if documents and documents[0]:
        raise CommitmentError(f"tenant {tenant!r} has {documents[0]} documents: `documents delete` them first")
    if owned:
        raise CommitmentError(f"tenant {tenant!r} has accounts ({', '.join(owned[:5])}): `accounts remove` them first")
    for window in history.windows.values():
        named = {one.tenant for one in window.manifest.tenants}
        if tenant in named and not retirement.over(history, window, now):
            raise CommitmentError(
                f"window {window.manifest.window!r} has an index of tenant {tenant!r}, which stands in each of its "
                "versions: close it first"
            )
    with state.transaction() as db:
        for table in ("resting", "source_marks"):
            db.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))
        if db.execute("DELETE FROM tenants WHERE name = ?", (tenant,)).rowcount == 0:
            raise CommitmentError(f"there is no tenant {tenant[:80]!r}; `tenants list` shows those that are there")
