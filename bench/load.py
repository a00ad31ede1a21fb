# SPDX-License-Identifier: GPL-3.0-or-later
"""How many answers a second a durable provider gives: ``python -m bench.load`` writes bench/results/load.json.

One real provider process (proofs on demand, no tick, fsync on every commit) and 32 accounts that each ask
one question after another over gRPC for 60 seconds.  The accounts run in processes of their own on the same machine and
take part of its cores: the provider's own processor time an answer is measured beside the rate.  Accounts compute
no embedding while they ask, sign their Prepares beforehand, and leave the checks of an answer to the end: then
every answer is held against the record book.  ``with_embedder`` is the same against ``ragseal-provider serve`` with
the default embedder, which embeds every query itself to check what the account sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import pickle
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bench.asker import Asker, Kept, open_window, provider_stub
from bench.book import Book, require
from bench.classes import QUICK, SMALL
from bench.experiment import machine, save
from bench.process import Process
from bench.scene import QUERIES, ROOT, TableEmbedder, account_key, account_names, make_state, table_path
from ragseal.embedder import quantise
from ragseal.kernel.attestation import COARSE_TIME, SealedAnswer
from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.errors import AuditError
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.remote import RemoteLedger
from ragseal.prover.storage.state import Settings
from ragseal.runtime.keyfile import load_key
from ragseal.runtime.rpc import open_channel

RESULT = ROOT / "bench" / "results" / "load.json"
WARM_SECONDS = 2.0  #: before the measured time
READY = 600  #: Prepares that an account signs beforehand


@dataclass
class Share:
    """What one process of accounts brings back."""

    kept: dict[str, list[Kept]]
    refused: list[str]
    cpu_seconds: float  #: of this process, while it asked


def ask_all(address: str, signed: bytes, names: list[str], seconds: float, ready: Any, gate: Any, out: str) -> None:
    """The work of one process: its accounts ask side by side until the time is over."""
    manifest = SignedManifest.decode(signed)
    vectors = [e.tobytes() for e in quantise(TableEmbedder(table_path()).embed(QUERIES))]

    async def work() -> Share:
        askers = [Asker(name, account_key(name), manifest, 60.0) for name in names]
        channel = open_channel(address)
        stub, refused = provider_stub(channel), []
        for n, asker in enumerate(askers):
            await asker.introduce(stub)
            asks = [(n + i) % len(QUERIES) for i in range(READY)]
            asker.ready = [asker.prepare_message(QUERIES[i], vectors[i]) for i in reversed(asks)]
        ready.release()
        await asyncio.to_thread(gate.wait)
        end, began = time.monotonic() + seconds, time.process_time()

        async def one(asker: Asker, n: int) -> None:
            while time.monotonic() < end:
                which = (n + len(asker.kept)) % len(QUERIES)
                try:
                    await asker.ask(stub, QUERIES[which], vectors[which])
                except AuditError as error:
                    refused.append(f"{asker.name}: {type(error).__name__}: {error}")
                    return

        await asyncio.gather(*(one(asker, n) for n, asker in enumerate(askers)))
        spent = time.process_time() - began
        await channel.close()
        return Share({asker.name: asker.kept for asker in askers}, refused, spent)

    Path(out).write_bytes(pickle.dumps(asyncio.run(work())))


@dataclass
class Ran:
    """What came of a provider and accounts that asked it for a while."""

    kept: list[Kept]  #: answered from Prepare to answer in the measured time
    began: float  #: the measured time, monotonic seconds
    seconds: float  #: how long it was
    cpu_seconds: float  #: the provider's own in that time
    client_cpu: float  #: seconds of the accounts' process an answer
    peak_kib: int  #: the provider's memory at its most
    load_before: float
    book: dict[str, Any]  #: what the record book has of all answers


def quantile(samples: list[float], share: float) -> float:
    """Of sorted samples."""
    return samples[min(len(samples) - 1, int(share * len(samples)))]


async def check(address: str, state: Path, shares: list[Share], manifest: SignedManifest) -> dict[str, Any]:
    """Every acknowledged answer is in the record book, and the book holds nothing else."""
    log = NoteSigner(Settings.load(state / "provider.toml").origin, load_key(state / "log.pem")).verifier
    book, channel = Book(log), open_channel(address)
    answers = [kept for share in shares for asked in share.kept.values() for kept in asked]
    last = max((SealedAnswer.decode(kept.received).receipt.body.index for kept in answers), default=0)
    try:
        until = time.monotonic() + COARSE_TIME + 10  # `serve` shows records on the coarse tick
        while await book.follow(RemoteLedger(channel)) <= last and time.monotonic() < until:
            await asyncio.sleep(0.5)
    finally:
        await channel.close()
    places = {book.check_answer(kept) for kept in answers}
    require(len(places) == len(answers), "two answers share a ledger entry")
    require(book.count(manifest.manifest.digest()) == len(answers), "the book holds records that nobody was told of")
    return {"acknowledged": len(answers), "records": len(book.records), "ledger_entries": len(book.entries)}


@dataclass(frozen=True)
class Crowd:
    """The accounts of one run."""

    clients: int
    seconds: float  #: for which they ask, one question after another
    processes: int = 1  #: over which they are spread


def run_accounts(
    folder: Path,
    class_name: str,
    crowd: Crowd,
    serve: bool = False,
    arguments: Sequence[str] = (),
    documents: int = 60,
    version_every: int = 0,
    meanwhile: Callable[[Path], None] | None = None,
) -> Ran:
    """A provider on a fresh state folder, and accounts that ask it.

    Args:
        serve: the real ``ragseal-provider serve`` with its embedder.
        documents: of the tenant.
        version_every: seconds between two versions of the index; 0: there is one.
        meanwhile: called with the state folder when the measured time begins, and returns when it is over.
    """
    state = folder / ("with-embedder" if serve else "table")
    make_state(state, class_name, crowd.clients, 1_000_000, count=documents, version_every=version_every)
    return ask_provider(folder, state, crowd, serve, arguments, meanwhile)


def ask_provider(
    folder: Path,
    state: Path,
    crowd: Crowd,
    serve: bool = False,
    arguments: Sequence[str] = (),
    meanwhile: Callable[[Path], None] | None = None,
) -> Ran:
    """As :func:`run_accounts`, on a state folder that is there."""
    clients, seconds, processes = crowd.clients, crowd.seconds, crowd.processes
    with Process(state, *arguments, serve=serve) as provider:
        address = provider.wait_until_ready()

        async def prepare() -> SignedManifest:
            channel = open_channel(address)
            try:
                return await open_window(provider_stub(channel))
            finally:
                await channel.close()

        manifest = asyncio.run(prepare())
        context, names = multiprocessing.get_context("spawn"), account_names(clients)
        gate, ready = context.Event(), context.Semaphore(0)
        outs = [str(folder / f"share-{serve}-{i}") for i in range(processes)]
        workers = [
            context.Process(
                target=ask_all,
                args=(address, manifest.encode(), names[i::processes], seconds + WARM_SECONDS, ready, gate, outs[i]),
            )
            for i in range(processes)
        ]
        for worker in workers:
            worker.start()
        for _ in workers:
            require(ready.acquire(timeout=600), "the accounts do not get ready")
        load_before, began = os.getloadavg()[0], time.monotonic()
        gate.set()
        time.sleep(WARM_SECONDS)
        cpu, at = provider.cpu_seconds(), time.monotonic()
        if meanwhile is not None:
            meanwhile(state)
        time.sleep(max(0.0, began + WARM_SECONDS + seconds - time.monotonic()))
        cpu, until = provider.cpu_seconds() - cpu, time.monotonic()
        for worker in workers:
            worker.join(120)
            require(worker.exitcode == 0, f"a process of accounts ended with {worker.exitcode}")
        shares: list[Share] = [pickle.loads(Path(out).read_bytes()) for out in outs]
        refused = [text for share in shares for text in share.refused]
        require(not refused, f"refused: {refused[:3]}")
        book = asyncio.run(check(address, state, shares, manifest))
        memory = [
            line for line in Path(f"/proc/{provider.popen.pid}/status").read_text().splitlines() if "VmHWM" in line
        ]
        require(provider.stop() == 0, "the provider does not stop cleanly")
    return Ran(
        kept=[k for share in shares for asked in share.kept.values() for k in asked if at <= k.ended <= until],
        began=at,
        seconds=until - at,
        cpu_seconds=cpu,
        client_cpu=sum(share.cpu_seconds for share in shares) / book["acknowledged"],
        peak_kib=int(memory[0].split()[1]) if memory else 0,
        load_before=load_before,
        book=book,
    )


def measure(
    folder: Path,
    class_name: str,
    clients: int,
    seconds: float,
    processes: int,
    serve: bool,
    profile: Path | None = None,
) -> dict[str, Any]:
    """One run on a fresh state folder."""
    arguments = [] if profile is None else ["--profile", str(profile)]
    ran = run_accounts(folder, class_name, Crowd(clients, seconds, processes), serve, arguments)
    kept = ran.kept
    total, retrieve = sorted(k.ended - k.began for k in kept), sorted(k.ended - k.prepared for k in kept)
    return {
        "answers_per_s": round(len(kept) / ran.seconds, 1),
        "p50_s": round(quantile(total, 0.5), 4),
        "p99_s": round(quantile(total, 0.99), 4),
        "retrieve_p50_s": round(quantile(retrieve, 0.5), 4),
        "retrieve_p99_s": round(quantile(retrieve, 0.99), 4),
        "provider_cpu_ms_per_answer": round(1000 * ran.cpu_seconds / len(kept), 3),
        "client_cpu_ms_per_answer": round(1000 * ran.client_cpu, 3),
        "provider_cores_used": round(ran.cpu_seconds / ran.seconds, 2),
        "answers": len(kept),
        "seconds": round(ran.seconds, 2),
        "provider_peak_kib": ran.peak_kib,
        "load_average_before": round(ran.load_before, 2),
        "record_book": ran.book,
        "samples_s": [round(x, 4) for x in total],
    }


def revision() -> str:
    """The commit that was measured, where there is one."""
    with contextlib.suppress(OSError):
        found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT)
        return found.stdout.strip()
    return ""


def run(
    class_name: str = SMALL,
    clients: int = 32,
    seconds: float = 60.0,
    processes: int = 1,
    only: str | None = None,
    profile: Path | None = None,
    quick: bool = False,
) -> None:
    """Measure and write bench/results/load.json; with ``only`` one of the two runs, and nothing is written.

    ``quick`` shows that everything runs, in seconds, and says so in the file.
    """
    if quick:
        class_name, clients, seconds = QUICK, 4, 3.0
    found: dict[str, Any] = {
        "machine": machine(), "revision": revision(), "class": class_name, "clients": clients,
        "client_processes": processes, "tick_s": 0, "proofs": "on demand", "quick": quick, "niceness": os.nice(0),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, serve in (("without_embedder", False), ("with_embedder", True)):
            if only == ("embedder" if not serve else "table"):
                continue
            click.echo(f"{name}: {clients} clients for {seconds:.0f} s ...", err=True)
            found[name] = measure(Path(folder), class_name, clients, seconds, processes, serve, profile)
            click.echo(json.dumps({k: v for k, v in found[name].items() if k != "samples_s"}, indent=1))
    if only is None:
        found["answers_per_s"] = found["without_embedder"]["answers_per_s"]
        save(RESULT, found)
        click.echo(f"written: {RESULT.relative_to(ROOT)}")


@click.command()
@click.option("--class", "class_name", default=SMALL, show_default=True)
@click.option("--clients", default=32, show_default=True)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--processes", default=1, show_default=True, help="Over which the clients are spread.")
@click.option("--only", type=click.Choice(["table", "embedder"]), help="One of the two runs; nothing is written.")
@click.option("--profile", type=click.Path(path_type=Path), help="Sampled stacks of the provider (table run).")
def main(class_name: str, clients: int, seconds: float, processes: int, only: str | None, profile: Path | None) -> None:
    """Measure answers a second and write bench/results/load.json."""
    run(class_name, clients, seconds, processes, only, profile)


if __name__ == "__main__":
    main()
