# SPDX-License-Identifier: GPL-3.0-or-later
"""A policy file's values at both sides of their bounds, and what is written for a value that it leaves out."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ragseal.accounting.delivered import certified_unseen, fewest_hidden
from ragseal.accounting.delivered_decoys import Lists, certified_return
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_mechanism import clipped, digit
from ragseal.kernel.policy import LONGEST_WINDOW, NO_FORMULA, NO_RHO, NO_VOCABULARY, OFF, PRECISE, Policy, check_policy
from ragseal.prover.commitment import policy_file
from ragseal.prover.commitment.policy_file import (
    COSINE_ONE,
    GUARD_RHO,
    LEAST_UNSEEN,
    MAX_FILE,
    MAX_RATIONAL,
    MOST_UNSEEN,
    Binding,
    cosine_text,
    policy_values,
    read_policy,
)
from ragseal.prover.planning import consent
from ragseal.prover.planning.levels import ENOUGH, few_levels
from tests.classes import DECOYS, TINY
from tests.simulator import policy as a_policy

DELIVERED = {"claim": "until-delivered", "unseen": 3, "estimate": "report"}
OF_DECOYS = {"class": DECOYS.name, "ids": 10, "return": 6, **DELIVERED}


def bound(shards: int = 1, **changes: Any) -> Policy:
    values = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    cls = load_classes()[str(values["class"])]
    return read_policy(values, Binding(cls, bytes(32), 384, NOW, shards=shards), lambda policy, cls: Fraction(1))


def test_a_file_has_so_many_bytes_and_no_more() -> None:
    assert policy_values(b"#" * MAX_FILE) == {}
    with pytest.raises(PolicyError, match=f"more than {MAX_FILE} bytes"):
        policy_values(b"#" * (MAX_FILE + 1))


@pytest.mark.parametrize(
    ("length", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21600), ("1d", 86400), ("060s", 60), (60, 60)]
)
def test_a_length_of_time_has_a_unit_or_is_in_seconds(length: object, seconds: int) -> None:
    found = read(duration=length)
    assert found.closes - found.opens == seconds + -seconds % COARSE_TIME + COARSE_TIME


@pytest.mark.parametrize("length", ["90", "1w", "1.5h", "-1m", "1m ", "m", "1234567890s", True, 1.5])
def test_what_is_no_length_of_time_is_refused(length: object) -> None:
    with pytest.raises(PolicyError, match="duration"):
        read(duration=length)


def test_times_are_whole_minutes_that_hold_the_named_ones() -> None:
    found = read(opens=NOW + 7, closes=NOW + 601)
    assert (found.opens, found.closes) == (NOW, NOW + 660)
    found = read(opens=NOW + 60, closes=NOW + 660)
    assert (found.opens, found.closes) == (NOW + 60, NOW + 660)


def test_whole_numbers_have_a_range() -> None:
    assert read(period_start=0).period_start == 0
    assert policy_file._whole({"gain": (1 << 63) - 1}, "gain") == (1 << 63) - 1
    for value in (-1, 1 << 63, True, 1.0, "1"):
        with pytest.raises(PolicyError, match="gain must be a whole number"):
            read(gain=value)


def test_a_day_without_a_zone_names_no_second() -> None:
    with pytest.raises(PolicyError, match=r"not 2026-09-21T12:00:00$"):
        read(opens=datetime.datetime(2026, 9, 21, 12))


def test_a_score_is_the_nearest_to_its_cosine() -> None:
    assert (read(lo=0.30001, hi=0.70001).lo, read(lo=0.30004, hi=0.7).lo) == (4839, 4839)
    assert Fraction("0.30004") * COSINE_ONE > 4839
    assert Fraction("0.30001") * COSINE_ONE < 4839
    for value in (-0.0001, 1.0001):
        with pytest.raises(PolicyError, match=r"outside \[0, 1\]"):
            read(hi=value)


def test_a_fraction_has_so_many_characters_and_no_more() -> None:
    longest = "1/" + "9" * (MAX_RATIONAL - 2)
    assert policy_file._rational({"delta": longest}, "delta") == longest
    with pytest.raises(PolicyError, match=f"takes {MAX_RATIONAL + 1} characters"):
        read(delta=longest + "9")


@pytest.mark.parametrize("value", ["1e1000", "1E+1000", "1e-1000", "1e10000"])
def test_an_exponent_of_four_digits_is_no_number(value: str) -> None:
    with pytest.raises(PolicyError, match="is not a rational number"):
        read(delta=value)


@pytest.mark.parametrize(("estimate", "gate"), [("gate", True), ("report", False)])
def test_an_estimate_is_a_gate_where_the_file_says_so(estimate: str, gate: bool) -> None:
    assert of_decoys(estimate=estimate).gate is gate
    assert read().gate


def test_the_least_coin_that_keeps_to_unseen_is_taken() -> None:
    for unseen in (LEAST_UNSEEN, 0.5, 3, MOST_UNSEEN):
        hidden = of_decoys(unseen=unseen).hidden
        assert hidden == fewest_hidden(unseen, chunks=1, periods=1)
        assert certified_unseen(hidden, chunks=1, periods=1) <= unseen
        assert hidden == 1 or certified_unseen(hidden - 1, chunks=1, periods=1) > unseen
    for unseen in (math.nextafter(LEAST_UNSEEN, 0), math.nextafter(MOST_UNSEEN, 99), True, "3", None):
        with pytest.raises(PolicyError, match="needs unseen = a number from"):
            of_decoys(unseen=unseen)
    with pytest.raises(PolicyError, match="unseen is of the claims until-delivered and unseen"):
        read(unseen=3)
    assert read().hidden == 0


def of_decoys(**changes: Any) -> Policy:
    return bound(**{"hi": None, "gain": None, **OF_DECOYS, **changes})


def test_decoys_have_keys_of_their_own() -> None:
    rates = []
    for most in (4.5, 6):
        found = of_decoys(**{"return": most})
        rates.append(found.decoy_rate)
        assert (found.ids, found.hi, found.gain) == (10, found.lo + 1, 1)
        lists = Lists(DECOYS.N, 10, found.decoy_rate)
        assert certified_return(lists, found.hidden, 1) <= most
        assert certified_return(replace(lists, rate=found.decoy_rate - 100), found.hidden, 1) > most
    assert rates[0] > rates[1] > 0
    for odd in (0.5, 31, True, "6"):
        with pytest.raises(PolicyError, match="return is a number from 1 to 30"):
            of_decoys(**{"return": odd})
    with pytest.raises(PolicyError, match="policy: return is missing"):
        of_decoys(**{"return": None})
    with pytest.raises(PolicyError, match="has the law 'decoys': leave out hi and gain"):
        of_decoys(hi=0.9, gain=3)
    with pytest.raises(PolicyError, match=f"has the law '{TINY.law}': leave out return and ids"):
        read(**{"ids": 3, "return": 6})


def test_a_guard_has_defaults_and_nothing_of_it_stands_without_one() -> None:
    found = read()
    assert (found.guard, found.guard_rho, found.guard_formula) == (OFF, NO_RHO, NO_FORMULA)
    found = read(guard="returned")
    assert (found.guard, found.guard_rho, found.guard_formula) == ("returned", GUARD_RHO, PRECISE)
    found = read(guard="returned", guard_rho="1/10", guard_formula="paper")
    assert (found.guard_rho, found.guard_formula) == ("1/10", "paper")
    for alone in ({"guard_rho": "1/20"}, {"guard_formula": "paper"}):
        with pytest.raises(PolicyError, match="are of a guard"):
            read(**alone)


def test_a_guard_that_cannot_count_is_refused_with_the_policy() -> None:
    """Its fraction is below 1, and the nearest float is 1: every answer of the window would have failed."""
    with pytest.raises(PolicyError, match="rho must lie strictly between 0 and 1"):
        read(guard="returned", guard_rho="0." + "9" * 25)


@pytest.mark.parametrize("root", ["ab" * 31, "ab" * 33, "x" * 64, 7])
def test_a_vocabulary_is_a_root_of_32_bytes(root: object) -> None:
    assert read(**ANSWERS).vocabulary == b"\xab" * 32
    assert read().vocabulary == NO_VOCABULARY
    with pytest.raises(PolicyError, match="vocabulary is the root"):
        read(**ANSWERS | {"vocabulary": root})


def test_shards_are_the_class_s_and_no_matter_of_the_file() -> None:
    sharded = {"class": "noise-tiny-two", "gain": 4}
    assert bound(shards=3, **sharded).shards == 3
    assert bound(**sharded).shards == 1


# A score window of few whole steps says what it loses, and one of sixteen says nothing.


CLASSES = load_classes()
CLS = CLASSES["noise-small-gaussian-50"]
LO, HI = 4839, 8065  # cosines 0.3 and 0.5


def policy(cls: AttestationClass, gain: int) -> Policy:
    return a_policy(
        class_name=cls.name, class_digest=class_digest(cls), table_digest=build_table(cls.law).digest(), dimension=384,
        lo=LO, hi=HI, gain=gain, n_max=25, epsilon_account="3", tau=1, period_start=0, opens=0, closes=86_400,
        ids=cls.most_ids(1),
    )  # fmt: skip


def said(cls: AttestationClass, gain: int) -> str:
    """What commit says of a policy."""
    rules = policy(cls, gain)
    check_policy(rules, cls, class_digest(cls))
    return "\n".join(consent.lines(consent.terms(rules, cls, {"epsilon": 1.0}), rules, cls))


@pytest.mark.parametrize("gain", [3, 8, 20, 38])
def test_few_levels_are_said_with_what_they_lose(gain: int) -> None:
    found = few_levels(CLS, LO, HI, gain)
    assert found is not None
    assert found.levels == policy(CLS, gain).hmax(CLS) < ENOUGH
    assert f"scores have {'one level' if found.levels == 1 else f'{found.levels} levels'}" in said(CLS, gain)
    # Two scores that differ by less than the step said may have one level, and some of that distance have not.
    apart = round(found.cosine * 127**2)
    levels = [clipped(digit(CLS, gain * (y - LO)), found.levels) for y in range(LO, HI + 1)]  # type: ignore[arg-type]
    assert max(levels.count(level) for level in range(found.levels)) == pytest.approx(apart, abs=1)
    assert levels[apart - 1] == 0
    # The gain that it names is the least of enough levels.
    assert few_levels(CLS, LO, HI, found.gain) is None
    assert few_levels(CLS, LO, HI, found.gain - 1) is not None


def test_enough_levels_have_nothing_to_say() -> None:
    assert few_levels(CLS, LO, HI, 41) is None
    assert "level" not in said(CLS, 41)
    assert few_levels(replace(CLS, law="geometric-16"), LO, HI, 3) is not None
    assert few_levels(CLASSES["decoys-tiny"], LO, HI, 1) is None


# The numbers of a policy file mean one thing each, and errors show them as the file has them. SPEC A.6.


NOW = 1_790_000_040
GOOD = {
    "class": TINY.name, "claim": "every-list", "lo": 0.3, "hi": 0.7, "gain": 60, "n_max": 5, "k_max": 2,
    "delta": "1/1000000",
}  # fmt: skip
ANSWERS = GOOD | {"claim": "answers", "class": "noise-mini-two-10", "lo": 0, "hi": 40, "gain": 4, "similarity": 0.35,
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
