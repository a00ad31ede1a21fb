# SPDX-License-Identifier: GPL-3.0-or-later
"""A live provider from which documents are erased and whose windows are retired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.prover.base.check_report import Report
from ragseal.prover.fsck import fsck
from ragseal.prover.wire.operator_remote import Remote
from tests.simulator import provider as scene
from tests.simulator.live import Live, live
from tests.simulator.marked import texts


def silent(*_: object) -> None:
    """No progress shown."""


def folder_of(made: Live) -> Path:
    return made.folder / "provider"


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Live]:
    """An open window."""
    with live(tmp_path, texts=texts) as made:
        yield made


def retire(made: Live) -> None:
    with Remote(folder_of(made)) as there:
        assert there.retire("w1", True, False, silent).values["purged"] is True


async def looked(made: Live) -> None:
    """One look for what is due, as the serving provider takes it every minute."""
    await made.server.serving.retire_due()


def examine_coined(folder: Path) -> Report:
    provider = scene.open_provider(folder, coins=True)
    try:
        return fsck.examine(provider, whole=True)
    finally:
        provider.close()
