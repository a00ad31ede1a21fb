# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase D, verification: the numbered checklist that ends in a verdict.  SPEC D; protocol section 7.

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

A step that does not hold ends the checklist with a FAIL that names it.  What the caller still owes: an honest
configuration (log key, verifying keys, class build), receipts of accounts it trusts, and reading what a verdict does
not say (protocol section 8; :mod:`ragseal.verifier.report` prints it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ragseal.kernel.curve import Group
from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.verifier.asking import Asker
from ragseal.verifier.attestation import Logged, Tally, check_receipts, check_records, check_registry
from ragseal.verifier.blocks import Effort
from ragseal.verifier.commitment import (
    Life,
    Say,
    Window,
    check_beacon,
    check_indexes,
    check_key,
    check_life,
    check_manifest,
    check_noise,
)
from ragseal.verifier.epsilon import Budget, check_epsilon, upward
from ragseal.verifier.estimate import FULL, Estimation, Inquiry, check_coalition, check_estimate
from ragseal.verifier.evidence import AUDITOR, CEREMONY, Auditor, Evidence, ReceiptFile, Refused
from ragseal.verifier.log import LogView, read_log
from ragseal.verifier.proofs import Basis, check_proofs
from ragseal.verifier.sample import Sample, draw, share_bound

EFFORT = Effort()  #: how much certificate of the estimate is asked for by default
PASS, SAMPLED_PASS, UNSAFE, FAIL = "PASS", "SAMPLED-PASS", "UNSAFE", "FAIL"
OK, FAILED, NOT_REACHED = "ok", "failed", "not reached"

TITLES = {
    1: "log",
    2: "manifest",
    3: "keys",
    4: "index openings",
    5: "beacon",
    6: "records",
    7: "receipts",
    8: "proofs",
    9: "estimate",
    10: "noise table",
    11: "epsilon",
}


class StepFailure(AuditError):
    """A step of the checklist that does not hold, with its evidence."""

    def __init__(self, number: int, message: str, evidence: dict[str, Any]) -> None:
        super().__init__(f"step {number} ({TITLES[number]}): {message}")
        self.number = number
        self.message = message
        self.evidence = evidence


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the checklist as it went."""

    number: int
    title: str
    status: str
    evidence: dict[str, Any]
    seconds: float
    message: str = ""


@dataclass(slots=True)
class Verdict:
    """What an audit found.  ``verdict`` is PASS, SAMPLED-PASS, UNSAFE or FAIL."""

    verdict: str = FAIL
    mode: str = "full"
    keys: str = "unknown"
    window: Window | None = None
    records: int = 0
    proven: int = 0
    tallies: tuple[Tally, ...] = ()
    budget: Budget | None = None
    estimation: Estimation | None = None
    beta: float | None = None
    confidence: Fraction | None = None
    steps: list[Step] = field(default_factory=list)
    failure: StepFailure | None = None
    log: SignedCheckpoint | None = None  #: seen and consistent with what was remembered: to be remembered next
    seconds: float = 0.0

    def line(self) -> str:
        """The verdict in one line; what makes it less than it seems stands at the end."""
        if self.failure is not None or self.budget is None:
            failure = self.failure
            what = f" step={failure.number} {TITLES[failure.number]}: {failure.message}" if failure else ""
            return " ".join(f"{FAIL}{what}".split())
        text = (
            f"{self.verdict} epsilon_audit={upward(self.budget.epsilon)} delta={self.budget.delta:g} mode={self.mode} "
            f"keys={self.keys} records={self.records}"
        )
        if self.beta is not None and self.confidence is not None:
            text += f" proven={self.proven} beta={upward(self.beta)} confidence={float(self.confidence):g}"
        if self.budget.unchecked:
            text += f" unchecked={self.budget.unchecked}"
        if self.estimation is not None and self.estimation.certificate != FULL:
            text += f" estimate={self.estimation.certificate}"
        return text


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an audit takes from outside: time, randomness, arithmetic, and somebody to tell how far it is."""

    group: Group
    now: int  #: the auditor's clock, seconds since 1970
    clock: Callable[[], float]  #: seconds, monotone
    random: Callable[[int], bytes]  #: a cryptographically strong source
    progress: Callable[[int, str], None] = lambda number, title: None


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
        The verdict; a FAIL names the step and carries its evidence.

    Raises:
        TransportError: the provider cannot be reached, so nothing was found.
        ConfigurationError: the auditor's own files are missing or damaged.
    """
    result = Verdict(mode="full" if sample is None else "sampled")
    begun = around.clock()
    try:
        _Checklist(evidence, auditor, around, result).run(window, sample, receipts, effort)
    except StepFailure as failure:
        result.verdict, result.failure = FAIL, failure
        done = {step.number for step in result.steps}
        result.steps += [Step(n, t, NOT_REACHED, {}, 0.0) for n, t in TITLES.items() if n not in done]
    result.seconds = around.clock() - begun
    return result


class _Checklist:
    """The steps in order; each tells its evidence and hands on what later steps need."""

    def __init__(self, evidence: Evidence, auditor: Auditor, around: Surroundings, result: Verdict) -> None:
        self.evidence = evidence
        self.auditor = auditor
        self.around = around
        self.result = result

    @contextmanager
    def step(self, number: int) -> Iterator[Say]:
        """Times a step, keeps what it says, and turns whatever it refuses into a StepFailure."""
        title, kept = TITLES[number], dict[str, Any]()
        begun = self.around.clock()
        self.around.progress(number, title)
        try:
            yield kept.update
        except (TransportError, ConfigurationError):
            raise
        except AuditError as error:
            if isinstance(error, Refused):
                kept.update(error.evidence)
            kept["error"] = type(error).__name__
            self.result.steps.append(Step(number, title, FAILED, kept, self.around.clock() - begun, str(error)))
            raise StepFailure(number, str(error), kept) from None
        self.result.steps.append(Step(number, title, OK, kept, self.around.clock() - begun))

    def run(self, name: str, sample: Sample | None, receipts: Sequence[ReceiptFile], effort: Effort) -> None:
        result, auditor, evidence, group = self.result, self.auditor, self.evidence, self.around.group

        # 1. The log: signed, complete, and the same one as ever.
        with self.step(1) as say:
            log = read_log(evidence, auditor.log_key)
            self._append_only(log, receipts, say)
            result.log = log.signed
            auditor.remember(log.signed)

        # 2. The manifest: in that log, signed, of a policy that its class can carry, and for the first time.
        with self.step(2) as say:
            window = check_manifest(log, evidence, auditor, name, say)
            result.window = window
            life = check_life(log, window, self.around.now, self.auditor.drawn.get(window.digest, 0), say)

        begun = self.around.clock()
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
        with self.step(7) as say:
            result.tallies = check_receipts(log, window, records, receipts, auditor.log_key, say)

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

        if result.keys not in (AUDITOR, CEREMONY) or result.estimation.made_by not in (AUDITOR, CEREMONY):
            result.verdict = UNSAFE
        else:
            result.verdict = PASS if result.proven == result.records and sample is None else SAMPLED_PASS

    def _append_only(self, log: LogView, receipts: Sequence[ReceiptFile], say: Say) -> None:
        head = log.signed.checkpoint
        say(origin=head.origin, size=head.size, root=head.root, entries=log.size)
        remembered = self.auditor.remembered
        if remembered is not None:
            log.extends(remembered, "the checkpoint that this auditor remembers")
        for file in receipts:
            try:
                older = open_checkpoint(file.receipt.body.checkpoint, self.auditor.log_key)
            except AuditError as error:
                raise Refused(f"the checkpoint of receipt {file.name}: {error}", file=file.name) from None
            log.extends(older, f"the checkpoint of receipt {file.name}")
        say(remembered_size=remembered.checkpoint.size if remembered else 0, receipt_roots=len(receipts))

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
