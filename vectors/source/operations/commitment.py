# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A: beacon, accounts, indices, keys."""

from __future__ import annotations

from collections.abc import Callable

from ragseal.backends.native import native_errors
from ragseal.kernel import beacon, commitment
from ragseal.kernel.commitment import Account, IndexFile, ScoreBases
from ragseal.kernel.opening import Opening
from ragseal.kernel.slot_text import SlotText
from ragseal.ledger.merkle import MerkleTree
from vectors.source.reading import GROUP, Json, un, verifying_key_of
from vectors.source.values import number


def beacon_commitment(given: Json) -> Json:
    return {"commitment": beacon.beacon_commitment(given["owner"], un(given["nonce"])).hex()}


def beacon_value(given: Json) -> Json:
    nonces = [(owner, un(nonce)) for owner, nonce in given["openings"]]
    return {"beacon": number(beacon.beacon_value(un(given["manifest"]), nonces))}


def pseudonym(given: Json) -> Json:
    return {"pseudonym": Account.decode(un(given["account"])).pseudonym}


def registry(given: Json) -> Json:
    leaves = commitment.registry_leaves([Account.decode(un(one)) for one in given["accounts"]])
    return {"root": MerkleTree(leaves).root().hex()}


def text_leaf(given: Json) -> Json:
    content = None if given["content"] is None else SlotText.decode(un(given["content"]))
    return {"leaf": commitment.text_leaf(un(given["salt"]), given["slot"], content).hex()}


def columns_digest(given: Json) -> Json:
    return {"digest": IndexFile(un(given["columns"]), Opening((), (), ())).columns_digest().hex()}


def index_file(given: Json) -> Json:
    """C_idx: columns in the span of the score bases, under this key's digest."""
    bases = ScoreBases(un(given["y"]), un(given["b"]))
    file = IndexFile.decode(un(given["index_file"]))
    commitment.verify_columns(GROUP, bases, un(given["key_digest"]), given["dimension"], file)
    return {"columns_digest": file.columns_digest().hex(), "opening_digest": file.opening_digest().hex()}


def verifying_key(given: Json) -> Json:
    key = verifying_key_of(un(given["bytes"]))
    return {"public_inputs": key.n_public, "digest": bytes(key.digest()).hex()}


def groth16(given: Json) -> Json:
    key = verifying_key_of(un(given["key"]))
    with native_errors():
        key.verify(un(given["proof"]), un(given["clear"]), un(given["commitments"]))
    return {}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "beacon-commitment": beacon_commitment,
    "beacon": beacon_value,
    "pseudonym": pseudonym,
    "registry": registry,
    "text-leaf": text_leaf,
    "columns-digest": columns_digest,
    "index-file": index_file,
    "verifying-key": verifying_key,
    "groth16": groth16,
}
