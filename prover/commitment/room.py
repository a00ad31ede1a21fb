# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on the disk is left for what must not fail: the log, secrets of answers, and what purges them.  SPEC A.12.14."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.index import Version
from ragseal.prover.storage.state import State

RESERVE = 1 << 28  #: bytes that versions of a live index leave free


def require_room(state: State, former: Iterable[Version]) -> None:
    """Before a version is made: it may change all of every tenant's documents, and is written twice for a moment.

    Args:
        former: the versions before it, one a tenant.

    Raises:
        ConfigurationError: the disk would be left with less than :data:`RESERVE` bytes.
    """
    most = sum(one.matrix.nbytes + sum(len(text.text.encode()) for text in one.texts.values()) for one in former)
    free = shutil.disk_usage(state.directory).free
    if free < RESERVE + 2 * most:
        raise ConfigurationError(
            f"{free >> 20} MiB are free where {state.directory} is, and {(RESERVE + 2 * most) >> 20} MiB have to be, "
            "so that the log and the secrets of answers find room: make room, or retire closed windows "
            "(`ragseal-provider retire`, `serve --retain`)"
        )
