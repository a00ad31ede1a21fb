# SPDX-License-Identifier: GPL-3.0-or-later
"""Sampling: stratified, unforeseeable, and a bound that brute force confirms."""

from __future__ import annotations

import itertools
import math
import random
import re
from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.accounting.rounding import upward
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.transcript import tagged_hash
from ragseal.verifier.steps import blocks
from ragseal.verifier.steps.records import LoggedRecord
from ragseal.verifier.steps.sample import (
    Sample,
    attainable,
    confidence_of,
    confidence_text,
    draw,
    largest_undetected,
    share_bound,
    share_of,
    shares,
    size_to_detect,
)
from ragseal.verifier.steps.versions import IndexVersion
from tests import apart
from tests.apart import h
from tests.simulator import World, policy
from tests.simulator.estimates import binding


class Fake:
    """As much of a logged record as drawing looks at."""

    def __init__(self, seq: int, tenant: str) -> None:
        self.tenant = tenant
        self.record: Any = type("R", (), {"seq": seq})()


def logged(**sizes: int) -> list[Any]:
    tenants = [tenant for tenant, n in sizes.items() for _ in range(n)]
    return [Fake(seq, tenant) for seq, tenant in enumerate(tenants)]


@pytest.mark.parametrize(
    ("sizes", "size", "expected"),
    [
        ({"a": 10, "b": 10}, 10, {"a": 5, "b": 5}),
        ({"a": 97, "b": 3}, 10, {"a": 9, "b": 1}),
        ({"a": 999, "b": 1}, 5, {"a": 4, "b": 1}),
        ({"a": 5, "b": 0}, 3, {"a": 3}),
        ({"a": 3, "b": 3, "c": 3}, 1, {"a": 1, "b": 1, "c": 1}),
        ({"a": 2, "b": 2}, 99, {"a": 2, "b": 2}),
        ({}, 4, {}),
    ],
)
def test_shares(sizes: dict[str, int], size: int, expected: dict[str, int]) -> None:
    assert shares(sizes, size) == expected


def test_shares_are_as_near_to_proportion_as_whole_records_can_be() -> None:
    """Every record more than the shares rounded down goes where most is missing to the exact share."""
    rng = random.Random(8)
    for _ in range(400):
        sizes = {name: rng.randrange(0, 30) for name in "abcde"[: rng.randrange(1, 6)]}
        total = sum(sizes.values())
        size = rng.randrange(1, 60)
        taken = shares(sizes, size)
        assert set(taken) == {name for name, n in sizes.items() if n}
        assert all(1 <= count <= sizes[name] for name, count in taken.items())
        if not total:
            continue
        wanted = min(size, total)
        assert sum(taken.values()) == max(wanted, sum(taken.values()))
        due = {name: Fraction(wanted * n, total) for name, n in sizes.items() if n}
        least = {name: max(1, math.floor(share)) for name, share in due.items()}
        assert sum(taken.values()) == max(wanted, sum(least.values()))
        while sum(least.values()) < wanted:
            name = max(least, key=lambda one: (due[one] - least[one], one))
            least[name] += 1
        assert taken == least


def test_a_sample_of_one_record_is_one() -> None:
    assert Sample(1).size == 1


def test_draw_depends_on_nonce_root_and_manifest() -> None:
    records = logged(a=40, b=40)
    one = [r.record.seq for r in draw(records, 10, bytes(32), bytes(32), bytes(32))]
    assert one == sorted(set(one))
    assert len(one) == 10
    assert sum(seq < 40 for seq in one) == 5
    assert one == [r.record.seq for r in draw(records, 10, bytes(32), bytes(32), bytes(32))]
    other = bytes([1]) * 32
    for args in ((other, bytes(32), bytes(32)), (bytes(32), other, bytes(32)), (bytes(32), bytes(32), other)):
        assert [r.record.seq for r in draw(records, 10, *args)] != one


