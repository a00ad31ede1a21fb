# SPDX-License-Identifier: GPL-3.0-or-later
"""What the checks of Merkle paths refuse by name, whatever the hashes would give."""

from __future__ import annotations

from typing import Any

import pytest

from ragseal.kernel.errors import LedgerError
from ragseal.ledger.merkle import (
    MAX_SIZE,
    Frontier,
    MerkleTree,
    consistency_path,
    inclusion_path,
    leaf_hash,
    node_hash,
    verify_consistency,
    verify_inclusion,
)

TREE = MerkleTree([bytes([i]) for i in range(7)])
ROOT, LEAF, PATH = TREE.root(), leaf_hash(b"\x02"), TREE.path(2)
OLD, BETWEEN = TREE.root(3), TREE.consistency(3)
NUMBERS: list[Any] = [-1, MAX_SIZE + 1, True, 2.0, "2", None]


def test_the_honest_ones() -> None:
    verify_inclusion(LEAF, 2, 7, PATH, ROOT)
    verify_consistency(3, 7, BETWEEN, OLD, ROOT)
    assert inclusion_path(2, 7, TREE.range_root) == PATH
    assert consistency_path(3, 7, TREE.range_root) == BETWEEN


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_are_none(number: Any) -> None:
    """Bools, floats and texts too: 2.0 would pass every comparison."""
    ways = (
        lambda: verify_inclusion(LEAF, number, 7, PATH, ROOT),
        lambda: verify_inclusion(LEAF, 2, number, PATH, ROOT),
        lambda: inclusion_path(number, 7, TREE.range_root),
        lambda: inclusion_path(2, number, TREE.range_root),
        lambda: verify_consistency(number, 7, BETWEEN, OLD, ROOT),
        lambda: verify_consistency(3, number, BETWEEN, OLD, ROOT),
        lambda: consistency_path(number, 7, TREE.range_root),
        lambda: consistency_path(3, number, TREE.range_root),
        lambda: Frontier(number),
    )
    for way in ways:
        with pytest.raises(LedgerError, match=r"must be an integer in \[0, 2\^63\)"):
            way()


@pytest.mark.parametrize("odd", [b"", bytes(31), bytes(33), bytearray(32), "0" * 32])
def test_hashes_that_are_none(odd: Any) -> None:
    """Of another length two neighbours could share one preimage: a || bc and ab || c."""
    ways = (
        lambda: verify_inclusion(odd, 2, 7, PATH, ROOT),
        lambda: verify_inclusion(LEAF, 2, 7, PATH, odd),
        lambda: verify_inclusion(LEAF, 2, 7, [*PATH[:-1], odd], ROOT),
        lambda: verify_consistency(3, 7, BETWEEN, odd, ROOT),
        lambda: verify_consistency(3, 7, BETWEEN, OLD, odd),
        lambda: verify_consistency(3, 7, [odd, *BETWEEN[1:]], OLD, ROOT),
        lambda: Frontier(1, [odd]),
    )
    for way in ways:
        with pytest.raises(LedgerError, match="has 32 bytes"):
            way()


def test_a_boundary_moved_between_neighbours() -> None:
    """Live: without the lengths an entry nobody appended is in the tree, at the cost of one byte of its hash."""
    left, right = leaf_hash(b"left"), leaf_hash(b"right")
    root = node_hash(left, right)
    assert node_hash(left + right[:1], right[1:]) == root
    with pytest.raises(LedgerError, match="has 32 bytes"):
        verify_inclusion(left + right[:1], 0, 2, [right[1:]], root)


def test_a_path_shorter_than_the_tree_is_high() -> None:
    """The root of a smaller tree in the place of a larger one's: its size alone tells."""
    small = MerkleTree([b"a", b"b"])
    with pytest.raises(LedgerError, match="shorter"):
        verify_inclusion(leaf_hash(b"a"), 0, 4, small.path(0), small.root())
    with pytest.raises(LedgerError, match="shorter"):
        verify_inclusion(leaf_hash(b"a"), 0, 2, [], leaf_hash(b"a"))


@pytest.mark.parametrize("index", [7, 8, MAX_SIZE])
def test_an_index_outside_the_tree(index: int) -> None:
    with pytest.raises(LedgerError, match="cannot be in a tree of 7"):
        verify_inclusion(LEAF, index, 7, PATH, ROOT)
    with pytest.raises(LedgerError, match="below the size"):
        inclusion_path(index, 7, TREE.range_root)


@pytest.mark.parametrize(("old", "new"), [(0, 7), (0, 0), (7, 3)])
def test_sizes_that_cannot_be_compared(old: int, new: int) -> None:
    with pytest.raises(LedgerError, match="0 < old <= new"):
        verify_consistency(old, new, BETWEEN, OLD, ROOT)
    with pytest.raises(LedgerError, match="0 < old <= new"):
        consistency_path(old, new, TREE.range_root)


def test_consistency_of_another_shape() -> None:
    with pytest.raises(LedgerError, match="empty"):
        verify_consistency(3, 7, [], OLD, ROOT)
    with pytest.raises(LedgerError, match="too short"):
        verify_consistency(3, 7, BETWEEN[:-1], OLD, ROOT)
    with pytest.raises(LedgerError, match="too long"):
        verify_consistency(3, 7, [*BETWEEN, ROOT], OLD, ROOT)
    with pytest.raises(LedgerError, match="root of size 3: history was rewritten"):
        verify_consistency(3, 7, BETWEEN, TREE.root(2), ROOT)
    with pytest.raises(LedgerError, match="root of size 7"):
        verify_consistency(3, 7, BETWEEN, OLD, OLD)


@pytest.mark.parametrize("index", [-1, 7, 8])
def test_a_tree_has_no_path_of_a_leaf_that_it_lacks(index: int) -> None:
    with pytest.raises(LedgerError):
        TREE.path(index)


def test_the_whole_tree_by_default() -> None:
    verify_consistency(3, 7, TREE.consistency(3), OLD, TREE.root())
    verify_inclusion(LEAF, 2, 5, TREE.path(2, 5), TREE.root(5))
    assert TREE.path(0) == inclusion_path(0, 7, TREE.range_root)
