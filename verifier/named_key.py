# SPDX-License-Identifier: GPL-3.0-or-later
"""An auditor's public key, as an option names it."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.publickey import check_public_key
from ragseal.runtime.edges.filesystem import why


def named_key(text: str, option: str) -> bytes:
    """A public key as `init` prints it, or a PEM file with one.  Raises ConfigurationError: neither."""
    path = Path(text)
    try:
        if len(text) == 64:
            key = bytes.fromhex(text)
        else:
            found = load_pem_public_key(path.read_bytes())
            if not isinstance(found, Ed25519PublicKey):
                raise ConfigurationError(f"{path} holds no Ed25519 key")
            key = found.public_bytes_raw()
        check_public_key(key)
    except OSError as error:
        raise ConfigurationError(
            f"{option} takes 64 hexadecimal digits, as `ragseal-verifier init` prints them, or a PEM file; {path}: "
            f"{why(error)}"
        ) from None
    except (ValueError, UnsupportedAlgorithm, EncodingError):
        raise ConfigurationError(
            f"{option}: {text[:80]!r} is not an Ed25519 public key: 64 hexadecimal digits or a PEM file"
        ) from None
    return key
