# SPDX-License-Identifier: GPL-3.0-or-later
"""The statement with noise over a small field, every prover: whatever is accepted is true.

Four slots, three places, one winner, chunks of two bits, one coarse bit, in the field of 2,503 elements.  Look-ups
hold as equalities of multisets, as they do at a challenge that no one foresaw.  For fixed coarse bits and noise by
rank, every list of records that fits the rows of places is tried, out-of-range slots included, against every remainder
and distance of every slot.  docs/proofs/noise.md, section 5.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

pytestmark = pytest.mark.slow

P = 2503
N, K, R, C, M, L = 4, 1, 3, 2, 1, 2
CHUNK = 1 << C
Q = (0, 1)  # bound of coarse bits
H = 1

Outcome = tuple[int, bool]  #: the winner's slot as the statement has it, and its flag


@dataclass(frozen=True)
class Record:
    """A place as a prover may present it: what its rows allow."""

    slot: int
    u: int
    k: int
    full: int
    key: int
    e: int
    reach: int  #: s + Q(u)


def field_value(x: int) -> int:
    """The representative nearest to 0."""
    return x % P if x % P <= P // 2 else x % P - P


def records(entry: int, dropped: str = "") -> Iterator[Record]:
    """Every record whose own rows hold: bits, clip, e not 0, its distance to the entry; one of the rules dropped."""
    for k in range(-CHUNK, CHUNK + 1):
        positive, capped = int(k >= 1), int(k > H)
        if not 0 <= (k - 1 if positive else -k) < CHUNK or not 0 <= (k - H - 1 if capped else H - k) < CHUNK:
            continue
        s = min(max(k, 0), H)
        for u, full, shift in itertools.product(range(1 << M), range(2), range(2)):
            reach = s + Q[u]
            if not (0 <= reach - entry < CHUNK if full else reach == entry - 1 or dropped == "reach of an edge place"):
                continue
            x = 2 * (1 - full) + shift
            y = x + Q[u] - entry + 1
            e = (y + k) * (y + H) % P
            if e or dropped == "e not 0":
                for slot in range(-(1 << L), 2 << L):
                    key = (slot + (u << (L + 1)) + (x << (L + 1 + M))) % P
                    yield Record(slot, u, k, full, key, e, reach)


def lists(entry: int, dropped: str = "") -> Iterator[tuple[Record, ...]]:
    """Every list of R records in order, full ones first, the last not full."""
    by_position: dict[int, list[Record]] = {}
    for record in records(entry, dropped):
        by_position.setdefault(record.slot - (record.full << L), []).append(record)
    for positions in itertools.combinations(sorted(by_position), R):
        if positions[0] < -(1 << L) or positions[-1] >= N:
            continue
        for chosen in itertools.product(*(by_position[p] for p in positions)):
            kinds = [one.full for one in chosen]
            if kinds[-1] and dropped != "the last is not full":
                continue
            if kinds == sorted(kinds, reverse=True) or dropped == "full ones first":
                yield chosen


@cache
def slot_options(i: int, w: int, u: int, entry: int) -> tuple[bool, set[tuple[int, int]]]:
    """Whether slot i can be kept below the entry, and every (key, e) with e not 0 that it can show."""
    below, shown = False, set()
    for remainder, x in itertools.product(range(CHUNK), repeat=2):
        k = (w - remainder) * pow(CHUNK, -1, P)
        y = x + Q[u] - entry + 1
        e = (y + k) * (y + H) % P
        key = (i + (u << (L + 1)) + (x << (L + 1 + M))) % P
        if e:
            shown.add((key, e))
        else:
            below = True
    return below, shown


Candidate = tuple[list[tuple[int, int]], tuple[Record, ...]]  #: (key, numerator) of a list's fractions; the list


def candidates(some: list[tuple[Record, ...]], coarse: tuple[int, ...]) -> list[Candidate]:
    """The lists whose fractions, equal keys added up, all have a key that some slot can show."""
    keys = {(i + (u << (L + 1)) + (x << (L + 1 + M))) % P for i, u in enumerate(coarse) for x in range(CHUNK)}
    out: list[Candidate] = []
    for places in some:
        sums: Counter[int] = Counter()
        for one in places:
            sums[one.key] += one.e
        left = [(key, e % P) for key, e in sums.items() if e % P]
        if all(key in keys for key, _ in left):
            out.append((left, places))
    return out


def fitting(
    w: tuple[int, ...], coarse: tuple[int, ...], tried: dict[int, list[Candidate]]
) -> list[tuple[int, tuple[Record, ...]]]:
    """The entries and lists whose fractions the slots of these scores can add up to, whatever the noise is."""
    found = []
    for entry, some in tried.items():
        options = [slot_options(i, x, u, entry) for i, (x, u) in enumerate(zip(w, coarse, strict=True))]
        of_key = {pair: i for i, (_, shown) in enumerate(options) for pair in shown}
        must = {i for i, (below, _) in enumerate(options) if not below}
        for left, places in some:
            if len(left) < len(must):
                continue
            opened = {of_key.get(pair, -1) for pair in left}
            if -1 not in opened and len(opened) == len(left) and must <= opened:
                found.append((entry, places))
    return found


def accepted(
    fit: list[tuple[int, tuple[Record, ...]]],
    coarse: tuple[int, ...],
    gain: tuple[tuple[int, int], ...],
    dropped: str = "",
) -> set[Outcome]:
    """Every outcome that some prover can prove.  gain[rank][u]: the noise of that rank with coarse bits u."""
    found: set[Outcome] = set()
    for entry, places in fit:
        values = [min(max(one.k, 0), H) + gain[rank][one.u] for rank, one in enumerate(places)]
        best = max(range(R), key=lambda rank: (values[rank], -places[rank].slot))
        if values[best] < entry:
            continue
        for theta in range(1, (1 << M) + 1):
            counted = sum(one.u >= theta for one in places)
            above = sum(u >= theta for u in coarse)
            if Q[theta - 1] <= entry - 1 and (above == counted or dropped == "the count above theta"):
                found.add((places[best].slot, places[best].k >= 1))
    return found


def true_outcome(w: tuple[int, ...], coarse: tuple[int, ...], gain: tuple[tuple[int, int], ...]) -> Outcome | None:
    """The mechanism's, with score 0 for slots without an admissible digit; None where it refuses."""
    digits = []
    for x in w:
        admissible = [k for k in range(H - CHUNK + 1, CHUNK + 1) if (x - k * CHUNK) % P < CHUNK]
        assert len(admissible) <= 1
        digits.append(admissible[0] if admissible else 0)
    reach = [min(max(k, 0), H) + Q[u] for k, u in zip(digits, coarse, strict=True)]
    entry = sorted(reach)[-R] + 1
    full = [i for i in range(N) if reach[i] >= entry]
    values = [(min(max(digits[i], 0), H) + gain[rank][coarse[i]], -i) for rank, i in enumerate(full)]
    if not values or max(values)[0] < entry:
        return None
    slot = -max(values)[1]
    return slot, digits[slot] >= 1


