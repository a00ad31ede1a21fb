# SPDX-License-Identifier: GPL-3.0-or-later
"""What the parties have before a window: the auditor its keys, the provider documents, accounts and those keys.

The programs do the same from the command line: `ragseal-verifier init` and `keygen`; `ragseal-provider init`,
`documents put`, `accounts add` and `fetch-keys`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_bytes
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits.build import build, default_cache
from ragseal.circuits.circuit import class_digest, shapes_of
from ragseal.embedder import Embedder, quantise
from ragseal.groth16.keys import KeyPaths, make_keys
from ragseal.kernel.classes import AttestationClass
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.registry import Registration, add_accounts
from ragseal.prover.provider import assembly
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage import state as provider_folder
from ragseal.verifier.evidence.evidence import AUDITOR
from ragseal.verifier.folder.state import State as Auditor

Keys = Mapping[Any, KeyPaths]  #: of each circuit that a class needs: attestation, estimate, thinning


def auditor_with_keys(folder: Path, cls: AttestationClass) -> tuple[Auditor, Keys]:
    """An auditor's identity, and the keys that it makes for a class."""
    auditor, keys = Auditor.create(folder, Ed25519PrivateKey.generate()), {}
    for circuit in shapes_of(cls):
        digest = class_digest(circuit)
        keys[circuit] = make_keys(build(circuit, default_cache()).r1cs, circuit, digest, auditor.directory / "keys")
        auditor.add_key(auditor.line_of(keys[circuit], circuit, digest, AUDITOR))
    return auditor, keys


def provider_with_documents(
    folder: Path, cls: AttestationClass, embedder: Embedder, texts: Sequence[str], registered: Sequence[Registration]
) -> Provider:
    """A provider of one tenant, "acme", with these documents and accounts."""
    settings = provider_folder.Settings("example.org/rag", cls.name, "minilm")
    provider_folder.create(folder, settings, Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate())
    state = provider_folder.State(folder)
    puts = [Put(Document(f"d{i}", text)) for i, text in enumerate(texts)]
    shape = IndexShape(cls.N, embedder.dimension)
    apply(state, "acme", puts, lambda texts: quantise(embedder.embed(texts)), token_bytes, shape)
    add_accounts(state, registered)
    return Provider(state, assembly.assemble(state, lambda text: None))


def take_keys(provider: Provider, keys: Keys, auditor: Auditor, scratch: Path) -> None:
    """The provider checks each proving key against its own circuit and tries it before it keeps it."""
    rings: list[Any] = [provider.backends.keys, *provider.backends.estimate_keys, provider.backends.thinning_keys]
    for ring in rings:
        if ring is not None and ring.cls in keys:
            copy = shutil.copy(keys[ring.cls].zkey, scratch / "copy.zkey")
            ring.install(Path(copy), keys[ring.cls].digest)
    provider.state.remember_auditor(keys[provider.backends.keys.cls].digest, auditor.public_key)
