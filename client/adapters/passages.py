# SPDX-License-Identifier: GPL-3.0-or-later
"""What every adapter hands on: texts, scores, and the receipt as plain values that survive any pipeline's JSON."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Protocol

from ragseal.client.result import Result
from ragseal.kernel.errors import ConfigurationError


class Asks(Protocol):
    """The part of a Client that adapters use."""

    def ask(self, text: str) -> Result: ...


@dataclass(frozen=True, slots=True)
class Passage:
    """One returned text, best first."""

    text: str
    score: float | None  #: cosine, computed by the client; None without an embedder
    metadata: dict[str, Any]


def passages(result: Result) -> list[Passage]:
    """A result's texts, ranked where the client has an embedder, each with the receipt of the whole answer."""
    request, body = result.record.signed.request, result.receipt.body
    proof = {
        "origin": request.origin,
        "window": request.window,
        "account": request.account,
        "ctr": request.ctr,
        "seq": body.seq,
        "ledger_index": body.index,
        "checked": result.checked,
        "receipt": result.receipt.encode().hex(),
        "record": result.record.encode().hex(),
    }
    if result.ranked is not None:
        return [
            Passage(r.text, r.cosine, {"ragseal": {"slot": r.slot, "cosine": r.cosine, **proof}}) for r in result.ranked
        ]
    pairs = zip(result.slots, result.texts, strict=True)
    return [Passage(text, None, {"ragseal": {"slot": slot, **proof}}) for slot, text in pairs]


def framework(module: str, package: str) -> Any:
    """A framework's module.  Raises ConfigurationError: the package is not installed, with what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(f"this adapter needs {package}: pip install {package} ({error})") from None
