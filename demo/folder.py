# SPDX-License-Identifier: GPL-3.0-or-later
"""A trial's own folder: emptied before a run, and only ever one that a trial itself has marked."""

from __future__ import annotations

import shutil
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why

MARKER = "made-by-the-ragseal-demo"
_TEXT = b"The ragseal demo made this folder and deletes everything in it at its next run.\n"


def claim(folder: Path) -> None:
    """Make ``folder`` and mark it, or empty it if the mark of an earlier run is in it.

    Raises:
        ConfigurationError: it holds anything and was not marked by a trial, is a link or a file, or cannot be written;
            nothing was deleted.
    """
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise ConfigurationError(f"{folder} is not a folder but a link or a file: {_WAY_OUT}")
        folder.mkdir(parents=True, exist_ok=True)
        marker = folder / MARKER
        found = [path for path in folder.iterdir() if path != marker]
        marked = marker.is_file() and not marker.is_symlink() and marker.read_bytes() == _TEXT
        if found and not marked:
            raise ConfigurationError(f"{folder} holds files that no trial made, or that `ragseal up` keeps: {_WAY_OUT}")
        write_durably(marker, _TEXT)  # before anything is deleted: a run that is broken off leaves the mark
        for path in found:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        raise ConfigurationError(f"cannot use {folder}: {why(error, folder)}; {_WAY_OUT}") from None


def keep(folder: Path) -> None:
    """Take the mark away: no later run empties the folder.  Raises ConfigurationError: it cannot be changed."""
    try:
        (folder / MARKER).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot change {folder}: {why(error, folder)}") from None


_WAY_OUT = "give a new or an empty folder with --out"
