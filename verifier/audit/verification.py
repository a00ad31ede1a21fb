# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase D, verification: the numbered checklist that ends in a verdict.  SPEC D.

 1. log            the checkpoint's signature; every entry re-hashed to its root; append-only from every receipt's root
                   and from the checkpoint that this auditor remembers; cosigned by a quorum, where one is asked for
 2. manifest       signed, well-formed, in the log before the window; policy within its class; nothing used twice; no
                   overlap with another window
 3. keys           the verifying key is in the auditor's own configuration, and who made it
 4. index          every tenant's columns are the manifest's and lie in the span of {Y_i, B}; so are those of every
                   version on the window's ticks, in which hidden slots are empty
 5. beacon         committed, sealed, opened in order, this auditor last; the window's beacon recomputed
 6. records        gapless, signed by registered accounts, in budget, in time, over their tenant's index
 7. receipts       those given contradict nothing; acknowledgements
 8. proofs         all, or a sample drawn after the final root; statements rebuilt from the auditor's log
 9. estimate       the signed links, the accounts that they join, and their certificate; at most k_max joined
10. noise table    rules T1-T5
11. epsilon        of every tenant's claim over the period's windows; what was advertised follows from coin and noise

Three outcomes.  A step that shows that something the provider signed does not hold ends the checklist with a FAIL.  Any
other error, of whatever kind, leaves its step open, and an open step is NO VERDICT: bytes that somebody else could have
made, a provider that is away or busy, the auditor's own files, clock, build or keys.  All steps passed: PASS or
SAMPLED-PASS.

A provider that withholds must not hide what it has signed already.  So a step has parts, each of which says by what it
calls which results it needs, and whether it asks the provider.  Once something is open the provider is asked nothing
more; what rests on results that are there, on log, receipts and the auditor's own folder alone, is still checked, and
if it shows a lie the verdict is FAIL.

