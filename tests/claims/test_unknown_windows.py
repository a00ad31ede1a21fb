# SPDX-License-Identifier: GPL-3.0-or-later
"""A window whose class an auditor does not know leaves the period without a verdict, and hides no lie.  SPEC D.11.4."""

from __future__ import annotations

import math

import pytest

from ragseal.kernel.policy import ANSWERS, EVERY_LIST, UNTIL_DELIVERED
from ragseal.verifier.evidence.evidence import Auditor, Refused, Undecided
from tests.claims import scene
from tests.claims.scene import HOUR, ONE_SIDED, OPENS, OTHER, PLAIN, Log, policy

CLAIMS = (EVERY_LIST, UNTIL_DELIVERED, ANSWERS)
#: Of another claim than each: what no epsilon of it goes with.
OTHERS = {EVERY_LIST: ANSWERS, UNTIL_DELIVERED: EVERY_LIST, ANSWERS: EVERY_LIST}


def knows_less() -> Auditor:
    """An auditor whose build lacks one class."""
    return scene.auditor(classes={name: one for name, one in scene.classes().items() if name != OTHER})


def log(claim: str, *, mixed: bool, begins: int = OPENS) -> Log:
    """Of three windows the first is of the class that is not known; the second may be of another claim."""
    out = Log()
    out.window(policy(claim, 0, class_name=OTHER))
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
    assert {PLAIN, ONE_SIDED} <= set(knows_less().classes)
