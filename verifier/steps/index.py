# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 4: every tenant's columns are the manifest's and open over {Y_i, B} only.  SPEC A.3, D.4."""

from __future__ import annotations

from collections.abc import Mapping

from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import (
    IndexFile,
    TenantIndex,
    verify_columns,
)
from ragseal.verifier.evidence.evidence import DELIVER_AGAIN, ColumnKey, Evidence, Undecided, decoded, held
from ragseal.verifier.steps.manifest import Entered
from ragseal.verifier.steps.recorder import Recorder, quiet


def check_indexes(
    group: Group, key: ColumnKey, coin_key: ColumnKey | None, window: Entered, evidence: Evidence, say: Recorder = quiet
) -> Mapping[str, bytes]:
    """Step 4: every tenant's column commitments are those of the manifest and open over {Y_i, B} only.

    Args:
        key: the attestation's, whose points columns lie under.
        coin_key: the thinning's, whose points those of tenants with a coin lie under; None where there are no coins.

    Returns:
        The d column commitments of every shard of each tenant, concatenated.

    Raises:
        Undecided: a file that is not the one of the manifest, which nobody signed.
        Refused: the manifest's own does not hold.
    """
    columns: dict[str, bytes] = {}
    coined, shards = window.manifest.coined, window.manifest.policy.shards
    for index in window.manifest.tenants:
        file = _index_file(window, index, evidence)
        under = coin_key if coin_key is not None and index.tenant in coined else key
        with held(f"index of tenant {index.tenant!r}: ", tenant=index.tenant):
            verify_columns(group, under.scores, under.digest, index.dimension * shards, file)
        columns[index.tenant] = file.columns
        say(**{f"columns[{index.tenant}]": index.columns_digest, f"dimension[{index.tenant}]": index.dimension})
    say(tenants=len(columns), shards=shards, capacity=shards * key.scores.capacity)
    return columns


def _index_file(window: Entered, index: TenantIndex, evidence: Evidence) -> IndexFile:
    """The file whose digests the manifest has: its columns and its proof are the provider's word then."""
    whose = f"index of tenant {index.tenant!r}: "
    file = decoded(IndexFile, evidence.index_file(window.digest, index.tenant), whose, tenant=index.tenant)
    if file.columns_digest() != index.columns_digest:
        raise Undecided(
            f"{whose}the column commitments are not those of the manifest", DELIVER_AGAIN, tenant=index.tenant
        )
    if file.opening_digest() != index.opening_digest:
        raise Undecided(
            f"{whose}the proof of opening is not the one of the manifest", DELIVER_AGAIN, tenant=index.tenant
        )
    return file
