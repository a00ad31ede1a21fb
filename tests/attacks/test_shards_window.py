# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows whose indices are three shards, on the wire: honest ones pass, and a provider that cheats with a shard fails.

What a single proof says of its shard is attacked in tests/circuits/test_noise_shards.py, and what the proofs of a
record say together in tests/groth16/test_noise_shards.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragseal.backends.group import default_group
from ragseal.kernel import field, proofs
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.coin import coin_context
from ragseal.kernel.errors import AttestationError, ProofError
from ragseal.kernel.opening import powers, prove_opening
from ragseal.kernel.params import R
from ragseal.prover.administration.documents import shape_of
from ragseal.prover.attestation import retrieval
from ragseal.prover.attestation.batch_openings import BatchOpenings
from ragseal.prover.commitment import thinning
from ragseal.prover.commitment.columns import make_version
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.commitment.index import Columns, Version
from ragseal.prover.fsck import fsck
from ragseal.verifier.outcome.outcome import Verdict
from tests.attacks.checks import LINK, OPENINGS, RECORD_SHARDS, without
from tests.attacks.removal import Check
from tests.classes import DECOYS, TINY
from tests.simulator import provider as scene
from tests.simulator.live import Live, live

SHARDS = 3
COLUMNS = POINT_BYTES * scene.DIMENSION  #: bytes of a shard's


def over_shards(folder: Path, documents: int = 0, coins: bool = False, **options: Any) -> Any:
    """A window over three shards, of which an account of acme may ask four questions.

    By default every slot has a document, so that a slot that another index would return has a text to open, too.
    """
    kind = scene.Kind(scene.kind_of(coins).cls, SHARDS)
    count = documents or SHARDS * kind.cls.N
    texts = {
        "texts": lambda tenant: scene.documents(tenant, count),
        "tenants": {"acme": ["alice"], "globex": ["carol"]},
    }
    return live(folder, kind=kind, coins=coins, gain=20, n_max=4, k_max=1, **texts, **options)


def asked(window: Live, questions: int = 1) -> list[Any]:
    with window.client() as client:
        return [client.ask(f"acme report number {n}") for n in range(questions)]


def failed(verdict: Verdict, number: int, match: str) -> None:
    assert verdict.failure is not None, verdict.line()
    assert (verdict.verdict, verdict.failure.number) == ("FAIL", number), verdict.line()
    assert match in verdict.failure.message, verdict.line()


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("coins", [False, True], ids=["plain", "coins"])
def test_an_honest_window_of_a_live_index_passes(coins: bool, tmp_path: Path) -> None:
    """Each tick has columns, and with coins proofs, of every shard; a document that was put is in the next version."""
    with over_shards(tmp_path, documents=100, coins=coins, version_every=60) as window:
        first = asked(window)
        state, made = window.provider.state, scene.Document("acme-late", "acme report of the late shift")
        shape = shape_of(state, scene.TRIGRAMS)
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_honest_window_with_coins_passes(tmp_path: Path) -> None:
    with over_shards(tmp_path, coins=True) as window:
        hidden = secrets_of(window).versions["acme"].thinned.hidden
        parts = {hidden[at : at + DECOYS.N] for at in range(0, len(hidden), DECOYS.N)}
        assert len(parts) == SHARDS, "every shard has coins of its own"
        asked(window)
        window.end_window()
        verdict = window.audited()
        assert verdict.verdict == "PASS", verdict.line()


