# SPDX-License-Identifier: GPL-3.0-or-later
"""What a serving provider counts of itself for its operator.  SPEC G.7.9, G.7.10.

Whoever reads these numbers learns about time no more than the public ledger tells: everything that an answer moves is
shown as it was at the last coarse tick, when the ledger showed that answer's record as well.  Nothing is told of a
tenant, an account or a query: no number is anybody's.
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ragseal import __version__
from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError, UnprovableError
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.health import WHATS, Health
from ragseal.prover.storage.history import coarse
from ragseal.prover.storage.retirement import is_retired
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.tracing import Spans

ANSWERED, REFUSED, LIMITED, UNPROVABLE, GONE, FAILED = (
    "answered", "refused", "limited", "unprovable", "gone", "failed",
)  # fmt: skip
OUTCOMES = (ANSWERED, REFUSED, LIMITED, UNPROVABLE, GONE, FAILED)
EDGES = (1, 2, 5, 10, 20, 50, 100, 300, 600)  #: of the latencies' buckets, in ticks of `serve --tick`
MOST_SPANS = 10_000  #: of one coarse tick; what is beyond stands in the counters alone
FREE_STEP = 1 << 26  #: bytes: what a few answers take is not to be seen
LEAST_TICK = 0.1  #: seconds: what a bucket has at least where answers leave at once


@dataclass(frozen=True, slots=True)
class Settled:
    """Everything that an answer moves, as of one coarse tick."""

    answers: dict[str, int] = field(default_factory=dict)  #: by outcome
    prepares: dict[str, int] = field(default_factory=dict)  #: by outcome
    latencies: dict[int, int] = field(default_factory=dict)  #: answers by the tick after which they left
    entries: int = 0  #: of the ledger
    records: int = 0  #: of the open window
    queries_left: int | None = None  #: of all accounts in the open window; None: no window is open
    pending: int = 0  #: public records of windows that are kept, without a proof
    keys_stopped: int = 0
    failing: int = 0  #: of those without a proof the ones whose newest try failed
    free: int = 0  #: bytes of the disk, in steps of FREE_STEP
    wrong: frozenset[str] = frozenset()  #: of WHATS


class Metrics:
    """The numbers of one serving provider.  Belongs to one event loop."""

    def __init__(self, provider: Provider, tick: float, live: bool) -> None:
        """
        Args:
            tick: seconds; answers leave at multiples of it.
            live: the ledger shows records at once, so these numbers do as well.
        """
        self._provider, self._live = provider, live
        self._tick = tick if tick > 0 else LEAST_TICK
        self._answers: Counter[str] = Counter()
        self._prepares: Counter[str] = Counter()
        self._latencies: Counter[int] = Counter()
        self._proven: set[bytes] = set()  #: closed windows of which nothing is pending any more
        self._untold: list[tuple[str, int]] = []  #: of the answers since the last coarse tick: outcome, ticks or 0
        self.spans: Spans | None = None  #: tells each of them, where the operator wants traces
        self.health: Callable[[], Awaitable[Health]] | None = None  #: what is wrong, of a provider that serves
        self.failing: Callable[[], int] = lambda: 0  #: records whose proofs fail
        self.shown = Settled()

    @asynccontextmanager
    async def prepare(self) -> AsyncIterator[None]:
        """Around a Prepare."""
        async with _counted(lambda outcome: self._prepares.update([outcome])):
            yield

    @asynccontextmanager
    async def answer(self, timed: bool) -> AsyncIterator[None]:
        """Around a Retrieve, to the moment in which its answer leaves.

        Args:
            timed: its time may be told, see :meth:`timed`.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with _counted(lambda outcome: self._ended(outcome, loop.time() - began, timed)):
            yield

    def timed(self, request: bytes) -> bool:
        """Whether the time of a SignedRequest's answer may be told.

        In a window of answers it is what the policy says and the wait for a turn (SPEC A.14.7); what it is more would
        be work, and so might tell how many documents take part.
        """
        try:
            manifest = SignedRequest.decode(request).request.manifest
            return not self._provider.journal.history.window(manifest).manifest.policy.answers
        except AuditError:
            return False

    def _ended(self, outcome: str, seconds: float, timed: bool) -> None:
        ticks = 0
        if timed:
            ticks = max(1, math.ceil(seconds / self._tick - 0.01))  # an answer leaves a little after its tick
        self._answers[outcome] += 1
        if outcome == ANSWERED and timed:
            self._latencies[ticks] += 1
        if self.spans is not None and len(self._untold) < MOST_SPANS:
            self._untold.append((outcome, ticks))

    async def settle(self) -> None:
        """Show what was counted up to now: the ledger has just shown the records of these answers."""
        journal = self._provider.journal
        entries, window = journal.public.size, journal.history.open
        counted = dict(self._answers), dict(self._prepares), dict(self._latencies)
        untold = len(self._untold)
        records = 0 if window is None else journal.published_records(window)
        queries = None if window is None else window.manifest.accounts * window.manifest.policy.n_max - records
        public = [(one, journal.published_records(one)) for one in journal.history.windows.values()]
        pending, stopped, free = await asyncio.to_thread(self._measured, public)
        wrong = frozenset[str]() if self.health is None else (await self.health()).whats()
        self.shown = Settled(*counted, entries, records, queries, pending, stopped, self.failing(), free, wrong)
        ended, self._untold = self._untold[:untold], self._untold[untold:]  # now: whoever is cancelled above loses none
        if self.spans is not None:
            shown_at = coarse(self._provider.environment.clock())
            for outcome, ticks in sorted(ended):  # not in the order in which they were asked for
                self.spans.tell(outcome, shown_at, ticks * self._tick)

    def _measured(self, windows: Iterable[tuple[Window, int]]) -> tuple[int, int, int]:
        """(proofs pending, keys stopped, free bytes).  Of proofs those of public records count, whatever came since."""
        state, pending = self._provider.state, 0
        for window, records in windows:
            if not records or window.digest in self._proven:
                continue
            if is_retired(state, window.digest):
                self._proven.add(window.digest)
                continue
            query = "SELECT COUNT(*) FROM proofs WHERE manifest = ? AND seq < ?"
            found = state.row(query, (window.digest, records))
            missing = records - int(found[0] if found else 0)
            pending += missing
            if not missing and window.stage is Stage.CLOSED and records == len(window.records):
                self._proven.add(window.digest)
        found = state.row("SELECT COUNT(*) FROM stopped_keys", ())
        free = shutil.disk_usage(state.directory).free
        return pending, int(found[0] if found else 0), free // FREE_STEP * FREE_STEP

    async def exposition(self, book: CosignatureBook, ready: bool, answers: bool) -> tuple[bytes, str]:
        """All of it as Prometheus reads it, and the content type.

        Raises:
            ConfigurationError: the package for it is not installed.
        """
        if self._live:
            await self.settle()
        prometheus = prometheus_client()
        registry = prometheus.CollectorRegistry(auto_describe=False)
        registry.register(_Once(list(self._families(prometheus.core, book, ready, answers))))
        return prometheus.generate_latest(registry), str(prometheus.CONTENT_TYPE_LATEST)

    def _families(self, core: Any, book: CosignatureBook, ready: bool, answers: bool) -> Iterator[Any]:
        def gauge(name: str, said: str, value: float | None) -> Iterator[Any]:
            if value is not None:
                yield core.GaugeMetricFamily(f"ragseal_{name}", said, value=value)

        def counter(name: str, said: str, values: dict[str, int]) -> Any:
            family = core.CounterMetricFamily(f"ragseal_{name}", said, labels=["outcome"])
            for outcome in OUTCOMES:
                family.add_metric([outcome], values.get(outcome, 0))
            return family

        shown, now = self.shown, self._provider.environment.clock()
        window, newest = self._provider.journal.history.open, book.youngest()
        yield core.InfoMetricFamily("ragseal_build", "This program.", value={"version": __version__})
        yield from gauge("ready", "1: calls are taken.", float(ready))
        yield from gauge("answering", "1: a window is open and queries are answered.", float(answers))
        yield counter("answers", "Retrieves by outcome, up to the last coarse tick.", shown.answers)
        yield counter("prepares", "Prepares by outcome, up to the last coarse tick.", shown.prepares)
        yield self._histogram(core, shown.latencies)
        yield from gauge("proofs_pending", "Public records without a proof.", shown.pending)
        yield from gauge("proofs_failing", "Of those the ones whose newest try failed.", shown.failing)
        yield from gauge("disk_free_bytes", "Where the state folder is.", shown.free)
        wrong = core.GaugeMetricFamily("ragseal_wrong", "1: `ragseal-provider status` says so.", labels=["what"])
        for what in WHATS:
            wrong.add_metric([what], float(what in shown.wrong))
        yield wrong
        yield from gauge("ledger_entries", "Public size of the ledger.", shown.entries)
        yield from gauge("window_records", "Public records of the open window.", shown.records)
        yield from gauge("window_queries_left", "Queries that all accounts of the open window have left.",
                         shown.queries_left)  # fmt: skip
        yield from gauge("window_seconds_left", "Until the policy ends the open window.",
                         None if window is None else max(0, window.closes - int(now)))  # fmt: skip
        yield from gauge("keys_stopped", "Proving keys that a failed proof has stopped.", shown.keys_stopped)
        yield from gauge("cosignature_age_seconds", "Of the newest cosignature that notes may show.",
                         None if newest is None else max(0, int(now) - newest.time))  # fmt: skip

    def _histogram(self, core: Any, latencies: dict[int, int]) -> Any:
        def up_to(ticks: float) -> int:
            return sum(number for at, number in latencies.items() if at <= ticks)

        edges = [(f"{ticks * self._tick:g}", up_to(ticks)) for ticks in EDGES]
        return core.HistogramMetricFamily(
            "ragseal_answer_seconds",
            "From a Retrieve to its documents, in whole ticks of `serve --tick`, up to the last coarse tick.",
            buckets=[*edges, ("+Inf", up_to(math.inf))],
            sum_value=sum(at * number for at, number in latencies.items()) * self._tick,
        )


@asynccontextmanager
async def _counted(told: Callable[[str], None]) -> AsyncIterator[None]:
    """Tells the outcome of what is done inside."""
    outcome = FAILED
    try:
        yield
        outcome = ANSWERED
    except asyncio.CancelledError:
        outcome = GONE
        raise
    except UnprovableError:
        outcome = UNPROVABLE
        raise
    except BudgetError:
        outcome = LIMITED
        raise
    except AuditError:
        outcome = REFUSED
        raise
    finally:
        told(outcome)


class _Once:
    """Families that were collected already, for a registry."""

    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> list[Any]:
        return self._families


def prometheus_client() -> Any:
    """The package.  ConfigurationError: it is not installed."""
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError:
        raise ConfigurationError("--metrics needs one more package: pip install 'ragseal[provider]'") from None
    return prometheus_client
