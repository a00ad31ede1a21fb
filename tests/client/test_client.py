# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking, re-ranking, remembering, and going on after crashes and outages.  SPEC B."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from ragseal.client.account import AccountState
from ragseal.client.link import Retrieved
from ragseal.client.result import Resumed
from ragseal.client.window import WindowState
from ragseal.kernel.attestation import NO_RECEIPT, Answer, Prepared, Receipt, SealedAnswer, SignedRequest
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
    BudgetError,
    CommitmentError,
    ConfigurationError,
    EncodingError,
    LedgerError,
    TransportError,
)
from tests.client.conftest import TEXTS

NOTHING = Resumed((), (), given_up=0)


def test_a_checked_answer(bench: Any) -> None:
    result = bench.client().ask("json")
    assert result.checked
    assert len(result.returned) == 3
    assert len(result.texts) == len(result.slots) == len(result.ranked)
    assert set(result.slots) <= set(result.returned)
    scores = [r.score for r in result.ranked]
    assert scores == sorted(scores, reverse=True)
    assert {r.text for r in result.ranked} == set(result.texts)
    assert result.best == result.ranked[0]
    for one in (*result.opened, *result.ranked):
        assert one.id == f"d{one.slot}"
        assert one.text == TEXTS[one.slot]
        assert one.metadata == {"draft": one.slot % 2 == 0, "line": one.slot, "source": f"notes-{one.slot % 3}"}
    assert [one.slot for one in result.opened] == sorted(one.slot for one in result.ranked)
    said = f"{len(result.slots)} of 3 returned slots came with a text, the others by the noise alone"
    assert result.held == said + ("" if result.slots else ": see `ragseal-provider plan`")
    assert sorted((*result.slots, *result.unread)) == list(result.returned)
    assert not set(result.slots) & set(result.unread)
    assert result.record.signed.request.last_receipt == NO_RECEIPT
    assert bench.evidence() == []


def test_counters_and_acknowledgements_follow_each_other_across_restarts(bench: Any) -> None:
    first = bench.client().ask("json")
    second = bench.client().ask("csv")  # another process
    request = second.record.signed.request
    assert (first.record.signed.request.ctr, request.ctr) == (1, 2)
    assert request.last_receipt == first.receipt.digest()
    assert request.nonce != first.record.signed.request.nonce


def test_a_new_window_starts_at_one(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.open("w2")
    result = client.ask("json")  # the provider refuses the old manifest, the client looks again
    assert result.record.signed.request.window == "w2"
    assert result.record.signed.request.ctr == 1
    assert result.record.signed.request.last_receipt == NO_RECEIPT


def test_without_an_embedder_the_request_says_unchecked(bench: Any) -> None:
    result = bench.client(embedder=None).ask("json")
    assert not result.checked
    assert not result.record.signed.request.checked
    assert result.ranked is None
    assert result.best is None


def test_an_answer_of_empty_slots_is_survived_and_explained(empty: Any) -> None:
    """README's ten lines took ranked[0], which such an answer has not."""
    result = empty.client().ask("json")
    assert (result.ranked, result.texts, result.best) == ((), (), None)
    assert (
        result.held
        == "0 of 3 returned slots came with a text, the others by the noise alone: see `ragseal-provider plan`"
    )


@pytest.mark.parametrize("scene", ["bench", "empty"])
def test_readmes_ten_lines_run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scene: str
) -> None:
    found = request.getfixturevalue(scene)
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    monkeypatch.setattr("ragseal.client.client.Client", lambda *_, **__: found.client())
    exec(block, {"LOG_KEY": "key"})
    shown = capsys.readouterr().out
    assert ("by the noise alone: see" in shown) == (scene == "empty")


