# SPDX-License-Identifier: GPL-3.0-or-later
"""What is new in a window that was just committed, against the one before it: what its operator has to notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from fractions import Fraction
from typing import Any

from ragseal.accounting.rounding import for_people
from ragseal.kernel.commitment import Manifest
from ragseal.kernel.params import COIN_BITS, SCORE_UNIT
from ragseal.kernel.policy import NO_NUMBER, Policy
from ragseal.runtime.face import when

#: Follow from the class, or are different in every window.
_LEFT_OUT = frozenset({"class_digest", "table_digest", "opens", "closes"})


def news(before: Manifest | None, after: Manifest) -> list[str]:
    """One line for each thing that is not as it was in the window before; ``before``: None for the first window."""
    if before is None:
        names = _names(one.tenant for one in after.tenants)
        return [
            f"it is the first window: claim {after.policy.claim}, {_count(after.accounts, 'account')}, "
            f"{_count(len(after.tenants), 'tenant')} ({names}), auditors {_names(one.owner for one in after.auditors)}"
        ]
    found = _sets("tenant", [one.tenant for one in before.tenants], [one.tenant for one in after.tenants])
    was = {tenant: claim for claim, tenants in before.claims.items() for tenant in tenants}
    found += [
        f"tenant {tenant} has the claim {claim}, {was[tenant]} before"
        for claim, tenants in after.claims.items()
        for tenant in tenants
        if was.get(tenant, claim) != claim and (claim != after.policy.claim or was[tenant] != before.policy.claim)
    ]
    old_seats = {one.owner: one.public_key for one in before.auditors}
    new_seats = {one.owner: one.public_key for one in after.auditors}
    found += _sets("auditor", old_seats, new_seats)
    found += [
        f"auditor {owner} has another key: {key.hex()}"
        for owner, key in new_seats.items()
        if old_seats.get(owner, key) != key
    ]
    if before.accounts != after.accounts:
        found.append(f"accounts: {after.accounts}, {before.accounts} before")
    if before.key_digest != after.key_digest:
        found.append(f"another proving key: {after.key_digest.hex()}")
    if before.embedder != after.embedder:
        found.append("another embedder: cosines and score windows mean something else than before")
    if before.provider_key != after.provider_key:
        found.append(f"another provider's key: {after.provider_key.hex()}")
    return [
        *found,
        *(f"policy: {name} is {now}, {was} before" for name, was, now in _changed(before.policy, after.policy)),
    ]


def _sets(what: str, before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Names that came and names that are gone."""
    old, new = set(before), set(after)
    came = [f"new {what} {name}" for name in sorted(new - old)]
    return [*came, *(f"{what} {name} is not in it any more" for name in sorted(old - new))]


def _changed(before: Policy, after: Policy) -> list[tuple[str, str, str]]:
    """(name, value before, value now) of what a policy says otherwise."""
    found = []
    for one in fields(Policy):
        was, now = getattr(before, one.name), getattr(after, one.name)
        if was != now and one.name not in _LEFT_OUT:
            say = _SAID.get(one.name, _plain)
            found.append((_NAMES.get(one.name, one.name), say(was, before), say(now, after)))
    lasted, lasts = before.closes - before.opens, after.closes - after.opens
    return [*found, ("duration", f"{lasted} s", f"{lasts} s")] if lasted != lasts else found


def _plain(value: Any, policy: Policy) -> str:
    return value.hex()[:12] if isinstance(value, bytes) else for_people(value)


def _score(value: Any, policy: Policy) -> str:
    """A cosine, of the claim answers a count."""
    return str(value) if policy.answers else f"{value / SCORE_UNIT**2:.3g}"


def _rational(value: Any, policy: Policy) -> str:
    return str(value) if value == NO_NUMBER else for_people(float(Fraction(value)), bound=True)


#: Values that a policy holds in other units than people write.
_SAID: dict[str, Callable[[Any, Policy], str]] = {
    "lo": _score,
    "hi": _score,
    "similarity": lambda value, policy: f"{value / SCORE_UNIT**2:.3g}",
    "epsilon_account": _rational,
    "delta": _rational,
    "theta": _rational,
    "guard_rho": _rational,
    "hidden": lambda value, policy: f"{value / (1 << COIN_BITS):.1%}",
    "version_every": lambda value, policy: f"{value} s",
    "period_start": lambda value, policy: when(value),
}
_NAMES = {
    "class_name": "circuit class", "lo": "lower end of the score window", "hi": "upper end of the score window",
    "hidden": "share of documents that are hidden", "period_start": "beginning of the budget period",
}  # fmt: skip


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _count(many: int, what: str) -> str:
    return f"{many} {what}" if many == 1 else f"{many} {what}s"
