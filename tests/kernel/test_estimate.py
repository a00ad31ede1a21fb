# SPDX-License-Identifier: GPL-3.0-or-later
"""Coalition estimate: against two brute-force references, at the edges of tiles and floats, and by its invariances."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragseal.kernel import estimate
from ragseal.kernel.errors import EstimateError, PolicyError
from ragseal.kernel.estimate import Embeddings, Link, Reach, components, labels_of, link_threshold, reach_of
from ragseal.kernel.estimate_class import MAX_RECORDS, EstimateClass
from ragseal.kernel.fixedpoint import check_embedding, least_repeat, norm_bounds, slack, within_slack
from ragseal.kernel.link_list import TenantLinks, pack_links


def ranks(e: Embeddings, tau: int) -> Reach:
    return reach_of([0] * len(e), tau)


def find_links(e: Embeddings, tau: int, threshold: int, most: int = estimate.MAX_LINKS) -> list[Link] | None:
    return estimate.find_links(e, ranks(e, tau), threshold, most)


def spanning_links(e: Embeddings, tau: int, threshold: int) -> list[Link]:
    return estimate.spanning_links(e, ranks(e, tau), threshold)


def make(seed: int, n: int, d: int, topics: int, spread: float) -> tuple[Embeddings, list[str]]:
    """Unit vectors around a few topics, and who asked them."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((topics, d))[rng.integers(topics, size=n)] + spread * rng.standard_normal((n, d))
    e = np.rint(127 * v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.int8)
    return e, [f"account{i}" for i in rng.integers(6, size=n)]


def links_of_integers(e: Embeddings, tau: int, threshold: int) -> list[Link]:
    """First reference: Python's integers, pair by pair."""
    rows = e.tolist()
    return [
        (a, b)
        for a, b in itertools.combinations(range(len(rows)), 2)
        if b - a <= tau and sum(x * y for x, y in zip(rows[a], rows[b], strict=True)) >= threshold
    ]


def largest_by_closure(e: Embeddings, accounts: list[str], tau: int, threshold: int) -> int:
    """Second reference: the whole Gram matrix in int64 and its transitive closure."""
    wide = e.astype(np.int64)
    ranks = np.arange(len(e))
    reach = (wide @ wide.T >= threshold) & (abs(ranks[:, None] - ranks) <= tau) | np.eye(len(e), dtype=bool)
    while True:
        wider = reach @ reach
        if (wider == reach).all():
            return max((len({accounts[i] for i in np.flatnonzero(row)}) for row in reach), default=0)
        reach = wider


CASES = st.tuples(st.integers(0, 1 << 32), st.integers(0, 40), st.integers(1, 24), st.integers(1, 8), st.floats(0, 0.6))
THETAS = st.fractions(Fraction(1, 5), 1, max_denominator=100)


@pytest.fixture(scope="module")
def small_tiles() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimate, "_ROWS", 7)
        patch.setattr(estimate, "_COLUMNS", 5)
        patch.setattr(estimate, "_CHUNK", 3)
        yield


@pytest.mark.usefixtures("small_tiles")
@settings(max_examples=120)
@given(CASES, THETAS, st.integers(0, 45))
def test_both_references(case: tuple[int, int, int, int, float], theta: Fraction, tau: int) -> None:
    e, accounts = make(*case)
    threshold = link_threshold(theta)
    links = find_links(e, tau, threshold)
    assert links is not None
    assert links == links_of_integers(e, tau, threshold)
    found = components(accounts, links)
    assert found.c == largest_by_closure(e, accounts, tau, threshold)
    spanning = spanning_links(e, tau, threshold)
    assert set(spanning) <= set(links)
    assert components(accounts, spanning) == found
    # A spanning forest has no circle: every link less is a component more.
    assert len(spanning) <= max(0, len(e) - 1)
    for cluster in found.clusters:
        inside = [link for link in spanning if link[0] in cluster.records]
        assert len(inside) == len(cluster.records) - 1
        assert cluster.accounts == tuple(sorted({accounts[i] for i in cluster.records}))


