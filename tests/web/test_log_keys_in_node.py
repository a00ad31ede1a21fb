# SPDX-License-Identifier: GPL-3.0-or-later
"""The browser's checks across turns of a log's key: it follows them from the entries alone.  SPEC G.6.13."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragseal.kernel.rotation import Rotation
from ragseal.ledger import learning, tiles
from tests.attacks.checks import without
from tests.attacks.removal import Both, Check
from tests.attacks.turn_checks import TURN_IN_ITS_PLACE, TURN_NEW_SIGNED, TURN_OLD_SIGNED
from tests.simulator.turning import Turning
from tests.web.published import NODE, Published, export_log

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]

ANYTHING = (TURN_OLD_SIGNED, TURN_NEW_SIGNED, TURN_IN_ITS_PLACE, Check(tiles, "refuse_unknown_turn"))


def published(world: Turning, folder: Path) -> Published:
    """The log's tiles, exported whatever its turns are."""
    whatever = Check(learning, "follow", lambda log, proofs: world.log_signer.log)
    with without(Both((*ANYTHING, whatever))):
        export_log(world, folder)
    return Published(folder, world.signer.verifier.vkey())


@pytest.mark.parametrize("overlap", [0, 100])
def test_a_log_is_followed_across_a_turn(tmp_path: Path, overlap: int) -> None:
    world = Turning.turned(overlap)
    kept = tmp_path / "kept"
    kept.write_bytes(world.checkpoint())
    said = published(world, tmp_path / "files").check("--kept", str(kept))
    good = said.of("good")
    assert "has turned its key 1 times" in good["log keys"]
    assert "was kept" in good["kept checkpoint"]
    assert "manifest" in good, "which names the first key"
    assert not said.bad


def test_what_is_no_turn_is_not_followed(tmp_path: Path) -> None:
    for number, change in enumerate(({"root": bytes(32)}, {"index": 1, "until": 2})):
        said = published(Turning.turned(**change), tmp_path / f"place {number}").check()
        assert "has no signature of" in said.bad["checkpoint"]
    for name in ("by_old", "by_new"):
        world = Turning.turned()
        index = world.at(Rotation)
        turn = world.messages[index]
        assert isinstance(turn, Rotation)
        values = {field: getattr(turn, field) for field in turn.__slots__}
        world.messages[index] = Rotation(**values | {name: bytes(64)})
        said = published(world, tmp_path / name).check()
        assert "has no signature of" in said.bad["checkpoint"]


def test_a_note_of_the_old_key_alone_decides_nothing(tmp_path: Path) -> None:
    world = Turning.turned()
    world.by = lambda point: point.sign(world.signer)
    said = published(world, tmp_path / "files").check()
    assert "that the log has given up before" in said.of("open")["log keys"]
    assert said.state != "good"
