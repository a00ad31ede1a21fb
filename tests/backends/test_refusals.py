# SPDX-License-Identifier: GPL-3.0-or-later
"""The native module and plain Python take the same arguments: where one refuses, the other does, with the same error.

Every function of the interfaces gets every bad argument, one at a time beside good ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest

from ragseal.backends import mechanism, poseidon, scores
from ragseal.backends.group import NativeGroup
from ragseal.circuits.circuit import load_classes
from ragseal.groth16 import fast_pairing, pairing
from ragseal.kernel import poseidon as reference_poseidon
from ragseal.kernel.bn254 import IDENTITY, PurePythonGroup
from ragseal.kernel.classes import Asked
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.errors import AuditError
from ragseal.kernel.params import P, R

pytest.importorskip("ragseal_native")

Call = Callable[..., Any]


def be(value: int) -> bytes:
    return value.to_bytes(32, "big")


GOOD = PurePythonGroup().hash_to_curve(b"refusals", 3)
ONE = GOOD[:64]
POINTS = {
    "three": GOOD, "none": b"", "one": ONE, "identity": IDENTITY, "one and the identity": ONE + IDENTITY,
    "opposite": ONE + ONE[:32] + be(P - int.from_bytes(ONE[32:], "big")), "off the curve": be(1) + be(3),
    "x above p": be(int.from_bytes(ONE[:32], "big") + P) + ONE[32:], "all ones": b"\xff" * 64, "cut off": ONE[:-1],
    "too long": ONE + b"\0", "off the curve behind good ones": GOOD + be(1) + be(3), "x = 0": be(0) + be(1),
}  # fmt: skip
SCALARS = {
    "three": be(5) + be(0) + be(R - 1), "none": b"", "one": be(1), "two": be(1) * 2, "r": be(R),
    "all ones": b"\xff" * 32, "cut off": be(1)[1:], "too long": be(1) + b"\0", "r behind good ones": be(1) * 2 + be(R),
}  # fmt: skip
INTEGERS = {
    "7": 7, "0": 0, "1": 1, "-1": -1, "r - 1": R - 1, "1 - r": 1 - R, "r": R, "r + 1": R + 1, "-r": -R,
    "-r - 1": -R - 1,
    "2^256": 1 << 256, "-2^300": -(1 << 300),
}  # fmt: skip
VECTORS = {
    "two": [SCALARS["three"], SCALARS["three"]], "none": [], "one": [SCALARS["three"]], "empty": [b"", b""],
    "of two lengths": [be(1), be(1) * 2], "r": [be(1), be(R)], "cut off": [be(1)[1:]] * 2,
}  # fmt: skip
COEFFICIENTS: dict[str, list[int]] = {"two": [1, -2], "none": [], "one": [1]} | {
    name: [1, value] for name, value in INTEGERS.items()
}


def outcome(call: Call, *arguments: Any) -> tuple[str, Any]:
    """What comes out, or which of our errors; anything else that is raised fails the test."""
    try:
        return "", call(*arguments)
    except AuditError as error:
        return type(error).__name__, None


def agree(native: Call, plain: Call, *arguments: Mapping[str, Any], apart: bool = False) -> set[str]:
    """Compare on all combinations; ``apart``: on those with at most one argument that is not the first of its kind.

    Returns:
        The errors that were met; an empty name stands for an answer.
    """
    met = set()
    for chosen in product(*(kind.items() for kind in arguments)):
        others = sum(name != next(iter(kind)) for (name, _), kind in zip(chosen, arguments, strict=True))
        if apart and others > 1:
            continue
        values = [value for _, value in chosen]
        found = outcome(native, *values), outcome(plain, *values)
        assert found[0] == found[1], (native, [name for name, _ in chosen], found)
        met.add(found[0][0])
    return met


GROUP: dict[str, tuple[Mapping[str, Any], ...]] = {
    "check": (POINTS,),
    "msm": (POINTS, SCALARS),
    "hash_to_curve": ({"domain": b"d", "none": b""}, {"3": 3, "0": 0, "-1": -1, "2^40": 1 << 40}),
    "combine": (VECTORS, COEFFICIENTS),
    "respond": (SCALARS, INTEGERS, SCALARS),
    "fold": (POINTS, INTEGERS),
}


@pytest.mark.parametrize("method", GROUP)
def test_a_groups_methods_refuse_alike(method: str) -> None:
    pair = getattr(NativeGroup(), method), getattr(PurePythonGroup(), method)
    assert agree(*pair, *GROUP[method]) == {"", "ProofError"}


def test_every_method_of_a_group_is_compared() -> None:
    methods = {name for name in vars(PurePythonGroup) if not name.startswith("_")}
    assert methods == set(GROUP) == {name for name in vars(NativeGroup) if not name.startswith("_")}


@pytest.mark.parametrize("count", [0, 1, 2, 16, 17])
def test_poseidon_refuses_alike(count: int) -> None:
    def of(call: Call) -> Call:
        return lambda last: call(*[1] * (count - 1), *[last] * (count > 0))

    met = agree(of(poseidon.poseidon), of(reference_poseidon.poseidon), INTEGERS)
    assert met == ({"", "EncodingError"} if 1 <= count <= 16 else {"EncodingError"})


ENGINES: dict[str, tuple[Any, Any, int]] = {
    "noise-tiny-gaussian": (mechanism.NativeNoiseEngine, mechanism.ReferenceNoiseEngine, 1),
    "decoys-tiny": (mechanism.NativeDecoysEngine, mechanism.ReferenceDecoysEngine, 2),
    "noise-tiny-two": (mechanism.NativeNoiseEngine, mechanism.ReferenceNoiseEngine, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_engines_refuse_alike(name: str) -> None:
    fast, slow, shards = ENGINES[name]
    cls = load_classes()[name]
    good = np.arange(cls.N * shards, dtype=np.int64) % 50
    w = {
        "good": good, "one less": good[:-1], "one more": np.append(good, 1), "none": good[:0], "floats": good + 0.5,
        "two rows": np.stack([good, good])[:, :-1], "32 bits": good.astype(np.int32),
        "unsigned": good.astype(np.uint64),
        "-2^63": np.where(good == 3, -(2**63), good), "2^40": np.where(good == 3, 1 << 40, good),
        "-2^40": np.where(good == 3, -(1 << 40), good), "2^64 - 1": np.full(len(good), 2**64 - 1, dtype=np.uint64),
        "65 shards": np.zeros(65 * cls.N, dtype=np.int64),
    }  # fmt: skip
    limit = 1 << cls.step_bits
    asked = {"no number": (), "three": (1, 1, 1)}
    sizes = {"90": 90, "0": 0, "-1": -1, "1": 1, "2^63": 1 << 63, "2^200": 1 << 200, "-2^63": -(1 << 63)}
    sizes |= {"2^c": limit, "2^c + 1": limit + 1, "room": 48, "room + 1": 49}
    if cls.scaled:
        asked |= {name: (size,) for name, size in sizes.items()}
    else:
        asked |= {f"lo {name}": (size, 3) for name, size in sizes.items()}
        asked |= {f"K {name}": (7, size) for name, size in sizes.items()}
    table = cls.asked(0, 0, 1, 1 << 16).table if not cls.scaled else ()
    asks: dict[str, Any] = {name: Asked(inputs, table) for name, inputs in asked.items()}
    if table:
        wrong = {"short": table[1:], "none": (), "falling": table[::-1], "2^128": (*table[:-1], 1 << 128)}
        wrong |= {"-1": (-1, *table[1:]), "another width": (*table[:-1], table[-1] << 1)}
        asks |= {f"table {name}": Asked((7, 3), one) for name, one in wrong.items()}
    for engines in ((fast(cls).answer, slow(cls).answer), tuple(_hidden(one(cls)) for one in (fast, slow))):
        met = agree(*engines, INTEGERS, w, asks, apart=True)
        assert {"", "EncodingError", "AttestationError"} <= met


def _hidden(engine: mechanism.Engine) -> Call:
    def call(*arguments: Any) -> Any:
        found = engine.hidden(*arguments)
        return list(found), found.shared

    return call


EMBEDDINGS: dict[str, Any] = {
    "good": [1] * 8, "one less": [1] * 7, "one more": [1] * 9, "none": [], "127": [127] * 8, "128": [1] * 7 + [128],
    "-128": [-128] * 8, "-129": [1] * 7 + [-129], "a fraction": [1.5] * 8, "whole floats": [1.0] * 8,
    "2^80": [1 << 80] * 8, "an array": np.ones(8, dtype=np.int8), "two rows": np.ones((2, 8), dtype=np.int8),
}  # fmt: skip


def test_scores_refuse_alike() -> None:
    matrix = (np.arange(48) % 256 - 128).astype(np.int8).reshape(6, 8)
    native, plain = scores.NativeScores(matrix), scores.NumpyScores(matrix)
    met = agree(lambda e: native.scores(e).tolist(), lambda e: plain.scores(e).tolist(), EMBEDDINGS)
    assert met == {"", "AttestationError"}


def test_commitments_to_scores_refuse_alike() -> None:
    columns = PurePythonGroup().hash_to_curve(b"columns", 8)
    kinds = {
        "good": columns, "one less": columns[64:], "cut off": columns[:-1], "none": b"",
        "identity": IDENTITY + columns[64:], "off the curve": columns[64:] + POINTS["off the curve"],
        "above p": columns[64:] + POINTS["x above p"],
    }  # fmt: skip
    blinders = {name: POINTS[name] for name in ("one", "identity", "off the curve", "x above p")}

    def of(group: Any) -> Call:
        return lambda own, b, e, rho: scores.commit_scores(group, own, ScoreBases(b"", b), e, rho)

    met = agree(of(NativeGroup()), of(PurePythonGroup()), kinds, blinders, EMBEDDINGS, INTEGERS, apart=True)
    assert met == {"", "AttestationError", "ProofError", "EncodingError"}


@pytest.mark.slow
@pytest.mark.parametrize("function", ["cancel", "in_subgroup", "multiple"])
def test_pairings_refuse_alike(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("py_ecc")
    q = pairing.G2_GENERATOR
    outside = _outside_the_subgroup()
    g2 = {
        "good": q, "identity": (0, 0, 0, 0), "off the curve": (*q[:3], q[3] ^ 1), "outside the subgroup": outside,
        "zero and one": (0, 0, 1, 0),
    }  # fmt: skip
    g1 = {"good": (1, 2), "identity": None, "off the curve": (1, 3), "above p": (1 + P, 2)}
    factors = {"5": 5, "0": 0, "-1": -1, "2^256 - 1": (1 << 256) - 1, "2^256": 1 << 256, "r": R}
    call = getattr(fast_pairing, function)

    def plain(*arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fast_pairing, "available", lambda: False)
            return call(*arguments)

    if function == "cancel":
        call_of = {True: lambda p, r: call([(p, r)]), False: lambda p, r: plain([(p, r)])}
        assert agree(call_of[True], call_of[False], g1, g2, apart=True) == {"", "ProofError"}
    elif function == "multiple":
        assert agree(call, plain, g2, factors, apart=True) == {"", "ProofError"}
    else:
        assert agree(call, plain, g2) == {""}


def _outside_the_subgroup() -> pairing.G2Point:
    """The first point of the twist by x = 1, 2, ... that is not of order r."""
    ecc = pytest.importorskip("py_ecc.optimized_bn128")
    for x in range(1, 100):
        square = ecc.FQ2([x, 0]) ** 3 + ecc.FQ2(pairing.TWIST)
        root = square ** ((P * P + 15) // 32)
        for power in range(16):
            y = root * ecc.FQ2([9, 1]) ** (power * (P * P - 1) // 32)
            if y * y == square:
                point = (x, 0, int(y.coeffs[0]), int(y.coeffs[1]))
                if not pairing.in_subgroup(point):
                    return point
    raise AssertionError("no point was found")
