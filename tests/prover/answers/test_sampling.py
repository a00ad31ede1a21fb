# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact draws: bits of a key are what they are, frequencies are those of the laws, within what chance allows."""

from __future__ import annotations

import hmac
import math
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.answers.sampling import (
    coin,
    discrete_gaussian,
    discrete_laplace,
    exponential_choice,
    exponential_coin,
)
from ragseal.prover.answers.stream import Stream, answer_key

DRAWS = 6000
LIMIT = 5.0  #: standard deviations; the streams are fixed, so a test that passes once passes always


def stream(name: str) -> Stream:
    return Stream(name.encode().ljust(32, b"\0"))


def close(draw: Callable[[], int], law: Mapping[int, float], draws: int = DRAWS) -> None:
    """Every value as often as its probability says, and none that has none."""
    counts = Counter(draw() for _ in range(draws))
    total = math.fsum(law.values())
    assert set(counts) <= set(law)
    for value, weight in law.items():
        p = weight / total
        assert abs(counts[value] - draws * p) <= LIMIT * math.sqrt(draws * p * (1 - p)) + 1


# --- bits ------------------------------------------------------------------------------------------------------------


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="takes 32"):
        Stream(b"short")


def test_bits_are_those_of_hmac_sha_512_in_counter_mode_each_used_once() -> None:
    key = bytes(range(32))
    blocks = [hmac.digest(key, b"ragseal/private-answer/" + i.to_bytes(8, "big"), "sha512") for i in range(3)]
    whole = int.from_bytes(b"".join(blocks), "big")
    made = Stream(key)
    widths = [1, 7, 0, 500, 9, 512, 400, 107]
    joined = 0
    for width in widths:
        joined = joined << width | made.bits(width)
    assert sum(widths) == 1536
    assert joined == whole


def test_integers_below_a_bound_are_uniform() -> None:
    for bound in (1, 2, 5, 8):
        made = stream(f"below {bound}")
        close(lambda made=made, bound=bound: made.below(bound), dict.fromkeys(range(bound), 1.0))


def test_a_key_differs_with_each_thing_that_it_is_of() -> None:
    asked = ((1, 2), 3, b"window", "ann", 1, "who?")
    others = [((2, 1), *asked[1:]), ((1, 2), 4, *asked[2:]), ((1, 2), 3, b"windox", "ann", 1, "who?"),
              ((1, 2), 3, b"window", "bob", 1, "who?"), ((1, 2), 3, b"window", "ann", 2, "who?"),
              ((1, 2), 3, b"windo", "wann", 1, "who?"), ((1, 2), 3, b"window", "ann", 1, "why?")]  # fmt: skip
    keys = {answer_key(*one) for one in [asked, asked, *others]}
    assert len(keys) == 1 + len(others)
    assert {len(key) for key in keys} == {32}


# --- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1), Fraction(2, 7)])
def test_a_rational_coin(p: Fraction) -> None:
    made = stream(f"coin {p}")
    close(lambda: int(coin(made, p)), {one: q for one, q in ((1, float(p)), (0, float(1 - p))) if q})


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_an_exponential_coin(x: Fraction) -> None:
    made = stream(f"exponential {x}")
    p = math.exp(-x)
    close(lambda: int(exponential_coin(made, x)), {one: q for one, q in ((1, p), (0, 1 - p)) if q})


@pytest.mark.parametrize("scale", [1, 3])
def test_the_discrete_laplace_law(scale: int) -> None:
    made = stream(f"laplace {scale}")
    close(lambda: discrete_laplace(made, scale), {x: math.exp(-abs(x) / scale) for x in range(-60, 61)}, 3000)


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(4), Fraction(133, 10)])
def test_the_discrete_gaussian_law(variance: Fraction) -> None:
    made = stream(f"gaussian {variance}")
    law = {x: math.exp(-x * x / (2 * variance)) for x in range(-40, 41)}
    close(lambda: discrete_gaussian(made, variance), {x: w for x, w in law.items() if w}, 3000)


def test_the_exponential_choice() -> None:
    utilities = [Fraction(0), Fraction(-3, 2), Fraction(1, 3), Fraction(0)]
    made = stream("choice")
    close(lambda: exponential_choice(made, utilities), {i: math.exp(u) for i, u in enumerate(utilities)})


def test_draws_are_the_same_on_every_machine() -> None:
    made = stream("vector")
    drawn = [discrete_gaussian(made, Fraction(59, 8)) for _ in range(12)]
    assert drawn == VECTOR
    assert [exponential_choice(made, [Fraction(i, 5) for i in range(9)]) for _ in range(8)] == CHOSEN


VECTOR = [0, -2, 1, -8, -1, 5, -4, 5, 1, 0, -6, -1]
CHOSEN = [7, 8, 4, 2, 8, 8, 1, 4]
