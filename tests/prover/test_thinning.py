# SPDX-License-Identifier: GPL-3.0-or-later
"""A window whose claim has a coin: thinned once its beacon is complete, answered from what the coins left."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragseal.backends.group import default_group
from ragseal.kernel import commitment, signature
from ragseal.kernel.coin import coin_context, hidden_slots
from ragseal.kernel.commitment import IndexFile, Thinning, WindowOpen
from ragseal.kernel.errors import CommitmentError, ConfigurationError, ProofError
from ragseal.kernel.proofs import ProofBatch
from ragseal.kernel.thinning import ThinnedFile, ThinningStatement, verify_thinning
from ragseal.prover.administration.documents import shape_of
from ragseal.prover.commitment import thinning
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.commitment.new_period import new_period
from ragseal.prover.commitment.window_secrets import load_window, thinned_index, window_index
from ragseal.prover.fsck import fsck
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.stopped_keys import stopped
from ragseal.prover.storage.window import Stage, Window
from tests.classes import DECOYS
from tests.simulator.provider import (
    HIDDEN,
    NOW,
    Asker,
    Clock,
    TrigramEmbedder,
    batch,
    coined_policy,
    embed_with,
    newest,
    open_provider,
    open_window,
    serving_on,
    window_on,
)

pytestmark = pytest.mark.slow


def play(scene: Callable[[Serving], Awaitable[None]], directory: Path) -> None:
    """Run a scene against a fresh provider with an open window that has a coin."""

    async def run() -> None:
        async with window_on(directory, coins=True) as serving:
            await scene(serving)

    asyncio.run(run())


def test_a_window_with_a_coin_is_thinned_proven_and_answered(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        provider = serving.provider
        window = newest(serving)
        assert window.thinning is not None
        assert window.beacon is not None
        manifest, digest = window.manifest, window.digest
        entries = [serving.journal.data(i) for i in range(provider.ledger.size)]
        kinds = [e for e in entries if Thinning.TAG.encode() in e[:40] or WindowOpen.TAG.encode() in e[:40]]
        assert Thinning.decode(kinds[0]) == window.thinning
        assert WindowOpen.decode(kinds[1]).beacon == window.beacon

        group, key = default_group(), provider.backends.keys.view(manifest.key_digest)
        assert provider.backends.thinning_keys is not None
        coin_key = provider.backends.thinning_keys.view(manifest.coin.key_digest)
        secrets = provider.window_secrets(digest)
        for one in window.thinning.tenants:
            placed = IndexFile.decode(window_index(provider.state, digest, one.tenant))
            commitment.verify_columns(group, coin_key.scores, coin_key.digest, 24, placed)
            file = ThinnedFile.decode(thinned_index(provider.state, digest, one.tenant))
            assert file.entry(one.tenant) == one
            context = coin_context(digest, window.beacon, one.tenant)
            statement = ThinningStatement(
                coin_key.digest, key.digest, digest, manifest.coin.c_coin, context, HIDDEN, placed.columns, file.columns
            )
            verify_thinning(group, [statement], coin_key, key.scores, file)
            hides = np.array(hidden_slots(secrets.coin_limbs, context, DECOYS.N, HIDDEN))
            version = secrets.versions[one.tenant]
            assert hides.any()
            assert not hides.all()
            assert not version.in_force.matrix[hides].any()
            assert (version.in_force.matrix[~hides] == version.matrix[~hides]).all()
            assert version.matrix[hides].any()

        alice = Asker("alice", serving)
        for number in range(2):
            await alice.ask(f"acme report number {number} about topic 3")
        made = ProofBatch.decode(await batch(serving, digest, [0, 1]))
        assert len(made.entries) == 2

        again = load_window(provider.state, digest)  # what a restart finds
        for tenant, version in again.versions.items():
            before = secrets.versions[tenant].in_force
            assert (version.in_force.matrix == before.matrix).all()
            assert version.in_force.blinders == before.blinders

    play(scene, tmp_path / "p")


def test_nothing_is_answered_from_an_index_that_is_not_thinned(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p", coins=True)
    provider.commit(coined_policy(), "w1")
    window = provider.journal.history.newest
    assert window is not None
    version = provider.window_secrets(window.digest).versions["acme"]
    with pytest.raises(CommitmentError, match="not thinned"):
        _ = version.in_force
    with pytest.raises(CommitmentError, match="no thinned index"):
        thinned_index(provider.state, window.digest, "acme")
    provider.close()


def test_a_policy_with_a_coin_needs_its_key(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p")
    with pytest.raises(ConfigurationError, match="thinning"):
        provider.commit(coined_policy(), "w1")
    assert provider.journal.history.newest is None
    provider.close()


def test_a_proof_that_fails_stops_its_key_and_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = open_provider(tmp_path / "p", coins=True)

    def broken(*_: object, **__: object) -> ThinnedFile:
        raise ProofError("made up")

    monkeypatch.setattr(thinning, "make_thinned", broken)

    async def run() -> None:
        provider.commit(coined_policy(), "w1")
        async with serving_on(provider) as serving:
            window = newest(serving)
            with pytest.raises(AssertionError):
                await open_window(serving)
            assert window.stage is Stage.SEALED
            assert window.thinning is None
            assert stopped(provider.state, window.manifest.coin.key_digest) == "made up"

    asyncio.run(run())
    provider.close()


def test_an_attestation_key_whose_file_is_wrong_does_not_stop_the_thinning_key(tmp_path: Path) -> None:
    """Thinning needs the points of both; a worn file of the one says nothing of the other (SPEC A.9.5)."""
    provider = open_provider(tmp_path / "p", coins=True)

    async def run() -> None:
        provider.commit(coined_policy(), "w1")
        async with serving_on(provider) as serving:
            window = newest(serving)
            ring = provider.backends.keys
            ring._views.clear()
            kept = ring.folder(window.manifest.key_digest)
            kept.rename(aside := kept.with_name("aside"))
            kept.mkdir()
            for file in aside.iterdir():
                (kept / file.name).write_bytes(b"{}")
            with pytest.raises(ProofError):
                provider.coins.thin(window)
            assert stopped(provider.state, window.manifest.coin.key_digest) is None
            shutil.rmtree(kept)
            aside.rename(kept)
            await open_window(serving)
            assert window.stage is Stage.OPEN

    asyncio.run(run())
    provider.close()


def test_a_state_that_does_not_hold_the_thinning_of_the_log_is_not_served(tmp_path: Path) -> None:
    """An older state.db may hold that of a run that broke off: columns with other blinders than the log's."""

    async def scene(serving: Serving) -> None:
        provider = serving.provider
        window = newest(serving)
        with pytest.raises(CommitmentError, match="thinned already"):
            provider.coins.thin(window)
        entry, window.thinning = window.thinning, None
        other = provider.coins.thin(window)  # as a run before it had
        window.thinning = entry
        assert other != entry
        with pytest.raises(CommitmentError, match="restore the newest state"):
            provider.window_secrets(window.digest)
        with provider.state.transaction() as db:
            db.execute("DELETE FROM thinnings")
        with pytest.raises(CommitmentError, match="restore the newest state"):
            provider.window_secrets(window.digest)

    play(scene, tmp_path / "p")


