# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by name: a way to build a world, the step that must fail, and what it must say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ragseal.verifier import page, report
from tests.verifier.simulator import World


class Attacks:
    """Register with :meth:`add`; a builder returns a world, or a world and options of the audit."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str, Callable[[], Any]]] = {}

    def add(self, step: int, match: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        def register(make: Callable[[], Any]) -> Callable[[], Any]:
            assert make.__name__ not in self._known
            self._known[make.__name__] = (step, match, make)
            return make

        return register

    def names(self) -> list[str]:
        return list(self._known)

    def run(self, name: str) -> None:
        """The audit ends in FAIL at that step, says why, and its report can be written."""
        step, match, make = self._known[name]
        made = make()
        world, options = made if isinstance(made, tuple) else (made, {})
        assert isinstance(world, World)
        verdict = world.audit(**options)
        assert verdict.verdict == "FAIL", verdict.line()
        assert verdict.failure is not None
        assert verdict.failure.number == step, verdict.line()
        assert re.search(match, verdict.failure.message), verdict.line()
        assert verdict.line().startswith(f"FAIL step={step} ")
        statuses = {s.number: s.status for s in verdict.steps}
        assert statuses[step] == "failed"
        assert all(statuses[n] == "ok" for n in range(1, step))
        assert all(statuses[n] == "not reached" for n in range(step + 1, 12))
        values = report.build(verdict)
        assert json.loads(report.to_json(values))["failure"]["step"] == step
        assert ">FAIL<" in page.render(values)
