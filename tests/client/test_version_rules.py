# SPDX-License-Identifier: GPL-3.0-or-later
"""Which version of its index an account signs over, by what its folder remembers.  SPEC A.12."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.client.attestation import Window
from ragseal.client.versions import Versions
from ragseal.client.window import WindowState
from ragseal.kernel.errors import CommitmentError, LedgerError
from ragseal.kernel.versions import IndexUpdate, UpdatedIndex
from tests.simulator.provider import make_policy

OPENED_AT = 7
WINDOW = b"w" * 32


def update(number: int, root: bytes = b"r", manifest: bytes = WINDOW) -> IndexUpdate:
    line = UpdatedIndex("acme", bytes(32), bytes(32), (), root * 32)
    return IndexUpdate(manifest, number, 600 * number, (line,), bytes(32))


class Account:
    """One with a folder, and a log that shows it whatever stands in ``log``."""

    def __init__(self, folder: Path, every: int = 600) -> None:
        self.memory = WindowState.__new__(WindowState)
        self.memory.folder = folder
        self.memory.remember_opening(b"opening", OPENED_AT)
        self.log: dict[int, IndexUpdate] = {}
        history: Any = SimpleNamespace(update=lambda index, evidence: self.log[index])
        self.versions = Versions(history)
        manifest: Any = SimpleNamespace(policy=make_policy(version_every=every), coins=())
        own: Any = SimpleNamespace(tenant="acme")
        anything: Any = None
        self.window = Window(manifest, WINDOW, own, anything, anything)

    def prepared(self, index: int, shown: IndexUpdate | None = None) -> Any:
        """The window as it may be signed over, where the provider names this entry of the log."""
        named = (shown or self.log[index]).index_digest("acme")
        return self.versions.of(self.window, self.memory, named, index, None)  # type: ignore[arg-type]


def test_one_version_may_be_signed_over_again_and_none_before_it(tmp_path: Path) -> None:
    account = Account(tmp_path)
    account.log = {10: update(1), 20: update(2), 30: update(3)}
    for index in (10, 20, 20, 30, 30):
        assert account.prepared(index).index.digest() == account.log[index].index_digest("acme")
    for index in (10, 20):  # though it was right when it was looked up
        with pytest.raises(CommitmentError, match="goes back to version"):
            account.prepared(index)
    for index in (10, 20):  # what was signed is finished all the same
        digest = account.log[index].index_digest("acme")
        assert account.versions.signed(account.window, account.memory, digest).index.digest() == digest
    with pytest.raises(CommitmentError, match="holds no version of the index that the signed request names"):
        account.versions.signed(account.window, account.memory, update(4).index_digest("acme"))


def test_a_number_stands_for_one_version(tmp_path: Path) -> None:
    account = Account(tmp_path)
    account.log = {10: update(1), 20: update(1, root=b"o")}
    account.prepared(10)
    with pytest.raises(CommitmentError, match="shows two versions 1 of this window's indices"):
        account.prepared(20)
    assert account.memory.newest_version() == account.log[10]
    assert account.memory.version(account.log[20].index_digest("acme")) is None


@pytest.mark.parametrize("index", [OPENED_AT - 1, OPENED_AT])
def test_no_version_stands_before_the_window_s_opening(tmp_path: Path, index: int) -> None:
    account = Account(tmp_path)
    account.log = {index: update(1), OPENED_AT + 1: update(1)}
    with pytest.raises(LedgerError, match="from before the window's opening"):
        account.prepared(index)
    assert account.prepared(OPENED_AT + 1)


def test_a_version_of_another_window_or_line_is_not_remembered(tmp_path: Path) -> None:
    account = Account(tmp_path)
    account.log = {10: update(1, manifest=b"o" * 32), 20: update(1)}
    with pytest.raises(CommitmentError, match="belongs to another window"):
        account.prepared(10)
    with pytest.raises(CommitmentError, match="of a different version of this tenant's index"):
        account.prepared(20, shown=update(2))
    assert account.memory.newest_version() is None


def test_an_index_that_stays_has_no_updates(tmp_path: Path) -> None:
    account = Account(tmp_path, every=0)
    account.log = {10: update(1)}
    with pytest.raises(CommitmentError, match="an index that stays as it is"):
        account.prepared(10)
    account.log = {0: update(1)}
    assert account.prepared(0) is account.window
