# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers as a back end, for proofs that are made while something else waits: thinning, updates, blocks.  SPEC B.12."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ragseal.groth16.provers import Backend
from ragseal.groth16.views import EstimateView, ThinningView
from ragseal.kernel import field
from ragseal.kernel.bn254 import Group
from ragseal.prover.workers.checked import checked_proof
from ragseal.prover.workers.interface import Workers
from ragseal.prover.workers.turns import Turns


class ByWorkers:
    """Has each proof made by workers and checks it; without a worker this process makes it."""

    def __init__(
        self,
        workers: Workers,
        turns: Turns,
        group: Group,
        key: EstimateView | ThinningView,
        own: Callable[[], Backend[Any, Any]],
    ) -> None:
        """
        Args:
            turns: whoever calls :meth:`prove` holds a turn, which others have while a worker proves.
            own: this process's own back end for the key.
        """
        self.key: Any = key
        self._workers, self._turns, self._group, self._own = workers, turns, group, own

    def prove(self, assignment: Any) -> bytes:
        """A proof that holds for this assignment.

        The public inputs stand first in it, in the key's order; what the key's bases make of those that are not clear
        is the sum of the commitments that an auditor adds.

        Raises:
            ProofError, ConfigurationError, StoppingError: as :func:`ragseal.prover.workers.checked.checked_proof`.
        """
        key, check = self.key, partial(self._check, assignment)
        with self._turns.handed_on():
            return checked_proof(
                self._workers, self._turns, self._own, key.cls.name, key.digest, assignment, check, asked=True
            )

    def _check(self, assignment: Any, proof: bytes) -> None:
        """Raises ProofError: it does not hold."""
        key, cls = self.key, self.key.cls
        hidden = assignment.packed()[field.FIELD_BYTES * cls.clear : field.FIELD_BYTES * cls.public]
        key.verify_points(
            assignment.clear, self._group.msm(key.bases(cls.clear, cls.public - cls.clear), hidden), proof
        )
