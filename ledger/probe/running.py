# SPDX-License-Identifier: GPL-3.0-or-later
"""A probe: canary queries by accounts of an observer, stated under its key.

With a planted pair it is the replace-pair attack: the operator puts the canary into one tenant of a test window and its
replacement into another, and registers the observer's accounts in both.  Without one the queries test the protocol: the
account's own program checks every answer, and here its record is held against the log.
A probe can show that noise is missing.  It cannot show that noise is always there: that is what the proofs are for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragseal.accounting.claims import claim_of
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel import signature
from ragseal.kernel.classes import AttestationClass, removed
from ragseal.kernel.commitment import Manifest
from ragseal.kernel.errors import AttestationError, CommitmentError, ConfigurationError, LedgerError, TransportError
from ragseal.kernel.policy import Policy, check_policy
from ragseal.kernel.signature import SigningKey
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.learning import learn
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.ledger.options import Peer
from ragseal.ledger.probe.asking import Account, Seen, ask_all, locate, planted_slot, shares
from ragseal.ledger.probe.canary import Finding, judge
from ragseal.ledger.probe.plant import Plant, scores_of
from ragseal.ledger.probe.statement import Planted, ProbeAnswer, ProbeStatement, Worlds, check_asked, count
from ragseal.ledger.remote import RemoteLedger
from ragseal.runtime.terminal import progress_bars

SECONDS_TO_PUBLISH, PAUSE = 150.0, 2.0  #: records become public on a coarse tick, a minute apart


# --- before anything is asked ----------------------------------------------------------------------------------------


def one_window(seen: Sequence[Seen]) -> Manifest:
    """The one window that all accounts are in.  Raises ConfigurationError: there are several."""
    manifests = {one.manifest.digest(): one.manifest for one in seen}
    if len(manifests) != 1:
        raise ConfigurationError("the accounts are in several windows: probe within one")
    return next(iter(manifests.values()))


def one_tenant(seen: Sequence[Seen], option: str) -> str:
    """The one tenant of these accounts.  Raises ConfigurationError: there are several."""
    tenants = {one.tenant for one in seen}
    if len(tenants) != 1:
        raise ConfigurationError(f"{option} accounts are of several tenants: {', '.join(sorted(tenants))}")
    return tenants.pop()


def check_left(manifest: Manifest, queries: int, option: str, seen: Sequence[Seen]) -> int:
    """Each account may still ask its share of ``queries``.

    Returns:
        How many queries the last account has left then.

    Raises:
        ConfigurationError: more queries than an account has.
    """
    n_max, asked = manifest.policy.n_max, shares(queries, len(seen))
    for one, times in zip(seen, asked, strict=True):
        if one.answered + times > n_max:
            raise ConfigurationError(
                f"{queries} queries of {len(seen)} accounts ({option}) are up to {times} of one account, of which one "
                f"has asked {one.answered} times, and window {manifest.window!r} allows each n_max = {n_max}: give "
                "more accounts, or ask less often (--queries). No query was spent"
            )
    return n_max - seen[-1].answered - asked[-1]


def check_probed(manifest: Manifest, queries: int, group: int) -> None:
    """A planted pair can be probed for in this window, by trials of ``group`` queries.

    Raises:
        ConfigurationError: a window whose claim has a coin, a trial larger than the policy speaks of, or one trial.
    """
    policy = manifest.policy
    why_not = claim_of(policy).not_probed
    if why_not:
        raise ConfigurationError(
            f"window {manifest.window!r} claims {policy.claim}: {why_not}. Ask for a test window with claim = "
            "every-list, or probe without a planted pair (--account)"
        )
    if group > policy.n_max * policy.k_max:
        raise ConfigurationError(
            f"a trial of {group} queries is more than the {policy.n_max * policy.k_max} that the policy speaks of"
        )
    if 0 < queries < 2 * group:
        raise ConfigurationError(f"{queries} queries make fewer than two trials of {group}: ask more often")


def find_class(policy: Policy) -> AttestationClass:
    """The policy's class as it is built here.  Raises CommitmentError: this build has none of that name and digest."""
    classes = load_classes()
    if policy.class_name not in classes:
        raise CommitmentError(f"no circuit class {policy.class_name!r} in this build{removed(policy.class_name)}")
    cls = classes[policy.class_name]
    check_policy(policy, cls, class_digest(cls))
    return cls


