# SPDX-License-Identifier: GPL-3.0-or-later
"""What a vector's ``operation`` is: input to output by this implementation, or an AuditError.

vectors/README.md has the table of them.  Everything here only reads JSON and calls the product.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ragseal.accounting.audit import full_bound, reported_bound, topk_bounds
from ragseal.backends import poseidon
from ragseal.backends.group import default_group
from ragseal.backends.native import available, native, native_errors
from ragseal.client.attestation import check_openings, check_receipt
from ragseal.embedder.interface import EmbedderIdentity
from ragseal.groth16.verifying_key import VerifyingKey
from ragseal.groth16.views import EstimateView
from ragseal.kernel import (
    attestation,
    certificate,
    commitment,
    field,
    folding,
    mechanism,
    noise,
    opening,
    overflow,
    sealing,
    signature,
    squarednorm,
    statement,
    transcript,
)  # fmt: skip
from ragseal.kernel import poseidon as reference
from ragseal.kernel.attestation import BatchItem, ProofEntry, Record, SignedRequest, Statement
from ragseal.kernel.certificate import CLASSES, BlockBatch, BlockProof, Listing, Scope, SignedLinks, TenantLinks
from ragseal.kernel.commitment import Account, BeaconCommit, BeaconSeal, IndexFile, Manifest, ScoreBases, SignedManifest
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.inquiry import ASKS, Delivery, Refusal, open_delivery
from ragseal.kernel.opening import Opening, Relation
from ragseal.kernel.params import CircuitClass, class_from_mapping
from ragseal.kernel.policy import Policy
from ragseal.kernel.publickey import check_public_key
from ragseal.kernel.squarednorm import NormStatement, SquaredNorm
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.merkle import MerkleTree, leaf_hash, verify_consistency, verify_inclusion
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.receipt import InclusionBundle
from ragseal.ledger.witness import check_growth
from ragseal.verifier.steps import blocks as block_sampling
from ragseal.verifier.steps import sample as record_sampling
from vectors.source.values import number, shown

Json = dict[str, Any]
GROUP = default_group()
un = bytes.fromhex

PRIVATE = {"account-name", "exchange", "query-secrets"}  #: files of one program, which nobody else reads


def public_kinds() -> dict[str, type[Message]]:
    """Every message that is hashed, signed or sent, by its tag."""

    def below(kind: type[Message]) -> list[type[Message]]:
        return [found for child in kind.__subclasses__() for found in (child, *below(child))]

    # a dataclass with slots leaves a second class of the same name behind: the module's own is the one in use
    kinds = [kind for kind in below(Message) if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind]
    kinds = [kind for kind in kinds if "TAG" in kind.__dict__ and kind.__module__.startswith("ragseal.")]
    return {kind.TAG: kind for kind in kinds if kind.TAG not in PRIVATE}


def _read(tag: str, data: str) -> Any:
    return public_kinds()[tag].decode(un(data))


def _class(given: Json) -> CircuitClass:
    return class_from_mapping(given)


# --- G ---------------------------------------------------------------------------------------------------------------


def message(given: Json) -> Json:
    made = _read(given["tag"], given["bytes"])
    assert made.encode() == un(given["bytes"])
    return {"fields": shown(made)}


def tagged_hash(given: Json) -> Json:
    parts = [un(part) for part in given["parts"]]
    return {
        "digest": transcript.tagged_hash(given["tag"], *parts).hex(),
        "element": number(transcript.tagged_element(given["tag"], *parts)),
        "challenge": number(transcript.challenge(given["tag"], *parts)),
    }


#: label of the hash that identifies a message of this tag, and how the product computes it
DIGESTS: dict[str, tuple[str, Callable[[Any], bytes]]] = {
    "manifest": ("manifest", lambda m: m.digest()),
    "tenant-index": ("index-version", lambda m: m.digest()),
    "folded-opening": ("columns-opening", lambda m: IndexFile(b"", m).opening_digest()),
    "embedder": ("embedder", EmbedderIdentity.digest),
    "request": ("request", lambda m: m.digest()),
    "record": ("record", lambda m: m.digest()),
    "openings": ("openings", lambda m: m.digest()),
    "receipt": ("receipt", lambda m: m.digest()),
    "link-list": ("link-list", lambda m: m.digest()),
    **{kind.TAG: ("ask", lambda m: m.digest()) for kind in ASKS},
}


def message_digest(given: Json) -> Json:
    label, compute = DIGESTS[given["tag"]]
    return {"label": label, "digest": compute(_read(given["tag"], given["bytes"])).hex()}


def public_key(given: Json) -> Json:
    check_public_key(un(given["key"]))
    return {}


def seal_key(given: Json) -> Json:
    sealing.check_seal_key(un(given["key"]))
    return {}


def log_key(given: Json) -> Json:
    key = NoteVerifier.from_vkey(given["vkey"])
    found = {"name": key.name, "key_id": key.key_id, "algorithm": key.algorithm, "public_key": key.public_key}
    return {name: shown(value) for name, value in found.items()}


def signed(given: Json) -> Json:
    signature.verify(un(given["public_key"]), given["purpose"], un(given["body"]), un(given["signature"]))
    return {}


def signed_message(given: Json) -> Json:
    """A message that carries its signature; what exactly is signed, and for which purpose."""
    made, key = _read(given["tag"], given["bytes"]), un(given["public_key"])
    match made:
        case SignedManifest():
            made.verify()
            purpose, body = "manifest", made.manifest.encode()
        case SignedRequest():
            made.verify(key)
            purpose, body = "request", made.request.encode()
        case BeaconCommit():
            made.verify()
            purpose, body = "beacon-commit", made.body()
        case BeaconSeal():
            purpose, body = "beacon-seal", made.body()
            signature.verify(key, purpose, body, made.signature)
        case attestation.Receipt():
            made.verify(key)
            purpose, body = "receipt", made.body.encode()
        case SignedLinks():
            made.verify(key)
            purpose, body = "links", made.body.encode()
        case Delivery():
            open_delivery(un(given["bytes"]), _read(given["ask_tag"], given["ask"]), key)
            purpose, body = "delivery", made.body(made.ask, made.payload)
        case Refusal():
            open_delivery(un(given["bytes"]), _read(given["ask_tag"], given["ask"]), key)
            purpose, body = "refusal", made.body(made.ask, made.reason)
        case _:
            raise AssertionError(f"{made.TAG} carries no signature")
    return {"purpose": purpose, "body": body.hex()}


def ask(given: Json) -> Json:
    made = _read(given["tag"], given["bytes"])
    made.verify(un(given["public_key"]), un(given["signature"]), given["now"])
    return {"digest": made.digest().hex()}


def retrieval(given: Json) -> Json:
    made = SignedRequest.decode(un(given["signed_request"]))
    made.verify_retrieval(un(given["public_key"]), un(given["signature"]))
    return {}


# --- points, Poseidon ------------------------------------------------------------------------------------------------


def points(given: Json) -> Json:
    GROUP.check(un(given["points"]))
    return {}


def msm(given: Json) -> Json:
    return {"point": GROUP.msm(un(given["points"]), un(given["scalars"])).hex()}


def generators(given: Json) -> Json:
    return {"points": GROUP.hash_to_curve(given["domain"].encode(), given["count"]).hex()}


def fold_points(given: Json) -> Json:
    return {"points": GROUP.fold(un(given["points"]), int(given["u"])).hex()}


def poseidon_hash(given: Json) -> Json:
    """Natively where that is installed: constants of a width take the reference half a second."""
    return {"hash": field.to_bytes(poseidon.poseidon(*field.unpack(un(given["inputs"])))).hex()}


def poseidon_permutation(given: Json) -> Json:
    state = field.unpack(un(given["state"]))
    if not available():
        return {"state": field.pack(reference.permute(state)).hex()}
    with native_errors():
        return {"state": b"".join(native.poseidon_permute([field.to_bytes(x) for x in state])).hex()}


def seed_commitment(given: Json) -> Json:
    return {"c_seed": number(statement.seed_commitment(field.limbs(un(given["seed"]))))}


def noise_key(given: Json) -> Json:
    seed = field.limbs(un(given["seed"]))
    return {"key": number(mechanism.noise_key(seed, int(given["beacon"]), int(given["ctx"])))}


def places_commitment(given: Json) -> Json:
    cls = _class(given["class"])
    returned = [statement.Returned(slot, flag) for slot, flag in zip(given["ids"], given["flags"], strict=True)]
    packed = statement.pack_returned(cls, returned)
    t_commit = statement.places_commitment(cls, int(given["salt"]), returned)
    return {"packed": shown(packed), "t_commit": number(t_commit)}


# --- mechanism -------------------------------------------------------------------------------------------------------


def noise_table(given: Json) -> Json:
    table = noise.build_table(given["law"])
    inverse = [table.inverse(int(uniform)) for uniform in given["uniforms"]]
    masses = [number(table.mass(x)) for x in given["at"]]
    return {"cut": table.cut, "masses": masses, "inverse": inverse, "digest": table.digest().hex()}


def noise_masses(given: Json) -> Json:
    """p(0), p(1), ..., p(C), 16 bytes each, as the digest covers them."""
    table = noise.build_table(given["law"])
    return {"half": b"".join(p.to_bytes(16, "big") for p in table.half).hex(), "digest": table.digest().hex()}


def check_noise_table(given: Json) -> Json:
    table = noise.NoiseTable(given["law"], tuple(int(p) for p in given["half"]))
    noise.check_table(table)
    return {"canonical": table.canonical_bytes().hex(), "digest": table.digest().hex()}


def row_noise(given: Json) -> Json:
    """u, dither and z_b of every slot."""
    cls, key = _class(given["class"]), int(given["key"])
    elements = mechanism.coarse_elements(cls, key)
    u = [(x >> (cls.m * j)) & ((1 << cls.m) - 1) for x in elements for j in range(cls.q)]
    opened = [mechanism.exact_noise(cls, one, mechanism.fine_element(key, slot)) for slot, one in enumerate(u)]
    return {
        "elements": shown(elements),
        "u": u,
        "dither": [dither for _, dither, _ in opened],
        "z_b": [z for *_, z in opened],
        "z": [(z << cls.s) + dither for _, dither, z in opened],
    }


def slot_noise(given: Json) -> Json:
    fine, dither, z = mechanism.exact_noise(_class(given["class"]), given["u"], int(given["element"]))
    return {"fine": number(fine), "dither": dither, "z_b": z}


def select(given: Json) -> Json:
    cls = _class(given["class"])
    found = mechanism.select(cls, int(given["key"]), given["w"], given["hmax"])
    return {
        "grid": overflow.grid_size(cls, noise.build_table(cls.law)),
        "places": [place.slot for place in found.places],
        "threshold": found.threshold,
        "threshold_slot": found.threshold_slot,
        "theta": found.theta,
        "ids": list(found.ids),
        "flags": [one.flag for one in found.returned],
    }


# --- A ---------------------------------------------------------------------------------------------------------------


def beacon_commitment(given: Json) -> Json:
    return {"commitment": commitment.beacon_commitment(given["owner"], un(given["nonce"])).hex()}


def beacon_value(given: Json) -> Json:
    nonces = [(owner, un(nonce)) for owner, nonce in given["openings"]]
    return {"beacon": number(commitment.beacon_value(un(given["manifest"]), nonces))}


def pseudonym(given: Json) -> Json:
    return {"pseudonym": Account.decode(un(given["account"])).pseudonym}


def registry(given: Json) -> Json:
    leaves = commitment.registry_leaves([Account.decode(un(one)) for one in given["accounts"]])
    return {"root": MerkleTree(leaves).root().hex()}


def text_leaf(given: Json) -> Json:
    text = None if given["text"] is None else given["text"].encode()
    return {"leaf": commitment.text_leaf(un(given["salt"]), given["slot"], text).hex()}


def columns_digest(given: Json) -> Json:
    return {"digest": IndexFile(un(given["columns"]), Opening((), (), ())).columns_digest().hex()}


def index_file(given: Json) -> Json:
    """C_idx: columns in the span of the score bases, under this key's digest."""
    bases = ScoreBases(un(given["y"]), un(given["b"]))
    file = IndexFile.decode(un(given["index_file"]))
    commitment.verify_columns(GROUP, bases, un(given["key_digest"]), given["dimension"], file)
    return {"columns_digest": file.columns_digest().hex(), "opening_digest": file.opening_digest().hex()}


