# SPDX-License-Identifier: GPL-3.0-or-later
"""Every decoder, given anything: an AuditError, or exactly what it was given when written again.

The messages are found by importing the whole product, so a new one is fuzzed without anybody thinking of it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragseal.kernel.encoding import Blob, Message, Reader
from tests.fuzz import corpus, grow
from tests.fuzz.corpus import Seeds, kept
from tests.fuzz.grow import LARGEST, named
from tests.fuzz.mutation import mutated
from tests.fuzz.samples import message_kinds, sample
from tests.fuzz.targets import Target, outcome, targets

pytestmark = pytest.mark.slow

TARGETS = {target.name: target for target in targets()}


@pytest.mark.parametrize("name", TARGETS)
def test_corpus(name: str) -> None:
    """What once was interesting, and real encodings, which are accepted."""
    target = TARGETS[name]
    replay(target, kept(name))
    for seed in target.seeds():
        assert outcome(target, seed) == "accepted", outcome(target, seed)


def replay(target: Target, seeds: Seeds) -> None:
    """Every seed through its target; what fails says which one it was."""
    for name, data in seeds.items():
        try:
            outcome(target, data)
        except Exception as error:
            error.add_note(f"seed {name} of target {target.name} ({len(data)} bytes) in {corpus.PATH}")
            raise


def test_a_seed_that_fails_is_named() -> None:
    def crashes(data: bytes) -> bytes:
        return bytes([data[1]]) + data[1:]

    seeds = {"seed-00": b"aab", "seed-01": b"", "seed-02": b"ab"}
    target = Target("some", crashes, list)
    with pytest.raises(IndexError) as failed:
        replay(target, seeds)
    assert failed.value.__notes__[0].startswith("seed seed-01 of target some (0 bytes) in ")
    del seeds["seed-01"]
    with pytest.raises(AssertionError, match="written as other ones") as other:
        replay(target, seeds)
    assert other.value.__notes__[0].startswith("seed seed-02 of target some (2 bytes)")


def test_the_corpus_is_kept_for_every_target() -> None:
    """A new message or format needs its corpus: ``python -m tests.fuzz.grow NAME``."""
    stored = corpus.read()
    assert set(stored) == set(TARGETS), set(stored) ^ set(TARGETS)
    seeds = [(name, data) for own in stored.values() for name, data in own.items()]
    assert not [name for name, _ in seeds if name.startswith("crash-")]
    assert all(len(data) <= LARGEST for _, data in seeds)


def test_a_corpus_has_one_form(tmp_path: Path) -> None:
    """Seeds in another order, twice or in capitals are refused: two branches store one set in one way."""
    path = tmp_path / "corpus.txt"
    made = {"b": {"2": b"\xab", "1": b""}, "a": {"seed-3": b"xyz"}}
    corpus.write(made, path)
    assert path.read_text() == "a seed-3 78797a\nb 1 -\nb 2 ab\n"
    assert corpus.read(path) == made
    for other in ("b 1 -\na seed-3 78797a\n", "b 1 -\nb 1 -\n", "b 2 AB\n", "b 2 ab", "b 1 \n", "b 1\n", "b 1 xy\n"):
        path.write_text(other)
        with pytest.raises(ValueError, match=r"sorted|unpack|hexadecimal"):
            corpus.read(path)
    assert corpus.read(tmp_path / "none") == {}


def test_growing_again_forgets_and_drops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--anew`` forgets the seeds of the named targets; a target that is gone is dropped; the others stay."""
    path = tmp_path / "corpus.txt"
    monkeypatch.setattr(corpus.read, "__defaults__", (path,))
    monkeypatch.setattr(corpus.write, "__defaults__", (path,))
    corpus.write({"gone": {"1": b"x"}, "embedding": {"old": b"\x01"}, "note": {"old": b"n"}}, path)
    monkeypatch.setattr("sys.argv", ["grow", "--seconds", "0", "--anew", "embedding"])
    assert grow.main() == 0
    seeds = {named(seed, "seed-"): seed for seed in TARGETS["embedding"].seeds()}
    assert corpus.read(path) == {"embedding": seeds, "note": {"old": b"n"}}


def test_every_message_is_found() -> None:
    tags = [kind.TAG for kind in message_kinds()]
    assert len(set(tags)) == len(tags), "two messages share a tag: one could pass for the other"
    assert {"manifest", "record", "receipt", "proof-batch", "query-secrets", "exchange", "embedder"} <= set(tags)


def _fuzz(target: Target, seed: int, noise: bytes) -> None:
    rng = random.Random(seed)
    pool = [*kept(target.name).values(), *target.seeds(), noise]
    outcome(target, mutated(rng.choice(pool), rng, rng.choice(pool)))
    outcome(target, noise)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if not target.slow])
@settings(max_examples=60, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 1 << 64), noise=st.binary(max_size=600))
def test_mutations(name: str, seed: int, noise: bytes) -> None:
    _fuzz(TARGETS[name], seed, noise)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.slow])
@settings(max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 1 << 64), noise=st.binary(max_size=300))
def test_mutated_files(name: str, seed: int, noise: bytes) -> None:
    _fuzz(TARGETS[name], seed, noise)


@pytest.mark.parametrize("kind", message_kinds(), ids=lambda kind: kind.TAG)
def test_every_truncation_and_every_extension_is_refused(kind: type[Message]) -> None:
    data = sample(kind, random.Random(kind.TAG)).encode()
    target = TARGETS[f"message-{kind.TAG}"]
    for size in range(len(data)):
        assert outcome(target, data[:size]) != "accepted"
    for more in (b"\x00", data, b"\xff" * 40):
        assert outcome(target, data + more) != "accepted"


@pytest.mark.parametrize("kind", message_kinds(), ids=lambda kind: kind.TAG)
def test_samples_survive_and_differ(kind: type[Message]) -> None:
    """decode(encode(m)) == m for structure-aware random messages; equal bytes are equal messages."""
    seen: dict[bytes, object] = {}
    for number in range(12):
        made = sample(kind, random.Random(number))
        data = made.encode()
        assert kind.decode(data) == made
        assert seen.setdefault(data, made) == made


def test_a_lenient_decoder_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property has teeth: a decoder that takes a length as a mere upper bound, and one that raises ValueError."""
    target = TARGETS["message-index-file"]
    data = target.seeds()[0]

    def lenient(self: Blob, reader: Reader) -> bytes:
        return reader.take(min(int.from_bytes(reader.take(4), "big"), reader.left()))

    with monkeypatch.context() as patch:
        patch.setattr(Message, "encode", lambda self: data)  # its own check of the canonical form is blinded
        patch.setattr(Blob, "read", lenient)
        patch.setattr(Message, "decode", classmethod(lambda cls, given: cls.read(Reader(given))))
        with pytest.raises(AssertionError, match="written as other ones"):
            outcome(target, data + b"\x00")
    with monkeypatch.context() as patch:
        patch.setattr(Blob, "read", lambda self, reader: int(b"x"))
        with pytest.raises(ValueError, match="invalid literal"):
            outcome(target, data)
