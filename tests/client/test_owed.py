# SPDX-License-Identifier: GPL-3.0-or-later
"""What is pending after a crash, an outage or a refusal: asked for again, owed, or given up.  SPEC B."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ragseal.client.link import PreparedReply, Retrieved
from ragseal.client.result import Resumed
from ragseal.client.window import WindowState
from ragseal.kernel.attestation import Prepared, SignedRequest
from ragseal.kernel.errors import AttestationError, AuditError, BudgetError, ConfigurationError, TransportError

NOTHING = Resumed((), (), given_up=0)


@pytest.mark.parametrize("call", ["retrieve", "consistency"])
def test_an_outage_repeats_the_same_bytes(bench: Any, outage: Any, call: str) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.gives_paths = False  # or nobody would ask the ledger for one
    sent: list[bytes] = []
    retrieve = bench.provider.retrieve

    def spy(canonical: bytes, *rest: Any) -> Retrieved:
        sent.append(canonical)
        answer: Retrieved = retrieve(canonical, *rest)
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
    assert "retrieve" not in bench.provider.calls, "a request that was given up is asked for on demand only"
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
    bench.now = float(bench.provider.closes)
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
    over = float(bench.provider.closes)
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
    bench.now = float(bench.provider.closes)
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
    bench.now = float(bench.provider.closes)
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


@pytest.mark.parametrize("change", [{"blinder": 1}, {"index_digest": b"i" * 32}, {"update": 7}])
def test_a_provider_that_prepares_anew_after_the_signature(bench: Any, change: dict[str, Any]) -> None:
    """The same Prepare must bring the same C_e: another one would be chosen knowing the nonce.

    Nor is it over another version, in a window whose indices stay.
    """
    client = bench.client()
    bench.provider.forget = True
    prepare = bench.provider.prepare
    count = iter(range(9))

    def anew(canonical: bytes, signed: bytes) -> PreparedReply:
        out: PreparedReply = prepare(canonical, signed)
        other = dataclasses.replace(Prepared.decode(out.canonical), **change).encode()
        return out if next(count) == 0 else dataclasses.replace(out, canonical=other)

    bench.provider.prepare = anew
    with pytest.raises(AttestationError, match=r"same Prepare with bytes different.*evidence saved"):
        client.ask("json")


def test_an_outage_is_no_refusal_and_nothing_is_prepared_again_for_it(bench: Any, outage: Any) -> None:
    bench.provider.on_call = outage("retrieve")
    client = bench.client()
    with pytest.raises(TransportError):
        client.ask("json")
    assert [bench.provider.calls.count(call) for call in ("prepare", "retrieve")] == [1, 1]


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


def test_an_answer_that_is_still_owed_after_the_window_closed(bench: Any, outage: Any) -> None:
    client = bench.client()
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")
    bench.provider.on_call = lambda _: None
    bench.provider.stage = "closed"
    assert bench.client().ask("json").record.signed.request.ctr == 1


def test_a_pending_request_that_does_not_follow_the_answers_is_damage(bench: Any) -> None:
    """Another request of an answered number, and the next one of another window."""
    client = bench.client()
    client.ask("json")
    (window,) = client.state.windows()
    kept = window.exchange(1)
    assert window.pending() is None
    other = dataclasses.replace(kept.signed, signature=bytes(64))
    elsewhere = dataclasses.replace(
        kept.signed, request=dataclasses.replace(kept.signed.request, ctr=2, manifest=bytes(32))
    )
    for wrong in (
        dataclasses.replace(kept, signed=other),
        dataclasses.replace(kept, signed=elsewhere, prepare=dataclasses.replace(kept.prepare, manifest=bytes(32))),
    ):
        (window.folder / "pending").write_bytes(wrong.encode())
        with pytest.raises(ConfigurationError, match="it does not follow the 1 answers kept"):
            window.pending()
        assert (window.folder / "pending").exists()
