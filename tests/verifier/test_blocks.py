# SPDX-License-Identifier: GPL-3.0-or-later
"""Which blocks are asked for and what clean ones say: every number a second time, by counting or drawing.  SPEC C.7."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate import Reach, components, full_blocks, reach_of
from ragseal.verifier.report import document, page
from ragseal.verifier.steps import blocks
from ragseal.verifier.steps.blocks import (
    Caught,
    Effort,
    caught,
    group_hit,
    sampled_blocks,
    stretches,
)
from ragseal.verifier.steps.estimate import FULL, SAMPLED, Estimation, TenantEstimate
from tests.simulator import World


def within(records: int, tau: int) -> set[tuple[int, int]]:
    return {(a, b) for a, b in itertools.combinations(range(records), 2) if b - a <= tau}


def ranked(records: int, tau: int) -> Reach:
    return reach_of([0] * records, tau)


def check_full(reach: Reach, n: int) -> int:
    """Every compared pair, every record, nothing twice in a block; returns how many blocks there are."""
    made, records = full_blocks(reach, n), len(reach.last)
    assert made is not None
    held = {pair for block in made for pair in itertools.combinations(block, 2)}
    assert {(a, b) for a, b in itertools.combinations(range(records), 2) if reach.compares(a, b)} <= held
    assert {a for block in made for a in block} == set(range(records))
    for block in made:
        assert 1 <= len(block) <= n
        assert list(block) == sorted(set(block))
    assert full_blocks(reach, n, len(made)) == made
    assert not made or full_blocks(reach, n, len(made) - 1) is None
    return len(made)


@pytest.mark.parametrize("records", [0, 1, 2, 5, 6, 7, 13, 24, 61])
@pytest.mark.parametrize("tau", [0, 1, 2, 3, 4, 7, 100])
@pytest.mark.parametrize("n", [2, 6, 12, 14])
def test_full_blocks_hold_every_pair_and_every_record(records: int, tau: int, n: int) -> None:
    reach = ranked(records, tau)
    assert reach.pairs == len(within(records, tau))
    assert reach.widest == min(tau, max(0, records - 1))
    check_full(reach, n)


@pytest.mark.parametrize("seed", range(20))
def test_full_blocks_hold_every_pair_of_uneven_times(seed: int) -> None:
    """Bursts and pauses: how far a record reaches changes from record to record."""
    rng = random.Random(seed)
    times = list(itertools.accumulate(rng.choice((0, 0, 0, 60, 600)) for _ in range(150)))
    for n in (6, 12, 28):
        tau, tau_time = rng.randint(1, 20), 60 * rng.randint(0, 30)
        reach = reach_of(times, tau, tau_time)
        expected = {
            (a, b)
            for a, b in itertools.combinations(range(150), 2)
            if b - a <= tau or (tau_time and times[b] - times[a] <= tau_time)
        }
        assert {(a, b) for a, b in itertools.combinations(range(150), 2) if reach.compares(a, b)} == expected
        assert reach.pairs == len(expected)
        check_full(reach, n)


def test_ten_thousand_records_are_certified_fully() -> None:
    assert check_full(ranked(600, 10_000), 112) == 47
    made = full_blocks(ranked(10_000, 1000), 112)
    assert made is not None
    assert len(made) == 2203
    assert Effort().full >= 2203
    assert full_blocks(ranked(10_000, 10_000), 112) is None
    assert full_blocks(ranked(100_000, 10_000), 112) is None


@pytest.mark.parametrize(("records", "tau"), [(30, 5), (31, 6), (100, 7), (20, 100), (6, 1)])
def test_stretches_hold_every_pair(records: int, tau: int) -> None:
    runs = stretches(records, tau, 6)
    held = {pair for run in runs for pair in itertools.combinations(run, 2)}
    assert within(records, tau) <= held
    assert all(len(run) >= min(records, 6) for run in runs)


def test_sampled_blocks_follow_from_the_seed_alone() -> None:
    made = sampled_blocks(1000, 50, 6, 40, b"seed")
    assert made == sampled_blocks(1000, 50, 6, 40, b"seed")
    assert made[:10] == sampled_blocks(1000, 50, 6, 10, b"seed")
    assert made != sampled_blocks(1000, 50, 6, 40, b"sees")
    for block in made:
        assert len(block) == 6
        assert list(block) == sorted(set(block))
        assert any(set(block) <= set(run) for run in stretches(1000, 50, 6))


def test_sampled_sets_are_uniform() -> None:
    """Every 3-subset of 7 records about equally often: chi-square with 34 degrees of freedom."""
    drawn = sampled_blocks(7, 100, 3, 7000, b"uniform")
    counts = dict.fromkeys(itertools.combinations(range(7), 3), 0)
    for block in drawn:
        counts[block] += 1
    expected = len(drawn) / len(counts)
    assert sum((seen - expected) ** 2 / expected for seen in counts.values()) < 70  # beyond it: 3 in 10,000


# --- what a clean sample says ----------------------------------------------------------------------------------------


def exact_hit(size: int, width: int, links: list[tuple[int, int]]) -> Fraction:
    """P(a uniform set holds a link), by counting all sets."""
    hits = sum(any(a in s and b in s for a, b in links) for s in map(set, itertools.combinations(range(width), size)))
    return Fraction(hits, math.comb(width, size))


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_holds_for_any_graph(seed: int) -> None:
    """Against the exact probability of random graphs, matchings and stars."""
    rng = random.Random(seed)
    width, size = 10, rng.randint(2, 6)
    every = list(itertools.combinations(range(width), 2))
    for links in (
        rng.sample(every, rng.randint(1, 12)),
        [(0, b) for b in range(1, rng.randint(2, width))],
        [(2 * i, 2 * i + 1) for i in range(rng.randint(1, 5))],
    ):
        degree = max(sum(v in link for link in links) for v in range(width))
        assert blocks._hit(size, width, len(links), degree) <= exact_hit(size, width, links)


def test_the_bound_is_sharp_for_one_link() -> None:
    assert blocks._hit(4, 10, 1, 1) == exact_hit(4, 10, [(0, 1)]) / (1 + blocks._together(4, 10, 4) / Fraction(2, 15))


@pytest.mark.parametrize("group", range(2, 8))
def test_groups_are_exact(group: int) -> None:
    links = list(itertools.combinations(range(group), 2))
    for size in (2, 3, 5):
        assert group_hit(size, 8, group) == exact_hit(size, 8, links)


def test_caught_is_what_drawing_finds() -> None:
    """Plant as many links as the guarantee names, worst placed, and draw: they are noticed at least that often."""
    records, tau, n, count, confidence = 120, 40, 12, 30, Fraction(9, 10)
    said = caught(ranked(records, tau), n, count, confidence)
    assert said.confidence == confidence
    rng = random.Random(3)
    ends = rng.sample(range(40), 2 * min(said.links[1], 20))
    matching = list(zip(ends[::2], ends[1::2], strict=True))
    clique = list(itertools.combinations(range(said.group), 2))
    for links in (matching, clique):
        if links is matching and said.links[1] > 20:
            continue  # no matching of that size fits one stretch
        found = 0
        for trial in range(400):
            sets = [set(b) for b in sampled_blocks(records, tau, n, count, trial.to_bytes(2, "big"))]
            found += any(a in s and b in s for s in sets for a, b in links)
        assert found / 400 >= 0.9 - 3 * math.sqrt(0.09 / 400)


def test_one_link_or_record_less_is_not_promised() -> None:
    """The smallest numbers: with one less, the bound exceeds what may go unnoticed."""
    records, tau, n, count = 5000, 10_000, 112, 200
    said = caught(ranked(records, tau), n, count)
    limit = 0.01
    for degree, links in said.links.items():
        missed = [float(1 - blocks._hit(n, records, h, degree)) ** count for h in (links, links - 1)]
        assert missed[0] <= limit < missed[1]
    missed = [float(1 - group_hit(n, records, z)) ** count for z in (said.group, said.group - 1)]
    assert missed[0] <= limit < missed[1]
    assert said.share >= said.links[10] / len(within(records, tau))


def smallest_noticed(runs: int, widths: set[int], n: int, count: int, limit: float) -> int | None:
    """By trying: so many records, all linked, that a stretch of whichever width would have shown two of them."""

    def missed(group: int, width: int) -> float:
        size = min(n, width)
        ways = sum(math.comb(group, i) * math.comb(width - group, size - i) for i in (0, 1))
        return (1 - (1 - Fraction(ways, math.comb(width, size))) / runs) ** count

    return next((z for z in range(1, min(widths) + 1) if all(missed(z, width) <= limit for width in widths)), None)


def test_a_group_is_noticed_in_the_widest_stretch_too() -> None:
    """Stretches differ by a record: what is promised holds in each of them."""
    decided = 0
    for records, tau, n, count in itertools.product(range(20, 60, 3), (4, 9), (4, 7), (3, 8, 13, 30, 60)):
        runs = stretches(records, tau, n)
        widths = {len(run) for run in runs}
        found = smallest_noticed(len(runs), widths, n, count, 0.1)
        assert caught(ranked(records, tau), n, count, Fraction(9, 10)).group == found, (records, tau, n, count)
        decided += found != smallest_noticed(len(runs), {min(widths)}, n, count, 0.1)
    assert decided > 3, "no case in which a wider stretch makes a difference"


def test_groups_and_links_at_the_edge_of_a_stretch() -> None:
    assert group_hit(2, 5, 5) == group_hit(2, 5, 6) == 1
    assert [blocks._hit(2, 2, links, 1) for links in (1, 2)] == [1, 2], "both records are in the only set"
    assert blocks._hit(3, 3, 1, 1) == 1
    assert blocks._hit(4, 4, 1, 1) == Fraction(1, 2), "the bound, not the truth: p4 = 1"
    for most in range(1, 6):
        for least in range(1, 7):
            expected = least if least <= most else None
            assert blocks._smallest(lambda value, least=least: value >= least, most) == expected


def test_more_blocks_promise_more() -> None:
    reach = ranked(100_000, 10_000)
    few, many = caught(reach, 112, 50), caught(reach, 112, 200)
    assert many.group < few.group
    assert all(many.links[d] < few.links[d] for d in many.links)
    assert many.share < few.share < 1e-3


def test_a_full_certificate_leaves_nothing() -> None:
    said = Caught.everything()
    assert (said.share, said.confidence, said.group) == (0.0, 1, 2)


def test_efforts_that_are_none() -> None:
    assert Effort(full=0, sampled=1).sampled == 1
    for full, sampled in ((-1, 5), (5, 0)):
        with pytest.raises(ConfigurationError):
            Effort(full=full, sampled=sampled)


def test_too_few_blocks_promise_nothing() -> None:
    """With 9 stretches and 24 sets one stretch is missed altogether with 6 percent: no number of links helps."""
    said = caught(ranked(100_000, 10_000), 112, 24)
    assert said.links == dict.fromkeys(said.links)
    assert said.group is None
    assert said.share == 1.0


# What an estimate of several tenants says as a whole. SPEC C.1, C.6.


NORTH = components(["alice", "bob", "carol"], [(0, 1), (1, 2)])
WEST = components(["dave", "erin"], [(0, 1)])


def tenant(name: str, found: object, certificate: str = FULL) -> TenantEstimate:
    return TenantEstimate(name, 3, 2, True, 3, found, certificate, 1, Caught.everything(), ())  # type: ignore[arg-type]


def test_members_of_a_tenant_with_a_smaller_coalition_are_not_named() -> None:
    whole = Estimation(8, Fraction(9, 10), 100, (tenant("north", NORTH), tenant("west", WEST)), "auditor")
    assert (whole.c, whole.members) == (3, ("alice", "bob", "carol"))
    assert (WEST.c, WEST.members) == (2, ("dave", "erin"))


def test_one_sampled_tenant_makes_the_estimate_a_sampled_one() -> None:
    both = (tenant("north", NORTH), tenant("west", WEST, SAMPLED))
    assert Estimation(8, Fraction(9, 10), 100, both, "auditor").certificate == SAMPLED
    assert Estimation(8, Fraction(9, 10), 100, both[:1], "auditor").certificate == FULL


def test_a_spanning_list_is_not_said_to_hold_every_link() -> None:
    """Accounts that repeat one question: all pairs are links, and the list has as many as join the records."""
    links = [(0, i) for i in range(1, 30)]
    found = components(["a"] * 30, links)
    spanning = TenantEstimate("north", 30, 29, False, 435, found, FULL, 1, Caught.everything(), ())
    values = Estimation(2, Fraction(9, 10), 30, (spanning,), "auditor").details()
    assert values["rates"]["linked_pairs"] is None
    text = page._estimate(document.plain(values))
    assert "no link between groups is left out of the list" in text
    assert "no link is left out" not in text
    sampled = replace(spanning, certificate=SAMPLED, caught=Caught(Fraction(99, 100), {}, None, 0.01))
    text = page._estimate(document.plain(Estimation(2, Fraction(9, 10), 30, (sampled,), "auditor").details()))
    assert "of all pairs are links between groups that the list does not join" in text

    whole = Estimation(2, Fraction(9, 10), 100, (tenant("north", NORTH),), "auditor").details()
    assert whole["rates"]["linked_pairs"] == 2 / 3
    assert "no link is left out of the list" in page._estimate(document.plain(whole))


def test_as_many_blocks_as_the_effort_allows_are_a_full_certificate() -> None:
    world = World.honest()
    estimation = world.audit().estimation
    assert estimation is not None
    tenants = world.audit(effort=Effort(full=1, sampled=2)).estimation
    assert tenants is not None
    for one in tenants.tenants:
        made = full_blocks(ranked(one.records, estimation.tau), world.estimator.key.cls.n)
        assert made is not None
        assert one.certificate == (FULL if len(made) <= 1 else SAMPLED)
    assert {one.certificate for one in tenants.tenants} == {FULL}, "every tenant of this world has one block"
