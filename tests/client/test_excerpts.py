# SPDX-License-Identifier: GPL-3.0-or-later
"""What `ask` prints of an answer: the best texts whole, of the others where they begin, and what a miss may mean."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.client import excerpts, window
from ragseal.client.result import Opened, Ranked, Result
from ragseal.client.settings import Environment
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.params import COIN_BITS
from tests.client.test_commands import address as address
from tests.client.test_commands import run

LONG = "A page of words.\n" * 80


def found(count: int) -> list[Ranked]:
    return [Ranked(at, f"d{at}", f"{at}: {LONG}", {"draft": True}, 100 - at) for at in range(count)]


def test_the_best_are_whole_and_the_others_one_line_each() -> None:
    lines = excerpts.texts(found(10), top=2)
    assert [line for line in lines if LONG in line] == lines[:4:2]
    assert lines[1] == lines[3] == "   draft: true"
    assert len(lines) == 4 + 8
    assert all("\n" not in line and len(line) < 120 and line.endswith("\u2026") for line in lines[4:])
    assert [line.split(".")[0] for line in lines[4:]] == [str(at) for at in range(3, 11)]
    assert excerpts.cut(found(10), top=2) == 8
    assert excerpts.cut(found(2), top=2) == excerpts.cut([], top=0) == 0
    short = [Opened(1, "a", "short", {}), Opened(2, "b", "short", {"page": 3})]
    assert excerpts.texts(short, top=0) == ["1. [a] short", "2. [b] short"]
    assert excerpts.cut(short, top=0) == 1, "metadata are cut too"


def test_what_was_cut_is_had_again_without_a_query(bench: Any) -> None:
    result = bench.client().ask("json")
    many = replace(result, opened=tuple(found(5)), ranked=tuple(found(5)))
    assert excerpts.rest(many, top=5) == []
    [line] = excerpts.rest(many, top=3)
    assert line.startswith("-- 2 of these texts are cut: `ragseal-client receipts show w1 1` ")
    assert "costs no query" in line


def slots_with(result: Result, came: int, withheld: int = 0) -> Result:
    """The same answer with so many texts, and so many that the guard withholds."""
    order = list(result.returned)
    opened = tuple(Opened(slot, f"d{slot}", "text", {}) for slot in order[:came])
    return replace(result, opened=opened, ranked=None, withheld=tuple(order[came : came + withheld]))


def test_what_came_is_said_as_it_is(bench: Any) -> None:
    """ "0 of 50 returned slots came with a text, the others by chance alone": the others of none."""
    result = bench.client().ask("json")
    assert len(result.returned) == 3
    assert slots_with(result, 3).held == "all 3 returned slots came with a text"
    assert slots_with(result, 1).held == "1 of the 3 returned slots came with a text, 2 by chance alone"
    assert slots_with(result, 0).held.startswith(
        "none of the 3 returned slots came with a text, all by chance alone: no document scores high enough"
    )
    guarded = slots_with(result, 1, withheld=1)
    assert guarded.held.startswith("1 of the 3 returned slots came with a text, 1 by chance alone; the guard of ")
    both = slots_with(result, 2, withheld=1)
    assert both.held.startswith("2 of the 3 returned slots came with a text; the guard of this window withholds")


def test_a_miss_may_be_a_document_that_the_coins_hide(bench: Any) -> None:
    result = bench.client().ask("json")
    [line] = excerpts.missed(slots_with(result, 0), 13 / 256)
    assert "one that nobody finds in this period: coins hide 1 in 20" in line
    assert excerpts.missed(slots_with(result, 0), 0.0) == [], "a claim without coins hides nothing"
    assert excerpts.missed(slots_with(result, 1), 13 / 256) == []


def test_ask_prints_so_many_and_json_everything(
    bench: Any, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "ragseal.client.client.Environment", lambda: Environment(class_of=lambda _: bench.provider_class)
    )
    vkey = bench.provider.log_signer.verifier.vkey()
    common = ("ask", "json", "--state", bench.state, "--provider", address, "--embedder", "none", "--log-key", vkey)
    none = run(*common, "--top", "0")
    told = json.loads(run(*common, "--top", "0", "--json"))
    for one in told["texts"]:
        assert one["text"]
        assert set(one["metadata"]) == {"draft", "line", "source"}
    assert "   draft: " not in none

    def damaged(_: Path) -> Any:
        raise ConfigurationError("a window's folder is damaged")

    monkeypatch.setattr(window, "windows_of", damaged)
    assert "answer checked" in run(*common), "what was paid for is printed, whatever else is wrong"


def test_the_share_that_coins_hide_is_the_policy_s(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = bench.client()
    result = client.ask("json")
    [found], name = window.windows_of(bench.state), result.record.signed.request.window
    assert window.hidden_share(bench.state, name) == 0.0
    kept = SimpleNamespace(manifest=found.manifest, rules=replace(found.rules, hidden=13))
    monkeypatch.setattr(window, "windows_of", lambda _: [kept])
    assert window.hidden_share(bench.state, name) == 13 / (1 << COIN_BITS)
