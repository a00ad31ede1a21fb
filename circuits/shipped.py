# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled circuits that come with the package, so that nobody compiles before a first answer.

They lie in ``compiled/NAME.r1cs.xz``; ``compiled.toml`` says of each which sources and compiler it was made of, and
the SHA-256 of the R1CS.  One whose sources have changed is not taken.  ``python -m ragseal.circuits ship`` makes
them.
"""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path
from typing import Any

from ragseal.circuits.circuit import HERE
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime import texts

FOLDER = HERE / "compiled"
TABLE = HERE / "compiled.toml"
MOST_BYTES = 1 << 28  #: of an R1CS, unpacked
NAMES = (
    "decoys-4k", "decoys-8k", "decoys-16k", "noise-small-gaussian-50", "estimate-112", "thinning-4096",
    "thinning-8192", "thinning-16384",
)  # fmt: skip


def shipped(label: str) -> dict[str, Any]:
    """What is said of a circuit that comes with the package: compiler, content, sha256.  Empty: it does not
    come."""
    if not TABLE.exists():
        return {}
    found = texts.read_toml(TABLE, f"compiled circuits: {TABLE}").get(label)
    return found if isinstance(found, dict) else {}


def unpacked(label: str, sha256: str) -> bytes:
    """Its R1CS.

    Raises:
        ConfigurationError: missing, damaged, or not the one that is spoken of.
    """
    path = FOLDER / f"{label}.r1cs.xz"
    try:
        data = lzma.LZMADecompressor(memlimit=MOST_BYTES).decompress(path.read_bytes(), MOST_BYTES)
    except (OSError, lzma.LZMAError) as error:
        raise ConfigurationError(f"{path} is damaged ({error}): install ragseal anew") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ConfigurationError(f"{path} is not the circuit that compiled.toml speaks of: install ragseal anew")
    return data


def ship(label: str, r1cs: Path, about: dict[str, Any]) -> str:
    """Pack a compiled circuit; its lines of compiled.toml."""
    data = r1cs.read_bytes()
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{label}.r1cs.xz").write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
    lines = {**about, "sha256": hashlib.sha256(data).hexdigest()}
    return f"[{label}]\n" + "".join(
        f'{key} = "{value}"\n' if isinstance(value, str) else f"{key} = {value}\n" for key, value in lines.items()
    )
