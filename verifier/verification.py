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
11. epsilon        of k_max accounts over the period's windows; what was advertised follows from the noise

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

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import Account
from ragseal.kernel.thinning import ThinningKey
from ragseal.ledger.checkpoint import SignedCheckpoint
from ragseal.verifier.asking import Asker
from ragseal.verifier.checklist import Checklist
from ragseal.verifier.evidence import (
    ASK_AGAIN,
    UNKNOWN,
    Auditor,
    Evidence,
    Key,
    ReceiptFile,
    Undecided,
    binds,
)
from ragseal.verifier.outcome import (
    FAIL,
    NOT_ASKED,
    OK,
    PASS,
    SAMPLED_PASS,
    TITLES,
    Ending,
    Neighbour,
    Verdict,
)
from ragseal.verifier.steps.beacon import BeaconState, Throw, check_beacon, check_throw, read_beacon
from ragseal.verifier.steps.blocks import Effort
from ragseal.verifier.steps.coins import check_thinned, check_thinning_entry, check_thinning_key
from ragseal.verifier.steps.epsilon import (
    Accounted,
    PeriodBudget,
    check_advertised,
    check_period,
    make_budget,
)
from ragseal.verifier.steps.estimate import Estimation, Inquiry, check_coalition, check_estimate
from ragseal.verifier.steps.index import check_indexes
from ragseal.verifier.steps.keys import check_key
from ragseal.verifier.steps.lifespan import WindowSpan, check_life, check_over
from ragseal.verifier.steps.log import (
    MAX_LOG_BYTES,
    LogTree,
    LogView,
    catch_up,
    decoded,
    one_history,
    read_note,
    read_tree,
)
from ragseal.verifier.steps.manifest import (
    Entered,
    Window,
    check_class,
    check_entered,
    check_face,
    check_named,
    find_window,
)
from ragseal.verifier.steps.noise_table import check_noise
from ragseal.verifier.steps.period import Period, period
from ragseal.verifier.steps.proofs import ProofContext, check_proofs
from ragseal.verifier.steps.receipts import (
    Noted,
    Promise,
    Tally,
    check_acknowledgements,
    check_answers,
    check_promises,
    sort_notes,
    sort_receipts,
    tally,
)
from ragseal.verifier.steps.recorder import Recorder
from ragseal.verifier.steps.records import LoggedRecord, Placed, check_accounts, check_order, check_registry
from ragseal.verifier.steps.sample import Sample, draw, share_bound
from ragseal.verifier.steps.versions import Versions, check_updates, check_versions
from ragseal.verifier.steps.witnesses import check_witnessed

STEPS = range(1, 12)
EFFORT = Effort()  #: how much certificate of the estimate is asked for by default


@dataclass(frozen=True, slots=True)
class Environment:
    """What an audit takes from outside: time, randomness, arithmetic, and somebody to tell how far it is."""

    group: Group
    now: int  #: the auditor's clock, seconds since 1970
    clock: Callable[[], float]  #: seconds, monotone
    random: Callable[[int], bytes]  #: a cryptographically strong source
    progress: Callable[[int, str], None] = lambda number, title: None
    deadline: float | None = None  #: by ``clock``: the provider is asked for nothing later
    log_bytes: int = MAX_LOG_BYTES  #: most of a log that is held in memory


