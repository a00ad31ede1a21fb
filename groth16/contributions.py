# SPDX-License-Identifier: GPL-3.0-or-later
"""Who contributed to a key: section 10 of a .zkey, read as hostile, and its chain checked as ``snarkjs zkvi`` does.

A contribution multiplies delta by a secret and proves that its maker knew it: two points of G1 whose ratio the secret
is, and the same ratio in G2 over a point that is drawn from a hash of everything before.  A contribution is known by
its hash, which so covers the whole chain up to it; names are not hashed.  SPEC A.9.13.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragseal.circuits.container import MAX_SECTIONS, Container, Cursor
from ragseal.groth16 import fast_pairing, pairing
from ragseal.groth16.pairing import G1_GENERATOR, G2_BYTES, G2Point
from ragseal.groth16.snarkjs_random import beacon_draw, challenge_point
from ragseal.kernel.bn254 import POINT_BYTES, encode_point
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.msm import Affine, Point, multi_scalar
from ragseal.kernel.params import P
from ragseal.runtime.edges.filesystem import why

SECTION = 10
HASH_BYTES = 64
MAX_CONTRIBUTIONS = 256
MAX_PARAMETERS = 1024  #: bytes of one contribution's name and beacon; snarkjs writes at most 516
CONTRIBUTION, BEACON = 0, 1  #: kinds

_NAME, _ITERATIONS, _BEACON = 1, 2, 3
_UNSCALE = pow(1 << 256, -1, P)
_MAX_SECTION = HASH_BYTES + 4 + MAX_CONTRIBUTIONS * (3 * POINT_BYTES + G2_BYTES + HASH_BYTES + 8 + MAX_PARAMETERS)


@dataclass(frozen=True, slots=True)
class Contribution:
    """One entry of section 10."""

    after: Point  #: delta_1 with this contribution
    s: Point
    sx: Point  #: s times the secret
    spx: G2Point  #: the challenge point times the secret
    transcript: bytes  #: 64 bytes
    kind: int
    name: str  #: anybody's choice and in no hash: printable text it need not be
    iterations: int  #: of a beacon
    beacon: bytes

    @property
    def public_key(self) -> bytes:
        """What hashes cover of it."""
        points = b"".join(map(encode_point, (self.after, self.s, self.sx)))
        return points + pairing.encode_g2(self.spx) + self.transcript

    @property
    def hash(self) -> bytes:
        """BLAKE2b-512, as snarkjs prints it ("Contribution Hash")."""
        return hashlib.blake2b(self.public_key).digest()


@dataclass(frozen=True, slots=True)
class Chain:
    """Section 10 of a key and the delta that the key has."""

    circuit_hash: bytes  #: 64 bytes
    contributions: tuple[Contribution, ...]
    delta1: Point
    encoded: tuple[bytes, ...]  #: every contribution as it stands in the file

    def continues(self, other: Chain) -> bool:
        """Whether this is the other chain with more at its end or nothing, byte for byte."""
        return self.circuit_hash == other.circuit_hash and self.encoded[: len(other.encoded)] == other.encoded


def read_chain(path: Path) -> Chain:
    """The contributions that a .zkey lists.  Nothing is checked but their form; :func:`check_chain` does the rest.

    Raises:
        ConfigurationError: the file cannot be read.
        ProofError: it is no Groth16 key, or its list is malformed.
    """
    try:
        return _read(_small_sections(path))
    except ProofError as error:
        raise ProofError(f"{path.name}: {error}") from None


def _small_sections(path: Path) -> Container:
    """Sections 1, 2 and 10, and nothing of the others: a key has hundreds of megabytes, and a bad one any number."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path} as a file of its own: {why(error)}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ProofError("not a regular file")
        start = file.read(12)
        if start[:4] != b"zkey" or start[4:8] != (1).to_bytes(4, "little"):
            raise ProofError("not a zkey file of version 1")
        sections: dict[int, memoryview] = {}
        seen: set[int] = set()
        for _ in range(min(int.from_bytes(start[8:12], "little"), MAX_SECTIONS)):
            about = file.read(12)
            kind, size = int.from_bytes(about[:4], "little"), int.from_bytes(about[4:], "little")
            if len(about) < 12 or size > found.st_size - file.tell():
                raise ProofError("truncated")
            if kind in seen:
                raise ProofError(f"section {kind} occurs twice")
            seen.add(kind)
            if kind not in (1, 2, SECTION):
                file.seek(size, os.SEEK_CUR)
            elif size > _MAX_SECTION:
                raise ProofError(f"section {kind} is oversized")
            else:
                sections[kind] = memoryview(file.read(size))
    return Container(sections)


