# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks that the attacks are stopped by, each with the way to take exactly it away.

A test of an attack shows both: with every check in place the forged evidence is refused, and with the one check that it
names removed the same evidence is accepted.  ``python -m tests.attacks.liveness`` removes them one by one for the whole
suite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from ragseal.accounting import answers
from ragseal.accounting.claims import until_delivered
from ragseal.backends.group import NativeGroup
from ragseal.client import attestation as client
from ragseal.client import exchanges, history
from ragseal.client import witnesses as client_witnesses
from ragseal.groth16 import relations
from ragseal.groth16.views import EstimateView
from ragseal.kernel import (
    attestation,
    certificate,
    encoding,
    field,
    folding,
    link_list,
    noise_stated,
    opening,
)
from ragseal.kernel import commitment as phase_a
from ragseal.kernel import policy as kernel_policy
from ragseal.kernel import proofs as batches
from ragseal.kernel import verdict as verdict_messages
from ragseal.kernel.claims import below
from ragseal.kernel.decoys import stated as decoys_stated
from ragseal.kernel.enrolment import Enrolment
from ragseal.kernel.estimate import reach_of
from ragseal.kernel.params import R
from ragseal.kernel.policy import Policy
from ragseal.kernel.proofs import ProofBatch
from ragseal.kernel.verdict import Claimed
from ragseal.ledger import auditors, cosignatures, observer, policy, witness
from ragseal.prover.attestation import answering as provider
from ragseal.prover.attestation import proofs as worker_proofs
from ragseal.prover.attestation import statements
from ragseal.prover.attestation.admission import Admission
from ragseal.prover.attestation.prepared_embedding import EmbeddingCommitter
from ragseal.prover.storage import audit_verdicts
from ragseal.prover.storage.window import Window
from ragseal.prover.workers import by_workers
from ragseal.verifier.audit import findings, verification
from ragseal.verifier.cli import audit_command
from ragseal.verifier.folder import verdicts as kept_verdicts
from ragseal.verifier.signed import log as verdict_log
from ragseal.verifier.steps import (
    beacon,
    coins,
    epsilon,
    estimate,
    index,
    lifespan,
    log,
    manifest,
    period,
    proofs,
    receipts,
    records,
    versions,
    witnesses,
)
from ragseal.verifier.steps.records import LoggedRecord
from tests.attacks import ceremony_checks, index_checks, turn_checks
from tests.attacks.ceremony_checks import *  # noqa: F403 - their names are looked for in tests
from tests.attacks.index_checks import *  # noqa: F403 - likewise
from tests.attacks.removal import Both, Check, Guard, Removable, no_wait
from tests.attacks.turn_checks import *  # noqa: F403 - likewise
from tests.simulator import World, account

# --- step 8: proofs and openings -------------------------------------------------------------------------------------

_verify_opening = batches.verify_opening


def all_but(*uses: str) -> Check:
    """Every opening of a batch but those of these uses."""

    def verify(group: Any, asked: str, *rest: Any) -> None:
        if asked not in uses:
            _verify_opening(group, asked, *rest)

    return Check(batches, "verify_opening", verify)


OPENED = {
    use: all_but(use)
    for use in (
        noise_stated.HINTS, noise_stated.THRESHOLDS, decoys_stated.MEMBERS, decoys_stated.BEHIND, decoys_stated.COUNTS,
        decoys_stated.LISTS,
    )
}  # fmt: skip
HINTS, THRESHOLDS = OPENED[noise_stated.HINTS], OPENED[noise_stated.THRESHOLDS]
OPENINGS = Check(batches, "verify_committed")
LINK = Check(batches, "verify_link")
RECORD_SHARDS = Guard(records, "_placed", "it commits to scores of")
EMBEDDING_CHECKED = Guard(records, "_placed", "its account did not check the embedding")
HISTOGRAMS = Check(batches, "verify_histograms")
_check_batch = proofs.check_batch
_advance = folding.advance


def _whatever_was_delivered(basis: Any, part: Sequence[LoggedRecord], batch: ProofBatch, *later: Any) -> None:
    """A batch taken for the records that it names."""
    known = {one.digest: one for one in part}
    _check_batch(basis, [known[entry.record_digest] for entry in batch.entries], batch, *later)


