# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that is copied under load and dies.  Started by test_backup_drill.py: folder.

Beside the provider's folder it leaves two copies: ``early``, made while accounts ask, and ``late``, made once they have
their answers.  Then it kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from tests.simulator.copies import copied
from tests.simulator.live import Live

made = Live(Path(sys.argv[1]))


def ask(name: str) -> None:
    with made.client(name=name) as client:
        for number in range(2):
            client.ask(f"report about topic {number}")


askers = [threading.Thread(target=ask, args=(name,)) for name in ("alice", "carol")]
for one in askers:
    one.start()
copied(made, "early")
for one in askers:
    one.join()
copied(made, "late")
os.kill(os.getpid(), signal.SIGKILL)
