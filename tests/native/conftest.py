# SPDX-License-Identifier: GPL-3.0-or-later
"""Circuits written row by row as .r1cs files, so that no compiler is needed, and raw access to container files."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ragseal.kernel.params import P, R

native = pytest.importorskip("ragseal_native")

Form = Mapping[int, int]  #: wire -> coefficient


def le(value: int) -> bytes:
    return (value % R).to_bytes(32, "little")


def be(value: int) -> bytes:
    return (value % R).to_bytes(32, "big")


def section(kind: int, body: bytes) -> bytes:
    return struct.pack("<IQ", kind, len(body)) + body


def container(magic: bytes, version: int, sections: Sequence[tuple[int, bytes]]) -> bytes:
    head = magic + struct.pack("<II", version, len(sections))
    return head + b"".join(section(kind, body) for kind, body in sections)


@dataclass
class Circuit:
    """Rows A * B = C over wires 0 (one), outputs, public inputs, private inputs, the rest."""

    wires: int
    public: int
    private: int
    outputs: int = 0
    rows: list[tuple[Form, Form, Form]] = field(default_factory=list)

    def sections(self) -> list[tuple[int, bytes]]:
        def form(f: Form) -> bytes:
            return struct.pack("<I", len(f)) + b"".join(struct.pack("<I", w) + le(k) for w, k in f.items())

        counts = (self.wires, self.outputs, self.public, self.private)
        header = struct.pack("<I", 32) + R.to_bytes(32, "little")
        header += struct.pack("<IIIIQI", *counts, self.wires, len(self.rows))
        labels = b"".join(struct.pack("<Q", i) for i in range(self.wires))
        return [(1, header), (2, b"".join(form(f) for row in self.rows for f in row)), (3, labels)]

    def encode(self) -> bytes:
        return container(b"r1cs", 1, self.sections())

    def write(self, path: Path) -> Path:
        path.write_bytes(self.encode())
        return path


def product_circuit(w0: int = 2, w1: int = 3) -> Circuit:
    """Public a (wire 1), w0, w1, blind; private secret.  out = (w0 + a) * w1 + 3 secret, and q = w0 / (a + secret)."""
    one, a, secret, product, out, quotient = 0, 1, *range(5, 9)
    return Circuit(
        wires=9,
        public=4,
        private=1,
        rows=[
            ({w0: 1, a: 1}, {w1: 1}, {product: 1}),
            ({}, {}, {product: 1, secret: 3, out: -1}),
            ({a: 1, secret: 1}, {quotient: 1}, {w0: 1}),
            ({quotient: 2, one: 1}, {one: 5}, {quotient: 10, one: 5}),
        ],
    )


INPUTS = b"".join(be(x) for x in (11, -7, 1000, 123456789, 42))


@pytest.fixture(scope="session")
def make() -> Callable[..., Circuit]:
    return product_circuit


@dataclass(frozen=True)
class Made:
    """A circuit with a key, the witness of INPUTS and its packed public inputs."""

    r1cs: Path
    zkey: Path
    witness: bytes
    public: bytes


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("circuit")
    r1cs = product_circuit().write(folder / "product.r1cs")
    native.setup(r1cs, folder / "product.zkey")
    witness = native.R1cs.load(r1cs).solve(INPUTS)
    return Made(r1cs, folder / "product.zkey", witness.bytes(), INPUTS[: 4 * 32])


@pytest.fixture(scope="session")
def inputs() -> bytes:
    return INPUTS


@pytest.fixture(scope="session")
def repack() -> Callable[[bytes, Callable[[dict[int, bytes]], None]], bytes]:
    """Change sections of a container file."""

    def change(data: bytes, edit: Callable[[dict[int, bytes]], None]) -> bytes:
        version, count = struct.unpack_from("<II", data, 4)
        at, parts = 12, {}
        for _ in range(count):
            kind, size = struct.unpack_from("<IQ", data, at)
            parts[kind] = data[at + 12 : at + 12 + size]
            at += 12 + size
        edit(parts)
        return container(data[:4], version, list(parts.items()))

    return change


@pytest.fixture(scope="session")
def new_circuit() -> type[Circuit]:
    return Circuit


@pytest.fixture(scope="session")
def outside_subgroup() -> bytes:
    """A point on the twist that is not in the subgroup of order r, in wire order."""
    bn128 = pytest.importorskip("py_ecc.optimized_bn128")
    rng = random.Random(1)
    one, minus_one, i = bn128.FQ2.one(), bn128.FQ2([P - 1, 0]), bn128.FQ2([0, 1])
    while True:
        x = bn128.FQ2([rng.randrange(P), rng.randrange(P)])
        square = x * x * x + bn128.b2
        # p = 3 mod 4: square roots in Fp2 by Adj and Rodriguez-Henriquez, algorithm 9.
        a1 = square ** ((P - 3) // 4)
        alpha, x0 = a1 * a1 * square, a1 * square
        y = x0 * i if alpha == minus_one else (alpha + one) ** ((P - 1) // 2) * x0
        if y * y == square:
            assert not bn128.is_inf(bn128.multiply((x, y, one), R))
            coordinates = (x.coeffs[1], x.coeffs[0], y.coeffs[1], y.coeffs[0])
            return b"".join(int(c).to_bytes(32, "big") for c in coordinates)
