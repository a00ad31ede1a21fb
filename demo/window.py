# SPDX-License-Identifier: GPL-3.0-or-later
"""One audit window of the demo through phases A to D, by a provider, an auditor and an observer as real processes.

Its folder holds the report as the auditor signed it, and demo.json what the run took.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from ragseal.circuits.build import build
from ragseal.circuits.circuit import load_classes
from ragseal.client import Client
from ragseal.client.remote import ProviderOverGrpc
from ragseal.client.result import Result
from ragseal.demo.corpus import DemoQuery
from ragseal.demo.large import fill
from ragseal.demo.policy import MINILM, answers_policy_text, lists_policy_text, measured, policy_text
from ragseal.demo.processes import Running, free_port, run
from ragseal.demo.scenario import Scenario
from ragseal.demo.vocabulary import public_words
from ragseal.demo.worth import Worth, worth
from ragseal.embedder import DEFAULT, Embedder, load_embedder
from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.runtime.tls import BY_DEFAULT

CACHE = Path("var")
ORIGIN = "ragseal.example/demo"
ABOUT = "demo.json"  #: times, machine and corpora of the run
POLICY = "policy.toml"
OBSERVER = "demo"  #: what the provider calls the observer in the beacon
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a window came to."""

    plan: Scenario
    folder: Path
    report: dict[str, Any]  #: the auditor's, as report.json has it
    worth: Worth | None  #: None: there are no lists to compare, or too many documents
    proof_seconds: float  #: processor time of the provider for one question, answered and proven; 0: not known

    @property
    def line(self) -> str:
        """The verdict's."""
        return str(self.report["line"])


def window(plan: Scenario, folder: Path, watch: Stopwatch, embedder: str) -> Outcome:
    """The whole window."""
    provider_folder = folder / "provider"
    provider_home, verifier_home = str(provider_folder), str(folder / "verifier")
    provider_port, verifier_port = free_port(), free_port()
    model = load_embedder(embedder, CACHE / "embedder")
    provider, verifier = f"127.0.0.1:{provider_port}", f"127.0.0.1:{verifier_port}"

    watch.stage("circuit", f"circuit of class {plan.class_name} (compiled once, cached by content)")
    build(load_classes()[plan.class_name], CACHE / "build", _indented)
    watch.stage("keys", "the auditor makes its keys (once)")
    run("verifier", "init", "--state", verifier_home)
    run("verifier", "keygen", "--state", verifier_home, "--class", plan.class_name, show=True)
    log_key, homes = _provider(plan, folder, watch, embedder)
    if plan.filled:
        watch.stage(
            "synthetic", f"random vectors fill the index up to {plan.filled:,} documents in {plan.shards} shards"
        )
        _indented(f"{fill(provider_folder, model, plan.filled):,} synthetic documents")

    watcher = run("ledger", "keygen", "--state", str(folder / "observer"), "--name", "observer.example/demo")

    with Running(folder / "logs") as processes:
        watch.stage("fetch keys", "the provider fetches the auditor's proving key and checks it")
        processes.start(
            "verifier", "verifier", "serve", "--state", verifier_home, "--listen", verifier,
            "--provider", provider, "--log-key", log_key, ready=verifier_port,
        )  # fmt: skip
        run("prover", "fetch-keys", "--state", provider_home, "--verifier", verifier, show=True)
        agreed = _policy(plan, folder, watch, model, embedder)
        watch.stage("phase A", "phase A: index, seed, policy and accounts are committed; manifest in the ledger")
        run(
            "prover", "commit", "--state", provider_home, "--policy", str(folder / POLICY), "--window", "demo", *agreed,
            show=True,
        )  # fmt: skip
        watch.stage("beacon", "the provider serves; provider, observer and auditor open the beacon")
        processes.start(
            "provider", "prover", "serve", "--state", provider_home, "--listen", provider, "--tick", "0.1",
            "--participants", "2", "--observer", f"{OBSERVER}={watcher['beacon_key']}", ready=provider_port,
        )  # fmt: skip
        processes.start(
            "observer", "ledger", "beacon", "--state", str(folder / "observer"), "--provider", provider,
            "--log-key", log_key, "--as", OBSERVER, "--interval", "1",
        )  # fmt: skip
        wait_until_open(provider, processes, BEACON_SECONDS * plan.shards)
        before = processes.processor_seconds("provider")
        watch.stage("phase B", f"phase B: {len(plan.queries)} queries of {len(plan.accounts)} accounts")
        answers = ask_all(provider, log_key, homes, plan.queries, model, plan.form.words)
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
        spent = processes.processor_seconds("provider") - before
        watch.stage("stop", "stopping provider, auditor and observer")
    watch.end()
    found = Outcome(
        plan=plan,
        folder=folder,
        report=json.loads((folder / "report.json").read_text()),
        worth=None if plan.filled or plan.form.words else worth(provider_folder, answers, plan.judged, model),
        proof_seconds=spent / len(answers),
    )
    _keep(found, watch, embedder)
    return found


