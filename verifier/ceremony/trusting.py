# SPDX-License-Identifier: GPL-3.0-or-later
"""When an auditor takes the keys of a ceremony: all of it holds, and it knows one of the parties.  SPEC A.9.16."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragseal.kernel.errors import AuditError, ConfigurationError, ProofError
from ragseal.kernel.printable import printable
from ragseal.verifier.base.named_key import named_key
from ragseal.verifier.ceremony.checking import Checked, Checker, Party, Tell
from ragseal.verifier.ceremony.folder import SUFFIX, Folder
from ragseal.verifier.evidence.evidence import CEREMONY
from ragseal.verifier.folder.key_entries import KeyEntry
from ragseal.verifier.folder.state import State

MYSELF = "this auditor"


@dataclass(frozen=True, slots=True)
class Known:
    """Somebody whom the auditor trusts to have forgotten a secret."""

    name: str  #: as the auditor calls it; empty: as it called itself
    key: bytes

    @classmethod
    def read(cls, text: str) -> Known:
        """From NAME=KEY or KEY.  Raises ConfigurationError: no key in it."""
        name, _, key = text.rpartition("=")
        try:
            return cls(name.strip(), named_key(key, "--knows"))
        except AuditError:
            raise ConfigurationError(
                f"--knows {printable(text)[:80]!r}: a name proves nothing, anybody can write it into a folder; give "
                "NAME=KEY with the public key that this party itself gave you, 64 hexadecimal digits or a PEM file"
            ) from None


@dataclass(frozen=True, slots=True)
class Taken:
    """Keys that an auditor took from a ceremony."""

    checked: Checked
    known: Sequence[tuple[str, Party]]  #: name, and the round
    lines: Sequence[KeyEntry]


def take_keys(
    state: State,
    path: Path,
    powers: Path,
    published: str | None,
    knows: Sequence[str],
    beacon: str | None,
    cache: Path,
    tell: Tell,
) -> Taken:
    """Check a ceremony's folder and configure its keys as the ceremony's.

    Args:
        published: BLAKE2b-512 of the powers' file as its own ceremony published it.
        knows: NAME=KEY or KEY of parties; this auditor's own identity is known anyway.
        beacon: the beacon's bytes in hexadecimal, as the auditor knows them from elsewhere.

    Raises:
        ConfigurationError: something that only the auditor can say is missing; a key is configured as somebody else's.
        ProofError, AttestationError: the ceremony does not hold, is not finished, ends with another beacon, or nobody
            of those who are known contributed.
    """
    if published is None:
        raise ConfigurationError(
            "--powers-hash: give the BLAKE2b-512 hash that the powers' own ceremony published for this file; anyone "
            "who knows tau can forge, so somebody whom you trust has to vouch for the first phase too"
        )
    known = [Known.read(text) for text in knows]
    folder = Folder(path)
    folder.rounds()
    checker = Checker(folder, powers, published, cache, tell)
    with checker.scratch() as at:
        found = checker.check(at)
        check_end(found, beacon)
        parties = who_is_known(found, known, state.public_key)
        for digest in found.keys.values():
            state.check_origin(digest, CEREMONY)
        said = record(found, parties, int(time.time()))
        lines = [
            state.import_key(
                at / (subject.name + SUFFIX),
                subject.cls,
                subject.circuit.digest,
                bytes.fromhex(found.keys[subject.name]),
                CEREMONY,
                said,
            )
            for subject in checker.subjects
        ]
    return Taken(found, parties, lines)


def check_end(found: Checked, beacon: str | None) -> None:
    """The ceremony is finished, with the beacon that is expected.  Raises ProofError: it is not."""
    if not found.beacon:
        raise ProofError(
            "the ceremony is not finished: no beacon ends it, and somebody may still contribute; `ceremony finish` "
            "ends it"
        )
    ended = found.beacon.partition(",")[0]
    if beacon is not None and beacon.lower() != ended:
        raise ProofError(
            f"the ceremony ends with the beacon {ended}, not with the one that you expect: the party that chose it "
            "may have chosen the key"
        )


def who_is_known(found: Checked, known: Sequence[Known], own: bytes) -> list[tuple[str, Party]]:
    """The contributions that somebody signed whom the auditor knows; a beacon is nobody's.

    Raises:
        ProofError: one who is known took no part, or nobody is known.
    """
    signed = [one for one in found.parties if one.key is not None and not one.beacon]
    for one in known:
        if all(party.key != one.key for party in signed):
            raise ProofError(
                f"{printable(one.name) or 'the key'} ({one.key.hex()[:16]}) signed no contribution of this ceremony: "
                "it took no part, or its contribution was dropped; ask it"
            )
    names = {own: MYSELF, **{one.key: one.name for one in known}}
    parties = [(names[one.key] or one.name, one) for one in signed if one.key in names]
    if not parties:
        raise ProofError(
            "you know none of the parties: a party that made all contributions knows every secret and can forge; give "
            "--knows NAME=KEY of one whom you trust, or contribute yourself before the ceremony ends"
        )
    return parties


def record(found: Checked, parties: Sequence[tuple[str, Party]], now: int) -> str:
    """What the auditor relied on, as its signed line of keys.json keeps it."""
    values = {
        "ceremony": found.description.digest.hex(),
        "known": [
            {"name": name, "key": (one.key or b"").hex(), "round": one.number, "contributions": dict(one.hashes)}
            for name, one in parties
        ],
        "rounds": len(found.parties),
        "beacon": found.beacon,
        "powers": {"digest": found.description.powers, "blake2b": found.powers_file},
        "checked": now,
    }
    return json.dumps(values, sort_keys=True)
