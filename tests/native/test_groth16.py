# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and proofs: the pairing equation in py_ecc, committed inputs, batches, and everything that must be refused."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.params import P, R

native = pytest.importorskip("ragseal_native")
bn128 = pytest.importorskip("py_ecc.optimized_bn128")

CLEAR = 1  #: of the four public inputs of the circuit


def be(value: int) -> bytes:
    return (value % R).to_bytes(32, "big")


def number(data: bytes, at: int) -> int:
    return int.from_bytes(data[32 * at : 32 * at + 32], "big")


def g1(data: bytes) -> Any:
    return bn128.FQ(number(data, 0)), bn128.FQ(number(data, 1)), bn128.FQ(1)


def g2(data: bytes) -> Any:
    x = bn128.FQ2([number(data, 1), number(data, 0)])
    return x, bn128.FQ2([number(data, 3), number(data, 2)]), bn128.FQ2.one()


@pytest.fixture(scope="module")
def key(made: Any) -> Any:
    return native.ProvingKey.load(made.zkey)


@pytest.fixture(scope="module")
def proof(made: Any, key: Any) -> bytes:
    return bytes(key.prove(native.Witness.from_bytes(made.witness)))


def committed(key: Any, public: bytes, blind: int = 0) -> tuple[bytes, bytes]:
    """Clear inputs, and a commitment to the others."""
    vk = key.verifying_key()
    hidden = public[32 * CLEAR :]
    return public[: 32 * CLEAR], native.g1_msm(vk.ic(1 + CLEAR, vk.n_public - CLEAR), hidden)


@pytest.mark.slow
def test_the_pairing_equation_in_py_ecc(made: Any, key: Any, proof: bytes) -> None:
    data = key.verifying_key().to_bytes()
    alpha, beta, gamma, delta = data[:64], data[64:192], data[192:320], data[320:448]
    assert int.from_bytes(data[448:452], "big") == 5
    x = g1(native.g1_msm(data[452:], be(1) + made.public))
    left = bn128.pairing(g2(proof[64:192]), g1(proof[:64]))
    right = bn128.pairing(g2(beta), g1(alpha)) * bn128.pairing(g2(gamma), x) * bn128.pairing(g2(delta), g1(proof[192:]))
    assert left == right


def test_clear_and_committed_inputs(made: Any, key: Any, proof: bytes) -> None:
    vk = key.verifying_key()
    vk.verify(proof, made.public, b"")
    clear, point = committed(key, made.public)
    vk.verify(proof, clear, point)
    half = native.g1_msm(vk.ic(2, 1), made.public[32:64]), native.g1_msm(vk.ic(3, 2), made.public[64:])
    vk.verify(proof, clear, half[0] + half[1])
    wrong = native.g1_sum(point + vk.ic(4, 1))
    for bad_clear, bad_commitment in (
        (be(12), point),
        (clear, wrong),
        (b"", point),
        (clear, half[0]),
        (made.public[:-32] + be(1), b""),
    ):
        with pytest.raises(native.NativeError, match="does not verify"):
            vk.verify(proof, bad_clear, bad_commitment)
    with pytest.raises(native.NativeError, match="no commitment"):
        vk.verify(proof, clear, b"")
    with pytest.raises(native.NativeError, match="identity"):
        vk.verify(proof, clear, point + bytes(64))
    with pytest.raises(native.NativeError, match="public inputs"):
        vk.verify(proof, made.public + be(1), point)
    with pytest.raises(native.NativeError, match="canonical"):
        vk.verify(proof, R.to_bytes(32, "big"), point)


def test_proofs_are_checked_element_by_element(made: Any, key: Any, proof: bytes, outside_subgroup: bytes) -> None:
    vk = key.verifying_key()
    a, b, c = proof[:64], proof[64:192], proof[192:]
    large = (number(a, 0) + P).to_bytes(33, "big")[-32:] if number(a, 0) + P < 1 << 256 else b"\xff" * 32
    for bad, why in (
        (bytes(64) + b + c, "element A: the identity"),
        (a + bytes(128) + c, "element B: the G2 identity"),
        (a + b + bytes(64), "element C: the identity"),
        (a + outside_subgroup + c, "outside the subgroup"),
        (a + b[:127] + bytes([b[127] ^ 1]) + c, "not on the curve"),
        (a[:63] + bytes([a[63] ^ 1]) + b + c, "not on the curve"),
        (large + a[32:] + b + c, "canonical"),
        (proof[:-1], "256 bytes"),
        (c + b + a, "does not verify"),
    ):
        with pytest.raises(native.NativeError, match=why):
            vk.verify(bad, made.public, b"")
    assert native.proof_from_json(native.proof_to_json(proof)) == proof


