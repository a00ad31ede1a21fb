# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose answers a policy's filter counts, and until when a document takes part.  SPEC A.14.4."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.kernel.attestation import COARSE_TIME
from ragseal.prover.storage import participations
from ragseal.prover.storage.participations import Participations, allowed, counted, counting
from ragseal.prover.storage.window import Window
from tests.simulator.answered import answers_policy
from tests.simulator.provider import new_state


def window_of(name: bytes, closed: int | None) -> Window:
    signed: Any = SimpleNamespace()
    close: Any = None if closed is None else SimpleNamespace(time=closed)
    return Window(signed, name * 32, 0, close=close)


@pytest.mark.parametrize("begins", [0, 1, COARSE_TIME - 1])
def test_a_window_that_ended_in_the_period_s_first_minute_counts(begins: int) -> None:
    """Its closing states its time to the minute only, so it may have ended within the period."""
    at = 100 * COARSE_TIME
    policy = replace(answers_policy(), period_start=at + begins)
    windows = [window_of(b"a", at - COARSE_TIME), window_of(b"b", at), window_of(b"c", None)]
    assert counting(windows, policy) == [b"b" * 32, b"c" * 32]


def test_answers_add_up_over_windows_and_only_over_those(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = new_state(tmp_path / "p")
    windows = [name * 32 for name in (b"a", b"b", b"c")]
    with state.transaction() as db:
        for window in windows:
            Participations.charge(db, window, [b"one", b"two"])
        Participations.charge(db, windows[0], [b"one"])
        Participations.charge(db, b"x" * 32, [b"one"])
    for together in (1, 2, 500):
        monkeypatch.setattr(participations, "_TOGETHER", together)
        assert counted(state, windows) == Counter({b"one": 4, b"two": 3})
        assert counted(state, windows[:1]) == Counter({b"one": 2, b"two": 1})
    assert counted(state, []) == Counter()
    state.close()


def test_a_document_takes_part_in_as_many_answers_as_the_policy_says() -> None:
    counts = Counter({b"one": 2})
    assert allowed(counts, b"one", 3)
    assert not allowed(counts, b"one", 2)
    assert allowed(counts, b"other", 1)
    assert not allowed(counts, b"other", 0)


def test_a_document_is_counted_under_tenant_and_id(tmp_path: Path) -> None:
    state = new_state(tmp_path / "p")
    names = Participations(state, lambda count: b"k" * count)
    found = [names.document(tenant, name) for tenant, name in (("a", "bc"), ("ab", "c"), ("a", "c"), ("b", "bc"))]
    assert len(set(found)) == 4
    assert names.document("a", "bc") == found[0]
    assert Participations(state, lambda count: b"other"[:count]).document("a", "bc") == found[0]  # the key is kept
    state.close()
