# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A while a window is open: a new version of every tenant's index, changed or not.  SPEC A.12, A.13.

A version holds the documents that are there when it is made, each in the slot that the window has for it, and nothing
in slots that the window's coins hide.  Every version of every tenant has blinders and salts of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ragseal.groth16.coin_proofs import CoinSecrets, scalars_needed
from ragseal.groth16.emptied import EmptiedSecrets, make_emptied
from ragseal.groth16.keys import KeyView
from ragseal.groth16.provers import ThinningBackend
from ragseal.groth16.thinning import thin
from ragseal.kernel.bn254 import Group
from ragseal.kernel.coin import coin_context
from ragseal.kernel.commitment import shard_columns
from ragseal.kernel.emptied import EmptiedFile, EmptiedStatement
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.slot_text import SlotText
from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.base.randomness import Draw, packed_scalars, scalar
from ragseal.prover.commitment import index
from ragseal.prover.commitment.coin_placement import placed_afresh
from ragseal.prover.commitment.columns import prove_span, shards_of
from ragseal.prover.commitment.enrolling import next_enrolments, registry_root
from ragseal.prover.commitment.index import Matrix, Version
from ragseal.prover.commitment.slots import Readable
from ragseal.prover.commitment.update_secrets import UpdateSecrets
from ragseal.prover.commitment.window_secrets import WindowSecrets
from ragseal.prover.storage.state import State

Contents = tuple[Matrix, Mapping[int, SlotText]]


@dataclass(frozen=True)
class UpdateTools:
    """What computes updates: curve, the attestation key, and the thinning key where the window has coins."""

    group: Group
    key: KeyView
    thinning: ThinningBackend | None
    draw: Draw


@dataclass(frozen=True)
class NextVersion:
    """Which version of a window's indices is to be made."""

    number: int  #: of the update
    time: int  #: its tick, in seconds since 1970
    former: Mapping[str, Version]  #: those before it, by tenant: the window's own before its first update
    throw: tuple[bytes, int] | None  #: digest and beacon of the manifest that threw the window's coins, if it has any


def make_update(
    state: State,
    documents: Readable,
    tools: UpdateTools,
    window: WindowSecrets,
    due: NextVersion,
    progress: Callable[[str], None] = lambda _: None,
) -> UpdateSecrets:
    """A new version of every tenant's index, and the accounts that may ask over it.  Nothing is stored or entered yet.

    Args:
        documents: a snapshot that lasts until the update is stored.

    Raises:
        CommitmentError: stored documents do not fit the window.
        ProofError: a proof that does not hold.
    """
    digest = window.signed.manifest.digest()
    versions = {}
    for tenant, placed in sorted(window.versions.items()):
        progress(f"version {due.number} of the index of tenant {tenant}")
        contents = _contents(state, documents, window, placed, due.former[tenant])
        versions[tenant] = _version(tools, window, due, placed, contents)
    enrolments = next_enrolments(state, window.signed.manifest, digest, due.number, tools.draw)
    root = registry_root(enrolments, window.signed.manifest, due.number)
    entry = IndexUpdate(digest, due.number, due.time, tuple(one.updated for one in versions.values()), root)
    entry.validate()
    named = {name: replace(one, named=entry.index_digest(name)) for name, one in versions.items()}
    return UpdateSecrets(entry, named, enrolments)


def _contents(state: State, documents: Readable, window: WindowSecrets, placed: Version, former: Version) -> Contents:
    """The tenant's documents now, in the slots of this window.

    Once documents were placed afresh for a later window, their slots are that one's: under this window's coins they
    would have a second coin (SPEC A.11.10).  What this window has of them keeps its slot, new ones wait for the later.
    """
    manifest, (capacity, dimension) = window.signed.manifest, placed.matrix.shape
    period = manifest.coin_period if manifest.coins else manifest.digest()
    if placed.tenant not in placed_afresh(state, period):
        return index.current(documents, placed.tenant, capacity, dimension)
    slots = {content.id: slot for slot, content in former.texts.items()}
    matrix, texts = np.zeros((capacity, dimension), dtype=np.int8), dict[int, SlotText]()
    for content, row in index.contents(documents, placed.tenant, slots):
        if len(row) != dimension:
            raise CommitmentError(
                f"the documents of tenant {placed.tenant!r} were put for another embedder: this window ends first"
            )
        matrix[slots[content.id]] = np.frombuffer(row, dtype=np.int8)
        texts[slots[content.id]] = content
    return matrix, texts


def _version(
    tools: UpdateTools, window: WindowSecrets, due: NextVersion, placed: Version, contents: Contents
) -> Version:
    matrix, texts = contents
    former, number, throw = due.former[placed.tenant], due.number, due.throw
    manifest = window.signed.manifest
    if not placed.coined:
        blinders, file = prove_span(tools.group, tools.key, matrix, tools.draw, former.in_force)
        return Version(placed.tenant, matrix, texts, tools.draw(32), blinders, file, number=number)
    if placed.thinned is None or throw is None or tools.thinning is None:
        raise CommitmentError("the window's coins have not decided yet what they hide: it is not open")
    matrix = thin(matrix, placed.thinned.hidden)
    blinders, file = prove_span(tools.group, tools.key, matrix, tools.draw, former.in_force)
    dimension, capacity, made = matrix.shape[1], tools.key.cls.N, []
    shards, fresh = shards_of(matrix, capacity), scalars_needed(tools.thinning.key.cls, sides=3)
    columns = shard_columns(file.columns, dimension, len(shards))
    for shard, rows in enumerate(shards):
        own = slice(shard * dimension, (shard + 1) * dimension)
        statement = EmptiedStatement(
            thinning_key=tools.thinning.key.digest,
            attestation_key=tools.key.digest,
            manifest=manifest.digest(),
            number=number,
            c_coin=manifest.coin.c_coin,
            context=coin_context(*throw, placed.tenant, shard),
            hidden=manifest.policy.hidden,
            columns=columns[shard],
        )
        secrets = EmptiedSecrets(
            coins=CoinSecrets(window.coin_limbs, packed_scalars(tools.draw, fresh)),
            blinders=blinders[own],
            rho=(scalar(tools.draw), scalar(tools.draw)),
        )
        made.append(make_emptied(tools.group, tools.thinning, tools.key.scores, statement, rows, secrets))
    shown = EmptiedFile(file.columns, file.opening, tuple(made))
    return Version(placed.tenant, matrix, texts, tools.draw(32), blinders, file, number=number, emptied=shown)
