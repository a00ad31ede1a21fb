# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider computes with, for folders that these tests have copied and changed."""

from __future__ import annotations

from pathlib import Path

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.prover.base.check_report import Report
from ragseal.prover.fsck import fsck
from ragseal.prover.provider import assembly
from ragseal.prover.provider.backends import Backends
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage.state import State
from tests.classes import TINY
from tests.simulator import provider as scene


def tools(state: State, progress: assembly.Progress) -> Backends:
    cls = assembly.circuit_class(TINY.name)
    keys = assembly.open_keys(state, cls, progress)
    return Backends(default_group(), open_engine(cls), keys, scene.TrigramEmbedder())


def examine(directory: Path, whole: bool = True) -> Report:
    return fsck.examine_folder(directory, whole, assemble=tools)


def open_copy(directory: Path) -> Provider:
    """The provider of a folder; close it."""
    state = State(directory)
    try:
        return Provider(state, tools(state, lambda _: None))
    except BaseException:
        state.close()
        raise
