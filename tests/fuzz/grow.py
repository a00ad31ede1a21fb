# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz, and keep what is new: ``python -m tests.fuzz.grow [--seconds N] [--seed N] [target ...]``.

The corpus holds real encodings, and mutations that ended in a way in which nothing in the corpus did: a new kind of
refusal, or an acceptance that is no seed.  Finds are mutated further.  Ends with status 1 if a target did something
else than to refuse or to read canonically; the bytes are then kept as ``crash-...``.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.mutation import mutated
from tests.fuzz.targets import Target, outcome, targets

CORPUS = Path(__file__).parent / "corpus"
LARGEST = 8192  #: bytes of a file that is kept
MOST = 14  #: files of a target


def kept(target: Target) -> list[bytes]:
    """The corpus of a target."""
    return [path.read_bytes() for path in sorted((CORPUS / target.name).glob("*")) if path.is_file()]


def keep(target: Target, data: bytes, prefix: str = "") -> Path:
    folder = CORPUS / target.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{prefix}{hashlib.sha256(data).hexdigest()[:16]}"
    path.write_bytes(data)
    return path


def grow(target: Target, seconds: float, rng: random.Random) -> tuple[int, int, int]:
    """(examples tried, new files, crashes)."""
    pool = kept(target)
    for seed in target.seeds():
        if seed not in pool and len(seed) <= LARGEST:
            keep(target, seed, "seed-")
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
            print(f"{target.name}: {keep(target, data, 'crash-')}")
            crashes += 1
            if crashes >= 5:
                break
            continue
        if found not in known and len(known) < MOST:
            known.add(found)
            pool.append(data)
            if len(data) <= LARGEST:
                keep(target, data)
                new += 1
    return tried, new, crashes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("targets", nargs="*")
    given = parser.parse_args()
    bad = 0
    for target in targets():
        if given.targets and target.name not in given.targets:
            continue
        tried, new, crashes = grow(target, given.seconds, random.Random(f"{given.seed} {target.name}"))
        bad += crashes
        print(f"{target.name}: {tried} tried, {new} kept, {crashes} crashes", flush=True)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
