# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled circuits with real keys: made once for all tests, and kept under var/."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ragseal.circuits.build import build
from ragseal.circuits.circuit import Shape, class_digest
from ragseal.groth16.keys import KeyPaths, make_keys
from ragseal.groth16.provers import BlockBackend, ThinningBackend, open_backend
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.thinning_class import thinning_class
from tests.classes import DECOYS

ROOT = Path(__file__).resolve().parents[2]
KEYS = ROOT / "var" / "keys"

ESTIMATE = CLASSES["estimate-6"]  #: the smallest circuit of the coalition estimate
THINNING = thinning_class(DECOYS.N)


@cache
def keys_of(cls: Shape, directory: Path = KEYS) -> KeyPaths:
    """The key of a circuit in a folder; made there where it is missing."""
    return make_keys(build(cls).r1cs, cls, class_digest(cls), directory)


@cache
def thinning_backend(directory: Path = KEYS, slots: int = DECOYS.N) -> ThinningBackend:
    """What proves thinned indices of shards of so many slots."""
    cls = thinning_class(slots)
    return open_backend(build(cls), keys_of(cls, directory).directory)


@cache
def block_backend() -> BlockBackend:
    """What proves blocks of the coalition estimate."""
    return open_backend(build(ESTIMATE), keys_of(ESTIMATE).directory)
