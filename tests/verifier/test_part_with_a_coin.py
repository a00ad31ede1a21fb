# SPDX-License-Identifier: GPL-3.0-or-later
"""An auditor's part in the beacon of a window with a coin: real thinning key and proofs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragseal.kernel.beacon import beacon_value
from ragseal.kernel.commitment import CoinCommitment, WindowOpen
from ragseal.kernel.errors import AuditError
from ragseal.verifier.audit.participant import Stage
from tests.simulator import OPENS, TENANTS
from tests.simulator.coined import CoinedWorld
from tests.verifier.beacon_scene import SimulatedState, opens, participant, seal

pytestmark = pytest.mark.slow


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
