# SPDX-License-Identifier: GPL-3.0-or-later
"""When a window takes a request: at its first and last second, and while the newest version is young enough."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.kernel import proofs
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.errors import AttestationError, BudgetError, PolicyError
from ragseal.kernel.inquiry import ProofsAsk
from ragseal.kernel.policy import Policy
from ragseal.prover.attestation.admission import Admission, check_version
from ragseal.prover.attestation.pending import Pending, PendingTable
from ragseal.prover.attestation.under_way import UnderWay
from ragseal.prover.base.limits import PREPARES_A_QUERY, PREPARES_SPARE, REPEATS
from ragseal.prover.serving.deliveries import ASKS_AT_ONCE
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Window
from tests.simulator.answered import answers_policy
from tests.simulator.provider import (
    AUDITOR_KEY,
    NOW,
    Asker,
    Clock,
    delivered,
    make_policy,
    newest,
    opened,
    retrieved,
    window_on,
)

EVERY = 600


class Scene:
    """A window that opened as soon as it could, and the admission to it."""

    def __init__(self, policy: Policy, versions: int = 0) -> None:
        signed: Any = SimpleNamespace(
            manifest=SimpleNamespace(
                policy=policy,
                window="w1",
                origin="log.example/x",
                index_of=lambda tenant: SimpleNamespace(digest=lambda: f"{tenant} 0".encode()),
            )
        )
        self.window = Window(signed, b"w" * 32, 0, beacon=1, opened_at=policy.opens)
        self.updates: list[Any] = [
            SimpleNamespace(
                time=policy.opens + number * EVERY,
                number=number + 1,
                index_digest=lambda tenant, number=number: f"{tenant} {number + 1}".encode(),
            )
            for number in range(versions)
        ]
        for number, update in enumerate(self.updates):
            self.window.updates.append((10 * number, update))
            self.window.numbers[update.index_digest("acme")] = update.number
        history = History("log.example/x", bytes(32), bytes(32))
        history.windows[self.window.digest] = self.window
        history._open = self.window
        self.history, self.clock, self.pending, self.under_way = history, Clock(), PendingTable(), UnderWay()
        self.admission = Admission(history, self.pending, self.clock, self.under_way)

    def at(self, now: float) -> str:
        """What is said of a request that comes now; nothing where it is taken."""
        self.clock.now = now
        try:
            self.admission.check_open(self.window)
        except AttestationError as error:
            return str(error)
        return ""


@pytest.mark.parametrize("policy", [make_policy(), answers_policy()], ids=["documents", "answers"])
def test_the_first_and_the_last_second_of_a_window(policy: Policy) -> None:
    scene, by = Scene(policy), policy.answered_by
    closes = scene.window.closes
    assert "takes queries from" in scene.at(policy.opens - 1)
    assert scene.at(policy.opens) == scene.at(closes - by) == ""
    for now in (closes - by + 1, closes) if by else ():
        assert "before an answer could leave" in scene.at(now)
    assert "ended at" in scene.at(closes + 1)


@pytest.mark.parametrize("by", [0, 30, 2 * COARSE_TIME])
def test_nothing_is_taken_that_would_be_recorded_over_too_old_a_version(by: int) -> None:
    """The time of the record counts, which stands in the log; it is known when the request comes."""
    policy = answers_policy(version_every=EVERY, answered_by=by) if by else make_policy(version_every=EVERY)
    scene = Scene(policy, versions=2)
    old = scene.updates[-1].time + 2 * EVERY  #: from then on the newest version is too old to answer from
    assert old % COARSE_TIME == 0
    first = min(old, old + COARSE_TIME - by)
    assert scene.at(first - 1) == ""
    assert "is being brought up to date" in scene.at(first)
    assert "is being brought up to date" in scene.at(old)


def test_before_its_first_version_a_live_window_takes_nothing() -> None:
    assert "is being brought up to date" in Scene(make_policy(version_every=EVERY)).at(NOW + 60)


def test_a_window_that_is_over_or_not_open_is_named_so() -> None:
    scene = Scene(make_policy())
    other = Scene(make_policy()).window
    other.digest = b"o" * 32
    with pytest.raises(AttestationError, match="is over: ask GetManifest"):
        scene.admission.check_open(other)
    scene.window.beacon = None
    assert "not open yet" in scene.at(NOW + 60)
    scene.window.close = SimpleNamespace(time=NOW)  # type: ignore[assignment]
    assert "is closed" in scene.at(NOW + 60)
    with pytest.raises(AttestationError, match="is closed: ask again in the next one"):
        scene.admission.check_still(scene.window, None, None)  # type: ignore[arg-type]
    scene.history._open = None
    assert "is closed" in scene.at(NOW + 60)


def test_only_the_two_newest_versions_of_one_s_own_index_are_taken() -> None:
    window = Scene(make_policy(version_every=EVERY), versions=3).window
    for named, said in [
        ("acme 3", ""), ("acme 2", ""), ("acme 1", "older than the two newest"), ("globex 3", "different from"),
    ]:  # fmt: skip
        if said:
            with pytest.raises(AttestationError, match=said):
                check_version(window, "acme", named.encode())
        else:
            check_version(window, "acme", named.encode())


def test_an_open_window_takes_requests_beside_one_that_is_prepared() -> None:
    scene = Scene(make_policy())
    following = Scene(make_policy()).window
    following.digest, following.beacon = b"f" * 32, None
    scene.history.windows[following.digest] = following
    assert scene.history.newest is following
    assert scene.at(NOW + 60) == ""


def test_a_window_that_is_being_closed_takes_nothing() -> None:
    scene = Scene(make_policy())

    async def close() -> str:
        async with scene.under_way.ended(scene.window):
            return scene.at(NOW + 60)

    assert "is being closed" in asyncio.run(close())
    assert scene.at(NOW + 60) == ""


ACCOUNT: Any = SimpleNamespace(name="alice", tenant="acme")
MOST = make_policy().n_max


def request(**changes: Any) -> Any:
    """The first request of an account, whose Prepare waits; ``changes`` are fields of it."""
    fields = {
        "origin": "log.example/x", "window": "w1", "account": "a" * 32, "ctr": 1, "request_id": b"r" * 16,
        "nonce": b"n" * 32, "c_e": b"c" * 32, "query_digest": b"q" * 32, "index_digest": b"acme 0",
        "checked": True,
    }  # fmt: skip
    return SimpleNamespace(request=SimpleNamespace(**{**fields, **changes}))


def prepared(answered: int = 0) -> Scene:
    """A scene in which the account has asked so often, and prepared one query more."""
    scene = Scene(make_policy())
    scene.clock.now = NOW + 60
    scene.window.counters["a" * 32] = answered
    scene.window.request_ids.add(("a" * 32, b"used".ljust(16)))
    scene.window.nonces.add(("a" * 32, b"used".ljust(32)))
    for name in (b"r" * 16, b"used".ljust(16)):
        made = Pending(b"", b"q" * 32, b"", 1, b"c" * 32, b"", scene.pending.expires())
        scene.pending.add(scene.window.digest, "a" * 32, name, made)
    return scene


def test_the_next_request_of_an_account_is_due_and_an_old_one_is_not() -> None:
    scene = prepared(answered=2)
    due = scene.admission.due(scene.window, ACCOUNT, request(ctr=3))
    assert due is not None
    assert due is scene.pending.find(scene.window.digest, "a" * 32, b"r" * 16)
    for ctr in (0, 1, 2):
        assert scene.admission.due(scene.window, ACCOUNT, request(ctr=ctr)) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"origin": "log.example/y"}, "names a ledger or window different from"),
        ({"window": "w2"}, "names a ledger or window different from"),
        ({"ctr": 2}, "does not follow 0"),
        ({"request_id": b"o" * 16}, "no Prepare waits"),
        ({"request_id": b"used".ljust(16)}, "no Prepare waits"),
        ({"nonce": b"used".ljust(32)}, "nonce was used before"),
        ({"c_e": b"o" * 32}, "a query or C_e different from its Prepare's"),
        ({"query_digest": b"o" * 32}, "a query or C_e different from its Prepare's"),
        ({"index_digest": b"globex 0"}, "an index version different from its Prepare's"),
    ],
)
def test_a_request_that_is_not_its_prepare_s_is_refused(changes: dict[str, Any], said: str) -> None:
    scene = prepared()
    assert scene.admission.due(scene.window, ACCOUNT, request()) is not None
    with pytest.raises(AttestationError, match=said):
        scene.admission.due(scene.window, ACCOUNT, request(**changes))


def test_an_account_asks_n_max_queries_and_no_more() -> None:
    scene = prepared(answered=MOST - 1)
    assert scene.admission.due(scene.window, ACCOUNT, request(ctr=MOST)) is not None
    scene = prepared(answered=MOST)
    with pytest.raises(BudgetError, match=f"has asked its n_max = {MOST} queries"):
        scene.admission.due(scene.window, ACCOUNT, request(ctr=MOST + 1))


def test_what_came_since_a_request_was_due_is_looked_at_again() -> None:
    scene = prepared()
    scene.admission.check_still(scene.window, ACCOUNT, request())
    with pytest.raises(AttestationError, match="an index version different from"):
        scene.admission.check_still(scene.window, ACCOUNT, request(index_digest=b"acme 1"))
    scene.clock.now = scene.window.closes + 1
    with pytest.raises(AttestationError, match="ended at"):
        scene.admission.check_still(scene.window, ACCOUNT, request())


# Work that n_max does not count: Prepares without Retrieve, old answers asked for again, callers that are gone.


@pytest.mark.slow
def test_prepares_without_a_retrieve_end(tmp_path: Path) -> None:
    async def run() -> None:
        async with window_on(tmp_path, n_max=1) as serving:
            alice, bob = Asker("alice", serving), Asker("bob", serving)
            last = alice.message("the last")
            for number in range(PREPARES_A_QUERY + PREPARES_SPARE):
                last = alice.message(f"question {number}", request_id=hashlib.sha256(bytes([number])).digest()[:16])
                await alice.prepare(last)
            with pytest.raises(BudgetError, match="finish those that are pending"):
                await alice.prepare(alice.message("one more"))
            await bob.ask("somebody else")
            signed = alice.request(last, await alice.prepare(last))  # a Prepare that is there costs nothing more
            assert opened(await retrieved(serving, signed.encode())).record.seq == 1

    asyncio.run(run())


@pytest.mark.slow
def test_old_answers_are_not_asked_for_without_end(tmp_path: Path) -> None:
    async def run() -> None:
        async with window_on(tmp_path) as serving:
            alice = Asker("alice", serving)
            message = alice.message("topic 5")
            signed = alice.request(message, await alice.prepare(message)).encode()
            first = await retrieved(serving, signed)

            async def again_and_again() -> None:
                for _ in range(20 * REPEATS):
                    assert await retrieved(serving, signed) == first

            with pytest.raises(BudgetError, match="too often"):
                await again_and_again()
            await Asker("bob", serving).ask("somebody else")

    asyncio.run(run())


@pytest.mark.slow
def test_work_whose_caller_has_gone_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An auditor that hangs up is not proven for, and leaves the place to its next ask."""

    async def run() -> None:
        async with window_on(tmp_path) as serving:
            window = newest(serving)
            alice = Asker("alice", serving)
            for number in range(4):
                await alice.ask(f"question {number}")
            begun, proven, prove = asyncio.Event(), [], serving.proofs.prove
            loop = asyncio.get_running_loop()

            def slow(manifest: bytes, seq: int) -> Any:
                proven.append(seq)
                loop.call_soon_threadsafe(begun.set)
                return prove(manifest, seq)

            monkeypatch.setattr(serving.proofs, "prove", slow)
            ask = ProofsAsk(window.digest, NOW, bytes(16), (0, 1, 2, 3))
            call = asyncio.create_task(serving.deliveries.answer(ask, ask.sign(AUDITOR_KEY)))
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert sum(serving.deliveries._waiting.values()) == 1, "it counts until its work ends"
            await delivered(serving, ProofsAsk(window.digest, NOW, b"2" * 16, (3,)))  # comes after what was left of it
            assert proven in ([0, 3], [0, 1, 3]), "the dropped ask went on being proven"
            assert not serving.deliveries._waiting

    asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize("at", ["case", "c_w", "hidden"])
