# SPDX-License-Identifier: GPL-3.0-or-later
"""What engines and scores are asked: refused alike by the native module and by plain Python, before either computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragseal.kernel import field
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import AttestationError

SCORE_LIMIT = 1 << 40  #: native/src/elements.rs: scores w, and H, stay below

Scores = npt.NDArray[np.int64]


def check_asked(cls: AttestationClass, key: int, w: Scores, hmax: int, prizes: int) -> None:
    """What a query may ask of an engine: a key of the field, the class's number of scores, and an H that it holds.

    Raises:
        EncodingError: |key| >= r.
        AttestationError: other scores than an array of integers of the class's shape, each below SCORE_LIMIT in size;
            an H that the class's comparisons do not hold; under the lottery, none of the prizes that the class takes.
    """
    field.to_bytes(key)
    numbers, most = w.dtype.kind in "iu", cls.shards_at_most
    if cls.sharded:
        if not numbers or not w.size or w.size % cls.N or w.size > most * cls.N:
            raise AttestationError(f"{w.size} scores are not those of 1 to {most} shards of {cls.N} slots")
    elif not numbers or w.shape != (cls.N,):
        raise AttestationError(f"{w.size} scores for a capacity of {cls.N}")
    if not (w > -SCORE_LIMIT).all() or not (w < SCORE_LIMIT).all():
        raise AttestationError("a score is out of range")
    least, most = cls.hmax_range
    if not least <= hmax <= most:
        raise AttestationError(f"H is out of range: {hmax}, where class {cls.name!r} holds {least} to {most}")
    if cls.most_prizes and not 1 <= prizes <= cls.most_prizes:
        raise AttestationError(f"{prizes} prizes in {1 << cls.m}: class {cls.name!r} takes 1 to {cls.most_prizes}")


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
