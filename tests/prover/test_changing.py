# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider takes another class or embedder: what it keeps, what it refuses, and what a broken-off change leaves."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.embedder import Identity, quantise
from ragseal.groth16.keys import load_key
from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.prover.__main__ import main
from ragseal.prover.commitment import changing, documents
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Delete, Put
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.fsck import fsck
from ragseal.prover.planning import spending
from ragseal.prover.provider import assembly
from ragseal.prover.provider.provider import Backends, Environment, Provider
from ragseal.prover.storage.state import NEXT, SETTINGS, Settings, State, create
from ragseal.prover.wire.operator_remote import Remote
from ragseal.verifier.evidence.evidence import Auditor, ConfiguredKey
from tests.classes import GAUSSIAN, SMALL, TINY
from tests.simulator import provider as scene
from tests.simulator.auditing import configured, sealed
from tests.simulator.keys import ESTIMATE, keys_of
from tests.simulator.live import Live

NEW, OTHER = GAUSSIAN, SMALL
COUNT = 20


class Lengths:
    """An embedder of three entries, different from the simulator's."""

    dimension = 3

    def identity(self) -> Identity:
        return scene.TRIGRAMS.identity()

    def embed(self, texts: list[str], **_: object) -> np.ndarray:
        return np.array([[1.0, len(text), 2.0] for text in texts])


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    create(tmp_path / "p", Settings("example.org/rag", TINY.name, "trigrams"), *keys)
    opened = State(tmp_path / "p")
    put = [Put(Document(f"d{i}", f"text {'x' * i}")) for i in range(COUNT)]
    documents.apply(
        opened, "acme", [*put, Delete("d0")], scene.embed_with(scene.TRIGRAMS), secrets.token_bytes, scene.SHAPE
    )
    yield opened
    opened.close()


def change(state: State, name: str = OTHER.name, embedder: str = "lengths") -> dict[str, int]:
    made = replace(state.settings, class_name=name, embedder=embedder)
    model = Lengths() if embedder == "lengths" else scene.TRIGRAMS
    return changing.change(state, made, load_classes()[name], model, secrets.token_bytes, lambda *_: None)


def contents(state: State) -> list[tuple[object, ...]]:
    return state.rows("SELECT document, text, metadata, row, slot, source FROM documents ORDER BY document")


def test_documents_are_read_anew_and_placed_afresh(state: State) -> None:
    before = contents(state)
    assert change(state) == {"acme": COUNT - 1}
    after = contents(state)
    assert [row[:3] for row in after] == [row[:3] for row in before]
    for _, text, _, row, slot, _ in after:
        assert row == quantise(Lengths().embed([str(text)]))[0].tobytes()
        assert 0 <= int(str(slot)) < OTHER.N
    assert len({row[4] for row in after}) == COUNT - 1
    assert state.rows("SELECT * FROM resting") == []
    assert state.rows("SELECT counter, capacity FROM tenants") == [(COUNT - 1, OTHER.N)]
    assert Settings.load(state.directory / SETTINGS) == Settings("example.org/rag", OTHER.name, "lengths")
    assert not (state.directory / NEXT).exists()
    done = documents.apply(
        state, "acme", [Put(Document("new", "a new one"))], lambda texts: quantise(Lengths().embed(list(texts))),
        secrets.token_bytes, IndexShape(OTHER.N, 3),
    )  # fmt: skip
    assert done.added == 1


def test_another_class_alone_keeps_the_vectors(state: State) -> None:
    before = {row[0]: row[3] for row in contents(state)}
    change(state, embedder="trigrams")
    assert {row[0]: row[3] for row in contents(state)} == before


