# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts that cheat the real provider: above n_max, unregistered, under another's name, out of order.

A refusal leaves no record behind.  With the one check removed the same request is answered and recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ragseal.kernel import signature
from ragseal.kernel.attestation import Answer, Prepare, SignedRequest
from ragseal.kernel.commitment import embedding_commitment, generators
from ragseal.kernel.errors import AttestationError, AuditError, BudgetError
from ragseal.prover.attestation.retrieval import decode_embedding, encode_embedding
from ragseal.prover.serving.serving import Serving
from ragseal.runtime.statuses import status_of
from tests.attacks.checks import (
    PROVIDER_BUDGET,
    PROVIDER_C_E,
    PROVIDER_CTR,
    PROVIDER_NONCE,
    PROVIDER_ONE_AWAY,
    PROVIDER_SIGNATURE,
    without,
)
from tests.attacks.machine import GROUP
from tests.attacks.removal import Removable
from tests.simulator.provider import (
    Asker,
    account_key,
    opened,
    retrieved,
    window_on,
)

pytestmark = pytest.mark.slow

N_MAX = 3


@dataclass
class Scene:
    """A provider with an open window and an account, alice, that has asked once."""

    serving: Serving
    alice: Asker

    async def send(self, signed: SignedRequest) -> Answer:
        return opened(await retrieved(self.serving, signed.encode(), self.alice.name))

    async def next(self, query: str = "topic 5", **changes: object) -> SignedRequest:
        """Alice's next request, with fields of the cheat's choice, properly signed."""
        message = self.alice.message(query)
        return self.alice.request(message, await self.alice.prepare(message), **changes)


async def above_n_max(scene: Scene) -> Answer:
    """One query more than the policy allows; without the check at Prepare the one at Retrieve stands."""
    while scene.alice.ctr < N_MAX:
        await scene.alice.ask(f"topic {scene.alice.ctr}")
    return await scene.send(await scene.next())


async def signed_by_another_account(scene: Scene) -> Answer:
    """Bob asks at alice's expense."""
    request = (await scene.next()).request
    return await scene.send(SignedRequest(request, signature.sign(account_key("bob"), "request", request.encode())))


async def ctr_gap(scene: Scene) -> Answer:
    """A number is left out, so that the provider would look as if it had kept a record out of the ledger."""
    return await scene.send(await scene.next(ctr=2 + scene.alice.ctr))


async def nonce_again(scene: Scene) -> Answer:
    """The nonce of the first request: an auditor fails such a window."""
    window = scene.serving.journal.history.newest
    assert window is not None
    ((_, first),) = window.nonces
    return await scene.send(await scene.next(nonce=first))


async def another_c_e(scene: Scene) -> Answer:
    """C_e of an e that was never prepared, hence with no bound on its entries."""
    wild = embedding_commitment(GROUP, generators(GROUP, 24), [127] * 24, 5)
    return await scene.send(await scene.next(c_e=wild))


async def wild_embedding(scene: Scene) -> Answer:
    """An e that is not the query's: it may be chosen as a function of another account's answers."""
    message = scene.alice.message("topic 5")
    turned = [-x for x in decode_embedding(message.embedding)]
    message = replace(message, embedding=encode_embedding(turned))
    return await scene.send(scene.alice.request(message, await scene.alice.prepare(message)))


CHEATS: dict[Callable[[Scene], Awaitable[Answer]], tuple[type[AuditError], str, Removable]] = {
    above_n_max: (BudgetError, "has asked its n_max = 3 queries", PROVIDER_BUDGET),
    signed_by_another_account: (AttestationError, "request signature does not hold", PROVIDER_SIGNATURE),
    ctr_gap: (AttestationError, "does not follow 1: send requests in order", PROVIDER_CTR),
    nonce_again: (AttestationError, "nonce was used before", PROVIDER_NONCE),
    another_c_e: (AttestationError, "a query or C_e different from its Prepare", PROVIDER_C_E),
    wild_embedding: (AttestationError, "the embedding sent is not this query's", PROVIDER_ONE_AWAY),
}


def play(tmp_path: Path, act: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with window_on(tmp_path / "p", n_max=N_MAX) as serving:
            scene = Scene(serving, Asker("alice", serving))
            await scene.alice.ask("topic 4")
            await act(scene)

    asyncio.run(run())


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_account_that_cheats(tmp_path: Path, cheat: Callable[[Scene], Awaitable[Answer]]) -> None:
    kind, message, check = CHEATS[cheat]

    async def act(scene: Scene) -> None:
        with pytest.raises(kind, match=message) as raised:
            await cheat(scene)
        if kind is BudgetError:
            assert status_of(raised.value)[0].name == "RESOURCE_EXHAUSTED"
        before = scene.serving.provider.ledger.size
        window = scene.serving.journal.history.newest
        assert window is not None
        assert len(window.records) == scene.alice.ctr, "a refused request left a record"
        with without(check):
            answer = await cheat(scene)
        assert scene.serving.provider.ledger.size == before + 1
        assert answer.record.seq == len(window.records) - 1

    play(tmp_path, act)


def test_unregistered_account(tmp_path: Path) -> None:
    """A name outside the registry, and a registered name under a key of one's own, get nothing at either message."""

    async def act(scene: Scene) -> None:
        stranger = Asker("mallory", scene.serving)
        message = stranger.message("topic 5")
        with pytest.raises(AuditError, match="mallory"):
            await stranger.prepare(message)
        borrowed: Prepare = replace(message, account=scene.alice.pseudonym)
        with pytest.raises(AttestationError, match="prepare signature does not hold"):
            await stranger.prepare(borrowed)
        request = (await scene.next(account="mallory")).request
        signed = SignedRequest(request, signature.sign(account_key("mallory"), "request", request.encode()))
        with pytest.raises(AuditError, match="mallory"):
            await scene.send(signed)
        window = scene.serving.journal.history.newest
        assert window is not None
        assert len(window.records) == 1

    play(tmp_path, act)
