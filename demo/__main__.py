# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo``: one audit window through phases A to D, by a provider, an auditor and an observer as real processes.

Ends with the auditor's verdict in one line; var/demo/report.json and report.html hold every step and its evidence, as
the auditor signed them, and demo.json what the run took.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from ragseal.circuits.build import BUILD_VARIABLE, build
from ragseal.circuits.circuit import load_classes
from ragseal.client import Client
from ragseal.client.remote import ProviderOverGrpc
from ragseal.client.result import Result
from ragseal.demo.corpus import DemoQuery
from ragseal.demo.folder import claim
from ragseal.demo.judged import worth
from ragseal.demo.large import SLOTS, fill, large_scenario
from ragseal.demo.policy import MINILM, answers_policy_text, measured, policy_text
from ragseal.demo.processes import Running, free_port, run
from ragseal.demo.scenario import (
    BEIR_QUERIES,
    BEIR_TENANT,
    Scenario,
    answers_scenario,
    check_arguments,
    scenario,
)
from ragseal.demo.vocabulary import public_words
from ragseal.embedder import DEFAULT, Embedder, load_embedder
from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError
from ragseal.runtime.terminal import Alone
from ragseal.runtime.tls import BY_DEFAULT

CACHE = Path("var")
ORIGIN = "ragseal.example/demo"
ABOUT = "demo.json"  #: times, machine and corpora of the run
VERDICTS = (0, 3, 4, 5, 6)  #: the auditor's exit statuses with a report: FAIL, NO VERDICT and the like are shown too
BEACON_SECONDS = 120.0  #: for each shard: its coins are proven before the window opens

out = Console(stderr=True, highlight=False, soft_wrap=True)


def _indented(text: str) -> None:
    out.print(f"          {text}", markup=False)


