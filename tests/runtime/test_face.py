# SPDX-License-Identifier: GPL-3.0-or-later
"""One face for the three pages: times, pseudonyms, and a sheet that needs nothing and works on narrow pages."""

from __future__ import annotations

import math
import re

from ragseal.ledger.page import index_html
from ragseal.prover.planning import page as planpage
from ragseal.runtime.face import SHORT, counted, document, sentences, shortened, style, when
from ragseal.verifier.report import document as report
from ragseal.verifier.report import page
from tests.simulator import World

PLAN = {
    "workload": "9 documents, 3 queries", "noise_free": {"ndcg10": 0.7, "recall": 0.9}, "frontier": [],
    "recommended": None, "nearest": None, "reasons": ["no <reason>"],
}  # fmt: skip


def test_times_are_days_and_hours_of_utc() -> None:
    assert when(1_800_000_060) == "2027-01-15 08:01 UTC"
    assert when(0) == "1970-01-01 00:00 UTC"
    for strange in (None, "soon", True, 10**40, math.inf, math.nan):
        assert when(strange) == str(strange)


def test_one_of_a_kind_has_no_plural() -> None:
    assert [counted(n, "record") for n in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert [counted(n, "entry", "entries") for n in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]


def test_pseudonyms_are_shortened() -> None:
    assert shortened("ana") == "ana"
    assert shortened("a" * SHORT) == "a" * SHORT
    assert shortened("3fd1c0a97be24c55b0d1") == "3fd1c0a97be2\u2026"


def test_three_pages_one_sheet() -> None:
    audited = page.render(report.build(World.honest().audit()))
    planned = planpage.page(PLAN, None, 0.0)
    for text in (audited, planned, index_html().decode()):
        assert style() in text
        assert 'name="viewport"' in text
        assert 'class="plain"' in text  # five sentences come first
    for text in (planned, index_html().decode()):
        assert text.index('class="plain"') < text.index("<h2")
    parts = ('class="claimed"', 'class="plain"', 'class="limits"', 'class="grade"', "<h2>Checklist")
    order = [audited.index(part) for part in parts]
    assert order == sorted(order), "of a verdict the claim comes before them"
    assert planned.count("<li>") >= 5
    assert "no &lt;reason&gt;" in planned


def test_the_sheet_loads_nothing_and_breaks_no_table_into_letters() -> None:
    assert not re.search(r"url\(|@import|//[a-z]", style())
    assert "prefers-color-scheme: dark" in style()
    narrow = style()[style().index("@media (max-width") :]
    assert re.search(r"table\.pairs,[^{]*\{ display: block", narrow)  # a name above its value, never beside it
    for rule in re.findall(r"([^{}]*)\{([^{}]*)\}", style()):
        if re.search(r"\btd|\.wide", rule[0]):
            assert "anywhere" not in rule[1]
            assert "break-all" not in rule[1]


def test_what_is_said_is_text() -> None:
    text = document("<a>", sentences(["<script>", "b & c"]))
    assert "<script>" not in text
    assert "<title>&lt;a&gt;</title>" in text
    assert "b &amp; c" in text
