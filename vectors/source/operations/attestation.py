# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B: requests, openings, records, receipts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from ragseal.circuits.circuit import load_classes
from ragseal.client.attestation import check_openings, check_receipt
from ragseal.kernel import (
    attestation,
    commitment,
    field,
    folding,
    opening,
    proofs,
    sealing,
)  # fmt: skip
from ragseal.kernel.attestation import Record
from ragseal.kernel.classes import Asked
from ragseal.kernel.commitment import Manifest, ScoreBases
from ragseal.kernel.opening import Opening, Relation
from ragseal.kernel.policy import Policy
from ragseal.kernel.proofs import BatchItem, ProofEntry, Statement
from ragseal.ledger.note import NoteVerifier
from vectors.source.reading import GROUP, Json, class_from, un
from vectors.source.values import number, shown


def query_digest(given: Json) -> Json:
    made = attestation.Prepare.decode(un(given["prepare"]))
    return {"digest": made.query_digest().hex()}


def ctx(given: Json) -> Json:
    return {"ctx": number(attestation.Request.decode(un(given["request"])).ctx())}


def embedding_commitment(given: Json) -> Json:
    e = given["e"]
    bases = commitment.generators(GROUP, len(e))
    return {"c_e": commitment.embedding_commitment(GROUP, bases, e, int(given["blinder"])).hex()}


def score_commitment(given: Json) -> Json:
    """C_y, and C_w by the policy."""
    bases = ScoreBases(un(given["y"]), un(given["b"]))
    c_y = attestation.score_commitment(GROUP, un(given["columns"]), bases, given["e"], int(given["rho"]))
    sum_y = GROUP.msm(bases.y, field.pack([1] * bases.capacity))
    policy = Policy.decode(un(given["policy"]))  # of documents: its class does not matter
    (c_w,) = proofs.shifted_scores(GROUP, [c_y], sum_y, policy, load_classes()["noise-tiny-two"])
    return {"c_y": c_y.hex(), "c_w": c_w.hex()}


def alpha_beta(given: Json) -> Json:
    """Of one shard's proof."""
    digests, clear = (un(given["key_digest"]), un(given["record_digest"])), [int(x) for x in given["clear"]]
    both = proofs.challenges(*digests, clear, un(given["c_w"]), un(given["committed"]))
    return {"alpha": number(both[0]), "beta": number(both[1])}


def columns_chi(given: Json) -> Json:
    key, columns = un(given["key_digest"]), un(given["columns"])
    context = commitment.columns_context(key, columns)
    return {"context": context.hex(), "chi": number(commitment.columns_batching_challenge(key, columns))}


def batch_chi(given: Json) -> Json:
    """chi of every opening of commitments, and of one tenant's link, with the weight of its shards."""
    items = []
    for one in given["items"]:
        record, committed, proof = Record.decode(un(one["record"])), un(one["committed"]), un(one["proof"])
        c_seed, beacon, ctx, *asked = (int(x) for x in one["clear"])
        statement = Statement(c_seed, beacon, ctx, Asked(tuple(asked)), record.t_commits)
        entry = ProofEntry(record.seq, record.digest(), committed, proof, un(one["c_v"]))
        items.append(BatchItem(record, record.digest(), "", statement, un(one["c_w"]), entry))
    context = proofs.batch_context(un(given["key_digest"]), un(given["manifest"]), items)
    link = proofs.link_context(context, given["tenant"], un(given["index_digest"]))
    return {
        "context": context.hex(),
        "chi": [number(opening.batching_challenge(use, context)) for use in given["uses"]],
        "link_context": link.hex(),
        "link_chi": number(opening.batching_challenge("link", link)),
        "psi": number(proofs.shard_weight(link)),
    }


def opening_challenges(given: Json) -> Json:
    """chi, c and the transcript they leave to the folding."""
    parts = [un(p) for p in given["combined"]], [un(p) for p in given["announcements"]]
    announced, c = opening._transcript(given["use"], un(given["context"]), given["size"], *parts)
    chi = opening.batching_challenge(given["use"], un(given["context"]))
    return {"chi": number(chi), "transcript": announced.hex(), "c": number(c)}


def batching_challenge(given: Json) -> Json:
    after, u = folding.advance(given["use"], un(given["transcript"]), [un(p) for p in given["points"]])
    return {"transcript": after.hex(), "u": number(u)}


