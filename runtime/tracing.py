# SPDX-License-Identifier: GPL-3.0-or-later
"""Spans of OpenTelemetry's convention for retrieval (``gen_ai.operation.name`` is ``retrieval``), without any content.

Without the package ``opentelemetry-api`` nothing is traced, and without a program that sets up its SDK neither.  No
question, text, id, account or tenant enters a span, nor an error's words, which may quote one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragseal import __version__
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.proxy import go_straight_in_the_clear

NAME = "retrieval"  #: of spans, and of what they are about
WAY_OUT = "--traces needs more packages: pip install 'ragseal[otel]'"


def _attributes() -> dict[str, str]:
    return {"gen_ai.operation.name": NAME, "gen_ai.provider.name": "ragseal"}


@contextmanager
def retrieval(peer: str) -> Iterator[None]:
    """Around an account's question, in the account's own program.

    Args:
        peer: host:port of the provider, or empty.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        yield
        return
    attributes: dict[str, str | int] = {**_attributes()}
    if peer:
        at = Address.parse(peer)
        attributes |= {"server.address": at.host or at.path, **({} if at.path else {"server.port": at.port})}
    tracer = trace.get_tracer("ragseal.client", __version__)
    with tracer.start_as_current_span(
        NAME, kind=trace.SpanKind.CLIENT, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.StatusCode.ERROR)
            raise


class Spans:
    """A provider's answers as spans, told once the public ledger has shown their records, at its times."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    def tell(self, outcome: str, since: int, seconds: float) -> None:
        """An answer that left, or did not.

        Args:
            outcome: "answered", or why there was none.
            since: seconds since 1970, a coarse tick.
            seconds: how long it took, in whole ticks; 0 where that is not told.
        """
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, StatusCode

        attributes = _attributes() | ({} if outcome == "answered" else {"error.type": outcome})
        start = since * 10**9
        span = self._tracer.start_span(
            NAME, context=Context(), kind=SpanKind.SERVER, attributes=attributes, start_time=start
        )  # fmt: skip
        if outcome != "answered":
            span.set_status(StatusCode.ERROR)
        span.end(start + round(seconds * 1e9))


def _collector() -> str:
    """The URL to which the exporter sends; without a scheme it is taken for one in the clear."""
    named = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    url = named or "http://localhost:4317"
    return url if "://" in url else f"http://{url}"


@contextmanager
def exporting() -> Iterator[Spans]:
    """Spans that go where the variables ``OTEL_EXPORTER_OTLP_...`` say, the last of them at the end of the block.

    Raises:
        ConfigurationError: the packages are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ConfigurationError(WAY_OUT) from None
    go_straight_in_the_clear(_collector())
    provider = TracerProvider(resource=Resource({SERVICE_NAME: "ragseal-provider"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Spans(provider.get_tracer("ragseal.provider", __version__))
    finally:
        provider.shutdown()