@settings(max_examples=40)
@given(CASES, THETAS, THETAS, st.integers(0, 45), st.integers(0, 45))
def test_monotone(
    case: tuple[int, int, int, int, float], theta: Fraction, other: Fraction, tau: int, more: int
) -> None:
    e, accounts = make(*case)
    strict, loose = link_threshold(max(theta, other)), link_threshold(min(theta, other))
    few, many = find_links(e, tau, strict), find_links(e, tau + more, loose)
    assert set(few) <= set(find_links(e, tau, loose)) <= set(many)
    assert components(accounts, few).c <= components(accounts, many).c


@settings(max_examples=40)
@given(CASES, THETAS, st.randoms(use_true_random=False))
def test_order_matters_only_through_tau(
    case: tuple[int, int, int, int, float], theta: Fraction, random: object
) -> None:
    e, accounts = make(*case)
    order = list(range(len(e)))
    random.shuffle(order)  # type: ignore[attr-defined]
    threshold = link_threshold(theta)
    plain = components(accounts, find_links(e, len(e), threshold))
    mixed = components([accounts[i] for i in order], find_links(e[order], len(e), threshold))
    assert mixed.c == plain.c
    back = {tuple(sorted(order[i] for i in cluster.records)) for cluster in mixed.clusters}
    assert back == {cluster.records for cluster in plain.clusters}
    assert mixed.members == plain.members


def test_names_do_not_matter_but_distinctness_does() -> None:
    links = [(0, 1), (1, 2), (3, 4)]
    found = components(["a", "b", "c", "d", "d"], links)
    assert (found.c, found.members) == (3, ("a", "b", "c"))
    assert [cluster.records for cluster in found.clusters] == [(0, 1, 2)]
    assert components(["z", "y", "x", "w", "w"], links).c == 3
    assert components(["a", "b", "a", "d", "e"], links).c == 2  # distinct accounts, not records


def test_links_inside_an_account_join_what_it_bridges() -> None:
    """a's question and c's are far apart; b asked both in nearly those words, and two more that lead over."""
    angles = np.linspace(0, 1.2, 5)
    v = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    e = np.rint(127 * v).astype(np.int8)
    links = find_links(e, 5, link_threshold(Fraction(94, 100)))
    assert links == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert components(["a", "b", "b", "b", "c"], links).c == 3


def test_largest_first_and_ties_by_records() -> None:
    accounts = ["a", "b", "c", "d", "e", "f", "f"]
    found = components(accounts, [(1, 2), (3, 4), (0, 5), (5, 6)])
    assert [cluster.records for cluster in found.clusters] == [(0, 5, 6), (1, 2), (3, 4)]
    assert found.c == 2
    assert found.members == ("a", "b", "c", "d", "e", "f")


def test_without_a_coalition() -> None:
    assert components([], []).c == 0
    alone = components(["a", "a", "b"], [(0, 1)])
    assert (alone.c, alone.clusters, alone.members) == (1, (), ())
    empty = np.zeros((0, 8), dtype=np.int8)
    assert find_links(empty, 5, 1) == spanning_links(empty, 5, 1) == []


@pytest.mark.parametrize("tau", [0, 1, 2, 3])
def test_tau_counts_records(tau: int) -> None:
    e = np.zeros((4, 2), dtype=np.int8)
    e[:, 0] = [127, 0, 0, 127]
    e[:, 1] = [0, 127, -127, 0]
    assert find_links(e, tau, 127 * 127) == ([(0, 3)] if tau >= 3 else [])


def test_the_threshold_is_reached_exactly() -> None:
    assert link_threshold(Fraction(1)) == 16129
    assert link_threshold(Fraction(4, 5)) == 12904  # 12903.2
    assert link_threshold(Fraction(1, 127)) == 127
    e = np.array([[127, 0], [100, 78]], dtype=np.int8)
    assert find_links(e, 1, 12700) == [(0, 1)]
    assert find_links(e, 1, 12701) == []


def test_a_repeat_links_as_far_as_its_norm_reaches() -> None:
    e = np.full((2, 384), 6, dtype=np.int8)  # 13,824
    assert find_links(e, 1, 13824) == [(0, 1)]
    assert find_links(e, 1, 13825) == []


