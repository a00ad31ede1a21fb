# SPDX-License-Identifier: GPL-3.0-or-later
"""A log's key, as an option names it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.ledger.named_log import named_log
from ragseal.ledger.note import NoteVerifier


def log(number: int) -> NoteVerifier:
    key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    return NoteVerifier("example.org/rag", key.public_key().public_bytes_raw())


LOG, OTHER = log(1), log(2)


@pytest.mark.parametrize("name", ["log.key", "c++.key", "a+b+c.key", "+", f"{LOG.name.replace('/', '-')}+aa+bb"])
def test_a_file_is_read_whatever_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(f"\ufeff{LOG.vkey()}\r\n")
    assert named_log(str(tmp_path / name)) == LOG


def test_a_key_may_have_what_a_shell_leaves_around_it() -> None:
    assert named_log(f"\ufeff {LOG.vkey()} \r\n") == LOG


def test_a_key_is_a_key_whatever_files_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = Path(LOG.vkey())
    named.parent.mkdir(parents=True, exist_ok=True)
    named.write_text(OTHER.vkey())  # a stranger's file, under the key's own text
    assert named_log(LOG.vkey()) == LOG


@pytest.mark.parametrize(
    ("text", "wrong", "said"),
    [
        ("/none/c++.key", EncodingError, "there is no file '/none/c"),
        ("nothing", EncodingError, "there is no file 'nothing'"),
        ("", ConfigurationError, "is empty"),
        (f"{LOG.vkey()}\n{OTHER.vkey()}", ConfigurationError, "2 lines"),
        (LOG.vkey().replace("+", "\u200b+", 1), ConfigurationError, r"U\+200B"),
        (LOG.vkey()[:-4] + "AAA=", EncodingError, "32 bytes, not 31"),
        ("/dev/zero", ConfigurationError, "device"),
        ("/", ConfigurationError, "folder"),
    ],
)
def test_what_is_neither_is_refused(text: str, wrong: type[AuditError], said: str) -> None:
    with pytest.raises(wrong, match=said):
        named_log(text)
