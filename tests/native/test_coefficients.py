# SPDX-License-Identifier: GPL-3.0-or-later
"""A key's coefficients must be its circuit's: whatever else stands there is refused, in any order.  SPEC A.9."""

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
from ragseal.kernel.params import R

native = pytest.importorskip("ragseal_native")

Repack = Callable[[bytes, Callable[[dict[int, bytes]], None]], bytes]
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
