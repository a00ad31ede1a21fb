# SPDX-License-Identifier: GPL-3.0-or-later
"""No blinder and no nonce is ever used twice: SPEC B.8.

The real provider, over windows, index versions, queries, batches that overlap, and a restart.  What it keeps and what
it publishes is collected; two equal blinders, or two equal announcements (a nonce used twice), would open commitments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel import field as scalars
from ragseal.kernel import opening, signature
from ragseal.kernel.folding import lengths
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofBatch
from ragseal.prover.attestation import batch_openings, retrieval
from ragseal.prover.attestation.retrieval import QuerySecrets
from ragseal.prover.serving.serving import Serving
from tests.attacks.machine import GROUP
from tests.attacks.world import AttackWorld
from tests.simulator.provider import (
    NOW,
    Asker,
    Clock,
    batch,
    make_policy,
    newest,
    open_provider,
    open_window,
    serving_on,
)

pytestmark = pytest.mark.slow

QUERIES = (("alice", "report about topic 5"), ("carol", "globex"), ("alice", "report about topic 5"))
BATCHES: Sequence[list[int]] = ([], [0], [0, 1], [1, 2], [0, 2])


@dataclass
class Seen:
    """Everything of a provider that must be fresh."""

    scalars: list[int] = field(default_factory=list)  #: beta_j, r, rho, rho' and the salts of T
    announcements: list[bytes] = field(default_factory=list)

    def opening(self, opening: Opening) -> None:
        self.announcements += opening.announcements

    def check(self) -> None:
        """AssertionError if anything occurs twice."""
        assert len(set(self.scalars)) == len(self.scalars), "a blinder was used twice"
        assert len(set(self.announcements)) == len(self.announcements), "a nonce was used twice"
        assert all(x > 1 << 128 for x in self.scalars), "a blinder is no uniform scalar"


async def _window(directory: Path, name: str, clock: Clock, seen: Seen, **changes: Any) -> None:
    """One window of the real provider: index version, queries, batches."""
    provider = open_provider(directory, clock)
    provider.commit(make_policy(**changes), name)
    async with serving_on(provider) as serving:
        window = await open_window(serving)
        for version in provider.window_secrets(window.digest).versions.values():
            seen.scalars += version.blinders
            seen.opening(version.public.opening)
        askers = {account: Asker(account, serving) for account, _ in QUERIES}
        for account, query in QUERIES:
            message = askers[account].message(query)
            first, again = await askers[account].prepare(message), await askers[account].prepare(message)
            assert first == again  # the same Prepare is no second commitment
            seen.scalars.append(first.blinder)
            await askers[account].ask(query)
        for (stored,) in provider.state.rows("SELECT secrets FROM queries WHERE manifest = ?", (window.digest,)):
            kept = QuerySecrets.decode(stored)
            seen.scalars += [kept.rho, kept.rho_hint, kept.t_salt]
        await _batches(serving, window.digest, seen)
    async with serving_on(open_provider(directory, clock)) as serving:
        await _batches(serving, window.digest, seen)  # nothing delivered is remembered after a restart
        clock.now += 600
        proof = signature.sign(serving.provider.state.key, "close", window.digest)
        await serving.close_window(newest(serving).digest, proof)


async def _batches(serving: Serving, manifest: bytes, seen: Seen) -> None:
    for seqs in BATCHES:
        delivered = ProofBatch.decode(await batch(serving, manifest, seqs))
        for one in (*delivered.openings, *(link.opening for link in delivered.links)):
            seen.opening(one)


def _two_windows(directory: Path) -> Seen:
    seen, clock = Seen(), Clock()

    async def run() -> None:
        await _window(directory, "w1", clock, seen)
        await _window(directory, "w2", clock, seen, opens=NOW + 600)

    asyncio.run(run())
    return seen


def test_nothing_is_used_twice(tmp_path: Path) -> None:
    seen = _two_windows(tmp_path / "p")
    seen.check()
    # d columns of two tenants and four scalars a query, in two windows
    assert len(seen.scalars) == 2 * (2 * 24 + 4 * len(QUERIES))
    # two column openings a window; of every batch two announcements of hints, one of thresholds, two a link
    assert len(seen.announcements) >= 2 * (2 + len(BATCHES) * 5)


@pytest.mark.parametrize(
    ("module", "name", "instead", "message"),
    [
        (retrieval, "scalars", lambda draw, count: [R - 5] * count, "a blinder was used twice"),
        (batch_openings, "packed_scalars", lambda draw, n: scalars.pack(range(1, n + 1)), "a nonce was used twice"),
    ],
    ids=["blinder", "nonce"],
)
def test_a_provider_that_reuses_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, instead: Callable[..., Any], message: str
) -> None:
    """The collection above sees a fixed blinder and a fixed nonce."""
    monkeypatch.setattr(module, name, instead)
    seen, clock = Seen(), Clock()
    asyncio.run(_window(tmp_path / "p", "w1", clock, seen))
    with pytest.raises(AssertionError, match=message):
        seen.check()


def test_a_reused_nonce_unblinds_the_hints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Why: L of two batches of one record with one nonce gives half of its hints under no blinder at all.

    Any guess of them can then be checked by anyone; B is in the other half.
    """
    world = AttackWorld()
    world.commit()
    record = world.ask("alice")
    item = world.item(record)
    query = world.kept[world.digest, 0]
    monkeypatch.setattr("tests.simulator.world.scalars", lambda rng, n: scalars.pack(range(7, n + 7)))
    found: list[int] = []
    real = opening.challenge

    def noted(label: str, *parts: bytes) -> int:
        value = real(label, *parts)
        if label == "opening/hints":
            found.append(value)
        return value

    monkeypatch.setattr(opening, "challenge", noted)
    first, second = (world.open_committed(context, [item])[0].folds[0] for context in (b"one", b"two"))
    inverse = pow(found[0] - found[1], -1, R)
    unblinded = GROUP.msm(first + second, scalars.pack([inverse, R - inverse]))
    (use,) = world.key.committed.own
    bases = use.over[0].bases
    half = lengths(len(bases) // 64, 1)[1]
    right = bases[64 * half :]
    assert right.endswith(world.key.scores.b)

    def guessed(hints: bytes) -> bool:
        return GROUP.msm(right, hints[: len(right) // 2]) == unblinded

    assert guessed(query.h)
    other = scalars.unpack(query.h)
    assert not guessed(scalars.pack([other[0] ^ 1, *other[1:]]))
