# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the public files of a window lie beside its log's tiles: keys, columns, proofs.  SPEC G.15.

Every name follows from what the log says, so that nothing has to list them and no name is a tenant's or an account's:

vk-<key>.bin                         a verifying key by its digest
columns/<digest>.bin                 columns of an index by the digest that the log names, with their proofs
proofs/<manifest>/<first>.bin        the proofs of 256 records from this one on
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why


def key_path(digest: bytes) -> str:
    """Of a verifying key."""
    return f"vk-{digest.hex()}.bin"


def columns_path(digest: bytes) -> str:
    """Of an IndexFile, ThinnedFile or EmptiedFile, by the digest of its columns."""
    return f"columns/{digest.hex()}.bin"


def batch_path(manifest: bytes, first: int) -> str:
    """Of a ProofBatch, by the number of its first record."""
    return f"proofs/{manifest.hex()}/{first}.bin"


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder, each whole or not at all; one that is there with these bytes is left as it is.

    Raises:
        ConfigurationError: the disk refuses.
    """
    try:
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_file() or path.read_bytes() != data:
                write_durably(path, data)
    except OSError as error:
        raise ConfigurationError(f"cannot write below {folder}: {why(error, folder)}") from None
