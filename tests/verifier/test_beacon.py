# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking part in a beacon: commit after the manifest holds, open last, and never otherwise."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
    Seat,
    beacon_value,
)
from ragseal.kernel.commitment import (
    CoinCommitment,
    SignedManifest,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.verifier.audit.participant import Stage
from ragseal.verifier.evidence.evidence import Refused, Undecided
from ragseal.verifier.steps.log import Forked
from tests.classes import TINY
from tests.simulator import (
    CLOSES,
    OPENS,
    TENANTS,
    BindingKey,
    World,
    key_of,
    policy,
)
from tests.simulator.coined import CoinedWorld
from tests.verifier import beacon_scene
from tests.verifier.beacon_scene import OBSERVER, Link, SimulatedState, opens, participant, seal

world, state = beacon_scene.world, beacon_scene.state


def observer_commits(world: World) -> None:
    world.messages.append(world.commit_entry("observer-1", OBSERVER, key_of("observer")))


def test_the_whole_way_and_the_audit_afterwards(world: World, state: SimulatedState) -> None:
    part = participant(world, state)
    observer_commits(world)
    assert part.advance() == (Stage.COMMITTED, "w1")
    entry = world.messages[-1]
    assert isinstance(entry, BeaconCommit)
    assert (entry.owner, entry.public_key) == ("auditor", state.public_key)
    size = len(world.messages)
    assert part.advance() == (Stage.COMMITTED, "w1")
    assert len(world.messages) == size, "it commits once"
    seal(world)
    assert part.advance()[0] is Stage.COMMITTED, "no other nonce is open yet"
    opens(world, "provider")
    assert part.advance()[0] is Stage.COMMITTED, "the observer's nonce is not open yet"
    assert len(world.messages) == size + 2
    opens(world, "observer-1")
    assert part.advance() == (Stage.OPENED, "w1")
    nonce = state.nonce(world.digest)
    assert nonce is not None
    assert world.messages[-1] == BeaconOpening(world.digest, "auditor", nonce)
    assert part.advance() == (Stage.OPENED, "w1")
    world.beacon = beacon_value(
        world.digest, [("provider", world.provider_nonce), ("observer-1", OBSERVER), ("auditor", nonce)]
    )
    world.messages.append(WindowOpen(world.digest, world.beacon, OPENS + 60))
    world.queries()
    world.close()
    verdict = world.audit(auditor=state.auditor(world.signer.verifier, {}))
    assert verdict.verdict == "PASS", verdict.line()


def test_every_window_has_a_part_of_its_own(world: World, state: SimulatedState) -> None:
    """What the log holds of an earlier window's beacon is neither taken for the newest one's nor in its way."""
    part = participant(world, state)
    nonces = []
    for name, begins in (("w1", OPENS), ("w2", CLOSES)):
        if name == "w2":
            world.enter_manifest(name, policy_=policy(opens=CLOSES, closes=CLOSES + 3600))
        assert part.advance() == (Stage.COMMITTED, name)
        seal(world, "provider", "auditor")
        opens(world, "provider")
        assert part.advance() == (Stage.OPENED, name)
        nonces.append(state.nonce(world.digest))
        assert world.messages[-1] == BeaconOpening(world.digest, "auditor", nonces[-1] or b"")
        beacon = beacon_value(world.digest, [("provider", world.provider_nonce), ("auditor", nonces[-1] or b"")])
        world.messages.append(WindowOpen(world.digest, beacon, begins + 60))
        assert part.advance() == (Stage.OPENED, name), "open, with this auditor's part in it"
        world.messages.append(WindowClose(world.digest, 0, begins + 3000))
    assert len(set(nonces)) == 2


def test_a_restart_keeps_the_nonce(world: World, state: SimulatedState) -> None:
    participant(world, state).advance()
    nonce = state.nonce(world.digest)
    again = participant(world, state)
    again.random = random.Random(99).randbytes
    seal(world, "provider", "auditor")
    opens(world, "provider")
    assert again.advance()[0] is Stage.OPENED
    assert world.messages[-1] == BeaconOpening(world.digest, "auditor", nonce or b"")


def test_the_nonce_is_released_for_one_seal(world: World, state: SimulatedState) -> None:
    """Attack: the provider keeps the auditor's opening out of the log and seals again, now that it knows the nonce."""
    part = participant(world, state)
    observer_commits(world)
    part.advance()
    seal(world)
    opens(world, "provider", "observer-1")
    assert part.advance()[0] is Stage.OPENED
    held_back = world.messages.pop()
    assert part.advance()[0] is Stage.OPENED, "the same seal: the same beacon"
    assert world.messages.pop() == held_back
    seal(world, "provider", "auditor")
    again = participant(world, state)
    with pytest.raises(Refused, match="sealed again"):
        again.advance()
    assert world.messages[-1] != held_back
    assert state.drawn() == {world.digest: OPENS}


def test_the_nonce_is_on_disk_before_its_commitment_leaves(world: World, state: SimulatedState) -> None:
    part = participant(world, state)

    class Cut(Link):
        def commit_beacon(self, canonical: bytes) -> None:
            assert state.nonce(world.digest) is not None
            raise CommitmentError("cut off")

    part.link = Cut(world)
    with pytest.raises(CommitmentError, match="cut off"):
        part.advance()


def test_no_window_and_left_out(tmp_path: Path) -> None:
    world = World()
    state = SimulatedState.create(tmp_path / "auditor", Ed25519PrivateKey.generate())
    assert isinstance(state, SimulatedState)
    state.world = world
    part = participant(world, state)
    assert part.advance() == (Stage.NOTHING, "")
    world.commit()
    assert part.advance() == (Stage.LEFT_OUT, "w1")


def test_an_opening_with_a_nonce_that_is_not_this_auditors_is_no_part_of_its_own(
    world: World, state: SimulatedState
) -> None:
    part = participant(world, state)
    assert part.advance()[0] == Stage.COMMITTED
    world.messages += [BeaconOpening(world.digest, "auditor", bytes(32)), WindowOpen(world.digest, 1, OPENS)]
    assert part.advance() == (Stage.LEFT_OUT, "w1")


def changed(world: World, **changes: Any) -> None:
    world.messages.clear()
    world.enter_manifest(**changes)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda w: changed(w, key_digest=BindingKey("their own").digest), "not in this auditor's configuration"),
        (lambda w: changed(w, policy_=policy(gain=10_000)), "do not fit"),
        (lambda w: changed(w, policy_=policy(table_digest=bytes(32))), f"canonical {TINY.law} table"),
        (lambda w: changed(w, origin="other.example/log"), "is of the log"),
        (lambda w: changed(w, accounts=2), "registry"),
        (lambda w: w.files.update(north=w.files["south"]), "column commitments"),
        (lambda w: w.messages.__setitem__(0, SignedManifest(w.manifest, bytes(64))), "manifest signature"),
        (lambda w: w.messages.append(SignedManifest(w.manifest, bytes(64))), "was opened again"),
    ],
)
def test_no_part_in_a_window_that_could_only_fail(world: World, state: SimulatedState, change: Any, match: str) -> None:
    change(world)
    before = len(world.messages)
    with pytest.raises(AuditError, match=match):
        participant(world, state).advance()
    assert len(world.messages) == before
    assert state.nonces() == {}


