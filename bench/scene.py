# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider for benches and crash tests: a state folder made by the real phase A, queries, and their vectors.

Vectors come from the default embedder once and then from a table: measurements can so tell the embedder's cost from
the provider's own, and a process that is killed a thousand times need not load a model a thousand times.  The tests'
simulator has an embedder of its own, a clock that stands and no process: nothing of it could be measured.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.asker import AUDITOR_KEY
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.demo.large import nothing_to_embed, synthetic
from ragseal.embedder import Identity, Vectors, load_embedder, quantise
from ragseal.embedder.interface import Progress, Role
from ragseal.groth16.keys import make_keys
from ragseal.kernel import signature
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment import documents, registry
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.provider import assembly
from ragseal.prover.provider.backends import Environment
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage.state import Settings, State, create

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "var"
ORIGIN, TENANT = "ragseal.example/bench", "acme"
QUERIES = [f"which report speaks of topic {i}, and what does it say about it?" for i in range(64)]


def account_key(name: str) -> Ed25519PrivateKey:
    """The signing key of a bench account: a function of its name, so that every process knows it."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"bench account " + name.encode()).digest())


def account_names(count: int) -> list[str]:
    return [f"account-{i:03d}" for i in range(count)]


class TableEmbedder:
    """The default embedder's vectors of :data:`QUERIES`, from a file that it made before."""

    def __init__(self, table: Path) -> None:
        self._real = load_embedder()
        if not table.exists():
            table.parent.mkdir(parents=True, exist_ok=True)
            partial = table.with_name(f".{table.name}.{os.getpid()}.npy")
            np.save(partial, self._real.embed(QUERIES, role="query"), allow_pickle=False)
            os.replace(partial, table)
        self._vectors = dict(zip(QUERIES, np.load(table, allow_pickle=False), strict=True))

    @property
    def dimension(self) -> int:
        return self._real.dimension

    def identity(self) -> Identity:
        return self._real.identity()

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: Progress | None = None) -> Vectors:
        """Vectors of known queries; ConfigurationError for any other text."""
        try:
            return np.stack([self._vectors[text] for text in texts])
        except KeyError:
            raise ConfigurationError("the bench's table holds the vectors of its own queries only") from None


def table_path() -> Path:
    return CACHE / "bench" / f"queries-{hashlib.sha256(repr(QUERIES).encode()).hexdigest()[:16]}.npy"


def make_state(
    directory: Path,
    class_name: str,
    accounts: int,
    n_max: int,
    count: int = 60,
    version_every: int = 0,
    shards: int = 1,
    filled: int = 0,
) -> None:
    """A provider's state with one committed window, as ``init``, ``documents put`` and so on make it.

    Args:
        count: documents that are embedded.
        version_every: seconds between two versions of the index; 0: there is one.
        shards: of the class, that the index is.
        filled: documents with random vectors, beside them.
    """
    cls = load_classes()[class_name]
    built = build(cls, CACHE / "build")
    keys = make_keys(built.r1cs, cls, class_digest(cls), CACHE / "keys")
    settings = Settings(ORIGIN, class_name, "minilm", shards)
    create(directory, settings, Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate())
    state = State(directory)
    try:
        tools = assembly.assemble(state, lambda _: None)
        tools.keys.folder(keys.digest).symlink_to(keys.directory.resolve())
        state.remember_auditor(keys.digest, signature.public_bytes(AUDITOR_KEY))
        texts = [Document(f"report-{i}", f"report {i} speaks of topic {i * 7 % 64}") for i in range(count)]
        embedder, draw = tools.embedder, Environment().draw
        embed = lambda wanted: quantise(embedder.embed(list(wanted)))  # noqa: E731
        shape = IndexShape(shards * cls.N, embedder.dimension)
        documents.apply(state, TENANT, map(Put, texts), embed, draw, shape)
        documents.apply(state, TENANT, synthetic(filled, shape.dimension), nothing_to_embed, draw, shape)
        names = account_names(accounts)
        public = [registry.Registration(name, TENANT, signature.public_bytes(account_key(name))) for name in names]
        registry.add_accounts(state, public)
        provider = Provider(state, tools)
    except BaseException:
        state.close()
        raise
    try:
        values = {
            "class": cls.name, "claim": "every-list", "lo": 0.3, "hi": 0.7, "gain": 1, "n_max": n_max, "k_max": 2,
            "delta": "1/1000000", "version_every": f"{version_every}s" if version_every else 0,
        }  # fmt: skip
        binding = Binding(cls, class_digest(cls), embedder.dimension, int(provider.environment.clock()), shards=shards)
        provider.commit(read_policy(values, binding, assembly.advertised_epsilon), "w1")
    finally:
        provider.close()
