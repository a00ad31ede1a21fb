# SPDX-License-Identifier: GPL-3.0-or-later
"""Which windows of the log share the audited one's budget period.  SPEC D.11."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.beacon import BeaconCommit, BeaconOpening, BeaconSeal, is_auditor
from ragseal.kernel.claims import below, form_of
from ragseal.kernel.commitment import (
    SignedManifest,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.enrolment import places
from ragseal.kernel.policy import Policy
from ragseal.verifier.evidence.evidence import Auditor, Refused, held
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered, Manifests, Tenancy, by_digest, thrown_by

Thrown = Sequence[tuple[int, SignedManifest]]  #: manifests with their places in the log


@dataclass(frozen=True, slots=True)
class PeriodWindow:
    """A window of the log as its budget is charged."""

    window: str
    ledger_index: int
    stated: Policy  #: of its manifest
    policy: Policy  #: as it is charged: of the weakest claim that the window has for the tenants concerned
    queries: int  #: an account may have asked: n_max, or what the log shows if that is more
    manifest: bytes  #: its digest
    accounts: int  #: of its registry, or what the log shows if that is more
    coin_period: bytes  #: names the throw of its coins; empty where its claim has none
    carries: bool = False  #: whether its manifest names an earlier one's coins, rightly or not
    tenants: tuple[str, ...] = ()  #: of its manifest, those whose claim has a coin
    lower: tuple[str, ...] = ()  #: of its manifest, those with a claim below that of the tenants concerned

    @property
    def late(self) -> bool:
        """Whether it commits to documents under coins that its provider knew by then.

        One that carries on coins does, and one with coins whose indices change while it is open.  That nothing changed
        no log can show: blinders and salts of every version are fresh (SPEC A.11.6).
        """
        return self.carries or (bool(self.coin_period) and self.policy.version_every > 0)

    @property
    def all_queries(self) -> int:
        """Of all accounts together."""
        return self.accounts * self.queries


@dataclass(frozen=True, slots=True)
class Period:
    """Which windows of the log share the audited window's budget."""

    start: int  #: seconds since 1970
    windows: tuple[PeriodWindow, ...]
    left_out: tuple[PeriodWindow, ...]  #: opened before this window, ended before the period began
    abandoned: tuple[PeriodWindow, ...] = ()  #: not opened before this one, but the provider may have known their coins
    abandoned_before: tuple[PeriodWindow, ...] = ()  #: such ones from before the period
    later: tuple[PeriodWindow, ...] = ()  #: opened after this window, whatever their period: the log shows them already
    abandoned_later: tuple[PeriodWindow, ...] = ()  #: entered after this one opened; coins known, not opened
    of: Tenancy | None = None  #: whose budget it is, where :func:`period` found it

    @property
    def throws_left_out(self) -> int:
        """Throws of coins before the period that were known: the provider chose when the period began."""
        counted = {one.coin_period for one in (*self.windows, *self.abandoned)}
        before = {one.coin_period for one in (*self.left_out, *self.abandoned_before) if one.coin_period}
        return len(before - counted)

    @property
    def late(self) -> bool:
        """Whether a window of the period is late."""
        return any(one.late for one in self.windows)

    @property
    def never_opened_outside(self) -> tuple[PeriodWindow, ...]:
        """Throws of windows that did not open, before the period and after the audited window."""
        return (*self.abandoned_before, *self.abandoned_later)

    @property
    def outside(self) -> tuple[PeriodWindow, ...]:
        """Windows of the log, as it was audited, that the period's epsilon does not count; in the log's order."""
        every = (*self.left_out, *self.later, *self.never_opened_outside)
        return tuple(sorted(every, key=lambda one: one.ledger_index))

    @property
    def whole(self) -> Period:
        """The same with nothing outside."""
        opened = sorted((*self.left_out, *self.windows, *self.later), key=lambda one: one.ledger_index)
        return Period(self.start, tuple(opened), (), (*self.abandoned, *self.never_opened_outside), of=self.of)


