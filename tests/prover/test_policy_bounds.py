# SPDX-License-Identifier: GPL-3.0-or-later
"""A policy file's values at both sides of their bounds, and what is written for a value that it leaves out."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ragseal.accounting.delivered import certified_unseen, fewest_hidden
from ragseal.accounting.delivered_decoys import Lists, certified_return
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import NO_FORMULA, NO_RHO, NO_VOCABULARY, OFF, PRECISE, Policy
from ragseal.prover.commitment import policy_file
from ragseal.prover.commitment.policy_file import (
    COSINE_ONE,
    GUARD_RHO,
    LEAST_UNSEEN,
    MAX_FILE,
    MAX_RATIONAL,
    MOST_UNSEEN,
    Binding,
    policy_values,
    read_policy,
)
from tests.classes import DECOYS, TINY
from tests.prover.test_policy_numbers import ANSWERS, GOOD, NOW, read

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
    assert read(**DELIVERED | {"estimate": estimate}).gate is gate
    assert read().gate


def test_the_least_coin_that_keeps_to_unseen_is_taken() -> None:
    for unseen in (LEAST_UNSEEN, 0.5, 3, MOST_UNSEEN):
        hidden = read(**DELIVERED | {"unseen": unseen}).hidden
        assert hidden == fewest_hidden(unseen, chunks=1, periods=1)
        assert certified_unseen(hidden, chunks=1, periods=1) <= unseen
        assert hidden == 1 or certified_unseen(hidden - 1, chunks=1, periods=1) > unseen
    for unseen in (math.nextafter(LEAST_UNSEEN, 0), math.nextafter(MOST_UNSEEN, 99), True, "3", None):
        with pytest.raises(PolicyError, match="needs unseen = a number from"):
            read(**DELIVERED | {"unseen": unseen})
    with pytest.raises(PolicyError, match="unseen is of the claim until-delivered"):
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
