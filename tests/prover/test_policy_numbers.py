# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers of a policy file mean one thing each, and errors show them as the file has them.  SPEC A.6."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction
from typing import Any

import pytest

from ragseal.circuits.circuit import load_classes
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import LONGEST_WINDOW, Policy
from ragseal.prover.commitment.policy_file import COSINE_ONE, Binding, cosine_text, policy_values, read_policy
from tests.classes import TINY

NOW = 1_790_000_040
GOOD = {
    "class": TINY.name, "claim": "every-list", "lo": 0.3, "hi": 0.7, "gain": 60, "n_max": 5, "k_max": 2,
    "delta": "1/1000000",
}  # fmt: skip
ANSWERS = GOOD | {"claim": "answers", "class": "noise-mini-one-10", "lo": 0, "hi": 40, "gain": 4, "similarity": 0.35,
                  "words_max": 6, "participations": 3, "estimate": "report", "vocabulary": "ab" * 32}  # fmt: skip


def read(**changes: Any) -> Policy:
    values = {**GOOD, **changes}
    cls = load_classes()[str(values["class"])]
    return read_policy(values, Binding(cls, bytes(32), 384, NOW), lambda policy, cls: Fraction(1))


def test_cosines_are_decimals() -> None:
    assert (read().lo, read().hi) == (4839, 11290)
    assert (read(lo=0.0, hi=1.0).lo, read(lo=0.0, hi=1.0).hi) == (0, COSINE_ONE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hi": 1}, "hi is a cosine, .*1 is a whole number.*1/127^2: write hi = 1.0"),
        ({"lo": 0}, "lo is a cosine, .*write lo = 0.0"),
        ({"lo": 4839}, "write lo = 0.30002 for 4839 units"),
        ({"lo": 0, "hi": 1}, "write lo = 0.0"),
        ({"hi": 70}, "write hi = 0.00434 for 70 units"),
        ({"hi": -1}, "write hi = 0.3"),
        ({"hi": 10**400}, "a whole number of 1329 bits"),
        ({"hi": "0.7"}, "hi must be a cosine such as 0.3, not '0.7'"),
        ({"hi": True}, "hi must be a cosine such as 0.3, not true"),
        ({"hi": [0.7]}, "not a list of 1"),
        ({"hi": float("nan")}, "hi must be a cosine such as 0.3, not nan"),
        ({"lo": 0.7, "hi": 0.3}, "not [0.7, 0.3] in cosines: write lo = 0.3, hi = 0.7 (they look swapped)"),
        ({"lo": 0.3, "hi": 0.3}, "not [0.3, 0.3] in cosines: write a window such as"),
        (ANSWERS | {"similarity": 1}, "similarity is a cosine, .*write similarity = 1.0"),
        (ANSWERS | {"hi": 0.7}, "hi must be a whole number"),
        (ANSWERS | {"lo": 0.0}, "lo must be a whole number"),
    ],
)
def test_a_number_of_another_unit_is_refused_with_what_to_write(change: dict[str, Any], said: str) -> None:
    parts = map(re.escape, said.split(".*"))
    with pytest.raises(PolicyError, match=".*".join(parts)):
        read(**change)


def test_counts_of_documents_are_whole_numbers() -> None:
    found = read(**ANSWERS)
    assert (found.lo, found.hi, found.similarity) == (0, 40, round(0.35 * COSINE_ONE))


def test_every_score_has_a_decimal_that_reads_back_as_it() -> None:
    for units in range(COSINE_ONE + 1):
        text = cosine_text(units)
        assert "." in text
        assert round(Fraction(text) * COSINE_ONE) == units
    assert [cosine_text(units) for units in (0, COSINE_ONE)] == ["0.0", "1.0"]


def test_errors_show_values_as_the_file_has_them() -> None:
    day = datetime.datetime(2026, 9, 21, 12, tzinfo=datetime.UTC)
    with pytest.raises(PolicyError, match=r"opens is a number of seconds since 1970, not 2026-09-21T12:00:00\+00:00: "
                       rf"opens = {int(day.timestamp())}$"):  # fmt: skip
        read(opens=day)
    with pytest.raises(PolicyError, match=r"closes is a number of seconds since 1970, not 2026-09-21$"):
        read(closes=day.date())
    for change in ({"opens": day}, {"gain": day}, {"estimate": day}, {"guard": day}, {"claim": day}, {"delta": day},
                   {"vocabulary": day}, {"class": TINY.name, "unseen": day}, {"version_every": day},
                   {"guard": "returned", "guard_formula": day}):  # fmt: skip
        with pytest.raises(PolicyError) as caught:
            read(**change)
        assert "datetime" not in str(caught.value), change


@pytest.mark.parametrize("name", ["delta", "theta", "epsilon_account", "gain", "hi", "n_max", "unseen"])
@pytest.mark.parametrize(
    "value", [10**300, 1e-300, "1/1" + "0" * 300, "x" * 1000, 1e300], ids=["whole", "tiny", "fraction", "text", "huge"]
)
def test_no_error_shows_hundreds_of_digits(name: str, value: object) -> None:
    with pytest.raises(PolicyError) as caught:
        read(**{name: value})
    assert len(str(caught.value)) < 300


def test_a_file_that_is_no_toml_names_the_line() -> None:
    with pytest.raises(PolicyError, match=r"the policy is not TOML: .*line 2"):
        policy_values(b"gain = 1\n= 2\n")


def test_a_window_may_open_a_year_from_now_and_no_later() -> None:
    latest = NOW + LONGEST_WINDOW
    assert latest % COARSE_TIME == 0
    assert read(opens=latest).opens == latest
    with pytest.raises(PolicyError, match="more than 366 days from now"):
        read(opens=latest + COARSE_TIME)


@pytest.mark.parametrize(
    ("before", "named", "starts"),
    [
        (None, None, NOW),
        (NOW - 7200, None, NOW - 7200),
        (NOW + 7200, None, NOW),
        (NOW - 7200, NOW - 60, NOW - 60),
    ],
)
def test_a_budget_period_goes_on_and_never_begins_behind_the_opening(
    before: int | None, named: int | None, starts: int
) -> None:
    """A window before it may have been committed for a later time than this one's, and never opened."""
    cls = load_classes()[str(GOOD["class"])]
    values = dict(GOOD) if named is None else {**GOOD, "period_start": named}
    binding = Binding(cls, bytes(32), 384, NOW, period_start=before)
    assert read_policy(values, binding, lambda policy, cls: Fraction(1)).period_start == starts