EXACT = Check(proofs, "check_batch", _whatever_was_delivered)
COLUMNS = Check(index, "verify_columns")
PAIRING = Check(proofs, "_pairings")


def _reduced(x: int) -> bytes:
    """An element taken modulo r."""
    return (x % R).to_bytes(32, "big")


def _not_hashed(use: str, transcript: bytes, points: Sequence[bytes]) -> tuple[bytes, int]:
    """A challenge of a round that does not depend on the round's L and R; of hints, as columns are opened before."""
    return _advance(use, transcript, () if use == "hints" else points)


class _Anything:
    """Equal to every point."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__


FOLDS_HASHED = Check(folding, "advance", _not_hashed)
POINTS_ON_THE_CURVE = Check(NativeGroup, "check")
REQUEST_SIGNED = Check(attestation.SignedRequest, "verify")
CLIENT_OPENS_C_E = Check(client, "embedding_commitment", lambda *_: _Anything())

ELEMENTS_BELOW_R = Both(
    (Guard(encoding.Element, "read", "not canonical"), Guard(encoding.Element, "write", "expected a field element"))
)
RESPONSES_CANONICAL = Both((ELEMENTS_BELOW_R, Check(field, "to_bytes", _reduced)))

KEY_POINTS_RELATED = Guard(relations, "check_relations", "small multiples of each other")
KEY_POINTS_ALIKE = Guard(relations, "check_relations", "holds for other")

# --- the provider's own: proofs by workers ---------------------------------------------------------------------------

WORKER_PROOF = Check(statements.ShardProving, "check")
WORKER_OPENING = Check(by_workers.ByWorkers, "_check")
STOPPED_MEANWHILE = Check(worker_proofs.Proofs, "_require_working")

# --- step 1: the log -------------------------------------------------------------------------------------------------

ENTRIES_HASH_TO_ROOT = Guard(log, "read_tree", "do not hash to the signed root")
LOG_COMPLETE = Guard(log, "read_tree", "the log gave")
LOG_EXTENDS = Both((
    Guard(log.LogTree, "extends", "the log was forked"), Check(verification, "one_history"),
    Check(findings, "one_history"),
))  # fmt: skip
LOG_GROWS = Guard(log.LogTree, "extends", "_stale(")
OBSERVER_CONSISTENCY = Both((Check(observer, "check_growth"), Check(witness, "check_growth")))
WITNESS_GROWTH = Check(witness, "check_growth")
WITNESS_LINE = Check(cosignatures.NoteVerifier, "verify", lambda *_: 1000)
QUORUM = Check(policy.Policy, "reached_by", lambda *_: True)
CLIENT_TO_THE_OPENING = Guard(client_witnesses.Witnesses, "check", "a quorum of witnesses cosigned")
AUDIT_TO_THE_CLOSE = Guard(witnesses, "check_witnessed", "the window ends with entry")
FETCHED_SIGNED = Guard(client, "check_own", "its key has not signed")
FETCHED_NEXT = Guard(client, "check_own", "was asked for request")
FETCHED_CHAIN = Guard(client, "check_own", "acknowledges a receipt different")
FETCHED_FIRST = Guard(exchanges.Exchanges, "begin", "BehindError(reply")
FETCHED_BY_ITS_ACCOUNT = Check(attestation.AnswerAsk, "verify")
FETCHED_AT_A_RATE = Guard(provider.Attestation, "_paid", "_unpaid")
FETCHED_WHILE_KEPT = Guard(provider.Attestation, "_paid", "require_kept")
ONE_HISTORY_OF_AN_ACCOUNT = Check(history, "verify_consistency")
OBSERVER_HASHES = Guard(observer.Observer, "_rehash", "signed other entries before")

# --- windows of the claim answers ------------------------------------------------------------------------------------

CLAIM_OF_OPENINGS = Check(attestation.Openings, "check_claim")
KEYWORDS_ALONE = Check(attestation, "check_keywords")
READ_FROM = Check(Policy, "read_from", lambda self, root: root)
ANSWERS_ALONE = Guard(answers, "answers_period", "make a claim other than")

# --- step 2: the window ----------------------------------------------------------------------------------------------

MANIFEST_OF_THE_LOG = Guard(manifest, "check_face", "different from the one in the log")
WINDOW_NAME_ONCE = Guard(manifest, "_never_seen", "it was opened again")
SEED_ONCE = Guard(manifest, "_never_seen", "the seed commitment was used")
OPENED_ONCE = Guard(lifespan, "check_life", "the window was opened {len(opens)} times")
NO_OVERLAP = Guard(lifespan, "_alone", "overlaps another one")
NOT_PASSED_OVER = Guard(lifespan, "_not_passed_over", "a newer one had been committed")
NOT_DATED_BACK = Guard(lifespan, "check_over", "dated back")

# --- step 5: the beacon ----------------------------------------------------------------------------------------------

RELEASED_ONCE = Check(beacon, "check_part", lambda *_: "")
SEALED_AGAIN = Guard(beacon, "_check_again", "whose nonce was known")
SEALED_WITH_OTHERS = Guard(beacon, "_check_again", "with others than some of those before")
SEALED_FOR_BETTER = Both((SEALED_AGAIN, RELEASED_ONCE))
MANIFEST_OF_THIS_LOG = Guard(manifest, "check_entered", "with another key than this one")
AUDITORS_SEALED = Guard(beacon, "_check_order", "end with the auditors that had committed")
AUDITORS_LAST = Guard(beacon, "_complete", "among the beacon's last entries")
RELIED_HAD_A_PART = Guard(beacon, "check_part", "had a part in the beacon")
AUDITORS_KEY = Check(beacon, "check_identity")

# --- step 6: records -------------------------------------------------------------------------------------------------

RECORDS_INSIDE = Guard(records, "check_order", "the record at entry")

_check_registry = verification.check_registry


class _Anyone(dict[str, Enrolment]):
    """A registry in which the tests' strangers are accounts of tenant north, with the keys that their names give."""

    def get(self, name: str, default: Any = None) -> Any:
        known = [account(n, "north") for n in ("mallory", "dave", "eve")]
        strangers = {one.pseudonym: Enrolment(one, len(self) + place) for place, one in enumerate(known)}
        return super().get(name, strangers.get(name, default))


