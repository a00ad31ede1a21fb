# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks on a ceremony's folder: whoever hands it on changes what lies in it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.circuits.build import DEFAULT_CACHE
from ragseal.circuits.container import read_container, write_container
from ragseal.groth16.contributions import SECTION, read_chain
from ragseal.groth16.powers import PowersFile
from ragseal.groth16.resection import hide_inputs
from ragseal.kernel.errors import AttestationError, AuditError, ConfigurationError, ProofError
from ragseal.verifier.ceremony import checking, trusting
from ragseal.verifier.ceremony.attestation import Made, Round
from ragseal.verifier.ceremony.contributing import begin
from ragseal.verifier.ceremony.folder import ATTESTATION, DESCRIPTION, MAX_SMALL, SUFFIX, Description, Folder
from ragseal.verifier.ceremony.trusting import Known, take_keys
from ragseal.verifier.state import State
from tests.attacks import checks
from tests.attacks.checks import without
from tests.attacks.removal import Removable
from tests.verifier import ceremony_scene as scene

native = pytest.importorskip("ragseal_native")
pytest.importorskip("py_ecc")
pytestmark = [pytest.mark.slow, scene.NEEDED]

ONE, TWO = (name + SUFFIX for name in scene.NAMES)


sources, circuits, done, copy = scene.sources, scene.circuits, scene.done, scene.copy


@pytest.fixture(scope="module")
def other_powers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("powers") / "other.ptau"
    native.make_powers(path, scene.POWER)
    return path


def sections(path: Path) -> dict[int, memoryview]:
    return dict(read_container(path, b"zkey", 1).sections)


def rewrite(path: Path, **changed: bytes) -> None:
    """Sections of a key, by names s3, s10 and so on."""
    write_container(path, b"zkey", 1, {**sections(path), **{int(k[1:]): v for k, v in changed.items()}})


