# SPDX-License-Identifier: GPL-3.0-or-later
"""What engines and scores are asked: refused alike by the native module and by plain Python, before either computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragseal.kernel import field
from ragseal.kernel.classes import Asked, AttestationClass
from ragseal.kernel.errors import AttestationError

SCORE_LIMIT = 1 << 40  #: native/src/elements.rs: scores w, and H, stay below

Scores = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """What a policy makes of a score y_i, w_i = gain (y_i - lo), and what it asks of the law."""

    lo: int
    gain: int
    asked: Asked


def check_asked(cls: AttestationClass, key: int, w: Scores, asked: Asked) -> None:
    """What a query may ask of an engine: a key of the field, scores of whole shards, and what the class holds.

    Raises:
        EncodingError: |key| >= r.
        AttestationError: other scores than an array of integers of the class's shape, each below SCORE_LIMIT in size;
            something that the class does not take.
    """
    field.to_bytes(key)
    if w.dtype.kind not in "iu" or not w.size or w.size % cls.N or w.size > cls.S * cls.N:
        raise AttestationError(f"{w.size} scores are not those of 1 to {cls.S} shards of {cls.N} slots")
    if not (w > -SCORE_LIMIT).all() or not (w < SCORE_LIMIT).all():
        raise AttestationError("a score is out of range")
    cls.check_asked(asked, w.size // cls.N)


def int8_entries(e: Sequence[int] | npt.NDArray[np.int8], dimension: int) -> npt.NDArray[np.int8]:
    """The entries of an embedding.

    Raises:
        AttestationError: another number of them, or one that is no integer in [-128, 127].
    """
    found = np.asarray(e)
    if found.shape != (dimension,):
        raise AttestationError(f"{found.size} entries of e, {dimension} expected")
    if found.dtype.kind not in "iu" or not ((found >= -128) & (found <= 127)).all():
        raise AttestationError("an entry of e is no integer in [-128, 127]")
    return found.astype(np.int8)
