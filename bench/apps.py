# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gateway and the adapters cost beside the bare client: ``python -m bench.apps`` writes apps.json.

One real provider process (proofs on demand, no tick) and for each way of asking an account of its own,
which asks one question after another.  The ways take turns, a few questions at a time, so that a shared machine slows
all of them alike; processor time of the account's process, which a shared machine changes little, stands beside the
rate.  Vectors come from a table, since every way pays the embedder alike; all checks of answers are made.  The gateway
and its caller are in one process here.
"""

from __future__ import annotations

import asyncio
import http.client
import importlib
import json
import os
import statistics
import tempfile
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.asker import open_window, provider_stub
from bench.classes import QUICK, SMALL
from bench.experiment import RESULTS, machine, save
from bench.process import Process
from bench.scene import QUERIES, TENANT, TableEmbedder, account_key, account_names, make_state, table_path
from ragseal.client import AsyncClient, Client
from ragseal.client.account import KEY_FILE, AccountState
from ragseal.embedder import Identity, Vectors
from ragseal.embedder.interface import Progress, Role
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.note import NoteSigner
from ragseal.prover.storage.state import Settings
from ragseal.runtime.keyfile import load_key, save_key
from ragseal.runtime.rpc import open_channel

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # else it reports its components while others are timed
Ask = Callable[[str], int]  #: a question to how many documents came
AskAsync = Callable[[str], Awaitable[int]]
BARE = "client"
PACKAGES = ("langchain-core", "llama-index-core", "haystack-ai", "openai", "starlette", "uvicorn")


class Remembering(TableEmbedder):
    """The table's vectors of queries; a document's is computed once."""

    def __init__(self) -> None:
        super().__init__(table_path())
        self._documents: dict[str, Any] = {}

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: Progress | None = None) -> Vectors:
        if role == "query":
            return super().embed(texts, role=role, progress=progress)
        if missing := [text for text in texts if text not in self._documents]:
            self._documents |= dict(zip(missing, self._real.embed(missing, role=role), strict=True))
        return np.stack([self._documents[text] for text in texts])

    def identity(self) -> Identity:
        return self._real.identity()


# --- ways of asking --------------------------------------------------------------------------------------------------


@contextmanager
def _bare(client: Client, folder: Path) -> Iterator[Ask]:
    yield lambda text: len(client.ask(text).opened)


@contextmanager
def _http(client: Client, folder: Path) -> Iterator[Ask]:
    from tests.client.gateway.serving import KEY, served

    with served(client, folder) as url:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}

        def call(text: str) -> int:
            connection.request("POST", "/v1/search", json.dumps({"query": text}), headers)
            return len(json.loads(connection.getresponse().read())["results"])

        def ask(text: str) -> int:
            try:
                return call(text)
            except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
                connection.close()  # the server closed it while other ways had their turn
                return call(text)

        yield ask
        connection.close()


@contextmanager
def _openai(client: Client, folder: Path) -> Iterator[Ask]:
    from tests.client.gateway.serving import KEY, served

    openai = importlib.import_module("openai")
    with served(client, folder) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as asking:
        yield lambda text: len(asking.vector_stores.search(TENANT, query=text).data)


@contextmanager
def _langchain(client: Client, folder: Path) -> Iterator[Ask]:
    made = importlib.import_module("ragseal.client.adapters.langchain").RagsealRetriever(account=client)
    yield lambda text: len(made.invoke(text))


@contextmanager
def _llama_index(client: Client, folder: Path) -> Iterator[Ask]:
    made = importlib.import_module("ragseal.client.adapters.llama_index").RagsealRetriever(client)
    yield lambda text: len(made.retrieve(text))


@contextmanager
def _haystack(client: Client, folder: Path) -> Iterator[Ask]:
    haystack = importlib.import_module("haystack")
    pipeline = haystack.Pipeline()
    made = importlib.import_module("ragseal.client.adapters.haystack").RagsealRetriever(client)
    pipeline.add_component("retriever", made)
    yield lambda text: len(pipeline.run({"retriever": {"query": text}})["retriever"]["documents"])


def _awaited(make: Callable[[Client], AskAsync]) -> Callable[[Client, Path], Any]:
    @contextmanager
    def way(client: Client, folder: Path) -> Iterator[Ask]:
        ask = make(client)

        async def count(text: str) -> int:
            return await ask(text)

        with asyncio.Runner() as runner:
            yield lambda text: runner.run(count(text))

    return way


def _async_bare(client: Client) -> AskAsync:
    asking = AsyncClient(client)

    async def ask(text: str) -> int:
        return len((await asking.ask(text)).opened)

    return ask


def _async_langchain(client: Client) -> AskAsync:
    made = importlib.import_module("ragseal.client.adapters.langchain").RagsealRetriever(account=client)

    async def ask(text: str) -> int:
        return len(await made.ainvoke(text))

    return ask


def _async_llama_index(client: Client) -> AskAsync:
    made = importlib.import_module("ragseal.client.adapters.llama_index").RagsealRetriever(client)

    async def ask(text: str) -> int:
        return len(await made.aretrieve(text))

    return ask


def _async_haystack(client: Client) -> AskAsync:
    made = importlib.import_module("ragseal.client.adapters.haystack").RagsealRetriever(client)

    async def ask(text: str) -> int:
        return len((await made.run_async(text))["documents"])

    return ask


WAYS: dict[str, Callable[[Client, Path], Any]] = {
    BARE: _bare,
    "client, awaited": _awaited(_async_bare),
    "gateway, plain HTTP": _http,
    "gateway, openai": _openai,
    "LangChain": _langchain,
    "LangChain, awaited": _awaited(_async_langchain),
    "LlamaIndex": _llama_index,
    "LlamaIndex, awaited": _awaited(_async_llama_index),
    "Haystack pipeline": _haystack,
    "Haystack, awaited": _awaited(_async_haystack),
}


# --- measuring -------------------------------------------------------------------------------------------------------


def account_of(folder: Path, name: str) -> Path:
    """The folder of an account that the provider's state has."""
    made = folder / name
    AccountState.create(made, name)
    (made / KEY_FILE).unlink()
    save_key(made / KEY_FILE, account_key(name))
    return made