What the caller still owes: an honest configuration (log key, verifying keys, class build), receipts of accounts it
trusts, and reading what a verdict does not say (SPEC D.17; :mod:`ragseal.verifier.report.document` prints it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragseal.verifier.audit.findings import Environment, Findings
from ragseal.verifier.evidence.evidence import ASK_AGAIN, UNKNOWN, Auditor, Evidence, ReceiptFile, TurnFile, binds
from ragseal.verifier.outcome.outcome import NOT_ASKED, OK, OPEN, PASS, SAMPLED_PASS, TITLES, Ending, Verdict
from ragseal.verifier.steps.asking import Asker
from ragseal.verifier.steps.beacon import read_beacon
from ragseal.verifier.steps.blocks import Effort
from ragseal.verifier.steps.coins import Coin, check_thinned, check_thinning_entry
from ragseal.verifier.steps.epsilon import (
    check_advertised,
    check_period,
)
from ragseal.verifier.steps.estimate import Inquiry, check_coalition
from ragseal.verifier.steps.index import check_indexes
from ragseal.verifier.steps.lifespan import check_over
from ragseal.verifier.steps.log import one_history
from ragseal.verifier.steps.manifest import (
    Tenancy,
    check_face,
    check_named,
)
from ragseal.verifier.steps.noise_table import check_noise
from ragseal.verifier.steps.proofs import ProofContext, check_proofs
from ragseal.verifier.steps.receipts import (
    check_acknowledgements,
    check_promises,
)
from ragseal.verifier.steps.recorder import Recorder
from ragseal.verifier.steps.records import check_registry
from ragseal.verifier.steps.sample import Sample
from ragseal.verifier.steps.versions import check_updates, check_versions

STEPS = range(1, 12)
EFFORT = Effort()  #: how much certificate of the estimate is asked for by default


def audit(
    evidence: Evidence,
    auditor: Auditor,
    around: Environment,
    *,
    window: str = "",
    sample: Sample | None = None,
    receipts: Sequence[ReceiptFile] = (),
    turns: Sequence[TurnFile] = (),
    effort: Effort = EFFORT,
) -> Verdict:
    """Run the checklist on one window (the newest opened one if ``window`` is empty).

    Returns:
        The verdict.  A FAIL rests on what the provider signed; every other error on the way ends in NO VERDICT.  Both
        name the step and carry their evidence.
    """
    mode = "full" if sample is None else "sampled"
    result = Verdict(auditor=auditor.identity, at=around.now, mode=mode, origin=auditor.log_key.name)
    begun = around.clock()
    try:
        _Audit(evidence, auditor, around, result, turns).run(window, sample, receipts, effort)
    except Ending as ending:
        result.end(ending)
    result.seconds = around.clock() - begun
    return result


class _Audit(Findings):
    """The steps in order, part by part; each part tells its evidence and hands on what later ones need."""

    def run(self, name: str, sample: Sample | None, receipts: Sequence[ReceiptFile], effort: Effort) -> None:
        """All parts of all steps.

        Raises:
            Ending: FAIL, or NO VERDICT once there is nothing more to check.
        """
        try:
            self._steps(name, sample, receipts, effort)
        finally:
            self.result.steps = self.shown()

    def _steps(self, name: str, sample: Sample | None, receipts: Sequence[ReceiptFile], effort: Effort) -> None:
        result, auditor, evidence, group, part = self.result, self.auditor, self.evidence, self.around.group, self.part
        now, begun = self.around.now, self.around.clock()  # reading a log may take longer than an ask may be old

        def asker() -> Asker:
            return Asker(
                entered(), auditor, evidence, lambda: now + int(self.around.clock() - begun), self.around.random
            )

        # 1. The log: signed, complete, and the same one as ever.
        signed = part(1, lambda say: self._signed(), asks=True)
        handed = part(1, lambda say: self._notes(receipts))
        part(1, lambda say: one_history([*self._seen(handed()), signed()]))
        served = part(1, lambda say: self._read(signed(), say), asks=True)
        noted = part(1, lambda say: self._turned(served(), receipts, handed(), say))
        part(1, lambda say: self._continues(served(), noted(), say))
        part(1, lambda say: self._shown_turns(served()))
        newest = part(1, lambda say: self._remembered(served()), asks=True)
        log = part(1, lambda say: self._decoded((newest or served)()))
        part(1, lambda say: log().to_its_end())
        promises = part(1, lambda say: self._sort(log(), noted(), say))

        # 2. The manifest: in that log, signed, of a policy that its class can carry, and for the first time.
        entered = part(2, lambda say: self._entered(log(), name, say))
        part(2, lambda say: check_face(evidence, entered(), say), asks=True)
        part(2, lambda say: check_named(auditor, entered()))
        window = part(2, lambda say: self._window(log(), entered(), say))
        life = part(2, lambda say: self._life(log(), entered(), say))
        part(2, lambda say: check_over(life(), now, auditor.drawn.get(entered().digest, 0)))

        # 3. The key: the auditor's own choice.
        key = part(3, lambda say: self._key(window(), say))
        coin_key = part(3, lambda say: self._coin_key(window(), say))

        # 4. The indices: columns in the span of the score bases, nothing else in them.
        placed_columns = part(
            4, lambda say: check_indexes(group, key(), coin_key(), entered(), evidence, say), asks=True
        )

        versions = part(4, lambda say: check_updates(log(), entered(), life(), say))

        # 5. The beacon: this auditor's nonce, or one's that it relies on, was known after everybody else's.
        entries = part(5, lambda say: read_beacon(log(), entered()))
        beacon = part(5, lambda say: self._beacon(entries(), entered(), life(), say))
        throw = part(5, lambda say: self._throw(log(), entered(), beacon(), say))
        thinning = part(5, lambda say: check_thinning_entry(log(), entered(), entries(), life(), say))

        # 4 again: where the claim has a coin, the beacon has decided which slots of these columns are empty.
        def in_force(say: Recorder) -> Mapping[bytes, bytes]:
            hides, found = coin_key(), placed_columns()
            coin = None if hides is None else Coin(hides, throw())
            if coin is not None:
                self.may_ask()
                found = check_thinned(group, key(), coin, entered(), found, thinning(), evidence, say)
            if not versions().every:
                return {one.digest(): found[one.tenant] for one in entered().manifest.tenants}
            self.may_ask()
            return check_versions(group, key(), coin, entered(), versions(), evidence, say)

        columns = part(4, in_force)

        # 6. The records: all of them, each signed by whom it is charged to.
        placed = part(6, lambda say: self._placed(log(), entered(), life(), versions(), say))
        accounts = part(6, lambda say: check_registry(entered(), versions(), asker(), say), asks=True)
        records = part(6, lambda say: self._records(placed(), entered(), accounts(), say))

        # 7. The receipts: what accounts were promised is what the log holds.
        self.begin(7, OK if receipts else NOT_ASKED)
        self.probes = list({one.probe.name: one.probe for one in receipts if one.probe is not None}.values())
        shown = part(7, lambda say: check_promises(log(), entered(), promises(), say))
        part(7, lambda say: self._answers(log(), window(), versions(), placed(), promises(), say))
        acknowledged = part(7, lambda say: check_acknowledgements(log(), placed(), shown(), say))
        tallies = part(7, lambda say: self._tally(entered(), records(), acknowledged()))

        # 8. The proofs: noise, selection and tenant of every record, or of a sample that nobody could foresee.
        def proven(say: Recorder) -> None:
            basis = ProofContext.of(group, window(), key(), columns(), beacon())
            wanted = self._wanted(log(), window(), life(), records(), sample, say)
            check_proofs(basis, asker(), wanted, say)
            result.proven = len(wanted)

        part(8, proven, asks=True)

        # 9. The estimate: how many accounts ask as one.  It gates the policy; epsilon does not depend on it.
        def inquiry() -> Inquiry:
            return self._inquiry(log(), window(), life(), records(), asker(), effort)

        estimation = part(9, lambda say: self._estimate(inquiry(), say), asks=True)
        part(9, lambda say: check_coalition(estimation(), entered().manifest.policy.gate))

        # 10. The noise table: the law that the circuit was built for keeps its rules.
        part(10, lambda say: check_noise(window(), say))

        # 11. Epsilon: of each claim that a tenant has, over the period that the policy names.
        def account(of: Tenancy | None) -> None:
            told = self.told(of)
            span = part(11, lambda say: self._period(log(), entered(), life(), of), claims=True)
            found = part(11, lambda say: check_period(log(), window(), auditor, span(), told(say)), claims=True)
            alone = part(11, lambda say: check_advertised(window(), of, told(say)), claims=True)
            part(11, lambda say: self._budget(log(), window(), found(), alone(), tallies(), told(say)), claims=True)

        for of in entered().tenancies if entered else (None,):
            account(of)

        # 1 again: that others were shown this log too, where this auditor asks for witnesses.
        policy = auditor.witness_policy
        if policy is not None:
            part(1, lambda say: self._witnessed(policy, log(), life(), say), asks=True)

        # All this took its time: another process may have been shown more of the log since, or another log.
        if self.open is None:
            part(1, lambda say: self._catch_up(log()))
        if self.open is not None:
            self.take_back(11)
            result.budget, result.higher, result.neighbours = (
                None,
                (),
                (),
            )  # of a checklist with something open they would be a claim
            raise self.open
        for number in STEPS:  # whatever the parts do: nothing passes that was not decided
            if number not in self.steps or self.steps[number].status not in (OK, NOT_ASKED):
                raise Ending(number, f"{TITLES[number]} was not decided", {"error": "undecided"}, ASK_AGAIN)
        unsafe = unsafe_keys(result)
        if unsafe is not None:
            self.steps[unsafe.number].ends(OPEN, unsafe.message)  # or the checklist says ok where the verdict does not
            raise unsafe
        result.verdict = PASS if result.proven == result.records and sample is None else SAMPLED_PASS


def unsafe_keys(result: Verdict) -> Ending | None:
    """Keys of which this auditor believes nobody bind nobody: whoever makes keys can forge."""
    estimated = result.estimation.made_by if result.estimation else UNKNOWN
    for number, made_by in ((3, result.keys), (3, result.coin_keys or result.keys), (9, estimated)):
        if not binds(made_by):
            return Ending(
                number,
                f"unsafe: the keys are made by {made_by}, so nothing binds the provider; the epsilon that it would be "
                "is in the report",
                {"made_by": made_by},
                "make keys with keygen, or trust a ceremony's, before the next window",
            )
    return None
