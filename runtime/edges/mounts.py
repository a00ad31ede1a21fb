# SPDX-License-Identifier: GPL-3.0-or-later
"""On which file system a path lies, and what is left there."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
NETWORKS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "virtiofs"})

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system."""

    point: str
    kind: str  #: such as ext4
    read_only: bool

    def __str__(self) -> str:
        return f"the {self.kind} file system at {self.point}"


@dataclass(frozen=True, slots=True)
class Room:
    """What is left where a path lies."""

    where: Path  #: the nearest folder of the path that is there
    free: int  #: bytes that this user may write
    total: int
    free_files: int | None  #: None where the file system counts none
    total_files: int

    def __str__(self) -> str:
        files = f", {self.free_files:,} of {self.total_files:,} files" if self.free_files is not None else ""
        return f"{size(self.free)} of {size(self.total)}{files} are free at {self.where}"


def size(number: int) -> str:
    """Bytes, for people."""
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{number} B" if unit == "B" else f"{value:.1f} {unit}"


def standing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    path = Path(os.path.abspath(path))
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path


def room(path: Path) -> Room:
    """Raises OSError."""
    where = standing(path)
    seen = os.statvfs(where)
    files = seen.f_favail if seen.f_files else None
    return Room(where, seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize, files, seen.f_files)


def mount_of(path: Path) -> Mount | None:
    """The file system on which a path lies; None where the system does not list its mounts."""
    try:
        lines = MOUNTS.read_text("utf-8", "replace").splitlines()
        where = os.path.realpath(standing(path))
    except OSError:
        return None
    found: Mount | None = None
    for line in lines:
        before, dash, after = line.partition(" - ")
        words, more = before.split(" "), after.split(" ")
        if not dash or len(words) < 6 or not more[0]:
            continue
        point = _OCTAL.sub(lambda hit: chr(int(hit[1], 8)), words[4])
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and (found is None or len(point) >= len(found.point)):
            options = (*words[5].split(","), *more[-1].split(","))
            found = Mount(point, more[0], "ro" in options)
    return found
