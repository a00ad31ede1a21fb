# SPDX-License-Identifier: GPL-3.0-or-later
"""Merkle trees of RFC 9162 section 2.1 (the trees of RFC 6962): roots, inclusion and consistency paths, their checks.

Leaves count from 0.  A path is a list of 32-byte hashes from the leaf's side to the root's side.  Generation is generic
over a *range root*: a function ``(start, end) -> root of leaves [start, end)``, so that one implementation serves the
log on disk, the trees in memory (texts, registry) and a slow reference in the tests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from ragseal.kernel.errors import LedgerError

HASH_SIZE = 32
MAX_SIZE = 2**63 - 1  # C2SP tlog-checkpoint allows sizes below 2^63

RangeRoot = Callable[[int, int], bytes]

EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    """SHA-256(0x00 || entry), 32 bytes."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right), 32 bytes.  The two prefixes keep a node from posing as a leaf."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def split_point(width: int) -> int:
    """The largest power of two below ``width`` (``width`` >= 2): where a range of that many leaves parts."""
    return 1 << (width - 1).bit_length() - 1


def inclusion_path(index: int, size: int, range_root: RangeRoot) -> list[bytes]:
    """PATH(index, D[size]) of RFC 9162 section 2.1.3.1.

    Raises:
        LedgerError: not 0 <= index < size.
    """
    _check_numbers(index=index, size=size)
    if index >= size:
        raise LedgerError(f"no leaf {index} in a tree of {size}: ask for an index below the size")
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + split_point(end - start)
        if index < middle:
            path.append(range_root(middle, end))
            end = middle
        else:
            path.append(range_root(start, middle))
            start = middle
    path.reverse()
    return path


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check that the leaf hash ``leaf`` is number ``index`` of the tree of ``size`` leaves with ``root``.

    RFC 9162 section 2.1.3.2; the path must have exactly the length that index and size prescribe.

    Raises:
        LedgerError: whatever does not hold.
    """
    _check_numbers(index=index, size=size)
    _check_hashes(leaf, root, *path)
    if index >= size:
        raise LedgerError(f"inclusion: leaf {index} cannot be in a tree of {size}")
    fn, sn, computed = index, size - 1, leaf
    for sibling in path:
        if sn == 0:
            raise LedgerError("inclusion: the path is longer than the tree is high")
        if fn & 1 or fn == sn:
            computed = node_hash(sibling, computed)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            computed = node_hash(computed, sibling)
        fn, sn = fn >> 1, sn >> 1
    if sn:
        raise LedgerError("inclusion: the path is shorter than the tree is high")
    if computed != root:
        raise LedgerError(f"inclusion: leaf {index} with this path does not give the root of the tree of {size}")


def consistency_path(old: int, new: int, range_root: RangeRoot) -> list[bytes]:
    """PROOF(old, D[new]) of RFC 9162 section 2.1.4.1; empty if the sizes are equal.

    Raises:
        LedgerError: not 0 < old <= new (nothing can be said about an empty tree).
    """
    _check_numbers(old=old, new=new)
    if not 0 < old <= new:
        raise LedgerError(f"no consistency proof from size {old} to {new}: 0 < old <= new is needed")
    path: list[bytes] = []
    start, end, whole = 0, new, True  # whole: the old tree's part of this range is the whole old tree
    while old < end:
        middle = start + split_point(end - start)
        if old <= middle:
            path.append(range_root(middle, end))
            end = middle
        else:
            path.append(range_root(start, middle))
            start, whole = middle, False
    if not whole:
        path.append(range_root(start, end))
    path.reverse()
    return path


def verify_consistency(old: int, new: int, path: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Check that the tree of ``old`` leaves is the beginning of the tree of ``new`` leaves.

    RFC 9162 section 2.1.4.2, strict about lengths.  An old size of 0 is refused: such a proof would say nothing.

    Raises:
        LedgerError: whatever does not hold.
    """
    _check_numbers(old=old, new=new)
    _check_hashes(old_root, new_root, *path)
    if not 0 < old <= new:
        raise LedgerError(f"consistency: sizes {old} and {new} cannot be compared (0 < old <= new is needed)")
    if old == new:
        if path:
            raise LedgerError("consistency: equal sizes take an empty path")
        if old_root != new_root:
            raise LedgerError(f"consistency: two different roots for the same size {old}")
        return
    nodes = list(path)
    if old & (old - 1) == 0:  # the old tree is one perfect subtree, its root is left out of the path
        nodes.insert(0, old_root)
    if not nodes:
        raise LedgerError("consistency: the path is empty")
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    first = second = nodes[0]
    for node in nodes[1:]:
        if sn == 0:
            raise LedgerError("consistency: the path is too long")
        if fn & 1 or fn == sn:
            first, second = node_hash(node, first), node_hash(node, second)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            second = node_hash(second, node)
        fn, sn = fn >> 1, sn >> 1
    if sn:
        raise LedgerError("consistency: the path is too short")
    if first != old_root:
        raise LedgerError(f"consistency: the path does not give the root of size {old}: history was rewritten")
    if second != new_root:
        raise LedgerError(f"consistency: the path does not give the root of size {new}")


