# SPDX-License-Identifier: GPL-3.0-or-later
"""What an auditor of a live provider believes: the simulator's real keys of a class, its estimate and its coins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits.circuit import class_digest
from ragseal.groth16.keys import load_key
from ragseal.kernel import signature
from ragseal.kernel.beacon import PROVIDER, seal_digest
from ragseal.kernel.classes import AttestationClass
from ragseal.ledger.note import NoteVerifier
from ragseal.prover.storage.window import Window
from ragseal.verifier.evidence.evidence import Auditor, ConfiguredKey
from tests.classes import TINY
from tests.simulator.keys import ESTIMATE, keys_of, thinning_backend


def configured(
    log: NoteVerifier, key: Ed25519PrivateKey, made_by: str = "auditor", *, cls: AttestationClass = TINY, **more: Any
) -> Auditor:
    """An auditor with these keys and no part in any beacon; ``more`` as of :class:`Auditor`."""
    own, joint, coins = keys_of(cls), keys_of(ESTIMATE), thinning_backend().key

    def known(digest: bytes, shape: Any, load: Callable[[], Any]) -> ConfiguredKey[Any]:
        return ConfiguredKey(digest, shape.name, class_digest(shape), made_by, load)

    values: dict[str, Any] = {
        "log_key": log,
        "classes": {cls.name: (cls, class_digest(cls))},
        "keys": {own.digest: known(own.digest, cls, lambda: load_key(own.directory, cls))},
        "identity": signature.public_bytes(key),
        "nonces": {},
        "released": {},
        "drawn": {},
        "estimates": (known(joint.digest, ESTIMATE, lambda: load_key(joint.directory, ESTIMATE)),),
        "thinnings": {coins.digest: known(coins.digest, coins.cls, lambda: coins)},
        "sign": lambda ask: ask.sign(key),
    }
    return Auditor(**values | more)


def sealed(window: Window) -> bytes:
    """What an auditor's nonce was released for, by the window's seal."""
    assert window.seal is not None
    committed = {PROVIDER: window.manifest.beacon_commitment}
    committed |= {owner: commit.commitment for owner, commit in window.commits.items()}
    return seal_digest(window.digest, [(owner, committed[owner]) for owner in window.seal.owners])
