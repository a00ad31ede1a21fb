# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad policies are refused with the reason and the nearest good one, which is then accepted.  SPEC A.6."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.accounting.delivered import CoinThrows, certified_unseen
from ragseal.accounting.delivered_decoys import Asked, Lists, decoys_delivered
from ragseal.accounting.delivered_period import delivered_window
from ragseal.circuits.circuit import class_digest
from ragseal.groth16.keys import KeyPaths
from ragseal.kernel import policy as kernel_policy
from ragseal.kernel import signature
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.policy import Policy
from ragseal.prover.__main__ import main
from ragseal.prover.commitment.policy_file import TEMPLATE, Binding, load_policy, read_policy
from ragseal.prover.provider import assembly
from ragseal.prover.storage.history import coarse
from tests.classes import DECOYS, TINY
from tests.simulator.answered import answers_policy
from tests.simulator.provider import DIMENSION, NOW, account_key, coined_policy, make_policy

pytestmark = pytest.mark.slow


def coined(**changes: Any) -> Policy:
    """A policy of claim until-delivered that class DECOYS can keep."""
    return replace(coined_policy(unseen=3), **changes)


def refusal(policy_of: object, cls: AttestationClass) -> str:
    with pytest.raises(PolicyError) as caught:
        assembly.check_promises(policy_of, cls)  # type: ignore[arg-type]
    return str(caught.value)


def test_an_epsilon_that_the_noise_does_not_give(tiny: NoiseClass) -> None:
    honest = make_policy(lo=0.2, hi=0.4)
    assembly.check_promises(honest, tiny)
    bold = replace(honest, epsilon_account=str(Fraction(honest.epsilon_account) * Fraction(2, 3)))
    said = refusal(bold, tiny)
    found = re.search(r"advertise at least ([\d.]+) .*use gain <= (\d+), or n_max <= (\d+)", said)
    assert found is not None, said
    least, gain, queries = found.group(1), int(found.group(2)), int(found.group(3))
    assert float(least) == pytest.approx(float(Fraction(honest.epsilon_account)), rel=1e-5)
    for good, bad in ((replace(bold, gain=gain), replace(bold, gain=gain + 1)),
                      (replace(bold, n_max=queries), replace(bold, n_max=queries + 1))):  # fmt: skip
        assembly.check_promises(good, tiny)
        refusal(bad, tiny)


