# SPDX-License-Identifier: GPL-3.0-or-later
"""What a party of a ceremony signs: which keys it was handed, which it made of them, and with which contribution.

DSSE over an in-toto Statement v1 whose subjects are the keys that it made.  What it was handed is named as well, since
a contribution's own proof covers no points: whoever checks the folder checks that very key too.  SPEC A.9.14.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ragseal.kernel.errors import AttestationError, AuditError, EncodingError
from ragseal.kernel.signature import SigningKey
from ragseal.verifier.ceremony.folder import SUFFIX
from ragseal.verifier.signed import envelope, json_text
from ragseal.verifier.signed.statement import PAYLOAD_TYPE, STATEMENT_TYPE

PREDICATE_TYPE = "https://ragseal.example/ceremony-contribution/v1"
MAX_NAME = 64  #: bytes, as snarkjs writes names
BAD = "remove it (the contribution then counts as nobody's), or get the folder anew"


@dataclass(frozen=True, slots=True)
class Made:
    """What a party made of one circuit's key."""

    circuit: str
    before: bytes  #: SHA-256 of the key that it was handed
    after: bytes  #: SHA-256 of the key that it made
    contribution: bytes  #: hash of its contribution, 64 bytes


@dataclass(frozen=True, slots=True)
class Round:
    """What an attestation speaks of."""

    ceremony: bytes  #: digest of its description
    number: int
    name: str
    beacon: bool
    made: Sequence[Made]

    def _parts(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        subjects = [{"name": one.circuit + SUFFIX, "digest": {"sha256": one.after.hex()}} for one in self.made]
        predicate = {
            "ceremony": self.ceremony.hex(),
            "round": self.number,
            "name": self.name,
            "kind": "beacon" if self.beacon else "contribution",
            "circuits": [
                {
                    "class": one.circuit,
                    "before": one.before.hex(),
                    "after": one.after.hex(),
                    "contribution": one.contribution.hex(),
                }
                for one in self.made
            ],
        }
        return subjects, predicate

    def sign(self, identity: SigningKey, now: int) -> bytes:
        """The attestation's file.  ``now``: seconds since 1970."""
        subjects, predicate = self._parts()
        said = {
            "_type": STATEMENT_TYPE,
            "subject": subjects,
            "predicateType": PREDICATE_TYPE,
            "predicate": {**predicate, "issued": datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z")},
        }
        return envelope.seal(PAYLOAD_TYPE, _encoded(said), identity)

    def check(self, data: bytes) -> bytes:
        """The public key that signed an attestation of this very round.

        Raises:
            AttestationError: the signature is not its key's, or it speaks of something else.
        """
        try:
            key = signer(data)
            payload = envelope.open_sealed(data, PAYLOAD_TYPE, key)
            said = json_text.parse(payload)
        except AuditError as error:
            raise AttestationError(f"the attestation of round {self.number:04}: {error}; {BAD}") from None
        subjects, predicate = self._parts()
        if not isinstance(said, dict) or not isinstance(said.get("predicate"), dict):
            said = {"predicate": {}}
        issued = said["predicate"].get("issued")
        wanted = {
            "_type": STATEMENT_TYPE,
            "subject": subjects,
            "predicateType": PREDICATE_TYPE,
            "predicate": {**predicate, "issued": issued},
        }
        if payload != _encoded(wanted) or not isinstance(issued, str):
            raise AttestationError(
                f"the attestation of round {self.number:04} speaks of something else than what lies there"
                f"{self._other(said['predicate'])}: {BAD}"
            )
        return key

    def _other(self, found: dict[str, Any]) -> str:
        _, own = self._parts()
        named = ", ".join(name for name in own if found.get(name) != own[name])
        return f" (other: {named})" if named else ""


def _encoded(statement: dict[str, Any]) -> bytes:
    return json.dumps(statement, allow_nan=False, sort_keys=True).encode()


def signer(data: bytes) -> bytes:
    """The key that an envelope of one signature names, unchecked.

    Raises:
        EncodingError: it names none.
    """
    try:
        key = bytes.fromhex(json.loads(data.decode())["signatures"][0]["keyid"])
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        key = b""
    if len(key) != 32:
        raise EncodingError("it does not name the key that signed it")
    return key
