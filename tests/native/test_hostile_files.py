# SPDX-License-Identifier: GPL-3.0-or-later
"""Files made to harm: truncated, oversized, with lying counts, wrong points, identities, foreign subgroups."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragseal.circuits.r1cs import read_r1cs
from ragseal.groth16.coefficients import check_coefficients
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import P, R

native = pytest.importorskip("ragseal_native")


Repack = Callable[[bytes, Callable[[dict[int, bytes]], None]], bytes]
HEAD = 2 * 36 + 12  #: of a key's header section, before its points


def raw(x: int, y: int) -> bytes:
    """A G1 point as snarkjs stores it."""
    return b"".join((c * 2**256 % P).to_bytes(32, "little") for c in (x, y))


GENERATOR = raw(1, 2)


def refused(tmp_path: Path, load: Callable[[Path], object], data: bytes, why: str | None = None) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(data)
    with pytest.raises(native.NativeError, match=why):
        load(path)


@pytest.mark.parametrize("kind", ["r1cs", "zkey", "wtns"])
def test_truncated_and_extended_files(tmp_path: Path, made: Any, kind: str) -> None:
    witness = tmp_path / "w.wtns"
    native.Witness.from_bytes(made.witness).to_wtns(witness)
    load, path = {
        "r1cs": (native.R1cs.load, made.r1cs),
        "zkey": (native.ProvingKey.load, made.zkey),
        "wtns": (native.Witness.from_wtns, witness),
    }[kind]
    data = path.read_bytes()
    rng = random.Random(2)
    for size in {*range(0, 40), *(rng.randrange(len(data)) for _ in range(60)), len(data) - 1}:
        refused(tmp_path, load, data[:size])
    refused(tmp_path, load, data + b"\0", "too many")
    refused(tmp_path, load, b"none" + data[4:], "not a")
    refused(tmp_path, load, data[:4] + struct.pack("<I", 9) + data[8:], "version")
    refused(tmp_path, load, data[:8] + struct.pack("<I", 2**32 - 1) + data[12:], "sections")
    refused(tmp_path, load, data[:16] + struct.pack("<Q", 2**64 - 1) + data[24:], "truncated")
    with pytest.raises(native.NativeError):
        load(tmp_path / "absent")
    with pytest.raises(native.NativeError, match="regular file"):
        load(tmp_path)


@pytest.mark.parametrize("kind", ["r1cs", "zkey"])
def test_flipped_bytes_never_crash(tmp_path: Path, made: Any, kind: str) -> None:
    load, path = {"r1cs": (native.R1cs.load, made.r1cs), "zkey": (native.ProvingKey.load, made.zkey)}[kind]
    data = path.read_bytes()
    rng = random.Random(3)
    for _ in range(150):
        at = rng.randrange(len(data))
        (tmp_path / "flipped").write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        try:
            loaded = load(tmp_path / "flipped")
            if kind == "zkey":
                # What remains undetected (a point of B1 for another, say) must not leave as a proof.
                proof = loaded.prove(native.Witness.from_bytes(made.witness))
                loaded.verifying_key().verify(proof, made.public, b"")
        except native.NativeError:
            pass


def test_circuit_files(tmp_path: Path, made: Any, repack: Repack) -> None:
    data = made.r1cs.read_bytes()

    def edit(kind: int, change: Callable[[bytes], bytes], why: str) -> None:
        def apply(parts: dict[int, bytes]) -> None:
            parts[kind] = change(parts[kind])

        refused(tmp_path, native.R1cs.load, repack(data, apply), why)

    edit(1, lambda h: h[:4] + P.to_bytes(32, "little") + h[36:], "BN254")
    edit(1, lambda h: struct.pack("<I", 64) + h[4:], "32 bytes")
    edit(1, lambda h: h[:36] + struct.pack("<I", 2**32 - 1) + h[40:], "wires")
    edit(1, lambda h: h[:36] + struct.pack("<I", 5) + h[40:], "inputs|wire")
    edit(1, lambda h: h[:44] + struct.pack("<I", 2**32 - 1) + h[48:], "inputs")
    edit(1, lambda h: h[:60] + struct.pack("<I", 2**32 - 1), "constraints")
    edit(1, lambda h: h[:60] + struct.pack("<I", 5), "truncated")
    edit(1, lambda h: h[:60] + struct.pack("<I", 3), "too many")
    edit(2, lambda b: struct.pack("<I", 2**32 - 1) + b[4:], "truncated")
    edit(2, lambda b: b[:4] + struct.pack("<I", 9) + b[8:], "wire 9")
    edit(2, lambda b: b[:8] + R.to_bytes(32, "little") + b[40:], "canonical")
    edit(2, lambda b: b[:40] + b[4:8] + b[44:], "twice")

    def drop(parts: dict[int, bytes]) -> None:
        del parts[2]

    def custom(parts: dict[int, bytes]) -> None:
        parts[4] = struct.pack("<I", 1) + b"x\0"

    refused(tmp_path, native.R1cs.load, repack(data, drop), "section 2 is missing")
    refused(tmp_path, native.R1cs.load, repack(data, custom), "custom gates")


def put(at: int, new: bytes) -> Callable[[bytes], bytes]:
    return lambda old: old[:at] + new + old[at + len(new) :]


def test_key_files(tmp_path: Path, made: Any, repack: Repack) -> None:
    data = made.zkey.read_bytes()

    def edit(kind: int, change: Callable[[bytes], bytes], why: str) -> None:
        def apply(parts: dict[int, bytes]) -> None:
            parts[kind] = change(parts[kind])

        refused(tmp_path, native.ProvingKey.load, repack(data, apply), why)

    alpha, beta1, beta2, gamma2, delta1, delta2 = (HEAD + o for o in (0, 64, 128, 256, 384, 448))
    header: bytes = b""

    def keep(parts: dict[int, bytes]) -> None:
        nonlocal header
        header = parts[2]

    repack(data, keep)
    edit(1, lambda _: struct.pack("<I", 2), "Groth16")
    edit(2, put(4, R.to_bytes(32, "little")), "base field")
    edit(2, put(40, P.to_bytes(32, "little")), "BN254")
    edit(2, put(72, struct.pack("<I", 2**31)), "wires")
    edit(2, put(72, struct.pack("<I", 10)), "section")
    edit(2, put(76, struct.pack("<I", 0)), "public")
    edit(2, put(76, struct.pack("<I", 5)), "section")
    edit(2, put(80, struct.pack("<I", 12)), "domain")
    edit(2, put(80, struct.pack("<I", 2**28)), "domain")
    edit(2, put(80, struct.pack("<I", 32)), "section")
    edit(2, put(alpha, bytes(64)), "alpha is the identity")
    edit(2, put(beta1, bytes(64)), "beta_1 is the identity")
    edit(2, put(beta2, bytes(128)), "beta is the identity")
    edit(2, put(gamma2, bytes(128)), "gamma is the identity")
    edit(2, put(delta1, bytes(64)), "delta_1 is the identity")
    edit(2, put(delta2, bytes(128)), "delta is the identity")
    edit(2, put(gamma2, header[delta2 : delta2 + 128]), "gamma equals delta")
    edit(2, put(delta1, GENERATOR), "delta_1 and delta_2 disagree")
    edit(2, put(beta1, GENERATOR), "beta_1 and beta_2 disagree")
    edit(2, put(alpha, raw(1, 3)), "curve")
    edit(2, put(alpha, b"\xff" * 32), "reduced")
    edit(3, lambda ic: ic[:-64] + bytes(64), "IC point 4 is the identity")
    edit(3, lambda ic: bytes(64) + ic[64:], "IC point 0 is the identity")
    for kind in (3, 5, 6, 8, 9):
        edit(kind, put(0, raw(1, 3)), "curve")
        edit(kind, lambda b: b[:-64], "expected")
    edit(7, put(0, raw(1, 3) * 2), "curve")
    edit(4, put(0, struct.pack("<I", 2**32 - 1)), "truncated")
    edit(4, put(4, struct.pack("<I", 2)), "outside")
    edit(4, put(8, struct.pack("<I", 16)), "outside")
    edit(4, put(12, struct.pack("<I", 9)), "outside")
    edit(4, put(16, bytes(32)), "zero")
    edit(4, put(16, R.to_bytes(32, "little")), "reduced")


def test_one_point_outside_the_subgroup_is_found(
    tmp_path: Path, made: Any, repack: Repack, outside_subgroup: bytes
) -> None:
    """The points of B2 are checked together, by random combinations."""
    x1, x0, y1, y0 = (int.from_bytes(outside_subgroup[i : i + 32], "big") for i in range(0, 128, 32))
    foreign = raw(x0, x1) + raw(y0, y1)

    def apply(parts: dict[int, bytes]) -> None:
        parts[7] = parts[7][: 3 * 128] + foreign + parts[7][4 * 128 :]

    for _ in range(5):
        refused(tmp_path, native.ProvingKey.load, repack(made.zkey.read_bytes(), apply), "subgroup")


# A key's coefficients must be its circuit's: whatever else stands there is refused, in any order. SPEC A.9.


ENTRY = 44
KEPT = 4  #: all public inputs of the circuit that is written there


@pytest.fixture
def verdict(tmp_path: Path, made: Any, repack: Repack) -> Callable[..., str | None]:
    """What the check says about the honest key with another section 4 (or another one)."""

    def check(section: bytes, kind: int = 4) -> str | None:
        path = tmp_path / "key.zkey"
        path.write_bytes(repack(made.zkey.read_bytes(), lambda parts: parts.update({kind: section})))
        try:
            check_coefficients(path, read_r1cs(made.r1cs), KEPT)
        except ProofError as error:
            return str(error)
        return None

    return check


def sections(made: Any, repack: Repack) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    repack(made.zkey.read_bytes(), lambda parts: found.update(parts))
    return found


def listed(entries: list[bytes]) -> bytes:
    return struct.pack("<I", len(entries)) + b"".join(entries)


def word(entry: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", entry, at)[0])


def test_only_the_circuits_coefficients_pass(made: Any, repack: Repack, verdict: Callable[..., str | None]) -> None:
    good = sections(made, repack)[4]
    entries = [good[at : at + ENTRY] for at in range(4, len(good), ENTRY)]
    assert verdict(good) is None
    shuffled = list(entries)
    random.Random(5).shuffle(shuffled)
    assert verdict(listed(shuffled)) is None  # the order means nothing
    for at, entry in enumerate(entries):
        value = int.from_bytes(entry[12:], "little")
        rest = entries[:at] + entries[at + 1 :]
        half = (value * pow(2, -1, R) % R).to_bytes(32, "little")
        wrong = {
            "left out": rest,
            "twice": [*entries, entry],
            "in two halves": [*rest, entry[:12] + half, entry[:12] + half],
            "negated": [*rest, entry[:12] + (-value % R).to_bytes(32, "little")],
            "doubled": [*rest, entry[:12] + (2 * value % R).to_bytes(32, "little")],
            "in Montgomery form once": [*rest, entry[:12] + (value * pow(2, -256, R) % R).to_bytes(32, "little")],
            "in the other matrix": [*rest, struct.pack("<I", 1 - entry[0]) + entry[4:]],
            "in another row": [*rest, entry[:4] + struct.pack("<I", word(entry, 4) ^ 1) + entry[8:]],
            "at another wire": [*rest, entry[:8] + struct.pack("<I", word(entry, 8) ^ 1) + entry[12:]],
            "added": [*entries, entry[:4] + struct.pack("<I", 15) + entry[8:]],
        }
        for what, changed in wrong.items():
            said = verdict(listed(changed))
            assert said is not None, (at, what)
            assert re.search("not those of the circuit|outside the matrices", said), (at, what, said)
        assert "not reduced" in (verdict(listed([*rest, entry[:12] + (value + R).to_bytes(32, "little")])) or "")
        assert "zero" in (verdict(listed([*rest, entry[:12] + bytes(32)])) or "")


def test_malformed_sections(made: Any, repack: Repack, verdict: Callable[..., str | None]) -> None:
    parts = sections(made, repack)
    assert "truncated" in (verdict(parts[4][:-1]) or "")
    assert "too many" in (verdict(parts[4] + b"\0") or "")
    assert "truncated" in (verdict(struct.pack("<I", 2**32 - 1) + parts[4][4:]) or "")
    for field in range(3):  # wires, public inputs, domain
        at = 2 * 36 + 4 * field
        changed = parts[2][:at] + struct.pack("<I", 2 * word(parts[2], at)) + parts[2][at + 4 :]
        assert "of other circuit sources" in (verdict(changed, 2) or "")


def test_another_circuit(tmp_path: Path, made: Any, make: Callable[[], Any]) -> None:
    other = make()
    other.rows[0] = ({1: 2}, *other.rows[0][1:])
    with pytest.raises(ProofError, match="not those of the circuit"):
        check_coefficients(made.zkey, read_r1cs(other.write(tmp_path / "other.r1cs")), KEPT)
    longer = make()
    longer.rows.append(({}, {}, {}))
    with pytest.raises(ProofError, match="not those of the circuit"):  # the rows of the public inputs move
        check_coefficients(made.zkey, read_r1cs(longer.write(tmp_path / "longer.r1cs")), KEPT)
    zeros = make()
    zeros.rows[1] = ({5: 0}, {}, zeros.rows[1][2])  # a coefficient of zero is none
    check_coefficients(made.zkey, read_r1cs(zeros.write(tmp_path / "zeros.r1cs")), KEPT)