@pytest.mark.parametrize("call", ["retrieve", "consistency"])
def test_an_outage_repeats_the_same_bytes(bench: Any, outage: Any, call: str) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.gives_paths = False  # or nobody would ask the ledger for one
    sent: list[bytes] = []
    retrieve = bench.provider.retrieve

    def spy(canonical: bytes, signed: bytes, known_size: int) -> Retrieved:
        sent.append(canonical)
        answer: Retrieved = retrieve(canonical, signed, known_size)
        return answer

    bench.provider.retrieve = spy
    bench.provider.on_call = outage(call)
    with pytest.raises(TransportError):
        client.ask("csv")
    with pytest.raises(TransportError):
        client.ask("xml")  # nothing new is signed while one request is pending
    bench.provider.on_call = lambda _: None
    result = bench.client().ask("csv")
    assert len(set(sent)) == 1
    assert result.record.signed.encode() == sent[0]
    assert result.record.signed.request.ctr == 2
    assert bench.evidence() == []
    bench.client().ask("xml")
    assert [SignedRequest.decode(s).request.ctr for s in sent][-1] == 3


def test_a_pending_request_is_completed_before_another_question(bench: Any, outage: Any) -> None:
    client = bench.client()
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")
    bench.provider.on_call = lambda _: None
    result = bench.client().ask("csv")
    assert result.record.signed.request.ctr == 2
    memory = client.state.windows()[0]
    assert memory.answered == 2
    assert memory.exchange(1).prepare.query == "json"


def test_resume_completes_what_is_pending_also_in_an_older_window(bench: Any, outage: Any) -> None:
    client = bench.client()
    assert client.resume() == NOTHING
    for window in ("w2", "w3"):
        bench.provider.on_call = outage("retrieve")
        with pytest.raises(TransportError):
            client.ask("json")
        bench.provider.on_call = lambda _: None
        (result,) = client.resume().results
        assert result.record.signed.request.ctr == 1
        assert client.resume() == NOTHING
        bench.provider.open(window)
        client = bench.client()
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")
    bench.provider.on_call = lambda _: None
    kept = {name: getattr(bench.provider, name) for name in ("manifest", "prepared", "accounts")}
    bench.provider.open("w4")
    result = client.ask("json")  # refused in w3: nothing of it stands in the way of the new window
    assert (result.record.signed.request.window, result.record.signed.request.ctr) == ("w4", 1)
    vars(bench.provider).update(kept)  # the answer that w3 still owes
    (result,) = client.resume().results
    assert (result.record.signed.request.window, result.record.signed.request.ctr) == ("w3", 1)


def two_windows_owe(bench: Any, outage: Any) -> Any:
    """w1's request never came to the provider; w2's is recorded and charged, its answer got lost; w3 is open."""
    client = bench.client()
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")
    bench.provider.on_call = lambda _: None
    bench.provider.open("w2", policy=later(bench, 1))
    retrieve = bench.provider.retrieve

    def lose(*arguments: Any) -> Retrieved:
        retrieve(*arguments)
        raise TransportError("the line is cut")

    bench.provider.retrieve = lose
    client = bench.client()
    with pytest.raises(TransportError, match="is cut"):
        client.ask("csv")
    bench.provider.retrieve = retrieve
    assert bench.provider.records == 1
    owing = {name: getattr(bench.provider, name) for name in ("manifest", "prepared", "accounts", "answers")}
    bench.provider.open("w3", policy=later(bench, 2))
    vars(bench.provider).update(owing)  # what it serves of w2
    return bench.client()


def later(bench: Any, number: int) -> Any:
    policy = bench.provider.manifest.policy
    return dataclasses.replace(policy, opens=policy.opens + 100 * number, closes=policy.closes + 100 * number)


def test_a_refused_request_stops_no_later_window_s(bench: Any, outage: Any) -> None:
    """The oldest refusal ended resume(), each time: a charged answer of a later window was never fetched."""
    client = two_windows_owe(bench, outage)
    bench.provider.calls.clear()
    assert client.owing() == ["w1", "w2"]
    assert bench.provider.calls == []
    found = client.resume()
    assert client.owing() == []
    assert [one.record.signed.request.window for one in found.results] == ["w2"]
    (owed,) = found.owed
    assert (owed.window, owed.ctr, owed.given_up) == ("w1", 1, True)
    assert isinstance(owed.reason, AttestationError)
    first, second = client.state.windows()
    assert (second.answered, second.pending()) == (1, None)
    kept = first.pending()
    assert kept is not None
    assert kept.prepare.query == "json"
    assert owed.folder == first.folder

    bench.provider.calls.clear()
    client = bench.client()
    assert client.resume() == Resumed((), (), given_up=1)
    assert bench.provider.calls == [], "a request that was given up is asked for on demand only"
    assert client.resume(again=True).owed[0].window == "w1"
    assert "retrieve" in bench.provider.calls
    assert first.pending() == kept, "what was signed is never thrown away"