def test_a_coalition_without_a_finite_epsilon_is_refused_before_the_window_opens(tiny: NoiseClass) -> None:
    """One account alone would pass: only the coalition's queries reach the end of the noise table."""
    policy = make_policy(lo=0.0, hi=1.0, gain=100, n_max=10, k_max=2)
    assembly.check_promises(policy, tiny)
    crowd = replace(policy, k_max=10**6)
    said = refusal(crowd, tiny)
    found = re.search(r"use gain <= (\d+), or at most (\d+) queries in all", said)
    assert found is not None, said
    gain, queries = int(found.group(1)), int(found.group(2))
    assembly.check_promises(replace(crowd, gain=gain), tiny)
    assert "no finite epsilon" in refusal(replace(crowd, gain=gain + 1), tiny)
    assert queries // policy.n_max < crowd.k_max
    assembly.check_promises(replace(crowd, k_max=queries // policy.n_max), tiny)


def test_an_account_is_promised_unseen_whatever_the_return_is() -> None:
    policy = coined()
    found = delivered_window(policy, DECOYS, assembly.ACCOUNTS, Fraction(policy.delta))
    promised = Fraction(policy.epsilon_account)
    assert 0 <= promised - Fraction(found.unseen_once) < Fraction(1, 10**6)
    assembly.check_promises(policy, DECOYS)
    several = replace(policy, chunks_max=3)
    assert assembly.advertised_epsilon(several, DECOYS) == pytest.approx(3 * promised, rel=0.02)
    assert assembly.advertised_epsilon(policy, DECOYS, 10**9) == promised
    said = refusal(replace(policy, epsilon_account="2"), DECOYS)
    assert "less than 2.98023, which is unseen 2.98023; advertise at least 2.98023" in said
    assert "use unseen <= 2" in said


def test_the_promise_to_a_window_of_nobody_is_of_its_decoys() -> None:
    """As the auditor takes it from the manifest: a provider that promised less would fail its first audit."""
    policy = coined()
    nobody = delivered_window(policy, DECOYS, 0, Fraction(policy.delta))
    asked = Asked(Lists(DECOYS.N, policy.ids, policy.decoy_rate), 0, policy.n_max)
    assert nobody == decoys_delivered([asked], coins=CoinThrows(13, 1), chunks=1, delta=Fraction(policy.delta))
    assert nobody.returned > 4
    with pytest.raises(PolicyError, match="hidden with probability"):
        delivered_window(replace(policy, claim="every-list", hidden=0), DECOYS, 1, Fraction(policy.delta))


def test_a_coin_keeps_to_unseen_exactly() -> None:
    """Logarithms in floating point hid one slot in 256 too few where unseen is just below that of a coin."""

    def hidden(unseen: float) -> int:
        return coined_policy(unseen=unseen, epsilon_account=100).hidden

    for j in (1, 2, 3, 13, 60, 128, 253, 254):
        least = certified_unseen(j, 1, 1)
        assert hidden(least) == j
        assert hidden(math.nextafter(least, 0)) == j + 1
    assert hidden(0.004) == 255
    for beyond in (0.0039, 0.0, -1.0, 5.55, math.nan):
        with pytest.raises(PolicyError, match=r"a number from 0\.004 to 5\.545"):
            hidden(beyond)


def test_too_small_a_promise_of_until_delivered_is_refused_with_what_would_do() -> None:
    policy = coined()
    said = refusal(replace(policy, epsilon_account="5/2"), DECOYS)
    found = re.search(r"advertise at least ([\d.]+) .*or use unseen <= ([\d.]+)", said)
    assert found is not None, said
    assert float(found.group(2)) == 2.5
    assert delivered_window(policy, DECOYS, assembly.ACCOUNTS, Fraction(policy.delta)).returned > 3.1
    assembly.check_promises(replace(policy, epsilon_account="3"), DECOYS)


def test_noise_goes_with_no_coin_and_decoys_with_no_other_claim(tiny: NoiseClass) -> None:
    """Attack: what bounds nothing under a claim; the provider itself refuses to commit to it."""
    own = {"class_name": tiny.name, "class_digest": class_digest(tiny), "table_digest": tiny.table.digest()}
    noise = replace(coined(), **own, ids=tiny.K, decoy_rate=0, hi=14000, gain=2)
    said = refusal(noise, tiny)
    assert "bounds nothing under the claim until-delivered: take a class of decoys for it" in said
    file = {"claim": "until-delivered", "unseen": 3}
    with pytest.raises(PolicyError, match="bounds nothing under the claim until-delivered: take a class of decoys"):
        make_policy(**file)
    with pytest.raises(PolicyError, match="bounds nothing under the claim every-list: take a class with noise for it"):
        coined_policy(claim="every-list", unseen=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_policy, "check_law", lambda claim, cls: None)
        with pytest.raises(PolicyError, match="which bounds no return: decoys do"):
            assembly.check_promises(noise, tiny)  # the accountant alone is left


# --- through the command line ----------------------------------------------------------------------------------------

GOOD = {
    "class": TINY.name, "claim": "every-list", "lo": 0.3, "hi": 0.7, "gain": 1, "n_max": 5, "k_max": 2,
    "delta": "1/1000000", "epsilon_account": "auto",
}  # fmt: skip


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory, keys: KeyPaths) -> Path:
    """A provider that could commit a window."""
    folder = tmp_path_factory.mktemp("policies")
    state, corpus = folder / "state", folder / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "d", "text": "a document"}) + "\n")
    public = signature.public_bytes(account_key("alice")).hex()
    for command in (
        ["init", "--origin", "example.org/policies", "--class", TINY.name],
        ["documents", "put", "--tenant", "acme", "--corpus", f"jsonl:{corpus}"],
        ["accounts", "add", "alice", "--tenant", "acme", "--key", public],
    ):
        assert CliRunner().invoke(main, [*command, "--state", str(state)]).exit_code == 0
    (state / "keys" / f"{TINY.name}-{keys.digest.hex()[:24]}").symlink_to(keys.directory.resolve())
    return state


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"gain": 600},
            rf"gain 600 on \[4839, 11290\] overflows class '{TINY.name}', since .* do not fit 11 bits: use gain <= \d+",
        ),
        ({"n_max": None}, "n_max is missing .*such as n_max = 25"),
        ({"k_max": None}, "k_max is missing .*k_max = 2"),
        ({"nmax": 3}, "'nmax' .did you mean 'n_max'"),
        (
            {"epsilon_account": "25", "gain": 40},
            r"advertise at least 39[\d.]+ .or .auto.., use gain <= 25, or n_max <= 3\b",
        ),
        ({"epsilon_account": "1/10"}, r"advertise at least 0\.5[\d.]+ .or .auto.., or use a narrower score window"),
        ({"delta": "1/10000000000000000000000"}, r"allow a delta above that\n"),
        ({"lo": 0.7, "hi": 0.3}, "lo = 0.3, hi = 0.7 .they look swapped"),
        ({"hi": 1.2}, "the nearest is 1.0"),
        ({"opens": 1_900_000_000, "closes": 1_800_000_000}, "let it close after 1899999960"),
        ({"duration": (1 << 62)}, "366 days"),
        ({"opens": 1_900_000_000}, "more than 366 days from now"),
        ({"gain": 110, "lo": 0.0, "hi": 1.0, "n_max": 1000}, r"no finite epsilon .*use gain <= \d+"),
    ],
)
def test_commit_says_what_is_wrong_and_what_would_do(
    provider: Path, tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    values = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    file = tmp_path / "policy.toml"
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    done = CliRunner().invoke(main, ["commit", "--state", str(provider), "--policy", str(file), "--window", "bad"])
    assert done.exit_code == 1, done.output
    assert re.search(said, done.output), done.output
    assert "Traceback" not in done.output
    status = CliRunner().invoke(main, ["status", "--state", str(provider), "--json"])
    assert json.loads(status.stdout)["windows"] == []  # nothing was entered in the ledger


def test_an_overflow_names_the_gain_that_fits(tmp_path: Path) -> None:
    """And it is the largest that is accepted."""
    state, file = tmp_path / "state", tmp_path / "policy.toml"
    made = ["init", "--origin", "example.org/small", "--class", "noise-small-gaussian-50", "--state", str(state)]
    assert CliRunner().invoke(main, made).exit_code == 0

    def said(gain: int) -> str:
        values = {**GOOD, "class": "noise-small-gaussian-50", "gain": gain}
        file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
        done = CliRunner().invoke(main, ["commit", "--state", str(state), "--policy", str(file), "--window", "w"])
        assert done.exit_code == 1
        return done.output

    refused = said(4000)
    found = re.search(r"use gain <= (\d+)", refused)
    assert found is not None, refused
    assert "overflows" in said(int(found.group(1)) + 1)
    assert "overflows" not in said(int(found.group(1)))  # refused for want of a key, and nothing else


def test_a_tick_is_written_as_people_write_times() -> None:
    for text, seconds in (("15m", 900), ("1d", 86400), (900, 900), (0, 0), ("120s", 120)):
        assert make_policy(lo=0.2, hi=0.4, version_every=text).version_every == seconds
    with pytest.raises(PolicyError, match="is not a length of time"):
        make_policy(lo=0.2, hi=0.4, version_every="soon")
    with pytest.raises(PolicyError, match="the nearest is 60"):
        make_policy(lo=0.2, hi=0.4, version_every="45s")


# Policy files, and what follows from them. SPEC A.6.


def test_a_policy_file_in_cosines(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(
        TEMPLATE.format(
            class_name=DECOYS.name,
            unseen=3,
            lo=0.3,
            ids=5,
            returned=4.5,
            n_max=25,
            k_max=2,
            delta="1/1000000",
            about="# about",
        )
    )
    binding = Binding(DECOYS, class_digest(DECOYS), DIMENSION, NOW + 59)
    policy = load_policy(file, binding, assembly.advertised_epsilon)
    assert (policy.lo, policy.hi) == (round(0.3 * 127**2), round(0.3 * 127**2) + 1)
    plain = make_policy(lo=0.3, hi=0.7)
    assert (plain.lo, plain.hi) == (round(0.3 * 127**2), round(0.7 * 127**2))
    assert policy.opens == NOW
    assert policy.closes % 60 == 0
    assert policy.closes >= NOW + 86400
    opening = coarse(NOW + 3000.0)  # its beacon took a while
    assert policy.ends(opening) >= opening + 60 + 86400, "counted from the end of the minute that the opening states"
    assert policy.ends(opening) <= opening + 120 + 86400
    assembly.check_promises(policy, DECOYS)
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


def test_a_delta_that_covers_everything_is_refused_with_a_way_out() -> None:
    with pytest.raises(PolicyError, match="delta = 1/2 alone covers all that an account learns: name a smaller one"):
        make_policy(lo=0.2, hi=0.4, gain=1, n_max=1, k_max=1, delta="1/2")
