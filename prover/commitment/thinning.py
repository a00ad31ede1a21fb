# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A, thinning: once the beacon is complete, the slots that coins hide are emptied, with a proof.  SPEC A.11.

Every tenant's thinned columns are durable before the log names them; a run that broke off in between begins anew, with
the same coins, since they follow from the committed seed and the beacon.
"""

from __future__ import annotations

import numpy as np

from ragseal.groth16.assignments import ThinningAssignment
from ragseal.groth16.keys import KeyView
from ragseal.groth16.provers import ThinningBackend
from ragseal.kernel import field
from ragseal.kernel.bn254 import Group
from ragseal.kernel.coin import coin_context, hidden_slots
from ragseal.kernel.commitment import Thinning
from ragseal.kernel.params import R
from ragseal.kernel.thinning import ThinnedFile, ThinningStatement, prove_link, verify_thinning
from ragseal.prover.commitment.columns import prove_span
from ragseal.prover.commitment.index import Matrix, Thinned, Version, thin
from ragseal.prover.commitment.manifest import Progress
from ragseal.prover.randomness import Draw, packed_scalars, scalar
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window_secrets import WindowSecrets, store_thinned

_LIMB = 16  #: bits of a weight that are multiplied at once: |entries| < 2^7, at most 2^12 of them, so sums fit 64 bits


def thin_window(
    state: State,
    group: Group,
    key: KeyView,
    backend: ThinningBackend,
    window: WindowSecrets,
    beacon: int,
    draw: Draw,
    progress: Progress = lambda _: None,
) -> Thinning:
    """Thin every tenant's index by the coins of this beacon; what the entry names is durable when this returns.

    Args:
        key: of the attestation, under whose points records commit to scores.

    Raises:
        UnprovableError: a coin that cannot be proven (2^-45 an element): the window cannot open.
        ProofError: a proof that does not hold; nothing is entered then.
    """
    digest = window.signed.manifest.digest()
    entries = []
    for tenant, version in sorted(window.versions.items()):
        progress(f"thinning the index of tenant {tenant}")
        thinned = thin_version(group, key, backend, window, version, beacon, draw)
        store_thinned(state, digest, tenant, thinned)
        entries.append(thinned.public.entry(tenant))
    return Thinning(digest, tuple(entries))


def thin_version(
    group: Group,
    key: KeyView,
    backend: ThinningBackend,
    window: WindowSecrets,
    version: Version,
    beacon: int,
    draw: Draw,
) -> Thinned:
    """One tenant's index without its hidden slots, checked exactly as an auditor checks it."""
    manifest = window.signed.manifest
    digest, seed = manifest.digest(), window.coin_limbs
    context = coin_context(digest, beacon, version.tenant)
    hidden = hidden_slots(seed, context, key.cls.N, manifest.policy.hidden)
    emptied = thin(version.matrix, hidden)
    blinders, span = prove_span(group, key, emptied, draw)
    coin_key = backend.key
    statement = ThinningStatement(
        thinning_key=coin_key.digest,
        attestation_key=key.digest,
        manifest=digest,
        c_coin=manifest.coin.c_coin,
        context=context,
        hidden=manifest.policy.hidden,
        placed=version.public.columns,
        thinned=span.columns,
    )
    weights = statement.weights()
    placed_scores, thinned_scores = weighted_rows(version.matrix, weights), weighted_rows(emptied, weights)
    rho = scalar(draw)
    scores = group.msm(coin_key.thinned.y + coin_key.thinned.b, field.pack([*thinned_scores, rho]))
    blind = (_weighted(version.blinders, weights) + rho) % R
    assignment = ThinningAssignment(
        seed=seed,
        context=context,
        hidden=manifest.policy.hidden,
        placed=tuple(placed_scores),
        thinned=tuple(thinned_scores),
        blind=blind,
        c_coin=manifest.coin.c_coin,
    )
    proof = backend.prove(assignment)
    witness = field.pack([*thinned_scores, _weighted(blinders, weights), rho])
    nonces = packed_scalars(draw, key.cls.N + 2)
    link = prove_link(group, statement, coin_key, key.scores, scores, proof, witness, nonces)
    public = ThinnedFile(span.columns, span.opening, scores, link, proof)
    verify_thinning(group, statement, coin_key, key.scores, public)
    return Thinned(tuple(hidden), blinders, public)


def weighted_rows(matrix: Matrix, weights: list[int]) -> list[int]:
    """sum_j weights[j] E[i][j] mod r for every row, exactly: 16 bits of the weights at a time, in 64-bit integers."""
    count = -(-max(weight.bit_length() for weight in weights) // _LIMB)
    mask = (1 << _LIMB) - 1
    limbs = np.array([[(weight >> (_LIMB * k)) & mask for k in range(count)] for weight in weights], dtype=np.int64)
    sums = (matrix.astype(np.int64) @ limbs).tolist()
    return [sum(part << (_LIMB * k) for k, part in enumerate(row)) % R for row in sums]


def _weighted(values: tuple[int, ...], weights: list[int]) -> int:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) % R
