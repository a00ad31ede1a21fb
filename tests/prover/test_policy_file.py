# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy files, and what follows from them.  SPEC A.6."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from ragseal.circuits.circuit import class_digest
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.prover.commitment.policy_file import TEMPLATE, Binding, load_policy, read_policy
from ragseal.prover.provider import assembly
from ragseal.prover.storage.history import coarse
from tests.classes import TINY
from tests.simulator.answered import answers_policy
from tests.simulator.provider import DIMENSION, NOW, make_policy

pytestmark = pytest.mark.slow


def test_a_policy_file_in_cosines(tmp_path: Path, tiny: NoiseClass) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(
        TEMPLATE.format(
            class_name=TINY.name,
            unseen=3,
            gain=1,
            lo=0.3,
            hi=0.7,
            n_max=25,
            k_max=2,
            delta="1/1000000",
            about="# about",
        )
    )
    binding = Binding(tiny, class_digest(tiny), DIMENSION, NOW + 59)
    policy = load_policy(file, binding, assembly.advertised_epsilon)
    assert (policy.lo, policy.hi) == (round(0.3 * 127**2), round(0.7 * 127**2))
    assert policy.opens == NOW
    assert policy.closes % 60 == 0
    assert policy.closes >= NOW + 86400
    opening = coarse(NOW + 3000.0)  # its beacon took a while
    assert policy.ends(opening) >= opening + 60 + 86400, "counted from the end of the minute that the opening states"
    assert policy.ends(opening) <= opening + 120 + 86400
    assembly.check_promises(policy, tiny)
    assert Fraction(policy.epsilon_account) > 0


@pytest.mark.parametrize(
    "change",
    [
        {"surprise": 1},
        {"class": "noise-small-two-50"},
        {"lo": 0.9},
        {"lo": -0.1},
        {"hi": 1.5},
        {"hi": True},
        {"gain": 0},
        {"gain": 1.5},
        {"gain": "2"},
        {"n_max": 0},
        {"delta": "2"},
        {"delta": "one"},
        {"delta": "1/0"},
        {"theta": 1.5},
        {"unit": "document"},
        {"opens": NOW, "closes": NOW - 60},
        {"period_start": NOW + 60},
        {"duration": -1},
        {"duration": "soon"},
        {"duration": 366 * 86400 + 1},
        {"duration": (1 << 63) - 1 - NOW - 120},
        {"opens": NOW + 367 * 86400},
    ],
)
def test_policies_that_make_no_sense_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(PolicyError):
        make_policy(**change)


def test_unreadable_policies_are_named(tmp_path: Path, tiny: NoiseClass) -> None:
    binding = Binding(tiny, class_digest(tiny), DIMENSION, NOW)
    (tmp_path / "broken.toml").write_text("lo = [")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "huge.toml").write_text("#" * (1 << 17))
    for name in ("broken.toml", "binary.toml", "huge.toml", "missing.toml"):
        with pytest.raises(PolicyError, match=name):
            load_policy(tmp_path / name, binding, assembly.advertised_epsilon)
    with pytest.raises(PolicyError, match="missing"):
        read_policy({}, binding, assembly.advertised_epsilon)


def test_what_is_advertised_follows_from_the_noise(tiny: NoiseClass) -> None:
    honest = make_policy()
    assembly.check_promises(honest, tiny)
    less = str(Fraction(honest.epsilon_account) * Fraction(9, 10))
    with pytest.raises(PolicyError, match="less than the noise gives"):
        assembly.check_promises(make_policy(epsilon_account=less), tiny)
    with pytest.raises(PolicyError, match="gain"):
        assembly.check_promises(make_policy(gain=1 << 14, epsilon_account=1), tiny)
    with pytest.raises(PolicyError, match="no finite epsilon"):
        make_policy(gain=110, lo=0.0, hi=1.0, n_max=10**6)


def test_answers_leave_half_a_minute_after_their_request_unless_the_file_says_otherwise() -> None:
    assert answers_policy(answered_by=None).answered_by == 30
    assert answers_policy(answered_by="2m").answered_by == 120
    assert make_policy().answered_by == 0
    with pytest.raises(PolicyError, match="answered_by are of the claim answers"):
        make_policy(answered_by="30s")
    with pytest.raises(PolicyError, match="answered_by = 'soon' is not a length of time"):
        answers_policy(answered_by="soon")
