# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m bench.claims --served``: what answers of a running provider are worth beside plain cosine search.

The demo's own scenario (:mod:`ragseal.demo.scenario`) is asked: a provider, and an auditor that takes part in the
beacon, run as real processes, and accounts ask over gRPC with the client that everybody has.  Documents are put once;
each point is a window of its own on a copy of that folder.  Nothing is proven and audited, which changes no answer.

Of every query: which share of plain search's first ten came back, whether a wanted document is among the first ten, and
nDCG@10, both beside plain search's own.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from bench import measured
from bench.experiment import RESULTS, ROOT, machine, save, table
from bench.modules import collection, first_paragraphs
from bench.paper import PAGE, insert
from bench.questions import QUESTIONS
from bench.remembering import Remembering
from ragseal.circuits.build import build, default_cache
from ragseal.circuits.circuit import load_classes
from ragseal.client.remote import ProviderOverGrpc
from ragseal.demo.asking import Answered, Served, ask_all
from ragseal.demo.corpus import DemoQuery
from ragseal.demo.policy import MINILM, policy_text
from ragseal.demo.processes import Running, free_port, run
from ragseal.demo.progress import Stopwatch
from ragseal.demo.scenario import Scenario, beir_scenario, stdlib_scenario
from ragseal.demo.window import make_provider, wait_until_open
from ragseal.demo.worth import Grades, judgements, worth
from ragseal.embedder import Embedder, load_embedder, quantise
from ragseal.kernel.commitment import SignedManifest
from ragseal.prover.planning.budgets import UNSEEN
from ragseal.prover.storage.state import State
from ragseal.runtime.tls import BY_DEFAULT

Point = tuple[float, int | None]  #: the return, and K where the policy names it

POINTS: tuple[Point, ...] = ((6, 42), (6, None), (4, None), (5, None), (8, None))
OPEN_SECONDS = 300.0
AIM = 0.95  #: of the noise-free nDCG@10, at return 6 and K = 42

Sets = Mapping[str, Mapping[str, Grades]]  #: by name of the set: grades by query


def docstrings(folder: Path) -> tuple[Scenario, dict[str, dict[str, Grades]]]:
    """The demo's corpus without the docstrings of modules; questions, and how a module's docstring begins.

    Of a module everything in it is wanted.  What is wanted of a question is what plain search finds first: the grades
    of that set are empty here.
    """
    plan, asked = stdlib_scenario(folder, None), dict(first_paragraphs())
    queries, modules = list[DemoQuery](), dict[str, Grades]()
    for tenant, corpus in plan.corpora.items():
        path = Path(corpus.partition(":")[2])
        kept = [line for line in path.read_text().splitlines() if json.loads(line)["id"] not in asked]
        path.write_text("".join(f"{line}\n" for line in kept))
        names = [json.loads(line)["id"] for line in kept]
        texts, relevant = collection(names, asked)
        modules |= {text: {names[at]: 1 for at in of} for text, of in zip(texts, relevant, strict=True)}
        accounts = cycle(account for account, of in plan.accounts.items() if of == tenant)
        queries += [DemoQuery(next(accounts), tenant, text) for text in (*QUESTIONS[tenant], *texts)]
    questions: dict[str, Grades] = {text: {} for texts in QUESTIONS.values() for text in texts}
    return replace(plan, queries=queries), {"questions": questions, "modules": modules}


