# SPDX-License-Identifier: GPL-3.0-or-later
"""Files whose content is overwritten before their name goes."""

from __future__ import annotations

import os
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.durable import sync_directory
from ragseal.runtime.edges.filesystem import why

_PIECE = 1 << 20


def shred(path: Path) -> None:
    """Overwrite a file with zeros and unlink it; one that is not there is none the worse for it.

    A disk that writes elsewhere (SSDs, file systems with snapshots) keeps what it likes: nothing here reaches that.

    Raises:
        ConfigurationError: the disk refuses.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigurationError(f"cannot overwrite {path}: {why(error, path)}") from None
    try:
        left, zeros = os.fstat(descriptor).st_size, bytes(_PIECE)
        while left > 0:
            left -= os.write(descriptor, zeros[:left])
        os.fsync(descriptor)
        os.unlink(path)
        sync_directory(path.parent)
    except OSError as error:
        raise ConfigurationError(f"cannot overwrite {path}: {why(error, path)}") from None
    finally:
        os.close(descriptor)
