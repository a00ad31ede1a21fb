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

from ragseal.kernel import attestation, opening
from ragseal.kernel import commitment as phase_a
from ragseal.kernel.attestation import ProofBatch
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

CHECKS = {"hints": HINTS, "link": LINK, "columns": COLUMNS, "pairing": PAIRING, "exact": EXACT}


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
