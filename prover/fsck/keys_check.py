# SPDX-License-Identifier: GPL-3.0-or-later
"""``fsck``'s part for proving keys: every byte is the one that ``fetch-keys`` checked.

A key's digest is of its verifying half.  Opening the other half reads its outline and head, and one rotten byte among
its points shows only when a proof fails, which stops the key (SPEC A.9.5).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ragseal.groth16.keys import ZKEY
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.base.check_report import Report
from ragseal.prover.keys.sums import SUM, kept_sum
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.progress import Progress

_PIECE = 1 << 22
_GET_IT = "get it again with `ragseal-provider fetch-keys`"


def check_keys(directory: Path, report: Report, progress: Progress) -> None:
    """Every proving key below ``directory`` against the SHA-256 that is kept beside it."""
    with report.guard(str(directory)):
        for folder in sorted(directory.iterdir()):
            if folder.is_dir() and not folder.name.startswith("."):  # what a download left
                with report.guard(f"proving key in {folder}"):
                    _check(folder, report, progress)


def _check(folder: Path, report: Report, progress: Progress) -> None:
    if not (folder / ZKEY).exists():
        raise ConfigurationError(f"{ZKEY} is missing: {_GET_IT}")
    for name in (ZKEY, SUM):
        if (folder / name).exists() and not (folder / name).is_file():  # a pipe would be waited for
            raise ConfigurationError(f"{name} is not a regular file: {_GET_IT}")
    try:
        kept = kept_sum(folder)
    except FileNotFoundError:
        report.notes.append(
            f"{folder} has no {SUM}, since a release before this one fetched the key: to have its every byte checked, "
            f"{_GET_IT}"
        )
        return
    try:
        found, done, total = hashlib.sha256(), 0, (folder / ZKEY).stat().st_size
        with (folder / ZKEY).open("rb") as file:
            while piece := file.read(_PIECE):
                found.update(piece)
                done += len(piece)
                progress(f"reading the proving key {folder.name}", done, total)
    except OSError as error:
        raise ConfigurationError(f"cannot read {ZKEY}: {why(error, folder / ZKEY)}") from error
    report.count("proving keys")
    if kept != found.hexdigest():
        report.found(f"{folder / ZKEY} is not what was fetched, or {SUM} beside it changed: {_GET_IT}")
