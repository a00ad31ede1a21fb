# SPDX-License-Identifier: GPL-3.0-or-later
"""The public vocabularies that this provider's policies name, by root.  SPEC A.14."""

from __future__ import annotations

from functools import lru_cache

from ragseal.kernel.errors import CommitmentError
from ragseal.ledger.vocabulary import Vocabulary, parse_vocabulary
from ragseal.prover.storage.state import State


def keep_vocabulary(state: State, made: Vocabulary) -> None:
    """Keep a vocabulary for the windows whose policy names its root.  Durable on return."""
    with state.transaction() as db:
        db.execute("INSERT OR IGNORE INTO vocabularies VALUES (?, ?)", (made.root, made.encode()))


def stored_vocabulary(state: State, root: bytes, capacity: int) -> Vocabulary:
    """A vocabulary that was kept.

    Raises:
        CommitmentError: none has this root; the message says how to bring it.
    """
    found = state.row("SELECT words FROM vocabularies WHERE root = ?", (root,))
    made = None if found is None else _made(bytes(found[0]), capacity)
    if made is None or made.root != root:
        raise CommitmentError(
            f"this provider has no vocabulary {root.hex()[:16]} of {capacity} slots: `ragseal-provider vocabulary "
            "FILE` takes one in and prints its root"
        )
    return made


@lru_cache(maxsize=4)
def _made(words: bytes, capacity: int) -> Vocabulary:
    """Its tree is made once."""
    return parse_vocabulary(words, capacity)
