# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes that name a value in a second way, or none: in proofs, commitments, openings, records and batches.

SPEC G.3.  Where a second encoding names the same value, the canonical check is all that
refuses it: with a lenient reader in its place the evidence is accepted.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel import field
from ragseal.kernel.bn254 import IDENTITY
from ragseal.kernel.errors import AuditError, EncodingError, ProofError
from ragseal.kernel.params import P, R
from ragseal.kernel.proofs import ProofBatch
from ragseal.verifier.steps import proofs
from tests.attacks.checks import POINTS_ON_THE_CURVE, RESPONSES_CANONICAL, without
from tests.attacks.machine import DIMENSION, GROUP, machine
from tests.attacks.removal import Check
from tests.attacks.world import AttackWorld, Cheat, accepted, outside_subgroup, queried, refused

pytestmark = pytest.mark.slow


def _plus(data: bytes, at: int, amount: int) -> bytes:
    """32 bytes at ``at`` as an integer, raised."""
    value = int.from_bytes(data[at : at + 32], "big") + amount
    return data[:at] + value.to_bytes(32, "big") + data[at + 32 :]


def _reduced(data: bytes) -> bytes:
    """Every coordinate below p."""
    parts = (int.from_bytes(data[i : i + 32], "big") % P for i in range(0, len(data), 32))
    return b"".join(x.to_bytes(32, "big") for x in parts)


PROOFS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a_identity": (lambda p: bytes(64) + p[64:], "identity"),
    "b_identity": (lambda p: p[:64] + bytes(128) + p[192:], "identity"),
    "c_identity": (lambda p: p[:192] + bytes(64), "identity"),
    "a_off_the_curve": (lambda p: _plus(p, 0, 1), "curve"),
    "b_off_the_curve": (lambda p: _plus(p, 64, 1), "curve"),
    "c_off_the_curve": (lambda p: _plus(p, 192, 1), "curve"),
    "a_not_canonical": (lambda p: _plus(p, 0, P), "canonical"),
    "b_not_canonical": (lambda p: _plus(p, 96, P), "canonical"),
    "c_not_canonical": (lambda p: _plus(p, 224, P), "canonical"),
    "b_outside_the_subgroup": (lambda p: p[:64] + outside_subgroup() + p[192:], "subgroup"),
    "nothing": (lambda p: bytes(256), "identity"),
    "ones": (lambda p: b"\xff" * 256, "canonical"),
}


@pytest.mark.parametrize("case", PROOFS)
def test_proof_with_a_malformed_point(case: str) -> None:
    change, message = PROOFS[case]
    world = queried()
    entry = world.entry(world.records()[1])
    world.kept[world.digest, 1].entry = replace(entry, proof=change(entry.proof))
    verdict = refused(world, 8, "the proof of record 1 does not hold")
    assert verdict.failure is not None
    assert message in verdict.failure.message, verdict.line()
    if "not_canonical" not in case:
        return
    real = proofs._pairings

    def lenient(basis: Any, items: Any) -> None:
        real(basis, [replace(i, entry=replace(i.entry, proof=_reduced(i.entry.proof))) for i in items])

    with without(Check(proofs, "_pairings", lenient)):
        accepted(world)


POINTS: dict[str, Callable[[bytes], bytes]] = {
    "identity": lambda _: IDENTITY,
    "off_the_curve": lambda p: _plus(p, 0, 1),
    "not_canonical": lambda p: _plus(p, 0, P),
    "ones": lambda _: b"\xff" * 64,
}


@pytest.mark.parametrize("case", POINTS)
def test_hint_commitment_that_is_no_point(case: str) -> None:
    world = queried()
    batch = world.batch(world.digest, [0, 1, 2])
    good = batch.entries[1].committed
    entry = replace(batch.entries[1], committed=POINTS[case](good[:64]) + good[64:])
    entries = (batch.entries[0], entry, batch.entries[2])
    if case in ("identity", "ones"):  # refused where it is decoded
        world.tamper_batch = lambda _: raw(batch.encode().replace(good, entry.committed))
    else:
        world.tamper_batch = lambda _: replace(batch, entries=entries)
    verdict = refused(world, 8, "proofs of records 0..2")
    assert verdict.failure is not None
    assert any(word in verdict.failure.message for word in ("identity", "curve", "canonical")), verdict.line()


#: points of an opening: an announcement, L of the first round, R of the last
OPENED = {
    "announcement": lambda opening: opening.announcements[-1],
    "left": lambda opening: opening.folds[0],
    "right": lambda opening: opening.folds[-1],
}


@pytest.mark.parametrize("case", POINTS)
@pytest.mark.parametrize(("part", "which"), [*(("hints", which) for which in OPENED), ("link", "announcement")])
def test_opening_with_what_is_no_point(part: str, which: str, case: str) -> None:
    world = queried()
    batch = world.batch(world.digest, [0, 1, 2])
    good = OPENED[which](batch.openings[0] if part == "hints" else batch.links[0].opening)
    world.tamper_batch = lambda _: raw(batch.encode().replace(good, POINTS[case](good)))
    verdict = refused(world, 8, "proofs of records 0..2")
    assert verdict.failure is not None
    assert any(word in verdict.failure.message for word in ("identity", "curve", "canonical")), verdict.line()


