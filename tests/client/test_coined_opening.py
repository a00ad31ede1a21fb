# SPDX-License-Identifier: GPL-3.0-or-later
"""A window with coins is open when the log says that its slots were hidden.  SPEC A.8, A.11."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ragseal.client import opening
from ragseal.kernel.commitment import CoinCommitment, ThinnedIndex, Thinning
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.policy import UNTIL_DELIVERED
from tests.attacks.checks import without as without_check
from tests.attacks.removal import Guard
from tests.client.small_provider import policy
from tests.client.test_opening import AUDITOR, OPEN, SEAL, Shape

THINNED_ONCE = Guard(opening.Opening, "opens", "thinned twice")

THINNED = Guard(opening, "_thinned", "opened without its coins")

NO_COIN_NO_THINNING = Guard(opening, "_thinned", "although its claim")

THINNED_TENANTS = Guard(opening, "_thinned", "not those of the manifest")


def thinning(p: Any, *tenants: str) -> Thinning:
    """The entry, of digests that say nothing to an account."""
    named = [ThinnedIndex(name, bytes(32), bytes(32), bytes(32)) for name in tenants or ("acme", "other")]
    return Thinning(p.manifest.digest(), tuple(named))


def thinned(p: Any, entries: list[Message], place: int, *tenants: str) -> list[Message]:
    """With a thinning before that place."""
    return [*entries[:place], thinning(p, *tenants), *entries[place:]]


def open_coined(bench: Any, shape: Shape, coined: bool = True) -> None:
    """Window w2, whose claim has a coin, opened by entries of this shape."""
    bench.provider.shape = lambda entries: shape(bench.provider, entries)
    if not coined:
        bench.provider.open("w2")
        return
    stated = dataclasses.replace(policy(4), claim=UNTIL_DELIVERED, hidden=60)
    bench.provider.open("w2", policy=stated, coins=(CoinCommitment(9, b"t" * 32),))


COIN_LIES: dict[str, tuple[Shape, str, Any]] = {
    "not thinned": (lambda p, e: e, "opened without its coins", THINNED),
    "thinned twice": (
        lambda p, e: thinned(p, thinned(p, e, OPEN), OPEN),
        "thinned twice, or before",
        THINNED_ONCE,
    ),
    "thinned before the auditor opened": (
        lambda p, e: thinned(p, e, AUDITOR),
        "thinned twice, or before",
        THINNED_ONCE,
    ),
    "thinned before the seal": (lambda p, e: thinned(p, e, SEAL), "thinned twice, or before", THINNED_ONCE),
    "a tenant left out": (
        lambda p, e: thinned(p, e, OPEN, "acme"),
        "not those of the manifest",
        THINNED_TENANTS,
    ),
    "a tenant too many": (
        lambda p, e: thinned(p, e, OPEN, "acme", "more", "other"),
        "not those of the manifest",
        THINNED_TENANTS,
    ),
    "other tenants": (
        lambda p, e: thinned(p, e, OPEN, "acme", "west"),
        "not those of the manifest",
        THINNED_TENANTS,
    ),
    "thinned without a coin": (
        lambda p, e: thinned(p, e, OPEN),
        "although its claim has no coin",
        NO_COIN_NO_THINNING,
    ),
}


@pytest.mark.parametrize("lie", COIN_LIES)
def test_a_window_whose_indices_were_not_thinned_as_its_claim_has_it(bench: Any, lie: str) -> None:
    shape, why, check = COIN_LIES[lie]
    client = bench.client()
    client.ask("json")
    open_coined(bench, shape, coined=lie != "thinned without a coin")
    calls = len(bench.provider.calls)
    with pytest.raises(CommitmentError, match=why) as refused:
        bench.client().ask("json")
    assert "evidence saved in" in str(refused.value)
    (bundle,) = bench.evidence()
    kept = {path.name.split("-", 1)[1] for path in bundle.glob("*.bin")}
    assert "received-manifest.bin" in kept
    assert any(name.startswith("entry-") for name in kept)
    assert not {"prepare", "retrieve"} & set(bench.provider.calls[calls:])
    with without_check(check):
        assert bench.client().ask("json").record.signed.request.window == "w2"


def test_a_window_that_is_thinned_as_its_claim_has_it_is_asked(bench: Any) -> None:
    open_coined(bench, lambda p, e: thinned(p, e, OPEN))
    assert bench.client().ask("json").record.signed.request.window == "w2"
    assert bench.evidence() == []


def test_another_window_s_thinning_is_none(bench: Any) -> None:
    bench.provider.open("w2")
    old = thinning(bench.provider)
    open_window = lambda p, e: [*e[:OPEN], old, e[OPEN]]  # noqa: E731
    bench.provider.shape = lambda entries: open_window(bench.provider, entries)
    stated = dataclasses.replace(policy(4), claim=UNTIL_DELIVERED, hidden=60)
    bench.provider.open("w3", policy=stated, coins=(CoinCommitment(9, b"t" * 32),))
    with pytest.raises(CommitmentError, match="opened without its coins"):
        bench.client().ask("json")
