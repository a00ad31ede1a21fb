# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks on a ceremony's files: other powers, private inputs, and whatever strangers put into its folder."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.circuits.build import DEFAULT_CACHE
from ragseal.circuits.container import write_container
from ragseal.groth16.contributions import SECTION
from ragseal.groth16.powers import PowersFile
from ragseal.groth16.resection import hide_inputs
from ragseal.kernel.errors import AttestationError, AuditError, ConfigurationError, ProofError
from ragseal.verifier.ceremony import checking
from ragseal.verifier.ceremony.contributing import begin
from ragseal.verifier.ceremony.folder import ATTESTATION, DESCRIPTION, MAX_SMALL, SUFFIX, Description
from ragseal.verifier.ceremony.trusting import take_keys
from ragseal.verifier.folder.state import State
from tests.attacks import checks
from tests.attacks.ceremony_folder import ONE, TWO, rewrite, round_of, sections, sha256
from tests.attacks.checks import without
from tests.verifier import ceremony_scene as scene

native = pytest.importorskip("ragseal_native")
pytest.importorskip("py_ecc")
pytestmark = [pytest.mark.slow, scene.NEEDED]

sources, circuits, done, copy = scene.sources, scene.circuits, scene.done, scene.copy


@pytest.fixture(scope="module")
def other_powers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("powers") / "other.ptau"
    native.make_powers(path, scene.POWER)
    return path


# --- powers -----------------------------------------------------------------------------------------------------------


def test_other_powers(copy: Path, other_powers: Path, tmp_path: Path) -> None:
    with pytest.raises(ProofError, match="holds other powers of tau than those that the ceremony began with"):
        scene.verify(copy, other_powers)
    with pytest.raises(ProofError, match="is not the file that was published"):
        scene.verify(copy, published="ab" * 64)
    with pytest.raises(ConfigurationError, match="a BLAKE2b-512 hash is expected"):
        scene.verify(copy, published="ab" * 32)
    scene.checker(copy, published=hashlib.blake2b(scene.powers().read_bytes()).hexdigest().upper())
    with pytest.raises(ProofError, match="is not the file that was published"):
        begin(tmp_path / "new", scene.NAMES, other_powers, "00" * 64, DEFAULT_CACHE, scene.mute)
    assert not (tmp_path / "new").exists()
    state = State.create(tmp_path / "auditor", scene.party("alice"))
    with pytest.raises(ConfigurationError, match="--powers-hash: give the BLAKE2b-512 hash"):
        take_keys(state, copy, scene.powers(), None, (), None, DEFAULT_CACHE, scene.mute)
    with pytest.raises(ProofError, match="is not the file that was published"):
        take_keys(state, copy, scene.powers(), "ab" * 64, (), None, DEFAULT_CACHE, scene.mute)
    assert state.key_entries() == []


