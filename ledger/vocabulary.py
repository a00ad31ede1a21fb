# SPDX-License-Identifier: GPL-3.0-or-later
"""The public vocabulary of the claim answers: a keyword for every slot, and the root that a policy names.  SPEC A.14.

The words are the same for every tenant and come from public data.  They stand in a text file, one a line; slot i has
the i-th, and slots behind the last word have a name and nothing to read.  Their tree is the text tree of an index
(SPEC A.4) without salts, so a keyword is opened as a document's text is, and nothing else opens under the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ragseal.kernel.attestation import TextOpening
from ragseal.kernel.commitment import text_leaf
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.slot_text import MAX_KEYWORD, NO_SALT, SlotText, keyword
from ragseal.ledger.merkle import MerkleTree
from ragseal.runtime import texts

MAX_FILE = 1 << 22


@dataclass(frozen=True)
class Vocabulary:
    """The keywords of a class's N slots."""

    words: tuple[str, ...]
    capacity: int  #: N

    def __post_init__(self) -> None:
        """Raises CommitmentError: no word, more than slots, one twice, or what is no word."""
        if not 1 <= len(self.words) <= self.capacity:
            raise CommitmentError(f"a vocabulary has 1 to {self.capacity} words, one a slot, not {len(self.words)}")
        if len(set(self.words)) != len(self.words):
            twice = next(word for at, word in enumerate(self.words) if word in self.words[:at])
            raise CommitmentError(f"the vocabulary has {twice!r} twice: a keyword is one slot")
        for word in self.words:
            if not 1 <= len(word) <= MAX_KEYWORD or not word.isprintable() or word != word.strip():
                raise CommitmentError(
                    f"{word[:MAX_KEYWORD]!r} is not a keyword: 1 to {MAX_KEYWORD} printable characters without spaces "
                    "around them"
                )

    def content(self, slot: int) -> SlotText:
        """What is read where a slot is returned; a slot without a word has an empty text."""
        return keyword(slot, self.words[slot] if slot < len(self.words) else "")

    @cached_property
    def tree(self) -> MerkleTree:
        return MerkleTree(text_leaf(NO_SALT, slot, self.content(slot)) for slot in range(self.capacity))

    @cached_property
    def root(self) -> bytes:
        """What a policy names."""
        return self.tree.root()

    def open_text(self, slot: int) -> TextOpening:
        """A keyword with its path."""
        return TextOpening(self.content(slot), NO_SALT, tuple(self.tree.path(slot)))

    def encode(self) -> bytes:
        """The file: one word a line."""
        return "".join(f"{word}\n" for word in self.words).encode("utf-8")


def vocabulary(words: Sequence[str], capacity: int) -> Vocabulary:
    """Of these words.  Raises CommitmentError: as :class:`Vocabulary`."""
    return Vocabulary(tuple(words), capacity)


def parse_vocabulary(data: bytes, capacity: int) -> Vocabulary:
    """A vocabulary from what its file holds.

    Raises:
        CommitmentError: too large, no UTF-8, or as :class:`Vocabulary`.
    """
    if len(data) > MAX_FILE:
        raise CommitmentError(f"a vocabulary of more than {MAX_FILE} bytes")
    return vocabulary(_words(texts.text_of(data, "the vocabulary", error=CommitmentError)), capacity)


def read_vocabulary(path: Path, capacity: int) -> Vocabulary:
    """A vocabulary file.  Raises CommitmentError: unreadable, or as :func:`parse_vocabulary`."""
    what = f"the vocabulary {path}"
    return vocabulary(_words(texts.read_text(path, what, most=MAX_FILE, error=CommitmentError)), capacity)


def _words(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")
