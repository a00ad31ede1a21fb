# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks that the attacks are stopped by, each with the way to take exactly it away.

A test of an attack shows both: with every check in place the forged evidence is refused, and with the one check that it
names removed the same evidence is accepted.  ``python -m tests.attacks.liveness`` removes them one by one for the whole
suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ragseal.client import attestation as client
from ragseal.groth16.group import NativeGroup
from ragseal.kernel import attestation, field, opening
from ragseal.kernel import commitment as phase_a
from ragseal.kernel.attestation import ProofBatch
from ragseal.kernel.params import R
from ragseal.verifier import commitment, proofs
from ragseal.verifier.attestation import Logged


def nothing(*_: Any, **__: Any) -> None:
    """A check that holds of anything."""


@dataclass(frozen=True)
class Check:
    """Where a check is looked up, and what stands for it once it is gone."""

    module: Any
    name: str
    instead: Callable[..., Any] = nothing

    def remove(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(self.module, self.name, self.instead)


HINTS = Check(attestation, "verify_hints")
LINK = Check(attestation, "verify_link")
_check_batch = proofs.check_batch


def _whatever_was_delivered(basis: Any, part: Sequence[Logged], batch: ProofBatch) -> None:
    """A batch taken for the records that it names."""
    known = {one.digest: one for one in part}
    _check_batch(basis, [known[entry.record_digest] for entry in batch.entries], batch)


EXACT = Check(proofs, "check_batch", _whatever_was_delivered)
COLUMNS = Check(commitment, "verify_columns")
PAIRING = Check(proofs, "_pairings")

_pick = opening.Relation.pick


def _reduced(relation: opening.Relation, vector: bytes) -> bytes:
    """Responses taken modulo r."""
    values = (int.from_bytes(vector[i : i + 32], "big") % R for i in range(0, len(vector), 32))
    return _pick(relation, field.pack(values))


class _Anything:
    """Equal to every point."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__


RESPONSES_CANONICAL = Check(opening.Relation, "pick", _reduced)
POINTS_ON_THE_CURVE = Check(NativeGroup, "check")
REQUEST_SIGNED = Check(attestation.SignedRequest, "verify")
CLIENT_OPENS_C_E = Check(client, "embedding_commitment", lambda *_: _Anything())

CHECKS = {
    "hint opening": HINTS,
    "link opening": LINK,
    "column opening": COLUMNS,
    "pairing": PAIRING,
    "exactly the records asked for": EXACT,
    "responses below r": RESPONSES_CANONICAL,
    "points on the curve, no identity": POINTS_ON_THE_CURVE,
    "request signature": REQUEST_SIGNED,
    "C_e opened by the client": CLIENT_OPENS_C_E,
}


@contextmanager
def without(check: Check) -> Iterator[pytest.MonkeyPatch]:
    """Everything inside runs with this check removed."""
    with pytest.MonkeyPatch.context() as patch:
        check.remove(patch)
        yield patch


@contextmanager
def predictable(use: str, chi: int) -> Iterator[None]:
    """Everything inside runs with a chi of this use that does not depend on what it folds."""
    real = opening.fold_challenge

    def fixed(asked: str, context: bytes) -> int:
        return chi if asked == use else real(asked, context)

    with pytest.MonkeyPatch.context() as patch:
        for module in (opening, attestation, phase_a):
            patch.setattr(module, "fold_challenge", fixed)
        yield
