# SPDX-License-Identifier: GPL-3.0-or-later
"""A proof by a worker, checked before anybody gets it: a bad worker costs time only.

Where a worker gives a wrong proof, or says that there is none, the provider makes the proof itself: if that holds the
worker is dropped, and if it fails as well the fault is the key's, as it would be without workers (SPEC A.9.5, B.12).  A
worker that lies can so neither stop a key nor put anything into the provider's state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ragseal.groth16.provers import Backend, Inputs
from ragseal.kernel.errors import ProofError
from ragseal.kernel.printable import printable
from ragseal.prover.workers.interface import UnreachedError, Work, Workers

log = logging.getLogger("ragseal.provider")


def checked_proof(
    workers: Workers,
    turns: AbstractContextManager[object],
    own: Callable[[], Backend[Any, Any]],
    circuit: str,
    key: bytes,
    assignment: Inputs,
    check: Callable[[bytes], None],
    asked: bool,
) -> bytes:
    """A proof that holds.  Blocks.

    Args:
        turns: held while the provider proves itself, which takes every core.
        own: the provider's own back end for this key.
        check: raises ProofError where a proof does not hold for the statement at hand.
        asked: somebody waits for it: without a worker the provider makes it itself.

    Raises:
        ProofError: the statement cannot be proven under this key.
        ConfigurationError: the provider cannot load its key; nothing was proven.
        UnreachedError: no worker finished it, and nobody ``asked``.
        StoppingError: the provider is stopping.
    """
    try:
        made = workers.prove(Work(circuit, key, assignment.packed()))
    except UnreachedError as error:
        if not asked:
            raise
        log.warning("the provider makes a proof that is asked for itself: %s", error)
        return _own_proof(turns, own, assignment, check)
    why = f"it says that it cannot prove: {printable(made.failure)}"
    if not made.failure:
        try:
            check(made.proof)
            return made.proof
        except ProofError as error:
            why = f"its proof does not hold: {error}"
    proof = _own_proof(turns, own, assignment, check)
    workers.drop(made.worker, why)
    return proof


def _own_proof(
    turns: AbstractContextManager[object],
    own: Callable[[], Backend[Any, Any]],
    assignment: Inputs,
    check: Callable[[bytes], None],
) -> bytes:
    backend = own()  # outside the turn: it may be a minute until it is loaded
    with turns:
        proof = backend.prove(assignment)
        check(proof)
        return proof
