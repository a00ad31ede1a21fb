# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys in plain Python and in the native module: the same bytes, the same verdicts, the same refusals.  SPEC A.9."""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragseal.groth16 import g2, pairing, zkey
from ragseal.groth16.verifying_key import Proof, VerifyingKey
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.msm import multi_scalar
from ragseal.kernel.params import P, R

pytestmark = pytest.mark.slow

native = pytest.importorskip("ragseal_native")
pytest.importorskip("py_ecc")

CLEAR = 1
Repack = Callable[[bytes, Callable[[dict[int, bytes]], None]], bytes]


def be(value: int) -> bytes:
    return (value % R).to_bytes(32, "big")


def refusal(call: Callable[..., object], *arguments: object) -> str | None:
    """What a call refuses with, None if it does not."""
    try:
        call(*arguments)
    except (native.NativeError, ProofError) as error:
        return str(error)
    return None


def same_refusal(ours: Callable[..., object], theirs: Callable[..., object], *arguments: object) -> str | None:
    """Both refuse, or neither does; and where they refuse, they mean the same."""
    mine, other = refusal(ours, *arguments), refusal(theirs, *arguments)
    assert (mine is None) == (other is None), (mine, other)
    return mine


@pytest.fixture(scope="module")
def key(made: Any) -> Any:
    return native.ProvingKey.load(made.zkey)


@pytest.fixture(scope="module")
def theirs(key: Any) -> Any:
    return key.verifying_key()


@pytest.fixture(scope="module")
def ours(theirs: Any) -> VerifyingKey:
    return VerifyingKey.from_bytes(theirs.to_bytes())


@pytest.fixture(scope="module")
def proofs(made: Any, key: Any) -> list[bytes]:
    witness = native.Witness.from_bytes(made.witness)
    return [bytes(key.prove(witness)) for _ in range(2)]


def committed(theirs: Any, public: bytes) -> tuple[bytes, bytes]:
    hidden = public[32 * CLEAR :]
    return public[: 32 * CLEAR], native.g1_msm(theirs.ic(1 + CLEAR, theirs.n_public - CLEAR), hidden)


# --- verifying keys --------------------------------------------------------------------------------------------------


def test_one_key_in_both(made: Any, ours: VerifyingKey, theirs: Any) -> None:
    assert ours.to_bytes() == theirs.to_bytes()
    assert ours.digest() == theirs.digest()
    assert ours.n_public == theirs.n_public == 4
    assert all(ours.ic(a, n) == theirs.ic(a, n) for a in range(6) for n in range(6 - a))
    assert json.loads(ours.to_json()) == json.loads(theirs.to_json())
    assert VerifyingKey.from_json(theirs.to_json()) == ours
    assert native.VerifyingKey.from_json(ours.to_json()).digest() == ours.digest()
    assert zkey.verifying_key(made.zkey) == ours
    for start, count in ((4, 2), (6, 1), (0, 6)):
        assert same_refusal(ours.ic, theirs.ic, start, count)


