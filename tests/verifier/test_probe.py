# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe against live providers of class TINY: an honest one is not accused, one with too little noise is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from ragseal.accounting.statistics import binomial_lower, binomial_upper
from ragseal.backends.mechanism import Engine, Scores
from ragseal.kernel.classes import Asked
from ragseal.kernel.statement import Returned
from ragseal.ledger.note import NoteVerifier
from ragseal.prover.commitment.corpora import Document
from ragseal.verifier.__main__ import main
from ragseal.verifier.audit.audit import Target
from ragseal.verifier.cli.probe_commands import read_plant, scores_of, window_of
from ragseal.verifier.evidence.evidence import Refused
from ragseal.verifier.steps.turns import read_log
from tests.simulator import provider as scene
from tests.simulator.live import Live

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

    def probe(self, planted: Path, *more: str) -> Result:
        return CliRunner().invoke(
            main,
            [
                "probe", "--plant", str(planted), "--provider", self.server.address, "--log-key", self.log_key,
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
    evidence = json.loads((live.folder / "out" / "probe.json").read_text())
    inside = evidence["answers"]["inside"]
    assert [answer["ctr"] for answer in inside] == list(range(1, QUERIES + 1))
    with Target(live.server.address, NoteVerifier.from_vkey(live.log_key)).connect() as link:
        log = read_log(link, NoteVerifier.from_vkey(live.log_key))
    assert window_of(log, inside).window == "test-window"
    other = inside[1]["record"]
    for forged, said in (
        ([{**inside[0], "record": other}], "is not the record"),
        ([{**inside[0], "ledger_index": log.size}], "is not the record"),
        ([{**inside[0], "ledger_index": 0}], "is not the record"),
        ([{**inside[0], "manifest": "00" * 32}], "holds no manifest"),
        ([inside[0], {**inside[1], "manifest": "00" * 32}], "several windows"),
    ):
        with pytest.raises(Refused, match=said):
            window_of(log, forged)
    # more than n_max can never be answered: refused with the numbers, and nothing of the budget is spent
    most = QUERIES + LOCATING
    many = live.probe(planted, "--queries", str(most + 1))
    assert many.exit_code == 1
    assert f"{most + 1} queries of 1 accounts (--inside) are up to {most + 1} of one account" in many.output
    assert f"n_max = {most}: give 2 accounts, or ask at most {most} times" in many.output
    none_left = live.probe(planted, "--queries", str(most))
    assert none_left.exit_code == 1
    assert "has to find the planted slot" in none_left.output
    wide = live.probe(planted, "--queries", "600", "--group", "300")
    assert "a trial of 300 queries is more than the" in wide.output
    spent = len(live.provider.journal.history.named("").records)
    assert 2 * QUERIES < spent <= 2 * QUERIES + LOCATING  # the replacement's slot is found by its own text
    # n_max is used up: the account's own program stops, and says why.
    again = live.probe(planted, "--queries", str(most - 1))
    assert again.exit_code == 1
    assert f"has used its {most} queries" in again.output
    assert "Traceback" not in again.output


@pytest.mark.parametrize("live", [8], indirect=True)
def test_a_provider_with_an_eighth_of_the_noise_is_accused(live: Scene, planted: Path) -> None:
    done = live.probe(planted, "--queries", str(QUERIES))
    assert done.exit_code == 3, done.output
    assert "probe: violation" in done.output
    assert "more than the certified" in done.output
    found = json.loads((live.folder / "out" / "probe.json").read_text())
    assert found["hits"][0] > 30
    assert found["advantage_at_least"] > found["certified"]["advantage"]


def test_the_planted_pair_is_far_apart_for_a_real_embedder(planted: Path) -> None:
    canary, replacement = scores_of(read_plant(planted), scene.make_policy(), "minilm")
    assert canary > 0.97 * 127**2
    assert replacement < 0.3 * 127**2
    rules = scene.make_policy()
    assert scores_of(read_plant(planted), rules, "none") == (rules.hi, rules.lo)


def test_refusals_before_anything_is_asked(tmp_path: Path, planted: Path) -> None:
    key = "example.org/rag+9aef4e2c+AUa3xaJJ4Dc0rN9CC7Eq1z3y8Yk6yO0c3e4mC0mCJfd5"
    common = ["--inside", str(tmp_path), "--outside", str(tmp_path), "--log-key", key]
    no_plant = CliRunner().invoke(main, ["probe", "--plant", str(tmp_path), *common])
    assert no_plant.exit_code == 1
    assert "ragseal-verifier plant" in no_plant.output
    few = CliRunner().invoke(main, ["probe", "--plant", str(planted), *common, "--queries", "5", "--group", "3"])
    assert few.exit_code == 1
    assert "Traceback" not in few.output
