# SPDX-License-Identifier: GPL-3.0-or-later
"""When a window takes a request: at its first and last second, and while the newest version is young enough."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.policy import Policy
from ragseal.prover.attestation.admission import Admission, check_version
from ragseal.prover.attestation.pending import PendingTable
from ragseal.prover.attestation.under_way import UnderWay
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Window
from tests.simulator.answered import answers_policy
from tests.simulator.provider import NOW, Clock, make_policy

EVERY = 600


class Scene:
    """A window that opened as soon as it could, and the admission to it."""

    def __init__(self, policy: Policy, versions: int = 0) -> None:
        signed: Any = SimpleNamespace(manifest=SimpleNamespace(policy=policy, window="w1"))
        self.window = Window(signed, b"w" * 32, 0, beacon=1, opened_at=policy.opens)
        self.updates: list[Any] = [
            SimpleNamespace(
                time=policy.opens + number * EVERY,
                number=number + 1,
                index_digest=lambda tenant, number=number: f"{tenant} {number + 1}".encode(),
            )
            for number in range(versions)
        ]
        for number, update in enumerate(self.updates):
            self.window.updates.append((10 * number, update))
            self.window.numbers[update.index_digest("acme")] = update.number
        history = History("log.example/x", bytes(32), bytes(32))
        history.windows[self.window.digest] = self.window
        history._open = self.window
        self.history, self.clock = history, Clock()
        self.admission = Admission(history, PendingTable(), self.clock, UnderWay())

    def at(self, now: float) -> str:
        """What is said of a request that comes now; nothing where it is taken."""
        self.clock.now = now
        try:
            self.admission.check_open(self.window)
        except AttestationError as error:
            return str(error)
        return ""


@pytest.mark.parametrize("policy", [make_policy(), answers_policy()], ids=["documents", "answers"])
def test_the_first_and_the_last_second_of_a_window(policy: Policy) -> None:
    scene, by = Scene(policy), policy.answered_by
    closes = scene.window.closes
    assert "takes queries from" in scene.at(policy.opens - 1)
    assert scene.at(policy.opens) == scene.at(closes - by) == ""
    for now in (closes - by + 1, closes) if by else ():
        assert "before an answer could leave" in scene.at(now)
    assert "ended at" in scene.at(closes + 1)


@pytest.mark.parametrize("by", [0, 30, 2 * COARSE_TIME])
def test_nothing_is_taken_that_would_be_recorded_over_too_old_a_version(by: int) -> None:
    """The time of the record counts, which stands in the log; it is known when the request comes."""
    policy = answers_policy(version_every=EVERY, answered_by=by) if by else make_policy(version_every=EVERY)
    scene = Scene(policy, versions=2)
    old = scene.updates[-1].time + 2 * EVERY  #: from then on the newest version is too old to answer from
    assert old % COARSE_TIME == 0
    first = min(old, old + COARSE_TIME - by)
    assert scene.at(first - 1) == ""
    assert "is being brought up to date" in scene.at(first)
    assert "is being brought up to date" in scene.at(old)


def test_before_its_first_version_a_live_window_takes_nothing() -> None:
    assert "is being brought up to date" in Scene(make_policy(version_every=EVERY)).at(NOW + 60)


def test_a_window_that_is_over_or_not_open_is_named_so() -> None:
    scene = Scene(make_policy())
    other = Scene(make_policy()).window
    other.digest = b"o" * 32
    with pytest.raises(AttestationError, match="is over: ask GetManifest"):
        scene.admission.check_open(other)
    scene.window.beacon = None
    assert "not open yet" in scene.at(NOW + 60)
    scene.window.close = SimpleNamespace(time=NOW)  # type: ignore[assignment]
    assert "is closed" in scene.at(NOW + 60)
    with pytest.raises(AttestationError, match="is closed: ask again in the next one"):
        scene.admission.check_still(scene.window, None, None)  # type: ignore[arg-type]


def test_only_the_two_newest_versions_of_one_s_own_index_are_taken() -> None:
    window = Scene(make_policy(version_every=EVERY), versions=3).window
    for named, said in [
        ("acme 3", ""), ("acme 2", ""), ("acme 1", "older than the two newest"), ("globex 3", "different from"),
    ]:  # fmt: skip
        if said:
            with pytest.raises(AttestationError, match=said):
                check_version(window, "acme", named.encode())
        else:
            check_version(window, "acme", named.encode())
