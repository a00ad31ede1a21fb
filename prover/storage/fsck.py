# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider fsck``: everything in a state folder, held against everything else.

Files and who may read them; both databases; every ledger entry hashed again, the roots rebuilt and compared with the
last signed checkpoint and with the one that ``state.db`` remembers; the windows the ledger tells of, with their seeds,
texts, matrices and blinders against the manifests; keys by digest; every record against the secrets kept for it.

:func:`check_start` is the same without what takes arithmetic on old windows; ``serve`` runs it before it takes a call.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from ragseal.groth16.keys import KeyView, ThinningView
from ragseal.kernel.attestation import Record
from ragseal.kernel.certificate import SignedLinks
from ragseal.kernel.commitment import Manifest
from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.kernel.versions import ANSWERING
from ragseal.ledger import log_keys
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.published import PublicLog
from ragseal.ledger.signing import line_files
from ragseal.prover import assembly
from ragseal.prover.administration.place import SOCKET
from ragseal.prover.commitment.columns import commit_columns
from ragseal.prover.commitment.enrolling import enrolments, registry_root
from ragseal.prover.commitment.index import Columns, Version
from ragseal.prover.options import STATE
from ragseal.prover.provider import Backends, Provider
from ragseal.prover.storage import participation_check, retired_check
from ragseal.prover.storage.dropped import half_dropped, is_dropped
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.record_check import CheckContext, RecordCheck
from ragseal.prover.storage.retired_check import dropped_problems
from ragseal.prover.storage.retirement import is_retired
from ragseal.prover.storage.state import COPY, DATABASE, KEY_FILE, LEDGER, SETTINGS, State
from ragseal.prover.storage.update_secrets import load_update
from ragseal.prover.storage.window import Window
from ragseal.prover.storage.window_secrets import WindowSecrets, load_window
from ragseal.runtime.durable import spares_of
from ragseal.runtime.terminal import JSON, named_bars

MAX_FINDINGS = 100  #: that are listed; a lost database has one a record

_TOP = {
    SOCKET,
    SETTINGS,
    KEY_FILE,
    *log_keys.names(),
    DATABASE,
    f"{DATABASE}-wal",
    f"{DATABASE}-shm",
    "lock",
    LEDGER,
    "windows",
    "keys",
    COPY,
}
_LEDGER = {"log.sqlite", "log.sqlite-wal", "log.sqlite-shm", "log.sqlite-journal", "checkpoint", "lock"}
_LEDGER |= {"cosignatures", "quorum", *line_files()}
_LEDGER |= {path.name for path in spares_of(Path("checkpoint"))}
_SECRET = {SETTINGS, KEY_FILE, *log_keys.KEY_FILES, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"}
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}|\.incoming-.*")


@dataclass
class Report:
    """What was looked at, what is wrong, and what is merely worth knowing."""

    checked: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, what: str, number: int = 1) -> None:
        self.checked[what] = self.checked.get(what, 0) + number

    def found(self, problem: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(problem)
        else:
            self.count("further problems")

    @contextlib.contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """Whatever goes wrong in the block is a finding; the examination goes on."""
        try:
            yield
        except AuditError as error:
            self.found(f"{where}: {error}")
        except (OSError, sqlite3.Error) as error:
            self.found(f"{where}: cannot be read ({error})")

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": not self.findings,
            "findings": self.findings,
            "notes": self.notes,
            "checked": self.checked,
            "seconds": round(self.seconds, 2),
        }


#: Told (what is being done, done, total) now and then.
Progress = Callable[[str, int, int], None]


def nothing(what: str, done: int, total: int) -> None:
    """No progress shown."""


# --- files -----------------------------------------------------------------------------------------------------------


