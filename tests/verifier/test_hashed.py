# SPDX-License-Identifier: GPL-3.0-or-later
"""What an auditor hashes by itself, against tests/apart.py: which records and blocks it draws.  SPEC C.7 and D.8."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from ragseal.verifier.steps import blocks
from ragseal.verifier.steps.records import LoggedRecord
from ragseal.verifier.steps.sample import draw
from ragseal.verifier.steps.versions import IndexVersion
from tests import apart
from tests.apart import h
from tests.simulator import World, policy
from tests.simulator.estimates import binding

NONCE, ROOT, MANIFEST = (h("test", name) for name in (b"nonce", b"root", b"manifest"))


def logged(seq: int, tenant: str) -> LoggedRecord:
    version = IndexVersion(tenant, 0, bytes(32))
    return LoggedRecord(seq, SimpleNamespace(seq=seq), h("test", b"record"), version, tenant)  # type: ignore[arg-type]


def test_which_records_are_drawn() -> None:
    """Of each tenant those with the smallest hashes of nonce, root, manifest and seq."""
    records = [logged(seq, "north" if seq % 3 else "south") for seq in range(60)]
    seed = h("audit-sample", NONCE, ROOT, MANIFEST)
    expected = []
    for tenant, count in (("north", 8), ("south", 4)):
        own = [one for one in records if one.tenant == tenant]
        expected += sorted(own, key=lambda one: h("audit-draw", seed, one.record.seq.to_bytes(8, "big")))[:count]
    drawn = [one.record.seq for one in draw(records, 12, NONCE, ROOT, MANIFEST)]
    assert drawn == sorted(one.record.seq for one in expected)


def test_which_blocks_are_drawn() -> None:
    """A uniform stretch and Floyd's uniform subset of it, from hashes of the seed and a counter."""
    seed, records, tau, n = h("test", b"seed"), 40, 10, 6
    bounds = [0, 10, 20, 30, 40]
    runs = [list(range(a, c)) for a, c in zip(bounds, bounds[2:], strict=False)]
    counter = iter(range(1, 10_000))

    def number(below: int) -> int:
        return int.from_bytes(h("estimate-draw", seed, next(counter).to_bytes(8, "big")), "big") % below

    expected = []
    for _ in range(50):
        run = runs[number(len(runs))]
        chosen: set[int] = set()
        for last in range(len(run) - n, len(run)):
            at = number(last + 1)
            chosen.add(last if at in chosen else at)
        expected.append(tuple(sorted(run[at] for at in chosen)))
    assert blocks.sampled_blocks(records, tau, n, 50, seed) == expected
    assert blocks.seed_of((b"a", b"bc")) == h("estimate-sample", b"a", b"bc")


def test_what_seeds_a_sampled_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """C.7: a nonce of the auditor's that depends on the signed list, then root, window, list and tenant."""
    world = World()
    world.estimator = binding(world)
    world.commit(policy_=policy(n_max=6, epsilon_account="40"))
    for account in ("alice", "bob", "carol", "alice", "bob"):
        world.ask(account, e=[127, 0, 0, 0] if account == "carol" else [60, 60, 60, 72])
    world.close()
    names: list[bytes] = []
    seeds: list[tuple[bytes, ...]] = []
    real = blocks.seed_of

    def nonce(seen: object, name: bytes, fresh: bytes) -> bytes:
        names.append(name)
        return h("test", b"nonce of", name)

    def kept(parts: tuple[bytes, ...]) -> bytes:
        seeds.append(tuple(parts))
        return real(parts)

    monkeypatch.setattr("ragseal.verifier.steps.estimate.seed_of", kept)
    auditor = replace(world.auditor(), sample_nonce=nonce)
    verdict = world.audit(auditor=auditor, effort=blocks.Effort(full=0, sampled=2))
    assert verdict.estimation is not None, verdict.line()
    links = world.estimator.signed().body.digest()
    name = h("estimate-nonce", world.digest, links)
    assert names == [name, name]
    shared = (h("test", b"nonce of", name), apart.root(world.entries()), world.digest, links)
    assert seeds == [(*shared, b"north"), (*shared, b"south")]
