# SPDX-License-Identifier: GPL-3.0-or-later
"""Powers of tau: hostile files, one wrong power, and keys of which one point is another."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.params import P, R

native = pytest.importorskip("ragseal_native")

Repack = Callable[[bytes, Callable[[dict[int, bytes]], None]], bytes]
POWER = 5
DOMAIN = 1 << POWER
G1, G2 = 64, 128
HEAD = 2 * 36 + 12
ALPHA, BETA_1, BETA_2, GAMMA, DELTA_1, DELTA_2 = (HEAD + o for o in (0, 64, 128, 256, 384, 448))
KEPT = 2  #: public a and blind; w0 and w1 live in commitments
WIRES = {"w0": 3, "w1": 4}  #: the blinder, wire 2, stands before them
INPUTS = (11, 123456789, -7, 1000, 42)


def raw(x: int, y: int) -> bytes:
    """A point's coordinates as snarkjs stores them."""
    return b"".join((c * 2**256 % P).to_bytes(32, "little") for c in (x, y))


@dataclass(frozen=True)
class Made:
    powers: Path
    r1cs: Path
    initial: Path
    zkey: Path
    checked: Any  #: the loaded powers


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, make: Callable[..., Any]) -> Made:
    folder = tmp_path_factory.mktemp("powers")
    native.make_powers(folder / "made.ptau", POWER)
    r1cs = make(**WIRES).write(folder / "small.r1cs")
    checked = native.Powers.load(folder / "made.ptau", 8)
    checked.initial_key(r1cs, folder / "initial.zkey", KEPT)
    native.contribute(folder / "initial.zkey", folder / "own.zkey")
    return Made(folder / "made.ptau", r1cs, folder / "initial.zkey", folder / "own.zkey", checked)


def packed(*numbers: int) -> bytes:
    return b"".join((n % R).to_bytes(32, "big") for n in numbers)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_key_of_powers_passes_and_proves(made: Made) -> None:
    made.checked.check_key(made.zkey, made.r1cs, KEPT)
    key = native.ProvingKey.load(made.zkey)
    witness = native.R1cs.load(made.r1cs).solve(packed(*INPUTS))
    key.verifying_key().verify(key.prove(witness), packed(*INPUTS[:4]), b"")


def test_two_contributions_are_two_keys_of_the_same_powers(made: Made, tmp_path: Path) -> None:
    native.contribute(made.initial, tmp_path / "other.zkey")
    made.checked.check_key(tmp_path / "other.zkey", made.r1cs, KEPT)
    digests = {native.ProvingKey.load(path).verifying_key().digest() for path in (made.zkey, tmp_path / "other.zkey")}
    assert len(digests) == 2


def test_a_key_before_any_contribution_is_refused(made: Made) -> None:
    """gamma = delta = 1: it proves anything."""
    with pytest.raises(native.NativeError, match="gamma equals delta"):
        native.ProvingKey.load(made.initial)
    with pytest.raises(native.NativeError, match="gamma equals delta"):
        made.checked.check_key(made.initial, made.r1cs, KEPT)


def test_a_key_is_contributed_to_once(made: Made, tmp_path: Path) -> None:
    with pytest.raises(native.NativeError, match="has contributions already"):
        native.contribute(made.zkey, tmp_path / "again.zkey")
    assert not (tmp_path / "again.zkey").exists()


def swapped(size: int, one: int, other: int) -> Callable[[bytes], bytes]:
    """Two points of a section change places: still proper points, and of the same circuit."""

    def change(data: bytes) -> bytes:
        points = [data[i : i + size] for i in range(0, len(data), size)]
        assert points[one] != points[other]
        points[one], points[other] = points[other], points[one]
        return b"".join(points)

    return change