def test_hostile_verifying_keys(ours: VerifyingKey, outside_subgroup: bytes) -> None:
    data = ours.to_bytes()
    gamma, delta = data[192:320], data[320:448]
    large = (int.from_bytes(data[:32], "big") + P).to_bytes(32, "big")
    cases = {
        data[:-1]: "announced",
        data + b"\0": "announced",
        data[:100]: "truncated",
        b"": "truncated",
        bytes(64) + data[64:]: "identity",
        data[:64] + bytes(128) + data[192:]: "identity",
        data[:64] + outside_subgroup + data[192:]: "outside the subgroup",
        data[:192] + outside_subgroup + data[320:]: "outside the subgroup",
        data[:320] + outside_subgroup + data[448:]: "outside the subgroup",
        data[:192] + delta + data[320:]: "gamma equals delta",
        data[:320] + gamma + data[448:]: "gamma equals delta",
        data[:-64] + bytes(64): "identity",
        data[:452] + bytes(64) + data[516:]: "identity",
        data[:448] + b"\0\0\0\1" + data[452:516]: "1 IC points",
        data[:448] + b"\0\0\0\0": "0 IC points",
        data[:448] + b"\xff\xff\xff\xff" + data[452:]: "announced",
        large + data[32:]: "canonical",
        data[:64] + P.to_bytes(32, "big") + data[96:]: "canonical",
        data[:63] + bytes([data[63] ^ 1]) + data[64:]: "not on the curve",
        data[:191] + bytes([data[191] ^ 1]) + data[192:]: "not on the curve",
        data[:-1] + bytes([data[-1] ^ 1]): "not on the curve",
    }
    for bad, why in cases.items():
        said = same_refusal(VerifyingKey.from_bytes, native.VerifyingKey.from_bytes, bad)
        assert said is not None, why
        assert why in said, (why, said)
    rng = random.Random(4)
    for _ in range(40):
        at = rng.randrange(len(data))
        flipped = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        assert same_refusal(VerifyingKey.from_bytes, native.VerifyingKey.from_bytes, flipped)


def test_hostile_json(ours: VerifyingKey) -> None:
    text = ours.to_json()
    good = json.loads(text)
    first = good["vk_alpha_1"][0]
    edits: list[Callable[[dict[str, Any]], object]] = [
        lambda k: k.pop("IC"),
        lambda k: k.pop("vk_beta_2"),
        lambda k: k.pop("nPublic"),
        lambda k: k.update(nPublic=3),
        lambda k: k.update(nPublic="4"),
        lambda k: k.update(nPublic=4.0),
        lambda k: k.update(protocol="plonk"),
        lambda k: k.update(curve="bls12381"),
        lambda k: k.update(curve=["bn128"]),
        lambda k: k.update(IC={}),
        lambda k: k["IC"].__setitem__(0, ["0", "0", "1"]),
        lambda k: k["IC"].__setitem__(0, ["1", "2"]),
        lambda k: k["IC"].__setitem__(0, ["1", "2", "2"]),
        lambda k: k["IC"].__setitem__(0, ["1", "3", "1"]),
        lambda k: k["IC"].__setitem__(0, [1, 2, 1]),
        lambda k: k.update(vk_alpha_1=[str(int(first) + P), *good["vk_alpha_1"][1:]]),
        lambda k: k.update(vk_alpha_1=["0" + first, *good["vk_alpha_1"][1:]]),
        lambda k: k.update(vk_alpha_1=["-" + first, *good["vk_alpha_1"][1:]]),
        lambda k: k.update(vk_alpha_1=["\u0661", *good["vk_alpha_1"][1:]]),
        lambda k: k.update(vk_alpha_1=["9" * 400, *good["vk_alpha_1"][1:]]),
        lambda k: k.update(vk_alpha_1=["", *good["vk_alpha_1"][1:]]),
        lambda k: k.update(vk_beta_2=good["vk_beta_2"][:2]),
        lambda k: k["vk_beta_2"].__setitem__(2, ["0", "1"]),
        lambda k: k["vk_beta_2"].__setitem__(0, ["1"]),
        lambda k: k.update(vk_beta_2=[["0", "0"], ["0", "0"], ["1", "0"]]),
        lambda k: k.update(vk_delta_2=good["vk_gamma_2"]),
    ]
    assert same_refusal(VerifyingKey.from_json, native.VerifyingKey.from_json, text) is None
    for at, edit in enumerate(edits):
        changed = json.loads(text)
        edit(changed)
        assert same_refusal(VerifyingKey.from_json, native.VerifyingKey.from_json, json.dumps(changed)), at
    for bad in (text[:-2], "[]", "3", "", "[" * 100000, "{" * 100000):
        assert same_refusal(VerifyingKey.from_json, native.VerifyingKey.from_json, bad)


# --- proofs ----------------------------------------------------------------------------------------------------------


