# SPDX-License-Identifier: GPL-3.0-or-later
"""An auditor's public key, as an option names it."""

from __future__ import annotations

import re
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.publickey import check_public_key
from ragseal.runtime import texts

FORM = "64 hexadecimal digits, as `ragseal-verifier init` prints them, or a PEM file"


def named_key(text: str, option: str) -> bytes:
    """A public key as `init` prints it, or a PEM file with one.  Raises ConfigurationError: neither."""
    given = texts.line_of(text, option)
    try:
        if re.fullmatch("[0-9a-fA-F]{64}", given):
            key = bytes.fromhex(given)
        else:
            found = load_pem_public_key(_file(Path(text), option).encode())
            if not isinstance(found, Ed25519PublicKey):
                raise ConfigurationError(f"{given[:200]} holds no Ed25519 key")
            key = found.public_bytes_raw()
        check_public_key(key)
    except (ValueError, UnsupportedAlgorithm, EncodingError):
        raise ConfigurationError(f"{option}: {given[:80]!r} is not an Ed25519 public key: {FORM}") from None
    return key


def _file(path: Path, option: str) -> str:
    try:
        return texts.read_text(path, f"the file {str(path)[:200]}")
    except ConfigurationError as error:
        raise ConfigurationError(f"{option} takes {FORM}; {error}") from None
