# SPDX-License-Identifier: GPL-3.0-or-later
"""The random bits of one answer: HMAC-SHA-512 in counter mode under the key of its request's noise.

The key follows from the window's committed seed, its beacon and what is asked (SPEC M.4's key, under a context of its
own), so nobody can draw again, and the same histogram under the same key gives the same words on any machine.
"""

from __future__ import annotations

import hmac

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.transcript import tagged_element

KEY_BYTES = 32
_LABEL = b"ragseal/private-answer/"
_BLOCK = 512  #: bits of one HMAC


def answer_key(seed: tuple[int, int], beacon: int, window: bytes, account: str, count: int, question: str) -> bytes:
    """The key of one answer, 32 bytes.

    Args:
        seed: the window's, as two limbs of 128 bits.
        beacon: the window's.
        window: digest of its manifest, and of the index version where there are several: one key for two histograms
            would be one noise for both.
        account: who asks.
        count: which of its questions this is, counted by its budget: no two have the same.
        question: what is asked, so that a budget which is forgotten lets nobody see one noise under two questions.
    """
    ctx = tagged_element("private-answer", window, account.encode(), count.to_bytes(8, "big"), question.encode())
    return noise_key(seed, beacon, ctx).to_bytes(KEY_BYTES, "big")


class Stream:
    """Uniform bits and integers from a key, each bit used once."""

    def __init__(self, key: bytes) -> None:
        """
        Raises:
            ConfigurationError: a key that is not KEY_BYTES long.
        """
        if len(key) != KEY_BYTES:
            raise ConfigurationError(f"a key of {len(key)} bytes: the noise of an answer takes {KEY_BYTES}")
        self._key = key
        self._counter = 0
        self._held = 0
        self._left = 0

    def bits(self, count: int) -> int:
        """A uniform integer below 2^count."""
        while self._left < count:
            block = hmac.digest(self._key, _LABEL + self._counter.to_bytes(8, "big"), "sha512")
            self._counter += 1
            self._held = self._held << _BLOCK | int.from_bytes(block, "big")
            self._left += _BLOCK
        self._left -= count
        found = self._held >> self._left
        self._held &= (1 << self._left) - 1
        return found

    def below(self, bound: int) -> int:
        """A uniform integer below ``bound``, by drawing again what is not."""
        width = (bound - 1).bit_length()
        while (found := self.bits(width)) >= bound:
            pass
        return found