@pytest.mark.parametrize("d", [384, 768, 1024, 4096])
def test_two_accounts_that_ask_one_text_stay_linked(d: int) -> None:
    """Attack: each moves its e within the client's slack, shorter and apart, as far as the norm is accepted.

    With the slack of 1 in every entry the pair falls below theta = 0.9 from about 600 dimensions on.
    """
    e, _ = make(d, 1, d, 1, 0)
    honest = e[0].astype(np.int64)
    low, _ = norm_bounds(d)
    order, sign = np.argsort(-abs(honest), kind="stable"), np.sign(honest)
    sign[sign == 0] = 1

    def turned(entries: int) -> tuple[np.ndarray, np.ndarray]:
        """Some of the allowed entries shorter in both, the others in opposite directions: the lowest product."""
        best = honest, honest
        for count in range(entries + 1):
            short, apart = order[:count], order[d - (entries - count) :]
            first, second = honest.copy(), honest.copy()
            for one in (first, second):
                one[short] -= sign[short]
            step = sign[apart] * (-1) ** np.arange(len(apart))
            first[apart] += step
            second[apart] -= step
            if min(first @ first, second @ second) < low:
                break
            if first @ second < best[0] @ best[1]:
                best = first, second
        return best

    a, b = turned(slack(d))
    threshold = link_threshold(Fraction(9, 10))
    for one in (a, b):
        check_embedding(one.tolist(), d)
        assert within_slack(one.tolist(), honest.tolist())
        assert np.count_nonzero(one != honest) == slack(d)
    assert find_links(np.stack([a, b]).astype(np.int8), 1, threshold) == [(0, 1)]
    assert least_repeat(d) <= a @ b < honest @ honest - slack(d)
    assert threshold <= least_repeat(d)
    a, b = turned(d)
    assert not within_slack(a.tolist(), honest.tolist())
    if d >= 768:
        assert a @ b < threshold


@pytest.mark.parametrize("d", [2, 12, 32, 384, 1024, 4096])
def test_rounded_unit_vectors_are_accepted(d: int) -> None:
    e, _ = make(d, 2000, d, 2000, 0)
    square = np.square(e.astype(np.int64)).sum(axis=1)
    low, high = norm_bounds(d)
    assert low <= square.min()
    assert square.max() <= high


def test_products_that_float32_would_round() -> None:
    """2^24 + 1 is the first integer that float32 lacks; this one it would round up."""
    d = 1_102
    e = np.full((2, d), 127, dtype=np.int8)
    e[1, 0] = 126
    product = 127 * 127 * (d - 1) + 127 * 126
    assert product > 1 << 24
    assert int(np.float32(product)) == product + 1
    assert find_links(e, 1, product) == [(0, 1)]
    assert find_links(e, 1, product + 1) == []


def test_the_lowest_entry_of_int8() -> None:
    e = np.full((2, 1024), -128, dtype=np.int8)  # 2^24: squared in int8 it would overflow
    assert find_links(e, 1, 1 << 24) == [(0, 1)]
    assert find_links(e, 1, (1 << 24) + 1) == []


