# SPDX-License-Identifier: GPL-3.0-or-later
"""An account signs over a version of its index that the log holds, of its window, and none older than it has seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.client.attestation import Window
from ragseal.client.link import PreparedReply
from ragseal.client.remote import LedgerOverGrpc, ProviderOverGrpc
from ragseal.client.versions import Versions
from ragseal.client.window import WindowState
from ragseal.kernel.attestation import Prepared
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
    CommitmentError,
    EncodingError,
    LedgerError,
    TransportError,
)
from ragseal.kernel.versions import IndexUpdate, UpdatedIndex
from ragseal.runtime.tls import BY_DEFAULT
from tests.attacks import checks
from tests.attacks.checks import without
from tests.simulator import provider as scene
from tests.simulator.clients import client_of
from tests.simulator.provider import make_policy
from tests.simulator.ticking import Ticking, ticking

Lie = Callable[[Ticking, Prepared], Prepared]


class Lying(ProviderOverGrpc):
    """A provider whose first message says something else of the version."""

    def __init__(self, live: Ticking, lie: Lie) -> None:
        super().__init__(live.address, BY_DEFAULT, 20.0)
        self.live, self.lie = live, lie

    def prepare(self, canonical: bytes, signature: bytes) -> PreparedReply:
        reply = super().prepare(canonical, signature)
        return replace(reply, canonical=self.lie(self.live, Prepared.decode(reply.canonical)).encode())


def an_older_version(live: Ticking, made: Prepared) -> Prepared:
    index, update = live.window.updates[-2]
    return replace(made, update=index, index_digest=update.index_digest("acme"))


def anothers_index(live: Ticking, made: Prepared) -> Prepared:
    return replace(made, index_digest=live.updates[-1].index_digest("globex"))


def the_manifests_version(live: Ticking, made: Prepared) -> Prepared:
    return replace(made, index_digest=live.window.manifest.index_of("acme").digest())


def an_entry_before_the_opening(live: Ticking, made: Prepared) -> Prepared:
    return replace(made, update=live.window.index, index_digest=bytes(32))


def a_record(live: Ticking, made: Prepared) -> Prepared:
    return replace(made, update=live.window.records[0], index_digest=bytes(32))


def nothing_yet(live: Ticking, made: Prepared) -> Prepared:
    return replace(made, update=live.provider.ledger.size, index_digest=bytes(32))


LIES: dict[Lie, tuple[type[AuditError], str]] = {
    an_older_version: (CommitmentError, "goes back to version 1"),
    anothers_index: (CommitmentError, "of a different version of this tenant's index"),
    the_manifests_version: (CommitmentError, "of a different version of this tenant's index"),
    an_entry_before_the_opening: (LedgerError, "before the window's opening"),
    a_record: (EncodingError, "not a index-update message"),
    nothing_yet: (TransportError, "does not show this version"),
}


@pytest.mark.slow
def test_no_lie_about_a_version_is_signed(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live:
        live.tick()
        with live.client() as client:
            client.ask("topic 1")
        for lie, (error, match) in LIES.items():
            folder = live.account()
            link = Lying(live, lie)
            with client_of(
                link, folder, live.log_key, scene.TrigramEmbedder(), ledger=live.address, timeout=20.0
            ) as client:
                with pytest.raises(error, match=match):
                    client.ask("topic 2")
                assert client.state.windows()[0].pending() is None, lie.__name__
                assert client.state.windows()[0].answered == 1
        link = Lying(live, an_older_version)
        with (
            without(checks.CLIENT_VERSION_NO_OLDER),
            client_of(link, live.account(), live.log_key, scene.TrigramEmbedder(), ledger=live.address) as client,
        ):
            named = client.ask("topic 2").record.signed.request.index_digest
            assert live.window.number_of(named) == 1
        with live.client() as client:
            assert client.ask("topic 3").receipt.body.seq == 2


class Forging(LedgerOverGrpc):
    """A ledger that shows another text root in the newest update."""

    def __init__(self, live: Ticking) -> None:
        super().__init__(live.address, BY_DEFAULT, 20.0)
        self.live = live

    def entries(self, start: int, count: int) -> list[bytes]:
        index, _ = self.live.window.updates[-1]
        return [forged(self.live).encode()] if start == index else super().entries(start, count)


def forged(live: Ticking) -> IndexUpdate:
    """The newest update, as nobody entered it."""
    made = live.updates[-1]
    return replace(made, tenants=tuple(replace(one, text_root=bytes(32)) for one in made.tenants))


@pytest.mark.slow
def test_a_version_that_the_log_does_not_hold_is_not_signed(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live:
        lie = lambda live, made: replace(made, index_digest=forged(live).index_digest("acme"))  # noqa: E731

        def ask() -> None:
            link, ledger = Lying(live, lie), Forging(live)
            folder = live.account()
            with client_of(link, folder, live.log_key, scene.TrigramEmbedder(), ledger=ledger) as client:
                client.ask("topic 2")

        with pytest.raises(LedgerError, match="does not hold the version of the index that is shown"):
            ask()
        with without(checks.CLIENT_VERSION_OF_THE_LOG), pytest.raises(AttestationError, match="different from its"):
            ask()  # it is signed, and this provider is honest


@pytest.mark.slow
def test_a_version_of_another_window_or_without_proofs_that_coins_need_is_none(tmp_path: Path) -> None:
    from ragseal.client.attestation import Window
    from ragseal.client.versions import _over
    from tests.classes import TINY

    with ticking(tmp_path, gain=2) as live:
        manifest, update = live.window.manifest, live.updates[0]
        secrets = live.provider.window_secrets(live.window.digest)
        (mine,) = (one for one in secrets.registry.values() if one.name == "alice")
        window = Window(manifest, live.window.digest, mine, manifest.index_of("acme"), TINY)
        assert _over(window, update, update.index_digest("acme")).index.text_root == update.index_of("acme").text_root
        other = replace(update, manifest=b"another window's" * 2)
        with pytest.raises(CommitmentError, match="belongs to another window"):
            _over(window, other, other.index_digest("acme"))
        lines = tuple(replace(one, proof_digests=(bytes(32),)) for one in update.tenants)
        proving = replace(update, tenants=lines)
        with pytest.raises(CommitmentError, match="says nothing of the slots"):
            _over(window, proving, proving.index_digest("acme"))


@pytest.mark.slow
def test_what_was_signed_is_finished_after_a_crash_over_the_version_that_it_names(tmp_path: Path) -> None:
    class Lost(ProviderOverGrpc):
        """The answer does not come."""

        def retrieve(self, *sent: object) -> object:  # type: ignore[override]
            raise TransportError("the connection was lost")

    with ticking(tmp_path, gain=2, n_max=6) as live:
        link = Lost(live.address, BY_DEFAULT, 20.0)
        with (
            client_of(link, live.account(), live.log_key, scene.TrigramEmbedder(), ledger=live.address) as client,
            pytest.raises(TransportError),
        ):
            client.ask("topic 2")
        live.restarted()  # the provider has forgotten the Prepare
        live.tick()
        with live.client() as client:
            assert client.ask("topic 2").receipt.body.seq == 0
            assert client.ask("topic 3").receipt.body.seq == 1
        named = [live.window.number_of(r.signed.request.index_digest) for r in records(live)]
        assert named == [1, 2]


def records(live: Ticking) -> list:  # type: ignore[type-arg]
    """The window's."""
    from ragseal.kernel.attestation import Record

    return [Record.decode(live.provider.ledger.entry(index)) for index in live.window.records]


