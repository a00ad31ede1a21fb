# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal: prove, and let anyone check, what a coalition of accounts can learn from private retrieval.

An account's code needs one name::

    from ragseal.client import Client

The other parts are programs: ``ragseal-provider`` (:mod:`ragseal.prover`), ``ragseal-verifier``
(:mod:`ragseal.verifier`), ``ragseal-observer`` (:mod:`ragseal.ledger`).  They share :mod:`ragseal.kernel` (what provider
and auditor compute alike, bit for bit), :mod:`ragseal.accounting` (policy to epsilon), :mod:`ragseal.circuits`,
:mod:`ragseal.groth16`, :mod:`ragseal.backends` (native or Python), :mod:`ragseal.embedder`,
:mod:`ragseal.generators` (answers in words) and :mod:`ragseal.runtime`.
The files of spec/ number the clauses that docstrings cite.

In a checkout each of these names is a link to the folder of that name beside this one.

Compatibility: a release says in CHANGELOG.md whether it reads the state folders, logs and messages of the one before it.
Messages carry the protocol's version, and a decoder refuses every other version.  Python names below ``ragseal.client``
that its ``__all__`` lists stay as they are within a minor version; all others may change in any release.
"""

#: pyproject.toml reads it here; `make release` writes it, here and wherever else a version stands.
__version__ = "0.3.0"
