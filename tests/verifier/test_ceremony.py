# SPDX-License-Identifier: GPL-3.0-or-later
"""A ceremony's folder from hand to hand: ours and snarkjs' contributions side by side, and what every command says."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragseal.kernel.errors import ConfigurationError, LedgerError, ProofError
from ragseal.runtime import durable
from ragseal.verifier.__main__ import main
from ragseal.verifier.ceremony.contributing import Step
from ragseal.verifier.ceremony.folder import ATTESTATION, DESCRIPTION, SUFFIX, WORK, Description, Folder
from ragseal.verifier.ceremony.trusting import MYSELF, Known, check_end, record, who_is_known
from ragseal.verifier.folder.key_entries import KeyEntry
from tests.classes import TINY
from tests.verifier import ceremony_scene as scene

pytest.importorskip("ragseal_native")
pytest.importorskip("py_ecc")
pytestmark = [pytest.mark.slow, scene.NEEDED]


sources, circuits, done, copy = scene.sources, scene.circuits, scene.done, scene.copy


@pytest.fixture
def begun(done: Path, tmp_path: Path) -> Path:
    """The same before the beacon."""
    path = tmp_path / "begun"
    shutil.copytree(done, path)
    shutil.rmtree(path / "0003")
    return path


#: Exchanges 64 bytes of a section's beginning with the next ones, or changes one byte so far before its end.
SPOIL = """
import sys
path, kind, at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data, place = bytearray(open(path, "rb").read()), 12
while int.from_bytes(data[place : place + 4], "little") != kind:
    place += 12 + int.from_bytes(data[place + 4 : place + 12], "little")
size, begin = int.from_bytes(data[place + 4 : place + 12], "little"), place + 12
if at > 0:
    data[begin : begin + 2 * at] = data[begin + at : begin + 2 * at] + data[begin : begin + at]
else:
    data[begin + size + at] ^= 1
