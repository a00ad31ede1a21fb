# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of clusters: well formed, complete, escaped, bounded, the same every time."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from ragseal.verifier.report.svg import MOST_ACCOUNTS, MOST_CLUSTERS, WIDTH, Group, clusters_svg

SVG = "{http://www.w3.org/2000/svg}"


def parse(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def words(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_two_colluding_accounts() -> None:
    root = parse(
        clusters_svg("one cluster", [Group(("ana", "ben"), 12)], [("ben", "ana"), ("ana", "ben"), ("ana", "ana")])
    )
    assert words(root) == ["ana", "ben", "2 accounts, 12 records"]
    assert len(list(root.iter(f"{SVG}circle"))) == 2
    (line,) = root.iter(f"{SVG}line")
    assert line[0].text == "ana and ben: 2 links"
    assert root.findtext(f"{SVG}title") == "one cluster"


def test_nothing_to_show() -> None:
    assert clusters_svg("none", [], []) == ""


def test_hostile_names_stay_text() -> None:
    evil = '"><script>alert(1)</script><image href="http://x"/>'
    text = clusters_svg(evil, [Group((evil, "b & c"), 2)], [(evil, "b & c")])
    assert "<script" not in text
    assert "<image" not in text
    root = parse(text)
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{t}" for t in ("svg", "title", "g", "line", "circle", "text")
    }
    assert words(root)[1] == "b & c"
    assert not re.search(r"(href|src|url\()", re.sub(r"<(title|text)[^>]*>[^<]*</", "", text))


def test_what_is_left_out_is_counted() -> None:
    many = [Group(tuple(f"c{i}a{j:03}" for j in range(MOST_ACCOUNTS + 5)), 99) for i in range(MOST_CLUSTERS + 3)]
    root = parse(clusters_svg("many", many, []))
    assert len(list(root.iter(f"{SVG}circle"))) == MOST_CLUSTERS * MOST_ACCOUNTS
    assert words(root)[-1] == "and 3 smaller clusters"
    assert sum("(5 accounts not drawn)" in word for word in words(root)) == MOST_CLUSTERS


NAMES = st.text(min_size=1, max_size=64).filter(lambda s: all(c.isprintable() for c in s))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(NAMES, min_size=2, max_size=30, unique=True), min_size=1, max_size=20))
def test_everything_lies_inside(clusters: list[list[str]]) -> None:
    groups = [Group(tuple(accounts), len(accounts)) for accounts in clusters]
    links = [(a, b) for accounts in clusters for a, b in itertools.pairwise(accounts)]
    text = clusters_svg("t", groups, links)
    assert text == clusters_svg("t", groups, links)
    root = parse(text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert width == WIDTH
    for frame in root.findall(f"{SVG}g"):
        x, y = map(float, re.findall(r"-?[\d.]+", frame.attrib["transform"]))
        for circle in frame.iter(f"{SVG}circle"):
            assert 0 <= x + float(circle.attrib["cx"]) <= width
            assert 0 <= y + float(circle.attrib["cy"]) <= height
