# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that kill themselves at one step of what they do: ``python -m tests.crash.dying PROGRAM ARGUMENT...``.

Each is a function of its arguments below.  Tests start it, wait until it is dead, and look at what it has left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.administration import erasures
from ragseal.prover.attestation.answering import Attestation
from ragseal.prover.commitment import erasure, slots
from ragseal.prover.fsck import restore
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.retiring import Retiring
from ragseal.prover.storage import retirement
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.participations import Participations
from ragseal.prover.storage.state import State
from tests.simulator import provider as scene
from tests.simulator.answered import QUESTION, answering_provider
from tests.simulator.copies import copied, put_back
from tests.simulator.live import Live
from tests.simulator.rolling import Running, rolling, schedule


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def answers(folder: str, step: str) -> None:
    """A provider of answers, between the secrets of an answer and its counts, or between both and its record."""

    async def appended(*given: Any) -> Any:
        die()

    if step == "between":
        Participations.charge = staticmethod(die)  # type: ignore[method-assign, assignment]
    else:
        Attestation._append = appended  # type: ignore[method-assign, assignment]

    async def ask() -> None:
        async with scene.serving_on(answering_provider(Path(folder))) as serving:
            await scene.Asker("alice", serving).ask(QUESTION)

    asyncio.run(ask())


def backup(folder: str) -> None:
    """A provider that is copied under load.

    Beside its folder it leaves two copies: ``early``, made while accounts ask, and ``late``, made once they have their
    answers.
    """
    made = Live(Path(folder))

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
    die()


#: Whose function each step of an erasure is.
STEPS: dict[str, Any] = {
    "erase": erasure, "prove": Retiring, "begin": retirement, "purge_rows": retirement, "unlink": os,
    "purge_coins": retirement, "purge_leftovers": retirement, "forget_ids": erasure,
    "scrub": State, "end": retirement, "_end": erasure,
}  # fmt: skip


def erase(folder: str, coins: str, when: str, step: str) -> None:
    """A provider that erases a document and retires a window."""
    provider = scene.open_provider(Path(folder), coins=coins == "coins", estimate=True)
    owner, name = STEPS[step], step.removeprefix("_")
    real = getattr(owner, name)

    def killed(*given: Any, **named: Any) -> Any:
        if when == "before":
            die()
        made = real(*given, **named)
        die()
        return made

    setattr(owner, name, killed)
    retiring = Retiring(provider, provider.new_proofs(), provider.new_estimates())
    window = provider.journal.history.named("w1")
    erasures.erase(provider.state, "acme", "acme-marked-id-77", "art. 17", scene.NOW)
    retiring.prove(window)
    retiring.retire(window)
    retiring.sweep()


def put_back_before(step: str, copy: str, place: str, left: str) -> None:
    """A restore of a copy to a place, with the folder of what is left."""
    setattr(restore, step, die)
    put_back(Path(copy), Path(place), remains=Path(left))


def at_entries(dies: Callable[[bool, Any], bool]) -> None:
    """Die where ``dies`` says so of an entry of the log, once before it is stored and once when it is durable."""
    build, reveal = Journal._build, Journal._reveal

    def built(self: Journal, index: int, make: Any, messages: list[Any]) -> bytes:
        data = build(self, index, make, messages)
        if dies(False, messages[0]):
            die()
        return data

    def revealed(self: Journal, messages: Any) -> None:
        if dies(True, messages[0]):
            die()
        reveal(self, messages)

    Journal._build, Journal._reveal = built, revealed  # type: ignore[method-assign]


def roll_over(folder: str, coins: str, when: str, kind: str) -> None:
    """A provider that rolls over: before or after an entry of that kind, or once a manifest is prepared."""
    prepare = Provider.prepare

    def prepared(self: Provider, *given: Any, **named: Any) -> Any:
        made = prepare(self, *given, **named)
        if kind == "prepared":
            die()
        return made

    Provider.prepare = prepared  # type: ignore[method-assign]
    at_entries(lambda durable, entry: (when == "after") == durable and type(entry).__name__ == kind)

    async def run() -> None:
        provider = scene.open_provider(Path(folder) / "provider", Running(), coins=coins == "coins")
        async with rolling(provider, schedule(Path(folder), 3.0, coins=coins == "coins")):
            await asyncio.sleep(60)

    asyncio.run(run())


def tick(folder: str, step: str) -> None:
    """A live index: a tenant's rows are written, all secrets are durable, the entry is not stored yet, or it is."""
    store, update = slots.store, Provider.update

    def stored(*given: Any) -> None:
        store(*given)
        if step == "rows":
            die()

    def updated(self: Provider, *given: Any) -> Any:
        made = update(self, *given)
        if step == "durable":
            die()
        return made

    slots.store, Provider.update = stored, updated  # type: ignore[method-assign]
    when = {"built": False, "entered": True}
    at_entries(lambda durable, entry: when.get(step) == durable and isinstance(entry, IndexUpdate))

    async def run() -> None:
        async with scene.serving_on(scene.open_provider(Path(folder), scene.Clock(scene.NOW + 60))):
            await asyncio.sleep(60)

    asyncio.run(run())


PROGRAMS: dict[str, Callable[..., None]] = {
    "answers": answers, "backup": backup, "erase": erase, "restore": put_back_before, "roll-over": roll_over,
    "tick": tick,
}  # fmt: skip

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
    sys.exit("it was not killed")
