# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz, and keep what is new: ``python -m tests.fuzz.grow [--seconds N] [--seed N] [--anew] [target ...]``.

The corpus holds real encodings, and mutations that ended in a way in which nothing in the corpus did: a new kind of
refusal, or an acceptance that is no seed.  Finds are mutated further.  The seeds of a target that is gone are dropped.
Ends with status 1 if a target did something else than to refuse or to read canonically; the bytes are then kept as
``crash-...``.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
import traceback

from tests.fuzz import corpus
from tests.fuzz.corpus import Seeds
from tests.fuzz.mutation import mutated
from tests.fuzz.targets import Target, outcome, targets

LARGEST = 8192  #: bytes of a seed that is kept
MOST = 14  #: outcomes of a target for which seeds are kept


def named(data: bytes, prefix: str = "") -> str:
    return prefix + hashlib.sha256(data).hexdigest()[:16]


def grow(target: Target, kept: Seeds, seconds: float, rng: random.Random) -> tuple[int, int, int]:
    """(examples tried, new seeds, crashes); seeds are added to ``kept``."""
    pool = list(kept.values())
    for seed in target.seeds():
        if seed not in pool and len(seed) <= LARGEST:
            kept[named(seed, "seed-")] = seed
        pool.append(seed)
    known = {outcome(target, data) for data in pool}
    tried = new = crashes = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(rng.choice(pool), rng, rng.choice(pool))
        tried += 1
        try:
            found = outcome(target, data)
        except Exception:
            traceback.print_exc()
            print(f"{target.name}: {named(data, 'crash-')}")
            kept[named(data, "crash-")] = data
            crashes += 1
            if crashes >= 5:
                break
            continue
        if found not in known and len(known) < MOST:
            known.add(found)
            pool.append(data)
            if len(data) <= LARGEST:
                kept[named(data)] = data
                new += 1
    return tried, new, crashes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--anew", action="store_true", help="forget what is kept of these targets")
    parser.add_argument("targets", nargs="*")
    given = parser.parse_args()
    bad, stored, known = 0, corpus.read(), targets()
    stored = {target.name: stored.get(target.name, {}) for target in known}
    for target in known:
        if given.targets and target.name not in given.targets:
            continue
        if given.anew:
            stored[target.name] = {}
        kept = stored[target.name]
        tried, new, crashes = grow(target, kept, given.seconds, random.Random(f"{given.seed} {target.name}"))
        corpus.write(stored)
        bad += crashes
        print(f"{target.name}: {tried} tried, {new} kept, {crashes} crashes", flush=True)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