def audit(
    evidence: Evidence,
    auditor: Auditor,
    around: Environment,
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
        _Audit(evidence, auditor, around, result).run(window, sample, receipts, effort)
    except Ending as ending:
        result.end(ending)
    result.seconds = around.clock() - begun
    return result


class _Audit(Checklist):
    """The steps in order, part by part; each part tells its evidence and hands on what later ones need."""

    def __init__(self, evidence: Evidence, auditor: Auditor, around: Environment, result: Verdict) -> None:
        super().__init__(around.clock, around.progress, around.deadline)
        self.evidence = evidence
        self.auditor = auditor
        self.around = around
        self.result = result

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
        noted = part(1, lambda say: self._notes(receipts))
        signed = part(1, lambda say: read_note(evidence, auditor.log_key), asks=True)
        part(1, lambda say: one_history([*self._seen(noted()), signed()]))
        served = part(1, lambda say: self._read(signed(), say), asks=True)
        part(1, lambda say: self._continues(served(), noted(), say))
        newest = part(1, lambda say: self._remembered(served()), asks=True)
        log = part(1, lambda say: self._decoded((newest or served)()))
        part(1, lambda say: log().to_its_end())
        promises = part(1, lambda say: self._sort(log(), noted(), say))

        # 2. The manifest: in that log, signed, of a policy that its class can carry, and for the first time.
        entered = part(2, lambda say: self._entered(log(), name, say))
        part(2, lambda say: check_face(evidence, entered(), say), asks=True)
        part(2, lambda say: check_named(auditor, entered()))
        window = part(2, lambda say: self._window(log(), entered(), say))
        life = part(2, lambda say: check_life(log(), entered(), say))
        part(2, lambda say: check_over(life(), now, auditor.drawn.get(entered().digest, 0)))

        # 3. The key: the auditor's own choice.
        key = part(3, lambda say: self._key(window(), say))
        coin_key = part(3, lambda say: self._coin_key(window(), say))

        # 4. The indices: columns in the span of the score bases, nothing else in them.
        placed_columns = part(
            4, lambda say: check_indexes(group, coin_key() or key(), entered(), evidence, say), asks=True
        )

        versions = part(4, lambda say: check_updates(log(), entered(), life(), say))

        # 5. The beacon: this auditor's nonce, or one's that it relies on, was known after everybody else's.
        entries = part(5, lambda say: read_beacon(log(), entered()))
        beacon = part(5, lambda say: self._beacon(entries(), entered(), life(), say))
        throw = part(5, lambda say: self._throw(log(), entered(), beacon(), say))
        thinning = part(5, lambda say: check_thinning_entry(log(), entered(), entries(), life(), say))

        # 4 again: where the claim has a coin, the beacon has decided which slots of these columns are empty.
        def in_force(say: Recorder) -> Mapping[bytes, bytes]:
            coin, found = coin_key(), placed_columns()
            if coin is not None:
                self.may_ask()
                found = check_thinned(group, key(), coin, entered(), found, thinning(), throw(), evidence, say)
            if not versions().every:
                return {one.digest(): found[one.tenant] for one in entered().manifest.tenants}
            self.may_ask()
            thrown = None if coin is None else throw()
            return check_versions(group, key(), coin, entered(), versions(), thrown, evidence, say)

        columns = part(4, in_force)

        # 6. The records: all of them, each signed by whom it is charged to.
        placed = part(6, lambda say: self._placed(log(), entered(), life(), versions(), say))
        accounts = part(6, lambda say: check_registry(entered(), asker(), say), asks=True)
        records = part(6, lambda say: self._records(placed(), entered(), accounts(), say))

        # 7. The receipts: what accounts were promised is what the log holds.
        self.begin(7, OK if receipts else NOT_ASKED)
        shown = part(7, lambda say: check_promises(log(), promises(), say))
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
        table = part(10, lambda say: check_noise(window(), say))

        # 11. Epsilon: of the coalition and period that the policy names.
        span = part(11, lambda say: self._period(log(), entered(), life()), claims=True)
        accounted = part(11, lambda say: check_period(log(), window(), auditor, span(), say), claims=True)
        alone = part(11, lambda say: check_advertised(window(), table(), say), claims=True)
        part(11, lambda say: self._budget(log(), window(), accounted(), alone(), tallies(), say), claims=True)

        # 1 again: that others were shown this log too, where this auditor asks for witnesses.
        part(1, lambda say: self._witnessed(log(), life(), say), asks=auditor.witness_policy is not None)

        # All this took its time: another process may have been shown more of the log since, or another log.
        if self.open is None:
            part(1, lambda say: self._catch_up(log()))
        if self.open is not None:
            self.take_back(11)
            result.budget, result.neighbours = None, ()  # of a checklist with something open they would be a claim
            raise self.open
        for number in STEPS:  # whatever the parts do: nothing passes that was not decided
            if number not in self.steps or self.steps[number].status not in (OK, NOT_ASKED):
                raise Ending(number, f"{TITLES[number]} was not decided", {"error": "undecided"}, ASK_AGAIN)
        unsafe = unsafe_keys(result)
        if unsafe is not None:
            raise unsafe
        result.verdict = PASS if result.proven == result.records and sample is None else SAMPLED_PASS

    # --- 1 log ---

    def _notes(self, receipts: Sequence[ReceiptFile]) -> list[Noted]:
        """What of the receipts is the log's word; it and what this auditor remembers do not contradict each other."""
        noted, aside = sort_notes(receipts, self.auditor.log_key)
        self.result.set_aside += aside
        one_history(self._seen(noted))
        return noted

    def _seen(self, noted: Sequence[Noted]) -> list[SignedCheckpoint]:
        remembered = self.auditor.remembered
        return [*([remembered] if remembered else []), *(one.checkpoint for one in noted)]

    def _read(self, signed: SignedCheckpoint, say: Recorder) -> LogTree:
        tree = read_tree(self.evidence, signed, most=self.around.log_bytes)
        head = signed.checkpoint
        say(origin=head.origin, size=head.size, root=head.root, entries=tree.size)
        return tree

    def _continues(self, tree: LogTree, noted: Sequence[Noted], say: Recorder) -> None:
        """The log continues every note of it that there is; one that is newer excuses none of the others."""
        remembered = self.auditor.remembered
        say(remembered_size=remembered.checkpoint.size if remembered else 0)
        older = [(remembered, "the checkpoint that this auditor remembers")] if remembered else []
        stale: Undecided | None = None
        for note, whose in [*older, *((one.checkpoint, one.whose) for one in noted)]:
            try:
                tree.extends(note, whose)
            except Undecided as error:
                stale = stale or error
        if stale is not None:
            raise stale

    def _catch_up(self, tree: LogTree) -> LogTree:
        return catch_up(
            tree, self.evidence, self.auditor.log_key, self.auditor.remember, self.around.log_bytes, self.may_ask
        )

    def _witnessed(self, log: LogView, life: WindowSpan, say: Recorder) -> None:
        if self.auditor.witness_policy is not None:
            policy, most = self.auditor.witness_policy, self.around.log_bytes
            check_witnessed(policy, self.evidence, self.auditor.log_key, log, life.close_index, most, say)

    def _remembered(self, tree: LogTree) -> LogTree:
        found = self._catch_up(tree)
        self.result.log = found.signed
        return found

    def _decoded(self, tree: LogTree) -> LogView:
        self.result.log_size = tree.size
        return decoded(tree)

    def _sort(self, log: LogView, noted: Sequence[Noted], say: Recorder) -> list[Promise]:
        promises, aside = sort_receipts(log, noted)
        self.result.set_aside += aside
        say(receipt_roots=len(promises), set_aside=len(self.result.set_aside))
        return promises

    # --- 2 to 7, what the verdict takes from them ---

    def _entered(self, log: LogView, name: str, say: Recorder) -> Entered:
        found = find_window(log, name)
        manifest = found[1].manifest
        self.result.about = manifest.window, manifest.digest()
        return check_entered(log, self.auditor, found, say)

    def _window(self, log: LogView, entered: Entered, say: Recorder) -> Window:
        self.result.window = check_class(log, self.auditor, entered, say)
        return self.result.window

    def _key(self, window: Window, say: Recorder) -> Key:
        configured, key = check_key(self.auditor, window, say)
        self.result.keys, self.result.participants = configured.made_by, configured.participants
        return key

    def _coin_key(self, window: Window, say: Recorder) -> ThinningKey | None:
        found = check_thinning_key(self.auditor, window, say)
        if found is None:
            return None
        configured, key = found
        self.result.coin_keys = configured.made_by
        return key

    def _beacon(self, entries: BeaconState, entered: Entered, life: WindowSpan, say: Recorder) -> int:
        value, self.result.beacon_of = check_beacon(entries, entered, life, self.auditor, say)
        return value

    def _throw(self, log: LogView, entered: Entered, beacon: int, say: Recorder) -> Throw:
        throw, relied = check_throw(log, entered, beacon, self.auditor, say)
        self.result.beacon_of = self.result.beacon_of or relied
        return throw

    def _placed(
        self, log: LogView, entered: Entered, life: WindowSpan, versions: Versions, say: Recorder
    ) -> tuple[Placed, ...]:
        placed = check_order(self.around.group, log, entered, life, versions, say)
        self.result.records = len(placed)
        return placed

    def _records(
        self, placed: Sequence[Placed], entered: Entered, accounts: Mapping[str, Account], say: Recorder
    ) -> tuple[LoggedRecord, ...]:
        return check_accounts(placed, entered, accounts, say)

    def _answers(
        self,
        log: LogView,
        window: Window,
        versions: Versions,
        placed: Sequence[Placed],
        promises: Sequence[Promise],
        say: Recorder,
    ) -> None:
        """``placed``: openings are of versions that records may name, so records must be first."""
        self.result.set_aside += check_answers(log, window, versions, promises, say)
        say(set_aside=[asdict(one) for one in self.result.set_aside])

    def _tally(
        self, entered: Entered, records: Sequence[LoggedRecord], acknowledged: Collection[bytes]
    ) -> tuple[Tally, ...]:
        self.result.tallies = tally(entered, records, acknowledged)
        return self.result.tallies

    # --- 8 proofs and 9 estimate ---

    def _wanted(
        self,
        log: LogView,
        window: Window,
        life: WindowSpan,
        records: Sequence[LoggedRecord],
        sample: Sample | None,
        say: Recorder,
    ) -> Sequence[LoggedRecord]:
        if sample is None:
            say(mode="full", records=len(records))
            return records
        # A provider that breaks off once it knows the sample, or lets its log grow, is asked for the same one again.
        nonce = self._sample_nonce(log, window.digest)
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

    def _sample_nonce(self, log: LogView, name: bytes) -> bytes:
        """Drawn with nothing seen of the log, by whatever process, that it was not held against."""
        return self.auditor.sample_nonce(self._catch_up(log), name, self.around.random(32))

    def _inquiry(
        self,
        log: LogView,
        window: Window,
        life: WindowSpan,
        records: Sequence[LoggedRecord],
        asker: Asker,
        effort: Effort,
    ) -> Inquiry:
        return Inquiry(
            group=self.around.group,
            window=window,
            auditor=self.auditor,
            asker=asker,
            records=records,
            effort=effort,
            sample_nonce=lambda name: self._sample_nonce(log, name),
            root=log.tree.root(life.close_index + 1),
            progress=lambda text: self.around.progress(9, f"{TITLES[9]}, {text}"),
        )

    def _estimate(self, inquiry: Inquiry, say: Recorder) -> Estimation:
        self.result.estimation = check_estimate(inquiry, say)
        return self.result.estimation

    # --- 11 epsilon ---

    def _period(self, log: LogView, entered: Entered, life: WindowSpan) -> Period:
        """``life``: the window was opened, which is what puts others before it."""
        return period(log, entered, self.auditor)

    def _budget(
        self, log: LogView, window: Window, accounted: Accounted, alone: float, tallies: Sequence[Tally], say: Recorder
    ) -> None:
        budget = make_budget(window, self.auditor, accounted, alone, tallies, say)
        neighbours = self._beside(log, window.digest, budget)
        say(**{f"window {one.window}": one.verdict for one in neighbours})
        self.result.budget, self.result.neighbours = budget, neighbours

    def _beside(self, log: LogView, audited: bytes, budget: PeriodBudget) -> tuple[Neighbour, ...]:
        """What is known of the period's other windows, and which windows before it failed.

        The provider's policy says when a period begins: a bad window must not vanish behind a later beginning.
        """
        inside = [(one.window, one.manifest) for one in budget.windows]
        before = [(one.window, one.manifest) for one in budget.period.left_out]
        known = self.auditor.neighbours(log, before, audited)
        failed = [one for one in known if one.verdict == FAIL and one.manifest]
        return (*failed, *self.auditor.neighbours(log, inside, audited))


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
