# SPDX-License-Identifier: GPL-3.0-or-later
"""The log's entry that turns its key: which key signs the log from this place on.  SPEC G.6.13.

A log keeps the name that its first key gave it.  A turn is the word of the old key about one place in one history, and
the new key signs it too, so that nobody gives a log a key that is not theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ragseal.kernel import signature
from ragseal.kernel.encoding import HASH, PUBLIC_KEY, SIGNATURE, U8, U64, Codec, Message
from ragseal.kernel.errors import AttestationError, EncodingError
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.transcript import tagged_hash

PURPOSE = "log-rotation"
MAX_TURNS = 64  #: of one log
MAX_OVERLAP = 1 << 20  #: sizes in which a note has a line of the old key as well


@dataclass(frozen=True, slots=True)
class Rotation(Message):
    """The log's entry behind which a different key signs it.  SPEC G.6.13."""

    TAG: ClassVar[str] = "log-rotation"
    CODECS: ClassVar[Sequence[Codec]] = (
        HASH, U8, PUBLIC_KEY, PUBLIC_KEY, U64, HASH, U64, SIGNATURE, SIGNATURE,
    )  # fmt: skip

    log: bytes  #: SHA-256 of the text form of the log's first key
    number: int  #: of the turn in this log, 1 to 64
    old_key: bytes  #: signs the log up to this entry
    new_key: bytes  #: signs it from the size behind this entry on
    index: int  #: of this entry, from 0
    root: bytes  #: of the tree of all entries before it
    until: int  #: notes up to this size have a line of the old key beside the new one's; at most index + 1 + 2^20
    by_old: bytes  #: of the old key, purpose "log-rotation"
    by_new: bytes  #: of the new key, purpose "log-rotation"

    def validate(self) -> None:
        if not 1 <= self.number <= MAX_TURNS:
            raise EncodingError(f"a log's turns are numbered 1 to {MAX_TURNS}, not {self.number}")
        if self.old_key == self.new_key:
            raise EncodingError("a turn's new key is another one than its old key")
        if not self.index < self.until <= self.index + 1 + MAX_OVERLAP:
            raise EncodingError(
                f"the old key signs beside the new one from the size behind the turn, {self.index + 1}, at most "
                f"{MAX_OVERLAP} sizes longer: not up to {self.until}"
            )

    def body(self) -> bytes:
        """What both keys sign."""
        numbers = (number.to_bytes(8, "big") for number in (self.number, self.index, self.until))
        return tagged_hash("log-rotation-body", self.log, *numbers, self.old_key, self.new_key, self.root)

    def signed(self, old: SigningKey, new: SigningKey) -> Rotation:
        """The same under both signatures."""
        body = self.body()
        return replace(self, by_old=signature.sign(old, PURPOSE, body), by_new=signature.sign(new, PURPOSE, body))

    def verify_old(self) -> None:
        """Raises AttestationError unless the old key signed it: then it is that key's word, whoever shows it."""
        try:
            signature.verify(self.old_key, PURPOSE, self.body(), self.by_old)
        except AttestationError as error:
            raise AttestationError(f"the turn of the log's key is not signed by its old key: {error}") from None

    def verify(self) -> None:
        """Raises AttestationError unless both keys signed it."""
        self.verify_old()
        try:
            signature.verify(self.new_key, PURPOSE, self.body(), self.by_new)
        except AttestationError as error:
            raise AttestationError(f"the turn of the log's key is not signed by its new key: {error}") from None

    def says(self) -> str:
        """One sentence for people who read the log."""
        return f"from here on the log is signed by the key {self.new_key.hex()} instead of {self.old_key.hex()}"

    def contradicts(self, other: Rotation) -> bool:
        """Whether both are words of one old key of one log that cannot both be true; signatures are not checked here.

        Two signatures over the same words are no contradiction.
        """
        return (self.log, self.old_key) == (other.log, other.old_key) and self.body() != other.body()
