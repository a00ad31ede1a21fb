# SPDX-License-Identifier: GPL-3.0-or-later
"""Processor time of the answer path for two classes of inputs each, for ``test_timing``: one line of JSON.

``RAYON_NUM_THREADS=1 python -m tests.attacks.timing_scene SAMPLES CLASS``.  A process of its own with one worker
thread, so that processor time is what the answer costs and not how busy the machine is.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from ragseal.backends.mechanism import open_engine
from ragseal.backends.native import native
from ragseal.circuits.circuit import load_classes
from ragseal.kernel import field
from ragseal.kernel.classes import Asked
from ragseal.kernel.noise_class import NoiseClass

Call = Callable[[], object]


def interleaved(first: Sequence[Call], second: Sequence[Call], samples: int, rng: random.Random) -> list[list[int]]:
    """Nanoseconds of both classes, in random order, so that drifts of the machine hit both alike."""
    times: list[list[int]] = [[], []]
    for call in (*first, *second) * 3:
        call()
    for _ in range(2 * samples):
        which = rng.randrange(2)
        call = rng.choice((first, second)[which])
        begun = time.process_time_ns()
        call()
        times[which].append(time.process_time_ns() - begun)
    return times


def welch(times: Sequence[Sequence[int]], keep: float = 0.8) -> dict[str, float]:
    """Welch's t of the two classes below a common cut: what is above is the machine's, not the program's."""
    cut = np.quantile(np.concatenate([np.asarray(one) for one in times]), keep)
    a, b = (np.asarray([x for x in one if x <= cut], dtype=np.float64) for one in times)
    spread = float(np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))
    return {
        "t": float(a.mean() - b.mean()) / spread,
        "first_us": float(a.mean()) / 1000,
        "second_us": float(b.mean()) / 1000,
        "n": len(a) + len(b),
    }


def main() -> None:
    samples, rng, cls = int(sys.argv[1]), random.Random(1), load_classes()[sys.argv[2]]
    assert isinstance(cls, NoiseClass)
    engine, best = open_engine(cls), 200_000  # units of a score
    asked, lowest = Asked((cls.window_of(best),)), np.full(cls.N, -best, dtype=np.int64)

    def top(key: int) -> int:
        return int(engine._engine.answer(field.to_bytes(key), lowest.tobytes(), *asked.inputs)["v"])  # type: ignore[attr-defined]

    by_top = sorted(range(1, 161), key=top)
    few, many = by_top[:8], by_top[-8:]  # the threshold that noise alone reaches: few and many hits
    hit = lowest.copy()
    hit[[one.slot for one in engine.answer(few[0], lowest, asked)]] = (
        best  # every winner of the open set is a best possible document
    )
    shuffled = lowest.copy()
    shuffled[rng.sample(range(cls.N), cls.K)] = best

    def answer(key: int, w: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Call:
        return lambda: engine.answer(key, w, asked)

    def leaky(key: int, w: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Call:
        """A few more hashes for every slot with a score: the kind of shortcut that the test is for."""

        def run() -> None:
            engine.answer(key, w, asked)
            for slot in (*np.flatnonzero(w > 0),) * 4:
                native.poseidon([field.to_bytes(key), field.to_bytes(int(slot))])

        return run

    def run(first: Sequence[Call], second: Sequence[Call]) -> dict[str, float]:
        return welch(interleaved(first, second, samples, rng))

    found = {
        "same": run([answer(k, lowest) for k in few[::2]], [answer(k, lowest) for k in few[::2]]),
        "noise": run([answer(k, lowest) for k in few], [answer(k, lowest) for k in many]),
        "hits": run([answer(k, lowest) for k in few], [answer(k, hit) for k in few]),
        "elsewhere": run([answer(k, hit) for k in few], [answer(k, shuffled) for k in few]),
        "leaky": run([leaky(k, lowest) for k in few], [leaky(k, hit) for k in few]),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