def sha256(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


# --- the chain --------------------------------------------------------------------------------------------------------


def dropped_round(path: Path) -> None:
    """Alice's round is taken out, and the others move up."""
    shutil.rmtree(path / "0001")
    (path / "0002").rename(path / "0001")
    (path / "0003").rename(path / "0002")


def dropped_entry(path: Path) -> None:
    """The same, and the lists of the keys that follow leave her out as well."""
    dropped_round(path)
    for number, left in (("0001", 1), ("0002", 2)):
        for name in (ONE, TWO):
            chain = read_chain(path / number / name)
            listed = chain.circuit_hash + left.to_bytes(4, "little") + b"".join(chain.encoded[1:])
            rewrite(path / number / name, s10=listed)
    (path / "0002" / ATTESTATION).unlink()


def changed_between(path: Path) -> None:
    """A list in the middle names other points than the lists that follow."""
    listed = bytearray(sections(path / "0001" / ONE)[SECTION])
    listed[68 + 64 : 68 + 128], listed[68 + 128 : 68 + 192] = listed[68 + 128 : 68 + 192], listed[68 + 64 : 68 + 128]
    rewrite(path / "0001" / ONE, s10=bytes(listed))


def forged_knowledge(path: Path) -> None:
    """Bob's points in G1 are exchanged, everywhere: his secret is its inverse."""
    for number in ("0002", "0003"):
        chain = read_chain(path / number / ONE)
        entries = [bytearray(one) for one in chain.encoded]
        entries[1][64:128], entries[1][128:192] = entries[1][128:192], entries[1][64:128]
        listed = chain.circuit_hash + len(entries).to_bytes(4, "little") + b"".join(entries)
        rewrite(path / number / ONE, s10=listed)
    (path / "0003" / ATTESTATION).unlink()


def beacon_replaced(path: Path) -> None:
    """Another beacon is named for the same key."""
    for name in (ONE, TWO):
        listed = bytes(sections(path / "0003" / name)[SECTION])
        assert bytes.fromhex(scene.BEACON) in listed
        rewrite(path / "0003" / name, s10=listed.replace(bytes.fromhex(scene.BEACON), b"\7" * 32))
    (path / "0003" / ATTESTATION).unlink()


def beacon_of_one_circuit(path: Path) -> None:
    """The circuits end with different beacons: one of them is chosen."""
    shutil.rmtree(path / "0003")
    os.mkdir(path / "0003")
    for name, beacon in ((ONE, scene.BEACON), (TWO, "77" * 32)):
        scene.snarkjs("zkey", "beacon", path / "0002" / name, path / "0003" / name, beacon, 10)


# --- the keys ---------------------------------------------------------------------------------------------------------


def other_circuits(path: Path) -> None:
    """Both circuits' keys are exchanged, in every round; they are of one size."""
    for number in range(4):
        one, two = path / f"{number:04}" / ONE, path / f"{number:04}" / TWO
        one.rename(path / "between")
        two.rename(one)
        (path / "between").rename(two)


def other_circuit_last(path: Path) -> None:
    shutil.copy(path / "0003" / TWO, path / "0003" / ONE)


def swapped_last(path: Path) -> None:
    """Somebody's own key of the same circuit and powers, with the list of the ceremony's."""
    _swap(path, "0003")


def swapped_between(path: Path) -> None:
    _swap(path, "0002")
    (path / "0003" / ATTESTATION).unlink()


def _swap(path: Path, number: str) -> None:
    found = scene.checker(path)
    subject = found.subjects[0]
    key = path / number / ONE
    listed = bytes(sections(key)[SECTION])
    PowersFile(scene.powers()).make_key(subject.system, subject.circuit.kept, path / "own.zkey")
    write_container(key, b"zkey", 1, {**sections(path / "own.zkey"), SECTION: listed})
    (path / "own.zkey").unlink()


def own_key_without_a_list(path: Path) -> None:
    _swap(path, "0003")
    rewrite(path / "0003" / ONE, s10=bytes(sections(path / "0003" / ONE)[SECTION][:64]) + bytes(4) + b"")


def wrong_point(path: Path) -> None:
    """Two points of C change places."""
    body = bytearray(sections(path / "0003" / ONE)[8])
    body[:64], body[64:128] = body[64:128], body[:64]
    rewrite(path / "0003" / ONE, s8=bytes(body))


def wrong_point_between(path: Path) -> None:
    body = bytearray(sections(path / "0001" / ONE)[9])
    body[:64], body[64:128] = body[64:128], body[:64]
    rewrite(path / "0001" / ONE, s9=bytes(body))


def wrong_coefficient(path: Path) -> None:
    body = bytearray(sections(path / "0003" / ONE)[4])
    values = [body[i + 12 : i + 44] for i in range(4, len(body), 44)]
    body[16:48] = next(value for value in values if value != values[0])
    rewrite(path / "0003" / ONE, s4=bytes(body))


def wrong_beginning(path: Path) -> None:
    body = bytearray(sections(path / "0000" / ONE)[8])
    body[:64], body[64:128] = body[64:128], body[:64]
    rewrite(path / "0000" / ONE, s8=bytes(body))


# --- attestations -----------------------------------------------------------------------------------------------------


def reused(path: Path) -> None:
    """Alice's word for her round is shown for bob's."""
    shutil.copy(path / "0001" / ATTESTATION, path / "0002" / ATTESTATION)


def renamed(path: Path) -> None:
    """Alice's contribution gets another name wherever it is listed: no hash covers it."""
    for number in ("0001", "0002", "0003"):
        for name in (ONE, TWO):
            rewrite(
                path / number / name, s10=bytes(sections(path / number / name)[SECTION]).replace(b"alice", b"mallo")
            )
    (path / "0003" / ATTESTATION).unlink()


def of_another_signer(path: Path) -> None:
    """The envelope names alice's key, and eve signed."""
    data = json.loads((path / "0001" / ATTESTATION).read_bytes())
    made = _round(path, 1, "alice")
    eves = json.loads(made.sign(scene.party("eve"), 0))
    eves["signatures"][0]["keyid"] = data["signatures"][0]["keyid"]
    (path / "0001" / ATTESTATION).write_text(json.dumps(eves))


def changed_statement(path: Path) -> None:
    data = json.loads((path / "0001" / ATTESTATION).read_bytes())
    data["payload"] = json.loads(_round(path, 1, "mallory").sign(scene.party("eve"), 0))["payload"]
    (path / "0001" / ATTESTATION).write_text(json.dumps(data))


def _round(path: Path, number: int, name: str, before: bytes | None = None) -> Round:
    made = []
    for circuit in scene.NAMES:
        old, new = (path / f"{n:04}" / (circuit + SUFFIX) for n in (number - 1, number))
        handed = before if before is not None and circuit == scene.NAMES[0] else sha256(old)
        made.append(Made(circuit, handed, sha256(new), read_chain(new).contributions[-1].hash))
    return Round(Folder(path).description.digest, number, name, False, made)


def of_another_name(path: Path) -> None:
    """Alice's word, under a name that the list does not have."""
    (path / "0001" / ATTESTATION).write_bytes(_round(path, 1, "bob").sign(scene.party("alice"), 0))


def of_another_key(path: Path) -> None:
    """Alice was handed another key than the one that lies there."""
    (path / "0001" / ATTESTATION).write_bytes(_round(path, 1, "alice", bytes(32)).sign(scene.party("alice"), 0))


def nonsense(path: Path) -> None:
    (path / "0001" / ATTESTATION).write_bytes(b"[" * 100_000)


#: Error, words, and the check that sees it.  Without its check liveness lets the test fail.
ATTACKS: dict[Callable[[Path], None], tuple[type[AuditError], str, Removable]] = {
    dropped_round: (ProofError, "lists 2 contributions where 1 are expected", checks.CEREMONY_COUNT),
    dropped_entry: (
        ProofError,
        "small-one: contribution 1 was not made upon the ones before it",
        checks.CEREMONY_TRANSCRIPTS,
    ),
    changed_between: (
        ProofError,
        "round 0002 of small-one does not list the contributions of the round before",
        checks.CEREMONY_CONTINUES,
    ),
    forged_knowledge: (
        ProofError,
        "does not list the contributions|was not made upon the ones before it",
        checks.CEREMONY_TRANSCRIPTS,
    ),
    beacon_replaced: (ProofError, "contribution 3 is not what its beacon gives", checks.CEREMONY_BEACON),
    beacon_of_one_circuit: (ProofError, "the circuits do not have the same beacon", checks.CEREMONY_ONE_BEACON),
    other_circuits: (
        ProofError,
        "round 0000 of small-one is not the key that its circuit and these powers give",
        checks.CEREMONY_BEGINNING,
    ),
    other_circuit_last: (ProofError, "does not list the contributions of the round before", checks.CEREMONY_CONTINUES),
    swapped_last: (
        ProofError,
        "round 0003 of small-one: the key's delta is not the one that its contributions make",
        checks.CEREMONY_DELTA,
    ),
    swapped_between: (ProofError, "round 0002 of small-one: the key's delta is not the one", checks.CEREMONY_DELTA),
    own_key_without_a_list: (ProofError, "truncated, oversized or another circuit's", checks.CEREMONY_SIZES),
    wrong_point: (ProofError, r"round 0003 of small-one: .*section 8 \(C\)", checks.CEREMONY_POINTS),
    wrong_point_between: (ProofError, r"round 0001 of small-one: .*section 9 \(H\)", checks.CEREMONY_POINTS),
    wrong_coefficient: (
        ProofError,
        "round 0003 of small-one: the key's coefficients are not those of the circuit",
        checks.CEREMONY_COEFFICIENTS,
    ),
    wrong_beginning: (
        ProofError,
        "round 0000 of small-one is not the key that its circuit and these powers give",
        checks.CEREMONY_BEGINNING,
    ),
    reused: (
        ProofError,
        "round 0002 .*(different names|something else)|speaks of something else",
        checks.CEREMONY_ATTESTED,
    ),
    renamed: (AttestationError, "round 0001 speaks of something else .*name", checks.CEREMONY_ATTESTED),
    of_another_signer: (
        AttestationError,
        "round 0001: no signature of the envelope is by the key",
        checks.CEREMONY_SIGNED,
    ),
    changed_statement: (
        AttestationError,
        "round 0001: no signature of the envelope is by the key",
        checks.CEREMONY_SIGNED,
    ),
    of_another_name: (
        AttestationError,
        r"round 0001 speaks of something else .*\(other: name\)",
        checks.CEREMONY_ATTESTED,
    ),
    of_another_key: (
        AttestationError,
        r"round 0001 speaks of something else .*\(other: circuits\)",
        checks.CEREMONY_ATTESTED,
    ),
    nonsense: (AttestationError, "round 0001: not a DSSE envelope|does not name the key", checks.CEREMONY_SIGNED),
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_what_lies_there_was_changed(copy: Path, attack: Callable[[Path], None]) -> None:
    error, said, _ = ATTACKS[attack]
    attack(copy)
    with pytest.raises((error, AttestationError) if attack is reused else error, match=said):
        scene.verify(copy)


def test_a_name_without_a_signature_is_nobodys(copy: Path) -> None:
    """Attack: alice's signature is taken away with her name; her contribution counts for nobody who knows her."""
    renamed(copy)
    (copy / "0001" / ATTESTATION).unlink()
    found = scene.verify(copy)
    assert (found.parties[0].name, found.parties[0].key) == ("mallo", None)
    with pytest.raises(ProofError, match="signed no contribution of this ceremony"):
        trusting.who_is_known(found, [Known("alice", scene.public("alice"))], bytes(32))


def test_a_shorter_ceremony_lacks_whom_one_knows(copy: Path) -> None:
    """Attack: the last rounds are cut off, and the rest is finished by somebody else: all of it holds."""
    shutil.rmtree(copy / "0003")
    shutil.rmtree(copy / "0002")
    shutil.rmtree(copy / "0001")
    scene.contribute(copy, "mallory")
    scene.finish(copy, "ab" * 32)
    found = scene.verify(copy)
    with pytest.raises(ProofError, match=r"alice .* signed no contribution of this ceremony"):
        trusting.who_is_known(found, [Known("alice", scene.public("alice"))], bytes(32))
    with without(checks.CEREMONY_TOOK_PART), pytest.raises(ProofError, match="you know none of the parties"):
        trusting.who_is_known(found, [Known("alice", scene.public("alice"))], bytes(32))
    with without(checks.CEREMONY_TOOK_PART), without(checks.CEREMONY_SOMEBODY_KNOWN):
        assert trusting.who_is_known(found, [Known("alice", scene.public("alice"))], bytes(32)) == []
    with pytest.raises(ProofError, match=r"ends with the beacon (ab){32}, not with the one that you expect"):
        trusting.check_end(found, scene.BEACON)
    with without(checks.CEREMONY_ENDS_AS_EXPECTED):
        trusting.check_end(found, scene.BEACON)


def test_an_auditor_takes_nothing_of_what_does_not_hold(copy: Path, tmp_path: Path) -> None:
    published = hashlib.blake2b(scene.powers().read_bytes()).hexdigest()
    state = State.create(tmp_path / "auditor", scene.party("eve"))
    alice = f"alice={scene.public('alice').hex()}"

    def take(*knows: str, beacon: str | None = None) -> None:
        take_keys(state, copy, scene.powers(), published, knows, beacon, DEFAULT_CACHE, scene.mute)

    with pytest.raises(ProofError, match="you know none of the parties"):
        take()
    with pytest.raises(ProofError, match="not with the one that you expect"):
        take(alice, beacon="ab" * 32)
    wrong_point(copy)
    with pytest.raises(ProofError, match=r"section 8 \(C\)"):
        take(alice)
    assert state.key_entries() == []
    assert list((state.directory / "keys").iterdir()) == []


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
    with pytest.raises(ProofError, match="holds other powers of tau than those that the ceremony began with"):
        scene.checker(path, given, published)
    shutil.copy(scene.powers(), given)
    with without(checks.POWERS_OPENED_ONCE):
        scene.checker(path, given, published)


def test_powers_that_are_written_while_they_are_read(tmp_path: Path) -> None:
    given = tmp_path / "powers.ptau"
    shutil.copy(scene.powers(), given)
    held = PowersFile(given)
    held.blake2b()
    os.utime(given, ns=(1, 1))
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
    honest = _round(private, 1, "alice")
    (path / "0001" / ATTESTATION).write_bytes(honest.sign(scene.party("alice"), 0))
    with pytest.raises(AttestationError, match=r"speaks of something else"):
        scene.verify(path)
    handed = sha256(private / "0000" / ONE)
    shown = _round(path, 1, "alice", handed)  # had she signed for the key as it is shown, she would still name it
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
    linked_round: "is no folder of its own",
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
    another_circuits_rows: "circuit small-one is another one here than in the ceremony",
}


@pytest.mark.parametrize("harm", FILES, ids=lambda harm: harm.__name__)
def test_files_of_strangers(copy: Path, harm: Callable[[Path], None]) -> None:
    harm(copy)
    with pytest.raises(AuditError, match=FILES[harm]) as refused:
        scene.verify(copy)
    assert "\x1b" not in str(refused.value)
