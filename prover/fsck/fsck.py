# SPDX-License-Identifier: GPL-3.0-or-later
"""The examination of a state folder: everything in it, held against everything else.

Files and who may read them; both databases; every ledger entry hashed again, the roots rebuilt and compared with the
last signed checkpoint and with the one that ``state.db`` remembers; the windows the ledger tells of, with their seeds,
texts, matrices and blinders against the manifests; keys by digest; every record against the secrets kept for it.

:func:`check_start` is the same without what takes arithmetic on old windows; ``serve`` runs it before it takes a call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.published import PublicLog
from ragseal.prover.base.check_report import Report
from ragseal.prover.fsck.files_check import check_files, check_matrices, holds_anything
from ragseal.prover.fsck.keys_check import check_keys
from ragseal.prover.fsck.window_check import check_links, check_unknown_windows, check_window
from ragseal.prover.provider import assembly
from ragseal.prover.provider.backends import Backends
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage.database import DATABASE
from ragseal.prover.storage.state import State
from ragseal.runtime.progress import Progress, nothing

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
    if whole:
        check_keys(state.keys_directory, report, progress)
    with report.guard(DATABASE):
        check_unknown_windows(state, journal, report)
    for window in journal.history.windows.values():
        check_window(provider, window, whole, report, progress)
        check_links(provider, window, whole, report)
    report.seconds = time.monotonic() - began
    return report


def check_start(provider: Provider, progress: Progress = nothing) -> Report:
    """What ``serve`` does before it takes a call.  What it could not look at keeps it from nothing.

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
    """A state folder that no provider is using; what keeps it from being opened is in the report like anything else.

    A folder that another process uses, or where no file of a provider's is to be seen, was not checked.
    """
    broken = Report()
    try:
        state = State(directory)
    except LedgerError as error:
        broken.missed(str(error))
        return broken
    except ConfigurationError as error:
        if not holds_anything(directory):
            broken.missed(str(error))
            return broken
        check_files(directory, broken)
        broken.failed("", error)
        return broken
    try:
        tools = assemble(state, lambda _: None)
    except AuditError as error:  # what computes is away, or the settings name what there is not
        return _without_tools(state, whole, broken, error)
    try:
        provider = Provider(state, tools)
    except AuditError as error:
        broken = _without_tools(state, whole, broken, None)
        broken.failed("", error)
        return broken
    try:
        return examine(provider, whole, progress)
    finally:
        provider.close()


def _without_tools(state: State, whole: bool, report: Report, missing: AuditError | None) -> Report:
    """What can be said of a folder whose provider cannot be put together; closes the state."""
    check_files(state.directory, report)
    with report.guard(DATABASE):
        check_database(state, whole, report)
    if missing is not None:
        report.failed("ledger and windows", missing)
    state.close()
    return report
