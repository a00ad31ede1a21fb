# SPDX-License-Identifier: GPL-3.0-or-later
"""One audit from the auditor's folder to the written report; the command line and the service both conduct it.

Whatever goes wrong on the way ends in a verdict and a report: a FAIL by the provider's signature, else NO VERDICT.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.kernel.printable import printable
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.policy import Policy
from ragseal.ledger.probe.statement import ProbeStatement
from ragseal.ledger.turns import TurnProof
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.private import for_others
from ragseal.runtime.tls import BY_DEFAULT, ClientTls
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.audit.verification import EFFORT, audit
from ragseal.verifier.base.builds import class_build, estimate_build, thinning_build
from ragseal.verifier.evidence.evidence import ProbeFile, ReceiptFile, TurnFile, read_receipt
from ragseal.verifier.evidence.patience import PATIENCE, Patience
from ragseal.verifier.evidence.remote import RemoteEvidence
from ragseal.verifier.folder.state import State
from ragseal.verifier.folder.verdicts import Verdicts
from ragseal.verifier.outcome.checklist import ending_of
from ragseal.verifier.outcome.outcome import TITLES, Verdict
from ragseal.verifier.report import document
from ragseal.verifier.signed.entering import entered
from ragseal.verifier.signed.log import PROOF_NAME
from ragseal.verifier.steps.blocks import Effort
from ragseal.verifier.steps.receipts import SetAside
from ragseal.verifier.steps.sample import Sample

MAX_RECEIPT_BYTES = 1 << 26
MAX_RECEIPTS_BYTES = 1 << 29  #: of all files together: they are held in memory
DEADLINE = 86_400.0  #: seconds that an audit takes at most by default
MAX_NAME = 200  #: characters of a file's name that are shown
TURN_PROOF = ".turn-proof"
MAX_TURN_FILES, MAX_TURN_BYTES = 1024, 1 << 18
MAX_MANIFEST_FILES, MAX_MANIFESTS_BYTES = 256, 1 << 24  #: of one folder of receipts
RECEIPT_SUFFIXES = (".receipt", ".answer")


@dataclass(frozen=True, slots=True)
class Target:
    """A provider as the auditor knows it: where it serves, and the key of its log."""

    address: str
    log_key: NoteVerifier
    tls: ClientTls = BY_DEFAULT

    def connect(self, patience: Patience | None = None) -> RemoteEvidence:
        """Evidence at that address; every call once, or again for as long as the patience lasts."""
        return RemoteEvidence(self.address, self.tls, patience=patience)


def read_receipts(directory: Path) -> tuple[list[ReceiptFile], list[SetAside]]:
    """Every .receipt and .answer file below a folder that is one, and the others with what is wrong with them.

    Accounts hand these files in, so one that cannot be read stops nothing.

    Raises:
        ConfigurationError: no such folder, or no such file in it.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is not a folder")
    found = sorted(path for path in directory.rglob("*") if path.suffix in RECEIPT_SUFFIXES and path.is_file())
    if not found:
        raise ConfigurationError(f"{directory} holds no file that ends in {' or '.join(RECEIPT_SUFFIXES)}")
    receipts: list[ReceiptFile] = []
    aside: list[SetAside] = []
    beside: dict[Path, dict[bytes, SignedManifest]] = {}
    held = 0
    for path in found:
        name = printable(str(path.relative_to(directory)))[-MAX_NAME:]  # accounts choose it
        try:
            size = path.stat().st_size
            if size > MAX_RECEIPT_BYTES:
                aside.append(SetAside(name, f"more than {MAX_RECEIPT_BYTES} bytes: too large for a receipt"))
                continue
            if held + size > MAX_RECEIPTS_BYTES:
                aside.append(SetAside(name, f"not read: the files before it have nearly {MAX_RECEIPTS_BYTES} bytes"))
                continue
            held += size
            if path.parent not in beside:
                beside[path.parent] = _manifests(path.parent)
            receipts.append(read_receipt(name, path.read_bytes(), beside[path.parent]))
        except OSError as error:
            aside.append(SetAside(name, for_others(f"cannot be read: {why(error)}")))
        except AuditError as error:
            aside.append(SetAside(name, str(error)))
    return receipts, aside


def _manifests(folder: Path) -> dict[bytes, SignedManifest]:
    """The manifests in a folder of receipts that can be read, by their digests, each hashed once for all receipts.

    They only ever add keys that a provider certified.
    """
    found: dict[bytes, SignedManifest] = {}
    held = 0
    for path in sorted(path for path in folder.glob("*.manifest") if path.is_file())[:MAX_MANIFEST_FILES]:
        with contextlib.suppress(OSError, AuditError):
            held += path.stat().st_size
            if held > MAX_MANIFESTS_BYTES:
                break
            signed = SignedManifest.decode(path.read_bytes())
            found[signed.manifest.digest()] = signed
    return found


