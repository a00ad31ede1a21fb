# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the lottery's statement as SPEC B.6.8 has them, in plain integers: what is zero, what is looked up.

Written from the text and not from the circuit, and used in two ways.  Their values at a random point are compared with
the rows of the compiled file: two rational functions that agree there are the same.  And over a small field they are
taken for what look-ups mean, sets and multisets, and witnesses are tried one by one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.circuits.r1cs import P

#: One hint group each, as nested lists where it has two dimensions; scores, clear inputs and private ones too.
Values = Mapping[str, Any]
Fraction = tuple[int, int]  #: numerator, and what is subtracted from alpha


class Sizes(Protocol):
    """What a rule needs of a class."""

    @property
    def N(self) -> int: ...
    @property
    def m(self) -> int: ...
    @property
    def c(self) -> int: ...
    @property
    def L(self) -> int: ...
    @property
    def grid(self) -> int: ...
    @property
    def id_chunks(self) -> int: ...


@dataclass
class Rules:
    """What one assignment says, mod p."""

    p: int = P
    zero: dict[str, int] = field(default_factory=dict)  #: has to be 0
    chunks: dict[str, int] = field(default_factory=dict)  #: has to be in [0, 2^c)
    coarse: list[tuple[int, int]] = field(default_factory=list)  #: (u, beta b) has to be a row of the coarse table
    slots: list[Fraction] = field(default_factory=list)  #: (e, key) of every slot
    places: list[Fraction] = field(default_factory=list)  #: of every place: the same sum, and no e is 0
    winners: list[Fraction] = field(default_factory=list)  #: (wins, 2 i + flag) of every place
    returned: list[int] = field(default_factory=list)  #: the same sum

    def chunked(self, name: str, value: int, low: Sequence[int], c: int) -> None:
        """``value`` in [0, 2^(c n)) by n - 1 chunks that are given and the one that is left."""
        for j, x in enumerate(low):
            self.chunks[f"{name}.{j}"] = x % self.p
            value -= x << (c * j)
        self.chunks[f"{name}.high"] = value * pow(1 << (c * len(low)), -1, self.p) % self.p

    def bit(self, name: str, x: int) -> None:
        self.zero[name] = x * (x - 1) % self.p


def slot_rules(rules: Rules, cls: Sizes, v: Values) -> None:
    """SPEC B.6.3 with B.6.8's bounds: key, multiplier, bound and distance of every slot."""
    p, (threshold,) = rules.p, v["threshold"]
    for i, (low, u, b, high) in enumerate(v["slot"]):
        rules.chunks[f"X.{i}.low"], rules.chunks[f"X.{i}.high"] = low % p, high % p
        rules.coarse.append((u, v["scaledBound"][i]))
        x = low + (high << cls.c)
        y = x + b - threshold + 1
        rules.slots.append(
            ((y + v["w"][i]) * (y + v["hmax"]) % p, (i + (u << cls.L) + (x << (cls.L + cls.m))) % p),
        )


def place_rules(rules: Rules, cls: Sizes, v: Values) -> None:
    """Of every place: that it is a slot as it is, its value, and whether it comes before the threshold."""
    p, c, h, (threshold,), (last,) = rules.p, cls.c, v["hmax"], v["threshold"], v["thresholdSlot"]
    theta = theta_of(cls, v)
    for r, slot in enumerate(v["placeSlot"]):
        w, u, b, x = (v[f"place{name}"][r] for name in ("Score", "Coarse", "Bound", "Distance"))
        above, over, prize, counted, wins = (
            v[f"place{name}"][r] for name in ("Positive", "Capped", "Prize", "Counted", "Wins")
        )
        rules.coarse.append((u, v["beta"] * b))
        rules.chunks[f"place.{r}.X"] = x % p
        y = x + b - threshold + 1
        rules.places.append(((y + w) * (y + h) % p, (slot + (u << cls.L) + (x << (cls.L + cls.m))) % p))
        for name, x in {"positive": above, "capped": over, "counted": counted, "wins": wins}.items():
            rules.bit(f"place.{r}.{name}", x)
        # Each bit turns a distance around: d >= 0 where it is 1, and -1 - d >= 0 where it is 0.
        rules.chunked(f"place.{r}.floor", turned(above, w - 1), [v["placeFloor"][r]], c)
        rules.chunked(f"place.{r}.ceiling", turned(over, w - h - 1), [v["placeCeiling"][r]], c)
        rules.chunked(f"place.{r}.theta", turned(counted, u - theta), [], c)
        s = above * w - over * (w - h)
        rules.zero[f"place.{r}.prize"] = (prize * (h + (1 << cls.m)) - (b - u)) % p
        value = b + (1 - prize) * s
        ahead = ((value - threshold) << cls.L) - slot + last
        rules.chunked(f"place.{r}.margin", turned(wins, ahead), v["placeMargin"][r], c)
        rules.winners.append((wins, (2 * slot + above) % p))


def turned(bit: int, distance: int) -> int:
    """distance where the bit is 1, -1 - distance where it is 0."""
    return bit * distance + (1 - bit) * (-1 - distance)


def theta_of(cls: Sizes, v: Values) -> int:
    """The grid point that is chosen."""
    return sum(x * (first_point(cls) + g) for g, x in enumerate(v["thetaChoice"]))


