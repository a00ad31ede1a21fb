# SPDX-License-Identifier: GPL-3.0-or-later
"""What each kind of law states in its circuit.  SPEC B.5."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.stated import DecoysStated
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_stated import NoiseStated
from ragseal.kernel.stated import Stated

STATED: dict[str, Callable[[Any], Stated]] = {NoiseClass.kind: NoiseStated, DecoysClass.kind: DecoysStated}


@lru_cache(maxsize=64)
def stated_of(cls: AttestationClass) -> Stated:
    """Of a class."""
    return STATED[cls.kind](cls)