def _provider(plan: Scenario, folder: Path, watch: Stopwatch, embedder: str) -> tuple[str, dict[str, Path]]:
    """A provider's folder with accounts and documents; the key of its ledger, and the accounts' own folders."""
    home = str(folder / "provider")
    watch.stage("provider", "the provider: keys, ledger, accounts")
    made = run(
        "prover", "init", "--state", home, "--origin", ORIGIN, "--class", plan.class_name,
        "--shards", str(plan.shards), "--embedder", embedder,
    )  # fmt: skip
    homes = {}
    for account, tenant in plan.accounts.items():
        homes[account] = folder / "accounts" / account
        key = run("client", "keygen", "--state", str(homes[account]), "--account", account)["public_key"]
        run("prover", "accounts", "add", account, "--state", home, "--tenant", tenant, "--key", key)
    for tenant, corpus in plan.corpora.items():
        watch.stage(f"documents {tenant}", f"embedding tenant {tenant}")
        run("prover", "documents", "put", "--state", home, "--tenant", tenant, "--corpus", corpus, show=True)
    return str(made["ledger_key"]), homes


def _policy(plan: Scenario, folder: Path, watch: Stopwatch, model: Embedder, embedder: str) -> tuple[str, ...]:
    """Write the window's policy file; what `commit` has to be told beside it."""
    agreed: tuple[str, ...] = ()
    if plan.form.words:
        watch.stage("vocabulary", "a vocabulary of public words, the same for both tenants")
        words = folder / "words.txt"
        words.write_text("".join(f"{word}\n" for word in public_words(load_classes()[plan.class_name].N)), "utf-8")
        root = run("prover", "vocabulary", str(words), "--state", str(folder / "provider"), show=True)["vocabulary"]
        text, agreed = answers_policy_text(plan, root), ("--yes-epsilon-is", "inf")  # of all answers: it says so
    else:
        choice = MINILM
        if embedder != DEFAULT:
            watch.stage("policy", f"score window and theta for {embedder}, measured on the demo's own texts")
            choice = measured(plan, model)
        if plan.form.counted:
            watch.stage("gain", "the largest gain that the demo's epsilon allows")
            text = lists_policy_text(plan, model, choice)
        else:
            text = policy_text(plan, choice)
    (folder / POLICY).write_text(text, "utf-8")
    return agreed


def _keep(found: Outcome, watch: Stopwatch, embedder: str) -> None:
    """demo.json: in a file of its own, since report.json is signed as it is."""
    about = {
        "stages": watch.seconds,
        "machine": machine(),
        "class": found.plan.class_name,
        "shards": found.plan.shards,
        "corpora": found.plan.corpora,
        "embedder": embedder,
        "quality": None if found.worth is None else asdict(found.worth),
        "processor_seconds_a_question": round(found.proof_seconds, 3),
    }
    (found.folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")


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
