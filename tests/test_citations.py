# SPDX-License-Identifier: GPL-3.0-or-later
"""Citations lead somewhere, in every language that git tracks; SPEC is well formed; proofs fit what relies on them."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests.specification import specification

ROOT = Path(__file__).resolve().parents[1]

READ = {".py", ".pyi", ".rs", ".circom", ".toml", ".md", ".mjs", ".ts", ".proto", ".html", ".css", ".sh"}

_CLAUSE = r"[A-Z](?:\.\d+)*(?!\w)"
_NAME = r"[A-Z][a-z]+(?:-[A-Z][a-z]+)?"
_AUTHORS = (
    rf"(?<!\w)({_NAME}(?:(?:, and |, | and ){_NAME})+)(?:,? \(?|,? [A-Z]{{3,}} |'s [^.()]{{0,60}}\((?:[A-Z]+ )?)"
    r"((?:19|20)\d\d)(?!\d)"
)


def text(name: str) -> str:
    return (ROOT / name).read_text()


def tracked() -> list[str]:
    """Every text file that git knows and a person writes."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    wanted = [n for n in names if Path(n).suffix in READ or n in ("Makefile", ".ci/run")]
    return [n for n in wanted if not n.startswith("proto/gen/")]


def flat(source: str) -> str:
    """Lines joined, comment marks left out: a citation may be broken anywhere."""
    return re.sub(r"[ \t]*\n[ \t]*(?://[/!]?|#+:?(?= )|\*(?= )|>)?[ \t]*", " ", source)


@cache
def clauses(spec: str) -> set[str]:
    return set(re.findall(r"(?m)^ *- \*\*([GMABCD](?:\.\d+)+)", spec))


@cache
def papers(spec: str) -> dict[str, str]:
    """What a source is called -> its entry."""
    section = spec.partition("\n## Papers\n")[2].partition("\n## ")[0]
    entries = re.split(r"(?m)^- \*\*", section)[1:]
    return {flat(name): flat(rest) for name, _, rest in (entry.partition(".**") for entry in entries)}


def dead(source: str, spec: str) -> list[str]:
    """The citations of a text that lead nowhere."""
    known, sources = clauses(spec), papers(spec)
    words = flat(source)
    out = []

    for found in re.finditer(rf"\bSPEC,? ({_CLAUSE}(?:(?:, and |, | and | to |-){_CLAUSE})*)", words):
        for clause in re.findall(_CLAUSE, found[1]):
            if clause not in known and clause not in "GMABCD":
                out.append(f"SPEC has no clause {clause}")
    for found in re.finditer(r"(?<![\w.])[GMABCD]\.\d+(?:\.\d+)*(?![\w])", words):
        elsewhere = re.search(
            r"(?:appendix|[Ss]ections?|RFC)[^.;:)]*(?:\d\.\d+[^.;:)]*)*$",
            words[max(0, found.start() - 40) : found.start()],
        )
        if found[0] not in known and not elsewhere:
            out.append(f"SPEC has no clause {found[0]}")
    out += [f"{f[0]!r}: a clause's number is missing" for f in re.finditer(r"\bSPEC: ?[A-Za-z]\w*", words)]

    for pattern in (
        r"\b[Pp]rotocol \(?sections? \d", r"\bprotocol\.md\b", r"\b[Cc]onditions? \d\b(?=\)| of\b|,)",
        r"\b[Ss]ections? \d+, (?:items?|conditions?|messages?) \d", r"(?<!paper's )\bclaims? [A-G]\d\b",
        r"(?<!paper's )(?<![\w)\]])\((?:R\d|G4)\)",
    ):  # fmt: skip
        out += [f"{f[0]!r}: cite SPEC" for f in re.finditer(pattern, words)]

    if re.search(r"\b[Tt]he paper\b|\bPaper, ", words) and "The paper" not in sources:
        out.append("SPEC's section Papers does not say which paper is the paper")
    for found in re.finditer(r"\b([A-Z]\w+) paper\b", words):
        if found[1] not in ("The", "This") and f"The {found[1]} paper" not in sources:
            out.append(f"{found[0]!r} is not in SPEC's section Papers")
    for found in re.finditer(_AUTHORS, words):
        names = re.findall(_NAME, found[1])
        if not any(all(n in title for n in names) and found[2] in title for title in sources):
            out.append(f"{found[0]!r} is not in SPEC's section Papers")

    for found in re.finditer(r"(?<![\w/])docs/[\w./-]*\w\.\w+", words):
        if not (ROOT / found[0]).is_file():
            out.append(f"{found[0]} does not exist")
    for found in re.finditer(r"\bTheorems? ([A-Z])(?: and ([A-Z]))?\b", words):
        for letter in filter(None, found.groups()):
            if not (ROOT / f"docs/proofs/theorem-{letter.lower()}.md").is_file():
                out.append(f"Theorem {letter} has no docs/proofs/theorem-{letter.lower()}.md")
    return out