def first_point(cls: Sizes) -> int:
    return (1 << cls.m) - cls.grid + 1


def closing_rules(rules: Rules, cls: Sizes, v: Values) -> None:
    """Order of the places, theta and the threshold, the number of prizes, the order of T."""
    p, c, (threshold,), (last,) = rules.p, cls.c, v["threshold"], v["thresholdSlot"]
    ends = [-1, *v["placeSlot"], cls.N]
    for r, (one, two) in enumerate(itertools.pairwise(ends)):
        low = v["placeGap"][r] if "placeGap" in v else []
        rules.chunked(f"gap.{r}", two - one - 1, low, c)
    theta = theta_of(cls, v)
    for name in ("thetaChoice", "prizeChoice"):
        for g, x in enumerate(v[name]):
            rules.bit(f"{name}.{g}", x)
        rules.zero[name] = (sum(v[name]) - 1) % p
    rules.zero["number of prizes"] = (sum(j * x for j, x in enumerate(v["prizeChoice"], 1)) - v["prizes"]) % p
    rules.chunked("theta below the first prize", (1 << cls.m) - v["prizes"] - theta, [], c)
    rules.chunked("theta below the threshold", threshold - theta, v["thresholdLow"], c)
    low = v.get("thresholdSlotLow", [])
    rules.chunked("last", last, low, c)
    narrow = cls.L - c * (cls.id_chunks - 1)
    if narrow < c:
        rules.chunks["last.narrow"] = rules.chunks["last.high"] * (1 << (c - narrow)) % p
    reach = sum(
        x * sum(v["coarseCount"][first_point(cls) + g :]) for g, x in enumerate(v["thetaChoice"])
    )  # multiplicities of all coarse values from theta on
    rules.zero["as many slots as places from theta on"] = (reach - 2 * sum(v["placeCounted"])) % p
    rules.returned = [x % p for x in v["returned"]]
    for k, (one, two) in enumerate(itertools.pairwise(v["returned"])):
        low = v["returnedGap"][k] if "returnedGap" in v else []
        rules.chunked(f"T.{k}", two - one - 1, low, c)


def coarse_table(cls: Sizes, v: Values, p: int) -> list[tuple[int, int]]:
    """(k, B(k)): the highest of the 2^m values are prizes."""
    lead, size = v["hmax"] + (1 << cls.m), 1 << cls.m
    chosen = v["prizeChoice"]
    return [(k, (k + lead * sum(chosen[size - k - 1 :])) % p) for k in range(size)]


def fractions(rules: Rules, cls: Sizes, v: Values) -> list[Fraction]:
    """Every fraction of the identities, as numerator and denominator at alpha, and the inverses of places' e."""
    alpha, beta, p = v["alpha"], v["beta"], rules.p
    made = [(1, alpha - x) for x in rules.chunks.values()]
    made += [(1, alpha - u - scaled) for u, scaled in rules.coarse]
    made += [(e, alpha - key) for e, key in [*rules.slots, *rules.places, *rules.winners]]
    made += [(1, alpha - x) for x in rules.returned]
    made += [(1, e) for e, _ in rules.places]
    made += [(v["coarseCount"][k], alpha - k - beta * b) for k, b in coarse_table(cls, v, p)]
    return made + [(x, alpha - j) for j, x in enumerate(v["rangeCount"])]


def identities(rules: Rules, cls: Sizes, v: Values) -> dict[str, int]:
    """Left side less right side of the four, at alpha and beta."""
    alpha, beta, p = v["alpha"], v["beta"], rules.p

    def total(parts: Sequence[Fraction]) -> int:
        return sum(top * pow(alpha - below, -1, p) for top, below in parts)

    table = [(v["coarseCount"][k], k + beta * b) for k, b in coarse_table(cls, v, p)]
    pairs = {
        "coarse": ([(1, u + scaled) for u, scaled in rules.coarse], table),
        "ranges": ([(1, x) for x in rules.chunks.values()], [(x, j) for j, x in enumerate(v["rangeCount"])]),
        "opening": (rules.places, rules.slots),
        "winners": (rules.winners, [(1, x) for x in rules.returned]),
    }
    return {name: (total(left) - total(right)) % p for name, (left, right) in pairs.items()}


def meant(rules: Rules, cls: Sizes, v: Values) -> list[str]:
    """Rules that are broken where identities hold for every alpha and beta: what look-ups mean.

    ``v`` has beta = 0, and beside every u its bound itself.
    """
    p = rules.p
    broken = [name for name, x in rules.zero.items() if x]
    broken += [name for name, x in rules.chunks.items() if not x < 1 << cls.c]
    rows = set(coarse_table(cls, v, p))
    bounds = [b for _, _, b, _ in v["slot"]] + list(v["placeBound"])
    broken += ["coarse" for (u, _), b in zip(rules.coarse, bounds, strict=True) if (u % p, b % p) not in rows]
    broken += ["e of a place" for e, _ in rules.places if not e]

    def measure(parts: Sequence[Fraction]) -> dict[int, int]:
        total: Counter[int] = Counter()
        for top, at in parts:
            total[at] = (total[at] + top) % p
        return {at: top for at, top in total.items() if top}

    if measure(rules.slots) != measure(rules.places):
        broken.append("opening")
    if measure(rules.winners) != measure([(1, x) for x in rules.returned]):
        broken.append("winners")
    return broken