def test_a_run_that_broke_off_before_its_entry_thins_anew_with_the_same_coins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it left behind is replaced before the log names any; nobody was shown the first."""
    provider = open_provider(tmp_path / "p", coins=True)
    kept: list[tuple[Thinning, list[bool]]] = []

    async def run() -> None:
        provider.commit(coined_policy(), "w1")
        async with serving_on(provider) as serving:
            window = newest(serving)
            thin = provider.coins.thin

            def broken(window: Window) -> Thinning:
                made = thin(window)
                version = provider.window_secrets(window.digest).versions["acme"]
                assert version.thinned is not None
                kept.append((made, list(version.thinned.hidden)))
                if len(kept) == 1:
                    raise CommitmentError("the process ends here")
                return made

            serving.beacon._thin = broken
            await open_window(serving)
            assert window.thinning == kept[1][0]
            version = provider.window_secrets(window.digest).versions["acme"]
            assert version.thinned is not None
            assert version.thinned.public.entry("acme") == kept[1][0].tenants[0]
            await Asker("alice", serving).ask("acme report number 3")

    asyncio.run(run())
    provider.close()
    assert kept[0][0] != kept[1][0]
    assert kept[0][1] == kept[1][1]


def test_a_window_with_a_coin_is_sound_from_its_manifest_on_and_what_was_changed_in_it_is_found(tmp_path: Path) -> None:
    """``serve`` checks before it takes a call: placed columns lie under other points than those of records."""
    provider = open_provider(tmp_path / "p", coins=True)

    async def run() -> None:
        provider.commit(coined_policy(), "w1")
        assert fsck.check_start(provider).findings == []
        async with serving_on(provider) as serving:
            await open_window(serving)
            await Asker("alice", serving).ask("acme report number 3")
            assert fsck.examine(provider, whole=True).findings == []

    asyncio.run(run())
    provider = open_provider(tmp_path / "p", coins=True)
    window = provider.journal.history.newest
    assert window is not None
    assert fsck.check_start(provider).findings == []
    for change in (
        "UPDATE thinnings SET hidden = zeroblob(length(hidden)) WHERE tenant = 'acme'",
        "UPDATE thinnings SET blinders = zeroblob(length(blinders)) WHERE tenant = 'acme'",
        "UPDATE versions SET blinders = zeroblob(length(blinders)) WHERE tenant = 'acme'",
        "DELETE FROM thinnings WHERE tenant = 'acme'",
    ):
        before = (
            list(provider.state.rows("SELECT * FROM thinnings")),
            list(provider.state.rows("SELECT * FROM versions")),
        )
        with provider.state.transaction() as db:
            db.execute(change)
        provider.secrets.forget(window.digest)
        with pytest.raises(ConfigurationError, match=r"restore"):
            fsck.check_start(provider)
        with provider.state.transaction() as db:
            for table, rows in zip(("thinnings", "versions"), before, strict=True):
                db.execute(f"DELETE FROM {table}")
                for row in rows:
                    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        provider.secrets.forget(window.digest)
    assert fsck.check_start(provider).findings == []
    provider.close()


def test_the_next_window_carries_the_coins_on(tmp_path: Path) -> None:
    """Two windows with real proofs: the same slots are empty in both, in columns of their own; a third throws anew."""
    clock = Clock()

    def hides(provider: Provider, window: Window) -> dict[str, tuple[bool, ...]]:
        found = {}
        for tenant, version in provider.window_secrets(window.digest).versions.items():
            assert version.thinned is not None
            found[tenant] = version.thinned.hidden
        return found

    async def live(name: str, new_coins: bool = False) -> tuple[Window, dict[str, tuple[bool, ...]], dict[str, bytes]]:
        provider = open_provider(tmp_path / "p", clock, coins=True)
        start = int(clock.now)
        policy = replace(coined_policy(), opens=start, closes=start + 600, period_start=NOW)
        provider.commit(policy, name, new_coins=new_coins)
        async with serving_on(provider) as serving:
            window = await open_window(serving)
            asker = Asker("alice", serving)
            await asker.ask(f"acme report number 1 about topic 3 in {name}")
            assert len(ProofBatch.decode(await batch(serving, window.digest, [0])).entries) == 1
            proof = signature.sign(provider.state.key, "close", window.digest)
            await serving.close_window(window.digest, proof)
            columns = {t: v.public.columns for t, v in provider.window_secrets(window.digest).versions.items()}
            clock.now = start + 600
            return window, hides(provider, window), columns

    async def run() -> None:
        first, hidden, columns = await live("w1")
        second, again, fresh = await live("w2")
        assert second.manifest.coin_period == first.digest
        assert second.manifest.coin.c_coin == first.manifest.coin.c_coin
        assert again == hidden
        assert all(fresh[tenant] != columns[tenant] for tenant in columns)
        third, other, _ = await live("w3", new_coins=True)
        assert third.manifest.coin_period == third.digest
        assert other != hidden
        fourth, newest_coins, _ = await live("w4")
        assert fourth.manifest.coin_period == third.digest
        assert newest_coins == other
        provider = open_provider(tmp_path / "p", clock, coins=True)
        policy = replace(coined_policy(), opens=int(clock.now), closes=int(clock.now) + 600, period_start=NOW)
        more = [Put(Document("later", "a document that came later"))]
        embedder = TrigramEmbedder()
        shape = shape_of(provider.state, embedder)
        apply(provider.state, "acme", more, embed_with(embedder), secrets.token_bytes, shape)
        carried = provider.carried(policy)
        assert carried is not None
        assert carried.digest == third.digest
        new_period(provider.state, "acme", shape, secrets.token_bytes)
        assert provider.carried(policy) is None  # its documents stand where others stood under these coins
        provider.commit(policy, "w5")
        assert provider.journal.history.named("w5").manifest.coin_period not in (first.digest, third.digest)
        assert provider.carried(policy) is None  # whose beacon never came: it threw no coins
        provider.close()

    asyncio.run(run())