def check_files(directory: Path, report: Report) -> None:
    """Nobody else may read what is secret; strange files are named."""
    for folder, expected in ((directory, _TOP), (directory / LEDGER, _LEDGER)):
        with report.guard(str(folder)):
            for path in sorted(folder.iterdir()):
                report.count("files")
                if _UNFINISHED.fullmatch(path.name):
                    report.notes.append(f"{path} is what a crash left of an unfinished file: delete it")
                elif path.name not in expected:
                    report.notes.append(f"{path} is no file of a provider's")
    secret = [directory / name for name in _SECRET] + [directory, directory / "windows", directory / "keys"]
    with report.guard(str(directory / "windows")):
        secret += sorted((directory / "windows").iterdir())
    for path in secret:
        with report.guard(str(path)):
            if not path.exists():
                continue
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                report.found(f"{path} is open to other users (mode {mode:04o}): run chmod go= on it")


def check_matrices(state: State, report: Report) -> None:
    """Every file in ``windows/`` belongs to a committed version."""
    known = {name for (name,) in state.rows("SELECT matrix FROM versions")}
    for path in sorted(state.windows_directory.iterdir()):
        report.count("files")
        if path.name not in known:
            report.notes.append(f"{path} belongs to no window: a crash left it while one was committed; delete it")


# --- databases and ledger --------------------------------------------------------------------------------------------


def check_database(state: State, whole: bool, report: Report) -> None:
    """SQLite's own check of ``state.db``: its pages, and with ``whole`` its indices too."""
    pragma = "integrity_check" if whole else "quick_check"
    for (line,) in state.rows(f"PRAGMA {pragma}(20)"):
        if line != "ok":
            report.found(f"{state.directory / DATABASE}: {line}")
    report.count("databases")


def check_ledger(state: State, ledger: Log, report: Report, progress: Progress) -> None:
    """Every entry hashed again; the checkpoint file; witnesses' cosignatures."""
    with report.guard("ledger"):
        ledger.fsck(lambda done, total: progress("hashing ledger entries", done, total))
    report.count("entries", ledger.size)
    report.count("databases")
    with report.guard("ledger"):
        if (state.ledger_directory / "checkpoint").read_bytes() != ledger.checkpoint():
            report.found(f"{state.ledger_directory / 'checkpoint'} is not the checkpoint of the ledger's entries")
    with report.guard("ledger"):
        if CosignatureBook(state.ledger_directory, PublicLog(ledger), repair=False).torn:
            path = state.ledger_directory / "cosignatures"
            report.notes.append(f"{path}: a crash left its last line unfinished; the next start cuts it off")


# --- windows ---------------------------------------------------------------------------------------------------------


def check_columns(
    secrets: WindowSecrets, versions: Mapping[str, Version], tools: Backends, key: KeyView, report: Report
) -> None:
    """The committed columns open to the stored matrices and blinders; with a coin, the thinned ones too."""
    manifest = secrets.signed.manifest
    for version in versions.values():
        report.count("indices")
        of = f", version {version.number}" if version.number else ""
        where = f"index of tenant {version.tenant!r} in window {manifest.window!r}{of}"
        with report.guard(where):
            placed = _thinning_key(tools, manifest) if version.coined else key
            kept = [(placed, Columns(version.matrix, version.blinders, version.public.columns))]
            if version.thinned is not None:
                kept.append((key, version.in_force))
            for on, columns in kept:
                if commit_columns(tools.group, on.scores, columns.matrix, columns.blinders) != columns.points:
                    report.found(
                        f"{where}: the stored matrix and blinders do not open the committed columns, no record of it "
                        "can be proven: restore them from a backup"
                    )
                    break


def _version(provider: Provider, secrets: WindowSecrets, window: Window, tenant: str, digest: bytes) -> Version:
    """The version of a tenant's index that a record names: the window's own, or that of an update."""
    return provider.version(window, tenant, digest) if window.number_of(digest) else secrets.versions[tenant]


def _version_of(provider: Provider, secrets: WindowSecrets, window: Window, record: Record) -> tuple[str, Version]:
    """The tenant of a record's account, and the version of its index that it was answered from."""
    request = record.signed.request
    tenant = secrets.account(request.account).tenant
    return tenant, _version(provider, secrets, window, tenant, request.index_digest)


