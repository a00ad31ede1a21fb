# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks on a ceremony's folder: whoever hands it on changes its chain, its keys or its attestations."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ragseal.circuits.build import DEFAULT_CACHE
from ragseal.circuits.container import write_container
from ragseal.groth16.contributions import SECTION, read_chain
from ragseal.groth16.powers import PowersFile
from ragseal.kernel.errors import AttestationError, AuditError, ProofError
from ragseal.verifier.ceremony import trusting
from ragseal.verifier.ceremony.folder import ATTESTATION
from ragseal.verifier.ceremony.trusting import Known, take_keys
from ragseal.verifier.folder.state import State
from ragseal.verifier.signed import envelope
from ragseal.verifier.signed.statement import PAYLOAD_TYPE
from tests.attacks import checks
from tests.attacks.ceremony_folder import ONE, TWO, rewrite, round_of, sections
from tests.attacks.checks import without
from tests.attacks.removal import Removable
from tests.groth16 import parties
from tests.verifier import ceremony_scene as scene

pytest.importorskip("ragseal_native")
pytest.importorskip("py_ecc")
pytestmark = [pytest.mark.slow, scene.NEEDED]

sources, circuits, done, copy = scene.sources, scene.circuits, scene.done, scene.copy


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


def contribution_of_one(path: Path) -> None:
    """Mallory's secret is 1: delta stays what gamma is, and such a key proves anything."""
    for number in range(1, 4):
        shutil.rmtree(path / f"{number:04}")
    os.mkdir(path / "0001")
    for name in (ONE, TWO):
        shutil.copy(path / "0000" / name, path / "0001" / name)
        chain = read_chain(path / "0000" / name)
        made = parties.contribution(chain, 1, name="mallory")
        rewrite(path / "0001" / name, s10=chain.circuit_hash + (1).to_bytes(4, "little") + parties.encoded(made))


def knowledge_of_nothing(path: Path) -> None:
    """The points whose ratio is the secret are the identity: any secret is their ratio."""
    chain = read_chain(path / "0001" / ONE)
    (own,) = chain.encoded
    listed = own[:64] + bytes(128) + own[192:]
    rewrite(path / "0001" / ONE, s10=chain.circuit_hash + (1).to_bytes(4, "little") + listed)


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
    made = round_of(path, 1, "alice")
    eves = json.loads(made.sign(scene.party("eve"), 0))
    eves["signatures"][0]["keyid"] = data["signatures"][0]["keyid"]
    (path / "0001" / ATTESTATION).write_text(json.dumps(eves))


def changed_statement(path: Path) -> None:
    data = json.loads((path / "0001" / ATTESTATION).read_bytes())
    data["payload"] = json.loads(round_of(path, 1, "mallory").sign(scene.party("eve"), 0))["payload"]
    (path / "0001" / ATTESTATION).write_text(json.dumps(data))


def of_another_name(path: Path) -> None:
    """Alice's word, under a name that the list does not have."""
    (path / "0001" / ATTESTATION).write_bytes(round_of(path, 1, "bob").sign(scene.party("alice"), 0))


def of_another_key(path: Path) -> None:
    """Alice was handed another key than the one that lies there."""
    (path / "0001" / ATTESTATION).write_bytes(round_of(path, 1, "alice", bytes(32)).sign(scene.party("alice"), 0))


def in_other_words(path: Path) -> None:
    """Alice says round 1.0, which Python takes for 1 and another reader need not."""
    made = round_of(path, 1, "alice").sign(scene.party("alice"), 0)
    payload = base64.b64decode(json.loads(made)["payload"])
    assert payload.count(b'"round": 1}') == 1
    said = payload.replace(b'"round": 1}', b'"round": 1.0}')
    (path / "0001" / ATTESTATION).write_bytes(envelope.seal(PAYLOAD_TYPE, said, scene.party("alice")))


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
    contribution_of_one: (
        ProofError,
        "round 0001 of small-one: .*gamma equals delta: such a key proves anything",
        checks.CEREMONY_POINTS,
    ),
    knowledge_of_nothing: (
        ProofError,
        "contribution 1: a G1 point is the identity or not on the curve",
        checks.CEREMONY_NO_IDENTITY,
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
    in_other_words: (AttestationError, "round 0001 speaks of something else", checks.CEREMONY_ATTESTED),
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
