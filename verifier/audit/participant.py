# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking part in a window's beacon as one of its auditors.  SPEC A.8.

The auditor commits to a nonce once the manifest is in the log and passes every check of phase A, so that a window that
could only fail is refused before anybody asks a question in it.  It opens when the seal in the log names it and the
nonces of all but auditors are in the log: from then on the beacon is fixed, and whoever knows it before this auditor
opens could only withhold what was committed to.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ragseal.kernel import signature
from ragseal.kernel.beacon import BeaconCommit, BeaconOpening, BeaconSeal, beacon_commitment, is_auditor
from ragseal.kernel.bn254 import Group
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import WindowOpen
from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.kernel.thinning_class import ThinningClass
from ragseal.ledger.checkpoint import recall
from ragseal.ledger.note import NoteVerifier
from ragseal.verifier.base.builds import Builds
from ragseal.verifier.evidence.evidence import Evidence, Refused
from ragseal.verifier.folder.state import State
from ragseal.verifier.folder.verdicts import Verdicts
from ragseal.verifier.outcome.checklist import ending_of
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.signed.entering import enter_once
from ragseal.verifier.steps.asking import Asker
from ragseal.verifier.steps.beacon import check_identity, check_seals, read_beacon, sealed
from ragseal.verifier.steps.coins import check_thinning_key
from ragseal.verifier.steps.index import check_indexes
from ragseal.verifier.steps.keys import check_key
from ragseal.verifier.steps.log import Forked, LogView, catch_up, decoded, one_history, read_note, read_tree
from ragseal.verifier.steps.manifest import Window, check_manifest, find_window
from ragseal.verifier.steps.noise_table import check_noise
from ragseal.verifier.steps.records import check_registry
from ragseal.verifier.steps.turns import TurnedTwice, check_held, current_key, more_turns, turned_by
from ragseal.verifier.steps.versions import Versions


class BeaconLink(Evidence, Protocol):
    """Evidence, and the way into the provider's log for the auditor's two entries."""

    def commit_beacon(self, canonical: bytes) -> None:
        """Enter a BeaconCommit."""

    def open_beacon(self, canonical: bytes) -> None:
        """Enter a BeaconOpening."""


class Stage(enum.Enum):
    """How far the auditor's part in the newest window is."""

    NOTHING = "no window to take part in"
    COMMITTED = "committed to a nonce, waiting for the seal and the other openings"
    OPENED = "opened the nonce"
    LEFT_OUT = "the beacon was sealed without this auditor"


