# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase D, verification: the numbered checklist that ends in a verdict.  SPEC D.

 1. log            the checkpoint's signature; every entry re-hashed to its root; append-only from every receipt's root
                   and from the checkpoint that this auditor remembers
 2. manifest       signed, well-formed, in the log before the window; policy within its class; nothing used twice; no
                   overlap with another window
 3. keys           the verifying key is in the auditor's own configuration, and who made it
 4. index          every tenant's columns are the manifest's and lie in the span of {Y_i, B}
 5. beacon         committed, sealed, opened in order, this auditor last; the window's beacon recomputed
 6. records        gapless, signed by registered accounts, in budget, in time, over their tenant's index
 7. receipts       those given contradict nothing; acknowledgements
 8. proofs         all, or a sample drawn after the final root; statements rebuilt from the auditor's log
 9. estimate       the signed links, the accounts that they join, and their certificate; at most k_max joined
10. noise table    rules T1-T5
11. epsilon        of k_max accounts over the period's windows; what was advertised follows from the noise

Three outcomes.  A step that shows that something the provider signed does not hold ends the checklist with a FAIL.  Any
other error, of whatever kind, ends it in NO VERDICT: bytes that somebody else could have made, a provider that is away
or busy, the auditor's own files, clock, build or keys.  All steps passed: PASS or SAMPLED-PASS.  What the caller still
owes: an honest
configuration (log key, verifying keys, class build), receipts of accounts it trusts, and reading what a verdict does
not say (SPEC D.17; :mod:`ragseal.verifier.report.document` prints it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from ragseal.kernel.bn254 import Group
from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError
from ragseal.verifier.asking import Asker
from ragseal.verifier.evidence import (
    ASK_AGAIN,
    AUDITOR,
    CEREMONY,
    UNKNOWN,
    Auditor,
    Evidence,
    ReceiptFile,
    Refused,
    Undecided,
)
from ragseal.verifier.outcome import (
    FAIL,
    FAILED,
    NOT_ASKED,
    OK,
    OPEN,
    PASS,
    SAMPLED_PASS,
    TITLES,
    Ending,
    Neighbour,
    Step,
    Verdict,
)
from ragseal.verifier.steps.beacon import check_beacon
from ragseal.verifier.steps.blocks import Effort
from ragseal.verifier.steps.epsilon import Budget, check_epsilon
from ragseal.verifier.steps.estimate import Inquiry, check_coalition, check_estimate
from ragseal.verifier.steps.log import MAX_LOG_BYTES, LogView, read_log
from ragseal.verifier.steps.manifest import (
    Life,
    Say,
    Window,
    check_indexes,
    check_key,
    check_life,
    check_manifest,
    check_noise,
    find_window,
)
from ragseal.verifier.steps.proofs import Basis, check_proofs
from ragseal.verifier.steps.receipts import Promise, check_receipts, sort_receipts
from ragseal.verifier.steps.records import Logged, check_records, check_registry
from ragseal.verifier.steps.sample import Sample, draw, share_bound

EFFORT = Effort()  #: how much certificate of the estimate is asked for by default
AWAY = "audit again when the provider answers, or with a larger --patience"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an audit takes from outside: time, randomness, arithmetic, and somebody to tell how far it is."""

    group: Group
    now: int  #: the auditor's clock, seconds since 1970
    clock: Callable[[], float]  #: seconds, monotone
    random: Callable[[int], bytes]  #: a cryptographically strong source
    progress: Callable[[int, str], None] = lambda number, title: None
    deadline: float | None = None  #: by ``clock``: no step begins later
    log_bytes: int = MAX_LOG_BYTES  #: most of a log that is held in memory


def audit(
    evidence: Evidence,
    auditor: Auditor,
    around: Surroundings,
    *,
    window: str = "",
    sample: Sample | None = None,
    receipts: Sequence[ReceiptFile] = (),
    effort: Effort = EFFORT,
) -> Verdict:
    """Run the checklist on one window (the newest opened one if ``window`` is empty).

    Returns:
        The verdict.  A FAIL rests on what the provider signed; every other error on the way ends in NO VERDICT.  Both
        name the step and carry their evidence.
    """
    result = Verdict(mode="full" if sample is None else "sampled", origin=auditor.log_key.name)
    begun = around.clock()
    try:
        _Checklist(evidence, auditor, around, result).run(window, sample, receipts, effort)
    except Ending as ending:
        result.end(ending)
    result.seconds = around.clock() - begun
    return result


def ending_of(number: int, error: AuditError) -> Ending:
    """What an error at a step means: only a Refused is the provider's fault; whatever else there is, is no verdict."""
    if isinstance(error, Refused):
        return Ending(number, str(error), {**error.evidence, "error": "Refused"}, failed=True)
    if isinstance(error, Undecided):
        return Ending(number, str(error), dict(error.evidence), error.way_out)
    kind = type(error).__name__
    if isinstance(error, TransportError):
        return Ending(number, str(error), {"error": kind}, AWAY)
    if isinstance(error, ConfigurationError):
        return Ending(number, str(error), {"error": kind}, "put that right in the auditor's folder or command line")
    return Ending(number, str(error), {"error": kind}, ASK_AGAIN)


class _Checklist:
    """The steps in order; each tells its evidence and hands on what later steps need."""

    def __init__(self, evidence: Evidence, auditor: Auditor, around: Surroundings, result: Verdict) -> None:
        self.evidence = evidence
        self.auditor = auditor
        self.around = around
        self.result = result

    @contextmanager
    def step(self, number: int, status: str = OK) -> Iterator[Say]:
        """Times a step, keeps what it says, and turns whatever it raises into an Ending."""
        title, kept = TITLES[number], dict[str, Any]()
        begun = self.around.clock()
        self.around.progress(number, title)
        try:
            if self.around.deadline is not None and begun > self.around.deadline:
                raise Undecided("the audit's deadline has passed", "audit again with a larger --deadline")
            yield kept.update
        except AuditError as error:
            ending = ending_of(number, error)
            kept.update(ending.evidence)
            ended = FAILED if ending.failed else OPEN
            self.result.steps.append(Step(number, title, ended, kept, self.around.clock() - begun, str(error)))
            raise Ending(number, ending.message, kept, ending.way_out, ending.failed) from None
        self.result.steps.append(Step(number, title, status, kept, self.around.clock() - begun))

    def run(self, name: str, sample: Sample | None, receipts: Sequence[ReceiptFile], effort: Effort) -> None:
        result, auditor, evidence, group = self.result, self.auditor, self.evidence, self.around.group
        begun = self.around.clock()  # ``now`` was then: reading a log may take longer than an ask may be old

        # 1. The log: signed, complete, and the same one as ever.
        with self.step(1) as say:
            log = read_log(evidence, auditor.log_key, most=self.around.log_bytes)
            promises = self._append_only(log, receipts, say)
            auditor.remember(log.signed)
            result.log, result.log_size = log.signed, log.size

        # 2. The manifest: in that log, signed, of a policy that its class can carry, and for the first time.
        with self.step(2) as say:
            _, found = find_window(log, name)
            result.about = found.manifest.window, found.manifest.digest()
            window = check_manifest(log, evidence, auditor, name, say)
            result.window = window
            life = check_life(log, window, self.around.now, self.auditor.drawn.get(window.digest, 0), say)

        asker = Asker(
            window, auditor, evidence, lambda: self.around.now + int(self.around.clock() - begun), self.around.random
        )

        # 3. The key: the auditor's own choice.
        with self.step(3) as say:
            configured, key = check_key(auditor, window, say)
            result.keys = configured.made_by

        # 4. The indices: columns in the span of the score bases, nothing else in them.
        with self.step(4) as say:
            columns = check_indexes(group, key, window, evidence, say)

        # 5. The beacon: this auditor's nonce came last.
        with self.step(5) as say:
            beacon = check_beacon(log, window, life, auditor, say)

        # 6. The records: all of them, each signed by whom it is charged to.
        with self.step(6) as say:
            accounts = check_registry(window, asker, say)
            records = check_records(group, log, window, life, accounts, say)
            result.records = len(records)

        # 7. The receipts: what accounts were promised is what the log holds.
        with self.step(7, OK if receipts else NOT_ASKED) as say:
            result.tallies, aside = check_receipts(log, window, records, promises, say)
            result.set_aside += aside
            say(set_aside=[asdict(one) for one in result.set_aside])

        # 8. The proofs: noise, selection and tenant of every record, or of a sample that nobody could foresee.
        with self.step(8) as say:
            wanted = self._wanted(log, window, life, records, sample, say)
            check_proofs(Basis.of(group, window, key, columns, beacon), asker, wanted, say)
            result.proven = len(wanted)

        # 9. The estimate: how many accounts ask as one.  It gates the policy; epsilon does not depend on it.
        with self.step(9) as say:
            result.estimation = check_estimate(self._inquiry(log, window, life, records, asker, effort), say)
            check_coalition(result.estimation)

        # 10. The noise table: the law that the circuit was built for keeps its rules.
        with self.step(10) as say:
            table = check_noise(window, say)

        # 11. Epsilon: of the coalition and period that the policy names.
        with self.step(11) as say:
            result.budget = check_epsilon(log, window, auditor, table, result.tallies, say)
            result.neighbours = self._beside(log, window.digest, result.budget)
            say(**{f"window {one.window}": one.verdict for one in result.neighbours})

        unsafe = unsafe_keys(result)
        if unsafe is not None:
            raise unsafe
        result.verdict = PASS if result.proven == result.records and sample is None else SAMPLED_PASS

    def _beside(self, log: LogView, audited: bytes, budget: Budget) -> tuple[Neighbour, ...]:
        """What is known of the period's other windows, and which windows before it failed.

        The provider's policy says when a period begins: a bad window must not vanish behind a later beginning.
        """
        inside = [(one.window, one.manifest) for one in budget.windows]
        before = [(one.window, one.manifest) for one in budget.period.left_out]
        known = self.auditor.neighbours(log, before, audited)
        failed = [one for one in known if one.verdict == FAIL and one.manifest]
        return (*failed, *self.auditor.neighbours(log, inside, audited))

    def _append_only(self, log: LogView, receipts: Sequence[ReceiptFile], say: Say) -> list[Promise]:
        head = log.signed.checkpoint
        say(origin=head.origin, size=head.size, root=head.root, entries=log.size)
        remembered = self.auditor.remembered
        if remembered is not None:
            log.extends(remembered, "the checkpoint that this auditor remembers")
        promises, aside = sort_receipts(log, receipts, self.auditor.log_key)
        self.result.set_aside += aside
        say(
            remembered_size=remembered.checkpoint.size if remembered else 0,
            receipt_roots=len(promises),
            set_aside=len(aside),
        )
        return promises

    def _inquiry(
        self, log: LogView, window: Window, life: Life, records: Sequence[Logged], asker: Asker, effort: Effort
    ) -> Inquiry:
        return Inquiry(
            group=self.around.group,
            window=window,
            auditor=self.auditor,
            asker=asker,
            records=records,
            effort=effort,
            sample_nonce=lambda name: self.auditor.sample_nonce(log.signed, name, self.around.random(32)),
            root=log.tree.root(life.close_index + 1),
            progress=lambda text: self.around.progress(9, f"{TITLES[9]}, {text}"),
        )

    def _wanted(
        self,
        log: LogView,
        window: Window,
        life: Life,
        records: Sequence[Logged],
        sample: Sample | None,
        say: Say,
    ) -> Sequence[Logged]:
        if sample is None:
            say(mode="full", records=len(records))
            return records
        # A provider that breaks off once it knows the sample, or lets its log grow, is asked for the same one again.
        nonce = self.auditor.sample_nonce(log.signed, window.digest, self.around.random(32))
        wanted = draw(records, sample.size, nonce, log.tree.root(life.close_index + 1), window.digest)
        strata = [(tally.total, sum(one.tenant == tally.tenant for one in wanted)) for tally in self.result.tallies]
        self.result.beta = share_bound(strata, sample.confidence)
        self.result.confidence = sample.confidence
        say(
            mode="sampled",
            records=len(records),
            nonce=nonce,
            seqs=[one.record.seq for one in wanted],
            beta=self.result.beta,
            confidence=float(sample.confidence),
        )
        return wanted


def unsafe_keys(result: Verdict) -> Ending | None:
    """Keys that somebody else than this auditor or a ceremony made bind nobody: whoever makes keys can forge."""
    for number, made_by in ((3, result.keys), (9, result.estimation.made_by if result.estimation else UNKNOWN)):
        if made_by not in (AUDITOR, CEREMONY):
            return Ending(
                number,
                f"unsafe: the keys are made by {made_by}, so nothing binds the provider; the epsilon that it would be "
                "is in the report",
                {"made_by": made_by},
                "make keys with keygen, or trust a ceremony's, before the next window",
            )
    return None
