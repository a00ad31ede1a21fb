# SPDX-License-Identifier: GPL-3.0-or-later
"""An index that was committed, and whose commitment was opened, before the attacker wrote into it.

The commitments are the real ones (SPEC A.3, A.4, A.12): columns with their proof of opening, the tree of salted texts,
and a log of updates.  Only the points that columns lie on are hashed to the curve here instead of taken from an
auditor's key, and there is no window around them.  :func:`timeline` shows what a log then tells, and what it does not;
:class:`Served` is an account that reads nothing but texts of the committed version.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from bench.saferag.retrievers import rows_of
from ragseal.backends.group import default_group
from ragseal.embedder import Embedder
from ragseal.kernel.attestation import TextOpening
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.commitment import ScoreBases, text_leaf
from ragseal.kernel.errors import LedgerError
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from ragseal.kernel.versions import IndexUpdate
from ragseal.ledger.merkle import MerkleTree, leaf_hash, verify_inclusion
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment.columns import commit_columns, make_version
from ragseal.prover.commitment.index import Version, text_tree

TENANT = "saferag"
DOMAIN = b"ragseal bench saferag columns"
EVERY = 60  #: seconds from one version to the next


@dataclass(frozen=True)
class Bases:
    """Points without known relations, in the place of an auditor's key."""

    scores: ScoreBases
    digest: bytes


@lru_cache(maxsize=4)
def bases(capacity: int) -> Bases:
    points = default_group().hash_to_curve(DOMAIN, capacity + 1)
    return Bases(ScoreBases(points[POINT_BYTES:], points[:POINT_BYTES]), hashlib.sha256(points).digest())


def commit(contexts: Sequence[str], embedder: Embedder, capacity: int, draw: Draw) -> Version:
    """The version of an index that holds these contexts in slots 0, 1, 2, ..., checked as an auditor checks it."""
    matrix = np.zeros((capacity, embedder.dimension), dtype=np.int8)
    matrix[: len(contexts)] = rows_of(embedder, contexts)
    texts = {slot: SlotText(f"context-{slot}", text, NO_METADATA) for slot, text in enumerate(contexts)}
    return make_version(default_group(), bases(capacity), TENANT, matrix, texts, draw)


def stream(secret: bytes) -> Draw:
    """Bytes that follow from ``secret``, for commitments that hide nothing from anybody and come out the same again."""
    counter = itertools.count()
    return lambda n: hashlib.shake_256(secret + next(counter).to_bytes(8, "big")).digest(n)


@dataclass(frozen=True)
class Opened:
    """What a provider shows of a version to whoever it lets see the whole index: everything, secrets included."""

    matrix: Any  #: (N, d) int8
    blinders: tuple[int, ...]
    secret: bytes  #: of the salts
    texts: dict[int, SlotText]

    @classmethod
    def of(cls, version: Version) -> Opened:
        return cls(version.matrix, version.blinders, version.secret, dict(version.texts))

    def opens(self, version: Version, group: Group | None = None) -> bool:
        """Whether this is what the version's public entry commits to: columns and texts are computed anew."""
        capacity = len(self.matrix)
        columns = commit_columns(group or default_group(), bases(capacity).scores, self.matrix, self.blinders)
        root = text_tree(self.secret, self.texts, capacity).root()
        return columns == version.public.columns and root == version.updated.text_root


class Served:
    """What an account accepts of an answer: texts that open under the text root of the version it was told of."""

    def __init__(self, version: Version) -> None:
        self._root, self._capacity = version.updated.text_root, len(version.matrix)

    def accepts(self, slot: int, opening: TextOpening) -> bool:
        """Whether the slot's leaf of that version holds this text."""
        leaf = text_leaf(opening.salt, slot, opening.content)
        try:
            verify_inclusion(leaf_hash(leaf), slot, self._capacity, opening.path, self._root)
        except LedgerError:
            return False
        return True


def forged(version: Version, slot: int, text: str) -> TextOpening:
    """The attacker's best: another text with the salt and the path of a slot that was returned."""
    real = version.open_text(slot)
    return replace(real, content=replace(real.content, text=text))


@dataclass(frozen=True)
class Told:
    """What log and openings tell about an index that was poisoned between two versions."""

    entries: int
    first_poisoned: int  #: number of the update from which on the attack texts open
    time: int  #: its tick, seconds after the first
    digests_differ: bool  #: of the clean and the poisoned version
    old_opening_holds: bool  #: the opening that was checked before still opens the version before
    old_opening_opens_the_poisoned: bool
    poisoned_under_old_blinders: bool  #: whether the poisoned index can be passed off as the version before
    unchanged_digests_differ: bool  #: of two versions with the same content
    changed_slots: tuple[int, ...]  #: by comparing two openings


def timeline(clean: Sequence[str], attacks: Sequence[str], embedder: Embedder, capacity: int, draw: Draw) -> Told:
    """Three versions: clean, clean again, poisoned; the commitment of the second was opened before the poisoning.

    Raises:
        LedgerError: an entry whose inclusion in the log does not hold.
    """
    versions = [commit(texts, embedder, capacity, draw) for texts in (clean, clean, [*clean, *attacks])]
    manifest = hashlib.sha256(b"bench window").digest()
    nobody = bytes(32)  # accounts do not matter here
    updates = [IndexUpdate(manifest, n, EVERY * n, (v.updated,), nobody) for n, v in enumerate(versions, 1)]
    for update in updates:
        update.validate()
    log = MerkleTree(update.encode() for update in updates)
    for at, update in enumerate(updates):
        verify_inclusion(leaf_hash(update.encode()), at, len(updates), log.path(at), log.root())
    digests = [update.index_digest(TENANT) for update in updates]
    opened = Opened.of(versions[1])
    last = Opened.of(versions[2])
    holds_attack = [all(_holds(version, text) for text in attacks) for version in versions]
    first = holds_attack.index(True)
    changed = np.flatnonzero((opened.matrix != last.matrix).any(axis=1)).tolist()
    texts_changed = [s for s in range(capacity) if opened.texts.get(s) != last.texts.get(s)]
    return Told(
        entries=len(updates),
        first_poisoned=updates[first].number,
        time=updates[first].time - updates[0].time,
        digests_differ=digests[1] != digests[2],
        old_opening_holds=opened.opens(versions[1]),
        old_opening_opens_the_poisoned=opened.opens(versions[2]),
        poisoned_under_old_blinders=replace(last, blinders=opened.blinders, secret=opened.secret).opens(versions[1]),
        unchanged_digests_differ=digests[0] != digests[1],
        changed_slots=tuple(sorted({*changed, *texts_changed})),
    )


def _holds(version: Version, text: str) -> bool:
    """Whether a slot's opening shows the text, checked as an account checks it."""
    slots = [slot for slot, content in version.texts.items() if content.text == text]
    return any(Served(version).accepts(slot, version.open_text(slot)) for slot in slots)
