# SPDX-License-Identifier: GPL-3.0-or-later
"""Statements of observers about their probes, counted again.  SPEC D.13.

Their answers went through the receipts' checks before, and may have led to a FAIL there.  Nothing here can: anybody can
make a statement, choose accounts and documents, and stop asking when a count suits.  What does not hold
sets the statement aside, and what exceeds a certified number is reported as that observer's word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ragseal.accounting.claims import claim_of
from ragseal.accounting.statistics import delong, lower_bounds
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import AttestationError, AuditError
from ragseal.kernel.policy import Policy
from ragseal.ledger.probe.canary import Certified, certify, violations
from ragseal.ledger.probe.statement import Worlds, check_asked, check_complete, count
from ragseal.verifier.evidence.evidence import ProbeFile
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.receipts import SetAside
from ragseal.verifier.steps.records import Placed
from ragseal.verifier.steps.versions import Versions

CONFIDENCE = 0.999  #: of each of the limits that a count is compared with
FEWEST = 2  #: queries in each tenant of which limits can be computed


@dataclass(frozen=True, slots=True)
class CountedProbe:
    """What this auditor counted of one statement."""

    file: str
    observer: bytes  #: its key
    answers: int
    accounts: int
    worlds: Worlds | None  #: of the planted pair
    exceeds: tuple[str, ...]  #: certified numbers that the count lies above; none without a pair

    def details(self) -> dict[str, Any]:
        """For the report."""
        worlds = self.worlds
        pair = None
        if worlds is not None:
            pair = {"queries": [len(worlds.inside), len(worlds.outside)], "hits": list(worlds.hits)}
        return {
            "file": self.file,
            "observer": self.observer,
            "answers": self.answers,
            "accounts": self.accounts,
            "planted_pair": pair,
            "exceeds": list(self.exceeds),
        }

    def note(self) -> str:
        """One sentence; empty where the count exceeds nothing."""
        if not self.exceeds:
            return ""
        return (
            f"probe {self.file} of observer {self.observer.hex()}: {'; '.join(self.exceeds)}. Which accounts asked, "
            "when they stopped, and that the two tenants differ in the pair alone, is the observer's word, so no "
            "verdict rests on it: probe for yourself"
        )


def check_probes(
    files: Sequence[ProbeFile], good: Collection[str], window: Window, versions: Versions, placed: Sequence[Placed]
) -> tuple[list[CountedProbe], list[SetAside]]:
    """Count every statement whose answers all hold.

    Args:
        good: names of the receipt files that are the provider's word about this window, and in which all holds.
    """
    counted, aside = [], []
    for file in files:
        try:
            counted.append(_counted(file, good, window, versions, placed))
        except AuditError as error:
            aside.append(SetAside(file.name, f"the probe counts nothing: {error}"))
    return counted, aside


def _counted(
    file: ProbeFile, good: Collection[str], window: Window, versions: Versions, placed: Sequence[Placed]
) -> CountedProbe:
    """Raises AttestationError: the statement does not hold, which says nothing about the provider."""
    stated, answers = file.statement, file.statement.answers
    if stated.manifest != window.digest:
        raise AttestationError("it is of a window that this audit is not of: audit that one with it")
    stated.verify()
    if not answers:
        raise AttestationError("it holds no answer")
    for number in range(len(answers)):
        if file.answer_name(number) not in good:
            raise AttestationError(f"answer {number} is not what the provider signed for a record of this window")
    check_asked(answers, window.digest)
    check_complete(answers, [one.record.signed.request for one in placed])
    worlds = count(stated.planted, answers, lambda request: versions.known[request.index_digest].tenant)
    if stated.hits != (() if worlds is None else worlds.hits):
        raise AttestationError(f"it states hits {list(stated.hits)}, and its answers show otherwise")
    accounts = len({one.request.account for one in answers})
    return CountedProbe(file.name, stated.observer, len(answers), accounts, worlds, _exceeds(window, worlds))


def _exceeds(window: Window, worlds: Worlds | None) -> tuple[str, ...]:
    """Which certified numbers the count lies above; none where the claim certifies none for a probe."""
    policy = window.manifest.policy
    if worlds is None or claim_of(policy).not_probed or min(len(worlds.inside), len(worlds.outside)) < FEWEST:
        return ()
    certified, alpha = _certified(policy, window.cls), 1 - CONFIDENCE
    one, other = [int(hit) for hit in worlds.inside], [int(hit) for hit in worlds.outside]
    bounds = lower_bounds(one, other, certified.delta, alpha)
    return tuple(violations(certified, bounds, delong(one, other), alpha))


@lru_cache(maxsize=4)
def _certified(policy: Policy, cls: AttestationClass) -> Certified:
    return certify(policy, cls, 1)