REGISTERED = Check(verification, "check_registry", lambda *given, **more: _Anyone(_check_registry(*given, **more)))
SEQ_GAPLESS = Guard(records, "_follow", "a record was dropped or reordered")
CTR_GAPLESS = Guard(records, "_follow", "jumps to request")
BUDGET = Guard(records, "_follow", "exceeds its")
NONCE_ONCE = Guard(records, "_follow", "was used by this account before")
INDEX_OF_THE_MANIFEST = Both(
    (
        Guard(versions.Versions, "answering", "an index that no tenant"),
        Guard(records, "_logged", "an index other than that"),
    )
)
COUNT_AT_CLOSE = Guard(records, "check_order", "the closing entry counts")

# --- step 7: receipts ------------------------------------------------------------------------------------------------

RECEIPT_MATCHES_RECORD = Guard(receipts, "_promised", "not the record that was promised")
ONE_RECEIPT = Guard(receipts, "check_promises", "another receipt was given")
SLOTS_IN_ORDER = Guard(receipts, "_openings", "slots in increasing order")
SLOTS_COMMITTED = Guard(receipts, "_openings", "not those that the record commits to")
TEXTS_BY_FLAG = Guard(receipts, "_openings", "whose flag is not set")
WITHHELD_BY_THE_GUARD = Guard(receipts, "_openings", "check_withheld")
TEXTS_COMMITTED = Guard(receipts, "_openings", "verify_inclusion")

# --- step 11: epsilon ------------------------------------------------------------------------------------------------

EPSILON_FINITE = Guard(epsilon, "check_period", "found.boundless")
ADVERTISED = Guard(epsilon, "check_advertised", "advertises epsilon")

# --- what a provider refuses of its accounts -------------------------------------------------------------------------

PROVIDER_BUDGET = Both((Guard(provider.Attestation, "_prepare", "raise spent"), Guard(Admission, "due", "raise spent")))
PROVIDER_SIGNATURE = Guard(provider.Attestation, "retrieve", "message.verify(account.public_key)")
PROVIDER_CTR = Both(
    (
        Guard(Admission, "due", "send requests in order"),
        Check(provider.Attestation, "_check_acknowledgement", no_wait),
        Guard(Window, "add_record", "does not follow its last one"),
    )
)
PROVIDER_NONCE = Guard(Admission, "due", "nonce was used before")
PROVIDER_C_E = Guard(Admission, "due", "a query or C_e different")
PROVIDER_ONE_AWAY = Guard(EmbeddingCommitter, "_fix", "the embedding sent is not this query")

