# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase D, and the log that it reads."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from ragseal.accounting.audit import full_bound, reported_bound, topk_bounds
from ragseal.kernel import estimate, noise
from ragseal.kernel.errors import AttestationError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.merkle import MerkleTree, leaf_hash, verify_consistency, verify_inclusion
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.receipt import InclusionBundle
from ragseal.ledger.witness import check_growth
from ragseal.verifier.steps import blocks as block_sampling
from ragseal.verifier.steps import sample as record_sampling
from vectors.source.reading import Json, un
from vectors.source.replay import replayed


def merkle_root(given: Json) -> Json:
    return {"root": MerkleTree([un(one) for one in given["entries"]]).root().hex()}


def inclusion(given: Json) -> Json:
    path = [un(one) for one in given["path"]]
    verify_inclusion(leaf_hash(un(given["entry"])), given["index"], given["size"], path, un(given["root"]))
    return {}


def consistency(given: Json) -> Json:
    path = [un(one) for one in given["path"]]
    verify_consistency(given["old"], given["new"], path, un(given["old_root"]), un(given["new_root"]))
    return {}


def checkpoint(given: Json) -> Json:
    witnesses = [NoteVerifier.from_vkey(one) for one in given["witnesses"]]
    found = open_checkpoint(given["note"].encode(), NoteVerifier.from_vkey(given["log_key"]), witnesses)
    point = found.checkpoint
    cosigned = [[one.verifier.name, one.time] for one in found.witnesses]
    return {"origin": point.origin, "size": point.size, "root": point.root.hex(), "cosigned": cosigned}


def growth(given: Json) -> Json:
    log = NoteVerifier.from_vkey(given["log_key"])
    older, newer = (open_checkpoint(given[name].encode(), log) for name in ("older", "newer"))
    check_growth(older, newer, [un(one) for one in given["path"]])
    return {}


def proof_file(given: Json) -> Json:
    """A .tlog-proof file about an entry."""
    made = InclusionBundle.from_text(given["file"].encode())
    made.verify(un(given["entry"]), NoteVerifier.from_vkey(given["log_key"]))
    return {"bytes": made.encode().hex()}


def sampled_records(given: Json) -> Json:
    """``records``: (seq, tenant) of each."""
    record_sampling.Sample(given["size"])
    known = [SimpleNamespace(record=SimpleNamespace(seq=seq), tenant=tenant) for seq, tenant in given["records"]]
    parts = (un(given[name]) for name in ("nonce", "root", "manifest"))
    drawn = record_sampling.draw(known, given["size"], *parts)  # type: ignore[arg-type]
    return {"seqs": [one.record.seq for one in drawn]}


def sample_size(given: Json) -> Json:
    """``sizes``: records by tenant.  How many catch the share, and how many bad ones may be left all the same."""
    sure = record_sampling.confidence_of(given["confidence"])
    share = record_sampling.share_of(given["detect"])
    size = record_sampling.size_to_detect(given["sizes"], share, sure)
    taken = record_sampling.shares(given["sizes"], size)
    strata = [(given["sizes"][tenant], count) for tenant, count in taken.items()]
    return {"size": size, "taken": taken, "undetected": record_sampling.largest_undetected(strata, sure)}


def sampled_blocks(given: Json) -> Json:
    block_sampling.Effort(sampled=given["count"])
    seed = block_sampling.seed_of(tuple(un(part) for part in given["seed_parts"]))
    drawn = block_sampling.sampled_blocks(given["records"], given["tau"], given["n"], given["count"], seed)
    return {"seed": seed.hex(), "blocks": [list(ranks) for ranks in drawn]}


def full_blocks(given: Json) -> Json:
    """``times``: what each record states; no ``blocks``: more than ``most``."""
    reach = estimate.reach_of(given["times"], given["tau"], given["tau_time"])
    made = estimate.full_blocks(reach, given["n"], given["most"])
    return {"blocks": None if made is None else [list(ranks) for ranks in made]}


def epsilon(given: Json) -> Json:
    """The accountants of D.14."""
    table, n, delta, shift = noise.build_table(given["law"]), given["n"], given["delta"], given["shift"]
    bounds = (full_bound(table, shift, n, delta), *topk_bounds(table, given["N"], given["K"], shift, n, delta))
    best = reported_bound(bounds)
    certified = {bound.accountant: bound.certified for bound in bounds}
    return {"bounds": certified, "accountant": best.accountant, "reported": best.epsilon}


def audit(given: Json) -> Json:
    verdict = replayed(given)
    if not verdict.passed:
        raise AttestationError(verdict.line())
    return {"line": verdict.line(), "steps": [step.status for step in verdict.steps]}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "merkle-root": merkle_root,
    "inclusion": inclusion,
    "consistency": consistency,
    "checkpoint": checkpoint,
    "growth": growth,
    "proof-file": proof_file,
    "sampled-records": sampled_records,
    "sample-size": sample_size,
    "sampled-blocks": sampled_blocks,
    "full-blocks": full_blocks,
    "epsilon": epsilon,
    "audit": audit,
}
