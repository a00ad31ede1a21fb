# SPDX-License-Identifier: GPL-3.0-or-later
"""From float vectors to the protocol's integers.  SPEC M.1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ragseal.embedder.interface import Quantised
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.params import SCORE_UNIT


def quantise(vectors: npt.NDArray[np.floating]) -> Quantised:
    """e = round(127 * v / |v|), ties to even, for every row of ``vectors``.

    Computed in float64 whatever the input's width; the length of a row does not matter, its direction does, so an
    embedder that forgot to normalise gives the same e.  Entries lie in [-127, 127]: -128 never occurs.

    Args:
        vectors: shape (n, d), any floating type; n may be 0.

    Returns:
        int8, shape (n, d), C-contiguous.

    Raises:
        EncodingError: not a float matrix, a row holds NaN or infinity, or a row is zero (it has no direction).
    """
    v = np.asarray(vectors)
    if v.ndim != 2 or not np.issubdtype(v.dtype, np.floating) or (v.shape[0] and not v.shape[1]):
        raise EncodingError(f"quantise takes a float matrix (n, d), not {v.dtype} of shape {v.shape}")
    v = v.astype(np.float64)
    finite = np.isfinite(v).all(axis=1)
    if not finite.all():
        raise EncodingError(f"vector {int(np.argmin(finite))} holds NaN or infinity: the embedder's output is broken")
    if v.shape[0] == 0:
        return np.zeros(v.shape, dtype=np.int8)
    largest = np.abs(v).max(axis=1, keepdims=True)
    if not largest.all():
        raise EncodingError(f"vector {int(np.argmin(largest))} is zero: a text without direction cannot be ranked")
    # Squares of tiny or huge entries would under- or overflow.  By a power of two, so that no entry is rounded here,
    # and one division at the end: an exact tie stays one and goes to the even integer.
    v = np.ldexp(v, -np.frexp(largest)[1])
    norm = np.sqrt((v * v).sum(axis=1, keepdims=True))
    return np.ascontiguousarray(np.rint(SCORE_UNIT * v / norm).astype(np.int8))