# --- afterwards ------------------------------------------------------------------------------------------------------


async def check_logged(remote: RemoteLedger, peer: Peer, answers: Sequence[ProbeAnswer]) -> None:
    """The log shows every answer's record where its receipt says, waiting until the log is published so far.

    Raises:
        TransportError: it is not in time.
        LedgerError: another entry stands there.
    """
    end = time.monotonic() + SECONDS_TO_PUBLISH
    needed = 1 + max(one.answer.receipt.body.index for one in answers)
    while True:
        note = await remote.checkpoint()
        point = open_checkpoint(note, await learn(remote, note, peer.log)).checkpoint
        if point.size >= needed:
            break
        if time.monotonic() > end:
            raise TransportError(
                f"the log shows {point.size} entries, the answers were promised {needed}: state them later with "
                "--queries 0"
            )
        await asyncio.sleep(PAUSE)
    for one in answers:
        at = one.answer.receipt.body.index
        entry = await remote.entry(at)
        verify_inclusion(leaf_hash(entry), at, point.size, await remote.inclusion(at, point.size), point.root)
        if entry != one.answer.record.encode():
            raise LedgerError(
                f"entry {at} of the log is not the record that account {one.request.account} was shown: give its "
                "receipt to an auditor (`ragseal-client receipts export`)"
            )


def values(
    finding: Finding, manifest: Manifest, cls: AttestationClass, worlds: Sequence[Sequence[bool]], group: int,
    confidence: float,
) -> dict[str, Any]:  # fmt: skip
    """What `--json` prints."""
    return {
        "verdict": finding.verdict,
        "reasons": list(finding.reasons),
        "window": manifest.window,
        "manifest": manifest.digest().hex(),
        "class": cls.name,
        "queries": [len(world) for world in worlds],
        "hits": [sum(world) for world in worlds],
        "group": group,
        "confidence": confidence,
        "auc": {"value": finding.roc.auc, "low": finding.interval[0], "high": finding.interval[1]},
        "epsilon_at_least": finding.bounds.epsilon,
        "advantage_at_least": finding.bounds.advantage,
        "certified": asdict(finding.certified),
        "predicted": asdict(finding.prediction),
    }


def for_people(found: dict[str, Any]) -> str:
    """The outcome in lines."""
    auc, certified, predicted = found["auc"], found["certified"], found["predicted"]
    lines = [
        f"window {found['window']}: planted slot returned {found['hits'][0]} of {found['queries'][0]} times inside, "
        f"{found['hits'][1]} of {found['queries'][1]} outside; honest: {predicted['inside']:.3f} and "
        f"{predicted['outside']:.3f} of the time",
        f"{'':12}{'measured':>28}{'certified':>14}{'honest':>10}",
        f"{'AUC':12}{auc['value']:8.4f} [{auc['low']:.4f}, {auc['high']:.4f}] {certified['auc']:>12.4f}"
        f"{predicted['auc']:>10.4f}",
        f"{'epsilon':12}{'at least':>15} {found['epsilon_at_least']:12.4f}{certified['epsilon']:>14.4f}",
        f"{'advantage':12}{'at least':>15} {found['advantage_at_least']:12.4f}{certified['advantage']:>14.4f}",
        f"confidence {found['confidence']:g}, {found['group']} queries a trial, delta {certified['delta']:g}",
        *found["reasons"],
    ]
    return "\n".join([*lines, f"probe: {found['verdict']}"])


