# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows are retired, by hand or in time, and what was erased is purged with them.  SPEC G.12, G.13.

Before a window is retired its provider delivers to itself all that a full audit asks for: proofs of every record in the
batches of an audit, the list of links, and the blocks of a full certificate under the keys it holds.  None of it is the
auditor's choice, so an audit ends as it did before.  A sample is, and can only be given again if it was given before.
"""

from __future__ import annotations

import logging
import threading
import time

from ragseal.kernel import proofs
from ragseal.kernel.errors import AuditError, CommitmentError, ConfigurationError
from ragseal.kernel.estimate import ASKED_TOGETHER
from ragseal.kernel.link_list import SignedLinks
from ragseal.prover.attestation.proofs import Proofs
from ragseal.prover.commitment import erasure
from ragseal.prover.estimate.estimate import Estimates
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage import retirement
from ragseal.prover.storage.retirement import LATEST, due_at, is_retired, over, retain_of
from ragseal.prover.storage.window import Window
from ragseal.runtime.face import when
from ragseal.runtime.progress import Progress, nothing

LOOK_SECONDS = 60.0  #: between two looks for what is due
AGAIN_SECONDS = 3600.0  #: after a window whose proofs could not be made

log = logging.getLogger("ragseal.provider")


def spoken(seconds: float) -> str:
    """A length of time, roughly: "40 s", "12 min", "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Retiring:
    """Retires the windows of one provider.  Methods block; one thread at a time."""

    def __init__(self, provider: Provider, proofs_: Proofs, estimates: Estimates, on_pass: bool = False) -> None:
        """``on_pass``: windows that all of their auditors passed are not kept longer than a day."""
        self._on_pass = on_pass
        self._provider, self._proofs, self._estimates = provider, proofs_, estimates
        self._state, self._history = provider.state, provider.journal.history
        self._not_before: dict[bytes, float] = {}
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Begin no further proof; what was made is kept."""
        self._stopping.set()

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise ConfigurationError("the provider is stopping: the window is retired after its next start")

    def _now(self) -> int:
        return int(self._provider.environment.clock())

    # --- which ---

    def due(self) -> list[Window]:
        """Windows that were kept long enough."""
        now, retain, found = self._now(), retain_of(self._state), []
        retired = {manifest for (manifest,) in self._state.rows("SELECT manifest FROM retirements")}
        for window in self._history.windows.values():
            at = due_at(self._history, window, retain, self._on_pass)
            if at is not None and at <= now and window.digest not in retired:
                found.append(window)
        return found

    def named(self, name: str, agreed: bool) -> Window:
        """A window that is to be retired now.

        Raises:
            CommitmentError: there is none of that name, it may still answer, or it is retired.
            ConfigurationError: it was not kept long enough and nobody ``agreed``; says what it costs.
        """
        if not name:
            raise CommitmentError("name the window that is to be retired; `status` lists them")
        window = self._history.named(name)
        at = due_at(self._history, window, retain_of(self._state), self._on_pass)
        if at is None:
            raise CommitmentError(f"window {name!r} is not closed: `ragseal-provider close` ends it")
        if is_retired(self._state, window.digest):
            raise CommitmentError(f"window {name!r} is retired already")
        if at > self._now() and not agreed:
            raise ConfigurationError(
                f"window {name!r} is kept until {when(at)}. {self._first(window)}Retired now, it answers no request "
                "again, and an audit by sample that has not fetched its proofs ends in NO VERDICT; a full audit is "
                "given them later too. Say --yes if its verdict is in, or if that is what you want"
            )
        return window

    def _first(self, window: Window) -> str:
        """What has to be done before a window is retired, as a sentence."""
        left = len(self._proofs.missing(window.digest, len(window.records)))
        return f"{left} of its {len(window.records)} records are proven first. " if left else ""

    # --- what an audit needs ---

    def prove(self, window: Window, progress: Progress = nothing) -> None:
        """Make and keep all that a full audit asks for.

        Raises:
            AuditError: something of it cannot be made.
        """
        if window.beacon is None:
            return  # it never opened: nobody audits it
        digest, count = window.digest, len(window.records)
        self._prove_records(window, progress)
        for start in range(0, count, proofs.ASKED_TOGETHER):
            self._go_on()
            progress(f"opening proofs of window {window.manifest.window}", start, count)
            self._proofs.batch(digest, range(start, min(start + proofs.ASKED_TOGETHER, count)), always=True)
        progress(f"finding links of window {window.manifest.window}", 0, 0)
        links = self._estimates.links(digest)
        for key in self._estimates.newest_keys():
            self._prove_blocks(window, links, key.digest, key.cls.n, progress)

    def _prove_records(self, window: Window, progress: Progress) -> None:
        """Prove the records that have no proof yet; each proof is kept at once, so whatever stops this is gone on from.

        The operator is told how long it will take once the first one is made.
        """
        left, name = self._proofs.missing(window.digest, len(window.records)), window.manifest.window
        began = time.monotonic()
        if left:
            progress(f"proving records of window {name}", 0, len(left))
        for done, _ in enumerate(self._proofs.prove_each(window.digest, left, self._go_on)):
            progress(f"proving records of window {name}", done + 1, len(left))
            if not done and len(left) > 1:
                seconds = (time.monotonic() - began) * (len(left) - 1)
                log.info("window %s is to be retired: %d records are proven first, which takes about %s",
                         name, len(left) - 1, spoken(seconds))  # fmt: skip

    def _prove_blocks(self, window: Window, links: SignedLinks, key: bytes, n: int, progress: Progress) -> None:
        for one in links.body.tenants:
            wanted = self._estimates.full_blocks(window.digest, one.tenant, n)
            if wanted is None:
                log.warning(
                    "window %s, tenant %s: the estimate of so many records is certified by blocks that the auditor "
                    "draws: what it has not asked for by now it will not get",
                    window.manifest.window, one.tenant,
                )  # fmt: skip
                continue
            for start in range(0, len(wanted), ASKED_TOGETHER):
                self._go_on()
                progress(f"proving blocks of tenant {one.tenant}", start, len(wanted))
                part = wanted[start : start + ASKED_TOGETHER]
                self._estimates.blocks(window.digest, key, one.tenant, part, always=True)

    # --- retire ---

    def retire(self, window: Window) -> None:
        """From here on the window's secrets are nobody's; :meth:`sweep` purges them."""
        if not over(self._history, window, self._now()):
            raise CommitmentError(f"window {window.manifest.window!r} is not closed: `ragseal-provider close` ends it")
        retirement.begin(self._state, window.digest, self._now())
        self._provider.forget(window.digest)
        self._estimates.forget(window.digest)

    @property
    def pending(self) -> bool:
        """Whether :meth:`sweep` has anything to do."""
        if retirement.unfinished(self._state):
            return True
        known = self._history.windows  # what never entered the ledger is swept too
        return any(
            one.purged is None and not any(manifest in known for manifest in erasure.waits_for(self._state, one))
            for one in erasure.erasures(self._state)
        )

    def sweep(self) -> bool:
        """Purge what is retired, and what was erased and stands in no window any more.

        Nothing may be committed and no copy begun meanwhile.

        Returns:
            False: a copy that is being made still reads what was there; to be called again.

        Raises:
            ConfigurationError: the disk or the database refuses; the next call, or the next start, goes on.
        """
        state, coins = self._state, retirement.carriable(self._history)
        for manifest in retirement.unfinished(state):
            retirement.purge_rows(state, manifest, manifest in coins)
        retirement.purge_coins(state, coins)
        retirement.purge_leftovers(state, self._history.windows.keys())
        erasure.forget_ids(state)
        if not state.scrub():
            return False
        now = self._now()
        retirement.end(state, now)
        erasure.end(state, now)
        return True

    def prepare_due(self) -> list[Window]:
        """Of the windows that are due those that may be retired now: proven, or as late as it may be."""
        ready, now = [], self._now()
        for window in self.due():
            latest = window.close is None or now >= window.close.time + LATEST
            if now < self._not_before.get(window.digest, 0.0) and not latest:
                continue
            try:
                self.prove(window)
            except AuditError as error:
                name = window.manifest.window
                if not latest:
                    self._not_before[window.digest] = now + AGAIN_SECONDS
                    log.error("window %s is not retired yet, its proofs cannot be made: %s", name, error)
                    continue
                log.error("window %s is retired without all of its proofs, no audit of it passes: %s", name, error)
            ready.append(window)
        return ready