def test_the_same_verdicts(made: Any, ours: VerifyingKey, theirs: Any, proofs: list[bytes]) -> None:
    proof, (clear, point) = proofs[0], committed(theirs, made.public)
    half = native.g1_msm(theirs.ic(2, 1), made.public[32:64]), native.g1_msm(theirs.ic(3, 2), made.public[64:])
    for given in ((made.public, b""), (clear, point), (clear, half[0] + half[1])):
        assert same_refusal(ours.verify, theirs.verify, proof, *given) is None
    wrong = native.g1_sum(point + theirs.ic(4, 1))
    cases: list[tuple[tuple[bytes, bytes, bytes], str]] = [
        ((proof, be(12), point), "does not verify"),
        ((proof, clear, wrong), "does not verify"),
        ((proof, b"", point), "does not verify"),
        ((proof, made.public[:-32] + be(1), b""), "does not verify"),
        ((proof[192:] + proof[64:192] + proof[:64], made.public, b""), "does not verify"),
        ((proof, clear, b""), "no commitment"),
        ((proof, clear, point + bytes(64)), "identity"),
        ((proof, made.public + be(1), point), "public inputs"),
        ((proof, R.to_bytes(32, "big"), point), "canonical"),
        ((proof, clear[:-1], point), "truncated"),
        ((proof, clear, point[:-1]), "truncated"),
    ]
    for arguments, why in cases:
        assert why in (same_refusal(ours.verify, theirs.verify, *arguments) or "accepted"), why


def test_proof_elements(
    made: Any, ours: VerifyingKey, theirs: Any, proofs: list[bytes], outside_subgroup: bytes
) -> None:
    a, b, c = proofs[0][:64], proofs[0][64:192], proofs[0][192:]
    for bad, why in (
        (bytes(64) + b + c, "element A: the identity"),
        (a + bytes(128) + c, "element B: the G2 identity"),
        (a + b + bytes(64), "element C: the identity"),
        (a + outside_subgroup + c, "element B: a G2 point is outside the subgroup"),
        (a + b[:127] + bytes([b[127] ^ 1]) + c, "element B: a G2 point is not on the curve"),
        (a[:63] + bytes([a[63] ^ 1]) + b + c, "not on the curve"),
        (b"\xff" * 32 + a[32:] + b + c, "canonical"),
        (a + b"\xff" * 32 + b[32:] + c, "canonical"),
        (proofs[0][:-1], "256 bytes"),
    ):
        assert why in (same_refusal(ours.verify, theirs.verify, bad, made.public, b"") or "accepted"), why
        assert refusal(Proof.decode, bad)


def test_batches(made: Any, ours: VerifyingKey, theirs: Any, proofs: list[bytes]) -> None:
    clear, point = committed(theirs, made.public)
    n = len(proofs)
    plain = [b""] * n
    full = proofs, [clear] * n, [point] * n, plain

    def both(*arguments: object) -> str:
        return same_refusal(ours.verify_batch, theirs.verify_batch, *arguments) or "accepted"

    def weights() -> bytes:
        return os.urandom(16 * n)

    assert both(*full, weights()) == "accepted"
    swapped = [proofs[0], proofs[1][192:] + proofs[1][64:192] + proofs[1][:64]]
    assert "of the batch" in both(swapped, *full[1:], weights())
    assert "of the batch" in both(proofs, [clear, be(99)], *full[2:], weights())
    up, down = native.g1_sum(point + theirs.ic(1, 1)), native.g1_msm(point + theirs.ic(1, 1), be(1) + be(-1))
    assert "of the batch" in both(proofs, [clear] * n, [up, down], plain, weights())  # cancel without weights
    assert "weight is zero" in both(*full, bytes(16) + os.urandom(16 * (n - 1)))
    assert "as many" in both(*full, os.urandom(16 * (n - 1)))
    assert "as many" in both(*full[:3], plain[1:], weights())
    assert "at least one" in both([], [], [], [], b"")
    assert "identity" in both(proofs, [clear] * n, [point] * (n - 1) + [bytes(64)], plain, weights())
    assert "batch entry 1" in both([proofs[0], proofs[1][:9]], *full[1:], weights())
    assert "differ in number" in both(proofs, [clear, made.public], *full[2:], weights())
    assert both(*full, os.urandom(16 * n - 1)) != "accepted"

    third = native.g1_msm(point, be(pow(3, -1, R)))
    scaled = proofs, [clear] * n, [point] * (n - 1) + [third]
    assert both(*scaled, [b""] * (n - 1) + [be(3)], weights()) == "accepted"
    assert "of the batch" in both(*scaled, plain, weights())
    assert "of the batch" in both(*full[:3], [b""] * (n - 1) + [be(3)], weights())
    assert "1 points but 2 scales" in both(*full[:3], [b""] * (n - 1) + [be(1) * 2], weights())
    assert both(*full[:3], [b""] * (n - 1) + [R.to_bytes(32, "big")], weights()) != "accepted"
    assert both(*full[:3], [b""] * (n - 1) + [be(1)[1:]], weights()) != "accepted"