# Which version of its index an account signs over, by what its folder remembers. SPEC A.12.


OPENED_AT = 7
WINDOW = b"w" * 32


def update(number: int, root: bytes = b"r", manifest: bytes = WINDOW) -> IndexUpdate:
    line = UpdatedIndex("acme", bytes(32), bytes(32), (), root * 32)
    return IndexUpdate(manifest, number, 600 * number, (line,), bytes(32))


class Account:
    """One with a folder, and a log that shows it whatever stands in ``log``."""

    def __init__(self, folder: Path, every: int = 600) -> None:
        self.memory = WindowState.__new__(WindowState)
        self.memory.folder = folder
        self.memory.remember_opening(b"opening", OPENED_AT)
        self.log: dict[int, IndexUpdate] = {}
        history: Any = SimpleNamespace(update=lambda index, evidence: self.log[index])
        self.versions = Versions(history)
        rules = make_policy(version_every=every)
        manifest: Any = SimpleNamespace(policy=rules, coins=(), rules=lambda _: rules)
        own: Any = SimpleNamespace(tenant="acme")
        anything: Any = None
        self.window = Window(manifest, WINDOW, own, anything, anything)

    def prepared(self, index: int, shown: IndexUpdate | None = None) -> Any:
        """The window as it may be signed over, where the provider names this entry of the log."""
        named = (shown or self.log[index]).index_digest("acme")
        return self.versions.of(self.window, self.memory, named, index, None)  # type: ignore[arg-type]


