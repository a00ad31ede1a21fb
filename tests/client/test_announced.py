# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider announces counts for nothing: the log, the registry's line and the auditor's key do.  SPEC A.8."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ragseal.client import acceptance
from ragseal.kernel import signature
from ragseal.kernel.attestation import SealedAnswer
from ragseal.kernel.commitment import Membership, WindowClose, WindowOpen
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import CommitmentError, LedgerError, TransportError
from ragseal.ledger.checkpoint import open_checkpoint
from tests.client.test_opening import MALLORY, OPEN

# --- announcements ---


@pytest.mark.parametrize("there", range(OPEN + 1))
def test_an_announcement_that_the_log_does_not_bear_out(bench: Any, there: int) -> None:
    """The provider says "open" after every step of the beacon; nothing is signed before the last of them."""
    whole: list[Message] = []
    bench.provider.shape = lambda entries: whole.extend(entries) or entries[:there]
    bench.provider.open("w2")
    assert bench.provider.stage == "open"
    client = bench.client()
    for _ in range(2):
        with pytest.raises(TransportError, match="window 'w2' is not open yet: ask again"):
            client.ask("json")
    assert not {"prepare", "retrieve"} & set(bench.provider.calls)
    assert bench.evidence() == []
    for entry in whole[there:]:
        bench.provider.append(entry)
    assert client.ask("json").record.signed.request.window == "w2"
    calls = len(bench.provider.calls)
    bench.client().ask("csv")
    assert "entries" not in bench.provider.calls[calls:]  # what was found once is not looked for again


def test_a_log_without_the_opening_is_remembered_too(bench: Any) -> None:
    """Whoever rewrites it before the window opens is found out."""
    whole: list[Message] = []
    bench.provider.shape = lambda entries: whole.extend(entries) or []
    bench.provider.open("w2")
    client, log = bench.client(), bench.provider.log
    for entry in (None, *whole[:2]):
        if entry is not None:
            bench.provider.append(entry)
        with pytest.raises(TransportError, match="not open yet"):
            client.ask("json")
        assert client._history.size == log.size