open(path, "wb").write(data)
"""


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_all_of_it_holds_and_snarkjs_agrees(done: Path) -> None:
    found = scene.verify(done)
    alice, bob, carol = found.parties
    assert (alice.name, alice.key, alice.beacon) == ("alice", scene.public("alice"), "")
    assert (bob.name, bob.key) == (scene.HOSTILE, None), "nobody signed what snarkjs made by hand"
    assert (carol.key, carol.beacon) == (scene.public("carol"), f"{scene.BEACON}, 2^10 iterations")
    assert set(found.keys) == set(scene.NAMES)
    for name in scene.NAMES:
        first, last = (done / number / (name + SUFFIX) for number in ("0000", "0003"))
        said = scene.snarkjs("zkvi", first, scene.powers(), last)
        assert "ZKey Ok" in said
        shown = "".join(said.split())
        for one in found.parties:
            assert one.hashes[name] in shown, "snarkjs prints the very hashes"


def test_show_says_that_it_checked_nothing_and_names_steer_no_terminal(done: Path) -> None:
    for arguments in (["show", str(done)], ["show", str(done), "--json"]):
        told = CliRunner().invoke(main, ["ceremony", *arguments])
        assert told.exit_code == 0, told.output
        assert "\x1b" not in told.output
        assert "\u202e" not in told.output
    assert json.loads(told.output)["checked"] is False
    assert [one["names"] for one in json.loads(told.output)["rounds"]] == [["alice"], [scene.HOSTILE], ["beacon"]]
    told = CliRunner().invoke(main, ["ceremony", "show", str(done)])
    assert "nothing of this was checked" in told.output
    assert "round 0002  bob\\x1b[2J\\u202e: contribution; names the key of nobody" in told.output


@pytest.mark.parametrize("harm", ["link", "pipe", "sparse", "cut", "twice", "list"])
def test_show_reads_little_of_what_others_wrote(done: Path, tmp_path: Path, harm: str) -> None:
    path = tmp_path / "copy"
    shutil.copytree(done, path)
    key = path / "0003" / ("small-one" + SUFFIX)
    data = key.read_bytes()
    key.unlink()
    if harm == "link":
        key.symlink_to(done / "0003" / key.name)
    elif harm == "pipe":
        os.mkfifo(key)
    elif harm == "sparse":  # as large as it says, and of no use
        head = data[:12] + (7).to_bytes(4, "little") + (1 << 40).to_bytes(8, "little")
        key.write_bytes(head)
        os.truncate(key, (1 << 40) + 24)
    elif harm == "cut":
        key.write_bytes(data[:1000])
    elif harm == "twice":
        key.write_bytes(data[:12] + 2 * ((1).to_bytes(4, "little") + bytes(8)) + data[12:])
    else:
        key.write_bytes(data[:12] + (10).to_bytes(4, "little") + (1 << 20).to_bytes(8, "little") + bytes(1 << 20))
    told = CliRunner().invoke(main, ["ceremony", "show", str(path)])
    assert told.exit_code == 1
    assert "Traceback" not in told.output


def test_verify_prints_who_took_part(done: Path) -> None:
    told = CliRunner().invoke(main, ["ceremony", "verify", str(done), "--powers", str(scene.powers())])
    assert told.exit_code == 0, told.output
    assert "\x1b" not in told.output
    assert f"round 0001  alice: contribution; signed by {scene.public('alice').hex()}" in told.output
    assert "not signed: anybody may have written the name" in told.output
    assert "nobody compared the powers with a published hash" in told.output


def test_whom_an_auditor_knows(done: Path) -> None:
    found = scene.verify(done)
    alice, carol, eve = (scene.public(name) for name in ("alice", "carol", "eve"))
    assert [name for name, _ in who_is_known(found, [Known("A.", alice)], eve)] == ["A."]
    assert [name for name, _ in who_is_known(found, [Known("", alice)], eve)] == ["alice"]
    assert [name for name, _ in who_is_known(found, [], alice)] == [MYSELF]
    with pytest.raises(ProofError, match="you know none of the parties"):
        who_is_known(found, [], eve)
    with pytest.raises(ProofError, match="you know none of the parties"):
        who_is_known(found, [], carol)  # the beacon's delta is everybody's
    with pytest.raises(ProofError, match="signed no contribution of this ceremony"):
        who_is_known(found, [Known("eve", eve)], alice)
    with pytest.raises(ConfigurationError, match="a name proves nothing"):
        Known.read("alice")
    assert Known.read(f"al=ice={alice.hex()}") == Known("al=ice", alice)
    check_end(found, None)
    check_end(found, scene.BEACON.upper())
    with pytest.raises(ProofError, match="not with the one that you expect"):
        check_end(found, "ab" * 32)
    line = KeyEntry(
        "ab" * 32, TINY.name, "cd" * 32, "ceremony", "keys/x", ceremony=record(found, [("A.", found.parties[0])], 0)
    )
    assert line.participants == (f"A. ({alice.hex()[:16]})",)


def test_an_unfinished_ceremony(begun: Path) -> None:
    found = scene.verify(begun)
    assert (found.beacon, len(found.parties)) == ("", 2)
    with pytest.raises(ProofError, match="the ceremony is not finished"):
        check_end(found, None)


def test_nothing_follows_the_beacon(done: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(done, path)
    before = tree(path)
    with pytest.raises(ConfigurationError, match="the ceremony is finished"):
        scene.contribute(path, "dave")
    assert tree(path) == before
    scene.by_hand(path, "dave")
    with pytest.raises(ProofError, match="has a contribution after the beacon"):
        scene.verify(path)


def test_a_beacon_alone_makes_no_key(done: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.mkdir()
    shutil.copy(done / DESCRIPTION, path)
    shutil.copytree(done / "0000", path / "0000")
    with pytest.raises(ConfigurationError, match="nobody has contributed yet"):
        scene.finish(path)
    assert scene.verify(path).keys == {}, "the key that proves anything has no digest here"


def test_one_at_a_time_and_what_was_interrupted_goes(begun: Path) -> None:
    left, target = begun / f"{WORK}left", begun.parent / "elsewhere"
    (left / "0003").mkdir(parents=True)
    (left / "0003" / "small-one.zkey").write_bytes(b"half")
    target.mkdir()
    (target / "kept").write_bytes(b"kept")
    (begun / f"{WORK}link").symlink_to(target)
    before = {name: data for name, data in tree(begun).items() if not name.startswith(WORK)}
    scene.verify(begun)  # is in nobody's way
    with Folder(begun).writing(), pytest.raises(LedgerError, match=r"another process .*is adding a round"):
        scene.contribute(begun, "dave")
    assert tree(begun) == before
    assert (target / "kept").exists(), "links are not followed"


def test_a_contribution_that_fails_leaves_nothing(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, before = shutil.which("node"), tree(begun)
    shim = tmp_path / "bin" / "node"
    shim.parent.mkdir()
    monkeypatch.setenv("PATH", str(shim.parent), prepend=os.pathsep)

    def run(script: str) -> None:
        shim.write_text(f"#!/bin/sh\n{script}\n")
        shim.chmod(0o700)
        scene.contribute(begun, "dave")

    with pytest.raises(ProofError, match=r"snarkjs failed: .*\\x1b"):
        run("printf '\\033[31mno luck' >&2; exit 1")
    with pytest.raises(ProofError, match="snarkjs failed"):
        run("exit 0")
    with pytest.raises(ProofError, match="what snarkjs wrote is wrong"):
        run('cp "$4" "$5"')  # nobody's secret is in it
    with pytest.raises(ProofError, match="what snarkjs wrote is wrong"):
        run('head -c 1000 "$4" > "$5"')
    spoil = tmp_path / "spoil.py"
    spoil.write_text(SPOIL)
    for kind, at in ((8, 64), (10, -12 - len("dave"))):  # two points of C exchanged; a byte of the transcript
        with pytest.raises(ProofError, match="what snarkjs wrote is wrong"):
            run(f'{node} "$@" && {sys.executable} {spoil} "$5" {kind} {at}')
    assert tree(begun) == before
    assert sorted(p.name for p in begun.iterdir()) == ["0000", "0001", "0002", DESCRIPTION]
    asked = tmp_path / "asked"
    run(f'printf "%s\\n" "$@" >> {asked}; env >> {asked}; tee -a {tmp_path}/entropy | {node} "$@"')
    entropies = (tmp_path / "entropy").read_text().split()
    assert len(set(entropies)) == len(scene.NAMES)
    assert all(len(one) == 128 for one in entropies)
    assert not [one for one in entropies if one in asked.read_text()], "it is in no argument and no environment"
    assert not [path for path, data in tree(begun).items() if entropies[0].encode() in data]
    assert scene.verify(begun).parties[-1].key == scene.public("dave")
    modes = {stat.S_IMODE(os.stat(begun / "0003" / name).st_mode) for name in os.listdir(begun / "0003")}
    assert modes <= {0o644, 0o664}


def test_a_round_that_is_said_not_to_be_added_is_not_there(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its name, and the folder cannot be synced: a party that contributed again would have contributed twice."""
    before = tree(begun)

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(durable, "sync_directory", fails)
        with pytest.raises(
            ConfigurationError, match=r"cannot write round 0003 to .*: Input/output error.*; nothing was added"
        ):
            scene.contribute(begun, "dave")
        assert tree(begun) == before
        real = os.rename
        patched.setattr(os, "rename", lambda a, b: real(a, b) if Path(b).parent == begun else fails())
        with pytest.raises(ConfigurationError, match=r"cannot write round 0003 to .*: the new content is in place"):
            scene.contribute(begun, "dave")
    assert scene.verify(begun).parties[-1].key == scene.public("dave")


