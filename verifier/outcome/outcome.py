# SPDX-License-Identifier: GPL-3.0-or-later
"""What an audit ends in: PASS or SAMPLED-PASS; FAIL, by the provider's own signature; NO VERDICT, all else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ragseal.accounting.rounding import upward
from ragseal.kernel.errors import AuditError
from ragseal.kernel.verdict import Claimed, about, claims_text, word
from ragseal.ledger.checkpoint import SignedCheckpoint
from ragseal.verifier.outcome import guess
from ragseal.verifier.outcome.words import FAIL as FAIL
from ragseal.verifier.outcome.words import NO_VERDICT as NO_VERDICT
from ragseal.verifier.outcome.words import PASS as PASS
from ragseal.verifier.outcome.words import SAMPLED_PASS as SAMPLED_PASS
from ragseal.verifier.steps.epsilon import PeriodBudget
from ragseal.verifier.steps.estimate import FULL, Estimation
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.probes import CountedProbe
from ragseal.verifier.steps.receipts import SetAside, Tally
from ragseal.verifier.steps.sample import confidence_text

OK, FAILED, OPEN, NOT_ASKED, NOT_REACHED = "ok", "failed", "no verdict", "not asked", "not reached"
NOT_AUDITED, CHANGED = "not audited", "changed after its audit"  #: of another window of the period
SHORT = len("auditor:") + 16  #: characters of who made the keys, where it is another auditor
NAMED = 8  #: other windows that the verdict's line names; the report names all

TITLES = {
    0: "own folder",
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


class Ending(AuditError):
    """The step at which a checklist ended, why, and what shows it; ``failed`` if the provider's signature does."""

    def __init__(
        self,
        number: int,
        message: str,
        evidence: dict[str, Any],
        way_out: str = "",
        failed: bool = False,
        forked: bool = False,
    ) -> None:
        super().__init__(f"step {number} ({TITLES[number]}): {message}")
        self.number = number
        self.message = message
        self.evidence = evidence
        self.way_out = way_out  #: of a NO VERDICT
        self.failed = failed  #: only whoever holds the provider's signature against it says so
        self.forked = forked  #: by two notes of the log that contradict each other: ``older`` and ``newer``

    def line(self) -> str:
        after = f"; {self.way_out}" if self.way_out else ""
        return f"step={self.number} {TITLES[self.number]}: {self.message}{after}"


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the checklist as it went."""

    number: int
    title: str
    status: str
    evidence: dict[str, Any]
    seconds: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another window of the same budget period, and what is known of it: a verdict, NOT_AUDITED or CHANGED."""

    window: str
    manifest: bytes
    verdict: str

    @property
    def passed(self) -> bool:
        return guess.passes(self.verdict)


@dataclass(frozen=True, slots=True)
class Moments:
    """When a window was used, as its log shows it; seconds since 1970, to the minute where the log is."""

    opened: int
    closed: int | None = None  #: None where the log holds no end of it
    first_record: int | None = None
    last_record: int | None = None


