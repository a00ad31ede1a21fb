# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe against live providers of class TINY: an honest one is not accused, one with too little noise is."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ragseal.accounting.statistics import binomial_lower, binomial_upper
from ragseal.backends.mechanism import Engine, Scores
from ragseal.circuits.circuit import load_classes
from ragseal.kernel import noise
from ragseal.kernel.classes import Asked, AttestationClass
from ragseal.kernel.errors import LedgerError
from ragseal.kernel.noise_class import with_noise
from ragseal.kernel.policy import Policy
from ragseal.kernel.statement import Returned
from ragseal.ledger.__main__ import main
from ragseal.ledger.note import NoteSigner, NoteVerifier
from ragseal.ledger.options import Peer
from ragseal.ledger.probe.canary import CONSISTENT, OVER_NOISE, VIOLATION, certify, hit_probability, judge, predict
from ragseal.ledger.probe.plant import read_plant, scores_of
from ragseal.ledger.probe.running import check_logged, for_people
from ragseal.ledger.probe.statement import ProbeAnswer, ProbeStatement
from ragseal.prover.commitment.corpora import Document
from ragseal.runtime.tls import BY_DEFAULT
from ragseal.verifier.audit.audit import read_probes
from ragseal.verifier.steps.sample import Sample
from tests.classes import TINY
from tests.simulator import key_of
from tests.simulator import provider as scene
from tests.simulator.live import Live
from tests.simulator.live import live as running

pytestmark = pytest.mark.slow

QUERIES = 40
LOCATING = 100  #: left to find the planted slot outside, which one query in five finds
#: Of the honest one's probe, whose noise is new in every run: at the default, 0.999, 4 runs in 10,000 are accused.
SURE = 1 - 1e-9


class LessNoise:
    """The cheat: an answer path whose noise is an eighth of what is committed (scores times eight is the same)."""

    def __init__(self, real: Engine, factor: int) -> None:
        self._real, self._factor = real, factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def answer(self, key: int, w: Scores, asked: Asked) -> tuple[Returned, ...]:
        return self._real.answer(key, w * self._factor, Asked((asked.inputs[0] * self._factor,)))


