# SPDX-License-Identifier: GPL-3.0-or-later
"""A verifying key is cut by its class, and refused by every other one.  SPEC A.9."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from ragseal.circuits.circuit import layout_of
from ragseal.groth16.views import EstimateView, KeyView, ThinningView
from ragseal.kernel.errors import ProofError
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.thinning_class import thinning_class
from tests.classes import GAUSSIAN, TINY
from vectors.source.trapdoor import Trapdoor

KEY = Trapdoor("views", 1).key  #: of whatever number of inputs: only how its points relate is looked at


class Key:
    """As much of a verifying key as a view asks for when it is made."""

    def __init__(self, public: int) -> None:
        self.n_public = public

    def to_bytes(self) -> bytes:
        return KEY

    def digest(self) -> bytes:
        return sha256(KEY).digest()


def test_keys_never_cross_classes() -> None:
    blocks = CLASSES["estimate-6"]
    tiny, public = TINY, layout_of(TINY).public
    KeyView(tiny, Key(public))
    EstimateView(blocks, Key(blocks.public))
    thinning = thinning_class(tiny.N)
    ThinningView(thinning, Key(thinning.public))
    refused: list[tuple[Any, Any, int]] = [
        (KeyView, GAUSSIAN, public), (KeyView, tiny, public + 1), (KeyView, tiny, public - 1),
        (KeyView, tiny, blocks.public), (EstimateView, blocks, public), (EstimateView, CLASSES["estimate-112"], 45),
        (ThinningView, thinning, public), (ThinningView, thinning_class(tiny.N + 1), thinning.public),
    ]  # fmt: skip
    for view, cls, count in refused:
        with pytest.raises(ProofError, match="keys never cross circuit classes"):
            view(cls, Key(count))
