# SPDX-License-Identifier: GPL-3.0-or-later
"""Classes, their proven parameters, and the build: cache, digests, numbers, failures with a way out."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragseal.circuits import build as building
from ragseal.circuits import stats
from ragseal.circuits.__main__ import main
from ragseal.circuits.build import build, default_cache
from ragseal.circuits.circuit import (
    HERE,
    class_digest,
    load_classes,
    thinning_classes,
)
from ragseal.circuits.packages import node_modules
from ragseal.circuits.search import complete_noise, count_rows
from ragseal.kernel.errors import ConfigurationError, PolicyError, UnavailableError
from ragseal.kernel.estimate_class import CLASSES as SIZES
from tests.circuits.noise_drafts import NoiseSetting
from tests.circuits.r1cs import P
from tests.circuits.scene import CACHE, compiled
from tests.classes import CLASSES, TINY


@pytest.mark.slow
def test_stats_file_is_current() -> None:
    """For the tests' class always; for other classes if their formula says something else, or their build is there."""
    lines = stats.read()
    assert list(lines) == [*CLASSES, *SIZES, *thinning_classes()]
    assert lines[TINY.name] == stats.measured(build(TINY, CACHE))
    for name, cls in CLASSES.items():
        rows = count_rows(cls)
        assert (lines[name]["constraints"], lines[name]["hidden"]) == (str(rows.constraints), str(rows.hidden))
        assert lines[name]["rows_per_slot"] == f"{rows.scaling / cls.N:.3f}"


@pytest.mark.slow
def test_rows_per_slot_is_the_measured_slope() -> None:
    """Two capacities of one shape compiled: the difference is what the formula calls scaling."""
    fewer = dataclasses.replace(TINY, name="noise-tiny-slope", N=TINY.N - 2 * TINY.q)
    one, two = build(TINY, CACHE), build(fewer, CACHE)
    a, b = count_rows(TINY), count_rows(fewer)
    assert (two.constraints, two.public) == (b.constraints, b.public)
    # A point of the threshold grid is two rows; its number falls with N.
    assert one.constraints - two.constraints == a.scaling - b.scaling + 2 * (TINY.grid - fewer.grid)


@pytest.mark.slow
def test_build_is_found_again_and_never_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def fake(main_text: str, folder: Path, compiler: building.Compiler, *rest: object) -> None:
        calls.append(main_text)
        for kind in ("r1cs", "wasm", "sym"):
            shutil.copyfile(real.folder / f"noise.{kind}", folder / f"noise.{kind}")
        if len(calls) == 1:
            raise ConfigurationError("the compiler was interrupted")

    real = build(TINY, CACHE)
    monkeypatch.setattr(building, "compile_main", fake)
    with pytest.raises(ConfigurationError, match="interrupted"):
        build(TINY, tmp_path)
    assert [p for p in tmp_path.iterdir() if p.is_dir()] == []
    said: list[str] = []
    first = build(TINY, tmp_path, said.append)
    assert build(TINY, tmp_path, said.append) == first
    assert len(calls) == 2
    assert len(said) == 2
    assert first.r1cs.exists()
    assert first.wasm.exists()
    assert first.sym.exists()
    about = json.loads((first.folder / "class.json").read_text())
    assert about["class"] == TINY.to_mapping()
    assert about["class_digest"] == class_digest(TINY).hex()


@pytest.mark.slow
def test_digest_changes_with_every_parameter() -> None:
    digests = {class_digest(cls) for cls in CLASSES.values()}
    for change in ({"R": TINY.R + 2}, {"a": TINY.a + Fraction(1, 7)}, {"c": TINY.c + 1}, {"name": "other"}):
        digests.add(class_digest(dataclasses.replace(TINY, **change)))  # type: ignore[arg-type]
    assert len(digests) == len(CLASSES) + 4
    assert all(len(d) == 32 for d in digests)


@pytest.mark.slow
def test_missing_tools_name_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building.shutil, "which", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"Node\.js"):
        build(TINY, tmp_path)
    monkeypatch.setattr(building.shutil, "which", lambda name: None if name == "circom" else "node")
    monkeypatch.setattr(building, "HERE", tmp_path / "ragseal" / "circuits")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ConfigurationError, match=f"npm ci --prefix {tmp_path}/cache/ragseal"):  # as it is installed
        building.find_compiler()
    (tmp_path / "ragseal" / "Makefile").parent.mkdir()
    (tmp_path / "ragseal" / "Makefile").touch()
    with pytest.raises(ConfigurationError, match=f"npm ci --prefix {tmp_path}/ragseal/circuits"):  # in a checkout
        building.find_compiler()
    monkeypatch.setenv("RAGSEAL_NODE_MODULES", str(tmp_path / "empty"))
    with pytest.raises(UnavailableError, match=f"RAGSEAL_NODE_MODULES names {tmp_path}/empty, which lacks it"):
        building.find_compiler()


