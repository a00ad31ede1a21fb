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

from ragseal.circuits import bound as proven
from ragseal.circuits import build as building
from ragseal.circuits import stats
from ragseal.circuits.__main__ import main
from ragseal.circuits.build import build
from ragseal.circuits.circuit import (
    HERE,
    class_digest,
    load_classes,
    thinning_classes,
)
from ragseal.circuits.packages import node_modules
from ragseal.circuits.search import complete, count_rows
from ragseal.kernel import noise, overflow
from ragseal.kernel.errors import ConfigurationError, PolicyError, UnavailableError
from ragseal.kernel.estimate_class import CLASSES as SIZES
from ragseal.kernel.params import CircuitClass
from tests.circuits.drafts import Setting
from tests.circuits.r1cs import P
from tests.circuits.scene import CACHE, probe

pytestmark = pytest.mark.slow

EVERY = load_classes()
CLASSES = {name: cls for name, cls in EVERY.items() if isinstance(cls, CircuitClass)}  #: others: test_noise
MANY = {"small-one-32": 32, "base-one-50": 50, "large-one-50": 50}  #: classes that return more than ten
DOMAINS = {"tiny": 14, "small": 16, "base": 17, "large": 18}


def test_the_classes_are_the_agreed_ones() -> None:
    sizes = [*DOMAINS, *(f"{name}-{law}" for law in ("geo", "one") for name in DOMAINS)]
    assert list(CLASSES) == [*sizes, *MANY]
    assert {c.law for c in CLASSES.values()} == {"gaussian", "geometric", "one-sided"}
    # A name's number is the number of results; without one a class returns ten, the tests' class three.
    assert [CLASSES[name].K for name in sizes] == [3, 10, 10, 10] * 3
    assert {name: CLASSES[name].K for name in MANY} == MANY
    assert all(CLASSES[name].N == CLASSES[name.split("-")[0]].N for name in CLASSES)
    assert CLASSES["base"].N >= 5184


@pytest.mark.parametrize("name", CLASSES)
def test_places_are_proven_enough_and_not_one_too_many(name: str) -> None:
    """The overflow bound holds exactly for the file's R, a, b, and for no a, b with one place less."""
    cls = CLASSES[name]
    table = noise.build_table(cls.law)
    assert overflow.overflow_bound_holds(cls, table)
    assert not overflow.overflow_bound_holds(dataclasses.replace(cls, R=cls.R - 1), table)
    assert proven.find_bound(cls.N, cls.K, cls.m, table)[0] == cls.R


@pytest.mark.parametrize("name", CLASSES)
def test_rows_fit_the_domain(name: str) -> None:
    rows = count_rows(CLASSES[name])
    assert rows.rows <= rows.domain == 1 << DOMAINS[name.split("-")[0]]
    if not name.startswith("tiny"):
        assert rows.scaling / CLASSES[name].N <= 8.69
    if name.startswith("base"):
        assert rows.scaling / CLASSES[name].N <= 8.49
    if name.startswith("base") and CLASSES[name].K == 10:  # the rest are places, and their number grows with K
        assert rows.rows - rows.scaling <= 24100


def test_stats_file_is_current() -> None:
    """For tiny always; for other classes if their formula says something else, or their build is there."""
    lines = stats.read()
    assert list(lines) == [*EVERY, *SIZES, *thinning_classes()]
    assert lines["tiny"] == stats.measured(build(CLASSES["tiny"], CACHE))
    for name, cls in EVERY.items():
        rows = count_rows(cls)
        assert (lines[name]["constraints"], lines[name]["hidden"]) == (str(rows.constraints), str(rows.hidden))
        assert lines[name]["rows_per_slot"] == f"{rows.scaling / cls.N:.3f}"


def test_rows_per_slot_is_the_measured_slope() -> None:
    """Two capacities of one shape compiled: the difference is what the formula calls scaling."""
    small = CLASSES["tiny"]
    large = dataclasses.replace(small, name="tiny-slope", N=small.N - 2 * small.q)
    one, two = build(small, CACHE), build(large, CACHE)
    a, b = count_rows(small), count_rows(large)
    assert (two.constraints, two.public) == (b.constraints, b.public)
    grid = overflow.grid_size(small, noise.build_table(small.law)) - overflow.grid_size(
        large, noise.build_table(large.law)
    )
    # A point of the threshold grid is two rows; its number falls with N.
    assert one.constraints - two.constraints == a.scaling - b.scaling + 2 * grid


def test_formula_is_the_compilers_for_an_unusual_shape() -> None:
    built = build(probe(), CACHE)
    rows = count_rows(built.cls)
    assert (rows.constraints, rows.public) == (built.constraints, built.public)