def test_openings_whose_caller_has_gone_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Records that are proven already cost their hints again, for nobody; the next ask waited behind that."""

    async def run() -> None:
        async with window_on(tmp_path) as serving:
            window = newest(serving)
            alice = Asker("alice", serving)
            for number in range(4):
                await alice.ask(f"question {number}")
            await delivered(serving, ProofsAsk(window.digest, NOW, bytes(16), (0, 1, 2, 3)))
            serving.proofs._delivered.clear()
            statements = serving.proofs._statements
            begun, gone, done, real = asyncio.Event(), threading.Event(), [], getattr(statements, at)
            loop = asyncio.get_running_loop()

            def watched(window: Any, *rest: Any) -> Any:
                done.append(rest[-1])
                loop.call_soon_threadsafe(begun.set)
                assert gone.wait(20)
                return real(window, *rest)

            monkeypatch.setattr(statements, at, watched)
            ask = ProofsAsk(window.digest, NOW, b"1" * 16, (0, 1, 2, 3))
            call = asyncio.create_task(serving.deliveries.answer(ask, ask.sign(AUDITOR_KEY)))
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            gone.set()
            await delivered(serving, ProofsAsk(window.digest, NOW, b"2" * 16, (3,)))  # comes after what was left of it
            assert len(done) == 2, "the dropped ask was gone through to its end"

    asyncio.run(run())


@pytest.mark.slow
def test_openings_take_turns_with_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with window_on(tmp_path) as serving:
            window = newest(serving)
            alice = Asker("alice", serving)
            for number in range(3):
                await alice.ask(f"question {number}")
            making, held = serving.proofs, []
            engine, verify = making._statements._engine, proofs.verify_link
            real = type(engine).hidden

            def watched(*arguments: Any) -> Any:
                held.append(making._turns._taken)
                return real(*arguments)

            monkeypatch.setattr(type(engine), "hidden", watched)
            monkeypatch.setattr(
                proofs, "verify_link", lambda *rest: (held.append(making._turns._taken), verify(*rest))[1]
            )
            await delivered(serving, ProofsAsk(window.digest, NOW, bytes(16), (0, 1, 2)))
            assert held == [True] * 7  # three proofs, three records opened, one link
            assert not making._turns._taken

    asyncio.run(run())


@pytest.mark.slow
def test_one_auditor_has_so_many_asks_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with window_on(tmp_path) as serving:
            window = newest(serving)
            await Asker("alice", serving).ask("topic 5")
            asks = [ProofsAsk(window.digest, NOW, bytes([n]) * 16, (0,)) for n in range(ASKS_AT_ONCE + 1)]
            calls = [asyncio.create_task(serving.deliveries.answer(ask, ask.sign(AUDITOR_KEY))) for ask in asks]
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(one, bytes) for one in done) == ASKS_AT_ONCE
            assert sum(isinstance(one, BudgetError) for one in done) == 1
            with pytest.raises(AttestationError, match="only an auditor of this window"):
                await serving.deliveries.answer(asks[0], bytes(64))

    asyncio.run(run())


def test_a_window_of_checked_embeddings_takes_no_other_query(tmp_path: Path) -> None:
    """Nothing is counted: an account that cannot check, or will not, does not make an honest window fail."""

    async def scene(serving: Serving) -> None:
        alice, window = Asker("alice", serving), newest(serving)
        with pytest.raises(AttestationError, match="takes only queries whose account has computed the embedding"):
            await alice.prepare(alice.message("json", embedding=b""))
        message = alice.message("json")
        prepared = await alice.prepare(message)
        unsigned = alice.request(message, prepared, checked=False).encode()
        with pytest.raises(AttestationError, match="takes only queries whose account has computed the embedding"):
            await retrieved(serving, unsigned)
        assert (window.records, window.counters) == ([], {})
        signed = alice.request(message, prepared).encode()
        assert opened(await retrieved(serving, signed)).record.signed.request.checked

    async def run() -> None:
        async with window_on(tmp_path, embeddings="checked") as serving:
            await scene(serving)

    asyncio.run(run())


@pytest.mark.parametrize("wrong", ["all", True, 1])
def test_what_a_policy_may_ask_about_embeddings(wrong: object) -> None:
    assert make_policy().checked is make_policy(embeddings="reported").checked is False
    with pytest.raises(PolicyError, match='embeddings = "checked" answers only accounts'):
        make_policy(embeddings=wrong)
