# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo-large``: one tenant of a million documents, in shards with one threshold, through the same window.

``CLAIM=every-list`` is the same under the paper's claim, over a tenth as many.

The standard library's docstrings are embedded as in the small demo.  What fills the index up to SLOTS documents is
synthetic: random unit vectors with a text that says so.  Time, memory and proofs do not depend on what vectors hold; a
random vector has a cosine of about 0 with any question, so it comes back as a decoy only.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from ragseal.circuits.circuit import load_classes
from ragseal.demo.scenario import RETURN, Scenario, first_questions, stdlib_scenario
from ragseal.embedder import Embedder, quantise
from ragseal.kernel.claims import form_of
from ragseal.kernel.policy import UNTIL_DELIVERED
from ragseal.prover.administration.documents import shape_of
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.storage.state import State

CLASS, SLOTS = "decoys-128k", 1_000_000  #: eight proofs of 2^18 rows a record; slots at least
LISTS_CLASS, LISTS_SLOTS = "noise-large-gaussian-50", 100_000  #: of every-list: four proofs of 2^18 rows
MOST_RETURN = 6.5  #: nats: each nat less takes 2.7 times as many decoys, and there are 187 a shard
TENANT = "data"
ASKED = 2  #: questions of each of the tenant's accounts
BLOCK = 10_000  #: vectors made at a time
TOGETHER = 250_000  #: documents put at a time


def large_scenario(folder: Path, claim: str = UNTIL_DELIVERED) -> Scenario:
    """The tenant's docstrings and accounts, the first ASKED questions of each, and how many shards hold the slots."""
    name, slots, most = (CLASS, SLOTS, MOST_RETURN)
    if form_of(claim).counted:
        name, slots, most = LISTS_CLASS, LISTS_SLOTS, RETURN
    plan = stdlib_scenario(folder, name, claim)
    queries = first_questions((query for query in plan.queries if query.tenant == TENANT), ASKED)
    accounts = {account: tenant for account, tenant in plan.accounts.items() if tenant == TENANT}
    return replace(
        plan,
        corpora={TENANT: plan.corpora[TENANT]},
        accounts=accounts,
        queries=queries,
        shards=-(-slots // load_classes()[name].N),
        filled=slots,
        most_return=most,
    )


def fill(provider: Path, embedder: Embedder, slots: int) -> int:
    """Put synthetic documents until the tenant has so many; how many those are."""
    with State(provider) as state:
        found = state.rows("SELECT COUNT(*) FROM documents WHERE tenant = ?", (TENANT,))
        count = slots - int(found[0][0])
        shape = shape_of(state, embedder)
        made = synthetic(count, embedder.dimension)
        while some := list(islice(made, TOGETHER)):
            apply(state, TENANT, some, nothing_to_embed, secrets.token_bytes, shape)
    return count


def synthetic(count: int, dimension: int) -> Iterator[Put]:
    """Documents that nothing is embedded for: a random unit vector, and a text that says so."""
    random = np.random.default_rng(22)
    for start in range(0, count, BLOCK):
        rows = random.standard_normal((min(BLOCK, count - start), dimension), dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        for number, row in enumerate(quantise(rows), start):
            yield Put(Document(f"synthetic-{number}", f"Synthetic document {number}: a random vector."), row)


def nothing_to_embed(texts: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    return np.zeros((0, 0), dtype=np.int8)
