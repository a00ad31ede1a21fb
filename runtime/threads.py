# SPDX-License-Identifier: GPL-3.0-or-later
"""How many threads the system lets this process have: no look at how many it has now."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

UNKNOWN = 2048  #: where the system says nothing of it


def most_threads(root: Path = Path("/")) -> tuple[int, str]:
    """The smallest limit, and what sets it.

    Args:
        root: of /proc and /sys; another folder in tests.
    """
    found = [(value, name) for value, name in _limits(root) if value > 0]
    return min(found, default=(UNKNOWN, "unknown"))


def _limits(root: Path) -> Iterator[tuple[int, str]]:
    kernel = root / "proc/sys"
    # a thread's stack is two mappings: itself and the page that guards it
    yield _number(kernel / "vm/max_map_count") // 2, "vm.max_map_count"
    yield _number(kernel / "kernel/threads-max"), "kernel.threads-max"
    yield _number(kernel / "kernel/pid_max"), "kernel.pid_max"
    if (own := resource.getrlimit(resource.RLIMIT_NPROC)[0]) != resource.RLIM_INFINITY:
        yield own, "ulimit -u"
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers not in ("", "pids"):
                continue
            top = root / "sys/fs/cgroup" / controllers
            folder = top / place.lstrip("/")
            for one in (folder, *folder.parents):
                if one.is_relative_to(top):
                    yield _number(one / "pids.max"), "pids.max of the control group"


def _number(file: Path) -> int:
    """What a file says; 0 where it says no number."""
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return 0
