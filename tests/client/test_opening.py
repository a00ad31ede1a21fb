# SPDX-License-Identifier: GPL-3.0-or-later
"""A window is open when the log says so: its beacon is complete, and no other window takes queries.  SPEC A.8."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client import opening
from ragseal.kernel.beacon import (
    BeaconOpening,
    beacon_value,
)
from ragseal.kernel.commitment import CoinCommitment, ThinnedIndex, Thinning, WindowClose, WindowOpen
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.policy import UNTIL_DELIVERED
from tests.attacks.checks import without as without_check
from tests.attacks.removal import Guard
from tests.client.small_provider import policy

Shape = Callable[[Any, list[Message]], list[Message]]

EVERYBODY = ("provider", "observer-x", "auditor")

TWICE, STRANGE = ("provider", "observer-x", "observer-x", "auditor"), ("provider", "auditor-x", "auditor")

OBSERVER_COMMIT, AUDITOR_COMMIT, SEAL, PROVIDER, OBSERVER, AUDITOR, OPEN = range(7)  #: in an honest beacon

MALLORY = Ed25519PrivateKey.from_private_bytes(b"m" * 32)


def opened(p: Any, owners: tuple[str, ...] = EVERYBODY, **nonces: bytes) -> WindowOpen:
    """The entry that opens the window with what these owners' nonces give."""
    values = [(owner, nonces.get(owner, p.opening(owner).nonce)) for owner in owners]
    return WindowOpen(p.manifest.digest(), beacon_value(p.manifest.digest(), values), 60)


def first(p: Any) -> int:
    """The earliest time that an opening may state."""
    opens: int = p.manifest.policy.opens
    return opens - opens % 60


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
        "not an auditor of the manifest",
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
        "participant between provider and auditors that is not an observer",
    ),
    "an auditor whom no manifest names": (
        lambda p, e: [
            p.commit("auditor-x", MALLORY), e[AUDITOR_COMMIT], p.sealed(STRANGE), e[PROVIDER], e[AUDITOR],
            p.opening("auditor-x"), opened(p, STRANGE),
        ],
        "participant between provider and auditors that is not an observer",
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
    "an opening dated before the policy's time": (
        lambda p, e: put(e, OPEN, dataclasses.replace(e[OPEN], time=first(p) - 1)),  # type: ignore[type-var]
        "outside the time that its policy names",
    ),
    "an opening dated so late that the window would be longer": (
        lambda p, e: put(e, OPEN, dataclasses.replace(e[OPEN], time=p.manifest.policy.opens_by + 60)),  # type: ignore[type-var]
        "outside the time that its policy names",
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


@pytest.mark.slow
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


# A window with coins is open when the log says that its slots were hidden. SPEC A.8, A.11.


THINNED_ONCE = Guard(opening.Opening, "opens", "thinned twice")

THINNED = Guard(opening, "_thinned", "opened without its coins")

THINNED_TENANTS = Guard(opening, "_thinned", "not those of the manifest")


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
        "not those of the manifest",
        THINNED_TENANTS,
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
