# SPDX-License-Identifier: GPL-3.0-or-later
"""An account whose folder is an older copy, or that has two: nothing that was paid for is lost.  SPEC B.4.11."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.client import Client
from ragseal.client.__main__ import main
from ragseal.client.link import PreparedReply, Retrieved
from ragseal.client.receipts import kept
from ragseal.client.remote import ProviderOverGrpc
from ragseal.client.result import Resumed
from ragseal.client.window import WindowState, windows_of
from ragseal.kernel.attestation import AnswerAsk, SignedRequest
from ragseal.kernel.encoding import peek_tag
from ragseal.kernel.errors import BudgetError, TransportError
from ragseal.prover.base.limits import REPEATS
from ragseal.prover.storage import retirement
from ragseal.runtime.tls import BY_DEFAULT
from ragseal.v1 import provider_pb2
from tests.simulator import provider as scene
from tests.simulator.answered import AnsweringLive
from tests.simulator.clients import client_of
from tests.simulator.live import Live, live
from tests.simulator.ticking import ticking

pytestmark = pytest.mark.slow

QUESTIONS = ("report 1 of acme", "report 2 of acme", "report 3 of acme")


class Spy(ProviderOverGrpc):
    """A provider over gRPC that tells what was sent."""

    def __init__(self, one: Live) -> None:
        super().__init__(one.address, BY_DEFAULT, 20.0)
        self.sent: list[bytes] = []
        self.before_signing: Callable[[], object] = lambda: None
        self.away = False

    def prepare(self, canonical: bytes, signature: bytes) -> PreparedReply:
        reply = super().prepare(canonical, signature)
        self.before_signing()
        return reply

    def retrieve(self, canonical: bytes, *rest: Any) -> Retrieved:
        self.sent.append(canonical)
        if self.away and peek_tag(canonical) == SignedRequest.TAG:
            raise TransportError("nobody answers")
        return super().retrieve(canonical, *rest)

    @property
    def signed(self) -> list[int]:
        """Numbers of the requests that came."""
        found = [SignedRequest.decode(one) for one in self.sent if peek_tag(one) == SignedRequest.TAG]
        return [one.request.ctr for one in found]

    @property
    def asked(self) -> list[int]:
        """Numbers of the answers that were asked for."""
        return [AnswerAsk.decode(one).ctr for one in self.sent if peek_tag(one) == AnswerAsk.TAG]


class Copies:
    """The folder of alice, and copies of it."""

    def __init__(self, one: Live) -> None:
        self.live, self.folder = one, one.account()

    def copied(self, name: str) -> Path:
        return Path(shutil.copytree(self.folder, self.live.folder / name))

    def client(self, folder: Path | None = None, link: Spy | None = None) -> Client:
        one = self.live
        return client_of(
            one.address if link is None else link, folder or self.folder, one.log_key, scene.TrigramEmbedder(),
            **({} if link is None else {"ledger": one.address}), timeout=20.0, clock=one.clock,
        )  # fmt: skip

    def ask(self, *questions: str, folder: Path | None = None) -> list[Any]:
        with self.client(folder) as client:
            return [client.ask(one) for one in questions]


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Copies]:
    with live(tmp_path) as one:
        yield Copies(one)


def answers(folder: Path) -> list[bytes]:
    return [one.answer.encode() for one in kept(folder)]


def of(folder: Path) -> WindowState:
    (found,) = windows_of(folder)
    return found


@pytest.mark.parametrize("age", [0, 1, 3])
def test_a_folder_of_any_age_has_all_answers_and_asks_on(copies: Copies, age: int) -> None:
    """Age 0 has its key and nothing else.  The next request acknowledges a receipt that was fetched."""
    copies.ask(*QUESTIONS[:age])
    older = copies.copied("older")
    copies.ask(*QUESTIONS[age:])
    with copies.client(older) as client:
        result = client.ask("report 4 of acme")
        assert result.record.signed.request.ctr == 4
        assert [one.record.signed.request.ctr for one in client.fetched] == list(range(age + 1, 4))
        assert client.ask("report 5 of acme").record.signed.request.ctr == 5
    assert answers(older)[:3] == answers(copies.folder)
    questions = [one.question for one in kept(older)]
    assert questions == [*QUESTIONS[:age], *[None] * (3 - age), "report 4 of acme", "report 5 of acme"]
    window = of(older)
    assert (window.answered, window.pending(), window.owes) == (5, None, False)
    assert copies.ask("report 6 of acme")[0].record.signed.request.ctr == 6  # the first folder is behind now
    assert answers(older) == answers(copies.folder)[:5]


def test_nothing_is_signed_under_a_number_that_is_used(copies: Copies) -> None:
    older = copies.copied("older")
    copies.ask(*QUESTIONS)
    spy = Spy(copies.live)
    with copies.client(older, spy) as client:
        client.ask("report 4 of acme")
    assert (spy.signed, spy.asked) == ([4], [1, 2, 3])


def test_a_spent_budget_gives_what_it_paid_for(copies: Copies) -> None:
    older = copies.copied("older")
    copies.ask(*(f"report {number} of acme" for number in range(6)))
    with copies.client(older) as client, pytest.raises(BudgetError, match="n_max = 6"):
        client.ask("one more")
    assert answers(older) == answers(copies.folder)


def test_two_live_copies_get_one_number_each(copies: Copies) -> None:
    """The second one asks between the first one's Prepare and its signature: nobody can tell it then."""
    second, spy = copies.copied("second"), Spy(copies.live)
    turns = iter([lambda: copies.ask("report 1 of acme")])
    spy.before_signing = lambda: next(turns, lambda: None)()
    with copies.client(second, spy) as client:
        result = client.ask("report 2 of acme")
        (found,) = client.fetched
    assert spy.signed == [1, 1, 2]  # the same request twice: its Prepare was asked for again
    assert len({one for one in spy.sent if peek_tag(one) == SignedRequest.TAG}) == 2
    assert (result.record.signed.request.ctr, found.record.signed.request.ctr) == (2, 1)
    window = of(second)
    assert window.pending() is None
    assert (window.folder / "00000001.superseded").exists()
    records = copies.live.call(copies.live.server.serving.records(copies.live.window.digest, 0, 10))
    assert len(records) == 2


