# SPDX-License-Identifier: GPL-3.0-or-later
"""README, SPEC and ARCHITECTURE stay true: links exist, commands run, the honest run ends in PASS."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from ragseal.backends.group import available

ROOT = Path(__file__).resolve().parents[1]
PARTS = {"provider": "prover", "verifier": "verifier", "observer": "ledger", "client": "client"}


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", ["README.md", "SPEC.md", "ARCHITECTURE.md"])
def test_named_files_exist(name: str) -> None:
    document = text(name)
    named = set(re.findall(r"`([\w./*-]+/[\w./*-]*)`", document)) | set(re.findall(r"\]\(([\w./-]+)\)", document))
    missing = [
        path
        for path in named
        if not list(ROOT.glob(path.strip("/"))) and not path.startswith(("var/", "bench/results"))
    ]
    assert [m for m in missing if m not in ("cosignature/v1", "ragseal/v1/<tag>")] == []


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"make ([a-z]+(?:-[a-z]+)*)", text("README.md"))) <= targets


# --- citations -------------------------------------------------------------------------------------------------------

READ = {".py", ".pyi", ".rs", ".circom", ".toml", ".md", ".mjs", ".proto", ".html", ".css", ".sh"}

#: Comments of circuits are part of the class digest, which policies name: they change with the protocol's version only.
#: What each says is SPEC B.6, which says so.
FROZEN = {
    name: words.replace("~", "")
    for name, words in {
        "circuits/attestation.circom": "proto~col section~ 4, items 1 to 6",
        "circuits/lib/places.circom": "proto~col section~ 4, items 3 and 5",
        "circuits/lib/slots.circom": "proto~col section~ 4, items 2 and 3",
        "SPEC.md": '"proto~col section 4"',
    }.items()
}

_CLAUSE = r"[A-Z](?:\.\d+)*(?!\w)"
_NAME = r"[A-Z][a-z]+(?:-[A-Z][a-z]+)?"
_AUTHORS = (
    rf"(?<!\w)({_NAME}(?:(?:, and |, | and ){_NAME})+)(?:,? \(?|,? [A-Z]{{3,}} |'s [^.()]{{0,60}}\((?:[A-Z]+ )?)"
    r"((?:19|20)\d\d)(?!\d)"
)


def tracked() -> list[str]:
    """Every text file that git knows and a person writes."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    wanted = [n for n in names if Path(n).suffix in READ or n in ("Makefile", ".ci/run")]
    return [n for n in wanted if not n.startswith(("proto/gen/", "tests/fuzz/corpus/"))]


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


def dead(source: str, spec: str, frozen: str = "") -> list[str]:
    """The citations of a text that lead nowhere."""
    known, sources = clauses(spec), papers(spec)
    words = flat(source).replace(frozen, "") if frozen else flat(source)
    out = []

    for found in re.finditer(
        rf"\bSPEC(?:\.md)?(?:\]\(SPEC\.md\))?,? ({_CLAUSE}(?:(?:, and |, | and | to |-){_CLAUSE})*)", words
    ):
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
    names, spec = tracked(), text("SPEC.md")
    assert {Path(n).suffix for n in names} >= {".py", ".rs", ".circom", ".toml", ".md", ".mjs", ".proto", ".html"}
    found = {name: lost for name in names if (lost := dead(text(name), spec, FROZEN.get(name, "")))}
    assert found == {}


def test_frozen_citations_are_still_there() -> None:
    assert [name for name, words in FROZEN.items() if words not in flat(text(name))] == []
    assert {f"B.6.{item}" for item in range(1, 7)} <= clauses(text("SPEC.md"))