# --- .zkey files -----------------------------------------------------------------------------------------------------

HEAD = 2 * 36 + 12


def raw(*coordinates: int) -> bytes:
    return b"".join((c * 2**256 % P).to_bytes(32, "little") for c in coordinates)


def put(at: int, new: bytes) -> Callable[[bytes], bytes]:
    return lambda old: old[:at] + new + old[at + len(new) :]


@pytest.mark.long
def test_hostile_key_files(tmp_path: Path, made: Any, repack: Repack, outside_subgroup: bytes) -> None:
    data = made.zkey.read_bytes()
    path = tmp_path / "hostile.zkey"

    def judged(changed: bytes) -> str | None:
        path.write_bytes(changed)
        return same_refusal(zkey.verifying_key, native.ProvingKey.load, path)

    def edit(kind: int, change: Callable[[bytes], bytes], why: str) -> None:
        def apply(parts: dict[int, bytes]) -> None:
            parts[kind] = change(parts[kind])

        said = judged(repack(data, apply))
        assert said is not None, (kind, why)
        assert why in said, (kind, why, said)

    found: dict[int, bytes] = {}
    repack(data, lambda parts: found.update(parts))
    x1, x0, y1, y0 = (int.from_bytes(outside_subgroup[i : i + 32], "big") for i in range(0, 128, 32))
    foreign, generator = raw(x0, x1, y0, y1), raw(1, 2)
    alpha, beta1, beta2, gamma2, delta1, delta2 = (HEAD + o for o in (0, 64, 128, 256, 384, 448))
    assert judged(data) is None
    edit(1, lambda _: struct.pack("<I", 2), "not a Groth16 key")
    edit(2, put(0, struct.pack("<I", 64)), "32 bytes")
    edit(2, put(4, R.to_bytes(32, "little")), "base field")
    edit(2, put(40, P.to_bytes(32, "little")), "BN254")
    edit(2, put(72, struct.pack("<I", 2**31)), "wires")
    edit(2, put(72, struct.pack("<I", 10)), "section 5")
    edit(2, put(76, struct.pack("<I", 0)), "public")
    edit(2, put(76, struct.pack("<I", 5)), "section 3")
    edit(2, put(80, struct.pack("<I", 12)), "domain")
    edit(2, put(80, struct.pack("<I", 2**28)), "domain")
    edit(2, put(80, struct.pack("<I", 4)), "section 9")
    edit(2, put(80, struct.pack("<I", 32)), "section 9")
    edit(2, lambda h: h + b"\0", "too many")
    edit(2, put(alpha, bytes(64)), "alpha is the identity")
    edit(2, put(beta1, bytes(64)), "beta_1 is the identity")
    edit(2, put(beta2, bytes(128)), "beta is the identity")
    edit(2, put(gamma2, bytes(128)), "gamma is the identity")
    edit(2, put(delta1, bytes(64)), "delta_1 is the identity")
    edit(2, put(delta2, bytes(128)), "delta is the identity")
    edit(2, put(gamma2, found[2][delta2 : delta2 + 128]), "gamma equals delta")
    edit(2, put(delta1, generator), "delta_1 and delta_2 disagree")
    edit(2, put(beta1, generator), "beta_1 and beta_2 disagree")
    for at in (beta2, gamma2, delta2):
        edit(2, put(at, foreign), "outside the subgroup")
        edit(2, put(at, raw(1, 3, 1, 3)), "not on the curve")
    for at in (alpha, beta1, delta1):
        edit(2, put(at, raw(1, 3)), "not on the curve")
    edit(2, put(alpha, b"\xff" * 32), "reduced")
    edit(3, lambda ic: ic[:-64] + bytes(64), "IC point 4 is the identity")
    edit(3, lambda ic: bytes(64) + ic[64:], "IC point 0 is the identity")
    for kind in (3, 5, 6, 8, 9):
        edit(kind, put(0, raw(1, 3)), "not on the curve")
        edit(kind, put(0, b"\xff" * 32), "reduced")
        edit(kind, lambda b: b[:-64], "expected")
    edit(7, put(0, raw(1, 3, 1, 3)), "not on the curve")
    edit(7, put(3 * 128, foreign), "outside the subgroup")
    edit(7, put(3 * 128, raw(*pairing.G2_GENERATOR)), "B1 and B2 disagree")
    edit(7, put(0, found[7][:128][64:] * 2), "not on the curve")
    edit(6, put(3 * 64, generator), "B1 and B2 disagree")
    edit(6, lambda b: bytes(len(b)), "B1 and B2 disagree")
    edit(7, lambda b: bytes(len(b)), "B1 and B2 disagree")
    edit(4, put(0, struct.pack("<I", 2**32 - 1)), "truncated")
    edit(4, put(4, struct.pack("<I", 2)), "outside")
    edit(4, put(8, struct.pack("<I", 16)), "outside")
    edit(4, put(12, struct.pack("<I", 9)), "outside")
    edit(4, put(16, bytes(32)), "zero")
    edit(4, put(16, R.to_bytes(32, "little")), "reduced")

    for kind in range(1, 10):

        def drop(parts: dict[int, bytes], kind: int = kind) -> None:
            del parts[kind]

        assert f"section {kind} is missing" in (judged(repack(data, drop)) or "")
    zero = repack(data, lambda parts: parts.update({6: bytes(len(parts[6])), 7: bytes(len(parts[7]))}))
    assert judged(zero) is None  # nothing of B left: both take it, as rehearsals and proofs show it