def test_powers_that_change_places_between_hash_and_check(
    other_powers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: the published file is hashed, and the attacker's lies under its name when the points are read."""
    path, given = tmp_path / "ceremony", tmp_path / "powers.ptau"
    begin(path, scene.NAMES, other_powers, None, DEFAULT_CACHE, scene.mute)
    published = hashlib.blake2b(scene.powers().read_bytes()).hexdigest()
    hashed = checking.check_published

    def swapping(powers: PowersFile, wanted: str | None) -> str:
        found = hashed(powers, wanted)
        shutil.copy(other_powers, tmp_path / "attackers.ptau")
        os.replace(tmp_path / "attackers.ptau", given)
        return found

    monkeypatch.setattr(checking, "check_published", swapping)
    shutil.copy(scene.powers(), given)
    with pytest.raises(ProofError, match=r"powers\.ptau is being written: take a copy of your own"):
        scene.checker(path, given, published)  # the published file, whose name was taken from it meanwhile
    shutil.copy(scene.powers(), given)
    with without(checks.POWERS_OPENED_ONCE):
        scene.checker(path, given, published)


def test_powers_that_are_written_while_they_are_read(tmp_path: Path) -> None:
    given = tmp_path / "powers.ptau"
    shutil.copy(scene.powers(), given)
    held = PowersFile(given)
    held.blake2b()
    before = given.stat()
    with given.open("r+b") as file:
        file.write(b"ptau")
    os.utime(given, ns=(before.st_atime_ns, before.st_mtime_ns))  # whoever wrote to it hides that
    _, about, rows = checking.subject_of(scene.NAMES[0], DEFAULT_CACHE, scene.mute)
    subject = rows, about.kept
    with pytest.raises(ProofError, match="is being written: take a copy of your own"):
        held.digest(*subject)
    with pytest.raises(ConfigurationError, match=r"cannot read .*nowhere"):
        PowersFile(tmp_path / "nowhere").blake2b()
    given.write_bytes(b"ptau" + bytes(20))
    with pytest.raises(ProofError, match=r"powers\.ptau: version 0 where 1 is expected"):
        PowersFile(given).digest(*subject)


def test_keys_of_powers_that_the_attacker_made(other_powers: Path, tmp_path: Path) -> None:
    """Attack: the description names the public powers, and the keys are of the attacker's own."""
    path = tmp_path / "ceremony"
    begin(path, scene.NAMES, other_powers, None, DEFAULT_CACHE, scene.mute)
    found = scene.checker(path, other_powers)
    own = found.subjects[0]
    public = PowersFile(scene.powers()).digest(own.system, own.circuit.kept).hex()
    said = replace(found.description, powers=public)
    (path / DESCRIPTION).write_bytes(said.encode())
    for listed in said.circuits:
        rewrite(path / "0000" / (listed.name + SUFFIX), s10=said.circuit_hash(listed) + bytes(4))
    for refused in (scene.verify, lambda at: scene.contribute(at, "alice")):
        with pytest.raises(ProofError, match="is not the key that its circuit and these powers give"):
            refused(path)
    by_hand_done(path)
    with pytest.raises(ProofError, match="is not the key that its circuit and these powers give"):
        scene.verify(path)
    with pytest.raises(ProofError, match="alpha and beta are not those of these powers"):
        scene.contribute(path, "alice")


def by_hand_done(path: Path) -> None:
    scene.by_hand(path, "mallory")


# --- hidden inputs that are still private -----------------------------------------------------------------------------


@pytest.fixture
def private(sources: Path, done: Path, tmp_path: Path) -> Path:
    """A folder whose first key is as snarkjs makes it: hidden inputs private, and the ceremony's own circuit hash."""
    path = tmp_path / "private"
    path.mkdir()
    shutil.copy(done / DESCRIPTION, path)
    shutil.copytree(done / "0000", path / "0000")
    hide_inputs(sources / "small-one.r1cs", scene.KEPT, tmp_path / "hidden.r1cs")
    scene.snarkjs("groth16", "setup", tmp_path / "hidden.r1cs", scene.powers(), path / "0000" / ONE)
    rewrite(path / "0000" / ONE, s10=bytes(sections(done / "0000" / ONE)[SECTION]))
    return path


def test_nobody_contributes_to_a_key_with_private_inputs(private: Path) -> None:
    """Attack: what comes out holds every hidden input's point divided by delta (SPEC A.9.11)."""
    before = sorted(p.name for p in private.rglob("*"))
    for refused in (scene.verify, lambda at: scene.contribute(at, "alice")):
        with pytest.raises(ProofError, match="hidden inputs are still private in it; do not contribute to it"):
            refused(private)
    assert sorted(p.name for p in private.rglob("*")) == before
    scene.by_hand(private, "somebody careless")
    with pytest.raises((ProofError, AuditError), match="it is of other circuit sources"):
        scene.contribute(private, "alice")  # nor to what somebody careless made of it


def test_a_contribution_to_such_a_key_shown_as_one_to_the_right_key(private: Path, done: Path, tmp_path: Path) -> None:
    """Attack: alice signed what she made of the key with private inputs; the folder shows the key as it should be.

    Circuit hash, points and proofs of knowledge are all in order.  What gives it away is what she says she was handed.
    """
    scene.by_hand(private, "alice")
    path = tmp_path / "shown"
    shutil.copytree(private, path)
    shutil.copy(done / "0000" / ONE, path / "0000" / ONE)
    begun, given = sections(done / "0000" / ONE), sections(private / "0001" / ONE)
    cut = (scene.PUBLIC - scene.KEPT) * 64
    header = bytes(begun[2][:-192]) + bytes(given[2][-192:])
    parts = {**given, 2: header, 3: begun[3], 4: begun[4], 8: given[8][cut:]}
    write_container(path / "0001" / ONE, b"zkey", 1, parts)
    found = scene.verify(path)
    assert found.parties[0].key is None
    assert "ZKey Ok" in scene.snarkjs("zkvi", path / "0000" / ONE, scene.powers(), path / "0001" / ONE)
    honest = round_of(private, 1, "alice")
    (path / "0001" / ATTESTATION).write_bytes(honest.sign(scene.party("alice"), 0))
    with pytest.raises(AttestationError, match=r"speaks of something else"):
        scene.verify(path)
    handed = sha256(private / "0000" / ONE)
    shown = round_of(path, 1, "alice", handed)  # had she signed for the key as it is shown, she would still name it
    (path / "0001" / ATTESTATION).write_bytes(shown.sign(scene.party("alice"), 0))
    with pytest.raises(AttestationError, match=r"speaks of something else .*\(other: circuits\)"):
        scene.verify(path)


# --- files ------------------------------------------------------------------------------------------------------------


def linked_key(path: Path) -> None:
    (path / "0002" / ONE).rename(path / "kept")
    (path / "0002" / ONE).symlink_to(path / "kept")


def linked_round(path: Path) -> None:
    (path / "0002").rename(path / "kept")
    (path / "0002").symlink_to(path / "kept")


def linked_attestation(path: Path) -> None:
    (path / "0001" / ATTESTATION).rename(path / "kept")
    (path / "0001" / ATTESTATION).symlink_to(path / "kept")


def pipe(path: Path) -> None:
    (path / "0002" / ONE).unlink()
    os.mkfifo(path / "0002" / ONE)


def folder_for_a_key(path: Path) -> None:
    (path / "0002" / ONE).unlink()
    (path / "0002" / ONE).mkdir()


def truncated(path: Path) -> None:
    data = (path / "0002" / ONE).read_bytes()
    (path / "0002" / ONE).write_bytes(data[:-700])


def cut_by_a_byte(path: Path) -> None:
    data = (path / "0003" / ONE).read_bytes()
    (path / "0003" / ONE).write_bytes(data[:-1])


def oversized(path: Path) -> None:
    with (path / "0002" / ONE).open("ab") as file:
        file.truncate(1 << 40)  # takes no place, and would take all memory


def oversized_attestation(path: Path) -> None:
    (path / "0001" / ATTESTATION).write_bytes(bytes(MAX_SMALL + 1))


def foreign(path: Path) -> None:
    (path / "0002" / "no\x1b[2Jte").write_bytes(b"")


def attested_beginning(path: Path) -> None:
    (path / "0000" / ATTESTATION).write_bytes(b"")


def missing_key(path: Path) -> None:
    (path / "0001" / TWO).unlink()


def missing_round(path: Path) -> None:
    shutil.rmtree(path / "0001")


def damaged_description(path: Path) -> None:
    (path / DESCRIPTION).write_bytes((path / DESCRIPTION).read_bytes()[:-1])


def another_circuits_rows(path: Path) -> None:
    found = Description.decode((path / DESCRIPTION).read_bytes())
    listed = (replace(found.circuits[0], rows="ab" * 32), *found.circuits[1:])
    (path / DESCRIPTION).write_bytes(replace(found, circuits=listed).encode())


FILES: dict[Callable[[Path], None], str] = {
    linked_key: "cannot be read as a file of its own",
    linked_round: "is not a folder of its own",
    linked_attestation: "cannot be read as a file of its own",
    pipe: "is not a regular file",
    folder_for_a_key: "is not a regular file",
    truncated: "it is truncated, oversized or another circuit's",
    cut_by_a_byte: "round 0003 of small-one.*truncated|it is truncated",
    oversized: "it is truncated, oversized or another circuit's",
    oversized_attestation: "is oversized",
    foreign: r"round 0002 holds 'no\\\\x1b\[2Jte', which does not belong there",
    attested_beginning: "round 0000 holds 'attestation.intoto.jsonl', which does not belong there",
    missing_key: "round 0001 lacks small-two.zkey",
    missing_round: "round 0001 is missing",
    damaged_description: "is not one that `ceremony new` wrote",
    another_circuits_rows: "circuit small-one is a different one here than in the ceremony",
}


@pytest.mark.parametrize("harm", FILES, ids=lambda harm: harm.__name__)
def test_files_of_strangers(copy: Path, harm: Callable[[Path], None]) -> None:
    harm(copy)
    with pytest.raises(AuditError, match=FILES[harm]) as refused:
        scene.verify(copy)
    assert "\x1b" not in str(refused.value)