def test_an_answer_that_was_given_up_may_come_after_all(bench: Any, outage: Any) -> None:
    client = bench.client()
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")

    def deny(call: str) -> None:
        raise AttestationError("no such request")

    bench.provider.on_call = deny
    bench.now = float(bench.provider.manifest.policy.closes)
    assert client.resume().owed[0].given_up
    bench.provider.on_call = lambda _: None
    (result,) = client.resume(again=True).results
    assert result.record.signed.request.ctr == 1
    assert client.resume(again=True) == NOTHING
    assert client.state.windows()[0].given_up is None


def test_only_a_denial_after_the_end_is_for_good(bench: Any, outage: Any) -> None:
    client = bench.client()
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")
    over = float(bench.provider.manifest.policy.closes)
    for now, error in (
        (over - 1, AttestationError("this window takes no queries")),  # it may yet
        (over, BudgetError("too many old windows at once: try again")),  # of an answer that is owed
        (over, TransportError("away")),
    ):

        def fail(call: str, error: AuditError = error) -> None:
            raise error

        bench.now, bench.provider.on_call = now, fail
        (owed,) = client.resume().owed
        assert (owed.reason, owed.given_up) == (error, False)
    bench.provider.on_call = lambda _: None
    assert len(client.resume().results) == 1


def test_a_full_disk_hides_no_refusal_and_gives_nothing_up(
    bench: Any, outage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk's error was told as the provider's answer, and the request as given up, which it was not."""
    client = bench.client()
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")
    denial = AttestationError("no such request")

    def deny(call: str) -> None:
        raise denial

    def full(memory: WindowState, reason: str) -> None:
        raise ConfigurationError("cannot write: No space left on device")

    bench.provider.on_call = deny
    bench.now = float(bench.provider.manifest.policy.closes)
    with monkeypatch.context() as patch:
        patch.setattr(WindowState, "give_up", full)
        for _ in range(2):
            (owed,) = client.resume().owed
            assert (owed.reason, owed.given_up) == (denial, False)
            assert "No space left" in str(owed.trouble)
            assert client.owing() == ["w1"]
    (owed,) = client.resume().owed
    assert (owed.reason, owed.given_up, owed.trouble) == (denial, True, None)


def test_a_kept_answer_is_not_counted_as_given_up(bench: Any, outage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash between the answer and the end of its request, which had been given up before."""
    client = bench.client()
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")

    def deny(call: str) -> None:
        raise AttestationError("no such request")

    bench.provider.on_call = deny
    bench.now = float(bench.provider.manifest.policy.closes)
    assert client.resume().owed[0].given_up
    assert client.resume() == Resumed((), (), given_up=1)
    bench.provider.on_call = lambda _: None
    with monkeypatch.context() as patch:
        patch.setattr(WindowState, "_retire", lambda self, ctr: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            client.resume(again=True)
    again = bench.client()
    assert again.resume() == NOTHING
    memory = again.state.windows()[0]
    assert (memory.given_up, memory.exchange(1).prepare.query) == (None, "json")


def test_a_line_that_breaks_for_one_window_stops_no_other_s(bench: Any, outage: Any) -> None:
    client = two_windows_owe(bench, outage)
    breaks = iter([True])

    def once(call: str) -> None:
        if call == "retrieve" and next(breaks, False):
            raise TransportError("the log does not show entries this young yet")

    bench.provider.on_call = once
    found = client.resume()
    assert [one.record.signed.request.window for one in found.results] == ["w2"]
    assert (found.owed[0].window, found.owed[0].given_up) == ("w1", False)
    assert client.owing() == ["w1"]


def test_damage_in_one_window_stops_no_other_s(bench: Any, outage: Any) -> None:
    client = two_windows_owe(bench, outage)
    first, _ = client.state.windows()
    (first.folder / "pending").write_bytes(b"nonsense")
    found = client.resume()
    assert [one.record.signed.request.window for one in found.results] == ["w2"]
    assert (found.owed[0].ctr, found.owed[0].given_up) == (None, False)
    assert "damaged" in str(found.owed[0].reason)
    assert (first.folder / "pending").read_bytes() == b"nonsense"


def test_a_provider_that_forgot_the_prepare_gets_it_again(bench: Any) -> None:
    bench.provider.forget = True
    result = bench.client().ask("json")
    assert result.checked
    at = bench.provider.calls.index("prepare")
    assert bench.provider.calls[at:] == ["prepare", "retrieve", "prepare", "retrieve"]


def test_a_refusal_in_the_same_window_keeps_the_request(bench: Any) -> None:
    client = bench.client()

    def refuse(call: str) -> None:
        if call == "retrieve":
            raise AttestationError("not today")

    bench.provider.on_call = refuse
    with pytest.raises(AttestationError, match="not today"):
        client.ask("json")
    assert bench.provider.calls.count("retrieve") == 2  # once, and once after the Prepare was repeated
    for _ in range(2):
        with pytest.raises(AttestationError, match="not today"):
            client.ask("json")
        (owed,) = client.resume().owed
        assert (str(owed.reason), owed.given_up) == ("not today", False)
    bench.provider.on_call = lambda _: None
    assert client.ask("json").record.signed.request.ctr == 1
    assert bench.evidence() == []


def test_a_provider_that_prepares_anew_after_the_signature(bench: Any) -> None:
    """The same Prepare must bring the same C_e: another one would be chosen knowing the nonce."""
    client = bench.client()
    bench.provider.forget = True
    prepare = bench.provider.prepare
    count = iter(range(9))

    def anew(canonical: bytes, signed: bytes) -> bytes:
        out: bytes = prepare(canonical, signed)
        return out if next(count) == 0 else dataclasses.replace(Prepared.decode(out), blinder=1).encode()

    bench.provider.prepare = anew
    with pytest.raises(AttestationError, match=r"same Prepare with bytes different.*evidence saved"):
        client.ask("json")


def test_a_crash_between_answer_and_retiring_the_request(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = bench.client()
    with monkeypatch.context() as patch:
        patch.setattr(WindowState, "_retire", lambda self, ctr: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            client.ask("json")
    memory = client.state.windows()[0]
    assert (memory.folder / "pending").exists()
    again = bench.client()
    result = again.ask("csv")
    assert result.record.signed.request.ctr == 2
    assert again.state.windows()[0].exchange(1).prepare.query == "json"


def test_budget_is_refused_before_anything_is_sent(bench: Any) -> None:
    client = bench.client()
    for word in ("a", "b", "c", "d"):
        client.ask(word)
    bench.provider.calls.clear()
    with pytest.raises(BudgetError, match="used its 4 queries"):
        client.ask("e")
    assert "prepare" not in bench.provider.calls


def test_a_spent_budget_is_no_reason_to_overlook_the_next_window(bench: Any) -> None:
    client = bench.client()
    for word in ("a", "b", "c", "d"):
        client.ask(word)
    bench.provider.open("w2")
    assert client.ask("e").record.signed.request.window == "w2"


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000"])
def test_an_empty_question_costs_nothing(bench: Any, outage: Any, text: str) -> None:
    client = bench.client()
    with pytest.raises(AttestationError, match="the question is empty: nothing was sent"):
        client.ask(text)
    assert bench.provider.calls == []
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")
    bench.provider.on_call = lambda _: None
    calls = len(bench.provider.calls)
    with pytest.raises(AttestationError, match="the question is empty"):
        client.ask(text)
    assert len(bench.provider.calls) == calls  # nor does it send what is pending
    assert client.ask("json").record.signed.request.ctr == 1
    assert bench.evidence() == []


def test_a_closed_client_says_that_it_is_closed(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    before, calls = bench.snapshot(), len(bench.provider.calls)
    client.close()
    client.close()
    for call in (lambda: client.ask("csv"), client.resume):
        with pytest.raises(ConfigurationError, match="this client is closed"):
            call()
    assert (bench.snapshot(), len(bench.provider.calls)) == (before, calls)
    assert bench.client().ask("csv").record.signed.request.ctr == 2


def test_closing_waits_for_the_query_under_way(bench: Any) -> None:
    client, entered, go = bench.client(), threading.Event(), threading.Event()

    def slow(call: str) -> None:
        if call == "retrieve":
            entered.set()
            assert go.wait(20)

    bench.provider.on_call = slow
    results: list[Any] = []
    asking = threading.Thread(target=lambda: results.append(client.ask("json")))
    asking.start()
    assert entered.wait(20)
    closing = threading.Thread(target=client.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    go.set()
    asking.join(20)
    closing.join(20)
    assert results[0].checked


def test_only_an_open_window_takes_questions(bench: Any) -> None:
    client = bench.client()
    bench.provider.stage = "preparing"
    with pytest.raises(TransportError, match="not open yet"):
        client.ask("json")
    bench.provider.stage = "open"
    client.ask("json")
    bench.provider.stage = "closed"
    with pytest.raises(AttestationError, match="is closed"):
        bench.client().ask("csv")
    assert bench.evidence() == []


def test_an_answer_that_is_still_owed_after_the_window_closed(bench: Any, outage: Any) -> None:
    client = bench.client()
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")
    bench.provider.on_call = lambda _: None
    bench.provider.stage = "closed"
    assert bench.client().ask("json").record.signed.request.ctr == 1


def test_bad_texts_are_refused_before_anything_is_sent(bench: Any) -> None:
    client = bench.client(embedder=None)
    for text in ("\ud800", "x" * 70000):
        with pytest.raises(EncodingError):
            client.ask(text)
    assert "prepare" not in bench.provider.calls


def test_a_forked_log_is_refused_with_evidence(bench: Any, tmp_path: Path) -> None:
    """The log key signs two histories: same key, other entries."""
    from ragseal.ledger.log import Log

    client = bench.client()
    client.ask("json")
    before = bench.snapshot()
    honest = bench.provider.log
    bench.provider.log = Log.create(tmp_path / "fork", bench.provider.log_signer)
    for _ in range(20):
        bench.provider.append(bench.provider.signed)
    with pytest.raises(LedgerError, match=r"contradicts the one this account remembers.*evidence saved"):
        client.ask("csv")
    (bundle,) = bench.evidence()
    assert {p.name.split("-", 1)[1] for p in bundle.glob("*.bin")} >= {
        "remembered-checkpoint.bin",
        "received-answer.bin",
        "received-consistency.bin",
    }
    after = bench.snapshot()
    pending = {name for name in after if name.endswith("pending")}
    assert {n: d for n, d in after.items() if n not in pending} == before
    bench.provider.log.close()
    bench.provider.log = honest
    bench.provider.answers.clear()
    assert client.ask("csv").record.signed.request.ctr == 2


def test_a_log_that_refuses_to_prove_consistency(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.gives_paths = False

    def refuse(call: str) -> None:
        if call == "consistency":
            raise LedgerError("no such size")

    bench.provider.on_call = refuse
    with pytest.raises(LedgerError, match="does not prove"):
        client.ask("csv")
    assert len(bench.evidence()) == 1


def test_an_old_answer_is_proven_against_the_newer_checkpoint(bench: Any, outage: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.gives_paths = False
    bench.provider.on_call = outage("consistency")
    with pytest.raises(TransportError):
        client.ask("csv")
    bench.provider.on_call = lambda _: None
    bench.provider.append(bench.provider.signed)
    client.state.remember_checkpoint(bench.provider.log.checkpoint())
    newest = client.state.checkpoint()
    client.ask("csv")
    assert client.state.checkpoint() == newest  # never replaced by an older one


def test_a_manifest_outside_the_log_is_refused_before_anything_is_sent(bench: Any) -> None:
    size = bench.provider.index_in_log = bench.provider.log.size
    with pytest.raises(LedgerError, match=f"would be entry {size}, the log has {size}"):
        bench.client().ask("json")
    bench.provider.append(bench.provider.signed)
    bench.provider.append(bench.provider.signed)
    bench.provider.manifest = dataclasses.replace(bench.provider.manifest, c_seed=8)
    bench.provider.seal()  # signed, shown to this account only
    with pytest.raises(LedgerError, match="does not hold the manifest"):
        bench.client().ask("json")
    assert "prepare" not in bench.provider.calls
    assert len(bench.evidence()) == 2
    assert bench.client().state.windows() == []


def test_a_manifest_in_a_forked_log(bench: Any, tmp_path: Path) -> None:
    from ragseal.ledger.log import Log

    client = bench.client()
    client.ask("json")
    honest = bench.provider.log
    bench.provider.log = Log.create(tmp_path / "fork", bench.provider.log_signer)
    for window in ("w2", "w3", "w4"):
        bench.provider.open(window)
    with pytest.raises(LedgerError, match="contradicts the one this account remembers"):
        client.ask("csv")
    bench.provider.log.close()
    bench.provider.log = honest


def test_evidence_tells_what_happened(bench: Any) -> None:
    client = bench.client()
    bench.provider.tamper = lambda m: m if not isinstance(m, Answer) else _other_receipt(m)
    with pytest.raises(AuditError, match="evidence saved in"):
        client.ask("json")
    (bundle,) = bench.evidence()
    reason = json.loads((bundle / "reason.json").read_text())
    assert reason["error"] == "AttestationError"
    assert "not signed by the provider key" in reason["reason"]
    assert reason["account"] == "alice"
    names = [f["file"] for f in reason["files"]]
    assert names == [
        "00-manifest.bin", "01-sent-prepare.bin", "02-received-prepared.bin", "03-sent-request.bin",
        "04-received-answer.bin",
    ]  # fmt: skip
    assert SealedAnswer.decode((bundle / names[-1]).read_bytes()).receipt.signature == bytes(64)
    assert (bundle.stat().st_mode & 0o777, (bundle / names[0]).stat().st_mode & 0o777) == (0o700, 0o600)


def _other_receipt(answer: Answer) -> Answer:
    receipt = answer.receipt
    return Answer(answer.record, answer.openings, Receipt(receipt.body, bytes(64), receipt.path))


def test_evidence_that_cannot_be_saved_never_hides_the_error(bench: Any) -> None:
    client = bench.client()
    (bench.state / "evidence").write_bytes(b"")
    bench.provider.tamper = lambda m: m if not isinstance(m, Answer) else _other_receipt(m)
    with pytest.raises(AttestationError, match=r"not signed by the provider key.*could NOT be saved"):
        client.ask("json")


def test_two_processes_and_missing_pins_are_refused(bench: Any) -> None:
    client = bench.client()
    with pytest.raises(LedgerError, match="in use by another process"):
        AccountState(bench.state)
    client.state.close()
    other = bench.provider.log_signer.verifier.vkey().replace("test.example/log", "else")
    with pytest.raises(AuditError):
        bench.client(log_key=other)
    fresh = bench.state.parent / "fresh"
    AccountState.create(fresh, "alice")
    with pytest.raises(ConfigurationError, match="no log key is pinned"):
        type(client)(bench.provider, fresh, ledger=bench.provider)
    AccountState(fresh).close()  # released after the failure


def test_another_embedder_than_the_window_s(bench: Any) -> None:
    bench.provider.open("w2", embedder=b"x" * 32)
    with pytest.raises(CommitmentError, match="another embedder"):
        bench.client().ask("json")
    assert bench.client(embedder=None).ask("json").checked is False


def test_a_provider_key_given_by_hand_counts_from_the_first_contact(bench: Any) -> None:
    with pytest.raises(CommitmentError, match="by the provider key"):
        bench.client(provider_key=b"x" * 32).ask("json")
    assert "prepare" not in bench.provider.calls


def test_the_first_contact_pins_provider_and_log(bench: Any) -> None:
    bench.client().ask("json")
    state = bench.client(log_key=None).state
    assert state.provider_key() == bench.provider.manifest.provider_key
    assert state.log_key() == bench.provider.log_signer.verifier
    assert state.checkpoint().note.encode() == bench.provider.log.checkpoint()
