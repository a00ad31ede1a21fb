# SPDX-License-Identifier: GPL-3.0-or-later
"""A window whose class an auditor does not know leaves the period without a verdict, and hides no lie.  SPEC D.11.4."""

from __future__ import annotations

import math
import resource

import pytest

from ragseal.kernel.policy import ANSWERS, EVERY_LIST, UNTIL_DELIVERED
from ragseal.verifier.evidence.evidence import Auditor, Refused, Undecided
from tests.claims import said, scene
from tests.claims.scene import DECOYS, HOUR, OPENS, OTHER, PLAIN, Log, policy

CLAIMS = (EVERY_LIST, UNTIL_DELIVERED, ANSWERS)
#: Of another claim than each: what no epsilon of it goes with.
OTHERS = {EVERY_LIST: ANSWERS, UNTIL_DELIVERED: EVERY_LIST, ANSWERS: EVERY_LIST}


def knows_less() -> Auditor:
    """An auditor whose build lacks some classes."""
    return scene.auditor(classes={name: one for name, one in scene.classes().items() if name not in OTHER.values()})


def log(claim: str, *, mixed: bool, begins: int = OPENS) -> Log:
    """Of three windows the first is of the class that is not known; the second may be of another claim."""
    out = Log()
    out.window(policy(claim, 0, class_name=OTHER[claim]))
    second = policy(OTHERS[claim], 1) if mixed else policy(claim, 1)
    out.window(second)
    out.window(policy(claim, 2, period_start=begins))
    return out


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_class_that_is_not_known_leaves_no_verdict(claim: str) -> None:
    with pytest.raises(Undecided, match="window 'w0' of the period: this auditor's build has no circuit class"):
        scene.eleventh(log(claim, mixed=False), "w2", knows_less(), {}, [])


@pytest.mark.parametrize("claim", CLAIMS)
def test_it_hides_no_period_that_has_no_epsilon_without_it(claim: str) -> None:
    with pytest.raises(Refused, match="begin a new period"):
        scene.eleventh(log(claim, mixed=True), "w2", knows_less(), {}, [])


@pytest.mark.parametrize("claim", CLAIMS)
def test_epsilon_of_the_whole_log_is_not_known_or_infinite(claim: str) -> None:
    begins = OPENS + 2 * HOUR
    for mixed in (False, True):
        found = scene.eleventh(log(claim, mixed=mixed, begins=begins), "w2", knows_less(), {}, []).budget
        assert found is not None
        if mixed:
            assert found.whole_log == math.inf
        else:
            assert str(found.whole_log).startswith("not known: window 'w0' of the period")


def test_classes_that_the_scene_takes_for_known_are_known() -> None:
    assert {PLAIN, DECOYS} <= set(knows_less().classes)


# The largest numbers that a policy can hold cost an auditor of a later window no time and no memory.


MOST = {"gain": (1 << 32) - 1, "hi": (1 << 31) - 1}
COUNTS: dict[str, int] = {"n_max": (1 << 32) - 1, "k_max": (1 << 32) - 1, "chunks_max": (1 << 32) - 1}
LISTS = COUNTS | {"ids": 24}  #: of decoys, as many ids as are never drawn
SCORED = (EVERY_LIST, ANSWERS)  #: claims whose numbers depend on gain and hi
CASES = [(claim, absurd) for claim in SCORED for absurd in (MOST, COUNTS, MOST | COUNTS)] + [(UNTIL_DELIVERED, LISTS)]


def absurd_windows_log(claim: str, *, begins: int = OPENS, **absurd: int) -> Log:
    out = Log()
    out.window(policy(claim, 0, **absurd))
    out.window(policy(claim, 1, period_start=begins))
    return out


@pytest.mark.parametrize(("claim", "absurd"), CASES)
def test_an_absurd_window_of_the_period_is_refused_at_once(claim: str, absurd: dict[str, int]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    with pytest.raises(Refused, match=r"finite|smaller gain|used up|beyond what is accounted|reach"):
        scene.eleventh(absurd_windows_log(claim, **absurd), "w1", scene.auditor(), {}, [])
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 20
    assert after.ru_maxrss - before.ru_maxrss < 1 << 20  # KiB


@pytest.mark.parametrize(("claim", "absurd"), [*((claim, MOST) for claim in SCORED), (UNTIL_DELIVERED, LISTS)])
def test_one_outside_of_the_period_makes_the_whole_logs_epsilon_infinite_and_no_more(
    claim: str, absurd: dict[str, int]
) -> None:
    found = scene.eleventh(
        absurd_windows_log(claim, begins=OPENS + HOUR, **absurd), "w1", scene.auditor(), {}, []
    ).budget
    assert found is not None
    assert math.isfinite(found.epsilon)
    assert found.whole_log == math.inf


# What a provider is told of a window before it commits is what an auditor certifies of it afterwards.


@pytest.mark.parametrize("claim", [EVERY_LIST, UNTIL_DELIVERED])
def test_of_an_index_over_shards_all_of_them_count(claim: str) -> None:
    log = Log()
    for number in range(2):
        log.window(policy(claim, number, shards=3, **({"gain": 16} if claim == EVERY_LIST else {})))
    budget = scene.eleventh(log, "w1", scene.auditor(), {}, []).budget
    assert budget is not None
    foreseen = said.foreseen(log, "w1")["before"]["values"]
    assert foreseen["epsilon"] == budget.epsilon
    assert [row["epsilon"] for row in foreseen["windows"]] == [budget.rows[0]["epsilon"]]