def test_no_part_in_a_window_that_is_over(world: World, state: SimulatedState) -> None:
    with pytest.raises(CommitmentError, match="over before it began"):
        participant(world, state, now=CLOSES).advance()
    assert state.nonces() == {}


def test_no_nonce_is_released_for_a_window_whose_time_is_over(world: World, state: SimulatedState) -> None:
    """It could not open any more, and of one with a coin the provider would pay for coins that hide nothing."""
    now = [OPENS]
    part = participant(world, state)
    part.now = lambda: now[0]
    observer_commits(world)
    part.advance()
    seal(world, "provider", "observer-1", "auditor")
    opens(world, "provider", "observer-1")
    now[0] = CLOSES
    with pytest.raises(CommitmentError, match="over before it began"):
        part.advance()
    assert state.released() == {}
    now[0] = CLOSES - 1
    part.advance()
    assert len(state.released()) == 1


def test_does_not_open_unless_last_in_the_seal(world: World, state: SimulatedState) -> None:
    part = participant(world, state)
    observer_commits(world)
    part.advance()
    seal(world, "provider", "auditor", "observer-1")
    opens(world, "provider", "observer-1")
    with pytest.raises(Refused, match="end with the auditor"):
        part.advance()


def test_a_nonce_is_not_released_for_a_seal_that_does_not_name_its_owner(world: World, state: SimulatedState) -> None:
    """The provider enters the commitment behind the seal, which only a lying one does."""
    seats = (*world.manifest.auditors, Seat("auditor-b", signature.public_bytes(key_of("auditor-b"))))
    world.messages.clear()
    world.enter_manifest(auditors=seats)
    part = participant(world, state)
    assert part.advance()[0] is Stage.COMMITTED
    own = world.messages.pop()
    world.messages.append(world.commit_entry("auditor-b", bytes(32), key_of("auditor-b")))
    seal(world, "provider", "auditor-b")
    world.messages.append(own)
    opens(world, "provider")
    assert part.advance()[0] is Stage.LEFT_OUT
    assert state.released() == {}


def test_does_not_open_under_a_stranger_commitment(world: World, state: SimulatedState) -> None:
    part = participant(world, state)
    world.messages.append(world.commit_entry("auditor", bytes(32), key_of("accomplice")))
    seal(world, "provider", "auditor")
    opens(world, "provider")
    with pytest.raises(Refused, match="the manifest names"):
        part.advance()


