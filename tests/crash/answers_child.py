# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider of answers that kills itself while it answers.  Started by test_participations.py: folder, step."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ragseal.prover.attestation.answering import Attestation
from ragseal.prover.storage.participations import Participations
from tests.simulator import provider as scene
from tests.simulator.answered import QUESTION, answering_provider

FOLDER, STEP = Path(sys.argv[1]), sys.argv[2]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def patch() -> None:
    """Die when the secrets are written and the counts are not, or when both are durable and the record is not."""

    def charged(*given: Any) -> None:
        die()

    async def appended(*given: Any) -> Any:
        die()

    if STEP == "between":
        Participations.charge = staticmethod(charged)  # type: ignore[method-assign, assignment]
    else:
        Attestation._append = appended  # type: ignore[method-assign, assignment]


async def main() -> None:
    async with scene.serving_on(answering_provider(FOLDER)) as serving:
        await scene.Asker("alice", serving).ask(QUESTION)


patch()
asyncio.run(main())
