# SPDX-License-Identifier: GPL-3.0-or-later
"""The linters that are this project's own find what they are for, and nothing else."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from scripts import exact, paper, spec, words

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "line",
    [
        "x = 0.5",
        "x = 1 / 2",
        "x /= 2",
        "def f(now: float) -> None: ...",
        "x = np.zeros(3, dtype=np.float64)",
        "x = math.sqrt(2)",
        "from math import sqrt",
        "import time",
        "from os import urandom",
        "import secrets",
    ],
)
def test_the_kernel_has_no_such_line(line: str) -> None:
    assert list(exact.faults(line))
    assert not list(exact.faults(f"{line}  # exact: for this test"))


def test_integers_are_exact() -> None:
    assert not list(exact.faults("import math\nx = math.isqrt(9) // 2 + math.comb(5, 2)\n"))


def test_the_kernel_is_exact() -> None:
    for path in (ROOT / "kernel").glob("*.py"):
        assert not list(exact.faults(path.read_text())), path


def test_retired_words_are_found() -> None:
    assert [said for _, said in words.found("a\nclass Fixer(Offer):  # as Fixers do\n")] == [
        "Fixer is called EmbeddingCommitter",
        "Offer is called PrepareJob",
    ]
    assert not list(words.found("EmbeddingCommitter, PrepareJob, OfferAll, self.fold"))


@pytest.mark.parametrize("path", sorted((ROOT / "scripts").glob("*.py")), ids=lambda path: path.stem)
def test_scripts_can_be_loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(path.parent))  # as when they are run
    importlib.import_module(path.stem)


def test_mutation_testing_knows_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    tests = importlib.import_module("mutation").TESTS
    assert [file for file in tests if not (ROOT / file).is_file()] == []
    assert [name for names in tests.values() for name in names if not (ROOT / "tests" / name).is_file()] == []
    explained = re.findall(r"^- `([^`]+)` `", (ROOT / "scripts" / "mutation-survivors.md").read_text(), flags=re.M)
    assert explained
    assert [file for file in explained if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize(
    "line", ["Both circuits prove it.", "of two laws", "one of three claims", "| 892 files |", "some 4,400 tests"]
)
def test_counts_in_prose_are_found(line: str) -> None:
    assert [number for number, _ in words.counts(f"a\n{line}\n")] == [2]


@pytest.mark.parametrize(
    "line", ["the circuits", "B.10 claims", "0.5864 tests", "two slots", "both parties", "10 keys", "12.5 files"]
)
def test_other_numbers_in_prose_are_left_alone(line: str) -> None:
    assert not list(words.counts(line))


@pytest.mark.parametrize(
    "text", ["a\nWhoever asks", "a\nit is no proof", "a\nanother key than its own", "a\nthey are no\nkeys"]
)
def test_turns_that_are_read_twice_are_found(text: str) -> None:
    assert [number for number, _ in words.turns(text)] == [2]


def test_turns_in_generated_parts_are_left_alone() -> None:
    assert [line for line, _ in words.turns("<!-- generated: x -->\nis no key\n<!-- end -->\nis no key\n")] == [4]


@pytest.mark.parametrize(
    "text", ["anyone who asks", "it is no part of it", "another key; more than one", "it is not a proof"]
)
def test_plain_turns_are_left_alone(text: str) -> None:
    assert not list(words.turns(text))


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A specification of which nothing is written yet but its tables of messages."""
    (tmp_path / "spec").mkdir()
    path = tmp_path / "spec" / "core.md"
    path.write_text((ROOT / "spec" / "core.md").read_text())
    monkeypatch.setattr(spec, "SPEC", path.parent)
    monkeypatch.setattr("sys.argv", ["spec.py", "--check"])
    spec.main()
    return path


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("| `seq` | u64 |", "| `seq` | u32 |", "not current"),
        (" answer-ask record -->", " answer-ask -->", "no table, or two: record"),
        ("generated: messages index-file ", "generated: messages record index-file ", "no table, or two: record"),
        (" answer-ask record -->", " answer-ask record nothing -->", "no message is called nothing"),
    ],
)
def test_generated_parts_of_the_specification_are_held(written: Path, was: str, becomes: str, said: str) -> None:
    assert was in written.read_text()
    written.write_text(written.read_text().replace(was, becomes, 1))
    with pytest.raises(SystemExit, match=said):
        spec.main()


