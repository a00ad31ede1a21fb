# SPDX-License-Identifier: GPL-3.0-or-later
"""A window is open when the log says so, for an account whose line its registry holds; no announcement counts.  A.8."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client import opening
from ragseal.kernel import signature
from ragseal.kernel.attestation import SealedAnswer
from ragseal.kernel.beacon import (
    BeaconOpening,
    beacon_value,
)
from ragseal.kernel.commitment import (
    CoinCommitment,
    Membership,
    ThinnedIndex,
    Thinning,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import CommitmentError, LedgerError, TransportError
from ragseal.kernel.policy import UNTIL_DELIVERED
from ragseal.ledger.checkpoint import open_checkpoint
from tests.attacks.checks import without as without_check
from tests.attacks.removal import Guard
from tests.client.conftest import policy

Shape = Callable[[Any, list[Message]], list[Message]]
EVERYBODY = ("provider", "observer-x", "auditor")
TWICE, STRANGE = ("provider", "observer-x", "observer-x", "auditor"), ("provider", "auditor-x", "auditor")
OBSERVER_COMMIT, AUDITOR_COMMIT, SEAL, PROVIDER, OBSERVER, AUDITOR, OPEN = range(7)  #: in an honest beacon
THINNED_ONCE = Guard(opening.Opening, "opens", "thinned twice")
THINNED = Guard(opening, "_thinned", "opened without its coins")
NO_COIN_NO_THINNING = Guard(opening, "_thinned", "although its claim")
THINNED_TENANTS = Guard(opening, "_thinned", "not those of the manifest")
MALLORY = Ed25519PrivateKey.from_private_bytes(b"m" * 32)


def opened(p: Any, owners: tuple[str, ...] = EVERYBODY, **nonces: bytes) -> WindowOpen:
    """The entry that opens the window with what these owners' nonces give."""
    values = [(owner, nonces.get(owner, p.opening(owner).nonce)) for owner in owners]
    return WindowOpen(p.manifest.digest(), beacon_value(p.manifest.digest(), values), 60)


def without(entries: list[Message], *places: int) -> list[Message]:
    return [entry for place, entry in enumerate(entries) if place not in places]


def put(entries: list[Message], place: int, message: Message) -> list[Message]:
    return [*entries[:place], message, *entries[place + 1 :]]


def other_nonce(p: Any, entries: list[Message], owner: str, place: int) -> list[Message]:
    lied = BeaconOpening(p.manifest.digest(), owner, b"z" * 32)
    return put(put(entries, place, lied), OPEN, opened(p, **{owner: b"z" * 32}))


def an_early_record(p: Any, entries: list[Message]) -> list[Message]:
    """A record of the window before it is open; whose it is does not matter."""
    return [*entries[:OPEN], p.early_record(), entries[OPEN]]


def swapped(entries: list[Message]) -> list[Message]:
    return [*entries[:OBSERVER], entries[AUDITOR], entries[OBSERVER], entries[OPEN]]


