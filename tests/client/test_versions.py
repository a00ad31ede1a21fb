# SPDX-License-Identifier: GPL-3.0-or-later
"""An account signs over a version of its index that the log holds, of its window, and none older than it has seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.client.link import PreparedReply
from ragseal.client.remote import LedgerOverGrpc, ProviderOverGrpc
from ragseal.kernel.attestation import Prepared
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
    CommitmentError,
    EncodingError,
    LedgerError,
    TransportError,
)
from ragseal.kernel.versions import IndexUpdate
from ragseal.runtime.tls import BY_DEFAULT
from tests.attacks import checks
from tests.attacks.checks import without
from tests.simulator import provider as scene
from tests.simulator.clients import client_of
from tests.simulator.ticking import Ticking, ticking

pytestmark = pytest.mark.slow

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
