# SPDX-License-Identifier: GPL-3.0-or-later
"""The package as a whole: one version, parts that have one name each, extras that hold what their programs import."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from examples import audit_offline
from ragseal import __version__
from ragseal.backends.group import available
from ragseal.kernel.errors import BudgetError
from ragseal.verifier.evidence.evidence import Undecided
from scripts import release
from tests.simulator import NOW, SimulatedEvidence, World

ROOT = Path(__file__).resolve().parent.parent
PARTS = sorted(path.name for path in (ROOT / "ragseal").iterdir() if path.is_symlink() and path.name != "v1")


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=120
    )


@pytest.mark.slow
def test_there_is_one_version() -> None:
    """ragseal/__init__.py has it; what cannot read it there says the same (`make release` writes it everywhere)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "ragseal.__version__"}
    assert set(release.versions(ROOT)) == {__version__}
    assert "version" not in tomllib.loads((ROOT / "native" / "pyproject.toml").read_text())["project"]
    assert re.findall(r"^## \[([0-9.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == __version__


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_no_second_name(part: str) -> None:
    """From the checkout's root `import kernel` would find the folder, and its errors would be other errors."""
    done = python(f"import {part}")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(f"ImportError: import ragseal.{part}, not {part}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "program", "extra"), [("pymerkle", "provider", "[provider]"), ("grpc", "observer", "")]
)
def test_a_program_without_its_extra_says_which(module: str, program: str, extra: str) -> None:
    call = f"sys.argv[0] = 'ragseal-{program}'\nfrom ragseal.programs import {program}\n{program}()"
    done = python(f"import sys\nsys.modules['{module}'] = None\n{call}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"the Python package of module {module}")
    assert done.stderr.endswith(f"is not installed: pip install 'ragseal{extra}'\n")


@pytest.mark.slow
def test_an_account_and_an_observer_load_nothing_of_the_extras() -> None:
    names = ("pymerkle", "grpc_health.v1", "grpc_reflection.v1alpha")
    for part in ("client", "client.client", "client.remote", "ledger"):
        module = f"ragseal.{part}" + ("" if "." in part else ".__main__")
        done = python(f"import sys, {module}\nprint([n for n in {names!r} if n in sys.modules])")
        assert done.stdout == "[]\n", (part, done.stdout, done.stderr)


# The commands as they are installed: their version, and Ctrl-C while they are still loading.


SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def start(name: str, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """What an installed command runs: the import of its entry point, then the call."""
    module, _, function = SCRIPTS[name].partition(":")
    code = f"import sys\n{before}\nfrom {module} import {function}\nsys.argv[0] = {name!r}\nsys.exit({function}())"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_there_are_five() -> None:
    assert sorted(SCRIPTS) == ["ragseal", "ragseal-client", "ragseal-observer", "ragseal-provider", "ragseal-verifier"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_each_tells_its_version(name: str) -> None:
    done = start(name, "--version")
    assert (done.returncode, done.stdout) == (0, f"{name} {__version__}\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_ctrl_c_while_it_loads_is_no_traceback(name: str) -> None:
    """The signal arrives in the middle of an import: of the first module that takes long to load."""
    before = (
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background job would ignore it
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())"
    )
    done = start(name, "--version", before=before)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")


# Each example does what its first line says; those of an account: tests/client/test_against_provider.py.


def test_every_example_is_listed_and_tested() -> None:
    found = {path.stem for path in (ROOT / "examples").glob("*.py")}
    listed = (ROOT / "examples" / "README.md").read_text()
    assert all(f"({name}.py)" in listed for name in found)
    assert found == {"one_window", "in_memory", "parties", "ask", "langchain", "audit_offline", "private_answers"}


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="the native module is not installed")
def test_one_window_ends_in_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from examples.one_window import one_window

    verdict = one_window(tmp_path, "How do I rotate a log file?")
    assert verdict.verdict == "PASS", verdict.line()
    assert (verdict.records, verdict.proven, len(verdict.steps)) == (1, 1, 11)
    shown = capsys.readouterr().out
    assert "receipt   record 0" in shown
    assert shown.count(" ok\n") == 11


RUNGS = {
    "exact": ({"claim": "exact", "ids": 2}, "PASS claim=exact epsilon=none private=nothing mode=full "),
    "unseen": (
        {"claim": "unseen", "unseen": 3, "k_max": 2, "ids": 2},
        "PASS claim=unseen coalition=any queries=any unseen=2.98023 return=inf delta=0 period_from=",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("size", ["decoys-tiny", pytest.param("decoys-4k", marks=pytest.mark.long)])
@pytest.mark.skipif(not available(), reason="the native module is not installed")
def test_one_window_of_each_claim_without_decoys_ends_in_pass(size: str, rung: str, tmp_path: Path) -> None:
    """The same window, real keys and proofs: lists are exact, and the verdict says what is private."""
    from examples.one_window import one_window

    own, begins = RUNGS[rung]
    policy = {"class": size, "lo": 0.3, "n_max": 6, **own}
    verdict = one_window(tmp_path, "How do I rotate a log file?", policy)
    assert verdict.line().startswith(begins), verdict.line()
    assert (verdict.records, verdict.proven) == (1, 1)


def test_private_answers_are_what_texts_agree_on_and_end_with_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    from examples import private_answers as example
    from examples.private_answers import POLICY, private_answers

    monkeypatch.setattr(example, "POLICY", replace(POLICY, documents=12, exact=False))  # the same, sooner
    texts = [f"Week {week}. Ada Tavner was in the chair." for week in range(14)]
    answers = private_answers([*texts, "Week 59. Bo Lindqvist was in the chair."])
    shown = {answers.answer("ann", "Who was in the chair?").text for _ in range(POLICY.n_max)}
    assert shown <= {"Nothing is known about this.", *("ada, tavner", "ada", "tavner", "ada, tavner, week")}
    with pytest.raises(BudgetError, match="ask again in the next one"):
        answers.answer("ann", "Who was in the chair?")


def test_an_audit_is_replayed_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.honest()
    here = audit_offline.environment()
    monkeypatch.setattr(audit_offline, "environment", lambda: replace(here, now=NOW))
    first = audit_offline.keep(SimulatedEvidence(world), world.auditor(), tmp_path / "evidence.jsonl")
    assert first.verdict == "PASS", first.line()
    monkeypatch.setattr(audit_offline, "environment", lambda: replace(here, now=0))  # the file's clock counts
    again = audit_offline.replay(tmp_path / "evidence.jsonl", world.auditor())
    assert again.line() == first.line()
    assert [(s.number, s.status, s.evidence, s.seconds) for s in again.steps] == [
        (s.number, s.status, s.evidence, s.seconds) for s in first.steps
    ]

    lines = (tmp_path / "evidence.jsonl").read_text().splitlines()
    (tmp_path / "short.jsonl").write_text("\n".join(lines[:-4]))
    with pytest.raises(Undecided, match="the file has no more of"):
        audit_offline.replay(tmp_path / "short.jsonl", world.auditor())
    at = next(i for i, line in enumerate(lines) if line.startswith('["entries"'))
    changed = [*lines[:at], lines[at].replace("a", "b", 1), *lines[at + 1 :]]
    (tmp_path / "changed.jsonl").write_text("\n".join(changed))
    assert audit_offline.replay(tmp_path / "changed.jsonl", world.auditor()).verdict != "PASS"
