# SPDX-License-Identifier: GPL-3.0-or-later
"""A document is erased and a window retired: nothing of them is left in the folder, and the audit ends as before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.backends.group import default_group
from ragseal.circuits.circuit import class_digest
from ragseal.groth16.keys import load_key
from ragseal.kernel import signature
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.storage.retirement import DEFAULT_RETAIN
from ragseal.verifier.evidence import Auditor, ConfiguredKey
from ragseal.verifier.remote import RemoteEvidence
from ragseal.verifier.steps.sample import Sample
from ragseal.verifier.verification import Environment, Verdict, audit
from tests.crash.crash_scene import examine
from tests.simulator import provider as scene
from tests.simulator.keys import ESTIMATE, THINNING, TINY, keys_of, thinning_backend
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow

MARK = "marker-9f2c the will of Aunt Augusta"
DAY = 86400


def texts(tenant: str) -> list[Document]:
    """One document that nothing else is like, and others."""
    return [*scene.documents(tenant, 30), Document(f"{tenant}-marked-id-77", f"{tenant} {MARK}")]


def row_of(tenant: str) -> bytes:
    """The marked document's quantised row."""
    return scene.embed_with(scene.TRIGRAMS)([f"{tenant} {MARK}"])[0].tobytes()


def found_in(folder: Path, *needles: bytes) -> list[tuple[str, bytes]]:
    """Every file of a folder that holds one of these bytes."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [(path.name, one) for path in files if "keys" not in path.parts for one in needles
            if one in path.read_bytes()]  # fmt: skip


def marks(tenant: str = "acme") -> tuple[bytes, ...]:
    return f"{tenant} {MARK}".encode(), f"{tenant}-marked-id-77".encode(), row_of(tenant)


def folder_of(made: Live) -> Path:
    return made.folder / "provider"


def close(made: Live) -> None:
    proof = signature.sign(made.provider.state.key, "close", made.window.digest)
    made.call(made.server.serving.close_window(made.window.digest, proof))


def audited(made: Live, sample: Sample | None = None) -> Verdict:
    """The verdict of the window's auditor."""
    digest, keys = class_digest(TINY), keys_of(TINY)
    blocks = keys_of(ESTIMATE)
    coin = thinning_backend().key if made.window.manifest.coins else None
    auditor = Auditor(
        made.log,
        {"tiny": (TINY, digest)},
        {keys.digest: ConfiguredKey(keys.digest, "tiny", digest, "auditor", lambda: load_key(keys.directory, TINY))},
        made.auditor,
        {made.window.digest: b"a" * 32},
        {made.window.digest: made.window.beacon},
        {made.window.digest: 0},
        estimates=(
            ConfiguredKey(
                blocks.digest, ESTIMATE.name, class_digest(ESTIMATE), "auditor",
                lambda: load_key(blocks.directory, ESTIMATE),
            ),
        ),
        thinnings={} if coin is None else {
            coin.digest: ConfiguredKey(coin.digest, THINNING.name, class_digest(THINNING), "auditor", lambda: coin)
        },
        sign=lambda ask: ask.sign(scene.AUDITOR_KEY),
    )  # fmt: skip
    around = Environment(default_group(), int(made.clock.now) + 60, lambda: 0.0, random.SystemRandom().randbytes)
    with RemoteEvidence(made.address) as evidence:
        return audit(evidence, auditor, around, window=made.window.manifest.window, sample=sample)


@pytest.fixture(params=[False, True], ids=["every-list", "until-delivered"])
def closed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Live]:
    """A closed window in which accounts asked for the marked document."""
    with live(tmp_path, coins=request.param, texts=texts) as made:
        for name, query in (("alice", f"acme {MARK}"), ("bob", "report about topic 3"), ("carol", f"globex {MARK}")):
            with made.client(name=name) as client:
                client.ask(query)
        made.clock.now += 600
        close(made)
        yield made


def test_a_retired_window_passes_its_audit_and_holds_nothing_any_more(closed: Live) -> None:
    before = audited(closed)
    assert before.verdict == "PASS", before.line()
    state, retiring = closed.provider.state, closed.server.serving.retiring
    found = found_in(folder_of(closed), *marks())
    assert {needle for _, needle in found} == set(marks()), "the needles are the wrong ones"
    from ragseal.prover.administration.remote import Remote

    with Remote(folder_of(closed)) as there:
        told = there.erase_document("acme", "acme-marked-id-77", "art. 17")
        assert told.values["windows"] == 1
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["id"] == "acme-marked-id-77"
        assert listed["purged"] is None
        assert [one["window"] for one in listed["waits_for"]] == ["w1"]
        there.retire("w1", True, False, lambda *_: None)
        (listed,) = there.list_erasures("", "acme-marked-id-77").values["erasures"]
        assert (listed["id"], listed["waits_for"]) == (None, [])
        assert listed["purged"] is not None
        assert there.list_erasures("", "another").values["erasures"] == []
    assert not retiring.pending
    assert found_in(folder_of(closed), *marks()) == []
    after = audited(closed)
    assert after.verdict == "PASS", after.line()
    assert after.line() == before.line()
    closed.restart()
    assert audited(closed).line() == before.line()
    assert state is not closed.provider.state
