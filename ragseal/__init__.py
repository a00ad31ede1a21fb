# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal: prove, and let anyone check, what a coalition of accounts can learn from private retrieval.

The parts are the folders at the top of the repository: ``ragseal.kernel`` (what prover and verifier compute alike),
``ragseal.prover``, ``ragseal.verifier``, ``ragseal.client``, ``ragseal.ledger``, ``ragseal.embedder`` and
``ragseal.circuits``.  SPEC.md numbers the clauses that docstrings cite.
"""

__version__ = "0.2.0"