class Scene(Live):
    """A provider with the planted pair in two tenants, serving an open test window."""

    def __init__(self, folder: Path, plant: dict[str, str], factor: int) -> None:
        planted = {"probe-in": plant["canary"], "probe-out": plant["replacement"]}
        super().__init__(
            folder,
            name="test-window",
            publish=15.0,
            tenants={tenant: [tenant] for tenant in planted},
            texts=lambda tenant: [Document("planted", planted[tenant])],
            engine=lambda real: cast(Engine, LessNoise(real, factor)) if factor > 1 else real,
            lo=0.6, hi=0.9, gain=15, n_max=QUERIES + LOCATING,
        )  # fmt: skip
        for tenant in planted:
            self.account(tenant)
        made = CliRunner().invoke(main, ["keygen", "--name", "observer.example", "--state", str(self.own), "--json"])
        self.observer = json.loads(made.stdout)["beacon_key"]

    @property
    def own(self) -> Path:
        """The observer's folder."""
        return self.folder / "observer"

    def probe(self, planted: Path, *more: str) -> Result:
        return CliRunner().invoke(
            main,
            [
                "probe", "--plant", str(planted), "--provider", self.server.address, "--log-key", self.log_key,
                "--state", str(self.own),
                "--inside", str(self.folder / "probe-in"), "--outside", str(self.folder / "probe-out"),
                "--embedder", "none", "--out", str(self.folder / "out"), *more,
            ],
        )  # fmt: skip


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plant")
    done = CliRunner().invoke(main, ["plant", "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def live(tmp_path: Path, planted: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(tmp_path, json.loads((planted / "plant.json").read_text()), request.param)
    yield made
    made.end()


@pytest.mark.parametrize("live", [1], indirect=True)
def test_an_honest_provider_is_not_accused(live: Scene, planted: Path) -> None:
    done = live.probe(planted, "--queries", str(QUERIES), "--confidence", repr(SURE), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["verdict"] == "consistent"
    assert found["queries"] == [QUERIES, QUERIES]
    assert found["window"] == "test-window"
    assert found["predicted"]["inside"] == pytest.approx(0.21, abs=0.01)
    for hits, world in zip(found["hits"], ("inside", "outside"), strict=True):
        # DeLong's interval is too short for so few: it misses the prediction in 1 % of honest runs at 0.999.
        assert binomial_lower(hits, QUERIES, 1 - SURE) < found["predicted"][world]
        assert found["predicted"][world] < binomial_upper(hits, QUERIES, 1 - SURE)
    assert found["epsilon_at_least"] < found["certified"]["epsilon"]
    made = ProbeStatement.decode((live.folder / "out").read_bytes())
    made.verify()
    assert made.observer.hex() == live.observer
    assert list(made.hits) == found["hits"]
    canary = [one for one in made.answers if one.query == made.planted[0].text]
    assert [one.request.ctr for one in canary] == 2 * list(range(1, QUERIES + 1))
    log = NoteVerifier.from_vkey(live.log_key)
    one, other = made.answers[:2]
    for body, said in (
        (replace(one.answer.receipt.body, index=other.answer.receipt.body.index), "is not the record"),
        (replace(one.answer.receipt.body, index=0), "is not the record"),
    ):
        forged = replace(one, answer=replace(one.answer, receipt=replace(one.answer.receipt, body=body)))
        with pytest.raises(LedgerError, match=said):
            asyncio.run(logged(Peer(live.server.address, log, BY_DEFAULT), forged))
    # more than n_max can never be answered: refused with the numbers, and nothing of the budget is spent
    most = QUERIES + LOCATING
    many = live.probe(planted, "--queries", str(most + 1))
    assert many.exit_code == 1
    assert f"{most + 1} queries of 1 accounts (--inside) are up to {most + 1} of one account" in many.output
    assert f"of which one has asked {QUERIES} times" in many.output
    assert f"n_max = {most}: give more accounts" in many.output
    wide = live.probe(planted, "--queries", "600", "--group", "300")
    assert "a trial of 300 queries is more than the" in wide.output
    spent = len(live.provider.journal.history.named("").records)
    assert 2 * QUERIES < spent <= 2 * QUERIES + LOCATING  # the replacement's slot is found by its own text
    # nothing is asked for another statement, and an auditor counts what the observer did
    again = live.probe(planted, "--queries", "0", "--confidence", repr(SURE), "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout.splitlines()[-1])["hits"] == found["hits"]
    assert len(live.provider.journal.history.named("").records) == spent
    live.end_window()
    receipts, aside = read_probes([live.folder / "out"])
    assert not aside
    verdict = live.audited(receipts=receipts, sample=Sample(2))
    assert verdict.verdict == "SAMPLED-PASS", verdict.line()
    (counted,) = verdict.probes
    assert counted.worlds is not None
    assert list(counted.worlds.hits) == found["hits"]
    assert counted.observer.hex() == live.observer
    assert not verdict.set_aside


async def logged(peer: Peer, answer: ProbeAnswer) -> None:
    async with peer.connect() as remote:
        await check_logged(remote, peer, [answer])


@pytest.mark.parametrize("live", [8], indirect=True)
def test_a_provider_with_an_eighth_of_the_noise_is_accused(live: Scene, planted: Path) -> None:
    done = live.probe(planted, "--queries", str(QUERIES), "--json")
    assert done.exit_code == 3, done.output
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["verdict"] == "violation"
    assert "more than the certified" in found["reasons"][0]
    assert "probe: violation" in for_people(found)
    assert found["hits"][0] > 30
    assert found["advantage_at_least"] > found["certified"]["advantage"]


def test_anybody_with_an_account_tests_the_protocol(tmp_path: Path) -> None:
    """No planted pair, and a claim with a coin: answers are asked for, checked, stated and counted."""
    with running(tmp_path, coins=True) as scene_:
        account, own, out = scene_.account(), tmp_path / "observer", tmp_path / "probe.statement"
        assert CliRunner().invoke(main, ["keygen", "--name", "observer.example", "--state", str(own)]).exit_code == 0
        common = ["probe", "--provider", scene_.address, "--log-key", scene_.log_key, "--state", str(own)]
        asking = [*common, "--account", str(account), "--embedder", "none", "--out", str(out)]
        nothing = CliRunner().invoke(main, [*asking, "--queries", "0"])
        assert nothing.exit_code == 1
        assert "has no answers" in nothing.output
        done = CliRunner().invoke(main, [*asking, "--question", "who is it?", "--queries", "2", "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout.splitlines()[-1])["answers"] == 2
        stated = ProbeStatement.decode(out.read_bytes())
        stated.verify()
        assert ([one.query for one in stated.answers], stated.planted, stated.hits) == (["who is it?"] * 2, (), ())
        many = CliRunner().invoke(main, [*asking, "--question", "who is it?", "--queries", "1000"])
        assert many.exit_code == 1
        assert "No query was spent" in many.output
        pair = CliRunner().invoke(main, ["plant", "--out", str(tmp_path / "probe")])
        assert pair.exit_code == 0
        sides = ["--inside", str(account), "--outside", str(account), "--plant", str(tmp_path / "probe")]
        coin = CliRunner().invoke(main, [*common, *sides, "--queries", "2"])
        assert coin.exit_code == 1
        assert "its coin may hide the planted slot" in coin.output
        scene_.end_window()
        verdict = scene_.audited(receipts=read_probes([out])[0])
    assert verdict.verdict == "PASS", verdict.line()
    (counted,) = verdict.probes
    assert (counted.answers, counted.accounts, counted.worlds, counted.exceeds) == (2, 1, None, ())


def test_the_planted_pair_is_far_apart_for_a_real_embedder(planted: Path) -> None:
    canary, replacement = scores_of(read_plant(planted), scene.make_policy(), "minilm")
    assert canary > 0.97 * 127**2
    assert replacement < 0.3 * 127**2
    rules = scene.make_policy()
    assert scores_of(read_plant(planted), rules, "none") == (rules.hi, rules.lo)


def test_refusals_before_anything_is_asked(tmp_path: Path, planted: Path) -> None:
    key = NoteSigner("example.org/rag", key_of("log")).verifier.vkey()
    made = ["keygen", "--name", "observer.example", "--state", str(tmp_path / "own")]
    assert CliRunner().invoke(main, made).exit_code == 0
    peer = ["--provider", "127.0.0.1:1", "--log-key", key, "--state", str(tmp_path / "own")]
    common = ["--inside", str(tmp_path), "--outside", str(tmp_path), *peer]
    no_plant = CliRunner().invoke(main, ["probe", "--plant", str(tmp_path), *common])
    assert no_plant.exit_code == 1
    assert "ragseal-observer plant" in no_plant.output
    few = CliRunner().invoke(main, ["probe", "--plant", str(planted), *common, "--queries", "5", "--group", "3"])
    assert few.exit_code == 1
    assert "Traceback" not in few.output
    for wrong in (
        ["--account", str(tmp_path)],
        ["--account", str(tmp_path), "--question", "q", "--inside", str(tmp_path)],
        ["--inside", str(tmp_path)],
        [],
    ):
        usage = CliRunner().invoke(main, ["probe", *peer, *wrong])
        assert usage.exit_code == 2
        assert "give --account, or --inside and --outside" in usage.output or "with --question TEXT" in usage.output
    stranger = CliRunner().invoke(main, ["probe", *common, "--state", str(tmp_path / "no-key")])
    assert stranger.exit_code == 1
    assert "keygen" in stranger.output


# What the replace-pair attack is compared with: predictions by simulation, certified numbers above them, verdicts.


CLASSES: dict[str, AttestationClass] = load_classes()


GAIN = 15  #: of policies: H is 35 steps


def policy(name: str = TINY.name, **changes: Any) -> Policy:
    cls = CLASSES[name]
    values: dict[str, Any] = {
        "class_name": cls.name, "class_digest": b"c" * 32, "table_digest": noise.build_table(cls.law).digest(),
        "dimension": 24, "claim": "every-list", "hidden": 0,
        "lo": 9677, "hi": 14516, "gain": GAIN, "n_max": 100, "k_max": 2, "delta": "1/1000000",
        "epsilon_account": "300", "theta": "9/10", "tau": 1000, "gate": True,
        "unit": "slot", "chunks_max": 1, "period_start": 0,
        "opens": 10, "closes": 20, "ids": cls.most_ids(1),
    }  # fmt: skip
    return Policy(**(values | changes))


@pytest.mark.parametrize(("name", "slot"), [("noise-tiny-gaussian", 0), ("noise-tiny-two", 0), ("noise-tiny-two", 125)])
@pytest.mark.parametrize("raised", [0, 700, 4839, 20000, 120_000])
def test_predicted_hits_against_simulation(name: str, slot: int, raised: int) -> None:
    """Independent of the sum: every slot's noise drawn, the largest K taken."""
    cls = CLASSES[name]
    table, rng = noise.build_table(cls.law), np.random.default_rng(raised + 1)
    cdf = np.array([table.cdf(x) / table.total for x in range(-table.cut, table.cut)])
    z = np.searchsorted(cdf, rng.random((6000, cls.N)), side="right") - table.cut
    v = z
    v[:, slot] += raised >> cls.step_bits
    ahead = (v > v[:, [slot]]) | ((v == v[:, [slot]]) & (np.arange(cls.N) < slot))
    hits = (ahead.sum(axis=1) < with_noise(cls).K).mean()
    expected = hit_probability(cls, float(raised), slot)
    assert hits == pytest.approx(expected, abs=5 * math.sqrt(max(expected * (1 - expected), 1e-3) / 6000))


def test_scores_of_a_noise_class_count_in_whole_steps() -> None:
    cls = CLASSES["noise-tiny-two"]
    steps = [hit_probability(cls, float((20 << cls.step_bits) + more)) for more in (0, 1, (1 << cls.step_bits) - 1)]
    assert len(set(steps)) == 1
    assert hit_probability(cls, float(21 << cls.step_bits)) > steps[0]


def test_a_slot_like_the_others_is_returned_as_often_as_they() -> None:
    found = [hit_probability(TINY, 0.0, slot) for slot in range(TINY.N)]
    assert sum(found) == pytest.approx(TINY.K, rel=1e-9)  # exactly K slots come back
    assert sorted(found, reverse=True) == found  # the lower slot wins a tie
    assert hit_probability(TINY, 0.0) == found[TINY.N // 2] < found[0] / 1.02


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize(("name", "gain"), [("noise-tiny-gaussian", 16), ("noise-tiny-two", 8)])
def test_what_is_certified_lies_above_what_the_honest_mechanism_shows(name: str, gain: int, group: int) -> None:
    rules, cls = policy(name, gain=gain), CLASSES[name]
    certified = certify(rules, cls, group)
    shown = predict(rules, cls, (rules.hi, rules.lo), certified, 40 // group, group, 1e-3, (0, 0))
    assert shown.auc <= certified.auc
    assert 1 - (1 - (shown.inside - shown.outside)) ** group <= certified.advantage * (1 + 1e-9)
    assert math.log(shown.inside / shown.outside) <= certified.epsilon
    if group == 1:  # and hardly above: the planted attack is nearly the best there is
        assert shown.inside - shown.outside >= 0.98 * certified.advantage


def hits(p: float, m: int, seed: int) -> list[bool]:
    found: list[bool] = (np.random.default_rng(seed).random(m) < p).tolist()
    return found


def test_verdicts() -> None:
    rules = policy()
    scores = (16129, 3000)
    honest = judge(rules, TINY, hits(0.2, 60, 1), hits(0.024, 60, 2), 1, scores, 0.999)
    assert honest.verdict == CONSISTENT
    assert "would most likely have been noticed" in honest.reasons[0]
    quiet = judge(rules, TINY, hits(0.98, 60, 1), hits(0.02, 60, 2), 1, scores, 0.999)
    assert quiet.verdict == VIOLATION
    assert any("advantage" in reason for reason in quiet.reasons)
    assert quiet.bounds.advantage > quiet.certified.advantage
    every = judge(rules, TINY, [True] * 60, [False] * 60, 1, scores, 0.999)  # DeLong's error is 0 here
    assert every.verdict == VIOLATION
    loud = judge(rules, TINY, hits(0.024, 900, 1), hits(0.024, 900, 2), 1, scores, 0.999)
    assert loud.verdict == OVER_NOISE
    # Below DeLong's interval, and yet an honest mechanism returns the slot so rarely in six samples of a thousand.
    unlucky = judge(rules, TINY, [True] * 2 + [False] * 38, [False] * 40, 1, scores, 0.999)
    assert unlucky.interval[1] < unlucky.prediction.auc
    assert unlucky.verdict == CONSISTENT
    few = judge(rules, TINY, [True, False], [False, False], 1, scores, 0.999)
    assert few.verdict == CONSISTENT
    assert "ask more often" in few.reasons[0]


def test_only_what_is_above_its_limit_accuses() -> None:
    """The same hits are a violation of a policy with more noise and none of one with less."""
    inside, outside = hits(0.75, 60, 1), hits(0.02, 60, 2)
    noisy, plain = policy(), policy(lo=2000)
    assert judge(noisy, TINY, inside, outside, 1, (16129, 0), 0.999).verdict == VIOLATION
    assert judge(plain, TINY, inside, outside, 1, (16129, 0), 0.999).verdict != VIOLATION


def test_an_honest_provider_is_hardly_ever_accused() -> None:
    """The smallest samples that can accuse at all; at confidence 0.99 three limits may err three times in a hundred."""
    from ragseal.accounting.statistics import delong, lower_bounds
    from ragseal.ledger.probe.canary import violations

    certified = certify(policy(), TINY, 1)
    p, q = hit_probability(TINY, 4839.0 * GAIN), hit_probability(TINY, 0.0)
    wrong = 0
    for seed in range(1000):
        one = [int(x) for x in hits(p, 40, 2 * seed)]
        other = [int(x) for x in hits(q, 40, 2 * seed + 1)]
        wrong += bool(violations(certified, lower_bounds(one, other, 1e-6, 0.01), delong(one, other), 0.01))
    assert wrong <= 30


def test_over_noise_needs_exact_limits_too() -> None:
    """All outcomes of 40 queries each way: DeLong's interval errs far more often than it says, exact limits do not."""
    from ragseal.accounting.statistics import delong
    from ragseal.ledger.probe.canary import _beyond_chance

    n, p, q, alpha = 40, 0.20, 0.02, 0.001
    honest = predict(policy(), TINY, (4839, 0), certify(policy(), TINY, 1), n, 1, alpha)
    honest = dataclasses.replace(honest, inside=p, outside=q)
    below = rare = 0.0
    for a, b in itertools.product(range(n + 1), repeat=2):
        chance = math.prod(math.comb(n, i) * x**i * (1 - x) ** (n - i) for i, x in ((a, p), (b, q)))
        one, other = ([True] * i + [False] * (n - i) for i in (a, b))
        low = delong(list(map(int, one)), list(map(int, other))).interval(alpha)[1] < 0.5 + (p - q) / 2
        below += chance * low
        rare += chance * (low and _beyond_chance(one, other, honest, alpha))
    assert below == pytest.approx(0.008, abs=0.0005)
    assert 0 < rare < alpha / 2


def test_certified_numbers_follow_the_policy() -> None:
    small, large = certify(policy(), TINY, 1), certify(policy(lo=4839), TINY, 1)
    assert small.epsilon < large.epsilon
    assert small.advantage < large.advantage < 1
    assert small.auc == pytest.approx((1 + small.advantage) / 2)
    assert dataclasses.astuple(certify(policy(), TINY, 3)) > dataclasses.astuple(small)
