# SPDX-License-Identifier: GPL-3.0-or-later
"""One audit window of the demo through phases A to D, by a provider, an auditor and an observer as real processes.

Its folder holds the report as the auditor signed it, and demo.json what the run took.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragseal.circuits.build import build
from ragseal.circuits.circuit import load_classes
from ragseal.client.remote import ProviderOverGrpc
from ragseal.demo.asking import Answered, Ask, Served, ask_all
from ragseal.demo.large import fill
from ragseal.demo.policy import MINILM, answers_policy_text, lists_policy_text, measured, policy_text
from ragseal.demo.processes import Running, free_port, run
from ragseal.demo.progress import Stopwatch, indented
from ragseal.demo.scenario import Scenario, stdlib_scenario
from ragseal.demo.vocabulary import public_words
from ragseal.demo.worth import Worth, worth
from ragseal.embedder import DEFAULT, Embedder, load_embedder
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.face import counted
from ragseal.runtime.tls import BY_DEFAULT

ORIGIN = "ragseal.example/demo"
WINDOW = "w1"
ABOUT = "demo.json"  #: times, machine and corpora of the run
POLICY = "policy.toml"
LOG_KEY = "log.key"  #: what all but the provider need to know of its log
OBSERVER = "demo"  #: what the provider calls the observer in the beacon
VERDICTS = (0, 3, 4, 5, 6)  #: the auditor's exit statuses with a report: FAIL, NO VERDICT and the like are shown too
BEACON_SECONDS = 120.0  #: for each shard: its coins are proven before the window opens


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
    answers: Answered
    worth: Worth | None  #: None: there are no lists to compare, or too many documents
    proof_seconds: float  #: processor time of the provider for one question, answered and proven; 0: not known

    @property
    def line(self) -> str:
        """The verdict's."""
        return str(self.report["line"])


def window(plan: Scenario, folder: Path, watch: Stopwatch, embedder: str, ask: Ask = ask_all) -> Outcome:
    """The whole window.

    Args:
        folder: of all parties, empty.
        ask: its questions, once it is open.
    """
    provider_folder = folder / "provider"
    provider_home, verifier_home = str(provider_folder), str(folder / "verifier")
    provider_port, verifier_port = free_port(), free_port()
    model = load_embedder(embedder)
    provider, verifier = f"127.0.0.1:{provider_port}", f"127.0.0.1:{verifier_port}"

    watch.stage("circuit", f"circuit of class {plan.class_name} (compiled once, cached by content)")
    build(load_classes()[plan.class_name], progress=indented)
    watch.stage("keys", "the auditor makes its keys (once)")
    run("verifier", "init", "--state", verifier_home)
    run("verifier", "keygen", "--state", verifier_home, "--class", plan.class_name, show=True)
    log_key, homes = make_provider(plan, folder, watch, embedder)
    if plan.filled:
        watch.stage(
            "synthetic", f"random vectors fill the index up to {plan.filled:,} documents in {plan.shards} shards"
        )
        indented(f"{fill(provider_folder, model, plan.filled):,} synthetic documents")

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
            "prover", "commit", "--state", provider_home, "--policy", str(folder / POLICY), "--window", WINDOW, *agreed,
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
        asked = counted(len(plan.queries), "question") if plan.queries else "questions"
        watch.stage("phase B", f"phase B: {asked} of {counted(len(plan.accounts), 'account')}")
        answers = ask(plan, Served(provider, log_key, homes, model))
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
        answers=answers,
        worth=None if plan.filled or plan.form.words else worth(provider_folder, answers, plan.judged, model),
        proof_seconds=spent / len(answers),
    )
    _keep(found, watch, embedder)
    return found


def make_provider(plan: Scenario, folder: Path, watch: Stopwatch, embedder: str) -> tuple[str, dict[str, Path]]:
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
        watch.stage(f"documents {tenant}", f"embedding the documents of tenant {tenant}")
        parts = ("--chunk", str(plan.chunk)) if plan.chunk else ()
        run("prover", "documents", "put", "--state", home, "--tenant", tenant, "--corpus", corpus, *parts, show=True)
    log_key = str(made["ledger_key"])
    (folder / LOG_KEY).write_text(f"{log_key}\n")
    return log_key, homes


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
        if embedder != DEFAULT:  # on public texts, never on somebody's own: the policy is public
            watch.stage("policy", f"score window and theta for {embedder}, measured on public texts")
            choice = measured(stdlib_scenario(folder, None) if plan.own else plan, model)
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
