# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider whose windows make the claim answers: class noise-tiny-two, a small real embedder, a real generator."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.generators import ExtractiveGenerator, Generator
from ragseal.groth16.keys import load_key
from ragseal.kernel import signature
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.policy import Policy
from ragseal.ledger.vocabulary import Vocabulary, vocabulary
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment import registry
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.commitment.vocabularies import keep_vocabulary
from ragseal.prover.provider import assembly
from ragseal.prover.provider.backends import Backends, Environment
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.state import Settings, State, create
from ragseal.runtime.timer import Timer
from ragseal.verifier.evidence.evidence import Auditor, ConfiguredKey
from tests.simulator.auditing import configured, sealed
from tests.simulator.instants import Instants
from tests.simulator.keys import ESTIMATE, keys_of
from tests.simulator.live import Live
from tests.simulator.provider import (
    AUDITOR,
    AUDITOR_KEY,
    DIMENSION,
    NOW,
    ORIGIN,
    TRIGRAMS,
    Clock,
    account_key,
    embed_with,
    install,
    open_window,
    serving_on,
)

NAME = "noise-tiny-two"
_found = load_classes()[NAME]
assert isinstance(_found, NoiseClass)
CLASS: NoiseClass = _found
SHAPE = IndexShape(CLASS.N, DIMENSION)
TOPICS = ("copper", "harbour", "lantern", "meadow")
WORDS = vocabulary([*TOPICS, *(f"word{i}" for i in range(100))], CLASS.N)
QUESTION = "what does the report say of its topic"


@dataclass
class Counted:
    """The extractive generator, and what it was asked."""

    real: Generator = field(default_factory=lambda: ExtractiveGenerator(TRIGRAMS))
    asked: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.real.name

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        self.asked.append((question, tuple(contexts), tuple(keywords)))
        return self.real.answer(question, contexts, keywords)


def documents(tenant: str, count: int = 24) -> list[Document]:
    """Reports of which two in three are about copper and the harbour."""
    return [
        Document(
            f"{tenant}-{i}", f"The report number {i} says: {'copper harbour' if i % 3 else 'lantern meadow'} word{i}"
        )
        for i in range(count)
    ]


def answers_policy(**changes: object) -> Policy:
    """``changes`` as in a policy file."""
    values = {
        "class": NAME, "claim": "answers", "lo": 0, "hi": 20, "gain": 12, "n_max": 4, "k_max": 2, "delta": "1/1000000",
        "estimate": "report", "vocabulary": WORDS.root.hex(), "words_max": 3, "participations": 3, "similarity": 6e-5,
        "answered_by": "30s",
    }  # fmt: skip
    binding = Binding(CLASS, class_digest(CLASS), DIMENSION, NOW)
    return read_policy({**values, **changes}, binding, assembly.advertised_epsilon)


def answering_provider(
    directory: Path,
    clock: Clock | None = None,
    generator: Generator | None = None,
    words: Vocabulary = WORDS,
    estimate: bool = False,
    timer: Timer | None = None,
    draw: Draw = secrets.token_bytes,
) -> Provider:
    """A provider on a state folder, which is made where it is missing.

    Args:
        estimate: with a key of that circuit.
        timer: of its answers; by default no instant is waited for.
    """
    if not (directory / "provider.toml").exists():
        own, log = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        create(directory, Settings(ORIGIN, NAME, "trigrams"), own, log)
        state = State(directory)
        for tenant, names in {"acme": ["alice", "bob"], "globex": ["carol"]}.items():
            apply(state, tenant, map(Put, documents(tenant)), embed_with(TRIGRAMS), Environment().draw, SHAPE)
            registry.add_accounts(
                state,
                [registry.Registration(one, tenant, signature.public_bytes(account_key(one))) for one in names],
            )
        keep_vocabulary(state, words)
    else:
        state = State(directory)
    keys = keys_of(CLASS)
    ring = assembly.open_keys(state, CLASS, lambda _: None)
    if install(ring, keys):
        state.remember_auditor(keys.digest, AUDITOR)
    tools = Backends(default_group(), open_engine(CLASS), ring, TRIGRAMS, generator=generator)
    if estimate:
        rings = assembly.open_estimate_keys(state, lambda _: None)
        install(next(one for one in rings if one.cls == ESTIMATE), keys_of(ESTIMATE))
        tools = replace(tools, estimate_keys=rings)
    return Provider(state, tools, Environment(draw, clock or Clock(), timer=timer or Instants().timer))


@asynccontextmanager
async def answering_on(
    directory: Path,
    clock: Clock | None = None,
    generator: Generator | None = None,
    timer: Timer | None = None,
    **policy: object,
) -> AsyncIterator[Serving]:
    """A provider that has just opened a window of answers and serves it."""
    provider = answering_provider(directory, clock, generator, timer=timer)
    provider.commit(answers_policy(**policy), "w1")
    async with serving_on(provider) as serving:
        await open_window(serving)
        yield serving


class AnsweringLive(Live):
    """A provider of answers behind gRPC, whose window is open."""

    def __init__(self, folder: Path, *, timer: Timer | None = None, **policy: object) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.clock, self.folder, self._publish = Clock(), folder, 0.0
        self.instants, self.generator = Instants(), Counted()
        self.provider = answering_provider(
            folder / "provider", self.clock, self.generator, estimate=True, timer=timer or self.instants.timer
        )
        self.provider.commit(answers_policy(**policy), "w1")
        self.log = self.provider.state.log_signer.verifier
        self.log_key = self.log.vkey()
        self.start()
        self.open()

    def auditor(self) -> Auditor:
        keys, digest = keys_of(CLASS), class_digest(CLASS)
        known = ConfiguredKey(keys.digest, NAME, digest, "auditor", lambda: load_key(keys.directory, CLASS))
        window = self.window.digest
        return configured(
            self.log,
            AUDITOR_KEY,
            classes={NAME: (CLASS, digest)},
            keys={keys.digest: known},
            nonces={window: b"a" * 32},
            released={window: sealed(self.window)},
        )
