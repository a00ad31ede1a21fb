# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows whose indices are three shards, on the wire: honest ones pass, and a provider that cheats with a shard fails.

What a single proof says of its shard is attacked in tests/circuits/test_noise_shards.py, and what the proofs of a
record say together in tests/groth16/test_noise_shards.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.coin import coin_context
from ragseal.kernel.errors import AttestationError
from ragseal.prover.attestation import retrieval
from ragseal.prover.attestation.batch_openings import BatchOpenings
from ragseal.prover.commitment import thinning
from ragseal.prover.commitment.columns import make_version
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.commitment.index import Columns, Version
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.fsck import fsck
from ragseal.verifier.outcome.outcome import Verdict
from tests.attacks.checks import LINK, OPENINGS, RECORD_SHARDS, without
from tests.classes import TINY
from tests.simulator import provider as scene
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow
SHARDS = 3
COLUMNS = POINT_BYTES * scene.DIMENSION  #: bytes of a shard's


def over_shards(folder: Path, documents: int = SHARDS * TINY.N, **options: Any) -> Any:
    """A window over three shards, of which an account of acme may ask four questions.

    By default every slot has a document, so that a slot that another index would return has a text to open, too.
    """
    texts = {
        "texts": lambda tenant: scene.documents(tenant, documents),
        "tenants": {"acme": ["alice"], "globex": ["carol"]},
    }
    return live(folder, kind=scene.Kind(TINY, SHARDS), gain=20, n_max=4, k_max=1, **texts, **options)


def asked(window: Live, questions: int = 1) -> list[Any]:
    with window.client() as client:
        return [client.ask(f"acme report number {n}") for n in range(questions)]


def failed(verdict: Verdict, number: int, match: str) -> None:
    assert verdict.failure is not None, verdict.line()
    assert (verdict.verdict, verdict.failure.number) == ("FAIL", number), verdict.line()
    assert match in verdict.failure.message, verdict.line()


def test_an_honest_window_passes(tmp_path: Path) -> None:
    """Ids are of the whole index, every shard of every record is proven, and a restart changes nothing."""
    with over_shards(tmp_path) as window:
        found = asked(window, 2)
        assert all(len(one.returned) == TINY.K and len(one.record.c_y) == SHARDS * POINT_BYTES for one in found)
        assert max(slot for one in found for slot in one.returned) < SHARDS * TINY.N
        window.restart()
        found += [asked(window)[0] for _ in range(2)]
        window.end_window()
        verdict = window.audited()
        assert verdict.verdict == "PASS", verdict.line()
        assert verdict.steps[3].evidence["capacity"] == SHARDS * TINY.N
        window.stop()
        provider = window._make()
        try:
            assert not fsck.examine(provider, whole=True).findings
        finally:
            provider.close()
        window.restart_after_stop()


@pytest.mark.parametrize("coins", [False, True], ids=["plain", "coins"])
def test_an_honest_window_of_a_live_index_passes(coins: bool, tmp_path: Path) -> None:
    """Each tick has columns, and with coins proofs, of every shard; a document that was put is in the next version."""
    with over_shards(tmp_path, documents=300, coins=coins, version_every=60) as window:
        first = asked(window)
        state, made = window.provider.state, scene.Document("acme-late", "acme report of the late shift")
        shape = IndexShape(SHARDS * TINY.N, scene.DIMENSION)
        apply(state, "acme", [Put(made)], scene.embed_with(scene.TRIGRAMS), window.provider.environment.draw, shape)
        window.clock.now += 60
        window.call(window.server.serving.ticks.step())
        second = asked(window)
        assert [window.window.number_of(one.record.signed.request.index_digest) for one in (*first, *second)] == [1, 2]
        window.end_window()
        verdict = window.audited()
        assert verdict.verdict == "PASS", verdict.line()
        assert verdict.steps[3].evidence["versions_checked"] == 2


# --- another index in one shard --------------------------------------------------------------------------------------


def mixed(own: Columns, other: Columns, from_shard: int, into: int = 1) -> Columns:
    """The columns of an index with one shard of another, or of its own, in the place of one of its shards."""
    matrix = own.matrix.copy()
    matrix[into * TINY.N :][: TINY.N] = other.matrix[from_shard * TINY.N :][: TINY.N]
    blinders = [list(own.blinders[at : at + scene.DIMENSION]) for at in range(0, len(own.blinders), scene.DIMENSION)]
    blinders[into] = list(other.blinders[from_shard * scene.DIMENSION :][: scene.DIMENSION])
    points = [own.points[at : at + COLUMNS] for at in range(0, len(own.points), COLUMNS)]
    points[into] = other.points[from_shard * COLUMNS :][:COLUMNS]
    return Columns(matrix, tuple(np.concatenate(blinders).tolist()), b"".join(points))


