# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of a provider that lives in a test, and how they are put back."""

from __future__ import annotations

from pathlib import Path

from ragseal.prover.fsck import restore
from ragseal.prover.serving.committing import Told
from ragseal.prover.wire.operator_remote import Remote
from tests.simulator import provider as scene
from tests.simulator.live import Live


def silent(*_: object) -> None:
    """No progress shown."""


def copied(made: Live, name: str = "copy", keys: Path | None = None) -> Path:
    """A copy that a serving provider makes beside its folder."""
    with Remote(made.folder / "provider") as there:
        there.backup(made.folder / name, silent, keys)
    return made.folder / name


def put_back(
    source: Path,
    target: Path,
    newest: bytes | None = None,
    *,
    remains: Path | None = None,
    nothing_newer: bool = False,
    read_only: bool = False,
    keys: Path | None = None,
) -> Told:
    """`ragseal-provider restore`, at the scene's time."""
    known = restore.Known(newest, remains, nothing_newer, read_only)
    return restore.restore(source, target, known, scene.NOW, keys)
