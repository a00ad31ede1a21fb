# SPDX-License-Identifier: GPL-3.0-or-later
"""The clusters of the coalition estimate as a picture: accounts are circles, links between them are lines.

Pure text to text: inline SVG without script or external resource, colours of the page it stands in, everything that
comes from outside escaped and shortened.  The same estimate gives the same picture.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from ragseal.runtime.face import SHORT, counted, shortened

WIDTH = 880  #: of the picture, in its own units; it shrinks with the page
MOST_CLUSTERS, MOST_ACCOUNTS = 12, 24  #: drawn; what is left out is counted in words
_NAME = SHORT + 1  # characters of an account's pseudonym that are shown; the rest is in its tooltip
_LINE = 16  # of text
_DOT = 9


@dataclass(frozen=True, slots=True)
class Group:
    """One cluster: its accounts in the order shown, and how many records it holds."""

    accounts: Sequence[str]
    records: int


def clusters_svg(title: str, groups: Sequence[Group], links: Iterable[tuple[str, str]]) -> str:
    """The picture, or nothing if no two accounts are joined.

    Args:
        title: what is shown, for readers who do not see it.
        groups: clusters, the largest first.
        links: the two accounts of each listed link; those within one account are not drawn.
    """
    if not groups:
        return ""
    weight = Counter((a, b) if a < b else (b, a) for a, b in links if a != b)
    parts, x, y, tall = [], 0.0, 0.0, 0.0
    for group in groups[:MOST_CLUSTERS]:
        drawn, width, height = _cluster(group, weight)
        if x and x + width > WIDTH:
            x, y, tall = 0.0, y + tall, 0.0
        parts.append(f'<g transform="translate({x:.1f} {y:.1f})">{drawn}</g>')
        x, tall = x + width, max(tall, height)
    height = y + tall
    left = len(groups) - MOST_CLUSTERS
    if left > 0:
        height += _LINE * 1.5
        parts.append(
            _text(WIDTH / 2, height - _LINE / 2, f"and {left} smaller {'cluster' if left == 1 else 'clusters'}")
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {height:.0f}" width="100%" '
        f'style="max-width: {WIDTH}px; color: var(--ink, currentColor)" font-family="system-ui, sans-serif" '
        f'font-size="12"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _cluster(group: Group, weight: Counter[tuple[str, str]]) -> tuple[str, float, float]:
    """SVG of one cluster in a frame of its own, with width and height."""
    shown = list(group.accounts[:MOST_ACCOUNTS])
    left = len(group.accounts) - len(shown)
    radius = max(34.0, len(shown) * 2.4 * _DOT / (2 * math.pi) * 1.6)
    room = 7.0 * _NAME + 34
    width, height = 2 * (radius + room), 2 * radius + 5 * _LINE
    centre = (width / 2, radius + 1.5 * _LINE)
    angle = {a: 2 * math.pi * i / len(shown) for i, a in enumerate(shown)}  # from the right, so that pairs lie flat
    at = {a: (centre[0] + radius * math.cos(t), centre[1] + radius * math.sin(t)) for a, t in angle.items()}
    parts = []
    for (a, b), count in sorted(weight.items()):
        if a in at and b in at:
            (x1, y1), (x2, y2) = at[a], at[b]
            thick = min(6.0, 1 + math.log2(count))
            parts.append(
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" '
                f'stroke-opacity="0.45" stroke-width="{thick:.1f}"><title>{escape(a)} and {escape(b)}: {count} '
                f"{'link' if count == 1 else 'links'}</title></line>"
            )
    for account, (x, y) in at.items():
        side = math.cos(angle[account])
        anchor, shift = ("middle", 0.0) if abs(side) < 0.2 else ("start", 14.0) if side > 0 else ("end", -14.0)
        rise = 4 + (math.copysign(18, math.sin(angle[account])) if anchor == "middle" else 0)
        name = shortened(account)
        parts.append(
            f'<g><title>{escape(account)}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="{_DOT}" '
            f'fill="var(--bad, #a40e26)"/>{_text(x + shift, y + rise, name, anchor)}</g>'
        )
    caption = f"{counted(len(group.accounts), 'account')}, {counted(group.records, 'record')}" + (
        f" ({counted(left, 'account')} not drawn)" if left else ""
    )
    parts.append(_text(centre[0], height - _LINE, caption))
    return "".join(parts), width, height


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'