def period(log: LogView, window: Entered, auditor: Auditor, of: Tenancy | None = None) -> Period:
    """The windows opened up to this one that share its period's budget, whenever their manifests were entered.

    A window is left out only if it ended before the period began.  When it ended is not what its closing entry says
    but the latest time that the log had shown by its last entry, so that no closing entry with an old time hides it;
    nor does a log that is dated back as a whole: what follows a commitment of this auditor's is no older than its
    nonce.  The log's times are whole minutes, rounded down, so a window whose last minute is that in which the period
    began may have run into it and counts; the audited window always does.  The auditor's own beginning of the period
    counts if it is earlier than the policy's.  A window with the coins of one that counts does so itself, whatever its
    times are.  A claim that bounds nothing counts its own window alone.

    Args:
        of: the tenants whose budget it is, and their claim; by default those of the policy's claim.

    Raises:
        Refused: a manifest among them is not signed, or the log holds records that no opening and manifest precede.
    """
    of = of or window.tenancies[-1]
    entered = by_digest(log)
    opened = {m.manifest: i for i, m in reversed(list(log.of(WindowOpen)))}  # the first, if there are several
    closed = {m.manifest for _, m in log.of(WindowClose)}
    ended: dict[bytes, int] = {}
    asked: Counter[tuple[bytes, str]] = Counter()
    most: dict[bytes, int] = {}  # requests of the account that asked most, by window
    accounts: Counter[bytes] = Counter()  # that asked, by window
    clock = 0
    for index, message in enumerate(log.messages):
        if isinstance(message, BeaconCommit) and message.public_key == auditor.identity:
            clock = max(clock, auditor.drawn.get(message.manifest, 0))
        if not isinstance(message, Record | WindowOpen | WindowClose):
            continue
        clock = max(clock, message.time)
        ended[message.manifest] = clock
        if isinstance(message, Record):
            who = message.manifest, message.signed.request.account
            accounts[message.manifest] += who not in asked
            asked[who] += 1
            most[message.manifest] = max(most.get(message.manifest, 0), asked[who])
            if opened.get(message.manifest, log.size) > index or message.manifest not in entered:
                raise Refused(
                    "the log holds records of a window that was not opened before them or has no manifest in it, which "
                    "nobody can audit: no epsilon follows for this log",
                    ledger_index=index,
                )
    start = window.manifest.policy.period_start
    start = start if auditor.since is None else min(start, auditor.since)
    minute = start - start % COARSE_TIME
    inside: list[PeriodWindow] = []
    outside: list[PeriodWindow] = []
    later: list[PeriodWindow] = []
    for index, signed in log.manifests():
        digest = signed.manifest.digest()
        if digest not in opened:
            continue
        behind = opened[digest] > opened[window.digest]
        if not behind:  # what comes later decides nothing here
            _hold(signed, index)
        asked_most = max(signed.manifest.policy.n_max, most.get(digest, 0))
        one = _charged(signed, index, of, _coin_period(entered, index, signed), (asked_most, accounts[digest]))
        before = digest in closed and ended[digest] < minute and digest != window.digest
        (later if behind else outside if before else inside).append(one)
    shared = _of_coins_that_count(inside, outside)
    inside = sorted([*inside, *shared], key=lambda one: one.ledger_index)
    counted = {one.manifest for one in shared}
    outside = [one for one in outside if one.manifest not in counted]
    every = _abandoned(log, window, auditor, entered, opened, minute)
    thrown_only = Tenancy(of.claim, ())  # whoever it has: nothing was answered, and its coins count
    thrown, thrown_before, thrown_later = (
        tuple(_charged(signed, index, thrown_only, signed.manifest.digest()) for index, signed in ones)
        for ones in every
    )
    if not form_of(of.claim).private:  # no number counts any, so nothing that they did is beside it
        inside, outside, later = [one for one in inside if one.manifest == window.digest], [], []
        thrown = thrown_before = thrown_later = ()
    return Period(
        start=start,
        windows=tuple(inside),
        left_out=tuple(outside),
        abandoned=thrown,
        abandoned_before=thrown_before,
        later=tuple(later),
        abandoned_later=thrown_later,
        of=of,
    )


def _of_coins_that_count(inside: Sequence[PeriodWindow], outside: Sequence[PeriodWindow]) -> list[PeriodWindow]:
    """Windows that ended before the period by their times, and whose coins are those of one that counts.

    What they showed, they showed of the same hidden slots: a closing entry that is dated back does not take it away.
    """
    coins = {one.coin_period for one in inside if one.coin_period}
    return [one for one in outside if one.coin_period in coins]