def test_spec_clauses_that_code_cites_exist() -> None:
    """Every citation in every language leads somewhere: clauses, sources, theorems, proofs."""
    names, spec = tracked(), specification()
    assert {Path(n).suffix for n in names} >= {".py", ".rs", ".circom", ".toml", ".md", ".mjs", ".proto", ".html"}
    found = {name: lost for name in names if (lost := dead(text(name), spec))}
    assert found == {}


@pytest.mark.parametrize(
    "citation",
    [
        "SPEC B.9~9", "as SPEC A.9.7~7 says", "SPEC A.1, B.3 and C.9~9", "SPEC ~E.1",
        "(D.9~8)", "SPEC~: epsilon", "SPEC~:mechanism",
        "Proto~col section 3", "// (proto~col\n//! section~ 4, item 6)", "proto~col.md", "(condi~tion 2)",
        "cla~im A4", "C_emb (~R1)",
        "the Nobody pa~per", "(Nobody and Somebody 2~015)", "Nobody, Somebody,\nNeither, TCC 2~022",
        "Nobody and Somebody's trick (CRYPTO 2~020)", "Kairouz, Oh and Viswanath 1~999",
        "docs/proofs/~nothing.md", "Theo~rem Z", "Theo~rems A and Y",
    ],
)  # fmt: skip
def test_a_citation_that_leads_nowhere_is_found(citation: str) -> None:
    """The mark keeps this file's own examples from being found."""
    assert dead(f"\n    {citation.replace('~', '')}.  More.\n", specification()) != []


def test_the_paper_has_an_entry() -> None:
    spec = specification()
    assert dead("as the paper says", spec) == []
    assert dead("as the paper says", spec.replace("- **The paper.**", "- **It.**")) != []
    assert all("<https://" in entry for entry in papers(spec).values())


def test_a_clause_has_one_must() -> None:
    rules = re.sub(r"(?m)^#+ .*\n(?:(?! *- \*\*[GMABCD]\.).*\n)*", "", specification())  # texts between clauses
    parts = re.split(r"(?m)^ *- \*\*([GMABCD](?:\.\d+)+)", rules)
    several = {c: n for c, body in zip(parts[1::2], parts[2::2], strict=True) if (n := body.count("MUST")) > 1}
    assert several == {}
    assert len(parts[1::2]) == len(set(parts[1::2]))


def test_every_message_has_one_table() -> None:
    """Of those that the kernel, the ledger and an embedder's description encode."""
    tags = {
        t
        for folder in ("kernel", "ledger", "embedder")
        for p in ROOT.glob(f"{folder}/**/*.py")
        for t in re.findall(r'TAG: ClassVar\[str\] = "(.*)"', p.read_text())
    }
    tables = re.findall(r"(?m)^\*\*`([a-z-]+)`\*\* (?:.+\n)+\n\| field \| form \| meaning \|$", specification())
    assert len(tags) > 60
    assert sorted(tables) == sorted(tags)


