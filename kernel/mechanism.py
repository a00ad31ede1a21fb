# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of one request's noise, which every kind of class draws from.  SPEC B."""

from __future__ import annotations

from ragseal.kernel.params import TAG_KEY
from ragseal.kernel.poseidon import poseidon


def noise_key(seed: tuple[int, int], beacon: int, ctx: int) -> int:
    """The key of one request's noise; ctx hashes exactly the bytes that the client signed."""
    return poseidon(TAG_KEY, *seed, beacon, ctx)