def test_too_many_links_have_a_span() -> None:
    e = np.tile(np.array([[127, 0]], dtype=np.int8), (50, 1))
    every = find_links(e, 50, 16129, most=50 * 49 // 2)
    assert every is not None
    assert len(every) == 50 * 49 // 2
    assert find_links(e, 50, 16129, most=50 * 49 // 2 - 1) is None
    spanning = spanning_links(e, 50, 16129)
    assert len(spanning) == 49
    assert labels_of(50, spanning) == labels_of(50, every) == [0] * 50
    assert labels_of(5, [(1, 3), (3, 4)]) == [0, 1, 2, 1, 1]


@pytest.mark.parametrize("theta", [Fraction(0), Fraction(-1, 2), Fraction(101, 100)])
def test_theta_is_a_cosine(theta: Fraction) -> None:
    with pytest.raises(EstimateError, match="cosine"):
        link_threshold(theta)


def test_bad_arguments() -> None:
    e = np.zeros((2, 2), dtype=np.int8)
    for bad, tau, threshold in ((e.astype(np.int16), 1, 1), (e[0], 1, 1), (e, -1, 1), (e, 1, 0)):
        with pytest.raises(EstimateError):
            find_links(bad, tau, threshold)
        with pytest.raises(EstimateError):
            spanning_links(bad, tau, threshold)
    for links in ([(1, 0)], [(0, 0)], [(0, 2)], [(-1, 1)]):
        with pytest.raises(EstimateError, match="records"):
            components(["a", "b"], links)
    with pytest.raises(EstimateError, match="twice"):
        components(["a", "b"], [(0, 1), (0, 1)])


# Lists of links and sizes of blocks at their environment. SPEC C.3 and C.4.


def links(packed: bytes, records: int = 5, complete: bool = True) -> TenantLinks:
    return TenantLinks("north", records, bytes(32), complete, packed)


@pytest.mark.parametrize("pairs", [[(1, 1)], [(0, 0)], [(2, 1)], [(0, 5)], [(5, 5)]])
def test_a_link_joins_two_records_of_the_tenant(pairs: Sequence[tuple[int, int]]) -> None:
    """One record linked to itself joins nobody, and would be one of a spanning list's few links."""
    for complete in (True, False):
        with pytest.raises(EstimateError, match="two different records"):
            links(pack_links(pairs), complete=complete).validate()
    links(pack_links([(0, 4)])).validate()


@pytest.mark.parametrize("pairs", [[(0, 1), (0, 1)], [(0, 2), (0, 1)], [(1, 2), (0, 3)]])
def test_links_are_in_order_and_listed_once(pairs: Sequence[tuple[int, int]]) -> None:
    with pytest.raises(EstimateError, match="strictly increasing"):
        links(pack_links(pairs)).validate()
    links(pack_links(sorted(set(pairs)))).validate()


@pytest.mark.parametrize("size", [1, 4, 7, 9])
def test_a_truncated_list(size: int) -> None:
    with pytest.raises(EstimateError, match="truncated"):
        links(pack_links([(0, 1), (0, 2)])[:size]).validate()


def test_as_many_spanning_links_as_join_all() -> None:
    chain = [(i, i + 1) for i in range(4)]
    links(pack_links(chain), complete=False).validate()
    with pytest.raises(EstimateError, match="fewer than records"):
        links(pack_links([(0, 1), (0, 2), *chain[1:]]), complete=False).validate()
    for records in (0, 1):
        links(b"", records, complete=False).validate()


@pytest.mark.parametrize("n", [2, 4, MAX_RECORDS])
def test_sizes_of_blocks(n: int) -> None:
    cls = EstimateClass("size", n)
    assert (cls.pairs, len(cls.order), cls.hidden) == (n * (n - 1) // 2, cls.pairs, n + cls.pairs)
    assert cls.public == 3 + 2 * n + 2 * cls.pairs + n + 2


@pytest.mark.parametrize("n", [-2, 0, 1, 3, MAX_RECORDS - 1, MAX_RECORDS + 2])
def test_sizes_that_are_none(n: int) -> None:
    with pytest.raises(PolicyError, match="even number"):
        EstimateClass("size", n)


# Who is named as a member of the largest coalition: those of the largest components, and nobody else. SPEC C.1.


def test_members_of_smaller_components_are_not_named() -> None:
    accounts = ["alice", "bob", "carol", "dave", "erin", "frank", "gina", "alice"]
    found = components(accounts, [(0, 1), (1, 2), (3, 4), (6, 7)])  # alice is in both components by her last record
    assert found.c == 3
    assert found.members == ("alice", "bob", "carol")
    assert [one.accounts for one in found.clusters] == [("alice", "bob", "carol"), ("dave", "erin"), ("alice", "gina")]


def test_members_of_equal_components_are_all_named() -> None:
    found = components(["alice", "bob", "carol", "dave", "erin"], [(0, 1), (2, 3)])
    assert (found.c, found.members) == (2, ("alice", "bob", "carol", "dave"))
    assert components(["alice", "bob"], []).members == ()