def _charged(
    signed: SignedManifest, index: int, of: Tenancy, coins: bytes, asked: tuple[int, int] = (0, 0)
) -> PeriodWindow:
    """A window as it is charged to the budget of these tenants; ``asked``: queries of one account, and accounts."""
    queries, accounts = asked
    manifest = signed.manifest
    known = max(places(manifest), accounts)
    carries = any(coin.thrown_by for coin in manifest.coins)
    return PeriodWindow(
        window=manifest.window,
        ledger_index=index,
        stated=manifest.policy,
        policy=manifest.charged(of.claim, of.tenants),
        queries=queries,
        manifest=manifest.digest(),
        accounts=known,
        coin_period=coins,
        carries=carries,
        tenants=manifest.coined,
        lower=tuple(one.tenant for one in manifest.tenants if one.claim in below(of.claim)),
    )


def _coin_period(entered: Manifests, index: int, signed: SignedManifest) -> bytes:
    """What names the throw of a window's coins; of one that carries on what it may not, a throw of its own."""
    manifest = signed.manifest
    if not manifest.coins:
        return b""
    try:
        thrown_by(entered, index, manifest)
    except Refused:
        return manifest.digest()
    return manifest.coin_period


def _abandoned(
    log: LogView,
    window: Entered,
    auditor: Auditor,
    entered: Manifests,
    opened: Mapping[bytes, int],
    minute: int,
) -> tuple[Thrown, Thrown, Thrown]:
    """Windows with a coin that were not opened before this one although their provider may have learnt the coins.

    What opens one of them afterwards changes nothing: the provider had passed it over by then.  Where a seal names this
    auditor, this folder knows whether the nonce was released, whatever the log shows; of other auditors', or if the
    folder has lost the nonce, they may have been once everybody else in a seal has a nonce in the log.
    Such a window belongs to the period unless the log shows a time before its beginning after the next manifest, which
    is what ends it, and its own policy does not name the period's beginning or a later one: a window of the period
    could have carried on its coins, so the provider could pick.  One that was entered after this one opened decides
    nothing here, but the whole log has thrown its coins.

    Returns:
        Those of the period, those before it, and those that were entered after this window opened and are not opened.
    """
    seals: dict[bytes, list[set[str]]] = {}
    nonces: dict[bytes, set[str]] = {}
    for _, seal in log.of(BeaconSeal):
        seals.setdefault(seal.manifest, []).append(set(seal.owners))
    for _, opening in log.of(BeaconOpening):
        nonces.setdefault(opening.manifest, set()).add(opening.owner)

    def coins_known(signed: SignedManifest, digest: bytes) -> bool:
        seen, sealed = nonces.get(digest, set()), seals.get(digest, [])
        own = signed.manifest.auditor_of(auditor.identity) if digest in auditor.nonces else None
        if digest in auditor.released or (own is not None and own.owner in seen):
            return True
        if own is not None:  # without its nonce nobody knows what those give
            sealed = [owners for owners in sealed if own.owner not in owners]
        elif any(map(is_auditor, seen)):
            return True
        return any({owner for owner in owners if not is_auditor(owner)} <= seen for owners in sealed)

    inside: list[tuple[int, SignedManifest]] = []
    before: list[tuple[int, SignedManifest]] = []
    later: list[tuple[int, SignedManifest]] = []
    manifests, shown, this = log.manifests(), _times(log, auditor), opened[window.digest]
    for at, (index, signed) in enumerate(manifests):
        digest = signed.manifest.digest()
        if digest == window.digest or (digest in opened if index > this else opened.get(digest, log.size) < this):
            continue
        if not signed.manifest.coins or not coins_known(signed, digest):
            continue
        if _coin_period(entered, index, signed) != digest:
            continue  # it threw nothing
        if index > this:
            later.append((index, signed))
            continue
        _hold(signed, index)
        over = manifests[at + 1][0] if at + 1 < len(manifests) else index
        time = shown[min(bisect_left(shown, (over, 0)), len(shown) - 1)][1]
        named = signed.manifest.policy.period_start >= window.manifest.policy.period_start
        (inside if time >= minute or named else before).append((index, signed))
    return inside, before, later


def _times(log: LogView, auditor: Auditor) -> list[tuple[int, int]]:
    """(index, the latest time that the log had shown by then) of every timed entry: nothing before it is younger."""
    shown = []
    clock = 0
    for index, message in enumerate(log.messages):
        if isinstance(message, BeaconCommit) and message.public_key == auditor.identity:
            clock = max(clock, auditor.drawn.get(message.manifest, 0))
        if isinstance(message, Record | WindowOpen | WindowClose):
            clock = max(clock, message.time)
            shown.append((index, clock))
    return shown


def _hold(signed: SignedManifest, index: int) -> None:
    with held("an earlier window's manifest: ", ledger_index=index):
        signed.verify()
