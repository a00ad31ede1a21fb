# SPDX-License-Identifier: GPL-3.0-or-later
"""The first page for people who decide and never learnt what epsilon is: the grade, and what it does not cover.

The limits stand right below the five sentences: a PASS whose limits stand at the end is read as more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ragseal.accounting.bands import BANDS, SOURCE, Band, band_of
from ragseal.accounting.guess import best_guess
from ragseal.accounting.rounding import for_people, per_cent_number
from ragseal.verifier.report import claim, rests, summary

LIMITS = "limits"  #: id of the section with all of them


def grades(report: Mapping[str, Any]) -> list[tuple[str, float, float, Band]]:
    """(who, epsilon, per cent right at most, band); empty where no guess is bounded."""
    if summary.guesses(report) is None:
        return []
    try:
        rows = summary.claim_of(report).grades(report)
    except (KeyError, TypeError, ValueError):
        return []
    found = []
    for who, epsilon, delta in rows:
        right = best_guess(epsilon, delta) if math.isfinite(epsilon) else 1.0
        found.append((who, epsilon, per_cent_number(right), band_of(epsilon)))
    return found


def grade(report: Mapping[str, Any]) -> str:
    """The grades as a section of the page; nothing where there are none."""
    found = grades(report)
    if not found:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(who)}</th><td class="figure">{right:g} %{_bar(right, band)}</td>'
        f'<td data-name="protection"><span class="badge {band.tone}">{escape(band.name)}</span></td>'
        f'<td data-name="{_number(report)}">{escape(for_people(epsilon, bound=True))}</td></tr>'
        for who, epsilon, right, band in found
    )
    return (
        '<section class="grade" aria-labelledby="grade"><h2 id="grade">What the number means</h2>'
        f"<p>{summary.claim_of(report).question}</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="How often a guess may be right">'
        '<table class="cards"><thead><tr>'
        '<th scope="col">who guesses</th><th scope="col">right in at most</th><th scope="col">protection</th>'
        f'<th scope="col">{_number(report)}</th></tr></thead><tbody>{rows}</tbody></table></div>'
        f'<ul class="bands">{"".join(_band(at, band, found) for at, band in enumerate(BANDS))}</ul>'
        f'<p class="source">{escape(SOURCE)}</p></section>'
    )


def _number(report: Mapping[str, Any]) -> str:
    """What the graded number is called."""
    return "epsilon" if summary.claim_of(report).form.numbered else "unseen"


def _bar(right: float, band: Band) -> str:
    """From mere chance to certainty; the number beside it says the same."""
    return (
        f'<span class="bar {band.tone}" aria-hidden="true"><span style="width: {max(0.0, 2 * right - 100):.0f}%">'
        "</span></span>"
    )


def _band(at: int, band: Band, found: Sequence[tuple[str, float, float, Band]]) -> str:
    upto = f"above {BANDS[at - 1].upto:g}" if math.isinf(band.upto) else f"up to {band.upto:g}"
    here = "; ".join(who for who, _, _, own in found if own == band)
    mine = f" <strong>Here: {escape(here)}.</strong>" if here else ""
    return (
        f'<li{" class=here" if here else ""}><span class="badge {band.tone}">{escape(band.name)}</span> '
        f"epsilon {upto}: {escape(band.means)}.{mine}</li>"
    )


def limits(report: Mapping[str, Any]) -> str:
    """What the verdict does not say, in short, with the way to all of it; below a PASS only."""
    if not summary.passed(report):
        return ""
    begins = claim.SAMPLED_LINKS, claim.NO_PART
    own = [note for note in report["does_not_say"] if note in claim.QUALIFIED or note.startswith(begins)]
    short = summary.claim_of(report).in_short()
    said = [*filter(None, [rests.sentence(report)]), *own, *short]
    items = "".join(f"<li>{escape(one)}</li>" for one in said)
    return (
        '<section class="limits" aria-labelledby="short-limits"><h2 id="short-limits">What it does not say</h2>'
        f'<ul>{items}</ul><p><a href="#{LIMITS}">All of it, word for word</a></p></section>'
    )
