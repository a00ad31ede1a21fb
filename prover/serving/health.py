# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a provider now, each thing under a name of its own: for ``status``, and for metrics.

Looked at are the folder, its disk and its ledger, and of a provider that serves what only it knows.  What could not be
looked at is told apart.  All of it blocks.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import AuditError, UnavailableError
from ragseal.prover.commitment import registry
from ragseal.prover.commitment.room import RESERVE
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.face import counted, when

CLOCK_SKEW = 120  #: seconds that the clock may lie behind the newest entry of the ledger
OPENS_AFTER = 300  #: seconds from its policy's opening time in which a window opens where nothing is wrong
WITNESS_SECONDS = 900  #: without a cosignature of a named witness, after which it is away

#: Names of what can be wrong, in the order in which it is told.
WHATS = (
    "ledger", "disk", "proofs", "workers", "keys", "window", "ticks", "next", "clock", "witness", "sync", "purge",
    "auditor", "accounts",
)  # fmt: skip
DAMAGED = "damaged"  #: a folder that cannot be opened, of which nothing else is known


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that is wrong, for people and by name."""

    what: str  #: of WHATS, or DAMAGED
    text: str


@dataclass(frozen=True, slots=True)
class Running:
    """What only a provider that serves knows of itself."""

    proving: dict[str, Any] | None = None  #: as :meth:`ragseal.prover.attestation.backlog.Backlog.status` has it
    ticks: dict[str, Any] | None = None  #: of an open window with a live index
    following: dict[str, Any] | None = None  #: of one that serves windows one after the other
    witness_age: int | None = None  #: seconds since the newest cosignature of a named witness; -1: none came yet
    syncs: Sequence[str] = ()  #: sources that are followed and cannot be read now, and why
    purge: str = ""  #: why what is to be purged is not purged
    #: Of answers in words, as :meth:`ragseal.prover.answers.missed.Missed.shares` has it.  Nothing of WHATS: metrics
    #: tell those, and who reads them would learn of documents.
    missed: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Health:
    """What was found."""

    wrong: list[Wrong] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def whats(self) -> frozenset[str]:
        return frozenset(one.what for one in self.wrong)


def look(provider: Provider, running: Running | None = None) -> Health:
    """Look at all of it."""
    found, known = Health(), running or Running()
    parts: list[Callable[[], Iterator[Wrong]]] = [
        lambda: _ledger(provider), lambda: _disk(provider), lambda: _proofs(provider, known.proving),
        lambda: _windows(provider), lambda: _running(known), lambda: _parties(provider),
    ]  # fmt: skip
    for part in parts:
        try:
            found.wrong += part()
        except (AuditError, OSError) as error:
            found.unchecked.append(str(error))
    found.wrong.sort(key=lambda one: WHATS.index(one.what))
    return found


def _ledger(provider: Provider) -> Iterator[Wrong]:
    if provider.journal.failure is not None:
        yield Wrong("ledger", provider.journal.failure)


def _disk(provider: Provider) -> Iterator[Wrong]:
    """The last write that the database refused, and a look at what is free now."""
    state = provider.state
    if state.refused:
        free = shutil.disk_usage(state.directory).free
        yield Wrong("disk", f"the newest write was refused ({state.refused}), {free >> 20} MiB are free now")
    else:
        yield from crowded(state.directory)


def crowded(directory: Path) -> Iterator[Wrong]:
    """That too little is free where a folder is; also of one that cannot be opened, for which that may be the cause."""
    free = shutil.disk_usage(directory).free
    if free < RESERVE:
        yield Wrong(
            "disk",
            f"only {free >> 20} MiB are free where {directory} is, and {RESERVE >> 20} MiB should be: make room, "
            "or retire closed windows (`ragseal-provider retire`, `serve --retain`)",
        )


def _proofs(provider: Provider, proving: dict[str, Any] | None) -> Iterator[Wrong]:
    for key, reason in provider.state.rows("SELECT key_digest, reason FROM stopped_keys"):
        yield Wrong(
            "keys",
            f"proving under the key {bytes(key).hex()[:16]} was stopped by a failure ({reason}): find out why before "
            "`release-key`",
        )
    if proving is None:
        return
    if proving["failing"]:
        causes = "; ".join(f"{counted(number, 'record')}: {cause}" for cause, number in proving["causes"].items())
        yield Wrong("proofs", f"proofs of {counted(proving['failing'], 'record')} fail and are tried again ({causes})")
    if proving["trouble"]:
        yield Wrong("workers", f"no proofs are made by workers: {proving['trouble']}")


def _windows(provider: Provider) -> Iterator[Wrong]:
    """A window whose time is over, and a clock that is behind what the ledger says."""
    history, now = provider.journal.history, provider.environment.clock()
    for window in (history.open, history.following):
        if window is None or not over(window, now):
            continue
        name, ended = window.manifest.window, when(window.closes)
        if window.stage is Stage.OPEN:
            yield Wrong(
                "window",
                f"window {name} was over at {ended} and is not closed: accounts get no answers; "
                "`ragseal-provider close`, then commit the next one",
            )
        else:
            yield Wrong("window", f"window {name} was over at {ended} before it was open: commit a new one")
    waiting = history.following
    if waiting is not None and history.open is None and not over(waiting, now):
        since = waiting.manifest.policy.opens + OPENS_AFTER
        if now > since:
            name, by = waiting.manifest.window, when(waiting.closes)
            yield Wrong("window", f"window {name} is not open yet: {_awaited(waiting)}; it may open until {by}")
    newest = max((window.time for window in history.windows.values()), default=0)
    if now + CLOCK_SKEW < newest:
        said = f"this machine's clock says {when(int(now))}, and the ledger has an entry of {when(newest)}: set it"
        yield Wrong("clock", said)


def _awaited(window: Window) -> str:
    """Whom or what a window that may open waits for."""
    if not window.committed_auditors():
        return "no auditor that its manifest names has committed to a nonce (does `ragseal-verifier serve` run?)"
    if window.seal is None:
        return "the provider has not sealed its beacon (does `ragseal-provider serve` run?)"
    if missing := window.missing():
        return f"{', '.join(missing)} did not open the nonce yet"
    return "its beacon is complete, and its coins are to be thrown (does `ragseal-provider serve` run?)"


def over(window: Window, now: float) -> bool:
    """Whether a window that is not closed has gone past its time."""
    return window.stage is not Stage.CLOSED and now > window.closes


def _running(known: Running) -> Iterator[Wrong]:
    ticks, following = known.ticks, known.following
    if ticks is not None and ticks["trouble"]:
        yield Wrong("ticks", f"no new version of the indices: {ticks['trouble']}")
    elif ticks is not None and ticks["overdue"]:
        yield Wrong("ticks", "the next version of the indices is overdue: nothing is answered until it is there")
    if following is not None and following["trouble"]:
        yield Wrong("next", f"no window follows: {following['trouble']}")
    if known.witness_age is not None and not 0 <= known.witness_age <= WITNESS_SECONDS:
        since = "since the start" if known.witness_age < 0 else f"for {known.witness_age // 60} minutes"
        yield Wrong("witness", f"no named witness has cosigned {since}: accounts that want a quorum refuse answers")
    for said in known.syncs:
        yield Wrong("sync", said)
    if known.purge:
        yield Wrong("purge", f"what is to be purged is not purged yet: {known.purge}")


def _parties(provider: Provider) -> Iterator[Wrong]:
    """Whom a window takes: an auditor, whose key proves it and who draws its beacon, and accounts."""
    state, newest = provider.state, provider.journal.history.newest
    try:
        known = state.auditor_of(provider.backends.keys.newest().digest) is not None
    except UnavailableError as error:
        yield Wrong("auditor", str(error))
    else:
        if not known and newest is None:
            yield Wrong(
                "auditor",
                "nobody knows the beacon key of an auditor: `ragseal-provider fetch-keys` brings it along, or name it "
                "with `commit --auditor`",
            )
    if not registry.accounts(state):
        yield Wrong("accounts", "no account is registered, so nobody can ask: `ragseal-provider accounts add`")
