# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of a ceremony's folder, each with the way to take exactly it away; part of :mod:`tests.attacks.checks`."""

from __future__ import annotations

import base64
import json
from typing import Any

from ragseal.groth16 import contributions
from ragseal.groth16.powers import PowersFile
from ragseal.verifier.ceremony import checking, trusting
from ragseal.verifier.ceremony.attestation import Round
from ragseal.verifier.ceremony.checking import Checker
from ragseal.verifier.ceremony.folder import Folder
from ragseal.verifier.signed import envelope
from tests.attacks.removal import Both, Check, Guard, Removable


def _whoever_signed(data: bytes, *_: Any) -> bytes:
    """An envelope's payload, without a look at its signature."""
    return base64.b64decode(json.loads(data)["payload"])


CEREMONY_COUNT = Guard(Checker, "chain", "contributions where")
CEREMONY_SIZES = Guard(Folder, "take", "it is truncated, oversized or another")
CEREMONY_NO_IDENTITY = Guard(contributions, "_g1", "is the identity or not on the curve")
CEREMONY_CONTINUES = Guard(Checker, "_rounds", "does not list the contributions")
CEREMONY_TRANSCRIPTS = Guard(contributions, "check_chain", "was not made upon the ones before")
CEREMONY_DELTA = Both(
    (Guard(Checker, "_rounds", "delta is not the one"), Guard(contributions, "check_chain", "delta is not the one"))
)
CEREMONY_POINTS = Check(PowersFile, "check_key")
CEREMONY_COEFFICIENTS = Check(checking, "check_coefficients")
CEREMONY_BEGINNING = Check(Checker, "check_begin")
CEREMONY_BEACON = Check(contributions, "_check_beacon")
CEREMONY_ONE_BEACON = Guard(Checker, "_party", "do not have the same beacon")
CEREMONY_ATTESTED = Guard(Round, "check", "than what lies there")
CEREMONY_SIGNED = Check(envelope, "open_sealed", _whoever_signed)
CEREMONY_TOOK_PART = Guard(trusting, "who_is_known", "signed no contribution")
CEREMONY_SOMEBODY_KNOWN = Guard(trusting, "who_is_known", "you know none of the parties")
CEREMONY_ENDS_AS_EXPECTED = Guard(trusting, "check_end", "not with the one that you expect")
CEREMONY_POWERS = Guard(Checker, "__init__", "holds other powers")
CEREMONY_PUBLISHED = Guard(checking, "check_published", "is not the file that was published")
POWERS_OPENED_ONCE = Check(PowersFile, "blake2b", lambda powers: checking.file_hash(powers.path))

CEREMONY_CHECKS: dict[str, Removable] = {
    "ceremony: as many contributions as rounds": CEREMONY_COUNT,
    "ceremony: keys of the size of their circuit": CEREMONY_SIZES,
    "ceremony: points of a contribution are on the curve": CEREMONY_NO_IDENTITY,
    "ceremony: rounds continue each other": CEREMONY_CONTINUES,
    "ceremony: contributions upon the ones before": CEREMONY_TRANSCRIPTS,
    "ceremony: the delta of its contributions": CEREMONY_DELTA,
    "ceremony: points of the powers": CEREMONY_POINTS,
    "ceremony: coefficients of the circuit": CEREMONY_COEFFICIENTS,
    "ceremony: the key that it begins with": CEREMONY_BEGINNING,
    "ceremony: what its beacon gives": CEREMONY_BEACON,
    "ceremony: one beacon for all circuits": CEREMONY_ONE_BEACON,
    "ceremony: attestations of what lies there": CEREMONY_ATTESTED,
    "ceremony: attestations signed": CEREMONY_SIGNED,
    "ceremony: those who are known took part": CEREMONY_TOOK_PART,
    "ceremony: somebody is known": CEREMONY_SOMEBODY_KNOWN,
    "ceremony: the beacon that is expected": CEREMONY_ENDS_AS_EXPECTED,
    "ceremony: its own powers": CEREMONY_POWERS,
    "ceremony: the powers that were published": CEREMONY_PUBLISHED,
    "ceremony: powers opened once": POWERS_OPENED_ONCE,
}