def _read(file: Container) -> Chain:
    if bytes(file.array(1, 1, 4)) != (1).to_bytes(4, "little"):
        raise ProofError("not a Groth16 key")
    header = file.section(2)
    if len(header) < G2_BYTES + POINT_BYTES:
        raise ProofError("truncated header")
    delta1 = _g1(bytes(header[-G2_BYTES - POINT_BYTES : -G2_BYTES]))
    data = file.section(SECTION)
    cursor = Cursor(data)
    circuit_hash, count = bytes(cursor.take(HASH_BYTES)), cursor.u32()
    if count > MAX_CONTRIBUTIONS:
        raise ProofError(f"{count} contributions are listed, {MAX_CONTRIBUTIONS} are read at most")
    found, encoded, at = [], [], HASH_BYTES + 4
    for number in range(1, count + 1):
        try:
            one, size = _contribution(cursor)
        except ProofError as error:
            raise ProofError(f"contribution {number}: {error}") from None
        found.append(one)
        encoded.append(bytes(data[at : at + size]))
        at += size
    cursor.end()
    return Chain(circuit_hash, tuple(found), delta1, tuple(encoded))


def _contribution(cursor: Cursor) -> tuple[Contribution, int]:
    after, s, sx = (_g1(bytes(cursor.take(POINT_BYTES))) for _ in range(3))
    spx = _g2(bytes(cursor.take(G2_BYTES)))
    transcript, kind = bytes(cursor.take(HASH_BYTES)), cursor.u32()
    if kind not in (CONTRIBUTION, BEACON):
        raise ProofError(f"it is of the unknown kind {kind}")
    size = cursor.u32()
    if size > MAX_PARAMETERS:
        raise ProofError(f"{size} bytes of name and beacon are too many")
    given = _parameters(Cursor(cursor.take(size)), size)
    if (kind == BEACON) != (_BEACON in given) or (_BEACON in given) != (_ITERATIONS in given):
        raise ProofError("a beacon has its bytes and iterations, and nothing else has")
    name = given.get(_NAME, b"").decode("utf-8", "backslashreplace")
    iterations, beacon = given.get(_ITERATIONS, b"\0")[0], given.get(_BEACON, b"")
    whole = 3 * POINT_BYTES + G2_BYTES + HASH_BYTES + 8 + size
    return Contribution(
        after=after,
        s=s,
        sx=sx,
        spx=spx,
        transcript=transcript,
        kind=kind,
        name=name,
        iterations=iterations,
        beacon=beacon,
    ), whole


