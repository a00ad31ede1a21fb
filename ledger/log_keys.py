# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a log's signing keys, and what a turn of the key does to them.  SPEC G.6.13.

``log.pem`` is the key that signs, ``log-next.pem`` one that the log is about to turn to, ``log-former.pem`` one that
was given up and signs beside it in the overlap, ``log-turns`` the turns that there have been.  The log itself is what
decides: :func:`settle` brings the files in agreement with it, whatever a crash left.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner, NoteVerifier
from ragseal.ledger.turns import KeptTurns, LogKey
from ragseal.runtime.durable import sync_directory, write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.keyfile import load_key, save_key
from ragseal.runtime.token_key import TokenKey

LOG_KEY_FILE, NEXT_FILE, FORMER_FILE, TURNS_FILE = "log.pem", "log-next.pem", "log-former.pem", "log-turns"
KEY_FILES = (LOG_KEY_FILE, NEXT_FILE, FORMER_FILE)


def load_signers(directory: Path, origin: str) -> tuple[NoteSigner, ...]:
    """The log's private keys that are there, the one that signs first.  ConfigurationError: that one is not there."""
    first = NoteSigner(origin, load_key(directory / LOG_KEY_FILE))
    others = (directory / name for name in (NEXT_FILE, FORMER_FILE) if (directory / name).exists())
    return (first, *(NoteSigner(origin, load_key(path)) for path in others))


def log_key(directory: Path, signer: NoteSigner) -> NoteVerifier:
    """What the log is called by: its first key, with its turns.  ConfigurationError: the file of turns is damaged."""
    path = directory / TURNS_FILE
    try:
        turns = KeptTurns.decode(path.read_bytes()).turns
        return LogKey.of(NoteVerifier(signer.name, turns[0].old_key), turns) if turns else signer.verifier
    except FileNotFoundError:
        return signer.verifier
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    except AuditError as error:
        raise ConfigurationError(f"{path} is damaged ({error}): move it away, the log has its turns too") from None


def settle(directory: Path, ledger: Log) -> None:
    """Files as the opened log wants them, in steps each of which a crash may follow.

    Raises:
        ConfigurationError: the disk refuses.
        LedgerError: the lines of a key that is over cannot be kept; it stays then.
    """
    log = ledger.verifier
    if not isinstance(log, LogKey):
        return
    try:
        turns = KeptTurns(log.turns).encode()
        if not (directory / TURNS_FILE).is_file() or (directory / TURNS_FILE).read_bytes() != turns:
            write_durably(directory / TURNS_FILE, turns, mode=0o600)
        if _public(directory / LOG_KEY_FILE) != log.newest.public_key:
            _promote(directory, log.newest.public_key)
        over = ledger.give_up_keys()
        former = directory / FORMER_FILE
        if former.exists() and _public(former) in over:
            former.unlink()
            sync_directory(directory)
    except OSError as error:
        raise ConfigurationError(f"cannot change the log's keys in {directory}: {why(error, directory)}") from None


def _promote(directory: Path, newest: bytes) -> None:
    """The next key signs, the one that signed so far is the former one."""
    if not (directory / NEXT_FILE).exists() or _public(directory / NEXT_FILE) != newest:
        raise ConfigurationError(
            f"the log in {directory} has turned to the key {newest.hex()}, which {NEXT_FILE} does not hold: put it back"
        )
    former = directory / FORMER_FILE
    if not former.exists() or _public(former) != _public(directory / LOG_KEY_FILE):
        write_durably(former, (directory / LOG_KEY_FILE).read_bytes(), mode=0o600)
    os.replace(directory / NEXT_FILE, directory / LOG_KEY_FILE)
    sync_directory(directory)


def rotate(directory: Path, ledger: Log, overlap: int, key: Ed25519PrivateKey | TokenKey) -> LogKey:
    """Turn an opened log, which the files agree with, to this new key; gives the log's key behind it.

    A key that an earlier call made and did not come to use is thrown away.

    Raises:
        ConfigurationError: the disk refuses.
        LedgerError: the log is in its last turn's overlap, has turned 64 times, or cannot be written.
        EncodingError: an overlap out of range.
    """
    log = ledger.verifier
    if isinstance(log, LogKey) and ledger.size < log.turns[-1].until:
        raise LedgerError(
            f"the log's last turn has an overlap up to {log.turns[-1].until} entries, and there are {ledger.size}: its "
            "key is turned again behind that"
        )
    # One that an earlier call left is none that the log has turned to (settle): it may have been copied since.
    try:
        (directory / NEXT_FILE).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot remove {directory / NEXT_FILE}: {why(error, directory / NEXT_FILE)}"
        ) from None
    save_key(directory / NEXT_FILE, key)
    ledger.rotate(NoteSigner(ledger.origin, load_key(directory / NEXT_FILE)), overlap)
    settle(directory, ledger)
    return LogKey.of(ledger.verifier)


def _public(path: Path) -> bytes:
    return load_key(path).public_key().public_bytes_raw()


def names() -> Sequence[str]:
    """Every file of the log's keys that a folder may have."""
    return (*KEY_FILES, TURNS_FILE)
