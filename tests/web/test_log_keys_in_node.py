# SPDX-License-Identifier: GPL-3.0-or-later
"""The browser's checks across turns of a log's key: it follows them from the entries alone.  SPEC G.6.13."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.kernel.rotation import Rotation
from ragseal.ledger import learning, tiles
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.note import COSIGNATURE, ED25519, Note, NoteSigner
from ragseal.ledger.receipt import InclusionBundle
from ragseal.ledger.turns import KeptTurns
from tests.attacks.checks import without
from tests.attacks.removal import Both, Check
from tests.attacks.test_log_keys import back_to_the_first
from tests.attacks.turn_checks import (
    TURN_BEHIND_THE_OVERLAP,
    TURN_IN_ITS_PLACE,
    TURN_IN_ORDER,
    TURN_NEW_SIGNED,
    TURN_OF_THE_NEWEST,
    TURN_OF_THIS_LOG,
    TURN_OLD_SIGNED,
    TURN_TO_NO_OLDER_KEY,
)
from tests.simulator.turning import Turning
from tests.simulator.world import ORIGIN, key_of
from tests.web.published import NODE, Published, export_log
from tests.web.test_dropped_in_node import said as said_of
from tests.web.test_dropped_in_node import states

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]

VERIFY = Path(__file__).resolve().parents[2] / "ledger" / "web" / "verify.js"
ASK = """
const [path, note, key] = process.argv.slice(1), { internals } = require(path);
console.log(internals.hasUnknownLine(internals.parseNote(require("fs").readFileSync(note)), internals.parseKey(key)));
"""
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


def test_what_both_keys_signed_is_no_turn_of_another_log_or_order(tmp_path: Path) -> None:
    """Each check of a turn that the page has, beside its place and signatures."""
    whole = Both((TURN_OF_THIS_LOG, TURN_IN_ORDER, TURN_OF_THE_NEWEST, TURN_BEHIND_THE_OVERLAP, TURN_TO_NO_OLDER_KEY))
    lies: dict[str, Callable[[], Turning]] = {
        "another log": lambda: Turning.turned(log=bytes(32)),
        "order": lambda: Turning.turned(number=2),
        "newest": of_a_stranger,
        "overlap": in_the_overlap,
        "id of one": back,
    }
    for name, make in lies.items():
        with without(whole):
            world = make()
            files = published(world, tmp_path / name)
        said = files.check()
        if name == "id of one":  # it is signed by the first key, which had been given up by then
            assert "that the log has given up before" in said.of("open")["log keys"]
        else:
            assert "has no signature of" in said.bad["checkpoint"], name


def test_a_thief_of_the_first_key_and_a_made_up_turn_convict_nobody(tmp_path: Path) -> None:
    world = Turning.turned()
    turn = world.messages[world.at(Rotation)]
    assert isinstance(turn, Rotation)
    stolen = world.signer.private_key
    world.messages.append(replace(turn, number=2, index=world.size, until=world.size + 1).signed(stolen, stolen))
    world.by = lambda point: point.sign(world.signer)
    said = published(world, tmp_path / "files").check()
    assert not said.bad
    assert "that the log has given up before" in said.of("open")["log keys"]


def of_a_stranger() -> Turning:
    world = Turning.turned()
    stranger, new = key_of("stranger"), world.log_signer.signers[0].private_key
    index = world.at(Rotation)
    turn = world.messages[index]
    assert isinstance(turn, Rotation)
    public = stranger.public_key().public_bytes_raw()
    world.messages[index] = replace(turn, old_key=public).signed(stranger, new)
    return world


def in_the_overlap() -> Turning:
    world = Turning.turned(overlap=50)
    world.turn("third log key")
    return world


def back() -> Turning:
    world = Turning.turned()
    back_to_the_first(world)
    return world


def test_a_kept_note_that_a_thief_signed_convicts_nobody(tmp_path: Path) -> None:
    """A reader who did not know of the turn kept it; of the size of the files, or of fewer entries."""
    world, kept = Turning.turned(), tmp_path / "kept"
    files = published(world, tmp_path / "files")
    for size in (world.size, world.size - 1):
        kept.write_bytes(Checkpoint(ORIGIN, size, bytes(32)).sign(world.signer))
        said = files.check("--kept", str(kept))
        assert not said.bad
        assert "whoever stole that key" in said.of("open")["kept checkpoint"]
        assert said.state != "good"
    kept.write_bytes(Checkpoint(ORIGIN, 5, bytes(32)).sign(world.signer))
    assert "another history" in files.check("--kept", str(kept)).bad["kept checkpoint"]


def test_a_line_of_a_witness_under_the_logs_name_has_nothing_read(tmp_path: Path) -> None:
    """It is longer than a log key's: the entries are read for a line of such a key alone."""
    world = Turning.turned()
    text = world.checkpoint().decode().partition("\n\n")[0] + "\n"
    stranger = key_of("stranger")
    assert NODE is not None
    for algorithm, unknown in ((COSIGNATURE, "false"), (ED25519, "true")):
        line = NoteSigner(ORIGIN, stranger, algorithm).sign(text, 5 if algorithm == COSIGNATURE else 0)
        (tmp_path / "note").write_bytes(Note(text, (line,)).encode())
        done = subprocess.run(
            [NODE, "-e", ASK, str(VERIFY), str(tmp_path / "note"), world.signer.verifier.vkey()],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert done.stdout.strip() == unknown


def test_dropped_receipts_from_behind_a_turn_hold_with_the_turns(tmp_path: Path) -> None:
    world = Turning.turned()
    answer, key = world.answers[-1], world.signer.verifier.vkey()
    body = answer.receipt.body
    parts = {
        "one.receipt": answer.receipt.encode(), "one.record": answer.record.encode(),
        "one.manifest": world.messages[0].encode(),
        "one.tlog-proof": InclusionBundle(body.index, answer.receipt.path, body.checkpoint).to_text(),
    }  # fmt: skip
    (proof,) = world.proofs()
    turns = {"a.turn-proof": proof.encode(), "log.turns": KeptTurns((proof.turn,)).encode()}
    for name, data in (parts | turns).items():
        (tmp_path / name).write_bytes(data)
    files = [tmp_path / name for name in parts]
    assert "bad" in states(said_of(files, key))
    for name in turns:
        lines = said_of([*files, tmp_path / name], key)
        assert states(lines) == {"good"}, lines
    assert states(said_of([tmp_path / name for name in turns])) == {"open"}
    elsewhere = Turning.turned(root=bytes(32))
    wrong = elsewhere.messages[elsewhere.at(Rotation)]
    assert isinstance(wrong, Rotation)
    stranger, end = key_of("stranger"), _point(world, proof.turn.index + 1)
    lies = {
        "signed by a stranger": replace(proof, turn=replace(proof.turn, root=bytes(32)).signed(stranger, stranger)),
        "of one key's history": replace(proof, checkpoint=_only(proof.checkpoint, 0)),
        "in another place": replace(proof, path=proof.path[::-1]),
        "of another size": replace(proof, checkpoint=_by_both(world, replace(end, size=end.size + 1))),
        "of another tree": replace(proof, checkpoint=_by_both(world, replace(end, root=bytes(32)))),
        "of another history": replace(elsewhere.proofs()[0], turn=wrong),
    }
    for name, lie in lies.items():
        (tmp_path / "a.turn-proof").write_bytes(lie.encode())
        lines = said_of([*files, tmp_path / "a.turn-proof"], key)
        assert "bad" in states(lines), name
        assert not any("turned 1 times" in text for _, text in lines), name


def _by_both(world: Turning, point: Checkpoint) -> bytes:
    """Both keys sign whatever it says."""
    return Note(point.text(), tuple(one.sign(point.text()) for one in world.log_signer.signers[::-1])).encode()


def _point(world: Turning, size: int) -> Checkpoint:
    return Checkpoint(ORIGIN, size, world.root(size))


def _only(note: bytes, line: int) -> bytes:
    parsed = Note.parse(note)
    return Note(parsed.text, (parsed.signatures[line],)).encode()


def test_a_note_of_the_old_key_alone_decides_nothing(tmp_path: Path) -> None:
    world = Turning.turned()
    world.by = lambda point: point.sign(world.signer)
    said = published(world, tmp_path / "files").check()
    assert "that the log has given up before" in said.of("open")["log keys"]
    assert said.state != "good"
