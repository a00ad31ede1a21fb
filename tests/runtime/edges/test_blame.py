# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that cannot be read is neither missing nor damaged, and nobody is told to remove it or to make another one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ragseal.circuits.circuit import read_source
from ragseal.embedder.declared import DeclaredModel
from ragseal.kernel.errors import AuditError
from ragseal.ledger.named_log import named_log
from ragseal.ledger.options import open_witness
from ragseal.prover.commitment.corpus_files import inside, require_folder
from ragseal.prover.commitment.index import _mapped
from ragseal.prover.planning import workload
from ragseal.prover.storage.state import Settings
from ragseal.verifier.cli.probe_commands import PLANT, read_plant


def witness(folder: Path) -> None:
    with open_witness(folder):
        raise AssertionError("opened")


#: What reads a file, the file's name in a folder, and the words that were said of every failure.
READERS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "an observer's name": (witness, "name", "keygen first"),
    "a planted pair": (read_plant, PLANT, "holds no planted pair"),
    "a provider's settings": (lambda folder: Settings.load(folder / "provider.toml"), "provider.toml", "no provider"),
    "a circuit's source": (lambda folder: read_source(folder / "x.circom"), "x.circom", "damaged"),
    "a committed matrix": (lambda folder: _mapped(folder / "m.npy"), "m.npy", "restore a backup"),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_file_that_cannot_be_read_says_what_the_system_says(kind: str, tmp_path: Path) -> None:
    """A folder stands in its place: the system refuses to read it, and it is there."""
    read, name, words = READERS[kind]
    (tmp_path / name).mkdir()
    with pytest.raises(AuditError, match=f"{os.strerror(errno.EISDIR)}|is a folder|not a regular file") as caught:
        read(tmp_path)
    assert words not in str(caught.value)


def test_a_folder_of_a_corpus_that_cannot_be_opened_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AuditError, match=rf"Not a directory \({tmp_path / 'file'} is a file\)"):
        require_folder(tmp_path / "file" / "below")
    (tmp_path / "docs").mkdir()
    with pytest.raises(AuditError, match="File name too long") as caught:
        inside(tmp_path / "docs", "n" * 300)
    assert "BEIR" not in str(caught.value)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(AuditError, match=r"leads to itself|Too many levels"):
        require_folder(tmp_path / "loop")


def test_a_cache_that_cannot_be_read_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner would throw away what took hours."""
    monkeypatch.setattr(workload, "_content", lambda *_: "kept")
    (tmp_path / "kept.npy").touch()

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(np, "load", broken)
    embedder: DeclaredModel = object.__new__(DeclaredModel)
    with pytest.raises(AuditError, match=r"cannot read .*kept\.npy: Input/output error \(") as caught:
        workload.embed(embedder, ["x"], "query", tmp_path, lambda *_: None)
    assert "remove it" not in str(caught.value)


def test_a_log_key_s_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xff")
    with pytest.raises(AuditError, match="not UTF-8"):
        named_log(str(tmp_path / "key"))
