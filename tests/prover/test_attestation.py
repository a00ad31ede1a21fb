# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B: what an honest account gets, and what every crooked request gets."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.backends.group import default_group
from ragseal.kernel import fixedpoint, mechanism, signature
from ragseal.kernel.attestation import Answer, Prepare, SignedRequest
from ragseal.kernel.commitment import embedding_commitment, generators, text_leaf
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
    BudgetError,
    CommitmentError,
    EncodingError,
    UnprovableError,
)
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_mechanism import select_noise
from ragseal.kernel.statements import stated_of
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.ledger.receipt import InclusionBundle
from ragseal.prover.attestation import answer_secrets
from ragseal.prover.attestation.answers import Answers, secrets_of_record
from ragseal.prover.attestation.pending import PENDING_PER_ACCOUNT, Pending, PendingTable
from ragseal.prover.attestation.retrieval import decode_embedding, shifted_scores
from ragseal.prover.base.limits import RETRIEVES_AT_ONCE
from ragseal.prover.serving.serving import ServeOptions, Serving
from tests.classes import TINY
from tests.simulator.provider import (
    DIMENSION,
    NOW,
    ORIGIN,
    Asker,
    Clock,
    TrigramEmbedder,
    account_key,
    embed_with,
    make_policy,
    newest,
    open_provider,
    open_window,
    opened,
    retrieved,
    window_on,
)

pytestmark = pytest.mark.slow

Scene = Callable[[Serving], Awaitable[None]]


def play(scene: Scene, directory: Path, clock: Clock | None = None) -> None:
    """Run a scene against a fresh provider with an open window."""

    async def run() -> None:
        async with window_on(directory, clock) as serving:
            await scene(serving)

    asyncio.run(run())


async def refused(kind: type[AuditError], match: str | None, action: Awaitable[object]) -> None:
    with pytest.raises(kind, match=match):
        await action


def test_an_honest_account_gets_checkable_answers(tmp_path: Path, tiny: NoiseClass) -> None:
    async def scene(serving: Serving) -> None:
        alice, provider = Asker("alice", serving), serving.provider
        window = newest(serving)
        secrets = provider.window_secrets(window.digest)
        for seq in range(3):
            query = f"acme report about topic {seq}"
            answer = await alice.ask(query)
            record, openings, receipt = answer.record, answer.openings, answer.receipt
            # openings: T's commitment, and every text under the index's root
            ids = [o.slot for o in openings.slots]
            assert len(ids) == tiny.K
            assert all(a < b for a, b in itertools.pairwise(ids))
            assert stated_of(tiny).lists(openings.t_salt, openings.returned(), 1) == record.t_commits
            root = window.manifest.index_of("acme").text_root
            for o in openings.slots:
                assert len(o.texts) == o.flag
                for text in o.texts:
                    leaf = text_leaf(text.salt, o.slot, text.content)
                    verify_inclusion(leaf_hash(leaf), o.slot, tiny.N, text.path, root)
            # the record is in the ledger, under the receipt's checkpoint
            receipt.verify(newest(serving).manifest.window_key)
            body = receipt.body
            assert body.openings_digest == openings.digest()
            assert body.record_digest == record.digest()
            bundle = InclusionBundle(body.index, receipt.path, body.checkpoint)
            bundle.verify(record.encode(), provider.state.log_signer.verifier)
            assert record.seq == seq == body.seq
            assert record.time == NOW // 60 * 60
            # T is the mechanism's, recomputed by the kernel from the seed
            assert window.beacon is not None
            key = mechanism.noise_key(secrets.limbs, window.beacon, record.signed.request.ctx())
            e = decode_embedding(alice.message(query).embedding)
            rows = secrets.versions["acme"].matrix.tolist()
            policy = window.manifest.policy
            w = [policy.gain * (fixedpoint.score(row, e) - policy.lo) for row in rows]
            assert list(select_noise(tiny, key, [w], policy.hmax(tiny)).returned) == openings.returned()
            assert all(o.flag == (w[o.slot] > 0) for o in openings.slots)

    play(scene, tmp_path / "p")