def test_a_field_without_a_meaning_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = next(kind for kind in spec.all_kinds() if kind.TAG == "record")
    meanings = spec.comments(kind)
    monkeypatch.setattr(spec, "comments", lambda _: {**meanings, "seq": ""})
    with pytest.raises(SystemExit, match="Record says nothing of seq"):
        spec.message(kind)


def test_only_commands_have_more_than_eight_parameters() -> None:
    """Files of commands are left out of the linter's rule: click gives a command one argument an option."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    left_out = [glob for glob, codes in rules["per-file-ignores"].items() if "PLR0913" in codes]
    paths = [path for glob in left_out if not glob.startswith("tests/") for path in ROOT.glob(glob)]
    assert len(paths) > 10
    found = {path.relative_to(ROOT).as_posix(): crowded(path, rules["pylint"]["max-args"]) for path in paths}
    assert {path: names for path, names in found.items() if names} == {}


def crowded(path: Path, most: int) -> list[str]:
    """Functions of a file with more parameters, commands apart."""
    functions = [one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.FunctionDef)]
    return [
        one.name
        for one in functions
        if len(one.args.posonlyargs + one.args.args + one.args.kwonlyargs) > most
        and not any("command(" in ast.unparse(decorator) for decorator in one.decorator_list)
    ]


PAGE = (ROOT / "docs" / "paper.md").read_text()


def test_the_page_of_the_paper_names_what_is_there() -> None:
    assert list(paper.faults(PAGE)) == []


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("| Theorem 5.3 |", "| Theorem 5.4 |", ["no row: Theorem 5.3", "not a label of the paper: Theorem 5.4"]),
        ("| A4 |", "| A3 |", ["no row: A4", "two rows: A3"]),
        ("| A4 | B.11;", f"| A4 | B.{99};", [f"A4: no clause B.{99}"]),
        ("| (2.3) | G.6, D.1; `ledger/log.py`", "| (2.3) | G.6, D.1; `ledger/gone.py`",
         ["(2.3): no file ledger/gone.py"]),
        ("| C4 | D.14; `accounting/audit.py` | `tests/", "| C4 | D.14; `accounting/audit.py` | `gone/",
         ["C4: no file gone/accounting/test_audit.py"]),
        ("::test_coalition_and_chunks_compose` | whole | |\n| M1", "::test_gone` | whole | |\n| M1",
         ["C4: no test tests/accounting/test_audit.py::test_gone"]),
        ("| partly | The embedder is MiniLM, not bge-small; `--embedder` takes another. |", "| partly | |",
         ["Experiment A.1: partly, and nothing says why"]),
        ("| whole | As R5. |", "| nearly | As R5. |", ["pi_coal: nearly is not a state"]),
        ("| whole | As R5. |", "| deliberately otherwise | As R5. |",
         ["pi_coal: deliberately otherwise and a deviation go together"]),
        ("Deviation: PASS from a sample.", "Deviation: FAIL from a sample.",
         ["Mode B: the table of deviations has no row FAIL from a sample"]),
        ("| deliberately otherwise | beta and", "| whole | beta and",
         ["Mode B: deliberately otherwise and a deviation go together"]),
        ("Stackelberg analysis | D.8.2; `docs/how-to/fines.md` |", "Stackelberg analysis | |",
         ["Future work (iii): no place or no test"]),
    ],
)  # fmt: skip
def test_faults_of_the_page_of_the_paper_are_found(was: str, becomes: str, said: list[str]) -> None:
    assert PAGE.count(was) == 1
    assert list(paper.faults(PAGE.replace(was, becomes))) == said


def test_a_row_of_the_page_has_five_cells() -> None:
    with pytest.raises(SystemExit, match="five cells"):
        paper.rows("| A9 | B.1 | whole |")
