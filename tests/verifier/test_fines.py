# SPDX-License-Identifier: GPL-3.0-or-later
"""The page about fines: its formula against an enumeration of every sample, its closed forms and its table."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ragseal.verifier.steps.sample import largest_undetected, size_to_detect

PAGE = (Path(__file__).parents[2] / "docs/how-to/fines.md").read_text()


def least_fine(n: int, s: int, gain: Sequence[Fraction], forfeited: bool) -> Fraction:
    """The page's own function."""
    code = re.search(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert code is not None
    scope: dict[str, Any] = {}
    exec(code[1], scope)
    found: Fraction = scope["least_fine"](n, s, gain, forfeited)
    return found


def profits(n: int, s: int, gain: Sequence[Fraction], forfeited: bool, fine: Fraction) -> list[Fraction]:
    """What each number of bad records brings on average, over every sample."""
    found = []
    for m in range(1, n + 1):
        samples = list(itertools.combinations(range(n), s))
        total = Fraction(0)
        for sample in samples:
            caught = min(sample) < m  # the first m records are bad
            total += (0 if caught and forfeited else gain[m - 1]) - (fine if caught else 0)
        found.append(total / len(samples))
    return found


def linear(n: int) -> list[Fraction]:
    return [Fraction(m) for m in range(1, n + 1)]


def step(n: int, least: int) -> list[Fraction]:
    return [Fraction(int(m >= least)) for m in range(1, n + 1)]


@pytest.mark.parametrize("forfeited", [True, False])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_at_the_least_fine_cheating_just_does_not_pay(n: int, forfeited: bool) -> None:
    gains = [linear(n), step(n, min(3, n)), [Fraction(m * m, 7) for m in range(1, n + 1)]]
    for s, gain in itertools.product(range(1, n + 1), gains):
        fine = least_fine(n, s, gain, forfeited)
        assert max(profits(n, s, gain, forfeited, fine)) <= 0
        if fine:
            assert max(profits(n, s, gain, forfeited, fine * Fraction(99, 100))) > 0


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_the_closed_forms(n: int) -> None:
    for s in range(1, n + 1):
        lost, kept = (least_fine(n, s, linear(n), forfeited) for forfeited in (True, False))
        assert lost == Fraction(n - s, s)
        assert kept == n
        fine = Fraction(3, 2)
        enough = math.ceil(n / (1 + fine))
        assert least_fine(n, enough, linear(n), True) <= fine
        assert enough == 1 or least_fine(n, enough - 1, linear(n), True) > fine


@pytest.mark.parametrize(("n", "least"), [(100, 5), (300, 3), (50, 50)])
@pytest.mark.parametrize("sure", [Fraction(99, 100), 1 - Fraction(1, 1 << 20)])
def test_what_detect_computes_is_enough_for_a_gain_from_so_many_records_on(n: int, least: int, sure: Fraction) -> None:
    s = size_to_detect({"a": n}, Fraction(least, n), sure)
    assert largest_undetected([(n, s)], sure) < least
    assert least_fine(n, s, step(n, least), False) <= 1 / sure
    assert least_fine(n, s, step(n, least), True) <= (1 - sure) / sure


def test_the_table() -> None:
    _, _, *rows = re.search(r"\n\n(\| proven \|.*?)\n\n", PAGE, flags=re.S)[1].splitlines()  # type: ignore[index]
    assert len(rows) == 7
    for row in rows:
        proven, *said = (cell.strip().replace(",", "") for cell in row.strip("| ").split("|"))
        found = [
            least_fine(1000, int(proven), gain, forfeited)
            for gain, forfeited in itertools.product((linear(1000), step(1000, 10)), (True, False))
        ]
        for value, text in zip(found, said, strict=True):
            assert float(text) == pytest.approx(float(value), rel=0.05 if "e" in text else 1e-9, abs=1e-4), row
            assert float(text) >= float(value) or "e" in text