def beir(corpus: str, most: int) -> tuple[Scenario, dict[str, dict[str, Grades]]]:
    """A BEIR folder, each of its judged queries asked once."""
    judged = judgements(Path(corpus.partition(":")[2]))
    plan = beir_scenario(corpus, None, min(most, len(judged)) // 3 * 3)
    once = {query.text: query for query in reversed(plan.queries)}
    return replace(plan, queries=list(once.values())), {"judged": {text: judged[text] for text in once}}


def prepared(plan: Scenario, folder: Path, watch: Stopwatch) -> str:
    """An auditor, and a provider with accounts, documents and the auditor's keys; the key of its ledger.

    The folder is kept: a run that was stopped goes on with the documents that were put.
    """
    ready = folder / "ledger-key"
    if ready.exists():
        return ready.read_text()
    for name in ("provider", "accounts", "verifier"):
        shutil.rmtree(folder / name, ignore_errors=True)
    watch.stage("keys", f"keys of class {plan.class_name}")
    build(load_classes()[plan.class_name], default_cache())
    auditor = str(folder / "verifier")
    run("verifier", "init", "--state", auditor)
    run("verifier", "keygen", "--state", auditor, "--class", plan.class_name, show=True)
    log_key, _ = make_provider(plan, folder, watch, "minilm")
    with Running(folder / "logs") as processes:
        port = free_port()
        address = f"127.0.0.1:{port}"
        processes.start("verifier", "verifier", "serve", "--state", auditor, "--listen", address, ready=port)
        run("prover", "fetch-keys", "--state", str(folder / "provider"), "--verifier", address, show=True)
    ready.write_text(log_key)
    return log_key


def served(plan: Scenario, folder: Path, log_key: str, ids: int | None, model: Embedder) -> tuple[Path, Answered, int]:
    """One window on a copy of the provider's and the accounts' folders: where it is, its answers, and K."""
    own = Path(tempfile.mkdtemp(prefix="window-", dir=folder))
    for name in ("provider", "accounts", "verifier"):
        shutil.copytree(folder / name, own / name, symlinks=True)
    policy, state = own / "policy.toml", str(own / "provider")
    policy.write_text(policy_text(plan, MINILM) + (f"ids = {ids}\n" if ids is not None else ""), "utf-8")
    run("prover", "commit", "--state", state, "--policy", str(policy), "--window", "served")
    ports = free_port(), free_port()
    provider, auditor = (f"127.0.0.1:{port}" for port in ports)
    homes = {account: own / "accounts" / account for account in plan.accounts}
    with Running(own / "logs") as processes:
        processes.start(
            "verifier", "verifier", "serve", "--state", str(own / "verifier"), "--listen", auditor,
            "--provider", provider, "--log-key", log_key, ready=ports[1],
        )  # fmt: skip
        processes.start(
            "provider", "prover", "serve", "--state", state, "--listen", provider, "--tick", "0.1",
            "--proofs", "on-demand", ready=ports[0],
        )  # fmt: skip
        wait_until_open(provider, processes, OPEN_SECONDS)
        announced = SignedManifest.decode(ProviderOverGrpc(provider, BY_DEFAULT, 10.0).announced().manifest)
        return own, ask_all(plan, Served(provider, log_key, homes, model)), announced.manifest.policy.ids


def plainly_best(provider: Path, queries: Iterable[DemoQuery], model: Embedder) -> dict[str, Grades]:
    """Of each query the document that plain search finds first."""
    found: dict[str, Grades] = {}
    with State(provider) as state:
        for query in queries:
            rows = state.rows("SELECT document, row FROM documents WHERE tenant = ? ORDER BY slot", (query.tenant,))
            matrix = np.stack([np.frombuffer(row, dtype=np.int8) for *_, row in rows]).astype(np.int32)
            scores = matrix @ quantise(model.embed([query.text], role="query"))[0].astype(np.int32)
            found[query.text] = {rows[int(scores.argmax())][0]: 1}
    return found


def measure(corpus: str | None, most: int) -> Iterator[list[dict[str, Any]]]:
    """Rows of every point on one corpus; None: the standard library's docstrings."""
    watch, model = Stopwatch(), Remembering(load_embedder())  # clients embed what they are handed, again and again
    name = "docstrings" if corpus is None else Path(corpus).name
    folder = ROOT / "var" / "served" / f"{name}-{measured.code_of('served')}"
    folder.mkdir(parents=True, exist_ok=True)
    plan, sets = docstrings(folder) if corpus is None else beir(corpus, most)
    log_key = prepared(plan, folder, watch)
    if "questions" in sets:
        asked = [query for query in plan.queries if query.text in sets["questions"]]
        sets["questions"] = plainly_best(folder / "provider", asked, model)
    for target, ids in POINTS:
        watch.stage("window", f"return {target:g}, K {ids or 'as return needs it'}")
        own, answers, K = served(replace(plan, most_return=target), folder, log_key, ids, model)
        rows = list[dict[str, Any]]()
        for of, judged in sets.items():
            of_set = [(query, result) for query, result in answers if query.text in judged]
            found = worth(own / "provider", of_set, judged, model)
            assert found.judged is not None
            about: dict[str, Any] = {"corpus": name, "set": of, "class": plan.class_name, "unseen": UNSEEN}
            about |= {"return": target, "named": ids is not None, "K": K}
            share = found.judged.ndcg10 / found.judged.noise_free
            rows.append({**about, "kept": found.kept, **asdict(found.judged), "share": share})
        shutil.rmtree(own)
        yield rows


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown."""
    head = (
        "corpus", "queries", "return", "K", "of plain's ten", "wanted in ten", "plain's", "nDCG@10", "plain's", "share",
    )  # fmt: skip
    columns = ("return", "K", "kept", "found", "plainly_found", "ndcg10", "noise_free", "share")
    lines = [
        (row["corpus"], f"{row['queries']} {row['set']}", *(row[name] for name in columns)) for row in rows
    ]  # fmt: skip
    return table(head, lines)


def main(corpora: Sequence[str | None], most: int) -> str:
    """Measure, write bench/results/served.json, and say it; what is not measured again is kept."""
    out = RESULTS / "served.json"
    kept: list[dict[str, Any]] = json.loads(out.read_text())["points"] if out.exists() else []
    for corpus in corpora:
        for rows in measure(corpus, most):
            fresh = [_of(row) for row in rows]
            kept = sorted([row for row in kept if _of(row) not in fresh] + rows, key=_of)
            save(out, {"machine": machine(), "aim": AIM, "points": kept})
            PAGE.write_text(insert(PAGE.read_text(), "served", f"\n{report(kept)}\n"))
    return report(kept)


def _of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a row is about."""
    return tuple(row[name] for name in ("corpus", "set", "return", "named"))
