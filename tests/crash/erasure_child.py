# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that erases a document, retires a window, and kills itself at one step.

Started by test_erasure.py: folder, coins, when, step.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from ragseal.prover.administration import erasures
from ragseal.prover.commitment import erasure
from ragseal.prover.serving.retiring import Retiring
from ragseal.prover.storage import retirement
from ragseal.prover.storage.state import State
from tests.simulator import provider as scene

FOLDER, COINS, WHEN, STEP = Path(sys.argv[1]), sys.argv[2] == "coins", sys.argv[3], sys.argv[4]

OWNERS: dict[str, Any] = {
    "erase": erasure, "prove": Retiring, "begin": retirement, "purge_rows": retirement, "unlink": os,
    "purge_coins": retirement, "purge_leftovers": retirement, "forget_ids": erasure,
    "scrub": State, "end": retirement, "_end": erasure,
}  # fmt: skip


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def patch() -> None:
    owner, name = OWNERS[STEP], STEP.removeprefix("_")
    real = getattr(owner, name)

    def killed(*given: Any, **named: Any) -> Any:
        if WHEN == "before":
            die()
        made = real(*given, **named)
        die()
        return made

    setattr(owner, name, killed)


provider = scene.open_provider(FOLDER, coins=COINS, estimate=True)
patch()
retiring = Retiring(provider, provider.new_proofs(), provider.new_estimates())
window = provider.journal.history.named("w1")
erasures.erase(provider.state, "acme", "acme-marked-id-77", "art. 17", scene.NOW)
retiring.prove(window)
retiring.retire(window)
retiring.sweep()
sys.exit("it was not killed")