# --- proofs ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pins() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pin_proofs", ROOT / "scripts" / "pin_proofs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_proofs_are_pinned_to_what_relies_on_them(pins: ModuleType) -> None:
    assert len(list(pins.PROOFS.glob("*.md"))) >= 7
    assert pins.old() == {}


def test_a_pin_sees_code_and_nothing_else(pins: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements count; docstrings, comments, error texts and what is not named do not."""
    monkeypatch.setattr(pins, "ROOT", tmp_path)
    monkeypatch.setattr(pins, "PROOFS", tmp_path)
    source, proof = tmp_path / "a.py", tmp_path / "p.md"
    code = 'LIMIT = 8\n\n\nclass A:\n    def f(self):\n        """Says."""\n        raise ValueError("why")\n'
    source.write_text(code)
    front = "  a.py: A.f LIMIT\n"
    proof.write_text(f"---\nrelied on by:\n{front}pin: {pins.pin_of(front)}\n---\n\n# P\n")
    assert pins.old() == {}
    for same in (code.replace("Says", "States"), code.replace("why", "how"), "# note\n" + code, code + "B = 1\n"):
        source.write_text(same)
        assert pins.old() == {}
    for other in (code.replace("8", "9"), code.replace("ValueError", "KeyError"), code.replace("def f", "def g"), ""):
        source.write_text(other)
        assert "re-read the proof, then run scripts/pin_proofs.py" in pins.old()["p.md"]
    source.write_text(code)
    proof.write_text("# P\n")
    assert "front matter" in pins.old()["p.md"]


# SECURITY.md's table of irreversible steps: each row names a test of its own, and the test is there.


HEADING = "## After the point of no return\n"
COLUMNS = ["who", "step", "why it cannot be taken back", "what can fail after it", "why that strands nobody", "test"]


def table(text: str) -> list[list[str]]:
    """Cells of every row, the heading's first."""
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in section.splitlines() if "|" in line
    ]
    return [rows[0], *rows[2:]] if rows else []


def faults(rows: list[list[str]]) -> list[str]:
    """What is wrong with the table."""
    if not rows or rows[0] != COLUMNS:
        return ["no such table, or other columns"]
    found, seen = [], set[str]()
    for row in rows[1:]:
        if len(row) != len(COLUMNS) or not all(row):
            found.append(f"an empty cell, or one too many: {row}")
            continue
        name = row[-1].strip("`")
        if name in seen:
            found.append(f"{name} is named twice")
        seen.add(name)
        file, _, function = name.partition("::")
        if not (ROOT / file).is_file() or function not in functions_of(ROOT / file):
            found.append(f"there is no test {name}")
    return found


def functions_of(file: Path) -> set[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {one.name for one in ast.parse(file.read_text("utf-8")).body if isinstance(one, kinds)}


ROWS = table((ROOT / "SECURITY.md").read_text("utf-8"))


def test_every_row_names_a_test_of_its_own() -> None:
    assert faults(ROWS) == []


@pytest.mark.parametrize(
    ("who", "least"), [("provider", 20), ("auditor", 8), ("account", 6), ("observer", 1), ("all", 4)]
)
def test_every_program_has_its_steps(who: str, least: int) -> None:
    assert sum(row[0] == who for row in ROWS[1:]) >= least


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: [*row[:-1], "`tests/test_citations.py::test_that_is_not_there`"], "there is no test"),
        (lambda row: [*row[:-1], "`tests/nowhere.py::test_x`"], "there is no test"),
        (lambda row: [*row[:-1], ""], "an empty cell"),
        (lambda row: ["", *row[1:]], "an empty cell"),
        (lambda row: [*row, "more"], "an empty cell, or one too many"),
        (lambda row: [*row[:-1], ROWS[2][-1]], "is named twice"),
    ],
)
def test_the_check_is_alive(change: object, said: str) -> None:
    spoilt = [ROWS[0], change(ROWS[1]), *ROWS[2:]]  # type: ignore[operator]
    assert any(said in one for one in faults(spoilt))
    assert faults([]) == ["no such table, or other columns"]
