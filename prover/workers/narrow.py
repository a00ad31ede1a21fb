# SPDX-License-Identifier: GPL-3.0-or-later
"""The inputs of an assignment as they travel: scores and hints in three bytes each, the others in 32.

Of class ranked-small-one-50 that is 0.37 MB instead of 1.7.  Which inputs are narrow follows from the circuit's class
alone, so that lengths tell nothing of scores: compression would, and so would a width chosen by the value.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragseal.circuits.circuit import layout_of, load_classes
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.field import FIELD_BYTES
from ragseal.kernel.params import R

NARROW_BYTES = 3  #: two's complement: circuits check scores and hints to fewer bits than these have
#: Hints that are wider: values of the noise's distribution function.
WIDE_HINTS = frozenset({"placeBefore", "placeUpto", "plo", "phi"})
SHORT, FULL = b"\x01", b"\x00"  #: the first byte: whether narrow inputs are shortened

_LIMIT = 1 << (8 * NARROW_BYTES - 1)  #: below R's lowest limb: r - x borrows nothing from the others
_HIGH = np.array([R >> 192, R >> 128 & (1 << 64) - 1, R >> 64 & (1 << 64) - 1], dtype=np.uint64)
_LOW = R & (1 << 64) - 1


@lru_cache(maxsize=32)
def narrow_runs(circuit: str) -> tuple[slice, ...]:
    """Where a circuit's narrow inputs stand among all, in order."""
    cls = load_classes().get(circuit)
    if cls is None:  # of a block or a thinning, made once a window: or unknown here, which the worker says
        return ()
    layout = layout_of(cls)
    runs, start = list[slice](), layout.scores_at
    for group in layout.groups:
        at = layout.hints_at + group.offset
        if group.name in WIDE_HINTS:
            runs.append(slice(start, at))
            start = at + group.count
    runs.append(slice(start, layout.hints_at + layout.size))
    return tuple(run for run in runs if run.start < run.stop)


def shorten(circuit: str, inputs: bytes) -> bytes:
    """What travels.  Where an input is wider than its place, which no circuit takes, all of them stay as they are.

    Args:
        inputs: of a whole assignment, in wire order, 32 bytes each.
    """
    runs, limbs = narrow_runs(circuit), np.frombuffer(inputs, dtype=">u8").reshape(-1, 4)
    if not runs or len(limbs) < runs[-1].stop:
        return FULL + inputs
    small, kept, at = list[bytes](), list[bytes](), 0
    for run in runs:
        values = _values(limbs[run])
        if values is None:
            return FULL + inputs
        small.append(values.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :NARROW_BYTES].tobytes())
        kept.append(inputs[FIELD_BYTES * at : FIELD_BYTES * run.start])
        at = run.stop
    return b"".join((SHORT, *small, *kept, inputs[FIELD_BYTES * at :]))


def _values(limbs: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64] | None:
    """The integers in (-r/2, r/2) that elements of shape (n, 4) stand for, shape (n,); None if one is not narrow."""
    negative, low = limbs[:, 0] != 0, limbs[:, 3].astype(np.int64)  # modulo 2^64, as the difference below
    size = np.where(negative, _LOW - low, low)
    narrow = (size >= negative) & (size < _LIMIT)
    if not narrow.all() or not np.array_equal(limbs[:, :3], np.where(negative[:, None], _HIGH, 0)):
        return None
    return np.where(negative, -size, size)


def lengthen(circuit: str, data: bytes) -> bytes:
    """Inverse of :func:`shorten`.

    Raises:
        EncodingError: it is too short, or no whole number of inputs.
    """
    first, runs = data[:1], narrow_runs(circuit)
    if first == FULL and len(data) > 1 and len(data) % FIELD_BYTES == 1:
        return data[1:]
    count = sum(run.stop - run.start for run in runs)
    wide = len(data) - 1 - NARROW_BYTES * count
    if first != SHORT or not runs or wide < FIELD_BYTES * (runs[-1].stop - count) or wide % FIELD_BYTES:
        raise EncodingError("the inputs of an assignment are not those of its circuit")
    small = np.zeros((count, 4), dtype=np.uint8)
    small[:, 1:] = np.frombuffer(data, dtype=np.uint8, count=NARROW_BYTES * count, offset=1).reshape(-1, NARROW_BYTES)
    values = small.view("<i4").reshape(-1) >> 8  # which keeps the sign
    limbs = np.zeros((count, 4), dtype=">u8")
    limbs[:, 3] = np.where(values < 0, _LOW + values.astype(np.int64), values)
    limbs[values < 0, :3] = _HIGH
    inputs, pieces, at, done, used = limbs.tobytes(), list[bytes](), len(data) - wide, 0, 0
    for run in runs:
        before = FIELD_BYTES * (run.start - done)
        size = FIELD_BYTES * (run.stop - run.start)
        pieces += [data[at : at + before], inputs[used : used + size]]
        at, done, used = at + before, run.stop, used + size
    return b"".join((*pieces, data[at:]))