def verifying_key(given: Json) -> Json:
    key = _verifying_key(un(given["bytes"]))
    return {"public_inputs": key.n_public, "digest": bytes(key.digest()).hex()}


def _verifying_key(data: bytes) -> Any:
    if not available():
        return VerifyingKey.from_bytes(data)
    with native_errors():
        return native.VerifyingKey.from_bytes(data)


def groth16(given: Json) -> Json:
    key = _verifying_key(un(given["key"]))
    with native_errors():
        key.verify(un(given["proof"]), un(given["clear"]), un(given["commitments"]))
    return {}


# --- B ---------------------------------------------------------------------------------------------------------------


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
    c_w = attestation.shifted_scores(GROUP, c_y, sum_y, Policy.decode(un(given["policy"])))
    return {"c_y": c_y.hex(), "c_w": c_w.hex()}


def _statement(given: list[Any]) -> Statement:
    return Statement(*(int(x) for x in given))


def alpha_beta(given: Json) -> Json:
    digests = un(given["key_digest"]), un(given["record_digest"])
    both = attestation.challenges(*digests, _statement(given["clear"]), un(given["c_w"]), un(given["c_h"]))
    return {"alpha": number(both[0]), "beta": number(both[1])}


def columns_chi(given: Json) -> Json:
    key, columns = un(given["key_digest"]), un(given["columns"])
    context = commitment.columns_context(key, columns)
    return {"context": context.hex(), "chi": number(commitment.columns_batching_challenge(key, columns))}


