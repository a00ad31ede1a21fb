# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a folder's disk has room: what ``status`` and ``doctor`` say of it."""

from __future__ import annotations

from pathlib import Path

from ragseal.runtime.edges.cause import Cause, Finding
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.mounts import Room, mount_of, room, size

LEAST = 64 << 20  #: bytes that must be free: a database's log alone may take as many
LEAST_FILES = 100
PROBE = "disk"


def full(left: Room) -> Cause | None:
    """Why a disk counts as full; None while it does not."""
    if left.free < LEAST:
        return Cause(str(left), f"make room there: at least {size(LEAST)} must be free")
    if left.free_files is not None and left.free_files < LEAST_FILES:
        return Cause(str(left), f"remove files there: at least {LEAST_FILES} more must fit")
    return None


def disk(path: Path) -> Finding:
    """How much room a folder has, or the nearest one above it that is there.

    WRONG: too little for a program that writes there.
    """
    try:
        left = room(path)
    except OSError as error:
        return Finding.unchecked(PROBE, f"{path} cannot be looked at: {why(error, path)}")
    if (cause := full(left)) is not None:
        return Finding.wrong(PROBE, cause)
    mount = mount_of(path)
    return Finding.ok(PROBE, f"{left}" + ("" if mount is None else f", on {mount}"))