def test_build_is_found_again_and_never_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def fake(main_text: str, folder: Path, compiler: building.Compiler, *rest: object) -> None:
        calls.append(main_text)
        for kind in ("r1cs", "wasm", "sym"):
            shutil.copyfile(real.folder / f"attestation.{kind}", folder / f"attestation.{kind}")
        if len(calls) == 1:
            raise ConfigurationError("the compiler was interrupted")

    real = build(CLASSES["tiny"], CACHE)
    monkeypatch.setattr(building, "compile_main", fake)
    with pytest.raises(ConfigurationError, match="interrupted"):
        build(CLASSES["tiny"], tmp_path)
    assert [p for p in tmp_path.iterdir() if p.is_dir()] == []
    said: list[str] = []
    first = build(CLASSES["tiny"], tmp_path, said.append)
    assert build(CLASSES["tiny"], tmp_path, said.append) == first
    assert len(calls) == 2
    assert len(said) == 2
    assert first.r1cs.exists()
    assert first.wasm.exists()
    assert first.sym.exists()
    about = json.loads((first.folder / "class.json").read_text())
    assert about["class"] == CLASSES["tiny"].to_mapping()
    assert about["class_digest"] == class_digest(CLASSES["tiny"]).hex()


def test_digest_changes_with_every_parameter() -> None:
    tiny = CLASSES["tiny"]
    digests = {class_digest(cls) for cls in CLASSES.values()}
    for change in ({"R": tiny.R + 1}, {"a": tiny.a + Fraction(1, 7)}, {"s": tiny.s - 1}, {"name": "other"}):
        digests.add(class_digest(dataclasses.replace(tiny, **change)))  # type: ignore[arg-type]
    assert len(digests) == len(CLASSES) + 4
    assert all(len(d) == 32 for d in digests)


def test_missing_tools_name_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building.shutil, "which", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"Node\.js"):
        build(CLASSES["tiny"], tmp_path)
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


def test_what_is_compiled_serves_without_its_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build(CLASSES["tiny"], CACHE)
    monkeypatch.setattr(building.shutil, "which", lambda name: None)
    assert build(CLASSES["tiny"], CACHE) == before
    renamed = shutil.copytree(before.folder, tmp_path / f"tiny-{'0' * 16}")  # made of something else, says its name
    with pytest.raises(UnavailableError, match=r"Node\.js"):
        build(CLASSES["tiny"], tmp_path)
    about = json.loads((renamed / "class.json").read_text())
    for garbled in ({**about, "compiler": "another"}, {**about, "compiler": 7}, [], {}):
        (renamed / "class.json").write_text(json.dumps(garbled))
        with pytest.raises(UnavailableError):
            build(CLASSES["tiny"], tmp_path)


def test_npm_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named folder, else the checkout's own, else the user's."""
    monkeypatch.delenv("RAGSEAL_NODE_MODULES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert node_modules(tmp_path) == tmp_path / "cache" / "ragseal" / "node_modules"
    (tmp_path / "node_modules").mkdir()
    assert node_modules(tmp_path) == tmp_path / "node_modules"
    monkeypatch.setenv("RAGSEAL_NODE_MODULES", str(tmp_path / "named"))
    assert node_modules(tmp_path) == tmp_path / "named"


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


def test_class_files_are_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "classes.toml"
    with pytest.raises(ConfigurationError, match=r"cannot read|is not TOML"):
        load_classes(path)
    path.write_text("[x\n")
    with pytest.raises(ConfigurationError, match=r"cannot read|is not TOML"):
        load_classes(path)
    path.write_text('law = "gaussian"\n')
    with pytest.raises(ConfigurationError, match="outside"):
        load_classes(path)
    path.write_text('[x]\nlaw = "gaussian"\nN = 100\n')
    with pytest.raises(PolicyError, match="unknown or missing"):
        load_classes(path)


def test_the_lock_file_names_no_registry() -> None:
    text = (HERE / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in text
    assert "://" not in text


def test_command_line() -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["list"])
    assert listed.exit_code == 0
    assert "base-geo" in listed.output
    found = runner.invoke(main, ["search", "-N", "126", "-K", "3", "-m", "8", "-q", "18", "-c", "10", "-s", "4"])
    assert f"R = {CLASSES['tiny'].R}\n" in found.output
    wrong = runner.invoke(main, ["build", "nothing"])
    assert wrong.exit_code == 1
    assert "no circuit class nothing; there are tiny" in wrong.output
    assert complete("tiny", "gaussian", 126, 3, 8, 18, 10, 4) == CLASSES["tiny"]


def test_the_compilers_witness_generator_agrees(tiny: Setting, tmp_path: Path) -> None:
    """attestation.wasm, run by snarkjs, gives wire for wire what propagation through the rows gives."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js")
    built = build(tiny.cls, CACHE)
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
