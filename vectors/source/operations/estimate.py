# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase C: links, blocks, norms."""

from __future__ import annotations

from collections.abc import Callable

from ragseal.groth16.views import EstimateView
from ragseal.kernel import certificate, commitment, link_list, squarednorm  # fmt: skip
from ragseal.kernel.certificate import BlockBatch, BlockProof, Scope
from ragseal.kernel.estimate import reach_of
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.link_list import Listing, TenantLinks
from ragseal.kernel.policy import Policy
from ragseal.kernel.squarednorm import NormStatement, SquaredNorm
from vectors.source.reading import GROUP, Json, un, verifying_key_of
from vectors.source.values import number, shown


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
    """``times``: what each of the tenant's records states."""
    policy = Policy.decode(un(given["policy"]))
    return Scope(
        CLASSES[given["estimate_class"]], un(given["key_digest"]), un(given["manifest"]), un(given["links_digest"]),
        given["tenant"], policy, reach_of(given["times"], policy.tau, policy.tau_time),
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
    key = EstimateView(scope.cls, verifying_key_of(un(given["key"])))
    c_e, listing = [un(one) for one in given["c_e"]], _listing(given)
    blocks = [certificate.make_block(scope, ranks, c_e, listing) for ranks in given["blocks"]]
    bases = commitment.generators(GROUP, scope.policy.dimension)
    certificate.verify_blocks(GROUP, key, bases, scope, blocks, BlockBatch.decode(un(given["batch"])))
    return {}


def records_digest(given: Json) -> Json:
    return {"digest": link_list.records_digest([un(one) for one in given["records"]]).hex()}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "prove-squared-norm": prove_squared_norm,
    "squared-norm": squared_norm,
    "block": block,
    "blocks-chi": blocks_chi,
    "block-batch": block_batch,
    "records-digest": records_digest,
}
