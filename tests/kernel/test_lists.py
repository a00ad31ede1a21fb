# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of links and sizes of blocks at their environment.  SPEC C.3 and C.4."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragseal.kernel.errors import EstimateError, PolicyError
from ragseal.kernel.estimate_class import MAX_RECORDS, EstimateClass
from ragseal.kernel.link_list import TenantLinks, pack_links


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