@pytest.mark.parametrize("bound", ["MOST_ENTRIES", "MOST_BYTES"])
def test_a_client_reads_so_much_behind_a_manifest_and_no_more(
    bench: Any, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    whole: list[Message] = []
    bench.provider.shape = lambda entries: whole.extend(entries) or entries
    bench.provider.open("w2")
    assert isinstance(whole[-1], WindowOpen)
    needed = len(whole) + 1 if bound == "MOST_ENTRIES" else sum(len(entry.encode()) for entry in whole)
    monkeypatch.setattr(acceptance, bound, needed - 1)
    with pytest.raises(CommitmentError, match="that is too much to read"):
        bench.client().ask("json")
    assert "prepare" not in bench.provider.calls
    monkeypatch.setattr(acceptance, bound, needed)
    assert bench.client().ask("json").record.signed.request.window == "w2"


def test_another_window_s_opening_is_none(bench: Any) -> None:
    old = bench.provider.log.entry(bench.provider.log.size - 1)
    bench.provider.shape = lambda entries: [*entries[:OPEN], WindowOpen.decode(old)]
    bench.provider.open("w2")
    with pytest.raises(TransportError, match="not open yet"):
        bench.client().ask("json")
    assert "prepare" not in bench.provider.calls


def test_a_ledger_that_shows_entries_which_its_log_does_not_hold(bench: Any) -> None:
    whole: list[Message] = []
    bench.provider.shape = lambda entries: whole.extend(entries) or []
    bench.provider.open("w2")
    start = bench.provider.log.size
    for _ in whole:
        bench.provider.append(WindowClose(bytes(32), 0, 0))
    honest = bench.provider.entries
    bench.provider.entries = lambda at, count: [e.encode() for e in whole][at - start :][:count]
    with pytest.raises(LedgerError, match=r"not those that were signed.*evidence saved"):
        bench.client().ask("json")
    bench.provider.entries = lambda at, count: []
    with pytest.raises(LedgerError, match=f"keeps back entry {start} of the {start + len(whole)}"):
        bench.client().ask("json")
    bench.provider.entries = lambda at, count: honest(at, count) * 9  # more than was asked for
    with pytest.raises(TransportError, match="not open yet"):
        bench.client().ask("json")
    assert "prepare" not in bench.provider.calls
    assert len(bench.evidence()) == 2


# --- the auditor, and this account's line ---


def test_an_account_may_insist_on_its_auditor(bench: Any) -> None:
    named = bench.provider.manifest.auditors[0].public_key
    assert bench.client(auditor_key=named).ask("json").checked
    bench.provider.calls.clear()
    other = signature.public_bytes(MALLORY)
    with pytest.raises(
        CommitmentError, match=f"names auditor {named.hex()}; this account wants the auditor {other.hex()}"
    ):
        bench.client(auditor_key=other).ask("csv")
    assert bench.provider.calls == ["announced"]  # not even this account's name was told
    assert len(bench.evidence()) == 1


def lines(bench: Any) -> dict[str, tuple[Callable[[Membership], Membership], str]]:
    provider = bench.provider
    at, bob = next((i, a) for i, a in enumerate(provider.accounts) if a.name == "bob")
    path = tuple(provider.registry.path(at))

    def own(**changes: Any) -> Callable[[Membership], Membership]:
        return lambda m: dataclasses.replace(m, account=dataclasses.replace(m.account, **changes))

    return {
        "another account's": (lambda m: Membership(bob, at, path), "line of an account other than 'alice'"),
        "mine at another's place": (lambda m: Membership(m.account, at, path), "not in the registry"),
        "a wrong path": (lambda m: dataclasses.replace(m, path=(bytes(32), *m.path[1:])), "not in the registry"),
        "a short path": (lambda m: dataclasses.replace(m, path=m.path[:-1]), "not in the registry"),
        "no path": (lambda m: dataclasses.replace(m, path=()), "not in the registry"),
        "a place beyond": (lambda m: dataclasses.replace(m, index=3), "not in the registry"),
        "another tenant": (own(tenant="other"), "not in the registry"),
        "another key": (own(public_key=bob.public_key), "a public key different"),
        "another pseudonym": (own(salt=bytes(32)), "not in the registry"),
        "another's name": (own(name="bob"), "line of an account other"),
    }


def test_a_line_that_is_not_this_account_s(bench: Any) -> None:
    before = bench.snapshot()
    for number, (name, (change, why)) in enumerate(lines(bench).items(), 1):
        bench.provider.tamper = lambda m, change=change: change(m) if isinstance(m, Membership) else m
        with pytest.raises(CommitmentError, match=why):
            bench.client().ask("json")
        assert len(bench.evidence()) == number, name
        assert any(path.name.endswith("received-membership.bin") for path in bench.evidence()[-1].iterdir()), name
    assert "prepare" not in bench.provider.calls
    assert bench.client().state.windows() == []
    assert bench.client().state.provider_key() is None
    assert set(bench.snapshot()) - set(before) == {"log.vkey", "checkpoint"}
    bench.provider.tamper = lambda message: message
    bench.client().ask("json")


# --- paths that come with answers ---


def test_a_path_that_comes_with_an_answer_is_used(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    client.ask("csv")
    assert "consistency" not in bench.provider.calls
    assert client.state.checkpoint().checkpoint.size == bench.provider.log.size


def test_a_wrong_path_that_comes_with_an_answer_is_refused_with_both_notes(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    before, remembered = bench.snapshot(), client.state.checkpoint().note.encode()
    path, delivered = bench.provider.path, []
    bench.provider.tamper = lambda m: delivered.append(m) or m if isinstance(m, SealedAnswer) else m
    for number, wrong in enumerate(
        (
            lambda known, size: (bytes(32), *path(known, size)[1:]),
            lambda known, size: (*path(known, size), bytes(32)),
            lambda known, size: path(known, size)[:1],
            lambda known, size: path(known - 1, size),
        ),
        1,
    ):
        bench.provider.path = wrong
        with pytest.raises(LedgerError, match=r"contradicts the one this account remembers.*evidence saved"):
            client.ask("csv")
        bundle = bench.evidence()[-1]
        kept = {p.name.split("-", 1)[1]: p.read_bytes() for p in bundle.glob("*.bin")}
        assert kept["remembered-checkpoint.bin"] == remembered
        assert SealedAnswer.decode(kept["received-answer.bin"]) == delivered[-1]
        note = delivered[-1].receipt.body.checkpoint
        assert open_checkpoint(note, bench.provider.log_signer.verifier).checkpoint.size > 8
        assert len(bench.evidence()) == number
        assert {n: d for n, d in bench.snapshot().items() if not n.endswith("pending")} == before
    bench.provider.path = path
    assert client.ask("csv").record.signed.request.ctr == 2


def test_a_receipt_younger_than_the_public_log_is_no_fork(bench: Any) -> None:
    """A log shows its records on a tick: until then nothing is said against it, and the same request is sent again."""
    client = bench.client()
    client.ask("json")
    note, consistency, path = bench.provider.checkpoint, bench.provider.consistency, bench.provider.path
    public = note()
    size = open_checkpoint(public, bench.provider.log_signer.verifier).checkpoint.size

    def shown(old: int, new: int) -> list[bytes]:
        if new > size:
            raise LedgerError(f"size {new} is beyond the published size {size}")
        return consistency(old, new)

    bench.provider.path = lambda known, size: ()
    bench.provider.checkpoint, bench.provider.consistency = (lambda: public), shown
    with pytest.raises(TransportError, match="does not show entries this young yet: ask again in a minute"):
        client.ask("csv")
    bench.provider.checkpoint, bench.provider.consistency, bench.provider.path = note, consistency, path
    assert client.ask("csv").record.signed.request.ctr == 2
    bench.provider.consistency = lambda old, new: (_ for _ in ()).throw(LedgerError("no path"))
    bench.provider.path = lambda known, size: ()
    with pytest.raises(LedgerError, match=r"does not prove that size \d+ is the beginning"):
        client.ask("json again")