class Frontier:
    """The roots of the perfect subtrees of a growing tree, left to right: enough to append and to get the root.

    Takes log2(size) hashes however long the log is; an observer that keeps it can re-hash every new entry without
    trusting a proof.
    """

    __slots__ = ("_roots", "_size")

    def __init__(self, size: int = 0, roots: Sequence[bytes] = ()) -> None:
        """Raises LedgerError if the number of roots does not fit the size."""
        _check_numbers(size=size)
        _check_hashes(*roots)
        if len(roots) != size.bit_count():
            raise LedgerError(f"a frontier of size {size} has {size.bit_count()} roots, not {len(roots)}")
        self._size = size
        self._roots = list(roots)

    @property
    def size(self) -> int:
        return self._size

    @property
    def roots(self) -> tuple[bytes, ...]:
        return tuple(self._roots)

    def copy(self) -> Frontier:
        return Frontier(self._size, self._roots)

    def add(self, leaf: bytes) -> None:
        """Append one leaf hash."""
        node, carry = leaf, self._size
        while carry & 1:
            node = node_hash(self._roots.pop(), node)
            carry >>= 1
        self._roots.append(node)
        self._size += 1

    def root(self) -> bytes:
        """Root of all leaves so far."""
        if not self._roots:
            return EMPTY_ROOT
        node = self._roots[-1]
        for left in reversed(self._roots[:-1]):
            node = node_hash(left, node)
        return node


def _hashes(level: bytes, first: int) -> Iterator[bytes]:
    """Every second hash of those that lie one behind the other, from the first or the second on."""
    return (level[at : at + HASH_SIZE] for at in range(first * HASH_SIZE, len(level), 2 * HASH_SIZE))


class MerkleTree:
    """A tree in memory over entries (bytes, hashed with :func:`leaf_hash`): texts of an index, the account registry."""

    __slots__ = ("_levels",)

    def __init__(self, entries: Iterable[bytes]) -> None:
        level = b"".join(map(leaf_hash, entries))
        # Hash j of _levels[h] is the root of the leaves [j 2^h, (j+1) 2^h), of those that there are.  Hashes lie one
        # behind the other: a million of them as objects would take three times as much.
        self._levels = [level]
        while len(level) > HASH_SIZE:
            odd = level[-HASH_SIZE:] if len(level) // HASH_SIZE & 1 else b""
            level = b"".join(map(node_hash, _hashes(level, 0), _hashes(level, 1))) + odd
            self._levels.append(level)

    def __len__(self) -> int:
        return len(self._levels[0]) // HASH_SIZE

    def _hash(self, height: int, j: int) -> bytes:
        return self._levels[height][HASH_SIZE * j : HASH_SIZE * (j + 1)]

    def range_root(self, start: int, end: int) -> bytes:
        """Root of leaves [start, end), a range of RFC 9162: it starts at a multiple of its largest perfect subtree."""
        if not 0 <= start <= end <= len(self):
            raise LedgerError(f"leaves [{start}, {end}) are not in a tree of {len(self)}")
        parts: list[bytes] = []
        while start < end:
            height = (end - start).bit_length() - 1
            parts.append(self._hash(height, start >> height))
            start += 1 << height
        if not parts:
            return EMPTY_ROOT
        node = parts.pop()
        while parts:
            node = node_hash(parts.pop(), node)
        return node

    def root(self, size: int | None = None) -> bytes:
        """Root of the first ``size`` leaves (default: all)."""
        return self.range_root(0, len(self) if size is None else size)

    def path(self, index: int, size: int | None = None) -> list[bytes]:
        """Inclusion path of leaf ``index`` in the tree of the first ``size`` leaves (default: all)."""
        size = len(self) if size is None else size
        if size > len(self):
            raise LedgerError(f"the tree has {len(self)} leaves, not {size}")
        if size < len(self) or not 0 <= index < size:
            return inclusion_path(index, size, self.range_root)
        siblings = []  # of the whole tree they lie ready
        for height in range(len(self._levels)):
            if sibling := self._hash(height, index ^ 1):
                siblings.append(sibling)
            index >>= 1
        return siblings

    def consistency(self, old: int, new: int | None = None) -> list[bytes]:
        """Consistency path between the first ``old`` and the first ``new`` leaves (default: all)."""
        new = len(self) if new is None else new
        if new > len(self):
            raise LedgerError(f"the tree has {len(self)} leaves, not {new}")
        return consistency_path(old, new, self.range_root)


def _check_numbers(**numbers: int) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_SIZE:
            raise LedgerError(f"{name} must be an integer in [0, 2^63)")


def _check_hashes(*hashes: bytes) -> None:
    if not all(isinstance(value, bytes) and len(value) == HASH_SIZE for value in hashes):
        raise LedgerError(f"every hash of a Merkle proof has {HASH_SIZE} bytes")