def test_every_record_is_drawn_as_often_as_another() -> None:
    records = logged(a=12)
    counts = [0] * 12
    for i in range(600):
        for r in draw(records, 4, tagged_hash("t", bytes([i % 256, i // 256])), bytes(32), bytes(32)):
            counts[r.record.seq] += 1
    assert all(140 < n < 260 for n in counts), counts


def brute(strata: list[tuple[int, int]], confidence: Fraction) -> int:
    """The largest number of bad records that some spread hides with probability above 1 - confidence."""
    worst = 0
    for spread in itertools.product(*(range(n + 1) for n, _ in strata)):
        missed = Fraction(1)
        for (n, s), bad in zip(strata, spread, strict=True):
            missed *= Fraction(comb(n - bad, s), comb(n, s))
        if missed > 1 - confidence:
            worst = max(worst, sum(spread))
    return worst


@pytest.mark.parametrize(
    "strata",
    [[(7, 3)], [(7, 7)], [(10, 1)], [(5, 2), (2, 1)], [(6, 3), (4, 1), (3, 3)], [(9, 8)], [(3, 0)], [(8, 4), (8, 2)]],
)
@pytest.mark.parametrize("confidence", [Fraction(9, 10), Fraction(99, 100), Fraction(1, 2)])
def test_bound_is_exact(strata: list[tuple[int, int]], confidence: Fraction) -> None:
    assert largest_undetected(strata, confidence) == brute(strata, confidence)


def test_bound_of_a_large_window_is_the_hypergeometric_one() -> None:
    n, s = 20_000, 300
    bad = largest_undetected([(n, s)])
    assert comb(n - bad, s) * 100 > comb(n, s) >= comb(n - bad - 1, s) * 100
    assert share_bound([(n, s)]) == pytest.approx(bad / n, rel=1e-12)
    assert share_bound([(n, n)]) == 0.0
    assert share_bound([]) == 0.0


PAPERS = Fraction(1, 100), 1 - Fraction(1, 2**20)  #: its policy point: a share, and the confidence to catch it


@pytest.mark.parametrize("sizes", [{"a": 30}, {"a": 20, "b": 11}, {"a": 9, "b": 9, "c": 3}])
@pytest.mark.parametrize("detect", [Fraction(1, 50), Fraction(1, 10), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(99, 100)])
def test_a_sample_catches_the_share_that_was_asked(
    sizes: dict[str, int], detect: Fraction, confidence: Fraction
) -> None:
    """By force: a sample of that size leaves less than the share possible, and of one tenant no smaller one does."""

    def left(size: int) -> int:
        return brute([(sizes[name], taken) for name, taken in shares(sizes, size).items()], confidence)

    size, total = size_to_detect(sizes, detect, confidence), sum(sizes.values())
    assert left(size) < detect * total
    if len(sizes) == 1 and size > 1:
        assert left(size - 1) >= detect * total
    assert Sample(detect=detect, confidence=confidence).of(sizes) == size
    assert Sample(7).of(sizes) == 7


@pytest.mark.parametrize(("records", "size"), [(1000, 747), (10_000, 1289), (100_000, 1370), (1_000_000, 1379)])
def test_the_papers_point(records: int, size: int) -> None:
    """Its s = ln(1 / eta) / beta, about 1,400, is for drawing with replacement; without, fewer do."""
    assert size_to_detect({"a": records}, *PAPERS) == size <= math.ceil(20 * math.log(2) * 100) == 1387
    one_fewer, enough = (Fraction(comb(records - records // 100, s), comb(records, s)) for s in (size - 1, size))
    assert one_fewer > Fraction(1, 2**20) >= enough
    assert share_bound([(records, size)], PAPERS[1]) < 0.01


def test_the_table_of_the_how_to() -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/audit.md").read_text()
    head, _, *rows = re.search(r"\n\n(\| records \|.*?)\n\n", text, flags=re.S)[1].splitlines()  # type: ignore[index]
    asked = [column.strip().split(" at ") for column in head.split("|")[2:-1]]
    assert len(asked) == 4
    assert len(rows) == 5
    for row in rows:
        records, *sizes = (int(cell.replace(",", "")) for cell in row.strip("| ").split("|"))
        found = [size_to_detect({"a": records}, share_of(share), confidence_of(sure)) for share, sure in asked]
        assert found == sizes, row


def test_what_a_sample_costs_and_catches() -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/audit.md").read_text()
    _, _, *rows = re.search(r"\n\n(\| proven \|.*?)\n\n", text, flags=re.S)[1].splitlines()  # type: ignore[index]
    assert len(rows) == 6
    records = 1_000_000
    for row in rows:
        proven, seconds, usual, papers, single = (cell.strip().replace(",", "") for cell in row.strip("| ").split("|"))
        size = int(proven)
        assert seconds == f"{size * 0.42e-3:.2f} s"
        for sure, said in ((Fraction(99, 100), usual), (PAPERS[1], papers)):
            caught = Fraction(said) * records  # the least number of bad records that is caught
            assert caught == largest_undetected([(records, size)], sure) + 1
        assert Fraction(single) == Fraction(size, records)


def test_an_empty_window_has_a_sample_of_nothing() -> None:
    assert shares({}, Sample(detect=Fraction(1, 100)).of({})) == {}


@pytest.mark.parametrize(
    ("text", "value", "written"),
    [
        ("0.99", Fraction(99, 100), "0.99"),
        ("0.990", Fraction(99, 100), "0.99"),
        ("1-2^-20", 1 - Fraction(1, 2**20), "1-2^-20"),
        ("1-1e-6", Fraction(999_999, 1_000_000), "0.999999"),
        ("1-10^-9", 1 - Fraction(1, 10**9), "1-10^-9"),
        ("1-2.5e-9", 1 - Fraction(1, 4 * 10**8), "0.9999999975"),
        ("1-2^-256", 1 - Fraction(1, 2**256), "1-2^-256"),
        ("0.5", Fraction(1, 2), "0.5"),
    ],
)
def test_a_confidence_is_the_fraction_that_is_written(text: str, value: Fraction, written: str) -> None:
    assert confidence_of(text) == value
    assert confidence_text(value) == written
    assert confidence_of(written) == value


@pytest.mark.parametrize("text", ["", "1", "0", "0.0", "99", "99%", "1.5", "-0.5", "nan", "1-0", "1-2^-257", "1-1e-99",
                                  "1-2^20", "1-2^--1", "0.9e-1", " 0.99", "1-2^-20 ", "1-3^-9"])  # fmt: skip
def test_nonsense_is_no_confidence(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write it as 0\.99, 1-2\^-20 or 1-1e-6"):
        confidence_of(text)


def test_a_share_to_detect() -> None:
    assert share_of("0.01") == Fraction(1, 100) == share_of("1e-2")
    assert share_of("1") == 1
    for text in ("", "0", "1.01", "nan", "-1", "1e9", "e-3", ".", "1%"):
        with pytest.raises(ConfigurationError, match=r"such as 0\.01"):
            share_of(text)


@pytest.mark.parametrize("strata", [[(60, 9)], [(40, 8), (20, 4)], [(30, 3), (5, 1), (9, 9)], [(12, 12)], [(8, 0)]])
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(99, 100), 1 - Fraction(1, 2**20)])
def test_what_a_sample_gives_is_attainable(strata: list[tuple[int, int]], confidence: Fraction) -> None:
    """No honest auditor's bound is refused; of one tenant the bound is the smallest that is not."""
    records, proven = (sum(one) for one in zip(*strata, strict=True))
    beta = share_bound(strata, confidence)
    assert attainable(records, proven, beta, confidence)
    bad = largest_undetected(strata, confidence)
    if len(strata) == 1 and bad:
        assert not attainable(records, proven, (bad - 1) / records, confidence)


@pytest.mark.parametrize(
    "arguments",
    [(0,), (-1,), (3, Fraction(1)), (3, Fraction(0)), (), (3, Fraction(1, 2), Fraction(1, 2)),
     (None, Fraction(1, 2), Fraction(0)), (None, Fraction(1, 2), Fraction(2))],
)  # fmt: skip
def test_bad_samples_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError):
        Sample(*arguments)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (1.0000001, "1.00001"),
        (1 / 3, "0.333334"),
        (2.0**-30, "9.31323e-10"),
        (float("inf"), "inf"),
        (0.0, "0"),
    ],
)
def test_bounds_are_printed_rounded_up(value: float, text: str) -> None:
    assert upward(value) == text


# What an auditor hashes by itself, against tests/apart.py: which records and blocks it draws. SPEC C.7 and D.8.


NONCE, ROOT, MANIFEST = (h("test", name) for name in (b"nonce", b"root", b"manifest"))


def logged_apart(seq: int, tenant: str) -> LoggedRecord:
    version = IndexVersion(tenant, 0, bytes(32))
    return LoggedRecord(seq, SimpleNamespace(seq=seq), h("test", b"record"), version, tenant)  # type: ignore[arg-type]


def test_which_records_are_drawn() -> None:
    """Of each tenant those with the smallest hashes of nonce, root, manifest and seq."""
    records = [logged_apart(seq, "north" if seq % 3 else "south") for seq in range(60)]
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
