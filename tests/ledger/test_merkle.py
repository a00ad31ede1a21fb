# SPDX-License-Identifier: GPL-3.0-or-later
"""merkle.py against a textbook tree, against published vectors (good and broken), and against hostile paths."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragseal.kernel.errors import LedgerError
from ragseal.ledger.merkle import (
    EMPTY_ROOT,
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

ENTRIES = [f"entry {i}".encode() for i in range(70)]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]
TREE = MerkleTree(ENTRIES)


# --- the textbook: RFC 9162 sections 2.1.1, 2.1.3.1 and 2.1.4.1 as printed, by recursion on lists


def mth(entries: list[bytes]) -> bytes:
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = split(len(entries))
    return hashlib.sha256(b"\x01" + mth(entries[:k]) + mth(entries[k:])).digest()


def split(n: int) -> int:
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def textbook_path(m: int, entries: list[bytes]) -> list[bytes]:
    if len(entries) == 1:
        return []
    k = split(len(entries))
    if m < k:
        return [*textbook_path(m, entries[:k]), mth(entries[k:])]
    return [*textbook_path(m - k, entries[k:]), mth(entries[:k])]


def textbook_proof(m: int, entries: list[bytes], whole: bool = True) -> list[bytes]:
    if m == len(entries):
        return [] if whole else [mth(entries)]
    k = split(len(entries))
    if m <= k:
        return [*textbook_proof(m, entries[:k], whole), mth(entries[k:])]
    return [*textbook_proof(m - k, entries[k:], False), mth(entries[:k])]


def test_roots_and_paths_equal_the_textbook() -> None:
    assert TREE.root(0) == EMPTY_ROOT == mth([])
    for size in range(1, 34):
        entries = ENTRIES[:size]
        root = mth(entries)
        assert TREE.root(size) == root == MerkleTree(entries).root()
        for index in range(size):
            path = TREE.path(index, size)
            assert path == textbook_path(index, entries) == MerkleTree(entries).path(index)
            verify_inclusion(LEAVES[index], index, size, path, root)
        for old in range(1, size + 1):
            path = TREE.consistency(old, size)
            assert path == textbook_proof(old, entries)
            verify_consistency(old, size, path, TREE.root(old), root)


def test_frontier_continues_where_it_stopped() -> None:
    frontier = Frontier()
    for index, leaf in enumerate(LEAVES):
        assert frontier.root() == TREE.root(index)
        frontier = Frontier(frontier.size, frontier.roots)
        frontier.add(leaf)
    assert (frontier.size, frontier.root()) == (len(ENTRIES), TREE.root())
    with pytest.raises(LedgerError, match="3 roots, not 2"):
        Frontier(7, [EMPTY_ROOT, EMPTY_ROOT])


@pytest.mark.parametrize(("index", "size"), [(5, 5), (6, 5), (-1, 5), (0, 0), (0, 2**63), (True, 5), (0, True)])
def test_paths_outside_the_tree_are_refused(index: int, size: int) -> None:
    with pytest.raises(LedgerError):
        inclusion_path(index, size, TREE.range_root)
    with pytest.raises(LedgerError):
        verify_inclusion(LEAVES[0], index, size, [], LEAVES[0])


def test_sizes_beyond_the_tree_are_refused() -> None:
    for action in (
        lambda: TREE.root(71),
        lambda: TREE.path(1, 71),
        lambda: MerkleTree([]).path(0, 1),
        lambda: TREE.consistency(1, 71),
        lambda: TREE.consistency(71, 71),
    ):
        with pytest.raises(LedgerError):
            action()
    for old, new in ((0, 5), (6, 5)):
        with pytest.raises(LedgerError):
            TREE.consistency(old, new)
        with pytest.raises(LedgerError):
            verify_consistency(old, new, [], TREE.root(old), TREE.root(new))


def test_a_node_cannot_pose_as_a_leaf() -> None:
    """Second preimage: the two children of a node, taken as an entry, must not stand for that node."""
    forged = leaf_hash(LEAVES[0] + LEAVES[1])
    with pytest.raises(LedgerError, match="does not give the root"):
        verify_inclusion(forged, 0, 2, [TREE.range_root(2, 4)], TREE.root(4))


def test_a_path_longer_than_the_tree_is_high_is_refused() -> None:
    """Without the length rule leaf 1 of two would pass as leaf 0 of one, under the root of two."""
    with pytest.raises(LedgerError, match="longer"):
        verify_inclusion(LEAVES[1], 0, 1, [LEAVES[0]], TREE.root(2))


def test_a_consistency_path_of_larger_trees_is_refused() -> None:
    """Without the length rule the proof from 7 to 8 would pass as one from 3 to 4."""
    path = TREE.consistency(7, 8)
    verify_consistency(7, 8, path, TREE.root(7), TREE.root(8))
    with pytest.raises(LedgerError, match="too long"):
        verify_consistency(3, 4, path, TREE.root(7), TREE.root(8))


def test_equal_sizes_need_equal_roots_and_no_path() -> None:
    verify_consistency(5, 5, [], TREE.root(5), TREE.root(5))
    with pytest.raises(LedgerError, match="two different roots"):
        verify_consistency(5, 5, [], TREE.root(5), TREE.root(6))
    with pytest.raises(LedgerError, match="empty path"):
        verify_consistency(5, 5, [LEAVES[0]], TREE.root(5), TREE.root(5))


@settings(max_examples=200)
@given(st.data())
def test_changed_inclusion_proofs_are_refused(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 70))
    index = data.draw(st.integers(0, size - 1))
    path, root, leaf = TREE.path(index, size), TREE.root(size), LEAVES[index]
    kind = data.draw(st.sampled_from(["bit", "cut", "extend", "index", "size", "leaf", "root", "width"]))
    if kind == "bit" and path:
        at = data.draw(st.integers(0, len(path) - 1))
        path[at] = flip(path[at], data.draw(st.integers(0, 255)))
    elif kind == "cut" and path:
        del path[data.draw(st.integers(0, len(path) - 1))]
    elif kind == "extend":
        path.insert(data.draw(st.integers(0, len(path))), data.draw(st.binary(min_size=32, max_size=32)))
    elif kind == "index":
        index = data.draw(st.integers(0, 80).filter(lambda other: other != index))
    elif kind == "size":
        # under the same root another size may have a path of the same shape: that root and size belong together is
        # what the checkpoint's signature says
        size = data.draw(st.integers(0, 70).filter(lambda other: other != size))
        root = TREE.root(size)
    elif kind == "leaf":
        leaf = flip(leaf, data.draw(st.integers(0, 255)))
    elif kind == "width":
        leaf = leaf + b"\x00"
    else:
        root = flip(root, data.draw(st.integers(0, 255)))
    with pytest.raises(LedgerError):
        verify_inclusion(leaf, index, size, path, root)


@settings(max_examples=200)
@given(st.data())
def test_changed_consistency_proofs_are_refused(data: st.DataObject) -> None:
    new = data.draw(st.integers(2, 70))
    old = data.draw(st.integers(1, new - 1))
    path, old_root, new_root = TREE.consistency(old, new), TREE.root(old), TREE.root(new)
    kind = data.draw(st.sampled_from(["bit", "cut", "extend", "old root", "new root", "fork"]))
    if kind == "bit":
        at = data.draw(st.integers(0, len(path) - 1))
        path[at] = flip(path[at], data.draw(st.integers(0, 255)))
    elif kind == "cut":
        del path[data.draw(st.integers(0, len(path) - 1))]
    elif kind == "extend":
        path.insert(data.draw(st.integers(0, len(path))), data.draw(st.binary(min_size=32, max_size=32)))
    elif kind == "old root":
        old_root = flip(old_root, data.draw(st.integers(0, 255)))
    elif kind == "new root":
        new_root = flip(new_root, data.draw(st.integers(0, 255)))
    else:  # an honest log that replaced one old entry cannot prove anything
        changed = data.draw(st.integers(0, old - 1))
        other = MerkleTree([*ENTRIES[:changed], b"rewritten", *ENTRIES[changed + 1 :]])
        path, new_root = other.consistency(old, new), other.root(new)
    with pytest.raises(LedgerError):
        verify_consistency(old, new, path, old_root, new_root)


def flip(value: bytes, bit: int) -> bytes:
    return (int.from_bytes(value, "big") ^ (1 << bit)).to_bytes(len(value), "big")


# --- published vectors (transparency-dev/merkle)


def vector_files(kind: str) -> list[Path]:
    shared = Path(os.environ.get("RAGSEAL_SHARED", Path(__file__).resolve().parents[3] / "shared"))
    return sorted((shared / "data" / "merkle-vectors" / "testdata" / kind).rglob("*.json"))


def vectors(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    files = vector_files(kind)
    if not files:
        pytest.skip("the vectors of transparency-dev/merkle are not here: set RAGSEAL_SHARED to where data/ lies")
    for file in files:
        yield str(file), json.loads(file.read_text())


def unpack(vector: dict[str, Any], *names: str) -> list[bytes]:
    return [base64.b64decode(vector[name]) for name in names]


def test_inclusion_vectors() -> None:
    outcomes = []
    for name, vector in vectors("inclusion"):
        leaf, root = unpack(vector, "leafHash", "root")
        path = [base64.b64decode(node) for node in vector["proof"] or []]
        outcomes.append(vector["wantErr"])
        try:
            verify_inclusion(leaf, vector["leafIdx"], vector["treeSize"], path, root)
        except LedgerError:
            assert vector["wantErr"], name
        else:
            assert not vector["wantErr"], name
    assert outcomes.count(False) == 6
    assert outcomes.count(True) >= 90


def test_consistency_vectors() -> None:
    outcomes = []
    for name, vector in vectors("consistency"):
        old_root, new_root = unpack(vector, "root1", "root2")
        path = [base64.b64decode(node) for node in vector["proof"] or []]
        # one vector accepts two equal "roots" of 12 bytes; here a root is a SHA-256 hash
        want_error = vector["wantErr"] or len(old_root) != 32
        outcomes.append(want_error)
        try:
            verify_consistency(vector["size1"], vector["size2"], path, old_root, new_root)
        except LedgerError:
            assert want_error, name
        else:
            assert not want_error, name
    assert outcomes.count(False) == 5
    assert outcomes.count(True) >= 80


# What the checks of Merkle paths refuse by name, whatever the hashes would give.


SMALL_TREE = MerkleTree([bytes([i]) for i in range(7)])
ROOT, LEAF, PATH = SMALL_TREE.root(), leaf_hash(b"\x02"), SMALL_TREE.path(2)
OLD, BETWEEN = SMALL_TREE.root(3), SMALL_TREE.consistency(3)
NUMBERS: list[Any] = [-1, MAX_SIZE + 1, True, 2.0, "2", None]


def test_the_honest_ones() -> None:
    verify_inclusion(LEAF, 2, 7, PATH, ROOT)
    verify_consistency(3, 7, BETWEEN, OLD, ROOT)
    assert inclusion_path(2, 7, SMALL_TREE.range_root) == PATH
    assert consistency_path(3, 7, SMALL_TREE.range_root) == BETWEEN


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_are_none(number: Any) -> None:
    """Bools, floats and texts too: 2.0 would pass every comparison."""
    ways = (
        lambda: verify_inclusion(LEAF, number, 7, PATH, ROOT),
        lambda: verify_inclusion(LEAF, 2, number, PATH, ROOT),
        lambda: inclusion_path(number, 7, SMALL_TREE.range_root),
        lambda: inclusion_path(2, number, SMALL_TREE.range_root),
        lambda: verify_consistency(number, 7, BETWEEN, OLD, ROOT),
        lambda: verify_consistency(3, number, BETWEEN, OLD, ROOT),
        lambda: consistency_path(number, 7, SMALL_TREE.range_root),
        lambda: consistency_path(3, number, SMALL_TREE.range_root),
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
        inclusion_path(index, 7, SMALL_TREE.range_root)


@pytest.mark.parametrize(("old", "new"), [(0, 7), (0, 0), (7, 3)])
def test_sizes_that_cannot_be_compared(old: int, new: int) -> None:
    with pytest.raises(LedgerError, match="0 < old <= new"):
        verify_consistency(old, new, BETWEEN, OLD, ROOT)
    with pytest.raises(LedgerError, match="0 < old <= new"):
        consistency_path(old, new, SMALL_TREE.range_root)


def test_consistency_of_another_shape() -> None:
    with pytest.raises(LedgerError, match="empty"):
        verify_consistency(3, 7, [], OLD, ROOT)
    with pytest.raises(LedgerError, match="too short"):
        verify_consistency(3, 7, BETWEEN[:-1], OLD, ROOT)
    with pytest.raises(LedgerError, match="too long"):
        verify_consistency(3, 7, [*BETWEEN, ROOT], OLD, ROOT)
    with pytest.raises(LedgerError, match="root of size 3: history was rewritten"):
        verify_consistency(3, 7, BETWEEN, SMALL_TREE.root(2), ROOT)
    with pytest.raises(LedgerError, match="root of size 7"):
        verify_consistency(3, 7, BETWEEN, OLD, OLD)


@pytest.mark.parametrize("index", [-1, 7, 8])
def test_a_tree_has_no_path_of_a_leaf_that_it_lacks(index: int) -> None:
    with pytest.raises(LedgerError):
        SMALL_TREE.path(index)


def test_the_whole_tree_by_default() -> None:
    verify_consistency(3, 7, SMALL_TREE.consistency(3), OLD, SMALL_TREE.root())
    verify_inclusion(LEAF, 2, 5, SMALL_TREE.path(2, 5), SMALL_TREE.root(5))
    assert SMALL_TREE.path(0) == inclusion_path(0, 7, SMALL_TREE.range_root)