TAMPERED = {
    "A": ({5: swapped(G1, 1, 3)}, r"section 5 \(A\)"),
    "B": ({6: swapped(G1, 4, 8), 7: swapped(G2, 4, 8)}, r"section 6 \(B1\)"),
    "IC": ({3: swapped(G1, 3, 4)}, r"section 3 \(IC\)"),
    "C": ({8: swapped(G1, 0, 1)}, r"section 8 \(C\)"),
    "H": ({9: swapped(G1, 2, 5)}, r"section 9 \(H\)"),
    "B in G1 alone": ({6: swapped(G1, 4, 8)}, "sections B1 and B2 disagree"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_key_is_refused_and_its_section_named(made: Made, repack: Repack, tmp_path: Path, name: str) -> None:
    changes, why = TAMPERED[name]

    def apply(parts: dict[int, bytes]) -> None:
        for kind, change in changes.items():
            parts[kind] = change(parts[kind])

    bad = tmp_path / "bad.zkey"
    bad.write_bytes(repack(made.zkey.read_bytes(), apply))
    with pytest.raises(native.NativeError, match=why):
        made.checked.check_key(bad, made.r1cs, KEPT)


@pytest.mark.parametrize(
    ("kind", "why"), [(5, r"section 5 \(A\)"), (3, r"section 3 \(IC\)"), (8, r"8 \(C\)"), (9, r"9 \(H\)")]
)
def test_every_single_point_counts(made: Made, repack: Repack, tmp_path: Path, kind: int, why: str) -> None:
    """Each point of a section in turn is another: there is no place where a wrong one passes."""
    parts: dict[int, bytes] = {}
    repack(made.zkey.read_bytes(), parts.update)
    for at in range(0, len(parts[kind]), G1):

        def apply(now: dict[int, bytes], at: int = at) -> None:
            now[kind] = now[kind][:at] + raw(1, 2) + now[kind][at + G1 :]

        (tmp_path / "bad.zkey").write_bytes(repack(made.zkey.read_bytes(), apply))
        with pytest.raises(native.NativeError, match=why):
            made.checked.check_key(tmp_path / "bad.zkey", made.r1cs, KEPT)


def test_another_delta_is_refused(made: Made, repack: Repack, tmp_path: Path) -> None:
    """delta of one contribution, points of another."""
    native.contribute(made.initial, tmp_path / "other.zkey")
    theirs: dict[int, bytes] = {}
    repack((tmp_path / "other.zkey").read_bytes(), theirs.update)

    def apply(parts: dict[int, bytes]) -> None:
        parts[2] = theirs[2]

    (tmp_path / "bad.zkey").write_bytes(repack(made.zkey.read_bytes(), apply))
    native.ProvingKey.load(tmp_path / "bad.zkey")
    with pytest.raises(native.NativeError, match="or delta"):
        made.checked.check_key(tmp_path / "bad.zkey", made.r1cs, KEPT)


def test_another_gamma_is_refused(made: Made, repack: Repack, tmp_path: Path) -> None:
    beta2: dict[int, bytes] = {}
    repack(made.zkey.read_bytes(), beta2.update)

    def apply(parts: dict[int, bytes]) -> None:
        parts[2] = parts[2][:GAMMA] + beta2[2][BETA_2:GAMMA] + parts[2][DELTA_1:]

    (tmp_path / "bad.zkey").write_bytes(repack(made.zkey.read_bytes(), apply))
    with pytest.raises(native.NativeError, match="gamma is not 1"):
        made.checked.check_key(tmp_path / "bad.zkey", made.r1cs, KEPT)


def test_keys_of_others_are_refused(made: Made, make: Callable[..., Any], tmp_path: Path) -> None:
    native.setup(made.r1cs, tmp_path / "alone.zkey", KEPT)
    with pytest.raises(native.NativeError, match="alpha and beta are not those of these powers"):
        made.checked.check_key(tmp_path / "alone.zkey", made.r1cs, KEPT)
    native.make_powers(tmp_path / "other.ptau", POWER)
    with pytest.raises(native.NativeError, match="alpha and beta are not those of these powers"):
        native.Powers.load(tmp_path / "other.ptau", 8).check_key(made.zkey, made.r1cs, KEPT)
    # a row more within the same domain: the counts agree, the points do not
    longer = make(**WIRES)
    longer.rows[0], longer.rows[2] = longer.rows[2], longer.rows[0]
    longer.write(tmp_path / "longer.r1cs")
    with pytest.raises(native.NativeError, match="section 5"):
        made.checked.check_key(made.zkey, tmp_path / "longer.r1cs", KEPT)
    longer.wires = 10
    longer.write(tmp_path / "longer.r1cs")
    with pytest.raises(native.NativeError, match="other circuit sources"):
        made.checked.check_key(made.zkey, tmp_path / "longer.r1cs", KEPT)


def test_rows_of_their_own_count(made: Made, tmp_path: Path) -> None:
    """The same circuit and powers with a row for another number of public inputs make another key."""
    for kept in (1, 3):
        with pytest.raises(native.NativeError, match="section 5"):
            made.checked.check_key(made.zkey, made.r1cs, kept)
    with pytest.raises(native.NativeError, match="row of their own"):
        made.checked.check_key(made.zkey, made.r1cs, 5)
    with pytest.raises(native.NativeError, match="row of their own"):
        made.checked.initial_key(made.r1cs, tmp_path / "no.zkey", 5)
    # without a row for it, no constraint uses the blinder
    with pytest.raises(native.NativeError, match="identity"):
        made.checked.initial_key(made.r1cs, tmp_path / "no.zkey", 1)


def test_powers_for_a_smaller_circuit_do_not_check_a_larger_one(made: Made, tmp_path: Path) -> None:
    small = native.Powers.load(made.powers, 4)
    with pytest.raises(native.NativeError, match="read them for more"):
        small.check_key(made.zkey, made.r1cs, KEPT)
    with pytest.raises(native.NativeError, match="read them for more"):
        small.initial_key(made.r1cs, tmp_path / "no.zkey", KEPT)


# --- powers ----------------------------------------------------------------------------------------------------------


def refused(tmp_path: Path, data: bytes, why: str, domain: int = DOMAIN) -> None:
    (tmp_path / "hostile.ptau").write_bytes(data)
    with pytest.raises(native.NativeError, match=why):
        native.Powers.load(tmp_path / "hostile.ptau", domain)


def test_what_the_loader_reads(made: Made) -> None:
    whole = native.Powers.load(made.powers, DOMAIN)
    assert whole.domain == DOMAIN
    assert whole.digest() == made.checked.digest(), "the same tau, alpha and beta, whatever the domain"
    for domain in (0, 1, 3, 1 << 28):
        with pytest.raises(native.NativeError, match="power of two"):
            native.Powers.load(made.powers, domain)
    with pytest.raises(native.NativeError, match="take a larger file"):
        native.Powers.load(made.powers, 2 * DOMAIN)


def test_truncated_extended_and_mislabelled_files(made: Made, tmp_path: Path) -> None:
    data = made.powers.read_bytes()
    rng = random.Random(4)
    for size in {*range(0, 60), *(rng.randrange(len(data)) for _ in range(40)), len(data) - 1}:
        refused(tmp_path, data[:size], "truncated|ptau file")
    refused(tmp_path, data + b"\0", "too many")
    refused(tmp_path, b"zkey" + data[4:], "not a ptau file")
    refused(tmp_path, data[:4] + struct.pack("<I", 2) + data[8:], "version")
    refused(tmp_path, data[:8] + struct.pack("<I", 2**32 - 1) + data[12:], "sections")
    refused(tmp_path, data[:16] + struct.pack("<Q", 2**64 - 1) + data[24:], "truncated")
    again = struct.pack("<IQ", 6, G2) + bytes(G2)
    refused(tmp_path, data[:8] + struct.pack("<I", 12) + data[12:] + again, "section 6 occurs twice")
    with pytest.raises(native.NativeError, match="regular file"):
        native.Powers.load(tmp_path, DOMAIN)
    with pytest.raises(native.NativeError, match="input/output"):
        native.Powers.load(tmp_path / "absent", DOMAIN)


def test_headers_and_sizes(made: Made, repack: Repack, tmp_path: Path) -> None:
    def edit(kind: int, change: Callable[[bytes], bytes], why: str) -> None:
        def apply(parts: dict[int, bytes]) -> None:
            parts[kind] = change(parts[kind])

        refused(tmp_path, repack(made.powers.read_bytes(), apply), why)

    edit(1, lambda h: h[:4] + bytes(32) + h[36:], "BN254")
    edit(1, lambda h: struct.pack("<I", 48) + h[4:], "32 bytes")
    edit(1, lambda h: h + bytes(4), "header")
    for power in (0, 29, 2**32 - 1):
        edit(1, lambda h, power=power: h[:36] + struct.pack("<I", power) + h[40:], "powers for 2")
    edit(1, lambda h: h[:36] + struct.pack("<I", POWER + 1) + h[40:], "are expected")
    for kind in (2, 3, 4, 5, 6, 12, 13, 14, 15):
        edit(kind, lambda b: b[:-G1], f"section {kind} has .* are expected")
        edit(kind, lambda b: b + bytes(G2), f"section {kind} has .* are expected")

    for kind in (1, 2, 3, 4, 5, 6, 13):

        def drop(parts: dict[int, bytes], kind: int = kind) -> None:
            del parts[kind]

        refused(tmp_path, repack(made.powers.read_bytes(), drop), f"section {kind} is missing")


def at(index: int, point: bytes) -> Callable[[bytes], bytes]:
    start = index * len(point)
    return lambda old: old[:start] + point + old[start + len(point) :]


def test_points(made: Made, repack: Repack, tmp_path: Path, outside_subgroup: bytes) -> None:
    x1, x0, y1, y0 = (int.from_bytes(outside_subgroup[i : i + 32], "big") for i in range(0, 128, 32))
    foreign = raw(x0, x1) + raw(y0, y1)

    def edit(kind: int, change: Callable[[bytes], bytes], why: str) -> None:
        def apply(parts: dict[int, bytes]) -> None:
            parts[kind] = change(parts[kind])

        refused(tmp_path, repack(made.powers.read_bytes(), apply), why)

    for kind in (2, 4, 5):
        edit(kind, at(3, raw(1, 3)), "curve")
        edit(kind, at(3, b"\xff" * 64), "reduced")
        edit(kind, at(3, bytes(64)), "identity")
    for kind, index in ((3, 1), (6, 0)):
        edit(kind, at(index, raw(1, 3) * 2), "curve")
        edit(kind, at(index, foreign), "subgroup")
        edit(kind, at(index, bytes(128)), "identity")
    edit(2, lambda b: b[G1 : 2 * G1] + b[G1:], "begin with the generators")
    edit(3, lambda b: b[G2 : 2 * G2] + b[G2:], "begin with the generators")


@pytest.mark.parametrize(("kind", "name"), [(2, "2 (tau)"), (4, "4 (alpha tau)"), (5, "5 (beta tau)")])
def test_one_wrong_power_is_refused(made: Made, repack: Repack, tmp_path: Path, kind: int, name: str) -> None:
    """The first but for the generator, the last, and one between; each by a point that another power has."""
    count = 2 * DOMAIN - 1 if kind == 2 else DOMAIN
    for index in (1, count // 2, count - 1):

        def apply(parts: dict[int, bytes], index: int = index) -> None:
            parts[kind] = at(index, parts[kind][(index - 1) * G1 : index * G1])(parts[kind])

        refused(
            tmp_path,
            repack(made.powers.read_bytes(), apply),
            r"section " + name.replace("(", r"\(").replace(")", r"\)"),
        )


def test_tau_and_beta_in_both_groups(made: Made, repack: Repack, tmp_path: Path) -> None:
    def tau(parts: dict[int, bytes]) -> None:
        parts[3] = at(1, parts[3][2 * G2 : 3 * G2])(parts[3])

    def beta(parts: dict[int, bytes]) -> None:
        parts[6] = parts[3][G2 : 2 * G2]

    refused(tmp_path, repack(made.powers.read_bytes(), tau), "powers of the tau of section 3")
    refused(tmp_path, repack(made.powers.read_bytes(), beta), r"section 6 \(beta in G2\)")


def test_a_file_without_a_contribution_is_refused(made: Made, repack: Repack, tmp_path: Path) -> None:
    """tau = alpha = beta = 1, as `snarkjs powersoftau new` writes it: everybody knows the secrets."""

    def ones(parts: dict[int, bytes]) -> None:
        for kind in (2, 4, 5):
            parts[kind] = parts[2][:G1] * (len(parts[kind]) // G1)
        parts[3] = parts[3][:G2] * DOMAIN
        parts[6] = parts[3][:G2]

    refused(tmp_path, repack(made.powers.read_bytes(), ones), "root of unity")


@pytest.mark.parametrize(
    ("kinds", "domain", "why"),
    [
        ((12, 13), 8, "section 12 is not the Lagrange basis of section 2"),  # both, so that they agree with one another
        ((12,), 16, "section 12 is not the Lagrange basis of section 2"),
        ((13,), 8, "section 13 against section 12: .* disagree"),
        ((14,), 8, "section 14 is not the Lagrange basis of section 4"),
        ((15,), 8, "section 15 is not the Lagrange basis of section 5"),
    ],
)
def test_prepared_sections_are_held_against_the_powers(
    made: Made, repack: Repack, tmp_path: Path, kinds: tuple[int, ...], domain: int, why: str
) -> None:
    """A wrong Lagrange basis would make a key of another circuit; checking keys does not read it."""

    def apply(parts: dict[int, bytes]) -> None:
        for kind in kinds:
            size, first = G2 if kind == 13 else G1, domain - 1
            parts[kind] = at(first + 2, parts[kind][first * size : (first + 1) * size])(parts[kind])

    (tmp_path / "bad.ptau").write_bytes(repack(made.powers.read_bytes(), apply))
    powers = native.Powers.load(tmp_path / "bad.ptau", 8)
    powers.check_key(made.zkey, made.r1cs, KEPT)
    with pytest.raises(native.NativeError, match=why):
        powers.initial_key(made.r1cs, tmp_path / "no.zkey", KEPT)


def test_powers_that_are_not_prepared_check_keys_and_make_none(made: Made, repack: Repack, tmp_path: Path) -> None:
    def strip(parts: dict[int, bytes]) -> None:
        for kind in (12, 13, 14, 15):
            del parts[kind]

    (tmp_path / "bare.ptau").write_bytes(repack(made.powers.read_bytes(), strip))
    powers = native.Powers.load(tmp_path / "bare.ptau", DOMAIN)
    powers.check_key(made.zkey, made.r1cs, KEPT)
    with pytest.raises(native.NativeError, match="snarkjs powersoftau prepare phase2"):
        powers.initial_key(made.r1cs, tmp_path / "no.zkey", KEPT)


@pytest.mark.slow
def test_flipped_bytes_never_crash(made: Made, tmp_path: Path) -> None:
    data = made.powers.read_bytes()
    rng = random.Random(5)
    for _ in range(100):
        at = rng.randrange(len(data))
        (tmp_path / "f.ptau").write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        try:
            powers = native.Powers.load(tmp_path / "f.ptau", DOMAIN)
            powers.initial_key(made.r1cs, tmp_path / "f.zkey", KEPT)
            made.checked.check_key(made.zkey, made.r1cs, KEPT)
        except native.NativeError:
            pass


def test_powers_of_one_party_are_made_within_limits(tmp_path: Path) -> None:
    for power in (0, 22):
        with pytest.raises(native.NativeError, match="can be made"):
            native.make_powers(tmp_path / "no.ptau", power)
    native.make_powers(tmp_path / "one.ptau", 2, b"entropy")
    native.make_powers(tmp_path / "two.ptau", 2, b"entropy")
    native.make_powers(tmp_path / "three.ptau", 2)
    same = [native.Powers.load(tmp_path / f"{name}.ptau", 4).digest() for name in ("one", "two", "three")]
    assert same[0] == same[1] != same[2]