def measured(folder: Path, class_name: str, rounds: int, questions: int) -> dict[str, Any]:
    """Of every answer, by way of asking, seconds by the clock and of processor time; ``missing`` names the package that
    a way lacks."""
    state, names = folder / "provider", account_names(len(WAYS))
    make_state(state, class_name, len(names), 1_000_000)
    log_key = NoteSigner(Settings.load(state / "provider.toml").origin, load_key(state / "log.pem")).verifier.vkey()
    samples: dict[str, list[tuple[float, float]]] = {}
    missing: dict[str, str] = {}
    brought: dict[str, int] = {}
    with Process(state) as provider, ExitStack() as open_ways:
        address = provider.wait_until_ready()

        async def begin() -> None:
            channel = open_channel(address)
            try:
                await open_window(provider_stub(channel))
            finally:
                await channel.close()

        asyncio.run(begin())
        embedder, asks = Remembering(), dict[str, Ask]()
        for name, (way, make) in zip(names, WAYS.items(), strict=True):
            own = account_of(folder, name)
            client = open_ways.enter_context(Client(address, own, log_key, embedder))
            try:
                asks[way] = open_ways.enter_context(make(client, own))
            except ImportError as error:
                missing[way] = str(error.name or error)
                continue
            asks[way](QUERIES[0])  # window, imports, connections
            samples[way], brought[way] = [], 0
        for number in range(rounds):
            for way, ask in asks.items():
                for i in range(questions):
                    began, busy = time.perf_counter(), time.process_time()
                    found = ask(QUERIES[(number * questions + i) % len(QUERIES)])
                    samples[way].append((time.perf_counter() - began, time.process_time() - busy))
                    brought[way] += found
        if empty := [way for way, count in brought.items() if not count]:
            raise ConfigurationError(f"{empty[0]} brought no documents in any answer: nothing was measured")
    rounded = {way: [[round(s, 5) for s in both] for both in taken] for way, taken in samples.items()}
    return {"samples_s": rounded, "missing": missing}


def figures(samples: dict[str, list[list[float]]]) -> dict[str, dict[str, float]]:
    """Of each way the rate, medians by the clock and of processor time, and what it adds to the bare client's."""
    bare = statistics.median(busy for _, busy in samples[BARE])
    found = {}
    for way, taken in samples.items():
        clock, busy = statistics.median(s for s, _ in taken), statistics.median(s for _, s in taken)
        found[way] = {
            "answers_per_s": round(len(taken) / sum(s for s, _ in taken), 2),
            "median_ms": round(1000 * clock, 2),
            "cpu_ms": round(1000 * busy, 2),
            "added_cpu_ms": round(1000 * (busy - bare), 2),
        }
    return found


def installed() -> dict[str, str]:
    """Versions of what is there."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            continue
    return found


@click.command()
@click.option("--class", "class_name", default=SMALL, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--questions", type=click.IntRange(min=1), default=20, show_default=True, help="Of a way in a round.")
@click.option("--quick", is_flag=True, help="Show on the smallest class that everything is measured, in seconds.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=RESULTS, show_default="bench/results")
def main(class_name: str, rounds: int, questions: int, quick: bool, out: Path) -> None:
    """Measure and write apps.json."""
    if quick:
        class_name, rounds, questions = QUICK, 2, 2
    found: dict[str, Any] = {
        "machine": machine(), "busy": os.getloadavg()[0] > (os.cpu_count() or 1) / 2, "quick": quick,
        "class": class_name, "rounds": rounds, "questions": questions, "packages": installed(),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        found |= measured(Path(folder), class_name, rounds, questions)
    found["ways"] = figures(found["samples_s"])
    out.mkdir(parents=True, exist_ok=True)
    save(out / "apps.json", found)
    click.echo(json.dumps({"ways": found["ways"], "missing": found["missing"]}, indent=1))


if __name__ == "__main__":
    main()
