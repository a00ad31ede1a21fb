# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider's side of phase C: one list of links, blocks that an auditor accepts, fresh randomness, stopped keys."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.backends.group import default_group
from ragseal.embedder import quantise
from ragseal.groth16.assignments import BlockAssignment
from ragseal.groth16.keys import KeyPaths
from ragseal.groth16.provers import BlockBackend
from ragseal.kernel import certificate, signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.certificate import BlockBatch, Scope
from ragseal.kernel.commitment import generators
from ragseal.kernel.errors import AttestationError, ConfigurationError, EstimateError, ProofError
from ragseal.kernel.estimate import labels_of, reach_of
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.link_list import SignedLinks
from ragseal.kernel.policy import Policy
from ragseal.prover.commitment.registry import window_accounts
from ragseal.prover.estimate.estimate import Estimates
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.stopped_keys import release, stopped
from tests.simulator.keys import keys_of
from tests.simulator.provider import (
    DIMENSION,
    Asker,
    TrigramEmbedder,
    blocks,
    links,
    make_policy,
    newest,
    open_provider,
    open_window,
    serving_on,
)

pytestmark = pytest.mark.slow

SIZE = CLASSES["estimate-6"]
QUERIES = (
    ("alice", "report about topic 5"), ("bob", "report about topic 5"), ("carol", "globex"),
    ("alice", "an entirely different question"), ("bob", "report about topic 5!"), ("alice", "zebra crossings"),
)  # fmt: skip


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


@pytest.fixture(scope="module")
def block_keys() -> KeyPaths:
    return keys_of(SIZE)


@asynccontextmanager
async def asked(directory: Path, close: bool = True, **rules: Any) -> AsyncIterator[Serving]:
    """A window with six queries, closed; a provider that is started again finds it so."""
    fresh = not directory.exists()
    provider = open_provider(directory, estimate=True)
    if fresh:
        provider.commit(make_policy(theta="9/10", **rules), "w1")
    async with serving_on(provider) as serving:
        if fresh:
            await open_window(serving)
            askers = {name: Asker(name, serving) for name in ("alice", "bob", "carol")}
            for name, text in QUERIES:
                await askers[name].ask(text)
            if close:
                digest = manifest(serving)
                await serving.close_window(digest, signature.sign(provider.state.key, "close", digest))
        yield serving


def manifest(serving: Serving) -> bytes:
    return newest(serving).digest


def policy(serving: Serving) -> Policy:
    return serving.journal.history.window(manifest(serving)).manifest.policy


def reference_links(serving: Serving, tenant_of: dict[str, str], tenant: str) -> list[tuple[int, int]]:
    """Links by their definition, from the texts."""
    texts = [text for name, text in QUERIES if tenant_of[name] == tenant]
    rows = quantise(TrigramEmbedder().embed(texts)).astype(int)
    return [
        (a, b)
        for a in range(len(rows))
        for b in range(a + 1, len(rows))
        if 10 * int(rows[a] @ rows[b]) >= 9 * 127 * 127 and b - a <= policy(serving).tau
    ]


TENANT_OF = {"alice": "acme", "bob": "acme", "carol": "globex"}


def check(serving: Serving, block_keys: KeyPaths, signed: SignedLinks, wanted: list[list[int]], data: bytes) -> None:
    """What an auditor does with a delivery, from its own copy of the ledger."""
    window = serving.journal.history.window(manifest(serving))
    key = serving.estimates._backend(block_keys.digest).key
    records = [Record.decode(serving.journal.data(index)) for index in window.records]
    names = {a.pseudonym: a.name for a in window_accounts(serving.provider.state, window.digest)}
    own = [one for one in records if TENANT_OF[names[one.signed.request.account]] == "acme"]
    rules = window.manifest.policy
    reach = reach_of([one.time for one in own], rules.tau, rules.tau_time)
    scope = Scope(SIZE, key.digest, window.digest, signed.body.digest(), "acme", rules, reach)
    c_e = [one.signed.request.c_e for one in own]
    listing = signed.body.tenants[0].listing()
    blocks = [certificate.make_block(scope, ranks, c_e, listing) for ranks in wanted]
    group = default_group()
    certificate.verify_blocks(group, key, generators(group, DIMENSION), scope, blocks, BlockBatch.decode(data))