def read_turns(directory: Path) -> tuple[list[TurnFile], list[SetAside]]:
    """Every ``.turn-proof`` file below a folder that is one, and the others with what is wrong with them."""
    turns: list[TurnFile] = []
    aside: list[SetAside] = []
    for path in sorted(path for path in directory.rglob(f"*{TURN_PROOF}") if path.is_file()):
        name = printable(str(path.relative_to(directory)))[-MAX_NAME:]
        try:
            if len(turns) >= MAX_TURN_FILES or path.stat().st_size > MAX_TURN_BYTES:
                aside.append(SetAside(name, "not read: too large, or too many files with turns of the log's key"))
                continue
            turns.append(TurnFile(name, TurnProof.decode(path.read_bytes())))
        except OSError as error:
            aside.append(SetAside(name, for_others(f"cannot be read: {why(error)}")))
        except AuditError as error:
            aside.append(SetAside(name, str(error)))
    return turns, aside


def read_probes(paths: Sequence[Path]) -> tuple[list[ReceiptFile], list[SetAside]]:
    """The answers in observers' statements, and the files that are none with what is wrong with them."""
    receipts: list[ReceiptFile] = []
    aside: list[SetAside] = []
    held = 0
    names: set[str] = set()
    for number, path in enumerate(paths):
        name = printable(str(path))[-MAX_NAME:]
        name = f"{name} ({number})" if name in names else name
        names.add(name)
        try:
            held += path.stat().st_size
            if held > MAX_RECEIPTS_BYTES:
                aside.append(SetAside(name, f"not read: it and those before it have over {MAX_RECEIPTS_BYTES} bytes"))
                break
            found = ProbeFile(name, ProbeStatement.decode(path.read_bytes())).receipts()
            receipts += found
            if not found:
                aside.append(SetAside(name, "the probe counts nothing: it holds no answer"))
        except OSError as error:
            aside.append(SetAside(name, for_others(f"cannot be read: {why(error)}")))
        except AuditError as error:
            aside.append(SetAside(name, f"no statement of a probe: {error}"))
    return receipts, aside


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked of an audit, and within which limits."""

    window: str = ""  #: the newest that was opened
    sample: Sample | None = None
    receipts: Sequence[ReceiptFile] = ()  #: answers that observers' statements hold are among them
    turns: Sequence[TurnFile] = ()  #: of the log's key, as accounts were shown them
    set_aside: Sequence[SetAside] = ()  #: files that are no receipts
    effort: Effort = EFFORT
    since: int | None = None
    relies_on: bytes | None = None  #: key of an auditor whose part in the beacon counts where this one had none
    patience: float = PATIENCE  #: seconds
    deadline: float = DEADLINE  #: seconds
    witness_policy: Policy | None = None  #: whose quorum is required


def conduct(
    state: State, target: Target, around: Environment, terms: Terms, out: Path | None = None
) -> tuple[Verdict, dict[str, Any]]:
    """Audit a window, keep what was found, and write report.json, report.html and the signed verdict into ``out``.

    The verdict is in the auditor's own log before it is written or returned, wherever that log can be written.  What
    cannot be written changes no verdict: it stands in the verdict's ``unkept``, and the caller says it beside.
    """
    end = around.clock() + terms.deadline
    shown = _Shown(around.progress)
    around = replace(around, deadline=end, progress=shown.step)
    try:
        auditor = state.auditor(target.log_key, class_build(), estimate_build(), thinning_build())
        with target.connect(Patience(terms.patience, end, shown.waiting, around.clock)) as evidence:
            verdict = audit(
                evidence,
                replace(auditor, since=terms.since, relies_on=terms.relies_on, witness_policy=terms.witness_policy),
                around,
                window=terms.window,
                sample=terms.sample,
                receipts=terms.receipts,
                turns=terms.turns,
                effort=terms.effort,
            )
    except AuditError as error:  # before the first step: a damaged file, a malformed address
        verdict = Verdict(auditor=state.public_key, at=around.now, origin=target.log_key.name)
        verdict.end(ending_of(0, error))
    verdict.set_aside[:0] = terms.set_aside
    try:  # neither must be lost because the other cannot be written
        Verdicts(state.directory, target.log_key).keep(verdict, around.now)
    except AuditError as error:
        verdict.unkept.append(str(error))
    issued = entered(state, target.log_key, verdict)
    values = issued.values
    try:
        if out is not None:
            document.save(out, issued.files())
            if not issued.proof:  # what an earlier audit left there is about another verdict
                (out / PROOF_NAME).unlink(missing_ok=True)
    except (AuditError, OSError) as error:
        verdict.unkept.append(str(error))
        values = document.build(verdict)
    return verdict, values


@dataclass(slots=True)
class _Shown:
    """What an audit shows of itself: the step, and why it waits."""

    progress: Callable[[int, str], None]
    number: int = 0
    title: str = TITLES[0]

    def step(self, number: int, title: str) -> None:
        self.number, self.title = number, title
        self.progress(number, title)

    def waiting(self, text: str) -> None:
        self.progress(self.number, f"{self.title}: {text}")