def test_batches(made: Any, key: Any) -> None:
    vk, witness = key.verifying_key(), native.Witness.from_bytes(made.witness)
    proofs = [bytes(key.prove(witness)) for _ in range(5)]
    assert len(set(proofs)) == 5
    clear, point = committed(key, made.public)
    full = proofs, [clear] * 5, [point] * 5, [b""] * 5
    vk.verify_batch(*full, os.urandom(80))
    vk.verify_batch(proofs[:1], [clear], [point], [b""], os.urandom(16))
    for at in range(5):
        wrong = list(proofs)
        wrong[at] = wrong[at][192:] + wrong[at][64:192] + wrong[at][:64]
        with pytest.raises(native.NativeError, match="of the batch"):
            vk.verify_batch(wrong, *full[1:], os.urandom(80))
        clears = list(full[1])
        clears[at] = be(99)
        with pytest.raises(native.NativeError, match="of the batch"):
            vk.verify_batch(proofs, clears, *full[2:], os.urandom(80))
    # Two errors that cancel without weights.
    up, down = native.g1_sum(point + vk.ic(1, 1)), native.g1_msm(point + vk.ic(1, 1), be(1) + be(-1))
    with pytest.raises(native.NativeError, match="of the batch"):
        vk.verify_batch(proofs[:2], [clear] * 2, [up, down], [b""] * 2, os.urandom(32))
    with pytest.raises(native.NativeError, match="weight is zero"):
        vk.verify_batch(*full, bytes(16) + os.urandom(64))
    with pytest.raises(native.NativeError, match="as many"):
        vk.verify_batch(*full, os.urandom(64))
    with pytest.raises(native.NativeError, match="at least one"):
        vk.verify_batch([], [], [], [], b"")
    with pytest.raises(native.NativeError, match="identity"):
        vk.verify_batch(proofs, [clear] * 5, [point] * 4 + [bytes(64)], [b""] * 5, os.urandom(80))
    with pytest.raises(native.NativeError, match="batch entry 3"):
        vk.verify_batch([*proofs[:3], proofs[3][:9], proofs[4]], *full[1:], os.urandom(80))
    # A point that is added with a scale of its own.
    half = native.g1_msm(point, pow(2, -1, R).to_bytes(32, "big"))
    scales = [b"", be(2), b"", be(1), b""]
    vk.verify_batch(*full[:2], [point, half, point, point, point], scales, os.urandom(80))
    with pytest.raises(native.NativeError, match="of the batch"):
        vk.verify_batch(*full[:2], [point, half, point, point, point], full[3], os.urandom(80))
    with pytest.raises(native.NativeError, match="1 points but 2 scales"):
        vk.verify_batch(*full[:3], [be(1) * 2, *full[3][1:]], os.urandom(80))
    with pytest.raises(native.NativeError, match="as many"):
        vk.verify_batch(*full[:3], full[3][1:], os.urandom(80))


def test_what_a_miller_loop_comes_back_to_has_no_other_zeros() -> None:
    """The argument of native/src/miller.rs: norm of f(psi) and order of the twist have r in common, nothing else."""
    u = 4965661367192848881
    assert 36 * u**4 + 36 * u**3 + 24 * u**2 + 6 * u + 1 == P
    trace = 6 * u * u + 1
    assert P + 1 - trace == R
    a, b = 6 * u + 2 + P - trace * P, 1 - trace + trace * trace - P
    norm = a * a + a * b * trace + b * b * P
    cofactor = 2 * P - R
    assert (norm % R, cofactor % 10069) == (0, 0)
    assert math.gcd(norm, R * cofactor) == R
    assert (6 * u + 2 + P - P**2 + P**3) % R == 0
    # Chords at the loop's end have a slope on the subgroup.
    assert all((6 * u + 2 - sign * P) % R and (6 * u + 2 + P - sign * P**2) % R for sign in (1, -1))


