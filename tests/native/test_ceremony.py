# SPDX-License-Identifier: GPL-3.0-or-later
"""Ceremonies of snarkjs make keys without a row for each hidden input, and the native module makes the same."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragseal.circuits.build import compiled
from ragseal.circuits.circuit import circuit_of
from ragseal.circuits.container import read_container, write_container
from ragseal.circuits.r1cs import ConstraintSystem, read_r1cs
from ragseal.groth16.coefficients import check_coefficients
from ragseal.groth16.powers import PowersFile
from ragseal.groth16.resection import hide_inputs, show_inputs
from ragseal.kernel.errors import ProofError
from ragseal.kernel.thinning_class import thinning_class
from tests.classes import TINY
from tests.verifier.ceremony_scene import KEPT, NEEDED, POWER, PROGRAM, PUBLIC, prepared_powers, rows, snarkjs

native = pytest.importorskip("ragseal_native")

BEACON = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

pytestmark = [pytest.mark.slow, NEEDED]


@dataclass(frozen=True)
class Ceremony:
    powers: Path
    circuit: ConstraintSystem
    setup: Path  #: of snarkjs, hidden inputs private
    begin: Path  #: what the first party contributes to
    final: Path  #: after a contribution and a beacon


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory, new_circuit: Any) -> Ceremony:
    folder = tmp_path_factory.mktemp("ceremony")
    powers = prepared_powers(POWER)
    r1cs = rows(new_circuit, 3).write(folder / "small.r1cs")
    setup, begin, middle, final = (folder / f"{name}.zkey" for name in ("setup", "begin", "middle", "final"))
    hide_inputs(r1cs, KEPT, folder / "hidden.r1cs")
    snarkjs("groth16", "setup", folder / "hidden.r1cs", powers, setup)
    show_inputs(setup, PUBLIC, begin)
    snarkjs("zkey", "contribute", begin, middle, "-e=for tests only", "--name=somebody")
    snarkjs("zkey", "beacon", middle, final, BEACON, 10)
    return Ceremony(powers, read_r1cs(r1cs), setup, begin, final)


def same_points(one: Path, other: Path) -> None:
    """Header and points, section by section, and the coefficients in any order."""
    left, right = (read_container(path, b"zkey", 1).sections for path in (one, other))
    for kind in (1, 2, 3, 5, 6, 7, 8, 9):
        assert bytes(left[kind]) == bytes(right[kind]), f"section {kind}"
    entries = [{bytes(part[4 + i : 48 + i]) for i in range(0, len(part) - 4, 44)} for part in (left[4], right[4])]
    assert entries[0] == entries[1]
    assert len(left[4]) == len(right[4]) == 4 + 44 * len(entries[0])


def test_snarkjs_and_the_native_module_begin_with_the_same_key(held: Ceremony, tmp_path: Path) -> None:
    PowersFile(held.powers).initial_key(held.circuit, KEPT, tmp_path / "native.zkey")
    same_points(tmp_path / "native.zkey", held.begin)


def test_the_last_key_of_a_ceremony(held: Ceremony, tmp_path: Path) -> None:
    """snarkjs lists who contributed, we check every point; both prove with it, and our verifier takes the hidden
    inputs as a commitment."""
    assert "ZKey Ok" in snarkjs("zkvi", held.begin, held.powers, held.final)
    PowersFile(held.powers).check_key(held.final, held.circuit, KEPT)
    check_coefficients(held.final, held.circuit, KEPT)
    key = native.ProvingKey.load(held.final)
    assert (key.n_public, key.domain) == (PUBLIC, 16), "more public inputs than half the domain"
    inputs = b"".join(n.to_bytes(32, "big") for n in (5, 77, *range(100, 110), 42))
    witness = native.R1cs.load(held.circuit.path).solve(inputs)
    witness.to_wtns(tmp_path / "w.wtns")
    snarkjs("groth16", "prove", held.final, tmp_path / "w.wtns", tmp_path / "proof.json", tmp_path / "public.json")
    snarkjs("zkey", "export", "verificationkey", held.final, tmp_path / "vk.json")
    snarkjs("groth16", "verify", tmp_path / "vk.json", tmp_path / "public.json", tmp_path / "proof.json")
    vk = key.verifying_key()
    assert native.VerifyingKey.from_json((tmp_path / "vk.json").read_text()).digest() == vk.digest()
    clear, hidden = inputs[:32], inputs[32 : 32 * PUBLIC]
    commitment = native.g1_msm(vk.ic(KEPT, PUBLIC - 1), hidden)
    for proof in (native.proof_from_json((tmp_path / "proof.json").read_text()), key.prove(witness)):
        vk.verify(proof, clear, commitment)
        with pytest.raises(native.NativeError, match="does not verify"):
            vk.verify(proof, clear, native.g1_msm(vk.ic(KEPT, PUBLIC - 1), hidden[:-32] + bytes(32)))


def test_a_native_beginning_serves_a_ceremony(held: Ceremony, tmp_path: Path) -> None:
    powers = PowersFile(held.powers)
    powers.initial_key(held.circuit, KEPT, tmp_path / "begin.zkey")
    snarkjs("zkey", "contribute", tmp_path / "begin.zkey", tmp_path / "final.zkey", "-e=for tests only")
    assert "ZKey Ok" in snarkjs("zkvi", tmp_path / "begin.zkey", held.powers, tmp_path / "final.zkey")
    powers.check_key(tmp_path / "final.zkey", held.circuit, KEPT)
    with pytest.raises(native.NativeError, match="has contributions already"):
        native.contribute(tmp_path / "final.zkey", tmp_path / "more.zkey")


def test_a_key_of_ones_own_upon_their_powers(held: Ceremony, tmp_path: Path) -> None:
    PowersFile(held.powers).make_key(held.circuit, KEPT, tmp_path / "own.zkey")
    assert not list(tmp_path.glob(".initial-*")), "nothing is left of the key that proves anything"
    native.ProvingKey.load(tmp_path / "own.zkey")


def test_points_are_moved_before_anybody_contributes(held: Ceremony, tmp_path: Path) -> None:
    """Afterwards C is divided by delta: its points in IC would make a key of nothing."""
    snarkjs("zkey", "contribute", held.setup, tmp_path / "late.zkey", "-e=for tests only")
    with pytest.raises(ProofError, match="it has contributions"):
        show_inputs(tmp_path / "late.zkey", PUBLIC, tmp_path / "no.zkey")
    native.contribute(held.setup, tmp_path / "unlisted.zkey")  # a contribution that no list has
    with pytest.raises(ProofError, match="it has contributions"):
        show_inputs(tmp_path / "unlisted.zkey", PUBLIC, tmp_path / "no.zkey")
    for public in (KEPT, 1, 26):
        with pytest.raises(ProofError, match="public wires are to be"):
            show_inputs(held.setup, public, tmp_path / "no.zkey")
    with pytest.raises(ProofError, match="not a zkey"):
        show_inputs(held.circuit.path, PUBLIC, tmp_path / "no.zkey")
    for kept in (0, PUBLIC + 1):
        with pytest.raises(ProofError, match="are to stay"):
            hide_inputs(held.circuit.path, kept, tmp_path / "no.r1cs")
    parts = dict(read_container(held.setup, b"zkey", 1).sections)
    for kind, changed in ((8, parts[8][:-64]), (3, parts[3][64:]), (2, parts[2][:-1]), (1, b"\2\0\0\0")):
        write_container(tmp_path / "cut.zkey", b"zkey", 1, {**parts, kind: changed})
        with pytest.raises(ProofError, match=r"are expected|not a Groth16 key"):
            show_inputs(tmp_path / "cut.zkey", PUBLIC, tmp_path / "no.zkey")
    assert not list(tmp_path.glob("no.*"))


def test_a_contribution_to_the_key_before_the_move_is_none_to_the_key_after_it(held: Ceremony, tmp_path: Path) -> None:
    """Attack: an honest party is handed what snarkjs wrote; its contribution holds hidden inputs' points over delta.

    Moved into IC's company those points would let anybody change hidden inputs under a proof.
    """
    powers = PowersFile(held.powers)
    hide_inputs(held.circuit.path, KEPT, tmp_path / "hidden.r1cs")
    assert "ZKey Ok" in snarkjs("zkey", "verify", tmp_path / "hidden.r1cs", held.powers, held.setup), "what it looks at"
    with pytest.raises((ProofError, native.NativeError)):  # what it should look at
        powers.check_key(held.setup, held.circuit, KEPT)
    snarkjs("zkey", "contribute", held.setup, tmp_path / "given.zkey", "-e=for tests only")
    given, begun = (read_container(path, b"zkey", 1).sections for path in (tmp_path / "given.zkey", held.begin))
    cut = (PUBLIC - KEPT) * 64
    header = bytes(begun[2][:-192]) + bytes(given[2][-192:])  # delta is the party's
    parts = {**given, 2: header, 3: begun[3], 8: given[8][cut:]}

    def accepted(hash_of: dict[int, memoryview]) -> bool:
        listed = bytes(hash_of[10][:64]) + bytes(given[10][64:])
        write_container(tmp_path / "final.zkey", b"zkey", 1, {**parts, 10: listed})
        write_container(tmp_path / "begin.zkey", b"zkey", 1, {**begun, 10: listed[:64] + bytes(4)})
        powers.check_key(tmp_path / "final.zkey", held.circuit, KEPT)  # the key itself is as it should be
        command = [
            "node",
            str(PROGRAM),
            "zkvi",
            *map(str, (tmp_path / "begin.zkey", held.powers, tmp_path / "final.zkey")),
        ]
        return "ZKey Ok" in subprocess.run(command, capture_output=True, text=True, timeout=500, check=False).stdout

    assert accepted(given), "with the circuit hash as it was nobody would notice"
    assert not accepted(begun)


@pytest.mark.long
def test_a_circuit_of_our_own(tmp_path: Path) -> None:
    """The same on a circuit that circom compiled, class TINY's of the thinning, upon powers that one party made.

    Nearly all the time is snarkjs', and grows with the rows: this circuit has a quarter of the attestation's.
    """
    thinning = thinning_class(TINY.N)
    circuit, own = circuit_of(thinning), read_r1cs(compiled(thinning))
    native.make_powers(tmp_path / "powers.ptau", 12)
    hide_inputs(own.path, circuit.kept, tmp_path / "hidden.r1cs")
    snarkjs("groth16", "setup", tmp_path / "hidden.r1cs", tmp_path / "powers.ptau", tmp_path / "setup.zkey")
    show_inputs(tmp_path / "setup.zkey", circuit.public, tmp_path / "begin.zkey")
    powers = PowersFile(tmp_path / "powers.ptau")
    powers.initial_key(own, circuit.kept, tmp_path / "native.zkey")
    same_points(tmp_path / "native.zkey", tmp_path / "begin.zkey")
    native.contribute(tmp_path / "begin.zkey", tmp_path / "own.zkey")
    powers.check_key(tmp_path / "own.zkey", own, circuit.kept)
    check_coefficients(tmp_path / "own.zkey", own, circuit.kept)
