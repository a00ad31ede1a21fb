# SPDX-License-Identifier: GPL-3.0-or-later
"""What an audit's parts find, and what of it the verdict takes along.  SPEC D.

Each method is one part of a step of :mod:`ragseal.verifier.audit.verification`, which puts them in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ragseal.kernel.bn254 import Group
from ragseal.kernel.enrolment import Enrolment
from ragseal.kernel.thinning_class import ThinningKey
from ragseal.ledger.checkpoint import SignedCheckpoint, recall
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.policy import Policy
from ragseal.ledger.turns import LogKey
from ragseal.verifier.evidence.evidence import Auditor, Evidence, Key, ProbeFile, ReceiptFile, TurnFile, Undecided
from ragseal.verifier.outcome.checklist import Checklist
from ragseal.verifier.outcome.outcome import FAIL, TITLES, Moments, Neighbour, Verdict
from ragseal.verifier.steps.asking import Asker
from ragseal.verifier.steps.beacon import BeaconState, Throw, check_beacon, check_throw
from ragseal.verifier.steps.blocks import Effort
from ragseal.verifier.steps.coins import check_thinning_key
from ragseal.verifier.steps.epsilon import (
    Accounted,
    PeriodBudget,
    make_budget,
)
from ragseal.verifier.steps.estimate import Estimation, Inquiry, check_estimate
from ragseal.verifier.steps.keys import check_key
from ragseal.verifier.steps.lifespan import WindowSpan, check_life
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
    Tenancy,
    Window,
    check_class,
    check_entered,
    find_window,
)
from ragseal.verifier.steps.period import Period, period
from ragseal.verifier.steps.probes import check_probes
from ragseal.verifier.steps.receipts import (
    Noted,
    Promise,
    Tally,
    check_answers,
    sort_notes,
    sort_receipts,
    tally,
)
from ragseal.verifier.steps.recorder import Recorder, of_claim
from ragseal.verifier.steps.records import LoggedRecord, Placed, check_accounts, check_order
from ragseal.verifier.steps.sample import Sample, confidence_text, draw, share_bound
from ragseal.verifier.steps.shown_turns import check_shown, keys_beside
from ragseal.verifier.steps.turns import check_held, current_key, more_turns, turned_by
from ragseal.verifier.steps.versions import Versions
from ragseal.verifier.steps.witnesses import check_witnessed


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


class Findings(Checklist):
    """The parts that a verdict takes something from, or that need more than what other parts hand on."""

    def __init__(
        self,
        evidence: Evidence,
        auditor: Auditor,
        around: Environment,
        result: Verdict,
        turns: Sequence[TurnFile] = (),
    ) -> None:
        """``turns``: of the log's key, as accounts were shown them."""
        super().__init__(around.clock, around.progress, around.deadline)
        self.evidence = evidence
        self.auditor = auditor
        self.around = around
        self.result = result
        self.turns = turns
        self.probes: Sequence[ProbeFile] = ()  #: that receipts were taken from
        self._unkept: LogKey | None = None

    # --- 1 log ---

    def _signed(self) -> SignedCheckpoint:
        """The newest checkpoint, under whatever key the log has turned to."""
        self._believe(current_key(self.evidence, self.auditor.log_key, self.around.log_bytes))
        return read_note(self.evidence, self.auditor.log_key)

    def _believe(self, found: NoteVerifier) -> bool:
        """Go by turns that were not known; whether there were any.

        They are kept before anything else is that rests on them, once the log is found to continue what is remembered:
        else whoever stole an old key could leave a turn of its own in this auditor's folder.
        """
        key = more_turns(found, self.auditor.log_key)
        if key is None:
            return False
        self._unkept = key
        known = self.auditor.remembered
        known = None if known is None else recall(known.note.encode(), key)
        self.auditor = replace(self.auditor, log_key=key, remembered=known)
        return True

    def _turned(
        self, tree: LogTree, receipts: Sequence[ReceiptFile], noted: Sequence[Noted], say: Recorder
    ) -> Sequence[Noted]:
        """The turns in the log's entries; what of the receipts is the log's word by them."""
        if self._believe(turned_by(tree, self.auditor.log_key)) or self.turns:
            self.result.set_aside = []
            noted = self._notes(receipts, tree.size)
        turns = len(self.auditor.log_key.keys) - 1
        if turns:
            say(turns=turns, signing_key=self.auditor.log_key.keys[-1].vkey())
        return noted

    def _notes(self, receipts: Sequence[ReceiptFile], size: int = 0) -> list[Noted]:
        """What of the receipts is the log's word; it and what this auditor remembers do not contradict each other.

        ``size``: of the log, once its turns are known.
        """
        noted, aside = sort_notes(receipts, self.auditor.log_key, keys_beside(self.turns, self.auditor.log_key, size))
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
        handed = [
            (one.checkpoint, one.whose) for one in noted if not one.checkpoint.void
        ]  # void: whoever signed the body
        for note, whose in [*older, *handed]:
            try:
                tree.extends(note, whose)
            except Undecided as error:
                stale = stale or error
        if stale is not None:
            raise stale
        check_held(tree, self.auditor.log_key)

    def _shown_turns(self, tree: LogTree) -> None:
        check_shown(self.turns, tree, self.auditor.log_key)

    def _catch_up(self, tree: LogTree) -> LogTree:
        key, most = self.auditor.log_key, self.around.log_bytes
        found = catch_up(tree, self.evidence, key, self._remember, most, self.may_ask)
        if found is not tree:  # turns in what was read since (SPEC G.6.13.2)
            self._believe(turned_by(found, key))
        return found

    def _remember(self, tree: LogTree) -> SignedCheckpoint:
        """Remember the log, and its turns before.  It continues what is remembered: else this part is not begun."""
        if self._unkept is not None:
            self.auditor.keep_turns(self._unkept)
            self._unkept = None
        return self.auditor.remember(tree)

    def _witnessed(self, policy: Policy, log: LogView, life: WindowSpan, say: Recorder) -> None:
        most = self.around.log_bytes
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

    def _life(self, log: LogView, entered: Entered, say: Recorder) -> WindowSpan:
        life = check_life(log, entered, say)
        self.result.moments = Moments(life.open.time, None if life.close is None else life.close.time)
        return life

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
        if placed and self.result.moments is not None:
            times = [one.record.time for one in placed]
            self.result.moments = replace(self.result.moments, first_record=min(times), last_record=max(times))
        return placed

    def _records(
        self, placed: Sequence[Placed], entered: Entered, accounts: Mapping[str, Enrolment], say: Recorder
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
        self._probes(window, versions, placed, promises)
        say(set_aside=[asdict(one) for one in self.result.set_aside])
        if self.result.probes:
            say(probes=[one.details() for one in self.result.probes])

    def _probes(
        self, window: Window, versions: Versions, placed: Sequence[Placed], promises: Sequence[Promise]
    ) -> None:
        """Count observers' statements; they decide nothing."""
        bad = {one.file for one in self.result.set_aside}
        held = [one for one in promises if not one.elsewhere(window.digest) and not one.checkpoint.void]
        good = {one.file.name for one in held if one.file.name not in bad}
        self.result.probes, aside = check_probes(self.probes, good, window, versions, placed)
        self.result.set_aside += aside

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
        root = log.tree.root(life.close_index + 1)
        of_claims = [[one for one in records if one.tenant in of.tenants] for of in window.tenancies]
        counts = [Counter(one.tenant for one in every) for every in of_claims]
        sizes = sample.by_claim(counts)
        drawn = [draw(every, size, nonce, root, window.digest) for every, size in zip(of_claims, sizes, strict=True)]
        taken = Counter(one.tenant for every in drawn for one in every)
        strata = [[(total, taken[tenant]) for tenant, total in one.items()] for one in counts]
        self.result.beta = max(share_bound(one, sample.confidence) for one in strata)
        wanted = sorted((one for every in drawn for one in every), key=lambda one: one.record.seq)
        self.result.confidence = sample.confidence
        say(
            mode="sampled",
            records=len(records),
            nonce=nonce,
            seqs=[one.record.seq for one in wanted],
            beta=self.result.beta,
            confidence=confidence_text(sample.confidence),
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

    def told(self, of: Tenancy | None) -> Callable[[Recorder], Recorder]:
        """What a part of step 11 says names the claim, where tenants have several."""
        window = self.result.window
        if of is None or window is None or len(window.tenancies) < 2:
            return lambda say: say
        return lambda say: of_claim(say, of.claim)

    def _period(self, log: LogView, entered: Entered, life: WindowSpan, of: Tenancy | None) -> Period:
        """``life``: the window was opened, which is what puts others before it."""
        return period(log, entered, self.auditor, of)

    def _budget(
        self, log: LogView, window: Window, accounted: Accounted, alone: float, tallies: Sequence[Tally], say: Recorder
    ) -> None:
        budget = make_budget(log, window, self.auditor, accounted, alone, tallies, say)
        neighbours = self._beside(log, window.digest, budget)
        say(**{f"window {one.window}": one.verdict for one in neighbours})
        if self.result.budget is None:
            self.result.budget = budget
        else:
            self.result.higher = (*self.result.higher, budget)
        known = self.result.neighbours
        self.result.neighbours = (*known, *(one for one in neighbours if one not in known))

    def _beside(self, log: LogView, audited: bytes, budget: PeriodBudget) -> tuple[Neighbour, ...]:
        """What is known of the period's other windows, and which windows before it failed.

        The provider's policy says when a period begins: a bad window must not vanish behind a later beginning.
        """
        inside = [(one.window, one.manifest) for one in budget.windows]
        before = [(one.window, one.manifest) for one in budget.period.left_out]
        known = self.auditor.neighbours(log, before, audited)
        failed = [one for one in known if one.verdict == FAIL and one.manifest]
        return (*failed, *self.auditor.neighbours(log, inside, audited))
