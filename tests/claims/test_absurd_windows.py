# SPDX-License-Identifier: GPL-3.0-or-later
"""The largest numbers that a policy can hold cost an auditor of a later window no time and no memory.

Whether the noise of an earlier window suits its class, no step asks: a period counts it as its manifest has it.
"""

from __future__ import annotations

import math
import resource

import pytest

from ragseal.kernel.policy import ANSWERS, EVERY_LIST, UNTIL_DELIVERED
from ragseal.verifier.evidence.evidence import Refused
from tests.claims import scene
from tests.claims.scene import HOUR, ONE_SIDED, OPENS, PLAIN, Log, policy

MOST = {"gain": (1 << 32) - 1, "hi": (1 << 31) - 1}
COUNTS = {"n_max": (1 << 32) - 1, "k_max": (1 << 32) - 1, "chunks_max": (1 << 32) - 1}
CASES = [(EVERY_LIST, PLAIN), (UNTIL_DELIVERED, PLAIN), (UNTIL_DELIVERED, ONE_SIDED), (ANSWERS, ONE_SIDED)]


def log(claim: str, name: str, *, begins: int = OPENS, **absurd: int) -> Log:
    out = Log()
    out.window(policy(claim, 0, class_name=name, **absurd))
    out.window(policy(claim, 1, class_name=name, period_start=begins))
    return out


@pytest.mark.parametrize("absurd", [MOST, COUNTS, MOST | COUNTS], ids=["scores", "counts", "both"])
@pytest.mark.parametrize(("claim", "name"), CASES)
def test_an_absurd_window_of_the_period_is_refused_at_once(claim: str, name: str, absurd: dict[str, int]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    with pytest.raises(Refused, match=r"finite|smaller gain|used up|beyond what is accounted|reach"):
        scene.eleventh(log(claim, name, **absurd), "w1", scene.auditor(), {}, [])
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 20
    assert after.ru_maxrss - before.ru_maxrss < 1 << 20  # KiB


@pytest.mark.parametrize(("claim", "name"), CASES)
def test_one_outside_of_the_period_makes_the_whole_logs_epsilon_infinite_and_no_more(claim: str, name: str) -> None:
    found = scene.eleventh(log(claim, name, begins=OPENS + HOUR, **MOST), "w1", scene.auditor(), {}, []).budget
    assert found is not None
    assert math.isfinite(found.epsilon)
    assert found.whole_log == math.inf