@pytest.mark.parametrize("name", ["", " ", "x\ny", "a\x1b[1m", "é" * 33, " alice"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="a name is 1 to 64 bytes of printable text"):
        Step.contribution(name)


@pytest.mark.parametrize(
    ("beacon", "iterations"),
    [("", 10), ("ab" * 15, 10), ("ab" * 256, 10), ("zz" * 16, 10), ("ab" * 16, 9), ("ab" * 16, 27), ("ab " * 16, 10)],
)
def test_beacons_that_are_refused(beacon: str, iterations: int) -> None:
    with pytest.raises(ConfigurationError, match=r"--(beacon|iterations)"):
        Step.ending(beacon, iterations)


def test_a_folder_that_is_none(done: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a ceremony's folder"):
        Folder(tmp_path)
    (tmp_path / DESCRIPTION).symlink_to(done / DESCRIPTION)
    with pytest.raises(ProofError, match="a link"):
        Folder(tmp_path)
    with pytest.raises(ConfigurationError, match="begins in a new folder"):
        scene.start(tmp_path)
    told = CliRunner().invoke(main, ["ceremony", "show", str(tmp_path / "nowhere")])
    assert told.exit_code == 1
    assert "is not a ceremony's folder" in " ".join(told.output.split())


def test_descriptions_are_read_in_one_form_only(done: Path) -> None:
    data = (done / DESCRIPTION).read_bytes()
    found = Description.decode(data)
    assert found.encode() == data
    values = json.loads(data)
    for changed in (
        data + b"\n",
        data.replace(b"v1", b"v2"),
        data.replace(b"small-one", b"../../one"),
        data.replace(b"small-one", b"small-two"),
        data.replace(found.powers.encode(), found.powers.upper().encode()),
        json.dumps({**values, "more": 1}, indent=1, sort_keys=True).encode() + b"\n",
        b"[" * 100_000,
        b"\xff",
        b"{}",
    ):
        if changed != data:
            with pytest.raises(ProofError, match="is not one that `ceremony new` wrote"):
                Description.decode(changed)


def test_attestations_name_what_a_party_was_handed(done: Path) -> None:
    from ragseal.verifier.signed import envelope
    from ragseal.verifier.signed.statement import PAYLOAD_TYPE

    data = (done / "0001" / ATTESTATION).read_bytes()
    said = json.loads(envelope.open_sealed(data, PAYLOAD_TYPE, scene.public("alice")))
    assert [one["name"] for one in said["subject"]] == ["small-one.zkey", "small-two.zkey"]
    assert said["predicate"]["name"] == "alice"
    assert {"before", "after", "contribution", "class"} == set(said["predicate"]["circuits"][0])