@pytest.mark.parametrize("part", ["hints", "link"])
def test_response_above_the_modulus(part: str) -> None:
    """response + r is the same scalar; such an opening would have many encodings."""
    world = queried()
    batch = world.batch(world.digest, [0, 1, 2])
    chosen = batch.openings[0] if part == "hints" else batch.links[0].opening
    last = chosen.responses[-1]
    world.tamper_batch = lambda _: raw(batch.encode().replace(field.to_bytes(last), (last + R).to_bytes(32, "big")))
    refused(world, 8, "canonical")
    with without(RESPONSES_CANONICAL):
        accepted(world)


def test_clear_input_above_the_modulus() -> None:
    """t_commit + r in a record, and every clear input given to the pairing check."""
    world = queried()
    record = world.records()[1]
    data = record.encode()
    at = data.index(field.to_bytes(record.t_commits[0]))
    world.raw[world.messages.index(record)] = _plus(data, at, R)
    refused(world, 1, "not canonical")

    world = queried()
    item = world.item(world.records()[1])
    clear = world.assignment(item.record, world.kept[world.digest, 1]).clear
    key = machine().key
    committed = item.entry.committed + item.entry.c_v
    points = item.c_w + GROUP.msm(committed, field.pack([1, clear[-1], 1]))
    key.vk.verify(item.entry.proof, field.pack(clear), points)
    for position in range(len(clear)):
        with pytest.raises(ValueError, match=r"canonical|below|modulus|>= r"):
            key.vk.verify(item.entry.proof, _plus(field.pack(clear), 32 * position, R), points)
        with pytest.raises(AuditError):
            key.verify([v + R * (i == position) for i, v in enumerate(clear)], item.c_w, committed, item.entry.proof)


def test_query_commitment_that_is_the_identity() -> None:
    """e = 0 without a blinder: refused in records, and by the client before it signs (test_order)."""
    world = queried(Cheat(e=[0] * DIMENSION, blinder=0))
    assert world.records()[1].signed.request.c_e == IDENTITY
    refused(world, 6, "identity")
    with without(POINTS_ON_THE_CURVE):
        accepted(world)


class Raw:
    """Whatever bytes, delivered as a batch."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def encode(self) -> bytes:
        return self._data


def raw(data: bytes) -> Any:
    """For a batch's place."""
    return Raw(data)


def _count_raised(batch: ProofBatch) -> bytes:
    """The number of entries, a u32 in front of the first, claims 2^32 - 1."""
    data = batch.encode()
    at = data.index(batch.entries[0].encode())
    while data[at - 4 : at] != len(batch.entries).to_bytes(4, "big"):
        at -= 1
    return data[: at - 4] + b"\xff" * 4 + data[at:]


BATCHES: dict[str, Callable[[ProofBatch], bytes]] = {
    "empty": lambda b: b"",
    "one_byte_short": lambda b: b.encode()[:-1],
    "half": lambda b: b.encode()[: len(b.encode()) // 2],
    "one_byte_more": lambda b: b.encode() + b"\0",
    "twice": lambda b: b.encode() * 2,
    "entries_without_end": _count_raised,
    "random": lambda b: random.Random(5).randbytes(5000),
    "of_another_version": lambda b: b.encode().replace(b"proof-batch\x00\x01", b"proof-batch\x00\x02", 1),
    "another_message": lambda b: b.entries[0].encode(),
}


@pytest.mark.parametrize("case", BATCHES)
def test_batch_that_is_no_batch(case: str) -> None:
    world = queried()
    batch = world.batch(world.digest, [0, 1, 2])
    made = BATCHES[case](batch)
    assert made != batch.encode()
    with pytest.raises(EncodingError):
        ProofBatch.decode(made)
    world.tamper_batch = lambda _: raw(made)
    refused(world, 8, "proofs of records 0..2")


def test_every_truncation_of_a_batch_and_every_flipped_byte() -> None:
    """Sampled places: no other exception than an AuditError, and no change is accepted."""
    world = queried()
    batch = world.batch(world.digest, [0, 1, 2])
    data, rng = batch.encode(), random.Random(11)
    for _ in range(200):
        at = rng.randrange(len(data))
        with pytest.raises(EncodingError):
            ProofBatch.decode(data[:at])
    for _ in range(12):
        at = rng.randrange(len(data))
        flipped = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        world.tamper_batch = lambda _, flipped=flipped: raw(flipped)  # type: ignore[misc]
        refused(world, 8, "proofs of records 0..2")


def test_proof_errors_are_proof_errors() -> None:
    """Lengths that no wire carries are refused where they are used."""
    world = AttackWorld()
    world.commit()
    item = world.item(world.ask("alice"))
    clear = world.assignment(item.record, world.kept[world.digest, 0]).clear
    for proof in (b"", item.entry.proof[:-1], item.entry.proof + b"\0"):
        with pytest.raises(ProofError):
            machine().key.verify(clear, item.c_w, item.entry.committed + item.entry.c_v, proof)
    with pytest.raises(ProofError):
        machine().key.verify(clear[:-1], item.c_w, item.entry.committed + item.entry.c_v, item.entry.proof)