@pytest.mark.slow
def test_what_is_compiled_serves_without_its_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build(TINY, CACHE)
    monkeypatch.setattr(building.shutil, "which", lambda name: None)
    assert build(TINY, CACHE) == before
    renamed = shutil.copytree(before.folder, tmp_path / f"tiny-{'0' * 16}")  # made of something else, says its name
    with pytest.raises(UnavailableError, match=r"Node\.js"):
        build(TINY, tmp_path)
    about = json.loads((renamed / "class.json").read_text())
    for garbled in ({**about, "compiler": "another"}, {**about, "compiler": 7}, [], {}):
        (renamed / "class.json").write_text(json.dumps(garbled))
        with pytest.raises(UnavailableError):
            build(TINY, tmp_path)


@pytest.mark.slow
def test_npm_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named folder, else the checkout's own, else the user's."""
    monkeypatch.delenv("RAGSEAL_NODE_MODULES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert node_modules(tmp_path) == tmp_path / "cache" / "ragseal" / "node_modules"
    (tmp_path / "node_modules").mkdir()
    assert node_modules(tmp_path) == tmp_path / "node_modules"
    monkeypatch.setenv("RAGSEAL_NODE_MODULES", str(tmp_path / "named"))
    assert node_modules(tmp_path) == tmp_path / "named"


@pytest.mark.slow
def test_other_constants_are_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class digest names circomlib by its package's digest; the included file must be that package's."""
    there = tmp_path / "node_modules" / "circomlib" / "circuits"
    there.mkdir(parents=True)
    text = (HERE / "node_modules" / "circomlib" / "circuits" / building.CONSTANTS).read_text(encoding="utf-8")
    monkeypatch.setattr(building, "HERE", tmp_path)
    for content, fits in ((text, True), (text.replace("0x", "0x1", 1), False)):
        (there / building.CONSTANTS).write_text(content, encoding="utf-8")
        if fits:
            building._constants()
            continue
        assert content != text
        with pytest.raises(ConfigurationError, match="not circomlib's"):
            building._constants()


@pytest.mark.slow
def test_class_files_are_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "classes.toml"
    with pytest.raises(ConfigurationError, match=r"cannot read|is not TOML"):
        load_classes(path)
    path.write_text("[x\n")
    with pytest.raises(ConfigurationError, match=r"cannot read|is not TOML"):
        load_classes(path)
    path.write_text('law = "gaussian-512"\n')
    with pytest.raises(ConfigurationError, match="outside"):
        load_classes(path)
    path.write_text('[x]\nlaw = "gaussian-512"\nN = 100\n')
    with pytest.raises(PolicyError, match="unknown or missing"):
        load_classes(path)


@pytest.mark.slow
def test_the_lock_file_names_no_registry() -> None:
    text = (HERE / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in text
    assert "://" not in text


@pytest.mark.slow
def test_command_line() -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["list"])
    assert listed.exit_code == 0
    assert "noise-small-two-50" in listed.output
    found = runner.invoke(
        main, ["search", "--law", TINY.law, "-N", "126", "-K", "3", "-m", "8", "-q", "18", "-c", "11", "-S", "64"]
    )
    assert f"R = {TINY.R}\n" in found.output
    wrong = runner.invoke(main, ["build", "nothing"])
    assert wrong.exit_code == 1
    assert "no circuit class nothing; there are noise-tiny-two" in wrong.output
    assert complete_noise(TINY.name, TINY.law, 126, 3, 8, 18, 11, 64) == TINY


@pytest.mark.slow
def test_the_compilers_witness_generator_agrees(tmp_path: Path) -> None:
    """noise.wasm, run by snarkjs, gives wire for wire what propagation through the rows gives."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js")
    built, tiny = build(TINY, CACHE), NoiseSetting(TINY, compiled(TINY))
    inputs = tiny.honest(3).inputs()
    signals: dict[str, list[str]] = {}
    for w, x in inputs.items():
        signals.setdefault(tiny.r1cs.names[w].split("[")[0], []).append(str(x % P))
    arrays = {name.split("[")[0] for name in tiny.r1cs.names if "[" in name}
    text = json.dumps({name: v if name in arrays else v[0] for name, v in signals.items()})
    (tmp_path / "input.json").write_text(text)
    snarkjs = HERE / "node_modules" / "snarkjs" / "build" / "cli.cjs"
    files = (str(built.wasm), str(tmp_path / "input.json"), str(tmp_path / "witness.wtns"))
    subprocess.run([node, str(snarkjs), "wtns", "calculate", *files], check=True, capture_output=True)
    data = (tmp_path / "witness.wtns").read_bytes()
    values = data[len(data) - 32 * tiny.r1cs.wires :]
    ours = tiny.r1cs.solve(inputs)
    assert b"".join(x.to_bytes(32, "little") for x in ours) == values


# Where compiled circuits lie: with the user, not in whatever folder a program was started in.


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, "/home/u/.cache/ragseal/circuits"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/ragseal/circuits"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/u/.cache/ragseal/circuits"),
        ({"XDG_CACHE_HOME": "/c", "RAGSEAL_CACHE": "/r"}, "/r/circuits"),
        ({"XDG_CACHE_HOME": "/c", "RAGSEAL_CACHE": "/r", "RAGSEAL_BUILD": "b"}, "b"),
    ],
)
def test_the_folder_follows_the_user(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str) -> None:
    for name in ("XDG_CACHE_HOME", "RAGSEAL_CACHE", "RAGSEAL_BUILD"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/u", **environment}.items():
        monkeypatch.setenv(name, value)
    assert default_cache() == Path(folder)