def columns_of(version: Version) -> Columns:
    return Columns(version.matrix, version.blinders, version.public.columns)


Source = Callable[[Live, Columns], Columns]
SOURCES: dict[str, Source] = {
    "another tenant": lambda window, own: mixed(own, columns_of(secrets_of(window).versions["globex"]), 1),
    "another version": lambda window, own: mixed(own, columns_of(window.other), 1),  # type: ignore[attr-defined]
    "another shard": lambda _, own: mixed(own, own, 0),
}


def secrets_of(window: Live) -> Any:
    return window.provider.window_secrets(window.window.digest)


@pytest.mark.parametrize("source", SOURCES)
def test_a_shard_of_something_else_is_refused(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores, commitments and proofs are consistent; the columns in one place are those of another index.

    All columns open over the same points, so nothing but the link to the manifest's own columns stands against it.
    """
    with over_shards(tmp_path) as window:
        honest = secrets_of(window).versions["acme"]
        group, key = window.provider.backends.group, window.provider.backends.keys.newest()
        if source == "another version":
            window.other = make_version(  # type: ignore[attr-defined]
                group, key, "acme", honest.matrix[::-1].copy(), {}, window.provider.environment.draw
            )
        swapped = SOURCES[source](window, columns_of(honest))
        real = Version.in_force.func  # type: ignore[attr-defined]
        monkeypatch.setattr(
            Version, "in_force", property(lambda self: swapped if self.tenant == "acme" else real(self))
        )
        asked(window)
        window.end_window()
        failed(window.audited(), 8, "the link opening does not hold")
        with without(LINK):
            verdict = window.audited()
            assert verdict.verdict == "PASS", verdict.line()


# --- commitments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [SHARDS - 1, SHARDS + 1])
def test_a_record_over_another_number_of_shards_is_refused(
    shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the account that gets the answer, and by the auditor before it looks at any proof."""
    real = retrieval.respond

    def cut(*given: Any) -> Any:
        made = real(*given)
        return replace(made, c_y=(made.c_y + made.c_y)[: shards * POINT_BYTES])

    with over_shards(tmp_path) as window:
        monkeypatch.setattr(retrieval, "respond", cut)
        with pytest.raises(AttestationError, match=f"scores of {shards} shards, the window's indices have 3"):
            asked(window)
        window.end_window()
        match = f"it commits to scores of {shards} shards, the window's indices have 3"
        failed(window.audited(), 6, match)
        with without(RECORD_SHARDS):
            assert match not in window.audited().line()


def test_a_batch_without_the_opening_of_its_thresholds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with over_shards(tmp_path) as window:
        asked(window)
        window.end_window()
        made = BatchOpenings.committed
        monkeypatch.setattr(BatchOpenings, "committed", lambda self: made(self)[:-1])
        failed(window.audited(), 8, "the batch has 1 openings, where hints, thresholds are due")
        with without(OPENINGS):
            assert window.audited().verdict == "PASS"


# --- coins -----------------------------------------------------------------------------------------------------------


def test_an_honest_window_with_coins_passes(tmp_path: Path) -> None:
    with over_shards(tmp_path, coins=True) as window:
        hidden = secrets_of(window).versions["acme"].thinned.hidden
        parts = {hidden[at : at + TINY.N] for at in range(0, len(hidden), TINY.N)}
        assert len(parts) == SHARDS, "every shard has coins of its own"
        asked(window)
        window.end_window()
        verdict = window.audited()
        assert verdict.verdict == "PASS", verdict.line()


def test_the_coins_of_one_shard_for_all_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of several slots would be hidden in one piece: with eta instead of eta^m."""
    monkeypatch.setattr(
        thinning, "coin_context", lambda manifest, beacon, tenant, _: coin_context(manifest, beacon, tenant)
    )
    with over_shards(tmp_path, coins=True) as window:
        asked(window)
        window.end_window()
        failed(window.audited(), 4, "thinned index of tenant 'acme'")
