# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider's own ledger may hold about a coin: replayed, it is refused wherever an auditor would refuse it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ragseal.kernel import signature
from ragseal.kernel.beacon import BeaconOpening
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import (
    CoinCommitment,
    ThinnedIndex,
    Thinning,
    WindowOpen,
)
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import LedgerError
from ragseal.kernel.verdict import log_digest
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Stage
from tests import simulator
from tests.attacks.checks import (
    PROVIDER_COIN_ONCE,
    PROVIDER_NO_COIN_NO_THINNING,
    PROVIDER_THINNED,
    PROVIDER_THINNED_ONCE,
    PROVIDER_THINNED_TENANTS,
    without,
)
from tests.attacks.removal import Removable
from tests.simulator import ORIGIN
from tests.simulator.coined import CoinedWorld, seed_of

pytestmark = pytest.mark.slow

Messages = list[Message]


def replayed(world: CoinedWorld) -> History:
    """A provider that starts on this ledger.  Raises LedgerError: an entry may not stand where it does."""
    history = History(ORIGIN, signature.public_bytes(world.provider), log_digest(world.signer.verifier.vkey()))
    for index, entry in enumerate(world.entries()):
        history.replay(index, entry)
    return history


def opened(coined: bool = True) -> CoinedWorld:
    world = CoinedWorld()
    world.commit(policy_=None if coined else simulator.policy())
    return world


def _swapped(world: CoinedWorld, kind: type[Message], number: int) -> None:
    """The thinning and that entry change places."""
    at, other = world.at(Thinning), world.at(kind, number)
    world.messages[at], world.messages[other] = world.messages[other], world.messages[at]


def _twice(world: CoinedWorld) -> None:
    world.messages.insert(world.at(Thinning), world.messages[world.at(Thinning)])


def _missing(world: CoinedWorld) -> None:
    del world.messages[world.at(Thinning)]


def _put(world: CoinedWorld, change: Callable[[tuple[ThinnedIndex, ...]], tuple[ThinnedIndex, ...]]) -> None:
    entry = world.messages[world.at(Thinning)]
    assert isinstance(entry, Thinning)
    world.put_thinning(*change(entry.tenants))


LIES: dict[str, tuple[Callable[[CoinedWorld], None], str, Removable | None]] = {
    "twice": (_twice, "thinned once, after", PROVIDER_THINNED_ONCE),
    "before the auditor's opening": (
        lambda w: _swapped(w, BeaconOpening, 2),
        "thinned once, after",
        PROVIDER_THINNED_ONCE,
    ),
    "before the provider's opening": (lambda w: _swapped(w, BeaconOpening, 0), "thinned once, after", None),
    "missing": (_missing, "opens after its indices are thinned", PROVIDER_THINNED),
    "after the opening": (lambda w: _swapped(w, WindowOpen, 0), "opens after its indices are thinned", None),
    "a tenant dropped": (lambda w: _put(w, lambda t: t[:1]), "not those of the manifest", PROVIDER_THINNED_TENANTS),
    "a tenant renamed": (
        lambda w: _put(w, lambda t: (t[0], replace(t[1], tenant="west"))),
        "not those of the manifest",
        PROVIDER_THINNED_TENANTS,
    ),
    "tenants reordered": (lambda w: _put(w, lambda t: t[::-1]), "distinct and sorted", None),
}


def test_the_ledger_that_all_those_differ_from_is_taken() -> None:
    window = replayed(opened()).newest
    assert window is not None
    assert window.stage is Stage.OPEN
    assert window.thinning is not None


@pytest.mark.parametrize("lie", LIES)
def test_a_ledger_that_thins_at_another_time_or_other_tenants_is_not_served(lie: str) -> None:
    tell, match, check = LIES[lie]
    world = opened()
    tell(world)
    with pytest.raises(LedgerError, match=match):
        replayed(world)
    if check is not None:
        with without(check):
            replayed(world)


def test_a_window_without_a_coin_is_not_thinned() -> None:
    world = opened(coined=False)
    entries = tuple(ThinnedIndex(name, bytes(32), bytes(32), bytes(32)) for name in sorted(world.tenants))
    world.messages.insert(world.at(WindowOpen), Thinning(world.digest, entries))
    with pytest.raises(LedgerError, match="has no coin: nothing is thinned"):
        replayed(world)
    with without(PROVIDER_NO_COIN_NO_THINNING):
        replayed(world)


def test_a_coin_seed_is_committed_to_once() -> None:
    world = CoinedWorld()
    world.enter_manifest("w0", coins=(CoinCommitment(coin_commitment(seed_of("w1")), bytes(32)),))
    world.enter_manifest("w1")
    with pytest.raises(LedgerError, match="coin seed of window 'w0' is used again"):
        replayed(world)
    with without(PROVIDER_COIN_ONCE):
        replayed(world)