@pytest.mark.parametrize(("rules", "joined"), [({}, [(0, 1)]), ({"tau_time": "1h"}, [(0, 1), (0, 3), (1, 3)])])
@in_loop
async def test_records_within_tau_time_are_compared(
    tmp_path: Path, block_keys: KeyPaths, rules: dict[str, Any], joined: list[tuple[int, int]]
) -> None:
    """bob comes back with alice's question after another one of hers: further on than tau = 1, and within the hour."""
    async with asked(tmp_path / "p", tau=1, **rules) as serving:
        signed = serving.estimates.links(manifest(serving))
        assert signed.body.tenants[0].links() == joined
        wanted = [list(ranks) for ranks in serving.estimates.full_blocks(manifest(serving), "acme", SIZE.n) or ()]
        assert wanted == [[0, 1, 2, 3, 4]]
        data = serving.estimates.blocks(manifest(serving), block_keys.digest, "acme", wanted)
        check(serving, block_keys, signed, wanted, data)


@in_loop
async def test_links_and_blocks(tmp_path: Path, block_keys: KeyPaths) -> None:
    async with asked(tmp_path / "p") as serving:
        window = serving.journal.history.window(manifest(serving))
        signed = SignedLinks.decode(await links(serving, window.digest))
        signed.verify(window.manifest.window_key)
        for one in signed.body.tenants:
            assert one.links() == reference_links(serving, TENANT_OF, one.tenant)
        assert (0, 1) in signed.body.tenants[0].links()
        wanted = [[0, 1, 2, 3, 4], [0, 2], [1, 2, 4]]
        data = await blocks(serving, window.digest, block_keys.digest, "acme", wanted)
        check(serving, block_keys, signed, wanted, data)
        with pytest.raises(ProofError, match="does not hold"):
            check(serving, block_keys, signed, [[0, 1, 2, 3], *wanted[1:]], data)
        again = BlockBatch.decode(await blocks(serving, window.digest, block_keys.digest, "acme", wanted))
        for first, second in zip(BlockBatch.decode(data).blocks, again.blocks, strict=True):
            assert first.c_g != second.c_g
            assert first.c_s != second.c_s
            assert first.norm.announcement != second.norm.announcement
            assert first.norm.linear != second.norm.linear


