# SPDX-License-Identifier: GPL-3.0-or-later
"""Providers of the lottery that lie, whole windows long: other prizes than the policy's, and a winner that is hidden.

Both make proofs that hold for what they say.  What stands against each is one check of the auditor and of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import pytest

from ragseal.backends.mechanism import Engine, Scores, ShardHints
from ragseal.groth16.assignments import Assignment
from ragseal.kernel import field, proofs
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.hint_opening import HintBases
from ragseal.kernel.lottery_hints import lottery_bound
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.params import TAG_COARSE, R
from ragseal.kernel.scaled_layout import COARSE, SLOT_HINTS
from ragseal.kernel.statement import Returned
from ragseal.prover.attestation import statements
from tests.attacks.checks import PRIZES
from tests.circuits.lottery_drafts import LotteryDraft, lottery_tiny
from tests.simulator.live import Live

CLS = lottery_tiny()


class Fewer:
    """A provider's engine that draws one prize, whatever the policy says."""

    def __init__(self, real: Engine) -> None:
        self._real = real

    def answer(self, key: int, w: Scores, hmax: int, _prizes: int = 0) -> tuple[Returned, ...]:
        return self._real.answer(key, w, hmax, 1)

    def shard_hints(self, key: int, w: Scores, hmax: int, _prizes: int = 0) -> ShardHints:
        return self._real.shard_hints(key, w, hmax, 1)


@contextmanager
def proven_for_fewer() -> Iterator[None]:
    """What is proven inside is proven for the one prize that :class:`Fewer` draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "statement_of", PRIZES.instead)
        yield


class Hiding:
    """A provider's engine that hides a winner where it can: its bound among the hints is so low that it may lose."""

    def __init__(self, real: Engine) -> None:
        self._real = real
        self.hidden = 0  #: queries in which a winner is left out

    def answer(self, key: int, w: Scores, hmax: int, prizes: int = 0) -> tuple[Returned, ...]:
        draft = hidden_winner(key, w, hmax, prizes)
        if draft is None:
            return self._real.answer(key, w, hmax, prizes)
        self.hidden += 1
        return tuple(draft.returned())

    def shard_hints(self, key: int, w: Scores, hmax: int, prizes: int = 0) -> ShardHints:
        draft = hidden_winner(key, w, hmax, prizes)
        if draft is None:
            return self._real.shard_hints(key, w, hmax, prizes)
        return ShardHints(1, lambda _: field.pack(x % R for x in draft.hints()))


def hidden_winner(key: int, w: Scores, width: int, prizes: int) -> LotteryDraft | None:
    """A draft of this query without its best winner by a score; None where none can be left out.

    Of the victim the bound alone is false, and true of all others.
    """
    choice = [int(j == prizes) for j in range(1, CLS.prizes + 1)]
    d = LotteryDraft(CLS, (0, 0), 0, 0, width, prizes, 0, 0, 0, 0, [int(x) for x in w], choice=choice)
    d.coarse_elements = wide_elements(key, TAG_COARSE, d.cls.elements, 0)
    d.read_elements()
    d.choose()
    d.settle()
    victim = next((i for i in d.ranked()[: d.cls.K] if d.w[i] > 0 and d.u[i] < d.first_prize), None)
    if victim is None:
        return None
    last = [i for i in d.ranked() if i != victim][d.cls.K - 1]
    d.threshold, d.threshold_slot = d.value(last), last
    must = {i for i in range(d.cls.N) if d.u[i] >= d.first_prize or d.value(i) >= d.threshold}
    d.fill(must - {victim}, (victim,))
    d.settle()
    if d.u[victim] >= d.theta:
        return None  # it would have to be a place
    d.b[victim] = d.threshold - 1 - min(d.w[victim], width)
    d.settle_distances()
    return d


@dataclass(frozen=True, slots=True)
class TrueBounds(Assignment):
    """With the bounds in C_1 that coarse bits give, whatever those among the hints are."""

    committed: tuple[int, ...] = ()

    def _scaled(self) -> list[int]:
        return [self.clear[-1] * b % R for b in self.committed]


@contextmanager
def true_bounds_in_c_1(width: int, prizes: int) -> Iterator[None]:
    """C_1 and the circuit's wires beta b_i are those of the coarse bits; the provider's own look is left out.

    Args:
        width: H of the policy.
    """

    def bounds(h: bytes) -> list[int]:
        slots = field.unpack(h)[COARSE : SLOT_HINTS * CLS.N : SLOT_HINTS]
        return [lottery_bound(u, width, CLS.m, prizes) for u in slots]

    commit, assign = HintBases.commit, statements.assign_attestation

    def committed(self: HintBases, group: Any, h: bytes, blinders: Any) -> bytes:
        if not self.scaled:
            return commit(self, group, h, blinders)
        other = group.msm(self.scaled + self.blinder, field.pack([*bounds(h), blinders[1]]))
        return commit(self, group, h, blinders)[:POINT_BYTES] + bytes(other)

    def assigned(*given: Any, **named: Any) -> Any:
        made = assign(*given, **named)
        if made.threshold:  # of a class with noise
            return made
        return TrueBounds(**{f.name: getattr(made, f.name) for f in fields(made)}, committed=tuple(bounds(made.h)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HintBases, "commit", committed)
        patch.setattr(statements, "assign_attestation", assigned)
        patch.setattr(proofs, "verify_hints", lambda *_: None)
        yield


def asked(made: Live, questions: int = 3) -> None:
    """A window with a few answers, closed."""
    with made.client() as client:
        for number in range(questions):
            client.ask(f"acme report number {number}")
    made.end_window()