def _parameters(cursor: Cursor, size: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while size:
        kind = cursor.take(1)[0]
        if kind not in (_NAME, _ITERATIONS, _BEACON) or kind <= max(found, default=0):
            raise ProofError("its parameters are not name, iterations, beacon in this order")
        length = 1 if kind == _ITERATIONS else cursor.take(1)[0]
        found[kind] = bytes(cursor.take(length))
        size -= 1 + length + (kind != _ITERATIONS)
    cursor.end()
    return found


def _coordinates(data: bytes) -> list[int]:
    numbers = [int.from_bytes(data[i : i + 32], "little") for i in range(0, len(data), 32)]
    if max(numbers) >= P:
        raise ProofError("a point coordinate is not reduced (>= p)")
    return [n * _UNSCALE % P for n in numbers]


def _g1(data: bytes) -> Point:
    x, y = _coordinates(data)
    if (y * y - x * x * x - 3) % P:  # zeros, which stand for the identity, are not on the curve either
        raise ProofError("a G1 point is the identity or not on the curve")
    return x, y


def _g2(data: bytes) -> G2Point:
    x0, x1, y0, y1 = _coordinates(data)
    point = (x0, x1, y0, y1)
    if not any(point) or not pairing.on_twist(point):
        raise ProofError("a G2 point is the identity or not on the curve")
    return point


# --- checking ---------------------------------------------------------------------------------------------------------

#: e(left, G2 point) must be e(right, G2 point): name, left, its point, right, its point.
_Equation = tuple[str, Affine, G2Point, Affine, G2Point]


def check_chain(chain: Chain, circuit_hash: bytes) -> None:
    """Every contribution proves its secret upon the ones before it, and delta is what they make.

    Milliseconds for each; a second in plain Python.

    That the key's delta is one in G1 and G2, and that its points are those of the circuit, is another check's matter
    (:meth:`ragseal.groth16.powers.PowersFile.check_key`).

    Args:
        circuit_hash: what the chain must begin with.

    Raises:
        ConfigurationError: neither the native module nor py_ecc is installed.
        ProofError: what does not hold, and of which contribution.
    """
    if chain.circuit_hash != circuit_hash:
        raise ProofError(
            "the key's circuit hash is that of a different beginning: of other powers, a different circuit or "
            "ceremony, or one in which hidden inputs are still private"
        )
    before: Point = G1_GENERATOR
    accumulated = hashlib.blake2b(circuit_hash)
    equations: list[_Equation] = []
    for number, one in enumerate(chain.contributions, 1):
        ours = accumulated.copy()
        ours.update(encode_point(one.s) + encode_point(one.sx))
        if ours.digest() != one.transcript:
            raise ProofError(
                f"contribution {number} was not made upon the ones before it: its transcript is another's; one was "
                "dropped, changed or put in another place"
            )
        if not fast_pairing.in_subgroup(one.spx):
            raise ProofError(f"contribution {number}: a G2 point is outside the subgroup")
        if one.kind == BEACON:
            _check_beacon(number, one)
        challenge = challenge_point(one.transcript)
        equations.append((f"the proof of knowledge of contribution {number}", one.s, one.spx, one.sx, challenge))
        equations.append((f"the delta after contribution {number}", before, one.spx, one.after, challenge))
        accumulated.update(one.public_key)
        before = one.after
    if chain.delta1 != before:
        raise ProofError("the key's delta is not the one that its contributions make: the key was swapped or changed")
    _hold(equations)


def _check_beacon(number: int, one: Contribution) -> None:
    try:
        secret, s = beacon_draw(one.beacon, one.iterations)
    except ProofError as error:
        raise ProofError(f"contribution {number}: {error}") from None
    if (s, multi_scalar([s], [secret])) != (one.s, one.sx):
        raise ProofError(f"contribution {number} is not what its beacon gives: somebody chose the beacon's delta")


def _hold(equations: Sequence[_Equation]) -> None:
    """All at once by random weights; where that fails, one by one to name the first wrong one."""
    terms: dict[G2Point, list[tuple[Affine, int]]] = {}
    for _, left, of_left, right, of_right in equations:
        weight = secrets.randbits(128) | 1
        terms.setdefault(of_left, []).append((left, weight))
        terms.setdefault(of_right, []).append((pairing.negated(right), weight))
    pairs = [(multi_scalar([p for p, _ in found], [w for _, w in found]), other) for other, found in terms.items()]
    if fast_pairing.cancel(pairs):
        return
    for name, left, of_left, right, of_right in equations:
        if not fast_pairing.cancel([(left, of_left), (pairing.negated(right), of_right)]):
            raise ProofError(f"{name} does not hold")
    raise ProofError("the contributions do not hold together")