def test_a_batch_names_the_proof_whose_point_lies_outside_the_subgroup(
    made: Any, key: Any, proof: bytes, outside_subgroup: bytes
) -> None:
    """What a Miller loop comes back to says so, with no check of the subgroup beside it."""
    clear, point = committed(key, made.public)
    bad = proof[:64] + outside_subgroup + proof[192:]
    for count, at in ((1, 0), (5, 4), (40, 17)):
        proofs = [proof] * count
        proofs[at] = bad
        with pytest.raises(native.NativeError, match=f"batch entry {at}: proof element B: .* outside the subgroup"):
            key.verifying_key().verify_batch(
                proofs, [clear] * count, [point] * count, [b""] * count, os.urandom(16 * count)
            )


def test_a_wrong_witness_gives_no_proof(made: Any, key: Any) -> None:
    witness = native.Witness.from_bytes(made.witness)
    witness.set(7, be(1))
    with pytest.raises(native.NativeError, match="does not satisfy"):
        key.prove(witness)
    with pytest.raises(native.NativeError, match="the witness has 1 wires, the key 9"):
        key.prove(native.Witness.from_bytes(be(1)))


def test_blinding(made: Any, key: Any, tmp_path: Path) -> None:
    witness = native.Witness.from_bytes(made.witness)
    assert key.prove(witness, be(5), be(6)) == key.prove(witness, be(5), be(6))
    assert key.prove(witness) != key.prove(witness)
    witness.to_wtns(tmp_path / "w.wtns")
    assert key.prove(tmp_path / "w.wtns", be(5), be(6)) == key.prove(witness, be(5), be(6))
    with pytest.raises(native.NativeError, match="both"):
        key.prove(witness, be(5))


def test_setups_are_fresh_unless_told_otherwise(made: Any, tmp_path: Path) -> None:
    def digest(name: str, entropy: bytes | None) -> bytes:
        native.setup(made.r1cs, tmp_path / name, entropy=entropy)
        return bytes(native.ProvingKey.load(tmp_path / name).verifying_key().digest())

    assert digest("a", b"x") == digest("b", b"x") != digest("c", b"y")
    assert digest("d", None) != digest("e", None)
    assert {p.name for p in tmp_path.iterdir()} == set("abcde")


def test_verifying_keys(key: Any, outside_subgroup: bytes) -> None:
    vk = key.verifying_key()
    data = vk.to_bytes()
    assert native.VerifyingKey.from_bytes(data).to_bytes() == data
    assert native.VerifyingKey.from_json(vk.to_json()).digest() == vk.digest()
    gamma, delta = data[192:320], data[320:448]
    for bad, why in (
        (data[:-1], "announced"),
        (data + b"\0", "announced"),
        (data[:100], "truncated"),
        (bytes(64) + data[64:], "identity"),
        (data[:64] + bytes(128) + data[192:], "identity"),
        (data[:64] + outside_subgroup + data[192:], "subgroup"),
        (data[:192] + delta + data[320:], "gamma equals delta"),
        (data[:320] + gamma + data[448:], "gamma equals delta"),
        (data[:-64] + bytes(64), "identity"),
        (data[:448] + b"\0\0\0\1" + data[452:516], "IC points"),
    ):
        with pytest.raises(native.NativeError, match=why):
            native.VerifyingKey.from_bytes(bad)
    with pytest.raises(native.NativeError, match="IC points"):
        vk.ic(4, 2)
    with pytest.raises(native.NativeError, match="IC points"):
        vk.ic(1, 2**64 - 1)


def test_json_is_strict(key: Any, proof: bytes) -> None:
    text = native.proof_to_json(proof)
    first = str(number(proof, 0))
    for bad in (
        text.replace(first, str(number(proof, 0) + P)),
        text.replace(first, "0" + first),
        text.replace(first, "-" + first),
        text.replace(first, "9" * 400),
        text.replace('"groth16"', '"plonk"'),
        text.replace('"bn128"', '"bls12381"'),
        text[:-2],
        "[]",
        "[" * 100000,
    ):
        with pytest.raises(native.NativeError):
            native.proof_from_json(bad)
    vk = key.verifying_key().to_json()
    with pytest.raises(native.NativeError, match="nPublic"):
        native.VerifyingKey.from_json(vk.replace('"nPublic":4', '"nPublic":3'))
    assert native.public_from_json(native.public_to_json(be(3) + be(-1))) == be(3) + be(-1)
    with pytest.raises(native.NativeError, match="modulus"):
        native.public_from_json(f'["{R}"]')
