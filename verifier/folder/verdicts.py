# SPDX-License-Identifier: GPL-3.0-or-later
"""What the auditor found of each window, kept: ``verdicts/<manifest>-<log>.json``, and of a log: ``log-<log>.json``.

A PASS is about one window, and its epsilon about the whole period, so the verdict's line names the other windows of the
period of which this folder has no PASS.  Else an empty window opened behind a bad one would be all that anybody sees.

A FAIL stays: it rests on signed bytes, and an audit with fewer receipts does not unmake them, nor does the same window
in a log of another key.  A later NO VERDICT, of a provider that was away, does not unmake a PASS.  With the FAIL of a
fork both notes are kept, with the window and with the log: anybody can check them, and whoever showed one of them will
not show it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.verdict import NONE, AuditVerdict
from ragseal.ledger.note import NoteVerifier
from ragseal.runtime.edges.filesystem import why
from ragseal.verifier.base.files import locked, read_json, write
from ragseal.verifier.outcome.outcome import (
    CHANGED,
    FAIL,
    NO_VERDICT,
    NOT_AUDITED,
    PASS,
    SAMPLED_PASS,
    Neighbour,
    Verdict,
)
from ragseal.verifier.steps.log import LogView

FOLDER = "verdicts"
_RANKS = (NO_VERDICT, SAMPLED_PASS, PASS, FAIL)  #: a later one further to the right replaces an earlier one
THE_LOG = "(the log)"  #: stands for a window's name where the log itself was found forked


@dataclass(frozen=True, slots=True)
class KeptVerdict:
    """One window's result as it is kept."""

    window: str
    manifest: str
    log: str  #: the log's key
    verdict: str
    line: str
    at: int  #: seconds since 1970
    size: int  #: of the log that was audited
    epsilon: str
    older: str = ""  #: of a fork, one signed note
    newer: str = ""  #: and the one that contradicts it

    @classmethod
    def read(cls, path: Path) -> KeptVerdict | None:
        """None if there is none.  Raises ConfigurationError: damaged."""
        values = read_json(path, None)
        if values is None:
            return None
        kinds = {"at": int, "size": int}
        if not isinstance(values, dict) or set(values) | {"older", "newer"} != set(cls.__dataclass_fields__):
            raise ConfigurationError(f"{path} is damaged: remove it and audit that window again")
        if not all(type(values[name]) is kinds.get(name, str) for name in values) or values["verdict"] not in _RANKS:
            raise ConfigurationError(f"{path} is damaged: remove it and audit that window again")
        return cls(**values)


class Verdicts:
    """The results of an auditor's folder about one log."""

    def __init__(self, directory: Path, log: NoteVerifier) -> None:
        self.directory = directory / FOLDER
        self.vkey = log.vkey()

    def _path(self, manifest: bytes) -> Path:
        """A window's file in this log, or without a manifest that of the log."""
        log = hashlib.sha256(self.vkey.encode()).hexdigest()[:32]
        return self.directory / (f"{manifest.hex()}-{log}.json" if manifest else f"log-{log}.json")

    def _known(self, manifest: bytes) -> KeptVerdict | None:
        """What is kept of a window in this log; earlier versions named its file without the log."""
        known = KeptVerdict.read(self._path(manifest))
        if known is None and manifest:
            known = KeptVerdict.read(self.directory / f"{manifest.hex()}.json")
        return known if known is not None and known.log == self.vkey else None

    def keep(self, verdict: Verdict, now: int) -> None:
        """Keep what an audit found; the weightier of two results stays, and of two FAILs the first.

        Raises:
            ConfigurationError: the disk refuses, or the file is damaged; a FAIL takes a damaged file's place.
        """
        if verdict.about is None and verdict.failure is None:
            return  # nothing was found about anything
        name, digest = verdict.about or (THE_LOG, b"")
        made = KeptVerdict(
            window=name,
            manifest=digest.hex(),
            log=self.vkey,
            verdict=verdict.verdict,
            line=verdict.line(),
            at=now,
            size=verdict.log_size,
            epsilon=_epsilon(verdict),
            **_notes(verdict),
        )
        try:
            self.directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot make {self.directory}: {why(error, self.directory)}") from None
        self._put(made)
        if digest and verdict.failure is not None and verdict.failure.forked:  # whatever window was audited
            self._put(replace(made, window=THE_LOG, manifest=""))

    def _put(self, made: KeptVerdict) -> None:
        digest = bytes.fromhex(made.manifest)
        path = self._path(digest)
        with locked(self.directory, path.name):
            try:
                known = self._known(digest)
            except ConfigurationError:
                if made.verdict != FAIL:
                    raise
                known = None
            if known is None or (known.verdict != FAIL and _RANKS.index(made.verdict) >= _RANKS.index(known.verdict)):
                write(path, json.dumps(asdict(made), indent=1).encode() + b"\n")

    def neighbours(self, log: LogView, windows: Sequence[tuple[str, bytes]], audited: bytes) -> tuple[Neighbour, ...]:
        """What is known of these windows (name, manifest digest), the audited one's earlier FAIL and the log's too."""
        found = []
        for name, digest in windows:
            known = self._known(digest)
            if digest == audited:
                if known is not None and known.verdict == FAIL:
                    found.append(Neighbour(name, digest, FAIL))
            elif known is None:
                found.append(Neighbour(name, digest, NOT_AUDITED))
            else:
                late = known.verdict != FAIL and _touched(log, digest, known.size)
                found.append(Neighbour(name, digest, CHANGED if late else known.verdict))
        whole = self._known(b"")
        if whole is not None and whole.verdict == FAIL:
            found.append(Neighbour(THE_LOG, b"", FAIL))
        return tuple(found)


def _epsilon(verdict: Verdict) -> str:
    """Of a PASS; NONE of a claim that has none."""
    if verdict.budget is None or not verdict.passed:
        return ""
    return str(verdict.budget.epsilon) if verdict.budget.claim.form.numbered else NONE


def _notes(verdict: Verdict) -> dict[str, str]:
    """Both notes of a fork; a note that is only old contradicts nothing."""
    if verdict.failure is None or not verdict.failure.forked:
        return {}
    return {name: str(verdict.failure.evidence[name]) for name in ("older", "newer")}


def _touched(log: LogView, manifest: bytes, since: int) -> bool:
    """Whether the log has an entry of a window after the size at which it was audited; verdicts change nothing."""
    return any(_belongs(message, manifest) for message in log.messages[since:] if not isinstance(message, AuditVerdict))


def _belongs(message: Any, manifest: bytes) -> bool:
    return bool(getattr(message, "manifest", None) == manifest)
