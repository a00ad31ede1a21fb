# SPDX-License-Identifier: GPL-3.0-or-later
"""The circuit classes that tests use.  Where the law is not what is tested it is TINY: another one is a line here."""

from __future__ import annotations

from typing import TypeVar

from ragseal.circuits.circuit import load_classes
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.noise_class import NoiseClass

CLASSES = load_classes()
T = TypeVar("T")


def _of(kind: type[T], name: str) -> T:
    found = CLASSES[name]
    assert isinstance(found, kind)
    return found


TINY = _of(NoiseClass, "noise-tiny-two")  #: what tests use: shards of 126 slots, symmetric noise
GAUSSIAN = _of(NoiseClass, "noise-tiny-gaussian")  #: the paper's noise
DECOYS = _of(DecoysClass, "decoys-tiny")  #: of 60 slots, at most 3 shards
FAMILIES = (TINY, GAUSSIAN, DECOYS)  #: one class of every kind that a policy may name
SMALL = CLASSES["noise-small-two-50"]  #: of a size that people use