def batch_chi(given: Json) -> Json:
    """chi of the hints and of one tenant's link."""
    items = []
    for one in given["items"]:
        record, c_h, proof = Record.decode(un(one["record"])), un(one["c_h"]), un(one["proof"])
        entry = ProofEntry(record.seq, record.digest(), c_h, proof)
        items.append(BatchItem(record, record.digest(), "", _statement(one["clear"]), un(one["c_w"]), entry))
    context = attestation.batch_context(un(given["key_digest"]), un(given["manifest"]), items)
    link = attestation.link_context(context, given["tenant"], un(given["index_digest"]))
    return {
        "context": context.hex(),
        "chi": number(opening.batching_challenge("hints", context)),
        "link_context": link.hex(),
        "link_chi": number(opening.batching_challenge("link", link)),
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
        out.append(Relation(un(one["bases"]), slots, tuple(un(c) for c in one["commitments"])))
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
    """T and its texts against a record and the manifest's text root."""
    window = SimpleNamespace(cls=_class(given["class"]), index=commitment.TenantIndex.decode(un(given["tenant_index"])))
    made = attestation.Openings.decode(un(given["openings"]))
    check_openings(window, Record.decode(un(given["record"])), made)  # type: ignore[arg-type]
    return {"texts": [slot.text for slot in made.slots]}


# --- C ---------------------------------------------------------------------------------------------------------------


def _norm_statement(given: Json) -> NormStatement:
    return NormStatement(*(un(given[name]) for name in ("generators", "s", "b", "vector", "square")))


def prove_squared_norm(given: Json) -> Json:
    made = squarednorm.prove_squared_norm(
        GROUP, un(given["context"]), _norm_statement(given), un(given["witness"]), int(given["blinder"]),
        un(given["nonces"]),
    )  # fmt: skip
    return {"proof": made.encode().hex()}


def squared_norm(given: Json) -> Json:
    proof = SquaredNorm.decode(un(given["proof"]))
    squarednorm.verify_squared_norm(GROUP, un(given["context"]), _norm_statement(given), proof)
    return {}


def _scope(given: Json) -> Scope:
    return Scope(
        CLASSES[given["estimate_class"]], un(given["key_digest"]), un(given["manifest"]), un(given["links_digest"]),
        given["tenant"], Policy.decode(un(given["policy"])),
    )  # fmt: skip


def _listing(given: Json) -> Listing:
    return TenantLinks.decode(un(given["links"])).listing()


def block(given: Json) -> Json:
    """A block's statement and challenges."""
    scope = _scope(given)
    made = certificate.make_block(scope, given["ranks"], [un(one) for one in given["c_e"]], _listing(given))
    digest = certificate.block_digest(scope, made, un(given["c_g"]))
    r = certificate.block_challenges(scope, made, digest)
    return {
        "signs": list(made.signs),
        "digest": digest.hex(),
        "r": shown(r),
        "norm_context": certificate.norm_context(digest).hex(),
        "clear": shown(certificate.clear_inputs(scope, made, r)),
    }


def blocks_chi(given: Json) -> Json:
    proofs = [BlockProof.decode(un(one)) for one in given["blocks"]]
    context = certificate.batch_context([un(one) for one in given["digests"]], proofs)
    return {"context": context.hex(), "chi": number(certificate.batch_fold(context))}


def block_batch(given: Json) -> Json:
    scope = _scope(given)
    key = EstimateView(scope.cls, _verifying_key(un(given["key"])))
    c_e, listing = [un(one) for one in given["c_e"]], _listing(given)
    blocks = [certificate.make_block(scope, ranks, c_e, listing) for ranks in given["blocks"]]
    bases = commitment.generators(GROUP, scope.policy.dimension)
    certificate.verify_blocks(GROUP, key, bases, scope, blocks, BlockBatch.decode(un(given["batch"])))
    return {}


def records_digest(given: Json) -> Json:
    return {"digest": certificate.records_digest([un(one) for one in given["records"]]).hex()}


# --- D and the log ---------------------------------------------------------------------------------------------------


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


def sampled_blocks(given: Json) -> Json:
    block_sampling.Effort(sampled=given["count"])
    seed = block_sampling.seed_of(tuple(un(part) for part in given["seed_parts"]))
    drawn = block_sampling.sampled_blocks(given["records"], given["tau"], given["n"], given["count"], seed)
    return {"seed": seed.hex(), "blocks": [list(ranks) for ranks in drawn]}


def full_blocks(given: Json) -> Json:
    return {"blocks": [list(ranks) for ranks in block_sampling.full_blocks(given["records"], given["tau"], given["n"])]}


def epsilon(given: Json) -> Json:
    """The accountants of D.14."""
    table, n, delta, shift = noise.build_table(given["law"]), given["n"], given["delta"], given["shift"]
    bounds = (full_bound(table, shift, n, delta), *topk_bounds(table, given["N"], given["K"], shift, n, delta))
    best = reported_bound(bounds)
    certified = {bound.accountant: bound.certified for bound in bounds}
    return {"bounds": certified, "accountant": best.accountant, "reported": best.epsilon}


def audit(given: Json) -> Json:
    from vectors.source.replay import replayed  # the whole verifier: only who replays a window pays for it

    verdict = replayed(given)
    if not verdict.passed:
        raise AttestationError(verdict.line())
    return {"line": verdict.line(), "steps": [step.status for step in verdict.steps]}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "message": message, "tagged-hash": tagged_hash, "message-digest": message_digest, "public-key": public_key,
    "seal-key": seal_key, "log-key": log_key, "signature": signed, "signed-message": signed_message, "ask": ask,
    "retrieval": retrieval,
    "points": points, "msm": msm, "generators": generators, "fold-points": fold_points, "poseidon": poseidon_hash,
    "poseidon-permutation": poseidon_permutation, "seed-commitment": seed_commitment, "noise-key": noise_key,
    "places-commitment": places_commitment,
    "noise-table": noise_table, "noise-masses": noise_masses, "check-noise-table": check_noise_table,
    "row-noise": row_noise, "slot-noise": slot_noise, "select": select,
    "beacon-commitment": beacon_commitment, "beacon": beacon_value, "pseudonym": pseudonym, "registry": registry,
    "text-leaf": text_leaf, "columns-digest": columns_digest, "index-file": index_file,
    "verifying-key": verifying_key, "groth16": groth16,
    "query-digest": query_digest, "ctx": ctx, "embedding-commitment": embedding_commitment,
    "score-commitment": score_commitment, "alpha-beta": alpha_beta, "columns-chi": columns_chi,
    "batch-chi": batch_chi, "opening-challenges": opening_challenges, "fold-challenge": batching_challenge,
    "prove-opening": prove_opening, "opening": check_opening, "fold": fold, "unfold": unfold, "seal": seal,
    "unseal": unseal, "sealed-answer": sealed_answer, "record": record, "receipt": receipt, "openings": openings,
    "prove-squared-norm": prove_squared_norm, "squared-norm": squared_norm, "block": block, "blocks-chi": blocks_chi,
    "block-batch": block_batch, "records-digest": records_digest,
    "merkle-root": merkle_root, "inclusion": inclusion, "consistency": consistency, "checkpoint": checkpoint,
    "growth": growth, "proof-file": proof_file, "sampled-records": sampled_records, "sampled-blocks": sampled_blocks,
    "full-blocks": full_blocks, "epsilon": epsilon, "audit": audit,
}  # fmt: skip
