# SPDX-License-Identifier: GPL-3.0-or-later
"""``fsck``'s part for files: which ones a state folder holds, and who may read them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from ragseal.ledger import log_keys
from ragseal.ledger.signing import line_files
from ragseal.prover.base.check_report import Report
from ragseal.prover.storage.database import DATABASE
from ragseal.prover.storage.place import SOCKET
from ragseal.prover.storage.state import COPY, KEY_FILE, LEDGER, NEXT, SETTINGS, State
from ragseal.runtime.durable import spares_of

_TOP = {
    SOCKET,
    SETTINGS,
    NEXT,
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
_NO_FILES = {SOCKET, LEDGER, "windows", "keys"}
_LEDGER = {"log.sqlite", "log.sqlite-wal", "log.sqlite-shm", "log.sqlite-journal", "checkpoint", "lock"}
_LEDGER |= {"cosignatures", "quorum", *line_files()}
_LEDGER |= {path.name for path in spares_of(Path("checkpoint"))}
_SECRET = {SETTINGS, KEY_FILE, *log_keys.KEY_FILES, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"}
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}|\.incoming-.*")


def holds_anything(directory: Path) -> bool:
    """Whether a file that makes up a provider is to be seen in a folder, be it broken."""
    return any(
        os.path.lexists(directory / name) for name in (SETTINGS, KEY_FILE, *log_keys.KEY_FILES, DATABASE, LEDGER)
    )


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
                elif path.name not in _NO_FILES and not path.is_file():
                    report.found(f"{path} is not a regular file: restore it from a backup")
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