@in_loop
async def test_more_links_than_are_listed(
    tmp_path: Path, block_keys: KeyPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spanning links of a tenant whose links exceed what is left; its blocks hold, and say where they do not."""
    monkeypatch.setattr("ragseal.prover.estimate.estimate.MAX_LINKS", 0)
    async with asked(tmp_path / "p") as serving:
        window = serving.journal.history.window(manifest(serving))
        signed = SignedLinks.decode(await links(serving, window.digest))
        acme, globex = signed.body.tenants
        every = reference_links(serving, TENANT_OF, "acme")
        assert (acme.complete, globex.complete) == (False, True)
        assert every
        assert set(acme.links()) <= set(every)
        assert labels_of(acme.records, acme.links()) == labels_of(acme.records, every)
        wanted = [[0, 1, 2, 3, 4], [0, 2]]
        data = await blocks(serving, window.digest, block_keys.digest, "acme", wanted)
        check(serving, block_keys, signed, wanted, data)


@in_loop
async def test_one_list_whatever_happens(tmp_path: Path, block_keys: KeyPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list on disk is the one that is sent, even if it would be found otherwise now."""
    async with asked(tmp_path / "p") as serving:
        first = await links(serving, manifest(serving))
        assert await links(serving, manifest(serving)) == first
    monkeypatch.setattr("ragseal.prover.estimate.estimate.find_links", lambda *_: [])
    async with asked(tmp_path / "p") as serving:
        assert await links(serving, manifest(serving)) == first


@in_loop
async def test_no_estimate_of_an_open_window(tmp_path: Path, block_keys: KeyPaths) -> None:
    async with asked(tmp_path / "p", close=False) as serving:
        with pytest.raises(EstimateError, match="is not closed"):
            await links(serving, manifest(serving))
        with pytest.raises(EstimateError, match="is not closed"):
            await blocks(serving, manifest(serving), block_keys.digest, "acme", [[0, 1]])


@in_loop
async def test_requests_that_are_refused(tmp_path: Path, block_keys: KeyPaths) -> None:
    async with asked(tmp_path / "p") as serving:
        digest = manifest(serving)
        for wanted in ([], [[0]] * 65, [[]], [[0, 0]], [[1, 0]], [[0, 5]], [list(range(7))]):
            with pytest.raises(EstimateError):
                await blocks(serving, digest, block_keys.digest, "acme", wanted)
        with pytest.raises(EstimateError, match="no tenant 'nobody'"):
            await blocks(serving, digest, block_keys.digest, "nobody", [[0]])
        with pytest.raises(ConfigurationError, match="fetch-keys"):
            await blocks(serving, digest, hashlib.sha256(b"").digest(), "acme", [[0]])


@in_loop
async def test_blocks_whose_caller_has_gone_stop(tmp_path: Path, block_keys: KeyPaths) -> None:
    """Asked before every record that is loaded, every proof and the opening; the turn is given back."""

    class Gone(Exception):
        pass

    async with asked(tmp_path / "p") as serving:
        estimates, window = serving.estimates, manifest(serving)
        await links(serving, window)

        def work(patience: int) -> int:
            asked = 0

            def wanted_still() -> None:
                nonlocal asked
                asked += 1
                if asked > patience:
                    raise Gone

            estimates._records.clear()
            with pytest.raises(Gone) if patience < 9 else contextlib.nullcontext():
                estimates.blocks(window, block_keys.digest, "acme", [[0, 1], [2, 3]], wanted_still)
            return asked

        assert work(9) == 6 + 2 + 1
        for patience in (0, 5, 8):
            assert work(patience) == patience + 1
        assert not estimates._turns._taken


class Failing:
    """A back end whose proofs do not hold."""

    def __init__(self, real: BlockBackend) -> None:
        self.key = real.key
        self.other = real
        self.last = b""

    def prove(self, assignment: BlockAssignment) -> bytes:
        made, self.last = self.last, self.other.prove(assignment)
        return made or self.last


@in_loop
async def test_a_proof_that_fails_stops_the_key(
    tmp_path: Path, block_keys: KeyPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(tmp_path / "p") as serving:
        failing = Failing(serving.estimates._backend(block_keys.digest))
        monkeypatch.setattr(Estimates, "_backend", lambda self, digest: failing)
        with pytest.raises(ProofError, match="does not hold"):
            await blocks(serving, manifest(serving), block_keys.digest, "acme", [[0, 1], [2, 3]])
        monkeypatch.undo()
        state = serving.provider.state
        assert stopped(state, block_keys.digest)
        with pytest.raises(ProofError, match="was stopped by a failure"):
            await blocks(serving, manifest(serving), block_keys.digest, "acme", [[0, 1]])
        release(state, block_keys.digest)
        await blocks(serving, manifest(serving), block_keys.digest, "acme", [[0, 1]])


@in_loop
async def test_embeddings_that_the_certificate_could_not_prove_get_no_record(
    tmp_path: Path, block_keys: KeyPaths
) -> None:
    """A client may move every entry by 1; a vector of another length than a rounded unit vector's is refused."""
    async with asked(tmp_path / "p", close=False) as serving:
        asker = Asker("carol", serving, ctr=1)
        own = np.frombuffer(asker.message("globex").embedding, dtype=np.int8).astype(int)
        grown = (own + np.where(own >= 0, 1, -1)).astype(np.int8).tobytes()
        with pytest.raises(AttestationError, match="norm is not that of a quantised unit vector"):
            await asker.prepare(asker.message("globex", embedding=grown))
