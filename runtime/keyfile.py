# SPDX-License-Identifier: GPL-3.0-or-later
"""Ed25519 private keys in files: PKCS#8 PEM (or 32 raw bytes), mode 0600, refused when others may read them.

Such a file may name a key in a token instead (:mod:`ragseal.runtime.token_key`): one line with its URI.  Keys that two
processes share are in files too: 64 hexadecimal digits.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime import texts
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.token_key import SCHEME, TokenKey, load_token_key

_LARGEST = 16 * 1024


def save_key(path: Path, key: Ed25519PrivateKey | TokenKey) -> None:
    """Write a new key file (0600) in one step: the key as PEM, or the URI of one that a token has.

    Raises:
        ConfigurationError: the file exists (a key is never overwritten) or cannot be written.
    """
    if isinstance(key, TokenKey):
        _write_new(path, key.uri.encode() + b"\n")
        return
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write_new(path, pem)


def load_key(path: Path) -> Ed25519PrivateKey | TokenKey:
    """Read a key file.

    Raises:
        ConfigurationError: missing, readable or writable by group or others, not a regular file, or no Ed25519 key; or
            it names one in a token that is not there.
    """
    data = read_private(path)
    if data.removeprefix(codecs.BOM_UTF8).lstrip().startswith(SCHEME.encode()):
        return load_token_key(texts.line_of(data, f"the key {path}"))
    if len(data) == 32:
        return Ed25519PrivateKey.from_private_bytes(data)
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigurationError(f"{path} holds no unencrypted PEM private key") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(f"{path} holds a different kind of key: an Ed25519 key is needed")
    return key


def save_shared(path: Path, key: bytes) -> None:
    """Write a new file (0600) with a key of 32 bytes that two processes share.  Raises as :func:`save_key`."""
    _write_new(path, key.hex().encode() + b"\n")


def load_shared(path: Path) -> bytes:
    """The 32 bytes of a key that two processes share.

    Raises:
        ConfigurationError: missing, readable or writable by group or others, not a regular file, or no such key.
    """
    text = texts.line_of(read_private(path), f"the key {path}")
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ConfigurationError(f"{path} holds no key of 64 hexadecimal digits")
    return bytes.fromhex(text)


def read_private(path: Path) -> bytes:
    """What is in a file that only its owner may read.  ConfigurationError: it is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigurationError(f"cannot read the key {path}: {why(error, path)}") from None
    try:
        status = os.fstat(descriptor)  # of what was opened, so nobody can swap the file between check and read
        if not stat.S_ISREG(status.st_mode):
            raise ConfigurationError(f"the key {path} is not a regular file")
        if status.st_mode & 0o077:
            raise ConfigurationError(f"the key {path} is open to other users: run chmod 600 on it (or make a new key)")
        data = os.read(descriptor, _LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(data) > _LARGEST:
        raise ConfigurationError(f"the key {path} has more than {_LARGEST} bytes: it is not a key")
    return data


def _write_new(path: Path, data: bytes) -> None:
    try:
        write_durably(path, data, mode=0o600, replace=False)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists: a key is never overwritten, choose another name or move it") from None
    except OSError as error:
        raise ConfigurationError(f"cannot write the key {path}: {why(error, path)}") from None
