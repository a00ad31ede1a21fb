# SPDX-License-Identifier: GPL-3.0-or-later
"""A restore that dies before one of its steps.  Started by test_restore.py: step, copy, place, what is left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ragseal.prover.fsck import restore
from tests.simulator.copies import put_back

step, source, place, left = sys.argv[1:]


def dies(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


setattr(restore, step, dies)
put_back(Path(source), Path(place), remains=Path(left))