def test_too_many_documents_change_nothing(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    before, settings = contents(state), (state.directory / SETTINGS).read_bytes()
    monkeypatch.setattr(IndexShape, "places", COUNT - 2)
    with pytest.raises(
        CommitmentError, match=rf"19 documents, 1 x class '{OTHER.name}' has 18 places: nothing was changed"
    ):
        change(state)
    assert contents(state) == before
    assert (state.directory / SETTINGS).read_bytes() == settings
    assert not (state.directory / NEXT).exists()


@pytest.mark.parametrize("step", ["transaction", "settings"])
def test_a_change_that_broke_off_is_finished_before_anything_else(
    state: State, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Between the rows of one embedder and the settings of another nothing could tell which is which."""
    real, folder = changing.write_durably, state.directory

    def broken(path: Path, *given: object, **named: object) -> None:
        if step == "settings" and path.name == SETTINGS:
            raise KeyboardInterrupt
        real(path, *given, **named)  # type: ignore[arg-type]
        if step == "transaction" and path.name == NEXT:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(changing, "write_durably", broken)
        with pytest.raises(KeyboardInterrupt):
            change(state)
    state.close()
    with pytest.raises(ConfigurationError, match=r"broke off in .*: `ragseal-provider change` with its options again"):
        State(folder)
    again = State(folder, changing=True)
    assert again.settings.embedder == "trigrams"
    change(again, name=TINY.name, embedder="trigrams")  # and not to what was meant first
    again.close()
    with State(folder) as found:
        rows = [row for _, _, _, row, _, _ in contents(found)]
        texts = [str(text) for _, text, _, _, _, _ in contents(found)]
        assert rows == [one.tobytes() for one in scene.embed_with(scene.TRIGRAMS)(texts)]


def test_the_command_takes_a_class_that_there_is(tmp_path: Path) -> None:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, [arguments[0], "--state", str(tmp_path / "p"), *arguments[1:]])

    assert run("init", "--class", TINY.name, "--origin", "example.org/rag").exit_code == 0
    refused = run("change", "--class", "of-nobody")
    assert refused.exit_code != 0
    assert "this release has no circuit class 'of-nobody'" in refused.output
    settings = tmp_path / "p" / SETTINGS
    for name in (TINY.name, "noise-tiny-two"):  # as it is, and a folder of 0.3.0 whose windows are retired
        settings.write_text(settings.read_text().replace(f'"{TINY.name}"', f'"{name}"'))
    done = run("change", "--class", OTHER.name, "--json")
    assert done.exit_code == 0, done.output
    assert Settings.load(tmp_path / "p" / SETTINGS) == Settings("example.org/rag", OTHER.name, "minilm")


# --- windows ---------------------------------------------------------------------------------------------------------


class Later(Live):
    """The same provider after the change, with keys of its new class."""

    def __init__(self, before: Live) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.clock, self.folder, self._publish = before.clock, before.folder, 0.0
        state, keys = State(before.folder / "provider"), keys_of(NEW)
        ring = assembly.open_keys(state, NEW, lambda _: None)
        scene.install(ring, keys)
        state.remember_auditor(keys.digest, scene.AUDITOR)
        rings = assembly.open_estimate_keys(state, lambda _: None)
        scene.install(next(one for one in rings if one.cls == ESTIMATE), keys_of(ESTIMATE))
        tools = Backends(default_group(), open_engine(NEW), ring, scene.TRIGRAMS, estimate_keys=rings)
        self.provider = Provider(state, tools, Environment(clock=self.clock))
        values = {
            "class": NEW.name, "claim": "every-list", "lo": 0.2, "hi": 0.9, "gain": 2, "n_max": 6, "k_max": 2,
            "delta": "1/1000000", "period_start": scene.NOW,
        }  # fmt: skip
        binding = Binding(NEW, class_digest(NEW), scene.DIMENSION, int(self.clock.now))
        self.policy = read_policy(values, binding, assembly.advertised_epsilon)
        self.provider.commit(self.policy, "w2")
        self.log = self.provider.state.log_signer.verifier
        self.log_key = self.log.vkey()
        self.start()
        self.open()

    def auditor(self) -> Auditor:
        keys, digest = keys_of(NEW), class_digest(NEW)
        known = ConfiguredKey(keys.digest, NEW.name, digest, "auditor", lambda: load_key(keys.directory, NEW))
        window = self.window.digest
        return configured(
            self.log, scene.AUDITOR_KEY, nonces={window: b"a" * 32}, released={window: sealed(self.window)},
            classes={TINY.name: (TINY, class_digest(TINY)), NEW.name: (NEW, digest)},
            keys={keys.digest: known},
        )  # fmt: skip


@pytest.mark.slow
def test_the_next_window_is_of_the_new_class_and_the_old_one_is_audited_as_before(tmp_path: Path) -> None:
    first = Live(tmp_path, period_start=scene.NOW)
    ended = False
    try:
        with first.client() as client:
            client.ask("report about topic 3")
        history = first.provider.journal.history
        with pytest.raises(CommitmentError, match=r"window 'w1' is kept to answer again.*Nothing was changed"):
            changing.require_retired(first.provider.state, history)
        first.clock.now += 600
        first.end_window()
        with pytest.raises(CommitmentError, match=r"retire w1 --yes"):
            changing.require_retired(first.provider.state, history)
        before, auditor, window = first.audited(), first.auditor(), first.window
        assert before.verdict == "PASS", before.line()
        with Remote(first.folder / "provider") as there:
            there.retire("w1", True, False, lambda *_: None)
        ended = True
        first.end()
        with State(first.folder / "provider") as state:
            made = replace(state.settings, class_name=NEW.name)
            changing.change(state, made, NEW, scene.TRIGRAMS, secrets.token_bytes, lambda *_: None)
        later = Later(first)
        try:
            with later.client() as client:
                assert client.ask("report about topic 3").record.seq == 0
            history = later.provider.journal.history
            spent = spending.spending(list(history.windows.values()), assembly.circuit_class, later.policy, 3, b"")
            assert [one["window"] for one in spent["windows"]] == ["w1", "w2"]
            later.clock.now += 60
            later.end_window()
            verdict = later.audited()
            assert verdict.verdict == "PASS", verdict.line()
            assert fsck.examine(later.provider, True).findings == []
            later.window = window
            numbers, scope = later.audited(auditor).line().split(" left_out=1 epsilon_log=unknown ")
            assert f"{numbers} left_out=0 {scope}" == before.line(), "nothing of the window itself is said otherwise"
        finally:
            later.end()
    finally:
        if not ended:
            first.end()