@pytest.mark.slow
def test_the_coins_of_one_shard_for_all_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of several slots would be hidden in one piece: with eta instead of eta^m."""
    monkeypatch.setattr(
        thinning, "coin_context", lambda manifest, beacon, tenant, _: coin_context(manifest, beacon, tenant)
    )
    with over_shards(tmp_path, coins=True) as window:
        asked(window)
        window.end_window()
        failed(window.audited(), 4, "thinned index of tenant 'acme'")


# One opening ties the C_y of all shards to one embedding: psi is drawn once all of them are there. SPEC B.7.


GROUP = default_group()
D, LINKED_SHARDS, SLOTS = 16, 3, 8
SCORES = GROUP.hash_to_curve(b"scores", SLOTS)
B = GROUP.hash_to_curve(b"blinder", 1)
GENERATORS = GROUP.hash_to_curve(b"generators", D + 1)
FORESEEN = Check(proofs, "shard_weight", lambda here: 1)


def combination(points: bytes, scalars: Sequence[int]) -> bytes:
    return GROUP.msm(points, field.pack([x % R for x in scalars]))


class Provider:
    """Columns of every shard, one question, and the opening of what is said about it."""

    def __init__(self) -> None:
        rng = random.Random(5)
        self.columns = [
            b"".join(combination(SCORES + B, [rng.randrange(-127, 128) for _ in range(SLOTS + 1)]) for _ in range(D))
            for _ in range(LINKED_SHARDS)
        ]
        self.e, self.r = [rng.randrange(-127, 128) for _ in range(D)], rng.randrange(R)
        self.rhos = [rng.randrange(R) for _ in range(LINKED_SHARDS)]
        self.c_e = combination(GENERATORS, [*self.e, self.r])
        self.nonces = field.pack([rng.randrange(R) for _ in range(D + 2)])

    def c_y(self, e: Sequence[Sequence[int]] | None = None) -> list[bytes]:
        own = e or [self.e] * LINKED_SHARDS
        return [
            combination(columns + B, [*one, rho])
            for columns, one, rho in zip(self.columns, own, self.rhos, strict=True)
        ]

    def check(self, c_y: Sequence[bytes], columns: Sequence[bytes] | None = None) -> None:
        """Prove the link and verify it, over the columns that the manifest has."""
        record = SimpleNamespace(c_y=b"".join(c_y), signed=SimpleNamespace(request=SimpleNamespace(c_e=self.c_e)))
        items: list[Any] = [SimpleNamespace(record=record)]
        here = proofs.link_context(record.c_y + self.c_e, "acme", b"i" * 32)
        shown = b"".join(columns or self.columns)
        relations = proofs.link_relations(GENERATORS, shown, B, here, items)
        weights = powers(proofs.shard_weight(here), LINKED_SHARDS)
        rho = sum(psi * one for psi, one in zip(weights, self.rhos, strict=True)) % R
        witness = field.pack([x % R for x in (*self.e, self.r, rho)])
        made = prove_opening(GROUP, "link", here, relations, witness, self.nonces)
        proofs.verify_link(GROUP, GENERATORS, b"".join(self.columns), B, here, items, made)


def test_the_honest_one_holds() -> None:
    Provider().check(Provider().c_y())


def test_scores_that_one_shard_gives_and_another_takes_are_refused() -> None:
    """A document is lifted in one shard and an empty slot of another sinks by as much: their sum is what it was."""
    made = Provider()
    first, second, third = made.c_y()
    moved = [
        combination(first + SCORES[:64], [1, 900]),
        combination(second + SCORES[:64], [1, -900]),
        third,
    ]
    with pytest.raises(ProofError, match="the link opening does not hold"):
        made.check(moved)
    with without(FORESEEN):
        made.check(moved)


def test_shards_of_two_embeddings_are_refused() -> None:
    """Two questions whose columns cooperate: what shard 0 has too much of, shard 1 lacks."""
    made = Provider()
    made.columns[1] = made.columns[0]
    up, down = [made.e[0] + 9, *made.e[1:]], [made.e[0] - 9, *made.e[1:]]
    c_y = made.c_y([up, down, made.e])
    with pytest.raises(ProofError, match="the link opening does not hold"):
        made.check(c_y)
    with without(FORESEEN):
        made.check(c_y)


def test_shards_in_another_order_are_refused() -> None:
    made = Provider()
    first, second, third = made.c_y()
    with pytest.raises(ProofError, match="the link opening does not hold"):
        made.check([second, first, third])
    turned = Provider()
    turned.columns = [made.columns[1], made.columns[0], made.columns[2]]
    turned.rhos = made.rhos
    with pytest.raises(ProofError, match="the link opening does not hold"):
        made.check(turned.c_y(), turned.columns)
    with without(FORESEEN):
        made.check(turned.c_y(), turned.columns)


def test_another_number_of_shards_is_refused() -> None:
    made = Provider()
    for wrong in (made.c_y()[:2], [*made.c_y(), made.c_y()[0]]):
        with pytest.raises(ProofError, match="another number of C_y than its index has shards"):
            made.check(wrong)