def _thinning_key(tools: Backends, manifest: Manifest) -> ThinningView:
    """The key under whose points a window with a coin places columns.  ConfigurationError: there is none."""
    if tools.thinning_keys is None:
        raise ConfigurationError("there are no keys of the thinning circuit: `ragseal-provider fetch-keys`")
    return tools.thinning_keys.view(manifest.coin.key_digest)


def check_window(provider: Provider, window: Window, whole: bool, report: Report, progress: Progress) -> None:
    """A window of the ledger against what is kept of it."""
    state, journal, tools, manifest = provider.state, provider.journal, provider.backends, window.manifest
    where = f"window {manifest.window!r}"
    report.count("windows")
    if is_retired(state, window.digest):
        return check_retired(state, window, report)
    report.count("records", len(window.records))
    check, done = RecordCheck(state, journal, window), 0
    total = len(window.records)

    def moved(count: int) -> None:
        nonlocal done
        done += count
        if done % 64 == 0 or done == total:
            progress(f"records of {where}", done, total)

    with report.guard(where):
        for problem in (*check.quick(moved), *participation_check.quick(state, window)):
            report.found(problem)
        if check.unrecorded() > 0:
            report.notes.append(
                f"{where}: {check.unrecorded()} requests have secrets and no record: stopped before they entered the "
                "ledger, they are answered when they are sent again"
            )
    served = window in (journal.history.open, journal.history.following)
    if not whole and not served:
        return
    with report.guard(where):
        secrets = (
            provider.window_secrets(window.digest) if served else load_window(state, window.digest, window.thinning)
        )
        with report.guard(f"key of {where}"):
            key = tools.keys.view(manifest.key_digest)
            report.count("keys")
            check_columns(secrets, secrets.versions, tools, key, report)
            for _, update in window.updates if whole else window.updates[-ANSWERING:]:
                if is_dropped(state, window.digest, update.number):
                    for problem in dropped_problems(state, window, update):
                        report.found(f"{where}: {problem}")
                elif half_dropped(state, window, update.number):
                    report.notes.append(f"{where}: version {update.number} is being deleted: the next start goes on")
                else:
                    kept = load_update(state, update, manifest.policy.coined)
                    check_columns(secrets, kept.versions, tools, key, report)
                made = enrolments(state, window.digest, update.number)
                if registry_root(made, manifest, update.number) != update.registry_root:
                    report.found(f"{where}: its accounts are not those that version {update.number} commits to")
            if whole:
                tools.keys.backend(manifest.key_digest)
                done = 0
                context = CheckContext(tools.group, tools.engine, key, partial(_version, provider, secrets))
                for problem in check.whole(secrets, context, moved):
                    report.found(problem)
                of = partial(_version_of, provider, secrets, window)
                for problem in participation_check.whole(journal, state, window, of, check.unrecorded()):
                    report.found(problem)


def check_retired(state: State, window: Window, report: Report) -> None:
    """A window whose secrets are purged: nothing of them is left, and what auditors still ask for is there."""
    where = f"window {window.manifest.window!r}"
    report.count("retired windows")
    if retired_check.unfinished(state, window):
        report.notes.append(f"{where} is being retired: the next start of `serve` goes on with it")
        return
    with report.guard(where):
        for problem in retired_check.problems(state, window):
            report.found(f"{where}: {problem}")
        missing = retired_check.unproven(state, window)
        if missing and window.beacon is not None:
            report.notes.append(f"{where} was retired with {missing} records that have no proof: no audit of it passes")


def check_links(provider: Provider, window: Window, whole: bool, report: Report) -> None:
    """The signed links of a window, if an auditor asked for them: signed here; with ``whole``, found anew."""
    estimates, name = provider.new_estimates(), window.manifest.window
    with report.guard(f"links of window {name!r}"):
        stored = estimates.stored(window.digest)
        if stored is None:
            return
        report.count("estimates")
        signed = SignedLinks.decode(stored)
        signed.verify(window.manifest.provider_key)
        again = whole and not is_retired(provider.state, window.digest)
        body = estimates.find(window.digest) if again else signed.body
        if signed.body.manifest != window.digest or signed.body != body:
            report.found(
                f"links of window {name!r}: the list that was signed is not the one that the window's records make"
            )


