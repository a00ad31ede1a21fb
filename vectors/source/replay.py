# SPDX-License-Identifier: GPL-3.0-or-later
"""An audit of recorded bytes: an auditor made of a vector's input, and a provider that answers what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ragseal.backends.group import default_group
from ragseal.groth16.views import EstimateView
from ragseal.kernel.classes import attestation_class
from ragseal.kernel.errors import TransportError
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.inquiry import Ask
from ragseal.ledger.note import NoteVerifier
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.audit.verification import audit
from ragseal.verifier.evidence.evidence import Auditor, ConfiguredKey, read_receipt
from ragseal.verifier.outcome.outcome import Verdict
from vectors.source.reading import verifying_key_of
from vectors.source.scene import WindowKey
from vectors.source.values import entropy

Json = dict[str, Any]


class Recorded:
    """The provider's side, as a vector holds it."""

    def __init__(self, given: Json) -> None:
        self._given = given
        self._answers = {one["ask"]: one["delivery"] for one in given["asks"]}

    def checkpoint(self) -> bytes:
        return str(self._given["checkpoint"]).encode()

    def cosigned(self) -> None:
        return None

    def entries(self, start: int, stop: int) -> list[bytes]:
        return [bytes.fromhex(one) for one in self._given["entries"][start:stop]]

    def manifest(self, window: str) -> bytes:
        return bytes.fromhex(self._given["signed_manifest"])

    def index_file(self, manifest: bytes, tenant: str) -> bytes:
        return bytes.fromhex(self._given["index_files"][tenant])

    def deliver(self, ask: Ask, proof: bytes) -> bytes:
        answer = self._answers.get(ask.encode().hex())
        if answer is None:
            raise TransportError(f"nothing was recorded for this {ask.TAG}")
        return bytes.fromhex(answer)

    def patiently(self, once: Callable[[], Any]) -> Any:
        return once()


def auditor_of(given: Json, sign: Callable[[Ask], bytes]) -> Auditor:
    """What the auditor of a vector believes without evidence."""
    own = given["auditor"]
    cls = attestation_class(own["class"])
    digest = bytes.fromhex(own["class_digest"])
    key, blocks = bytes.fromhex(own["key"]), bytes.fromhex(own["estimate_key"])
    attestations = WindowKey(key)
    estimates = EstimateView(CLASSES[own["estimate_class"]], verifying_key_of(blocks))
    manifest = bytes.fromhex(own["manifest"])
    return Auditor(
        log_key=NoteVerifier.from_vkey(own["log_key"]),
        classes={cls.name: (cls, digest)},
        keys={
            attestations.digest: ConfiguredKey(
                attestations.digest, cls.name, digest, own["made_by"], lambda: attestations
            )
        },
        identity=bytes.fromhex(own["public_key"]),
        nonces={manifest: bytes.fromhex(own["nonce"])},
        released={manifest: bytes.fromhex(own["released"])},
        drawn={manifest: own["drawn"]},
        estimates=(ConfiguredKey(estimates.digest, estimates.cls.name, bytes(32), own["made_by"], lambda: estimates),),
        sign=sign,
    )


def quiet(number: int, title: str) -> None:
    """Tells nobody how far an audit is."""


def run(
    given: Json, evidence: Any, sign: Callable[[Ask], bytes], progress: Callable[[int, str], None] = quiet
) -> Verdict:
    """The checklist, its asks drawn from the vector's name for randomness."""
    around = Environment(default_group(), given["now"], lambda: 0.0, entropy(given["randomness"]), progress)
    receipts: Sequence[str] = given["receipts"]
    shown = [read_receipt(f"receipt-{i}", bytes.fromhex(one)) for i, one in enumerate(receipts)]
    return audit(evidence, auditor_of(given, sign), around, receipts=shown)


def replayed(given: Json) -> Verdict:
    """The verdict on a vector's input."""
    signatures = {one["ask"]: bytes.fromhex(one["signature"]) for one in given["asks"]}
    return run(given, Recorded(given), lambda ask: signatures.get(ask.encode().hex(), bytes(64)))
