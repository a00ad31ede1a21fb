# SPDX-License-Identifier: GPL-3.0-or-later
"""``make bench`` measures every figure it promises, and computes it from its samples."""

from __future__ import annotations

import copy
import importlib
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import ragseal_native as native
from bench import performance
from bench.rapidsnark import main
from bench.shardproofs import apart, proofs
from ragseal.circuits import stats
from ragseal.circuits.build import default_cache
from tests.classes import TINY

NUMBERS = ("rows_per_slot", "fixed_rows", "witness_share", "peak_memory_mib", "keys_base_s", "batch_verify_ms")
NUMBERS += ("single_verify_ms", "commit_us_per_entry")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench")
    done = CliRunner().invoke(performance.main, ["--quick", "--skip-load", "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "performance.json").read_text())
    return found


@pytest.mark.slow
def test_exactly_the_promised_keys(result: dict[str, Any]) -> None:
    assert set(result) == {*performance.KEYS, "machine", "raw"}
    assert set(performance.TARGETS) <= set(performance.KEYS)


@pytest.mark.slow
def test_numbers(result: dict[str, Any]) -> None:
    for name in NUMBERS:
        assert result[name] > 0, name
    line = stats.read()[TINY.name]
    assert f"{result['rows_per_slot']:.3f}" == line["rows_per_slot"]
    assert result["fixed_rows"] == int(line["fixed_rows"])
    assert result["prove_vs_snarkjs"] > 1
    assert 0 < result["witness_share"] < 1
    assert result["single_verify_ms"] > result["batch_verify_ms"]  # a batch shares its pairings and openings
    assert set(result["answer_vs_faiss"]) == {"120", "1000"}
    assert all(ratio > 0 for ratio in result["answer_vs_faiss"].values())
    assert result["answers_per_s"] is None  # left out here
    assert 0 < result["seal_ms"] < 50
    assert set(result["seal_vs_library"]) == {"12288", "1048576"}
    assert result["raw"]["sealing"]["12288"]["longer_by"] == 48


@pytest.mark.slow
def test_downloads_grow_with_proofs_not_with_openings(result: dict[str, Any]) -> None:
    sizes, opened = result["proof_bytes"], result["raw"]["proofs"]["verification"]["openings_bytes"]
    # Tag and version, seq, digest, C_h and C_1 behind their number, proof behind its length, C_v.
    entry = 12 + 2 + 8 + 32 + 2 + 2 * 64 + 4 + 256 + 64
    batches = -(-1000 // 256)
    openings = sum(opened.values())
    for records, count in ((100, 1), (1000, batches)):
        assert 0 < sizes[str(records)] - records * entry - count * openings < count * 100
    assert openings < 5_000
    assert openings < result["raw"]["proofs"]["verification"]["openings_bytes_unfolded"]["hints"] / 20


@pytest.mark.slow
def test_figures_follow_their_samples(result: dict[str, Any]) -> None:
    proofs, answers = copy.deepcopy(result["raw"]["proofs"]), result["raw"]["answers"]
    seals = copy.deepcopy(result["raw"]["sealing"])
    before = performance.figures(proofs, answers, seals, None)
    assert before == {name: result[name] for name in performance.KEYS}
    proofs["others_s"]["snarkjs"] = [2 * x for x in proofs["others_s"]["snarkjs"]]
    proofs["others_s"]["rapidsnark"] = proofs["prove_same_witness_s"]
    proofs["verification"]["check_batch_s"] = [3 * x for x in proofs["verification"]["check_batch_s"]]
    seals["12288"]["median_ms"]["seal"] *= 4
    after = performance.figures(proofs, answers, seals, {"answers_per_s": 321.0})
    assert after["seal_ms"] == pytest.approx(4 * before["seal_ms"])
    assert after["prove_vs_snarkjs"] == pytest.approx(2 * before["prove_vs_snarkjs"])
    assert after["prove_vs_rapidsnark"] == 1
    assert after["batch_verify_ms"] == pytest.approx(3 * before["batch_verify_ms"])
    assert after["answers_per_s"] == 321.0


@pytest.mark.slow
def test_missed_targets_are_named(result: dict[str, Any]) -> None:
    good = {
        name: {"5183": target, "100000": target} if name == "answer_vs_faiss" else target
        for name, (_, target) in performance.TARGETS.items()
    }
    assert performance.missed(good) == []
    bad = {**good, "prove_vs_snarkjs": 7.9, "answer_vs_faiss": {"5183": 1.0, "100000": 3.1}, "answers_per_s": None}
    assert [line.split(":")[0] for line in performance.missed(bad)] == ["prove_vs_snarkjs", "answer_vs_faiss at 100000"]


@pytest.mark.slow
def test_a_run_that_was_broken_off_goes_on(
    result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["--quick", "--skip-load", "--out", str(tmp_path)]
    answers = dict(result["raw"]["answers"])
    done: list[str] = []

    def proofs(*_: Any) -> dict[str, Any]:
        done.append("proofs")
        return dict(result["raw"]["proofs"])

    def broken_off(_: Any, documents: int, __: int) -> dict[str, Any]:
        done.append(str(documents))
        if done == ["proofs", "120", "1000"]:
            raise RuntimeError("power cut")
        return dict(answers[str(documents)])

    monkeypatch.setattr(performance, "prove_path", proofs)
    monkeypatch.setattr("bench.answering.against_faiss", broken_off)
    monkeypatch.setattr("bench.sealing.sealing", lambda size, rounds: result["raw"]["sealing"][str(size)])
    with pytest.raises(RuntimeError, match="power cut"):
        CliRunner().invoke(performance.main, command, catch_exceptions=False)
    assert not (tmp_path / "performance.json").exists()
    assert CliRunner().invoke(performance.main, command, catch_exceptions=False).exit_code == 0
    assert done == ["proofs", "120", "1000", "1000"]  # only what was missing
    found = json.loads((tmp_path / "performance.json").read_text())
    assert all(found[name] == result[name] for name in performance.KEYS)
    assert CliRunner().invoke(performance.main, command, catch_exceptions=False).exit_code == 0
    assert done[4:] == ["proofs", "120", "1000"]  # a finished run is not taken for the next one's


@pytest.mark.slow
def test_a_missing_load_result_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performance, "LOAD", tmp_path / "load.json")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(click.ClickException, match=r"load\.json is missing; run"):
        performance.load_figure(print, True)
    (tmp_path / "load.json").write_text("{}")
    with pytest.raises(click.ClickException, match="does not hold it"):
        performance.load_figure(print, True)
    (tmp_path / "load.json").write_text('{"answers_per_s": 12.5, "quick": true}')
    with pytest.raises(click.ClickException, match="does not hold it"):
        performance.load_figure(print, False)
    assert performance.load_figure(print, True)["answers_per_s"] == 12.5


# The comparison with rapidsnark's library: what it refuses. No registry has the library for this platform.


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        (b"no library", (), "is not rapidsnark's library"),
        (b"", ("--class", "nothing"), "there is no class 'nothing'"),
    ],
)
def test_what_cannot_be_compared(tmp_path: Path, content: bytes, more: tuple[str, ...], said: str) -> None:
    (tmp_path / "library.so").write_bytes(content)
    command = ["--library", str(tmp_path / "library.so"), "--class", TINY.name, "--out", str(tmp_path / "out"), *more]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1
    assert said in done.output
    assert not (tmp_path / "out").exists()


def test_another_library_is_named(tmp_path: Path) -> None:
    """Our own native module has no ``groth16_prover``."""
    command = ["--library", native.__file__, "--class", TINY.name, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1
    assert "is not rapidsnark's library" in done.output


# The proofs behind ``bench.scale`` are of what today's circuits and checks take.


@pytest.mark.slow
def test_proofs_of_shards_hold(tmp_path: Path) -> None:
    found = proofs("noise-tiny-two", default_cache(), tmp_path / "keys", shards=2)
    assert found["class"] == "noise-tiny-two"
    assert found["bytes_a_shard"] == 2 * 64 + 256  # C_h, C_1 and a Groth16 proof
    assert found["bytes_a_record"] == 64
    assert found["worker_peak_mib"] > 0
    assert found["verify_ms_a_shard"] > 0


def test_what_fails_apart_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        apart(divmod, 1, 0)
