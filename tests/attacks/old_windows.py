# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider with older windows in which the same accounts asked: what they do there must not slow the newest one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.beacon import Seat
from tests.simulator import provider as scene


@dataclass
class Scene:
    """The newest window is open; the others are closed, each with alice's queries."""

    serving: Any
    windows: list[Any] = field(default_factory=list)  #: the oldest first
    asked: dict[bytes, SignedRequest] = field(default_factory=dict)  #: alice's last request, by manifest digest
    answers: dict[bytes, bytes] = field(default_factory=dict)  #: what it brought

    async def ask(self, number: int) -> None:
        """One query of alice's in the newest window."""
        alice = scene.Asker("alice", self.serving)
        window = self.windows[-1]
        if window.digest in self.answers:
            alice.ctr = number - 1
            alice.last_receipt = scene.opened(self.answers[window.digest]).receipt.digest()
        message = alice.message(f"question {number}")
        signed = self.asked[window.digest] = alice.request(message, await alice.prepare(message))
        self.answers[window.digest] = (await alice.retrieve(signed)).canonical

    async def again(self, window: Any) -> bytes:
        """Alice asks for her last answer of a window again."""
        return await scene.retrieved(self.serving, self.asked[window.digest].encode())


def auditor_of(number: int) -> Ed25519PrivateKey:
    """Every window has an auditor of its own."""
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


@asynccontextmanager
async def old_windows(folder: Path, count: int = 3, queries: int = 1) -> AsyncIterator[Scene]:
    """``count`` windows with ``queries`` of alice each."""
    provider = scene.open_provider(folder)
    made: Scene | None = None
    provider.commit(scene.make_policy(), "w1", auditors=[Seat("auditor", signature.public_bytes(auditor_of(1)))])
    async with scene.serving_on(provider) as serving:
        made = Scene(serving)
        for number in range(1, count + 1):
            if number > 1:
                key = signature.public_bytes(auditor_of(number))
                provider.commit(scene.make_policy(), f"w{number}", auditors=[Seat("auditor", key)])
            window = await scene.open_window(serving, auditor_of(number))
            made.windows.append(window)
            for query in range(queries):
                await made.ask(query + 1)
            if number < count:
                await serving.close_window(window.digest, signature.sign(provider.state.key, "close", window.digest))
        yield made