def test_one_version_may_be_signed_over_again_and_none_before_it(tmp_path: Path) -> None:
    account = Account(tmp_path)
    account.log = {10: update(1), 20: update(2), 30: update(3)}
    for index in (10, 20, 20, 30, 30):
        assert account.prepared(index).index.digest() == account.log[index].index_digest("acme")
    for index in (10, 20):  # though it was right when it was looked up
        with pytest.raises(CommitmentError, match="goes back to version"):
            account.prepared(index)
    for index in (10, 20):  # what was signed is finished all the same
        digest = account.log[index].index_digest("acme")
        assert account.versions.signed(account.window, account.memory, digest).index.digest() == digest
    with pytest.raises(CommitmentError, match="holds no version of the index that the signed request names"):
        account.versions.signed(account.window, account.memory, update(4).index_digest("acme"))


def test_a_number_stands_for_one_version(tmp_path: Path) -> None:
    account = Account(tmp_path)
    account.log = {10: update(1), 20: update(1, root=b"o")}
    account.prepared(10)
    with pytest.raises(CommitmentError, match="shows two versions 1 of this window's indices"):
        account.prepared(20)
    assert account.memory.newest_version() == account.log[10]
    assert account.memory.version(account.log[20].index_digest("acme")) is None


@pytest.mark.parametrize("index", [OPENED_AT - 1, OPENED_AT])
def test_no_version_stands_before_the_window_s_opening(tmp_path: Path, index: int) -> None:
    account = Account(tmp_path)
    account.log = {index: update(1), OPENED_AT + 1: update(1)}
    with pytest.raises(LedgerError, match="from before the window's opening"):
        account.prepared(index)
    assert account.prepared(OPENED_AT + 1)


def test_a_version_of_another_window_or_line_is_not_remembered(tmp_path: Path) -> None:
    account = Account(tmp_path)
    account.log = {10: update(1, manifest=b"o" * 32), 20: update(1)}
    with pytest.raises(CommitmentError, match="belongs to another window"):
        account.prepared(10)
    with pytest.raises(CommitmentError, match="of a different version of this tenant's index"):
        account.prepared(20, shown=update(2))
    assert account.memory.newest_version() is None


def test_an_index_that_stays_has_no_updates(tmp_path: Path) -> None:
    account = Account(tmp_path, every=0)
    account.log = {10: update(1)}
    with pytest.raises(CommitmentError, match="an index that stays as it is"):
        account.prepared(10)
    account.log = {0: update(1)}
    assert account.prepared(0) is account.window
