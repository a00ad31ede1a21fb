# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by name: a way to build a world, the step that must end the audit, as what, and what it must say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ragseal.verifier.outcome.outcome import FAIL, NO_VERDICT, Verdict
from ragseal.verifier.report import document, page
from tests.simulator import World

#: Who is told of every world that ends in FAIL as well: world, step, verdict, options of the audit.
READERS: list[Callable[[World, int, Verdict, dict[str, Any]], None]] = []


class Attacks:
    """A builder returns a world, or a world and options of the audit.

    :meth:`add` is for what the provider signed and ends in FAIL, :meth:`open` for what somebody else may have done.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str, str, Callable[[], Any]]] = {}

    def _register(self, verdict: str, step: int, match: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        def register(make: Callable[[], Any]) -> Callable[[], Any]:
            assert make.__name__ not in self._known
            self._known[make.__name__] = (step, match, verdict, make)
            return make

        return register

    def add(self, step: int, match: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        return self._register(FAIL, step, match)

    def open(self, step: int, match: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        return self._register(NO_VERDICT, step, match)

    def names(self) -> list[str]:
        return list(self._known)

    def run(self, name: str) -> None:
        """The audit ends at that step as it must, says why, and its report can be written."""
        step, match, kind, make = self._known[name]
        made = make()
        world, options = made if isinstance(made, tuple) else (made, {})
        assert isinstance(world, World)
        verdict = world.audit(**options)
        assert verdict.verdict == kind, verdict.line()
        ending = verdict.failure if kind == FAIL else verdict.obstacle
        assert ending is not None
        assert ending.number == step, verdict.line()
        assert re.search(match, ending.message), verdict.line()
        assert verdict.line().startswith(f"{kind} step={step} ")
        assert verdict.line().endswith(" log=test.example/log")
        statuses = {s.number: s.status for s in verdict.steps}
        assert statuses[step] == ("failed" if kind == FAIL else "no verdict")
        assert all(statuses[n] in ("ok", "not asked") for n in range(1, step))
        later = {statuses[n] for n in range(step + 1, 12)}
        assert later <= ({"not reached"} if kind == FAIL else {"ok", "not asked", "not reached", "no verdict"})
        values = document.build(verdict)
        written = json.loads(document.to_json(values))
        found, other = ("failure", "no_verdict") if kind == FAIL else ("no_verdict", "failure")
        assert written[found]["step"] == step
        assert written[other] is None
        assert written["tone"] == ("bad" if kind == FAIL else "open")
        assert written["epsilon_audit"] is None
        assert bool(written[found].get("way_out")) == (kind == NO_VERDICT)
        assert f">{kind}<" in page.render(values)
        for read in READERS if kind == FAIL else ():
            read(world, step, verdict, options)
