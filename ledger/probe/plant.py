# SPDX-License-Identifier: GPL-3.0-or-later
"""The planted pair: two documents that an operator puts into two tenants of a test window."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.policy import Policy
from ragseal.runtime.edges.filesystem import why

PLANT = "plant.json"
_WORDS = re.findall(
    r"\w+",
    "amber anchor basalt beacon birch bridge canyon cedar cinder comet copper coral delta ember falcon fern glacier "
    "granite harbor hazel indigo island jasper juniper kettle lagoon lantern maple marble meadow mirror nickel oasis "
    "olive orchid pebble pepper quartz raven saddle salmon thistle timber tulip valley velvet walnut willow",
)


@dataclass(frozen=True, slots=True)
class Plant:
    """The planted pair; the canary's text is also the query, so its score is the largest there is."""

    canary: str
    replacement: str

    @property
    def query(self) -> str:
        return self.canary


def make_plant(choose: Callable[[Sequence[str]], str], folder: Path) -> Plant:
    """Write in.jsonl, out.jsonl and plant.json.  Raises ConfigurationError: the folder cannot be written."""
    words = " ".join(choose(_WORDS) for _ in range(12))
    number, hour = ("".join(choose("123456789") for _ in range(n)) for n in (4, 1))
    # A list of things against a sentence about an appointment: no embedder takes one for the other.
    made = Plant(words, f"The meeting about budget line {number} was moved to {hour} o'clock on Monday.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("in", made.canary), ("out", made.replacement)):
            (folder / f"{name}.jsonl").write_text(json.dumps({"id": "planted", "text": text}) + "\n", encoding="utf-8")
        (folder / PLANT).write_text(json.dumps(asdict(made), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write the plant into {folder}: {why(error, folder)}") from None
    return made


def read_plant(folder: Path) -> Plant:
    """Raises ConfigurationError: `plant` did not write it."""
    try:
        return Plant(**json.loads((folder / PLANT).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConfigurationError(f"{folder} holds no planted pair: make one with `ragseal-observer plant`") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {folder / PLANT}: {why(error, folder / PLANT)}") from None
    except (ValueError, TypeError):
        raise ConfigurationError(f"{folder} holds no planted pair: make one with `ragseal-observer plant`") from None


def scores_of(plant: Plant, policy: Policy, embedder: str) -> tuple[int, int]:
    """y of canary and replacement; without an embedder the canary, which is the query, scores at least hi, and the
    replacement is taken to score at most lo."""
    if embedder == "none":
        return policy.hi, policy.lo
    import numpy as np

    from ragseal.embedder import load_embedder, quantise  # an observer's installation need not have it

    model = load_embedder(embedder)
    e = quantise(model.embed([plant.query], role="query"))[0].astype(np.int64)
    rows = quantise(model.embed([plant.canary, plant.replacement])).astype(np.int64)
    canary, replacement = (int(y) for y in rows @ e)
    return canary, replacement