ENTRIES = range(-2, 6)


@cache
def places_of() -> dict[int, list[tuple[Record, ...]]]:
    """Every list by its entry."""
    return {entry: list(lists(entry)) for entry in ENTRIES}


NOISE = [((0, 1), (0, 1), (0, 1)), ((-1, 1), (0, 0), (0, 1)), ((0, 0), (-1, 1), (0, 1))]


def test_the_toy_has_provers_of_every_kind() -> None:
    kinds = {
        (one.full, one.slot < 0, one.slot >= N, one.k < 0)
        for places in places_of().values()
        for p in places
        for one in p
    }
    assert len(kinds) >= 8
    assert sum(map(len, places_of().values())) > 10_000


COARSE = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1), (1, 1, 0, 0), (0, 1, 0, 1), (1, 1, 1, 0), (1, 1, 1, 1)]


def scores(digits: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Integer scores of every digit in every slot."""
    for ks in itertools.product(digits, repeat=N):
        yield tuple(CHUNK * k + k % CHUNK for k in ks)


@pytest.mark.parametrize("coarse", COARSE)
def test_whatever_is_accepted_is_true(coarse: tuple[int, ...]) -> None:
    """Digits below, in and above the window in every slot; then, in two slots, every 41st element of the field."""
    plain = [*scores((-2, 1, 3)), *scores((0, 1))]
    wild = [w for x in range(coarse[0], P, 41) for w in ((x, 4, 5, 1), (4, 0, x, 13))]
    provable = 0
    tried = {entry: candidates(some, coarse) for entry, some in places_of().items()}
    for w in [*plain, *wild]:
        fit = fitting(tuple(x % P for x in w), coarse, tried)
        for gain in NOISE[: 2 if w in plain else 1]:
            found = accepted(fit, coarse, gain)
            truth = true_outcome(w, coarse, gain)
            assert found <= {truth}, (w, coarse, gain)
            provable += bool(found)
            if w in plain:  # and all that is true can be proven
                assert found == ({truth} if truth else set()), (w, coarse, gain)
    assert provable


@pytest.mark.parametrize(
    "dropped", ["e not 0", "reach of an edge place", "the last is not full", "the count above theta"]
)
def test_every_rule_is_needed(dropped: str) -> None:
    """Live: without it something false is accepted.  A few lists at a time: one false proof is enough."""
    for entry in sorted(ENTRIES, key=lambda entry: abs(entry - 1)):
        some = lists(entry, dropped)
        while places := list(itertools.islice(some, 5000)):
            for coarse in COARSE[::-1]:
                tried = {entry: candidates(places, coarse)}
                for w in scores((-2, 1, 3)) if tried[entry] else ():
                    fit = fitting(tuple(x % P for x in w), coarse, tried)
                    for gain in NOISE if fit else ():
                        found = accepted(fit, coarse, gain, dropped)
                        if not found <= {true_outcome(w, coarse, gain)}:
                            return
    raise AssertionError("nothing false is accepted without it")