@dataclass(slots=True)
class Participant:
    """One auditor at one provider's log.  Call :meth:`advance` again and again; each call does what can be done now."""

    link: BeaconLink
    state: State
    log_key: NoteVerifier
    classes: Builds[AttestationClass]
    thinnings: Builds[ThinningClass]
    group: Group
    random: Callable[[int], bytes]
    now: Callable[[], int]
    _log: LogView | None = None
    _accepted: bytes = b""  #: digest of the manifest that passed the checks of phase A

    def advance(self) -> tuple[Stage, str]:
        """Look at the log and commit or open if it is time to.

        Returns:
            The stage and the window's name (empty without one).

        Raises:
            AuditError: the log or the newest manifest does not hold; no part is taken in it then.  What the provider
                signed against itself is kept as a FAIL first: an audit may be shown something else.
        """
        with self._convicting(1, None, (Forked, TurnedTwice)):
            log = self._read()
        manifests = log.manifests()
        if not manifests:
            return Stage.NOTHING, ""
        name, digest = manifests[-1][1].manifest.window, manifests[-1][1].manifest.digest()
        opened = any(message.manifest == digest for _, message in log.of(WindowOpen))
        seat = manifests[-1][1].manifest.auditor_of(self.state.public_key)
        own = "" if seat is None else seat.owner
        openings = [m for _, m in log.of(BeaconOpening) if m.manifest == digest and m.owner == own]
        nonce = self.state.nonce(digest)
        if openings and nonce is not None and openings[0].nonce == nonce:
            return Stage.OPENED, name
        committed = any(m.manifest == digest and m.owner == own for _, m in log.of(BeaconCommit))
        late = not committed and any(m.manifest == digest for _, m in log.of(BeaconSeal))
        if opened or (own and late):
            return Stage.LEFT_OUT, name
        window = self._accept(log, name)
        if not committed:
            self._commit(window, own)
            return Stage.COMMITTED, name
        return self._open_in_turn(log, window, own), name

    def _read(self) -> LogView:
        self.log_key = current_key(self.link, self.state.log_key(self.log_key))
        if self._log is not None and recall(self._log.signed.note.encode(), self.log_key).void:
            self._log = None  # read before the turn was known, under the old key alone: a thief may have shown it
        signed, remembered = read_note(self.link, self.log_key), self.state.remembered(self.log_key)
        one_history([*([remembered] if remembered else []), signed])
        tree = read_tree(self.link, signed, self._log)
        self.log_key = turned_by(tree, self.log_key)
        remembered = self.state.remembered(self.log_key)
        if remembered is not None and remembered.checkpoint.size <= tree.size:
            tree.extends(remembered, "the checkpoint that this auditor remembers")
        self._believe(self.log_key)  # not before: whoever stole an old key would leave a turn of its own here
        tree = catch_up(tree, self.link, self.log_key, partial(self.state.remember, self.log_key))
        self._believe(turned_by(tree, self.log_key))  # it may have been read on
        check_held(tree, self.log_key)
        log = decoded(tree, self._log)
        log.to_its_end()
        self._log = log
        return self._log

    def _believe(self, found: NoteVerifier) -> None:
        key = more_turns(found, self.state.log_key(self.log_key))
        if key is not None:
            self.state.keep_turns(key)
        self.log_key = found

    @contextmanager
    def _convicting(
        self, step: int, about: tuple[str, bytes] | None, kind: type[Refused] | tuple[type[Refused], ...] = Refused
    ) -> Iterator[None]:
        """What is refused inside is kept as a FAIL at this step of the checklist, of this window or of the log."""
        try:
            yield
        except kind as error:
            verdict = Verdict(auditor=self.state.public_key, at=self.now(), origin=self.log_key.name, about=about)
            verdict.end(ending_of(step, error))
            unkept = self._kept(verdict)
            if unkept:
                raise Refused(f"{error}; this could not be kept: {'; '.join(unkept)}", **error.evidence) from None
            raise

    def _kept(self, verdict: Verdict) -> list[str]:
        """Keep a FAIL with the windows' results and in the log of verdicts (SPEC D.19); gives what could not be."""
        unkept = []
        kept = Verdicts(self.state.directory, self.log_key)
        for keep in (
            partial(kept.keep, verdict, verdict.at),
            partial(enter_once, self.state, self.log_key, verdict),
        ):
            try:  # neither is lost because the other cannot be written
                keep()
            except (AuditError, OSError) as own:
                unkept.append(str(own))
        return unkept

    def _accept(self, log: LogView, name: str) -> Window:
        """The checks of phase A that can be made before the window opens."""
        auditor = self.state.auditor(self.log_key, self.classes, thinnings=self.thinnings)
        about = name, find_window(log, name)[1].manifest.digest()
        with self._convicting(2, about):
            window = check_manifest(log, self.link, auditor, name)
        if window.digest != self._accepted:
            _, key = check_key(auditor, window)
            coins = check_thinning_key(auditor, window)
            with self._convicting(4, about):
                check_indexes(self.group, key, None if coins is None else coins[1], window, self.link)
            with self._convicting(6, about):
                asker = Asker(window, auditor, self.link, self.now, self.random)
                check_registry(window, Versions(window.manifest.policy.version_every, {}), asker, closed=False)
            check_noise(window)
            self._accepted = window.digest
        # A nonce released now would make known what coins hide, for nothing.
        if window.manifest.policy.opens_by <= self.now():
            raise CommitmentError(f"the window {name!r} is over before it began: it is too late for it to open")
        return window

    def _commit(self, window: Window, own: str) -> None:
        nonce = self.state.draw_nonce(window.digest, self.random(32), window.manifest.window, self.now())
        commit = BeaconCommit(window.digest, own, self.state.public_key, beacon_commitment(own, nonce), bytes(64))
        signed = signature.sign(self.state.identity, "beacon-commit", commit.body())
        self.link.commit_beacon(
            BeaconCommit(commit.manifest, commit.owner, commit.public_key, commit.commitment, signed).encode()
        )

    def _open_in_turn(self, log: LogView, window: Window, own: str) -> Stage:
        beacon = read_beacon(log, window)
        if not beacon.seals:
            return Stage.COMMITTED
        check_seals(beacon, window)
        check_identity(beacon, window)
        owners = beacon.seals[-1][1].owners
        if own not in owners:
            return Stage.LEFT_OUT
        nonce = self.state.nonce(window.digest)
        if nonce is None or beacon.commits[own][1].commitment != beacon_commitment(own, nonce):
            raise Refused("the auditor's commitment in the log is not to a nonce of this folder")
        if any(owner not in beacon.openings for owner in owners if not is_auditor(owner)):
            return Stage.COMMITTED
        fixed = sealed(window, beacon, owners)
        if self.state.release(window.digest, fixed) != fixed:
            raise Refused("the window was sealed again after this auditor's nonce was released: it opens once only")
        self.link.open_beacon(BeaconOpening(window.digest, own, nonce).encode())
        return Stage.OPENED
