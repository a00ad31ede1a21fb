# SPDX-License-Identifier: GPL-3.0-or-later
"""What every adapter hands on: a document's own id and metadata, its text, a score, and where its answer is recorded.

Metadata are plain values that survive any pipeline's JSON.  A document has the same id at every query, by which
pipelines join results and remove duplicates.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ragseal.client.result import Ranked, Result
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.policy import Policy

RECORDED = "ragseal"  #: key of an answer's place; what a document itself has under it is not handed on


WitnessPolicy = str | Path | Policy  #: a file (C2SP tlog-policy) or its content


class Asks(Protocol):
    """The part of a Client that adapters use."""

    def ask(self, text: str) -> Result: ...

    def require_witnesses(self, witness_policy: WitnessPolicy) -> None: ...


@dataclass(frozen=True, slots=True)
class Passage:
    """One returned document, best first."""

    id: str
    text: str
    score: float | None  #: cosine, computed by the client; None without an embedder
    metadata: dict[str, Any]


def passages(result: Result) -> list[Passage]:
    """A result's documents, ranked where the client has an embedder.

    Under ``ragseal`` stand window and number of the record, by which ``ragseal-client receipts list`` finds its
    receipt, and whether its embedding was checked.

    Raises:
        ConfigurationError: the window gives answers in words, which have no documents to hand on.
    """
    if result.answer is not None:
        raise ConfigurationError(
            "this window gives answers in words and no documents: ask it with `Client.ask`, or wait for a window of "
            "documents"
        )
    request = result.record.signed.request
    place = {"window": request.window, "seq": result.record.seq, "checked": result.checked}
    return [
        Passage(
            one.id,
            one.text,
            one.cosine if isinstance(one, Ranked) else None,
            {**one.metadata, RECORDED: dict(place)},
        )
        for one in (result.opened if result.ranked is None else result.ranked)
    ]


def witnessed(client: Asks, policy: WitnessPolicy | None) -> Asks:
    """The client, under a witness policy where one is given.  Raises as :meth:`Client.require_witnesses`."""
    if policy is not None:
        client.require_witnesses(policy)
    return client


def framework(module: str, package: str) -> Any:
    """A framework's module.  Raises ConfigurationError: the package is not installed, with what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(f"this adapter needs {package}: pip install {package} ({error})") from None
