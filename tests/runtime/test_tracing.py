# SPDX-License-Identifier: GPL-3.0-or-later
"""Spans by OpenTelemetry's convention for retrieval: no content, and of a provider nothing finer than its ledger."""

from __future__ import annotations

import asyncio
import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.errors import AttestationError, ConfigurationError
from ragseal.prover.serving import serving
from ragseal.prover.serving.metrics import Metrics
from ragseal.runtime import tracing
from ragseal.runtime.tracing import Spans, retrieval
from tests.simulator.provider import Clock, open_provider

QUERY = "who wrote the seventh letter?"


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the SDK would export, and a tracer of it."""
    pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter, provider.get_tracer("test")


def test_an_account_question_is_a_span_without_its_words(exported: Any) -> None:
    exporter, _ = exported
    with retrieval("rag.example:7800"):
        pass
    with pytest.raises(AttestationError), retrieval(""):
        raise AttestationError(QUERY)
    answered, failed = exporter.get_finished_spans()
    assert answered.name == "retrieval"
    assert dict(answered.attributes) == {
        "gen_ai.operation.name": "retrieval", "gen_ai.provider.name": "ragseal",
        "server.address": "rag.example", "server.port": 7800,
    }  # fmt: skip
    assert failed.attributes["error.type"] == "AttestationError"
    assert failed.status.description is None
    assert not failed.events  # an event would hold the error's words and where it was raised
    assert QUERY not in answered.to_json() + failed.to_json()


def test_a_provider_tells_its_answers_with_the_ledger_and_in_no_order(tmp_path: Path, exported: Any) -> None:
    exporter, tracer = exported
    provider = open_provider(tmp_path / "p", Clock())
    numbers = Metrics(provider, 0.5, False)
    numbers.spans = Spans(tracer)

    async def scene() -> None:
        with pytest.raises(AttestationError):
            async with numbers.answer(True):
                raise AttestationError(QUERY)
        async with numbers.answer(True):
            await asyncio.sleep(0.55)
        async with numbers.answer(True):
            pass
        assert not exporter.get_finished_spans()  # until the coarse tick
        await numbers.settle()
        await numbers.settle()

    asyncio.run(scene())
    provider.close()
    found = exporter.get_finished_spans()
    assert {one.start_time % (COARSE_TIME * 10**9) for one in found} == {0}
    assert [(one.end_time - one.start_time) / 1e9 for one in found] == [0.5, 1.0, 0.5]
    assert [one.attributes.get("error.type") for one in found] == [None, None, "refused"]
    assert all(one.parent is None for one in found)
    assert len({one.context.trace_id for one in found}) == 3
    assert all(QUERY not in one.to_json() for one in found)


@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["timer", "stop"])
async def test_without_coarse_ticks_traces_are_told_all_the_same(
    tmp_path: Path, exported: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Nobody scrapes: they are told now and then, and at the end."""
    exporter, tracer = exported
    provider = open_provider(tmp_path / "p", Clock())
    if how == "timer":
        monkeypatch.setattr(serving, "LIVE_SECONDS", 0.05)
    made = serving.Serving(provider, serving.ServeOptions(publish=0.0, spans=Spans(tracer)))
    await made.start()
    try:
        async with made.metrics.answer(True):
            pass
        async with asyncio.timeout(20):
            while how == "timer" and not exporter.get_finished_spans():
                await asyncio.sleep(0.02)
    finally:
        await made.stop()
        provider.close()
    assert len(exporter.get_finished_spans()) == 1


def test_without_the_packages_questions_are_asked_and_traces_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any, **options: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "opentelemetry.nothing" not in sys.modules
    with retrieval("host:1"):
        pass
    with pytest.raises(ConfigurationError, match=r"pip install 'ragseal\[otel\]'"), tracing.exporting():
        pass