# --- step 9: the coalition estimate ----------------------------------------------------------------------------------

BLOCK_PAIRING = Both((Check(EstimateView, "verify_batch"), Check(EstimateView, "verify")))
BLOCK_NORM = Check(certificate, "verify_squared_norm")
BLOCK_OPENING = Check(certificate, "verify_products")
LINKS_SIGNED = Check(link_list.SignedLinks, "verify")
LINKS_OF_THE_WINDOW = Guard(estimate, "_links", "the links are of a different window")
LINKS_OF_THE_RECORDS = Guard(estimate, "_about_the_records", "are about records different")
LINKS_THAT_COUNT = Guard(estimate, "_about_the_records", "a link joins records that are not compared")
WITHIN_TAU_TIME = Check(
    estimate.Inquiry, "reach", lambda self, own: reach_of([0] * len(own), self.window.manifest.policy.tau)
)
COALITION = Check(verification, "check_coalition")


def _free_if_spanning(self: link_list.Listing, a: int, b: int) -> int:
    return -1 if (a, b) in self.links else int(self.component is None)


LINKS_BETWEEN_COMPONENTS = Check(link_list.Listing, "sign", _free_if_spanning)

# --- verdicts in logs ------------------------------------------------------------------------------------------------

VERDICT_AUDITOR = Guard(audit_verdicts, "check_verdict", "no other auditor's signature")
VERDICT_SIGNED = Guard(audit_verdicts, "check_verdict", "message.verify()")
VERDICT_LOG = Guard(audit_verdicts, "check_verdict", "a log with a different key")
VERDICT_ONCE = Guard(audit_verdicts, "check_verdict", "is in the ledger already")
VERDICTS_BOUNDED = Guard(audit_verdicts, "check_verdict", "as many as it takes")
VERDICT_CHANGES_NOTHING = Check(kept_verdicts, "AuditVerdict", ())
CLAIMS_COMPARED = Check(auditors.NamedAuditors, "whose", lambda *_: auditors.NAMED)
AUDITORS_OF_THE_SIGNED_LOG = Guard(auditors.NamedAuditors, "read", "different from those it signed")
ENTERED_THERE = Guard(verdict_log, "check_entered", "names a different log of verdicts")
ENTERED_BY_ITS_AUDITOR = Guard(verdict_log, "check_entered", "is not that of the auditor")
ENTERED_AS_IT_IS = Guard(verdict_log, "check_entered", "InclusionBundle.from_text")

# --- claims without decoys -------------------------------------------------------------------------------------------

DRAWS = Check(kernel_policy, "check_draws")
PLAIN_POLICY = Check(Policy, "_validate_plain")
MIXED_CLAIMS = Check(until_delivered, "one_claim")
#: A window is charged by its own claim or the asked one, whatever its tenants were shown.
CHARGED_BY_TENANT = Check(
    phase_a.Manifest,
    "charged",
    lambda made, claim, _: made.policy.under(claim) if claim in below(made.policy.claim) else made.policy,
)
COINS_COUNT = Check(period, "_of_coins_that_count", lambda *_: [])
LOWER_CLAIM = Guard(phase_a.Manifest, "validate", "none below the")
HIGHEST_CLAIM = Guard(phase_a.Manifest, "validate", "the highest of them")
CLAIMS_IN_ORDER = Guard(verdict_messages, "check_together", "weakest first")
TENANTS_NAMED = Guard(verdict_messages, "check_together", "a tenant has one claim")
ONE_CLAIM_NAMES_NONE = Guard(verdict_messages, "check_together", "names none")
NO_NUMBER = Guard(Claimed, "validate", "it has no number")
NO_RETURN = Guard(Claimed, "validate", "bounds no return")
CLAIM_BY_NAME = Guard(audit_command, "not_enough", "has no epsilon")
EXACT_IS_NOT_THINNED = Guard(coins, "check_thinning_entry", "although the claim")