# --- the probe -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Probe:
    """What is asked, and with whose accounts."""

    peer: Peer
    groups: Sequence[Sequence[Path]]  #: folders of the accounts; with a planted pair those inside, and those outside
    pair: Plant | None
    question: str  #: without a planted pair
    embedder: str  #: of this machine, or `none`

    @property
    def accounts(self) -> list[list[Account]]:
        """Those of :attr:`groups`."""
        return [[Account(path, self.peer, self.embedder) for path in folders] for folders in self.groups]

    def ask(self, queries: int, group: int) -> None:
        """Spend the queries, by trials of ``group`` where there is a pair.

        Raises:
            ConfigurationError: they cannot be spent, before one is; or an account stopped.
        """
        groups, pair = self.accounts, self.pair
        seen = [[account.look() for account in accounts] for accounts in groups]
        manifest = one_window([one for accounts in seen for one in accounts])
        options = ("--inside", "--outside") if pair else ("--account",)
        if pair:
            check_probed(manifest, queries, group)
        left = 0
        for accounts, option in zip(seen, options, strict=True):
            left = check_left(manifest, queries, option, accounts)
        if pair and left < 1:
            raise ConfigurationError(
                f"the last --outside account has to find the planted slot, and {queries} queries use up its n_max = "
                f"{manifest.policy.n_max}: give one account more, or ask less often (--queries). No query was spent"
            )
        with progress_bars() as bars:
            task = bars.add_task("asking", total=len(groups) * queries)
            text = pair.query if pair else self.question
            asked = [ask_all(text, queries, accounts, lambda: bars.advance(task)) for accounts in groups]
        if pair and planted_slot(asked[-1], pair.replacement) is None:
            locate(pair, left, groups[-1][-1])

    def state(self, key: SigningKey) -> Stated:
        """All that the accounts have in the window, each answer in the log, under the observer's key.

        Raises:
            ConfigurationError: accounts of several windows or tenants, or nothing that can be counted.
            TransportError, LedgerError: the log does not show the records.
        """
        shown = [[account.shown() for account in accounts] for accounts in self.accounts]
        flat = [one for accounts in shown for one in accounts]
        manifest = one_window([seen for seen, _ in flat])
        answers = [answer for _, found in flat for answer in found]
        check_asked(answers, manifest.digest())
        asyncio.run(self._logged(answers))
        documents: tuple[Planted, ...] = ()
        if self.pair is not None:
            sides = zip(shown, ("--inside", "--outside"), (self.pair.canary, self.pair.replacement), strict=True)
            documents = tuple(
                Planted(one_tenant([seen for seen, _ in accounts], option), text) for accounts, option, text in sides
            )
        tenants = {answer.request.account: seen.tenant for seen, found in flat for answer in found}
        try:
            worlds = count(documents, answers, lambda request: tenants[request.account])
        except AttestationError as error:
            raise ConfigurationError(f"nothing can be counted: {error}") from None
        hits = () if worlds is None else worlds.hits
        public = signature.public_bytes(key)
        made = ProbeStatement(manifest.digest(), public, documents, hits, tuple(answers), bytes(64))
        return Stated(manifest, made.signed(key), worlds)

    async def _logged(self, answers: Sequence[ProbeAnswer]) -> None:
        async with self.peer.connect() as remote:
            await check_logged(remote, self.peer, answers)

    def compared(self, stated: Stated, group: int, confidence: float) -> dict[str, Any]:
        """The planted pair's hits beside what is certified.  Raises CommitmentError: a class of a different build."""
        policy, worlds = stated.manifest.policy, stated.worlds
        assert self.pair is not None
        assert worlds is not None
        cls = find_class(policy)
        scores = scores_of(self.pair, policy, self.embedder)
        finding = judge(policy, cls, worlds.inside, worlds.outside, group, scores, confidence, worlds.slots)
        return values(finding, stated.manifest, cls, (worlds.inside, worlds.outside), group, confidence)


@dataclass(frozen=True, slots=True)
class Stated:
    """A statement, of which window it is, and its count."""

    manifest: Manifest
    statement: ProbeStatement
    worlds: Worlds | None
