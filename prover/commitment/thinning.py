# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A, thinning: once the beacon is complete, the slots that coins hide are emptied, with a proof.  SPEC A.11.

Thinned columns are durable before the log names them; a run that broke off in between begins anew, with
the same coins, since they follow from the committed seed and the beacon.
"""

from __future__ import annotations

import itertools

from ragseal.groth16.coin_proofs import CoinSecrets, scalars_needed
from ragseal.groth16.keys import KeyView
from ragseal.groth16.provers import ThinningBackend
from ragseal.groth16.thinning import ThinningSecrets, make_thinned, thin
from ragseal.kernel.bn254 import Group
from ragseal.kernel.coin import coin_context, hidden_slots
from ragseal.kernel.commitment import Thinning, shard_columns
from ragseal.kernel.thinning import ThinnedFile, ThinningStatement
from ragseal.prover.base.randomness import Draw, packed_scalars, scalar
from ragseal.prover.commitment.columns import prove_span, shards_of
from ragseal.prover.commitment.index import Thinned, Version
from ragseal.prover.commitment.manifest import Progress
from ragseal.prover.commitment.window_secrets import WindowSecrets, store_thinned
from ragseal.prover.storage.state import State


def thin_window(
    state: State,
    group: Group,
    key: KeyView,
    backend: ThinningBackend,
    window: WindowSecrets,
    throw: tuple[bytes, int],
    draw: Draw,
    progress: Progress = lambda _: None,
) -> Thinning:
    """Thin the index of every tenant whose claim has a coin; what the entry names is durable when this returns.

    Args:
        key: of the attestation, under whose points records commit to scores.
        throw: digest and beacon of the manifest that threw the coins, this window's own or an earlier one's.

    Raises:
        UnprovableError: a coin that cannot be proven (2^-45 an element): the window cannot open.
        ProofError: a proof that does not hold; nothing is entered then.
    """
    digest = window.signed.manifest.digest()
    entries = []
    for tenant in window.signed.manifest.coined:
        version = window.versions[tenant]
        progress(f"thinning the index of tenant {tenant}")
        thinned = thin_version(group, key, backend, window, version, throw, draw)
        store_thinned(state, digest, tenant, thinned)
        entries.append(thinned.public.entry(tenant))
    return Thinning(digest, tuple(entries))


def thin_version(
    group: Group,
    key: KeyView,
    backend: ThinningBackend,
    window: WindowSecrets,
    version: Version,
    throw: tuple[bytes, int],
    draw: Draw,
) -> Thinned:
    """One tenant's index without its hidden slots, checked exactly as an auditor checks it."""
    manifest, seed, capacity = window.signed.manifest, window.coin_limbs, key.cls.N
    digest, dimension, shards = manifest.digest(), manifest.policy.dimension, shards_of(version.matrix, capacity)
    contexts = [coin_context(*throw, version.tenant, shard) for shard in range(len(shards))]
    hidden = [hidden_slots(seed, context, capacity, manifest.policy.hidden) for context in contexts]
    together = list(itertools.chain.from_iterable(hidden))
    blinders, span = prove_span(group, key, thin(version.matrix, together), draw)
    placed, thinned = (shard_columns(of, dimension, len(shards)) for of in (version.public.columns, span.columns))
    made = []
    for shard, matrix in enumerate(shards):
        own = slice(shard * dimension, (shard + 1) * dimension)
        statement = ThinningStatement(
            thinning_key=backend.key.digest,
            attestation_key=key.digest,
            manifest=digest,
            c_coin=manifest.coin.c_coin,
            context=contexts[shard],
            hidden=manifest.policy.hidden,
            placed=placed[shard],
            thinned=thinned[shard],
        )
        secrets = ThinningSecrets(
            coins=CoinSecrets(seed, packed_scalars(draw, scalars_needed(backend.key.cls, sides=2))),
            placed_blinders=version.blinders[own],
            thinned_blinders=blinders[own],
            rho=scalar(draw),
        )
        made.append(make_thinned(group, backend, key.scores, statement, matrix, hidden[shard], secrets))
    return Thinned(tuple(together), blinders, ThinnedFile(span.columns, span.opening, tuple(made)))