@dataclass(slots=True)
class Verdict:
    """What an audit found."""

    auditor: bytes = b""  #: public key of whose verdict it is
    at: int = 0  #: when it was audited: the auditor's clock, seconds since 1970
    verdict: str = NO_VERDICT
    mode: str = "full"
    keys: str = "not reached"
    participants: tuple[str, ...] = ()  #: of the ceremony that made the keys: those whom this auditor knows
    coin_keys: str = ""  #: who made the key that thinning is proven under; empty where the claim has no coin
    beacon_of: str = ""  #: the auditor whose nonce the beacon rests on, in its name there; empty if it is this one's
    origin: str = ""  #: name of the log, from the auditor's own key of it
    about: tuple[str, bytes] | None = None  #: name and manifest digest of the window, once it was found in the log
    window: Window | None = None
    moments: Moments | None = None  #: None until the window's opening was found in the log
    records: int = 0
    proven: int = 0
    tallies: tuple[Tally, ...] = ()
    set_aside: list[SetAside] = field(default_factory=list)
    probes: list[CountedProbe] = field(default_factory=list)  #: of observers' statements those that could be counted
    budget: PeriodBudget | None = None  #: of the weakest claim that a tenant has
    higher: tuple[PeriodBudget, ...] = ()  #: of other tenants' claims, the weakest first
    estimation: Estimation | None = None
    beta: float | None = None
    confidence: Fraction | None = None
    steps: list[Step] = field(default_factory=list)
    failure: Ending | None = None  #: of a FAIL
    obstacle: Ending | None = None  #: of a NO VERDICT
    neighbours: Sequence[Neighbour] = ()  #: the other windows of the period
    log: SignedCheckpoint | None = None  #: seen and consistent with what was remembered
    log_size: int = 0
    seconds: float = 0.0
    unkept: list[str] = field(default_factory=list)  #: why this machine could not keep it, or its report

    @property
    def passed(self) -> bool:
        return guess.passes(self.verdict)

    @property
    def beside(self) -> tuple[Neighbour, ...]:
        """Other windows of the period that no PASS is known of."""
        return tuple(one for one in self.neighbours if not one.passed)

    @property
    def claimed(self) -> Claimed | None:
        """What a PASS claims for every tenant, with every number that the claim needs; None of what is none."""
        return self.claims[0] if self.claims else None

    @property
    def claims(self) -> tuple[Claimed, ...]:
        """What a PASS claims, the weakest claim first: one, or one for each claim that a tenant has."""
        if self.budget is None or not self.passed:
            return ()
        return tuple(one.claimed(bool(self.beside)) for one in (self.budget, *self.higher))

    @property
    def tone(self) -> str:
        """The colour class: a PASS is green if its epsilon is small and rests on nobody's word."""
        return guess.tone(self.verdict, guess.worst(self.claims), any(one.word for one in self.claims))

    def end(self, ending: Ending) -> None:
        """A FAIL or a NO VERDICT, from this step on."""
        if ending.failed:
            self.verdict, self.failure = FAIL, ending
        else:
            self.verdict, self.obstacle = NO_VERDICT, ending
        done = {step.number for step in self.steps}
        self.steps += [Step(n, t, NOT_REACHED, {}, 0.0) for n, t in TITLES.items() if n and n not in done]

    def line(self) -> str:
        """The verdict in one line; what makes it less than it seems stands at the end, and then what it is about."""
        ending = self.failure or self.obstacle
        said = [self.verdict, ending.line() if ending is not None else self._numbers()]
        if self.passed and self.beside:
            named = [f"{word(one.window)}:{one.verdict.replace(' ', '-')}" for one in self.beside[:NAMED]]
            more = [f"and-{len(self.beside) - NAMED}-more"] if len(self.beside) > NAMED else []
            said.append(f"beside={','.join(named + more)}")
        said.append(about(self.about, self.origin))
        return " ".join(" ".join(said).split())

    def _numbers(self) -> str:
        if self.budget is None or self.claimed is None:
            return ""
        text = claims_text(self.claims) + self.budget.bound.line(self.budget.around)
        if self.budget.slots > 1:
            text += f" document={self.budget.slots}-slots"
        if self.window is not None and (policy := self.window.manifest.policy).guarded:
            text += f" guard={policy.guard}:{policy.guard_formula}:{policy.guard_rho}"
        text += f" mode={self.mode} keys={self.keys[:SHORT]} records={self.records}"
        if self.beta is not None and self.confidence is not None:
            text += f" proven={self.proven} beta={upward(self.beta)} confidence={confidence_text(self.confidence)}"
        made_by = {"coin_keys": self.coin_keys, "estimate_keys": self.estimation.made_by if self.estimation else ""}
        text += "".join(f" {name}={who[:SHORT]}" for name, who in made_by.items() if who and who != self.keys)
        if self.beacon_of:
            text += f" beacon={word(self.beacon_of)}"
        unchecked = sum(one.unchecked for one in (self.budget, *self.higher))
        if unchecked:
            text += f" unchecked={unchecked}"
        if self.estimation is not None and self.estimation.certificate != FULL:
            text += f" estimate={self.estimation.certificate}"
        return text