def check_unknown_windows(state: State, journal: Journal, report: Report) -> None:
    """Windows that the state knows and the ledger does not: never published, or the ledger lost them."""
    for manifest, name in state.rows("SELECT manifest, name FROM windows"):
        if manifest in journal.history.windows:
            continue
        used = state.row("SELECT COUNT(*) FROM queries WHERE manifest = ?", (manifest,))
        if used is not None and used[0]:
            report.found(f"window {name!r} has {used[0]} requests and is not in the ledger: the ledger was rolled back")
        else:
            report.notes.append(f"window {name!r} was prepared and never entered the ledger")


# --- all of it -------------------------------------------------------------------------------------------------------


def examine(provider: Provider, whole: bool, progress: Progress = nothing) -> Report:
    """Everything about an opened provider; :func:`check_files` and opening it come before."""
    report, began = Report(), time.monotonic()
    state, journal = provider.state, provider.journal
    check_files(state.directory, report)
    with report.guard(str(state.windows_directory)):
        check_matrices(state, report)
    with report.guard(DATABASE):
        check_database(state, whole, report)
    check_ledger(state, provider.ledger, report, progress)
    with report.guard(DATABASE):
        check_unknown_windows(state, journal, report)
    for window in journal.history.windows.values():
        check_window(provider, window, whole, report, progress)
        check_links(provider, window, whole, report)
    report.seconds = time.monotonic() - began
    return report


def check_start(provider: Provider, progress: Progress = nothing) -> Report:
    """What ``serve`` does before it takes a call.

    Raises:
        ConfigurationError: something is wrong; serving could make it worse.
    """
    report = examine(provider, whole=False, progress=progress)
    if report.findings:
        more = len(report.findings) - 1
        raise ConfigurationError(
            f"this state is damaged: {report.findings[0]}"
            + (f" (and {more} more)" if more else "")
            + f"; `ragseal-provider fsck --state {provider.state.directory}` tells all"
        )
    return report


Assemble = Callable[[State, assembly.Progress], Backends]


def examine_folder(
    directory: Path, whole: bool, progress: Progress = nothing, assemble: Assemble = assembly.assemble
) -> Report:
    """A state folder that no provider is using; what keeps it from being opened is a finding like any other.

    Raises:
        LedgerError: a provider is using it.
        ConfigurationError: there is no provider.
    """
    broken = Report()
    try:
        state = State(directory)
    except LedgerError:
        raise
    except ConfigurationError as error:
        if not (directory / SETTINGS).exists():
            raise
        check_files(directory, broken)
        broken.found(str(error))
        return broken
    try:
        provider = Provider(state, assemble(state, lambda _: None))
    except AuditError as error:
        check_files(directory, broken)
        with broken.guard(DATABASE):
            check_database(state, whole, broken)
        broken.found(str(error))
        state.close()
        return broken
    try:
        return examine(provider, whole, progress)
    finally:
        provider.close()


# --- the command -----------------------------------------------------------------------------------------------------


def in_words(report: Report) -> str:
    """The report for a person."""
    lines = [f"checked: {', '.join(f'{number} {what}' for what, number in report.checked.items())}"]
    lines += [f"note: {note}" for note in report.notes]
    lines += [f"WRONG: {problem}" for problem in report.findings]
    verdict = "all is well" if not report.findings else f"{len(report.findings)} problems: do not serve this state"
    return "\n".join([*lines, f"{verdict} ({report.seconds:.1f} s)"])


@click.command()
@STATE
@click.option("--quick", is_flag=True, help="Only what every start of `serve` checks.")
@JSON
def fsck(directory: Path, quick: bool, as_json: bool) -> None:
    """Check every file of this provider against every other; 1 if something is wrong.

    The provider must not be running. Nothing is repaired: a finding says what to restore.
    """
    with named_bars() as progress:
        report = examine_folder(directory, not quick, progress)
    click.echo(json.dumps(report.as_json()) if as_json else in_words(report))
    sys.exit(1 if report.findings else 0)