def _relations(given: list[Json]) -> list[Relation]:
    out = []
    for one in given:
        slots = tuple((start, stop) for start, stop in one["slots"])
        parts = tuple(int(x) for x in one.get("parts", (1,)))
        out.append(Relation(un(one["bases"]), slots, tuple(un(c) for c in one["commitments"]), parts=parts))
    return out


def prove_opening(given: Json) -> Json:
    relations = _relations(given["relations"])
    made = opening.prove_opening(
        GROUP, given["use"], un(given["context"]), relations, un(given["witness"]), un(given["nonces"])
    )
    return {"opening": made.encode().hex()}


def check_opening(given: Json) -> Json:
    proof = Opening.decode(un(given["opening"]))
    relations = _relations(given["relations"])
    opening.verify_opening(GROUP, given["use"], un(given["context"]), relations, given["size"], proof)
    return {}


def fold(given: Json) -> Json:
    bases = [un(one) for one in given["bases"]]
    sent, final = folding.fold(GROUP, given["use"], un(given["transcript"]), bases, un(given["z"]))
    return {"points": [p.hex() for p in sent], "final": final.hex()}


def unfold(given: Json) -> Json:
    sent = [un(p) for p in given["points"]]
    shape = given["size"], given["relations"]
    coefficients, weights = folding.unfold(
        GROUP, given["use"], un(given["transcript"]), *shape, sent, un(given["final"])
    )
    return {"coefficients": coefficients.hex(), "weights": shown(weights)}


def seal(given: Json) -> Json:
    parts = (un(given[name]) for name in ("public_key", "secret", "info", "plaintext"))
    return {"sealed": sealing.seal(*parts).hex()}


def unseal(given: Json) -> Json:
    parts = (un(given[name]) for name in ("private_key", "info", "sealed"))
    return {"plaintext": sealing.unseal(*parts).hex()}


def sealed_answer(given: Json) -> Json:
    made = attestation.SealedAnswer.decode(un(given["sealed_answer"]))
    return {"answer": attestation.open_answer(made, un(given["private_key"])).encode().hex()}


def record(given: Json) -> Json:
    """A record by its account's key; what everybody derives from it."""
    made = Record.decode(un(given["record"]))
    made.signed.verify(un(given["public_key"]))
    GROUP.check(made.c_y + made.signed.request.c_e)
    request = made.signed.request
    return {
        "record_digest": made.digest().hex(),
        "request_digest": request.digest().hex(),
        "ctx": number(request.ctx()),
    }


def receipt(given: Json) -> Json:
    made = attestation.Receipt.decode(un(given["receipt"]))
    manifest, log = Manifest.decode(un(given["manifest"])), NoteVerifier.from_vkey(given["log_key"])
    openings = un(given["openings_digest"]) if "openings_digest" in given else None
    point = check_receipt(manifest, log, Record.decode(un(given["record"])), openings, made)
    return {"size": point.size, "root": point.root.hex(), "digest": made.digest().hex()}


def openings(given: Json) -> Json:
    """T and what its slots hold, against a record, the guard of the tenant's claim and the manifest's text root."""
    policy, index = Policy.decode(un(given["policy"])), commitment.TenantIndex.decode(un(given["tenant_index"]))
    rules = policy.under(index.claim or policy.claim)
    window = SimpleNamespace(cls=class_from(given["class"]), index=index, rules=rules)
    made = attestation.Openings.decode(un(given["openings"]))
    check_openings(window, Record.decode(un(given["record"])), made)  # type: ignore[arg-type]
    return {"contents": [None if slot.content is None else slot.content.encode().hex() for slot in made.slots]}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "query-digest": query_digest,
    "ctx": ctx,
    "embedding-commitment": embedding_commitment,
    "score-commitment": score_commitment,
    "alpha-beta": alpha_beta,
    "columns-chi": columns_chi,
    "batch-chi": batch_chi,
    "opening-challenges": opening_challenges,
    "fold-challenge": batching_challenge,
    "prove-opening": prove_opening,
    "opening": check_opening,
    "fold": fold,
    "unfold": unfold,
    "seal": seal,
    "unseal": unseal,
    "sealed-answer": sealed_answer,
    "record": record,
    "receipt": receipt,
    "openings": openings,
}
