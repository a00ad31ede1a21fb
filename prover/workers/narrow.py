# SPDX-License-Identifier: GPL-3.0-or-later
"""The inputs of an assignment as they travel: hints and small scores in four bytes each, all else in 32.

Of class noise-small-two-50 that is 0.42 MB instead of 1.7.  Which inputs are narrow follows from the circuit's class
alone (SPEC B.12.10), so that lengths tell nothing of scores: compression would, or a width chosen by the value.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragseal.circuits.circuit import load_classes
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.field import FIELD_BYTES
from ragseal.kernel.params import R
from ragseal.kernel.statements import stated_of

#: Two's complement.  No policy may have scores outside its class's comparisons, 2^(2c) and a chunk (SPEC A.10), and c
#: is 13 at most; hints are chunks, counts, slots, and sums of a score and its noise.
NARROW_BYTES = 4
SHORT, FULL = b"\x01", b"\x00"  #: the first byte: whether narrow inputs are shortened

_LIMIT = 1 << (8 * NARROW_BYTES - 1)  #: below R's lowest limb: r - x borrows nothing from the others
_HIGH = np.frombuffer(R.to_bytes(FIELD_BYTES, "big"), dtype=np.uint64)[:3]  #: r's other limbs, as they lie
_LOW = R & (1 << 64) - 1


@lru_cache(maxsize=32)
def narrow_runs(circuit: str) -> tuple[slice, ...]:
    """Where a circuit's narrow inputs stand among all, in order."""
    cls = load_classes().get(circuit)
    if cls is None:  # of a block or a thinning, made once a window: or unknown here, which the worker says
        return ()
    stated = stated_of(cls)
    layout = stated.layout
    runs, start = list[slice](), layout.hints_at if stated.wide_scores else layout.scores_at
    for group in layout.groups:
        at = layout.hints_at + group.offset
        if group.name in stated.wide_hints:
            runs.append(slice(start, at))
            start = at + group.count
    runs.append(slice(start, layout.hints_at + layout.size))
    return tuple(run for run in runs if run.start < run.stop)


def shorten(circuit: str, inputs: bytes) -> bytes:
    """What travels.  Where an input is wider than its place, which no circuit takes, all of them stay as they are.

    Args:
        inputs: of a whole assignment, in wire order, 32 bytes each.
    """
    runs, limbs = narrow_runs(circuit), np.frombuffer(inputs, dtype=np.uint64).reshape(-1, 4)
    if not runs or len(limbs) < runs[-1].stop:
        return FULL + inputs
    small, kept, at = list[bytes](), list[bytes](), 0
    for run in runs:
        values = _values(limbs[run])
        if values is None:
            return FULL + inputs
        small.append(values.astype("<i4").tobytes())
        kept.append(inputs[FIELD_BYTES * at : FIELD_BYTES * run.start])
        at = run.stop
    return b"".join((SHORT, *small, *kept, inputs[FIELD_BYTES * at :]))


def _values(limbs: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64] | None:
    """The integers in (-r/2, r/2) that elements of shape (n, 4) stand for, shape (n,); None if one is not narrow.

    Only the lowest limb is turned from big-endian: the others are compared as they lie.
    """
    negative = limbs[:, 0] != 0
    mask = -negative.astype(np.int64)
    wrong = np.zeros(len(limbs), dtype=np.uint64)
    for limb, of_r in enumerate(_HIGH):
        wrong |= limbs[:, limb] ^ (of_r & mask.view(np.uint64))
    low = np.frombuffer(limbs[:, 3].tobytes(), dtype=">i8").astype(np.int64)
    values: npt.NDArray[np.int64] = low - (_LOW & mask)  # modulo 2^64
    if wrong.any() or values.min() <= -_LIMIT or values.max() >= _LIMIT or ((values < 0) != negative).any():
        return None
    return values


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
    values = np.frombuffer(data, dtype="<i4", count=count, offset=1).astype(np.int64)
    rest = np.frombuffer(data, dtype=np.uint8, offset=len(data) - wide).reshape(-1, FIELD_BYTES)
    limbs = np.empty((count + len(rest), 4), dtype=np.uint64)
    inputs, at, used = limbs.view(np.uint8), 0, 0
    for run in runs:
        inputs[at : run.start] = rest[at - used : run.start - used]
        part = values[used : used + run.stop - run.start]
        mask = part >> 63
        for limb, of_r in enumerate(_HIGH):
            limbs[run, limb] = of_r & mask.view(np.uint64)
        limbs[run, 3] = (part + (_LOW & mask)).astype(">i8").view(np.uint64)
        at, used = run.stop, used + len(part)
    inputs[at:] = rest[at - used :]
    return limbs.tobytes()