def test_containers(tmp_path: Path, made: Any) -> None:
    data = made.zkey.read_bytes()
    path = tmp_path / "hostile.zkey"
    rng = random.Random(2)
    cuts = {*range(0, 40), *(rng.randrange(len(data)) for _ in range(40)), len(data) - 1}
    for bad in [data[:size] for size in sorted(cuts)] + [
        data + b"\0",
        b"none" + data[4:],
        data[:4] + struct.pack("<I", 9) + data[8:],
        data[:8] + struct.pack("<I", 2**32 - 1) + data[12:],
        data[:16] + struct.pack("<Q", 2**64 - 1) + data[24:],
        data[:8] + struct.pack("<I", 11) + data[12:] + data[12:28],
    ]:
        path.write_bytes(bad)
        assert same_refusal(zkey.verifying_key, native.ProvingKey.load, path)
    assert "regular file" in (refusal(zkey.verifying_key, tmp_path) or "")
    with pytest.raises(ConfigurationError, match="cannot read"):
        zkey.verifying_key(tmp_path / "absent")


# --- points ----------------------------------------------------------------------------------------------------------


def test_sums_in_g2(outside_subgroup: bytes) -> None:
    ecc = pytest.importorskip("py_ecc.optimized_bn128")

    def times(k: int) -> Any:
        return pairing.combination([pairing.G2_GENERATOR], [k])

    rng = random.Random(8)
    ks = [rng.randrange(R) for _ in range(9)]
    ks += [ks[0], R - ks[1], 5, 5]
    points = [times(k) for k in ks]
    for _ in range(4):
        weights = [rng.randrange(8) for _ in ks]
        want = sum(k * w for k, w in zip(ks, weights, strict=True)) % R
        assert g2.combination(points, weights, 3) == times(want)
    assert g2.total([points[1], points[10]]) is None
    assert g2.total([]) is None
    assert g2.combination([points[0], points[9]], [3, 3], 3) == times(6 * ks[0])
    assert pairing.decode_g2(pairing.encode_g2(points[3])) == points[3]
    assert not any(refusal(pairing.check_g2, p) for p in points)
    assert ecc.b2 == ecc.FQ2(pairing.TWIST)
    assert (ecc.FQ2(pairing.G2_GENERATOR[:2]), ecc.FQ2(pairing.G2_GENERATOR[2:])) == ecc.G2[:2]