class Stopwatch:
    """Prints each stage as it begins and remembers how long it took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name: str | None = None
        self._began = self._start = time.monotonic()

    def stage(self, name: str, text: str) -> None:
        self.end()
        self._name, self._began = name, time.monotonic()
        out.print(f"[bold]{time.monotonic() - self._start:6.1f} s[/]  {escape(text)}")

    def end(self) -> None:
        if self._name is not None:
            self.seconds[self._name] = round(time.monotonic() - self._began, 2)
        self._name = None
        self.seconds["total"] = round(time.monotonic() - self._start, 2)


def ask_all(
    provider: str, log_key: str, homes: dict[str, Path], queries: list[DemoQuery], embedder: Embedder, answers: bool
) -> list[tuple[DemoQuery, Result]]:
    """Every account asks its queries in order, the accounts side by side; ``answers``: answers in words are wanted."""
    by_account: dict[str, list[DemoQuery]] = defaultdict(list)
    for query in queries:
        by_account[query.account].append(query)
    done: list[tuple[DemoQuery, Result]] = []

    def work(account: str) -> None:
        with Client(provider, homes[account], log_key, embedder) as client:
            for query in by_account[account]:
                while True:
                    try:
                        result = client.ask(query.text, answer=answers)
                        break
                    except TransportError:
                        time.sleep(0.5)
                done.append((query, result))
                if result.answer is not None:
                    told = f"{result.answer} ({', '.join(result.keywords)})"
                    out.print(f"          {len(done):3}/{len(queries)} {account:6} {query.text}", markup=False)
                    out.print(f"              -> {' '.join(told.split())}", markup=False)
                    continue
                first = result.best
                best = f"[{first.id}] {' '.join(first.text.split())}"[:60] if first else "(only empty slots)"
                out.print(
                    f"          {len(done):3}/{len(queries)} {account:6} {query.text[:44]:44} -> {best}", markup=False
                )

    with ThreadPoolExecutor(len(by_account)) as pool:
        for future in [pool.submit(work, account) for account in by_account]:
            future.result()
    return done


def wait_until_open(provider: str, processes: Running, limit: float) -> None:
    """Until the beacon is complete and the window takes queries.

    Raises:
        ConfigurationError: a process ended, or the window does not open in time.
    """
    link = ProviderOverGrpc(provider, BY_DEFAULT, 10.0)
    try:
        deadline = time.monotonic() + limit
        while link.announced().stage != "open":
            processes.check()
            if time.monotonic() > deadline:
                raise ConfigurationError(f"the window does not open within {limit:.0f} s; see the logs")
            time.sleep(0.2)
    finally:
        link.close()


def window(plan: Scenario, folder: Path, watch: Stopwatch, embedder: str) -> str:
    """The whole window; returns the verdict's line."""
    provider_home, verifier_home = str(folder / "provider"), str(folder / "verifier")
    provider_port, verifier_port = free_port(), free_port()
    model = load_embedder(embedder, CACHE / "embedder")
    provider, verifier = f"127.0.0.1:{provider_port}", f"127.0.0.1:{verifier_port}"

    watch.stage("circuit", f"circuit of class {plan.class_name} (compiled once, cached by content)")
    build(load_classes()[plan.class_name], CACHE / "build", _indented)
    watch.stage("keys", "the auditor makes its keys (once)")
    run("verifier", "init", "--state", verifier_home)
    run("verifier", "keygen", "--state", verifier_home, "--class", plan.class_name, show=True)
    watch.stage("provider", "the provider: keys, ledger, accounts")
    made = run(
        "prover", "init", "--state", provider_home, "--origin", ORIGIN, "--class", plan.class_name,
        "--shards", str(plan.shards), "--embedder", embedder,
    )  # fmt: skip
    log_key = made["ledger_key"]
    homes = {}
    for account, tenant in plan.accounts.items():
        homes[account] = folder / "accounts" / account
        key = run("client", "keygen", "--state", str(homes[account]), "--account", account)
        run(
            "prover",
            "accounts",
            "add",
            account,
            "--state",
            provider_home,
            "--tenant",
            tenant,
            "--key",
            key["public_key"],
        )
    for tenant, corpus in plan.corpora.items():
        watch.stage(f"documents {tenant}", f"embedding tenant {tenant}")
        run("prover", "documents", "put", "--state", provider_home, "--tenant", tenant, "--corpus", corpus, show=True)

    if plan.shards > 1:
        watch.stage("synthetic", f"random vectors fill the index up to {SLOTS:,} documents in {plan.shards} shards")
        _indented(f"{fill(Path(provider_home), model):,} synthetic documents")

    run("ledger", "keygen", "--state", str(folder / "observer"), "--name", "observer.example/demo")

    with Running(folder / "logs") as processes:
        watch.stage("fetch keys", "the provider fetches the auditor's proving key and checks it")
        processes.start(
            "verifier", "verifier", "serve", "--state", verifier_home, "--listen", verifier,
            "--provider", provider, "--log-key", log_key, ready=verifier_port,
        )  # fmt: skip
        run("prover", "fetch-keys", "--state", provider_home, "--verifier", verifier, show=True)
        choice = MINILM
        agreed: tuple[str, ...] = ()
        if plan.answers:
            watch.stage("vocabulary", "a vocabulary of public words, the same for both tenants")
            words = folder / "words.txt"
            chosen = public_words(load_classes()[plan.class_name].N)
            words.write_text("".join(f"{word}\n" for word in chosen), "utf-8")
            root = run("prover", "vocabulary", str(words), "--state", provider_home, show=True)["vocabulary"]
            agreed = ("--yes-epsilon-is", "inf")  # of all answers that the window allows: it says so
        elif embedder != DEFAULT:
            watch.stage("policy", f"score window and theta for {embedder}, measured on the demo's own texts")
            choice = measured(plan, model)
        policy = folder / "policy.toml"
        policy.write_text(answers_policy_text(plan, root) if plan.answers else policy_text(plan, choice))
        watch.stage("phase A", "phase A: index, seed, policy and accounts are committed; manifest in the ledger")
        run(
            "prover", "commit", "--state", provider_home, "--policy", str(policy), "--window", "demo", *agreed,
            show=True,
        )  # fmt: skip
        watch.stage("beacon", "the provider serves; provider and auditor open the beacon")
        processes.start(
            "provider", "prover", "serve", "--state", provider_home, "--listen", provider, "--tick", "0.1",
            ready=provider_port,
        )  # fmt: skip
        processes.start(
            "observer", "ledger", "follow", "--state", str(folder / "observer"), "--provider", provider,
            "--log-key", log_key, "--interval", "5",
        )  # fmt: skip
        wait_until_open(provider, processes, BEACON_SECONDS * plan.shards)
        watch.stage("phase B", f"phase B: {len(plan.queries)} queries of {len(plan.accounts)} accounts")
        answers = ask_all(provider, log_key, homes, plan.queries, model, plan.answers)
        processes.check()
        watch.stage("close", "the window closes")
        run("prover", "close", "--state", provider_home, "--provider", provider)
        watch.stage("phase D", "phases C and D: the auditor fetches the proofs (made in the background) and audits")
        receipts = folder / "receipts"
        receipts.mkdir()
        for home in homes.values():
            run("client", "receipts", "export", "--state", str(home), "--out", str(receipts))
        run(
            "verifier", "audit", "--state", verifier_home, "--provider", provider, "--log-key", log_key,
            "--receipts", str(receipts), "--out", str(folder), show=True, accept=VERDICTS,
        )  # fmt: skip
        processes.check()
        watch.stage("stop", "stopping provider, auditor and observer")
    watch.end()
    value = worth(folder / "provider", BEIR_TENANT, answers, plan.judged, model) if plan.judged else None
    about = {
        "stages": watch.seconds,
        "machine": machine(),
        "class": plan.class_name,
        "shards": plan.shards,
        "corpora": plan.corpora,
        "embedder": embedder,
        "quality": None if value is None else asdict(value),
    }
    # In a file of its own: report.json is signed as it is.
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    report = json.loads((folder / "report.json").read_text())
    if value is not None:
        out.print(value.sentence, markup=False)
    learnt = (report.get("attacker_guess") or {}).get("sentence")
    if learnt and plan.answers:
        out.print(f"texts included: {learnt}", markup=False)
    elif learnt:
        out.print(f"had ten accounts, or ten thousand, asked and compared their answers: {learnt}", markup=False)
    return str(report["line"])