def pending_as_two(copies: Copies, name: str) -> Path:
    """A copy that has signed request 2, which never came; the first folder asks twice meanwhile."""
    copies.ask(QUESTIONS[0])
    older, spy = copies.copied(name), Spy(copies.live)
    spy.away = True
    with copies.client(older, spy) as client, pytest.raises(TransportError):
        client.ask("report 8 of acme")
    copies.ask(*QUESTIONS[1:])
    return older


def test_a_pending_request_whose_number_is_gone_is_put_away(copies: Copies) -> None:
    older = pending_as_two(copies, "older")
    with copies.client(older) as client:
        assert client.ask("report 8 of acme").record.signed.request.ctr == 4
    assert answers(older)[:3] == answers(copies.folder)
    assert (of(older).folder / "00000002.superseded").exists()


def test_resume_tells_which_question_got_no_answer(copies: Copies) -> None:
    older = pending_as_two(copies, "older")
    with copies.client(older) as client:
        found = client.resume()
        assert [one.record.signed.request.ctr for one in found.results] == [2, 3]
        (owed,) = found.owed
        assert (owed.ctr, owed.given_up) == (2, False)
        assert "had gone to another request of this account" in str(owed.reason)
        assert client.resume().owed == ()


def test_a_closed_window_gives_what_was_paid_for_also_to_a_folder_that_never_knew_it(copies: Copies) -> None:
    """Once it is over nobody is asked again, but for on demand."""
    empty = copies.copied("empty")
    copies.ask(QUESTIONS[0])
    older = copies.copied("older")
    copies.ask(*QUESTIONS[1:])
    copies.live.end_window()
    copies.live.clock.now = of(older).closes + 60
    spy = Spy(copies.live)
    with copies.client(older, spy) as client:
        assert [one.record.signed.request.ctr for one in client.resume().results] == [2, 3]
        asked = len(spy.asked)
        assert client.resume().results == ()
        assert len(spy.asked) == asked
        client.resume(again=True)
        assert len(spy.asked) == asked + 1
    with copies.client(empty) as client:
        assert client.resume().results == ()
        assert len(client.resume(window="w1").results) == 3
    assert answers(older) == answers(empty) == answers(copies.folder)


def test_an_answer_that_the_provider_has_purged_is_given_up_and_told(copies: Copies) -> None:
    """What was there in time stays; a folder that lacks nothing of a retired window is told nothing."""
    copies.ask(QUESTIONS[0])
    older = copies.copied("older")
    copies.ask(*QUESTIONS[1:])
    copies.live.end_window()
    copies.live.clock.now = of(older).closes + 60
    retirement.begin(copies.live.provider.state, copies.live.window.digest, int(copies.live.clock.now))
    with copies.client(older) as client:
        found = client.resume()
        (owed,) = found.owed
        assert (owed.ctr, owed.given_up) == (2, True)
        assert "is retired" in str(owed.reason)
        assert client.resume().given_up == 1
    assert len(answers(older)) == 1
    with copies.client() as client:
        assert client.resume().owed == ()