def test_prepare_fixes_exactly_the_clients_embedding(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice = Asker("alice", serving)
        own = decode_embedding(alice.message("query").embedding)
        nudged = [own[0] + 1, *own[1:-1], own[-1] - 1]
        message = alice.message("query", bytes(x & 0xFF for x in nudged))
        prepared = await alice.prepare(message)
        assert decode_embedding(prepared.embedding) == nudged
        bases = generators(default_group(), DIMENSION)
        assert prepared.c_e == embedding_commitment(default_group(), bases, nudged, prepared.blinder)
        assert await alice.prepare(message) == prepared  # same request id, same bytes
        other = alice.message("another query", request_id=message.request_id)
        await refused(AttestationError, "request id", alice.prepare(other))
        # without an own e the provider's is used
        empty = alice.message("query", b"", request_id=b"1" * 16)
        assert decode_embedding((await alice.prepare(empty)).embedding) == own

    play(scene, tmp_path / "p")


@pytest.mark.parametrize("step", [2, -2])
def test_an_embedding_more_than_one_away_is_refused(tmp_path: Path, step: int) -> None:
    async def scene(serving: Serving) -> None:
        alice = Asker("alice", serving)
        own = decode_embedding(alice.message("query").embedding)
        moved = [*own[:5], own[5] + step, *own[6:]]
        await refused(
            AttestationError,
            "differs by more than 1",
            alice.prepare(alice.message("query", bytes(x & 255 for x in moved))),
        )
        await refused(AttestationError, "entries", alice.prepare(alice.message("query", bytes(DIMENSION - 1))))
        await refused(AttestationError, "norm", alice.prepare(alice.message("query", bytes(DIMENSION))))

    play(scene, tmp_path / "p")


def test_prepare_wants_a_registered_account_and_its_signature(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice = Asker("alice", serving)
        canonical = alice.message("query").encode()
        good = signature.sign(alice.key, "prepare", canonical)
        for proof in (
            signature.sign(account_key("bob"), "prepare", canonical),
            signature.sign(alice.key, "request", canonical),
            bytes(64),
            b"",
        ):
            await refused(AttestationError, "signature", serving.attestation.prepare(canonical, proof))
        stranger = Asker("mallory", serving)
        await refused(AttestationError, "registry", stranger.prepare(stranger.message("query")))
        foreign = Prepare(b"m" * 32, "alice", b"i" * 16, b"s" * 32, "q", b"")
        proof = signature.sign(alice.key, "prepare", foreign.encode())
        await refused(CommitmentError, "no window", serving.attestation.prepare(foreign.encode(), proof))
        for broken in (canonical[:-1], canonical + b"\0", b"", b"\xff" * 40):
            await refused(EncodingError, None, serving.attestation.prepare(broken, good))

    play(scene, tmp_path / "p")


def test_every_field_of_a_request_is_checked(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice = Asker("alice", serving)
        first = await alice.ask("first")
        message = alice.message("second")
        prepared = await alice.prepare(message)
        other = await alice.prepare(alice.message("third"))
        globex = serving.provider.window_secrets(message.manifest).versions["globex"].committed.digest()
        cases: dict[str, tuple[type[AuditError], str]] = {
            "origin": (AttestationError, "a ledger or window different from"),
            "window": (AttestationError, "window"),
            "manifest": (CommitmentError, "no window"),
            "account": (AttestationError, "signature"),
            "seal_key": (AttestationError, "nothing can be sealed"),
            "ctr": (AttestationError, "does not follow"),
            "request_id": (AttestationError, "no Prepare"),
            "query_digest": (AttestationError, "a query or C_e different from"),
            "c_e": (AttestationError, "a query or C_e different"),
            "index_digest": (AttestationError, "index version"),
            "last_receipt": (AttestationError, "acknowledge"),
            "nonce": (AttestationError, "nonce was used before"),
        }
        values = {
            "origin": "example.org/other",
            "window": "w2",
            "manifest": b"m" * 32,
            "account": Asker("bob", serving).pseudonym,
            "seal_key": bytes(32),
            "ctr": 3,
            "request_id": b"x" * 16,
            "query_digest": b"q" * 32,
            "c_e": other.c_e,
            "index_digest": globex,
            "last_receipt": bytes(32),
            "nonce": first.record.signed.request.nonce,
        }
        for name, (kind, text) in cases.items():
            crooked = alice.request(message, prepared, **{name: values[name]})
            await refused(kind, text, retrieved(serving, crooked.encode()))
        good = alice.request(message, prepared)
        forged = SignedRequest(good.request, signature.sign(account_key("bob"), "request", good.request.encode()))
        await refused(AttestationError, "signature", retrieved(serving, forged.encode()))
        for broken in (good.encode()[:-1], good.encode() + b"\0", b""):
            await refused(EncodingError, None, retrieved(serving, broken))
        window = newest(serving)
        assert len(window.records) == 1  # nothing of all that was recorded
        assert opened(await retrieved(serving, good.encode())).record.seq == 1

    play(scene, tmp_path / "p")


def test_the_same_request_gets_the_same_bytes_and_another_one_nothing(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice = Asker("alice", serving)
        message = alice.message("first")
        signed = alice.request(message, await alice.prepare(message)).encode()
        results = await asyncio.gather(*(retrieved(serving, signed) for _ in range(5)))
        assert len(set(results)) == 1
        window = newest(serving)
        assert len(window.records) == 1
        again = alice.message("again")
        crooked = alice.request(again, await alice.prepare(again)).encode()  # the same ctr, signed twice
        older = r"signed once: the account's folder is an older copy, .* asked 1 time in this window: .* fetches what"
        await refused(AttestationError, older, retrieved(serving, crooked))
        # one request id, one record: a second signature under it would use C_e twice
        receipt = opened(results[0]).receipt.digest()
        prepared = await alice.prepare(message)
        twice = alice.request(message, prepared, ctr=2, last_receipt=receipt).encode()
        await refused(AttestationError, "no Prepare", retrieved(serving, twice))

    play(scene, tmp_path / "p")


def test_so_many_requests_of_an_account_are_worked_on_at_once_and_no_more(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice, bob = Asker("alice", serving), Asker("bob", serving)
        message = alice.message("first")
        signed = alice.request(message, await alice.prepare(message)).encode()
        await retrieved(serving, signed)
        calls = [retrieved(serving, signed) for _ in range(RETRIEVES_AT_ONCE + 1)]
        *others, last = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(last, BudgetError)
        assert f"{RETRIEVES_AT_ONCE} requests of this account are under way" in str(last)
        assert not any("are under way" in str(one) for one in others if isinstance(one, BaseException))
        assert not serving.attestation._retrieves
        await bob.ask("others go on")

    play(scene, tmp_path / "p")


def test_kept_secrets_are_of_one_record(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice, bob, state = Asker("alice", serving), Asker("bob", serving), serving.provider.state
        record, other = (await alice.ask("first")).record, (await bob.ask("second")).record
        assert secrets_of_record(state, record).t_commits == record.t_commits
        for crooked in (replace(record, c_y=other.c_y), replace(record, t_commits=other.t_commits)):
            with pytest.raises(AttestationError, match="belong to a different record"):
                secrets_of_record(state, crooked)
        with pytest.raises(AttestationError, match="is lost"):
            secrets_of_record(state, replace(record, signed=replace(other.signed, request=replace(
                other.signed.request, ctr=2))))  # fmt: skip
        request = record.signed.request
        waiting = serving.attestation._pending.find(request.manifest, request.account, request.request_id)
        assert waiting is None, "a Prepare whose request is recorded waits no more"

    play(scene, tmp_path / "p")


def test_openings_of_the_greatest_length_are_sent_and_no_longer_ones(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        answer, state = await Asker("alice", serving).ask("report about topic 3"), serving.provider.state
        secrets = serving.provider.window_secrets(newest(serving).digest)
        made = secrets, secrets.versions["acme"], secrets_of_record(state, answer.record)
        length = len(answer.openings.encode())
        assert Answers(state, length).openings(*made) == answer.openings
        with pytest.raises(AttestationError, match=f"an answer of {length} bytes cannot be sent, {length - 1} can"):
            Answers(state, length - 1).openings(*made)

    play(scene, tmp_path / "p")


def test_n_max_is_enforced(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice, bob = Asker("alice", serving), Asker("bob", serving)
        late = alice.message("late")
        prepared = await alice.prepare(late)
        for i in range(6):
            await alice.ask(f"query {i}")
        await refused(BudgetError, "n_max = 6", alice.prepare(alice.message("one more")))
        await refused(BudgetError, "n_max = 6", retrieved(serving, alice.request(late, prepared).encode()))
        await bob.ask("others go on")

    play(scene, tmp_path / "p")


def test_accounts_in_parallel_get_gapless_seqs(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        async def all_of(name: str) -> list[int]:
            asker = Asker(name, serving)
            return [(await asker.ask(f"{name} {i}")).record.seq for i in range(5)]

        seqs = await asyncio.gather(*(all_of(name) for name in ("alice", "bob", "carol")))
        assert sorted(itertools.chain(*seqs)) == list(range(15))

    play(scene, tmp_path / "p")


def test_a_request_that_cannot_be_proven_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are worked on in groups: what one of them meets is not the others'."""
    began, hold, groups = threading.Event(), threading.Event(), []

    async def scene(serving: Serving) -> None:
        alice, bob, carol = (Asker(name, serving) for name in ("alice", "bob", "carol"))
        together = serving.attestation._answer_secrets._together
        real, compute = answer_secrets.answer_query, together._work

        def answer(*arguments: Any) -> object:
            if arguments[5].embedding == crooked.embedding:
                raise UnprovableError("more than R slots could win")
            return real(*arguments)

        def work(jobs: list[object]) -> object:
            groups.append(len(jobs))
            began.set()
            hold.wait(30)
            return compute(jobs)  # type: ignore[arg-type]

        monkeypatch.setattr(answer_secrets, "answer_query", answer)
        monkeypatch.setattr(together, "_work", work)
        crooked = await bob.prepare(bob.message("the unlucky one"))
        first = asyncio.create_task(carol.ask("a first question"))
        await asyncio.to_thread(began.wait, 30)
        others = [
            asyncio.create_task(one.ask(text)) for one, text in ((alice, "a lucky one"), (bob, "the unlucky one"))
        ]
        while len(together._waiting) < 2:
            await asyncio.sleep(0.001)
        hold.set()
        lucky, unlucky = await asyncio.gather(*others, return_exceptions=True)
        assert groups == [1, 2]
        assert isinstance(unlucky, UnprovableError)
        assert isinstance(lucky, Answer)
        assert {(await first).record.seq, lucky.record.seq} == {0, 1}
        window = newest(serving)
        assert len(window.records) == 2  # nothing of the unlucky one
        assert serving.provider.state.row("SELECT COUNT(*) FROM queries") == (2,)

    play(scene, tmp_path / "p")


def test_a_client_that_goes_away_finds_its_answer_later(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice = Asker("alice", serving)
        message = alice.message("first")
        signed = alice.request(message, await alice.prepare(message)).encode()
        call = asyncio.create_task(retrieved(serving, signed))
        while not serving.attestation._running:
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await serving.attestation.drain()
        window = newest(serving)
        assert len(window.records) == 1
        assert opened(await retrieved(serving, signed)).record.seq == 0

    play(scene, tmp_path / "p")


@pytest.mark.parametrize("late", [9, 200])
def test_a_window_lasts_its_duration_from_its_opening_on(tmp_path: Path, late: int) -> None:
    """Two minutes that were counted from the minute of the commit lasted one, or none at all."""
    clock = Clock(NOW + 43.0)
    provider = open_provider(tmp_path / "p", clock)
    provider.commit(make_policy(duration=120), "w1")
    clock.now += late

    async def run() -> None:
        serving = Serving(provider, ServeOptions(False, 0.0, publish=0.0))
        await serving.start()
        window = await open_window(serving)
        opened_at, alice = clock.now, Asker("alice", serving)
        await alice.ask("first")
        clock.now = opened_at + 119
        await alice.ask("second")
        clock.now = opened_at + 181
        await refused(AttestationError, "ended at", alice.prepare(alice.message("third")))
        assert opened_at + 120 <= window.closes <= opened_at + 180
        await serving.stop()

    asyncio.run(run())
    provider.close()


def test_a_window_takes_queries_in_its_time_only(tmp_path: Path) -> None:
    clock = Clock()

    async def scene(serving: Serving) -> None:
        alice = Asker("alice", serving)
        message = alice.message("first")
        signed = alice.request(message, await alice.prepare(message)).encode()
        window = newest(serving)
        clock.now = window.closes + 60
        await refused(AttestationError, r"takes queries from .* on|ended at", retrieved(serving, signed))
        await refused(AttestationError, r"takes queries from .* on|ended at", alice.prepare(alice.message("second")))
        clock.now = NOW - 1
        await refused(AttestationError, r"takes queries from .* on|ended at", retrieved(serving, signed))
        clock.now = NOW + 61
        assert opened(await retrieved(serving, signed)).record.time == NOW + 60
        alice.ctr, alice.last_receipt = 1, opened(await retrieved(serving, signed)).receipt.digest()
        clock.now = NOW  # a clock set back never sets a record's time back
        assert (await alice.ask("second")).record.time == NOW + 60

    play(scene, tmp_path / "p", clock)


def test_closing_needs_the_provider_key_and_ends_everything(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice = Asker("alice", serving)
        message = alice.message("first")
        signed = alice.request(message, await alice.prepare(message)).encode()
        answer = await retrieved(serving, signed)
        digest, key = message.manifest, serving.provider.state.key
        for proof in (signature.sign(account_key("alice"), "close", digest), signature.sign(key, "manifest", digest)):
            await refused(AttestationError, "signature", serving.close_window(digest, proof))
        proof = signature.sign(key, "close", digest)
        index, window = await serving.close_window(digest, proof)
        assert window.close is not None
        assert window.close.records == 1
        assert (await serving.close_window(digest, proof))[0] == index
        await refused(AttestationError, "closed", alice.prepare(alice.message("second")))
        assert await retrieved(serving, signed) == answer  # what was answered stays answered

    play(scene, tmp_path / "p")


def test_scores_are_exact(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        window = newest(serving)
        version = serving.provider.window_secrets(window.digest).versions["acme"]
        e = [-127 if j % 2 else 127 for j in range(DIMENSION)]
        policy = window.manifest.policy
        expected = [
            policy.gain * (sum(a * b for a, b in zip(r, e, strict=True)) - policy.lo) for r in version.matrix.tolist()
        ]
        got = shifted_scores(policy, TINY, version, e)
        assert got.dtype == np.int64
        assert got.tolist() == expected

    play(scene, tmp_path / "p")


def test_the_pending_table_is_bounded_and_forgets() -> None:
    now = [0.0]
    table = PendingTable(lambda: now[0])

    def put(account: str, i: int) -> None:
        made = Pending(b"", b"", b"", 0, b"", b"", table.expires())
        table.add(b"m", account, i.to_bytes(16, "big"), made)

    for i in range(PENDING_PER_ACCOUNT + 3):
        put("a", i)
    found = [i for i in range(PENDING_PER_ACCOUNT + 3) if table.find(b"m", "a", i.to_bytes(16, "big"))]
    assert found == list(range(3, PENDING_PER_ACCOUNT + 3))
    now[0] = 601.0
    assert table.find(b"m", "a", (5).to_bytes(16, "big")) is None


def test_nothing_secret_is_printed(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        window = newest(serving)
        secrets = serving.provider.window_secrets(window.digest)
        shown = repr(secrets) + repr(secrets.versions["acme"])
        assert secrets.seed.hex() not in shown
        assert str(secrets.seed)[2:-1] not in shown
        assert str(secrets.versions["acme"].blinders[0]) not in shown
        assert ORIGIN not in shown

    play(scene, tmp_path / "p")


def test_embedder_of_the_tests_is_deterministic() -> None:
    a, b = (embed_with(TrigramEmbedder())(["some text"]) for _ in range(2))
    assert (a == b).all()