def machine() -> str:
    """The processor and the number of cores, for the timings."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


@click.command(cls=Alone)
@click.option("--corpus", default="stdlib", show_default=True, help="stdlib, or beir:PATH.")
@click.option("--class", "class_name", help="Circuit class; by default the smallest that fits.")
@click.option("--queries", default=BEIR_QUERIES, show_default=True, help="Of a BEIR folder; four records each three.")
@click.option("--embedder", default=DEFAULT, show_default=True, help="minilm, or sentence-transformers:NAME.")
@click.option("--answers", is_flag=True, help="Answers in words, whose texts the epsilon covers; of the demo's corpus.")
@click.option("--large", is_flag=True, help=f"One tenant of {SLOTS:,} slots in shards: docstrings, and random vectors.")
@click.option("--out", "folder", type=click.Path(path_type=Path), default=CACHE / "demo", show_default=True,
              help="Folder of the demo's own: new, empty, or of an earlier run, which is deleted.")  # fmt: skip
def main(
    corpus: str, class_name: str | None, queries: int, embedder: str, answers: bool, large: bool, folder: Path
) -> None:
    """Run one audit window end to end."""
    os.environ[BUILD_VARIABLE] = str(CACHE / "build")  # what the processes compile stays where `make clean` finds it
    watch = Stopwatch()
    try:
        check_arguments(corpus, class_name, embedder, queries)
        if (answers or large) and (corpus != "stdlib" or class_name or embedder != DEFAULT or answers == large):
            raise ConfigurationError(
                "--answers and --large are of the demo's own corpus, class and embedder: leave the others out"
            )
        claim(folder)
        watch.stage("corpus", f"corpus {corpus}")
        if answers or large:
            plan = answers_scenario(folder) if answers else large_scenario(folder)
        else:
            plan = scenario(corpus, folder, class_name, queries)
        line = window(plan, folder, watch, embedder)
    except AuditError as error:
        out.print(f"[bold red]demo failed:[/] {escape(str(error))}")
        sys.exit(1)
    out.print(f"report: {folder / 'report.json'} and {folder / 'report.html'}", markup=False)
    click.echo(line)
    sys.exit(0 if line.startswith("PASS") else 1)


if __name__ == "__main__":
    main()
