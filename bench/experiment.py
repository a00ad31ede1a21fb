# SPDX-License-Identifier: GPL-3.0-or-later
"""What every experiment shares: seeds, resumable cells, progress, results with the machine beside them, plots.

An experiment is a list of cells (a mapping of parameters each) and a function from a cell and a random generator to
its measurement.  A cell's generator depends on the seed and the cell alone, so results do not depend on order, and a
run that was stopped goes on where it was: finished cells are read back from the results file when their parameters
are the same.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import measured
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.terminal import progress_bars

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"

Cell = Mapping[str, Any]
Measure = Callable[[Cell, np.random.Generator], dict[str, Any]]


def machine() -> dict[str, Any]:
    """Processor, whether it has the instructions that proofs use where they are there, cores, load and versions."""
    model, flags = platform.processor(), ""
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line.partition(":") for line in info.read_text().splitlines()]
        model = next((value.strip() for name, _, value in lines if name.strip() == "model name"), model)
        flags = next((value for name, _, value in lines if name.strip() == "flags"), "")
    return {
        "processor": model,
        "avx512_ifma": "avx512ifma" in flags,
        "cores": os.cpu_count(),
        "load_average": [round(x, 2) for x in os.getloadavg()],
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def generator(seed: int, cell: Cell) -> np.random.Generator:
    """The random generator of one cell."""
    digest = hashlib.sha256(json.dumps([seed, dict(cell)], sort_keys=True).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def _code(name: str, measure: Measure) -> str:
    """What a measurement was made by: no cell of older code is taken for one of this code."""
    if name in measured.results():
        return measured.code_of(name)
    return hashlib.sha256(Path(inspect.getsourcefile(measure) or __file__).read_bytes()).hexdigest()[:16]


def run(name: str, setting: Mapping[str, Any], cells: Sequence[Cell], measure: Measure, out: Path) -> dict[str, Any]:
    """Measure what is not yet in ``out`` for the same setting; every finished cell is on disk before the next begins.

    Returns:
        {"name", "setting", "machine" that measured the first cell, "cells": [{cell and measurement}]}.
    """
    setting = {**setting, "code": _code(out.stem, measure)}
    found: dict[str, Any] = {"name": name, "setting": setting, "machine": machine(), "cells": []}
    if out.exists():
        try:
            before = json.loads(out.read_text())
        except ValueError:
            raise ConfigurationError(f"{out} is damaged: remove it and run again") from None
        if before.get("setting") == found["setting"]:
            found |= {"cells": before["cells"], "machine": before["machine"]}
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {json.dumps(c["cell"], sort_keys=True) for c in found["cells"]}
    with progress_bars() as bars:
        task = bars.add_task(name, total=len(cells))
        for cell in cells:
            if json.dumps(dict(cell), sort_keys=True) not in done:
                measured = measure(cell, generator(int(setting["seed"]), cell))
                found["cells"].append({"cell": dict(cell), **measured})
                save(out, found)
            bars.advance(task)
    order = [json.dumps(dict(cell), sort_keys=True) for cell in cells]
    found["cells"] = sorted(
        (c for c in found["cells"] if json.dumps(c["cell"], sort_keys=True) in order),
        key=lambda c: order.index(json.dumps(c["cell"], sort_keys=True)),
    )
    save(out, found)
    return found


def save(path: Path, found: Mapping[str, Any]) -> None:
    """Replace a results file as a whole; one that is kept names the code and classes that it was measured with."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(measured.stamp(path, found), indent=1) + "\n")
    os.replace(part, path)


def pyplot() -> Any:
    """matplotlib without a display.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise ConfigurationError("plots need matplotlib: run `make setup`, or pip install 'ragseal[bench]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; numbers with four digits."""

    def text(x: Any) -> str:
        return f"{x:.4g}" if isinstance(x, float) else str(x)

    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(text, row)) + " |" for row in rows)])