@pytest.mark.parametrize(
    "citation",
    [
        "SPEC B.9~9", "as SPEC A.9.7~7 says", "[SPEC.md](SPEC.md), G.8~8", "SPEC A.1, B.3 and C.9~9", "SPEC ~E.1",
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
    assert dead(f"\n    {citation.replace('~', '')}.  More.\n", text("SPEC.md")) != []


def test_the_paper_has_an_entry() -> None:
    spec = text("SPEC.md")
    assert dead("as the paper says", spec) == []
    assert dead("as the paper says", spec.replace("- **The paper.**", "- **It.**")) != []
    assert all("<https://" in entry for entry in papers(spec).values())


def test_a_clause_has_one_must() -> None:
    parts = re.split(r"(?m)^ *- \*\*([GMABCD](?:\.\d+)+)", text("SPEC.md").partition("\n## G. General")[2])
    several = {c: n for c, body in zip(parts[1::2], parts[2::2], strict=True) if (n := body.count("MUST")) > 1}
    assert several == {}
    assert len(parts[1::2]) == len(set(parts[1::2]))


def test_every_message_has_a_term() -> None:
    tags = {
        t
        for p in (*ROOT.glob("kernel/*.py"), *ROOT.glob("ledger/*.py"))
        for t in re.findall(r'TAG: ClassVar\[str\] = "(.*)"', p.read_text())
    }
    terms = text("SPEC.md").partition("\n## Terms\n")[2].partition("\n## ")[0]
    assert len(tags) > 30
    assert {tag for tag in tags if f"`{tag}`" not in terms} == set()


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


# --- README's run ----------------------------------------------------------------------------------------------------


def readme_commands() -> list[str]:
    """The shell lines of the honest run."""
    blocks = re.findall(r"```sh\n(.*?)```", text("README.md"), re.DOTALL)
    block = next(b for b in blocks if "ragseal-verifier init" in b)
    lines = [line.partition("  #")[0].strip() for line in block.strip().splitlines()]
    path, *commands = [line for line in lines if line]
    assert path == 'export PATH="$PWD/.venv/bin:$PATH"'
    return commands


def test_the_programs_are_where_readme_says() -> None:
    for name in PARTS:
        assert (ROOT / ".venv" / "bin" / f"ragseal-{name}").is_file()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def as_python(line: str) -> list[list[str]]:
    """The programs of a README line as command lines of this Python, in order."""
    out = []
    for command in line.rstrip(" &").split("&&"):
        words = shlex.split(command)
        assert words[0].startswith("ragseal-"), words
        out.append([sys.executable, "-m", f"ragseal.{PARTS[words[0].removeprefix('ragseal-')]}", *words[1:]])
    return out


def values(stdout: str) -> dict[str, str]:
    lines = [line for line in stdout.splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1])) if lines else {}


@pytest.mark.skipif(not available(), reason="the native module is not installed")
def test_the_honest_run(tmp_path: Path) -> None:
    """Every line of README's run by hand, with class tiny and other ports, ending in the verdict."""
    documents = [{"id": f"d{i}", "text": f"note {i}: how to rotate log file number {i}"} for i in range(40)]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "build").symlink_to(ROOT / "var" / "build")
    ports = {"7800": str(free_port()), "7801": str(free_port())}
    holes: dict[str, str] = {}
    background: list[subprocess.Popen[bytes]] = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    last = ""
    try:
        for line in readme_commands():
            for old, new in {"class small": "class tiny", **ports, **holes}.items():
                line = re.sub(rf"\b{re.escape(old)}\b", new, line)
            target = re.search(r"> (\S+)", line)
            line = re.sub(r"> \S+ ", " ", line + " ").strip()
            for number, command in enumerate(as_python(line)):
                if line.endswith("&"):
                    background.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE))
                    continue
                plain = target is not None and number == 0
                for _ in range(60):
                    done = subprocess.run(
                        command if plain else [*command, "--json"],
                        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
                    )  # fmt: skip
                    if done.returncode == 0 or not re.search(r"reach|not open|listen", done.stderr):
                        break
                    time.sleep(0.5)
                assert done.returncode == 0, (command, done.stdout[-1500:], done.stderr[-3000:])
                if plain and target is not None:
                    (tmp_path / target.group(1)).write_text(done.stdout)
                found = values(done.stdout)
                holes["VKEY"] = found.get("ledger_key", holes.get("VKEY", "VKEY"))
                holes["HEX"] = found.get("public_key", holes.get("HEX", "HEX"))
                last = done.stdout
    finally:
        for process in background:
            process.terminate()
        for process in background:
            process.wait(30)
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["line"].startswith("PASS epsilon_audit="), last
    assert report["records"] == 1