def test_does_not_open_a_nonce_that_it_never_drew(world: World, state: SimulatedState) -> None:
    world.messages.append(world.commit_entry("auditor", bytes(32), state.identity))
    seal(world, "provider", "auditor")
    opens(world, "provider")
    with pytest.raises(Refused, match="not to a nonce of this folder"):
        participant(world, state).advance()


def test_does_not_open_a_nonce_that_it_did_not_commit_to(world: World, state: SimulatedState) -> None:
    """The folder was restored and has another nonce than the log has a commitment to: it stays closed."""
    part = participant(world, state)
    part.advance()
    drawn = state.nonce(world.digest)
    world.messages[-1] = world.commit_entry("auditor", bytes(32), state.identity)
    seal(world, "provider", "auditor")
    opens(world, "provider")
    size = len(world.messages)
    with pytest.raises(Refused, match="not to a nonce of this folder"):
        participant(world, state).advance()
    assert len(world.messages) == size
    assert drawn is not None
    assert drawn != bytes(32)


@pytest.mark.parametrize("grown", [0, 2])
def test_a_fork_while_watching_is_refused(world: World, state: SimulatedState, grown: int) -> None:
    part = participant(world, state)
    part.advance()
    part.advance()
    world.messages[-1] = world.commit_entry("observer-1", OBSERVER, key_of("observer"))
    world.messages += [WindowClose(world.digest, 0, OPENS)] * grown
    with pytest.raises(Forked, match="do not give the root" if grown else "two roots"):
        part.advance()


def test_a_shrinking_log_is_refused(world: World, state: SimulatedState) -> None:
    part = participant(world, state)
    part.advance()
    part.advance()
    world.messages.pop()
    with pytest.raises(Undecided, match="shrank"):
        part.advance()


def test_a_fork_behind_a_restart_is_refused(world: World, state: SimulatedState) -> None:
    part = participant(world, state)
    part.advance()
    part.advance()
    world.messages[-1] = world.commit_entry("observer-1", OBSERVER, key_of("observer"))
    with pytest.raises(Refused, match="forked"):
        participant(world, state).advance()


def test_only_new_entries_are_fetched(world: World, state: SimulatedState) -> None:
    asked: list[tuple[int, int]] = []

    class Counting(Link):
        def entries(self, start: int, stop: int) -> list[bytes]:
            asked.append((start, stop))
            return super().entries(start, stop)

    part = participant(world, state)
    part.link = Counting(world)
    part.advance()
    part.advance()
    part.advance()
    assert asked == [(0, 1), (1, 2)]


# An auditor's part in the beacon of a window with a coin: real thinning key and proofs.


@pytest.mark.slow
def test_the_whole_way_of_a_window_with_a_coin(tmp_path: Path) -> None:
    """Placed columns are checked under the thinning key before this auditor commits, which is what coins need."""
    world = CoinedWorld()
    state = SimulatedState.create(tmp_path / "auditor", world.auditor_key)
    assert isinstance(state, SimulatedState)
    state.world = world
    world.enter_manifest()
    part = participant(world, state)
    assert part.advance() == (Stage.COMMITTED, "w1")
    seal(world, "provider", "auditor")
    opens(world, "provider")
    assert part.advance() == (Stage.OPENED, "w1")
    nonces = [("provider", world.provider_nonce), ("auditor", state.nonce(world.digest) or b"")]
    world.beacon = beacon_value(world.digest, nonces)
    world.messages += [world.thin(), WindowOpen(world.digest, world.beacon, OPENS + 60)]
    world.queries()
    world.close()
    verdict = world.audit(auditor=state.auditor(world.signer.verifier, {}))
    assert verdict.line().startswith("PASS epsilon_audit=1.45084 claim=until-delivered "), verdict.line()


@pytest.mark.slow
@pytest.mark.parametrize("lie", ["another key", "columns under the attestation's points"])
def test_no_part_in_a_window_whose_coins_could_prove_nothing(tmp_path: Path, lie: str) -> None:
    world = CoinedWorld()
    state = SimulatedState.create(tmp_path / "auditor", world.auditor_key)
    assert isinstance(state, SimulatedState)
    state.world = world
    if lie == "another key":
        world.enter_manifest(coins=(CoinCommitment(1, bytes(32)),))
        match = "a thinning key that is not in this auditor's configuration"
    else:
        world.enter_manifest(tenants=tuple(TENANTS[name].index for name in sorted(TENANTS)))
        world.files = {name: tenant.file for name, tenant in TENANTS.items()}
        match = "index of tenant 'north'"
    with pytest.raises(AuditError, match=match):
        participant(world, state).advance()
    assert state.nonces() == {}