def test_what_came_before_a_failure_is_told_and_kept(copies: Copies) -> None:
    older = copies.copied("older")
    copies.ask(*QUESTIONS)

    class Ending(Spy):
        def retrieve(self, canonical: bytes, *rest: Any) -> Retrieved:
            if len(self.asked) == 2:
                raise TransportError("the line is cut")
            return super().retrieve(canonical, *rest)

    with copies.client(older, Ending(copies.live)) as client:
        found = client.resume(window="w1")
        assert [one.record.signed.request.ctr for one in found.results] == [1, 2]
        assert [one.window for one in found.owed] == ["w1"]
    with copies.client(older) as client:
        assert [one.record.signed.request.ctr for one in client.resume().results] == [3]


def test_more_answers_than_may_be_asked_for_at_once_come_one_after_the_other(tmp_path: Path) -> None:
    with live(tmp_path, n_max=REPEATS + 6) as one:
        copies = Copies(one)
        older = copies.copied("older")
        copies.ask(*(f"report {number} of acme" for number in range(REPEATS + 4)))
        copies.ask("one more", folder=older)
        assert answers(older)[:-1] == answers(copies.folder)


def test_versions_of_the_index_are_looked_up_for_what_is_fetched(tmp_path: Path) -> None:
    """Each record is checked against the version that it names."""
    with ticking(tmp_path) as one:
        one.tick()
        copies = Copies(one)
        older = copies.copied("older")
        for number in range(3):
            copies.ask(QUESTIONS[number])
            one.put((f"new {number}", f"report {number} of acme, once more"))
            one.tick()
        with copies.client(older) as client:
            assert client.ask("report 4 of acme").record.signed.request.ctr == 4
        assert answers(older)[:3] == answers(copies.folder)
        assert len({one.answer.record.signed.request.index_digest for one in kept(older)}) == 4


def test_lists_of_a_window_with_coins_come_as_they_were(tmp_path: Path) -> None:
    with live(tmp_path, coins=True, gain=60) as one:
        copies = Copies(one)
        older = copies.copied("older")
        copies.ask(*QUESTIONS)
        copies.ask("report 4 of acme", folder=older)
        assert answers(older)[:3] == answers(copies.folder)


def test_answers_in_words_come_as_they_were(tmp_path: Path) -> None:
    """The words are made once: what is fetched is what was kept of them."""
    one = AnsweringLive(tmp_path)
    try:
        copies = Copies(one)
        older = copies.copied("older")
        (first,) = copies.ask("what is report 5 about?")
        asked = len(one.generator.asked)
        with copies.client(older) as client:
            (found,) = client.resume(window="w1").results
            assert (found.answer, found.keywords) == (first.answer, first.keywords)
            assert len(one.generator.asked) == asked
            assert client.ask("what is report 6 about?").record.signed.request.ctr == 2
        assert answers(older)[:1] == answers(copies.folder)
    finally:
        one.end()


def test_the_size_of_a_reply_tells_nobody_how_often_was_asked() -> None:
    sizes = {
        provider_pb2.PrepareResponse(canonical=b"c", answered=count).ByteSize() for count in (0, 1, 127, 128, 5000)
    }
    assert len(sizes) == 1


def run(*arguments: object, status: int = 0) -> Any:
    done = CliRunner().invoke(main, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done


def test_the_command_says_what_it_fetched(copies: Copies) -> None:
    older, other = copies.copied("older"), copies.copied("other")
    copies.ask(*QUESTIONS)
    one = copies.live
    where = "--provider", one.address, "--log-key", one.log_key, "--embedder", "none"
    done = run("ask", "report 4 of acme", "--state", older, *where, "--json")
    told = json.loads(done.stdout)
    assert told["ctr"] == 4
    assert told["fetched"] == [{"window": "w1", "ctr": number} for number in (1, 2, 3)]
    assert "3 answers that this folder lacked came: queries 1 to 3 of window w1." in done.stderr
    assert "`ragseal-client receipts show w1 1` prints the first" in done.stderr
    assert "window w1, query 1" in run("receipts", "show", "w1", 1, "--state", older).stdout
    assert run("receipts", "list", "--state", older).stdout.count("receipt ") >= 4
    lines = run("resume", "--window", "w1", "--state", other, *where, "--json").stdout.splitlines()
    assert [json.loads(line)["ctr"] for line in lines] == [1, 2, 3, 4]


def test_a_provider_of_an_older_release_owes_nothing_by_it(bench: Any) -> None:
    """It takes no such ask and counts nothing; a full folder goes on with it."""

    def older(call: Callable[..., Any]) -> Callable[..., Any]:
        def retrieve(canonical: bytes, *rest: Any) -> Any:
            SignedRequest.decode(canonical)
            return call(canonical, *rest)

        return retrieve

    bench.provider.retrieve = older(bench.provider.retrieve)
    prepare = bench.provider.prepare
    bench.provider.prepare = lambda *sent: replace(prepare(*sent), answered=None)
    with bench.client() as client:
        for number in (1, 2):
            assert client.ask(f"json {number}").record.signed.request.ctr == number
            assert client.resume() == Resumed((), (), 0)