LIES: dict[str, tuple[Shape, str]] = {
    "no auditor in the seal": (
        lambda p, e: put(put(e, SEAL, p.sealed(EVERYBODY[:2])), OPEN, opened(p, EVERYBODY[:2])),
        "ends with the auditors",
    ),
    "the provider not first": (
        lambda p, e: put(
            put(e, SEAL, p.sealed(("observer-x", "auditor"))), OPEN, opened(p, ("observer-x", "auditor"))
        ),
        "begins with the provider",
    ),
    "no seal": (lambda p, e: without(e, SEAL), "without a beacon"),
    "nothing before the opening": (lambda p, e: e[OPEN:], "without a beacon"),
    "an auditor who never committed": (lambda p, e: without(e, AUDITOR_COMMIT), "ends with the auditors"),
    "an auditor with another key": (
        lambda p, e: put(e, AUDITOR_COMMIT, p.commit("auditor", MALLORY)),
        "no auditor that the manifest names",
    ),
    "an auditor's key without its signature": (
        lambda p, e: put(e, AUDITOR_COMMIT, dataclasses.replace(p.commit("auditor"), signature=bytes(64))),
        "over nonces of its auditors",
    ),
    "a seal of somebody else": (
        lambda p, e: put(e, SEAL, p.sealed(EVERYBODY, MALLORY)),
        "not sealed by the provider",
    ),
    "a seal for other owners": (
        lambda p, e: put(e, SEAL, dataclasses.replace(p.sealed(EVERYBODY[::2]), owners=EVERYBODY)),
        "not sealed by the provider",
    ),
    "an observer who opens after the auditor": (lambda p, e: swapped(e), "did not open last"),
    "a provider who opens after the auditor": (
        lambda p, e: [*e[:PROVIDER], e[OBSERVER], e[AUDITOR], e[PROVIDER], e[OPEN]],
        "did not open last",
    ),
    "an observer who has not opened": (
        lambda p, e: put(without(e, OBSERVER), OPEN - 1, opened(p, EVERYBODY[::2])),
        "although observer-x has not opened",
    ),
    "an auditor who has not opened": (
        lambda p, e: put(without(e, AUDITOR), OPEN - 1, opened(p, EVERYBODY[:2])),
        "although auditor has not opened",
    ),
    "a provider with another nonce than the manifest's": (
        lambda p, e: other_nonce(p, e, "provider", PROVIDER),
        "although provider has not opened what it committed to",
    ),
    "an observer with another nonce": (
        lambda p, e: other_nonce(p, e, "observer-x", OBSERVER),
        "although observer-x has not opened what it committed to",
    ),
    "an auditor with another nonce": (
        lambda p, e: other_nonce(p, e, "auditor", AUDITOR),
        "although auditor has not opened what it committed to",
    ),
    "an observer who committed after the seal": (
        lambda p, e: [e[AUDITOR_COMMIT], e[SEAL], e[OBSERVER_COMMIT], *e[PROVIDER:]],
        "although observer-x has not opened what it committed to",
    ),
    "nonces that were out before the seal": (
        lambda p, e: [*e[:SEAL], *e[PROVIDER:OPEN], e[SEAL], e[OPEN]],
        "although provider has not opened",
    ),
    "an owner whom no seal names yet": (
        lambda p, e: [
            *e[:SEAL], p.sealed(EVERYBODY[::2]), e[PROVIDER], e[OBSERVER], p.sealed(EVERYBODY), *e[AUDITOR:]
        ],
        "with others than some of those before",
    ),
    "an owner whom no seal names until an auditor's nonce is out": (
        lambda p, e: [
            *e[:SEAL], p.sealed(EVERYBODY[::2]), e[PROVIDER], p.sealed(EVERYBODY), e[OBSERVER], e[AUDITOR], e[OPEN]
        ],
        "with others than some of those before",
    ),
    "an observer who is named twice": (
        lambda p, e: put(put(e, SEAL, p.sealed(TWICE)), OPEN, opened(p, TWICE)),
        "somebody between provider and auditors who is no observer",
    ),
    "an auditor whom no manifest names": (
        lambda p, e: [
            p.commit("auditor-x", MALLORY), e[AUDITOR_COMMIT], p.sealed(STRANGE), e[PROVIDER], e[AUDITOR],
            p.opening("auditor-x"), opened(p, STRANGE),
        ],
        "somebody between provider and auditors who is no observer",
    ),
    "sealed again once the auditor's nonce is out": (
        lambda p, e: [*e[:OPEN], p.sealed(EVERYBODY[::2]), opened(p, EVERYBODY[::2])],
        "sealed again after an auditor had opened",
    ),
    "another value": (
        lambda p, e: put(e, OPEN, dataclasses.replace(e[OPEN], beacon=e[OPEN].beacon ^ 1)),  # type: ignore[attr-defined, type-var]
        "a beacon different from what its nonces give",
    ),
    "another window takes queries": (
        lambda p, e: [WindowOpen(bytes(32), 1, 0), *e],
        "opened while another one took queries",
    ),
    "another window takes queries to the end": (
        lambda p, e: [WindowOpen(bytes(32), 1, 0), *e[:SEAL], WindowClose(b"x" * 32, 0, 0), *e[SEAL:]],
        "opened while another one took queries",
    ),
    "a newer window is committed": (
        lambda p, e: [*e[:OPEN], dataclasses.replace(p.signed, signature=bytes(64)), e[OPEN]],
        "a newer window was committed before",
    ),
    "the value of fewer nonces": (
        lambda p, e: put(e, OPEN, opened(p, EVERYBODY[::2])),
        "a beacon different from what its nonces give",
    ),
    "a record before the opening": (an_early_record, "a record of the window before its opening"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_window_that_was_opened_without_a_complete_beacon(bench: Any, lie: str) -> None:
    tell, why = LIES[lie]
    client = bench.client()
    earlier = client.ask("json").record

    def early() -> Message:
        request = dataclasses.replace(earlier.signed.request, manifest=bench.provider.manifest.digest())
        signed = dataclasses.replace(earlier.signed, request=request)
        return dataclasses.replace(earlier, manifest=request.manifest, signed=signed)

    bench.provider.early_record = early
    bench.provider.shape = lambda entries: tell(bench.provider, entries)
    bench.provider.open("w2")
    calls = len(bench.provider.calls)
    with pytest.raises(CommitmentError, match=why) as refused:
        bench.client().ask("json")
    assert "evidence saved in" in str(refused.value)
    (bundle,) = bench.evidence()
    kept = {path.name.split("-", 1)[1]: path.read_bytes() for path in bundle.glob("*.bin")}
    assert kept["received-manifest.bin"] == bench.provider.signed.encode()
    entries = [name for name in kept if name.startswith("entry-")]
    assert entries
    for name in entries:
        assert kept[name] == bench.provider.log.entry(int(name[6:-4]))
    assert not {"prepare", "retrieve"} & set(bench.provider.calls[calls:])
    assert not any(name.endswith("pending") for name in bench.snapshot())
    (second,) = (one for one in bench.client().state.windows() if one.manifest.window == "w2")
    assert second.opened is False


NO_OTHER_OPEN = Guard(opening.Opening, "opens", "another one took queries")
NO_NEWER = Guard(opening.Opening, "opens", "a newer window was committed")


@pytest.mark.parametrize(
    ("lie", "check"),
    [
        ("another window takes queries", NO_OTHER_OPEN),
        ("another window takes queries to the end", NO_OTHER_OPEN),
        ("a newer window is committed", NO_NEWER),
    ],
)
def test_what_only_the_look_at_other_windows_finds(bench: Any, lie: str, check: Guard) -> None:
    tell, why = LIES[lie]
    bench.provider.shape = lambda entries: tell(bench.provider, entries)
    bench.provider.open("w2")
    with pytest.raises(CommitmentError, match=why):
        bench.client().ask("json")
    with without_check(check):
        assert bench.client().ask("json").record.signed.request.window == "w2"


def test_the_beacon_that_all_those_differ_from_is_accepted(bench: Any) -> None:
    for window, owners in (("w2", EVERYBODY), ("w3", EVERYBODY[::2])):
        bench.provider.shape = lambda entries, owners=owners: bench.provider.beacon(owners)
        bench.provider.open(window)
        assert bench.client().ask("json").record.signed.request.window == window
    bench.provider.shape = lambda e: [  # an observer who does not open is dropped by a second seal
        *e[:OBSERVER], bench.provider.sealed(EVERYBODY[::2]), e[AUDITOR], opened(bench.provider, EVERYBODY[::2])
    ]  # fmt: skip
    bench.provider.open("w4")
    assert bench.client().ask("json").record.signed.request.window == "w4"
    assert bench.evidence() == []


def test_a_beacon_beside_a_window_that_was_closed_is_accepted(bench: Any) -> None:
    """Many records of the window before stand among the beacon's entries; each page is proven as a whole."""
    record = bench.client().ask("json").record
    old = record.manifest
    many = [dataclasses.replace(record, seq=seq) for seq in range(1, 1500)]

    def beside(e: list[Message]) -> list[Message]:
        return [
            WindowOpen(old, 1, 0),
            *many[:700],
            *e[:SEAL],
            *many[700:],
            *e[SEAL:OPEN],
            WindowClose(old, 0, 0),
            e[OPEN],
        ]

    bench.provider.shape = beside
    bench.provider.open("w2")
    calls = len(bench.provider.calls)
    assert bench.client().ask("json").record.signed.request.window == "w2"
    assert bench.provider.calls[calls:].count("inclusion") <= 2
    assert bench.provider.calls[calls:].count("entries") <= 3


# --- what coins hide ---


def thinning(p: Any, *tenants: str) -> Thinning:
    """The entry, of digests that say nothing to an account."""
    named = [ThinnedIndex(name, bytes(32), bytes(32), bytes(32)) for name in tenants or ("acme", "other")]
    return Thinning(p.manifest.digest(), tuple(named))


def thinned(p: Any, entries: list[Message], place: int, *tenants: str) -> list[Message]:
    """With a thinning before that place."""
    return [*entries[:place], thinning(p, *tenants), *entries[place:]]


def open_coined(bench: Any, shape: Shape, coined: bool = True) -> None:
    """Window w2, whose claim has a coin, opened by entries of this shape."""
    bench.provider.shape = lambda entries: shape(bench.provider, entries)
    if not coined:
        bench.provider.open("w2")
        return
    stated = dataclasses.replace(policy(4), claim=UNTIL_DELIVERED, hidden=60)
    bench.provider.open("w2", policy=stated, coins=(CoinCommitment(9, b"t" * 32),))


COIN_LIES: dict[str, tuple[Shape, str, Any]] = {
    "not thinned": (lambda p, e: e, "opened without its coins", THINNED),
    "thinned twice": (
        lambda p, e: thinned(p, thinned(p, e, OPEN), OPEN),
        "thinned twice, or before",
        THINNED_ONCE,
    ),
    "thinned before the auditor opened": (
        lambda p, e: thinned(p, e, AUDITOR),
        "thinned twice, or before",
        THINNED_ONCE,
    ),
    "thinned before the seal": (lambda p, e: thinned(p, e, SEAL), "thinned twice, or before", THINNED_ONCE),
    "a tenant left out": (
        lambda p, e: thinned(p, e, OPEN, "acme"),
        "not those of the manifest",
        THINNED_TENANTS,
    ),
    "a tenant too many": (
        lambda p, e: thinned(p, e, OPEN, "acme", "more", "other"),
        "not those of the manifest",
        THINNED_TENANTS,
    ),
    "other tenants": (
        lambda p, e: thinned(p, e, OPEN, "acme", "west"),
        "not those of the manifest",
        THINNED_TENANTS,
    ),
    "thinned without a coin": (
        lambda p, e: thinned(p, e, OPEN),
        "although its claim has no coin",
        NO_COIN_NO_THINNING,
    ),
}


@pytest.mark.parametrize("lie", COIN_LIES)
def test_a_window_whose_indices_were_not_thinned_as_its_claim_has_it(bench: Any, lie: str) -> None:
    shape, why, check = COIN_LIES[lie]
    client = bench.client()
    client.ask("json")
    open_coined(bench, shape, coined=lie != "thinned without a coin")
    calls = len(bench.provider.calls)
    with pytest.raises(CommitmentError, match=why) as refused:
        bench.client().ask("json")
    assert "evidence saved in" in str(refused.value)
    (bundle,) = bench.evidence()
    kept = {path.name.split("-", 1)[1] for path in bundle.glob("*.bin")}
    assert "received-manifest.bin" in kept
    assert any(name.startswith("entry-") for name in kept)
    assert not {"prepare", "retrieve"} & set(bench.provider.calls[calls:])
    with without_check(check):
        assert bench.client().ask("json").record.signed.request.window == "w2"


def test_a_window_that_is_thinned_as_its_claim_has_it_is_asked(bench: Any) -> None:
    open_coined(bench, lambda p, e: thinned(p, e, OPEN))
    assert bench.client().ask("json").record.signed.request.window == "w2"
    assert bench.evidence() == []


def test_another_window_s_thinning_is_none(bench: Any) -> None:
    bench.provider.open("w2")
    old = thinning(bench.provider)
    open_window = lambda p, e: [*e[:OPEN], old, e[OPEN]]  # noqa: E731
    bench.provider.shape = lambda entries: open_window(bench.provider, entries)
    stated = dataclasses.replace(policy(4), claim=UNTIL_DELIVERED, hidden=60)
    bench.provider.open("w3", policy=stated, coins=(CoinCommitment(9, b"t" * 32),))
    with pytest.raises(CommitmentError, match="opened without its coins"):
        bench.client().ask("json")


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