CHECKS: dict[str, Removable] = {
    **ceremony_checks.CEREMONY_CHECKS,
    **turn_checks.TURN_CHECKS,
    **index_checks.INDEX_CHECKS,
    "workers: a proof holds for its record": WORKER_PROOF,
    "workers: a proof of a thinning or a block holds for it": WORKER_OPENING,
    "workers: nothing under a stopped key": STOPPED_MEANWHILE,
    "answers: a histogram opens over the score bases": HISTOGRAMS,
    "answers: what the claim lets an answer hold": CLAIM_OF_OPENINGS,
    "answers: keywords are the vocabulary's": READ_FROM,
    "answers: what is opened is a keyword": KEYWORDS_ALONE,
    "answers: no documents in the period": ANSWERS_ALONE,
    "verdict in the ledger: of the manifest's auditor": VERDICT_AUDITOR,
    "verdict in the ledger: signed": VERDICT_SIGNED,
    "verdict in the ledger: about this log": VERDICT_LOG,
    "verdict in the ledger: once": VERDICT_ONCE,
    "verdict in the ledger: not too many": VERDICTS_BOUNDED,
    "verdict in the ledger: changes no audited window": VERDICT_CHANGES_NOTHING,
    "verdict in the ledger: shown by whether the window names its auditor": CLAIMS_COMPARED,
    "verdict in the ledger: compared with manifests of the signed log": AUDITORS_OF_THE_SIGNED_LOG,
    "verdict in its auditor's log: in the one that it names": ENTERED_THERE,
    "verdict in its auditor's log: in one of that auditor": ENTERED_BY_ITS_AUDITOR,
    "verdict in its auditor's log: with these words": ENTERED_AS_IT_IS,
    "key: points that are multiples of each other": KEY_POINTS_RELATED,
    "key: points of G1 that are multiples of each other": KEY_POINTS_ALIKE,
    "estimate: pairing": BLOCK_PAIRING,
    "estimate: squared norm": BLOCK_NORM,
    "estimate: opening": BLOCK_OPENING,
    "estimate: links signed": LINKS_SIGNED,
    "estimate: links of the window": LINKS_OF_THE_WINDOW,
    "estimate: links of the records": LINKS_OF_THE_RECORDS,
    "estimate: only links that count": LINKS_THAT_COUNT,
    "estimate: records within tau_time are compared": WITHIN_TAU_TIME,
    "estimate: coalition within k_max": COALITION,
    "estimate: no link between components": LINKS_BETWEEN_COMPONENTS,
    **{f"opening of {use}": check for use, check in OPENED.items()},
    "openings of all that proofs commit to": OPENINGS,
    "link opening": LINK,
    "column opening": COLUMNS,
    "pairing": PAIRING,
    "exactly the records asked for": EXACT,
    "responses below r": RESPONSES_CANONICAL,
    "L and R hashed": FOLDS_HASHED,
    "field elements below r": ELEMENTS_BELOW_R,
    "points on the curve, no identity": POINTS_ON_THE_CURVE,
    "request signature": REQUEST_SIGNED,
    "C_e opened by the client": CLIENT_OPENS_C_E,
    "entries hash to the signed root": ENTRIES_HASH_TO_ROOT,
    "every entry delivered": LOG_COMPLETE,
    "log continues what was seen": LOG_EXTENDS,
    "log never shrinks": LOG_GROWS,
    "observer checks consistency": OBSERVER_CONSISTENCY,
    "observer hashes every entry": OBSERVER_HASHES,
    "witness: growth only": WITNESS_GROWTH,
    "witness: its line verifies": WITNESS_LINE,
    "quorum: as many as the policy wants": QUORUM,
    "quorum: up to the opening": CLIENT_TO_THE_OPENING,
    "quorum: up to the close": AUDIT_TO_THE_CLOSE,
    "account: one history": ONE_HISTORY_OF_AN_ACCOUNT,
    "account: what is fetched is signed by its key": FETCHED_SIGNED,
    "account: what is fetched is what it asked for": FETCHED_NEXT,
    "account: what is fetched continues its receipts": FETCHED_CHAIN,
    "account: nothing is signed under a number that is used": FETCHED_FIRST,
    "account: what it paid for is given to it alone": FETCHED_BY_ITS_ACCOUNT,
    "account: what it paid for is given at a rate": FETCHED_AT_A_RATE,
    "account: what it paid for is given until it is purged": FETCHED_WHILE_KEPT,
    "manifest shown is the log's": MANIFEST_OF_THE_LOG,
    "window name used once": WINDOW_NAME_ONCE,
    "seed commitment used once": SEED_ONCE,
    "window opened once": OPENED_ONCE,
    "windows do not overlap": NO_OVERLAP,
    "no window after a newer one": NOT_PASSED_OVER,
    "window not dated back": NOT_DATED_BACK,
    "auditor's nonce released for one beacon": RELEASED_ONCE,
    "beacon: never sealed again without a known nonce": SEALED_AGAIN,
    "manifest: of the log with this very key": MANIFEST_OF_THIS_LOG,
    "beacon: sealed again with fewer only": SEALED_WITH_OTHERS,
    "beacon: every auditor that committed is sealed": AUDITORS_SEALED,
    "beacon: auditors open last": AUDITORS_LAST,
    "beacon: auditors have the manifest's keys": AUDITORS_KEY,
    "beacon: whom an auditor relies on had a part": RELIED_HAD_A_PART,
    "account registered": REGISTERED,
    "records inside their window": RECORDS_INSIDE,
    "seq without gaps": SEQ_GAPLESS,
    "ctr without gaps": CTR_GAPLESS,
    "n_max": BUDGET,
    "request id and nonce used once": NONCE_ONCE,
    "index version of the manifest": INDEX_OF_THE_MANIFEST,
    "records counted at closing": COUNT_AT_CLOSE,
    "receipt matches its record": RECEIPT_MATCHES_RECORD,
    "one receipt a record": ONE_RECEIPT,
    "answer's slots in order": SLOTS_IN_ORDER,
    "answer's slots committed": SLOTS_COMMITTED,
    "answer's texts by flag": TEXTS_BY_FLAG,
    "answer's texts by the guard": WITHHELD_BY_THE_GUARD,
    "answer's texts committed": TEXTS_COMMITTED,
    "rungs: a return has decoys": DRAWS,
    "rungs: what means nothing has one value": PLAIN_POLICY,
    "rungs: a period makes one claim": MIXED_CLAIMS,
    "rungs: exact has no number": NO_NUMBER,
    "tenants: a window counts by what its tenants were shown": CHARGED_BY_TENANT,
    "tenants: windows of the same coins count": COINS_COUNT,
    "tenants: a claim below the policy's": LOWER_CLAIM,
    "tenants: one has the policy's claim": HIGHEST_CLAIM,
    "tenants: claims of a verdict in order": CLAIMS_IN_ORDER,
    "tenants: each has one claim in a verdict": TENANTS_NAMED,
    "tenants: one claim names none": ONE_CLAIM_NAMES_NONE,
    "rungs: unseen has no return": NO_RETURN,
    "rungs: a PASS without an epsilon is asked for by name": CLAIM_BY_NAME,
    "rungs: exact is not thinned": EXACT_IS_NOT_THINNED,
    "finite epsilon": EPSILON_FINITE,
    "advertised epsilon": ADVERTISED,
    "provider: n_max": PROVIDER_BUDGET,
    "provider: request signature": PROVIDER_SIGNATURE,
    "provider: ctr": PROVIDER_CTR,
    "provider: nonce used once": PROVIDER_NONCE,
    "provider: C_e of its Prepare": PROVIDER_C_E,
    "provider: e of the query": PROVIDER_ONE_AWAY,
}


@contextmanager
def without(check: Removable) -> Iterator[pytest.MonkeyPatch]:
    """Everything inside runs with this check removed."""
    with pytest.MonkeyPatch.context() as patch:
        check.remove(patch)
        yield patch


def gone(check: Removable, world: World, match: str, **options: Any) -> None:
    """Without the check nothing says this any more; what rests on it may not even be readable."""
    with without(check):
        try:
            verdict = world.audit(**options)
        except (KeyError, IndexError):
            return
    assert match not in verdict.line(), verdict.line()


@contextmanager
def predictable(use: str, chi: int) -> Iterator[None]:
    """Everything inside runs with a chi of this use that does not depend on what it folds."""
    real = opening.batching_challenge

    def fixed(asked: str, context: bytes) -> int:
        return chi if asked == use else real(asked, context)

    with pytest.MonkeyPatch.context() as patch:
        for module in (opening, phase_a):
            patch.setattr(module, "batching_challenge", fixed)
        yield