def test_half_of_the_curve_s_equation_is_not_enough() -> None:
    """Both coordinates of y^2 = x^3 + b count: a point of an isomorphic curve has order r, too."""
    x0, x1, y0, y1 = pairing.G2_GENERATOR
    assert pairing.on_twist(pairing.G2_GENERATOR)
    squared = (y0 * y0 - y1 * y1) % P, 2 * y0 * y1 % P
    for t in range(2, 40):
        second = (x0, x1, t, squared[1] * pow(2 * t, -1, P) % P)  # 2 y0 y1 as it should be
        assert not pairing.on_twist(second)
        root = pow((squared[0] + t * t) % P, (P + 1) // 4, P)  # P = 3 mod 4
        if (root * root - t * t - squared[0]) % P == 0:  # y0^2 - y1^2 as it should be
            assert not pairing.on_twist((x0, x1, root, t))
            assert refusal(pairing.check_g2, (x0, x1, root, t)) == "a G2 point is not on the curve"
        assert refusal(pairing.check_g2, second) == "a G2 point is not on the curve"


def test_points_of_public_inputs_that_a_key_does_not_have(ours: VerifyingKey) -> None:
    size = len(ours.ic_points)
    assert len(ours.ic(0, size)) == 64 * size
    assert ours.ic(size, 0) == b""
    for start, count in ((-1, 1), (1, -1), (0, size + 1), (size, 1), (size + 1, 0)):
        assert refusal(ours.ic, start, count) == f"IC points {start}..{start + count} of a key with {size} points"


def test_a_g2_point_has_its_length() -> None:
    data = pairing.encode_g2(pairing.G2_GENERATOR)
    assert pairing.decode_g2(data) == pairing.G2_GENERATOR
    for other in (data[:-1], data + b"\x00", b""):
        assert refusal(pairing.decode_g2, other) == f"a G2 point has 128 bytes, not {len(other)}"


def test_without_py_ecc_it_says_what_to_install_and_leaves_the_recursion_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = sys.getrecursionlimit()
    pairing._py_ecc.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "py_ecc"]:
        monkeypatch.delitem(sys.modules, name)
    pairing._py_ecc()
    assert sys.getrecursionlimit() == limit
    pairing._py_ecc.cache_clear()
    monkeypatch.setitem(sys.modules, "py_ecc", None)
    with pytest.raises(ConfigurationError, match=r"ragseal\[pure\]"):
        pairing._py_ecc()
    monkeypatch.undo()
    pairing._py_ecc.cache_clear()


def test_pairing_is_bilinear() -> None:
    three = multi_scalar([pairing.G1_GENERATOR], [3])
    six2 = pairing.combination([pairing.G2_GENERATOR], [6])
    two2 = pairing.combination([pairing.G2_GENERATOR], [2])
    assert six2 is not None
    assert two2 is not None
    assert pairing.is_one(pairing.miller([(three, two2), (pairing.negated(pairing.G1_GENERATOR), six2)]))
    assert not pairing.is_one(pairing.miller([(three, six2), (pairing.negated(pairing.G1_GENERATOR), six2)]))
    assert pairing.is_one(pairing.miller([(None, six2)]))
