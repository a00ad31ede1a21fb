# SPDX-License-Identifier: GPL-3.0-or-later
"""What every adapter hands on: a document's own id and metadata, its text, a score, and where its answer is recorded.

Metadata are plain values that survive any pipeline's JSON.  A document has the same id at every query, by which
pipelines join results and remove duplicates.  What is left out here was paid for and is here already: choosing among it
costs no privacy, and finds nothing that the answer has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragseal.client.filters import Filter
from ragseal.client.result import Opened, Ranked, Result
from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError

RECORDED = "ragseal"  #: key of an answer's place; what a document itself has under it is not handed on
CITED = ("source", "url", "title")  #: of a document's metadata, the first that is there is what a citation names


@dataclass(frozen=True, slots=True)
class Passage:
    """One returned document, best first."""

    id: str
    text: str
    score: float | None  #: cosine, computed by the client; None without an embedder
    metadata: dict[str, Any]  #: the document's own, and under ``ragseal`` where its answer is recorded

    @property
    def own(self) -> dict[str, Any]:
        """The document's metadata alone, as its provider committed to it."""
        return {key: value for key, value in self.metadata.items() if key != RECORDED}


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the returned documents are handed on."""

    most: int | None = None  #: the best so many; an answer never has more than its window's K
    least_score: float | None = None  #: cosine, from -1 to 1
    keep: Filter | None = None

    def __post_init__(self) -> None:
        """Raises EncodingError: a number of another kind."""
        most, least = self.most, self.least_score
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise EncodingError(f"the number of documents is a whole number from 1 on, or None for all: not {most!r}")
        number = isinstance(least, int | float) and not isinstance(least, bool)
        if least is not None and not (number and -1 <= least <= 1):
            raise EncodingError(f"the least score is a cosine from -1 to 1, or None for any: not {least!r}")

    @property
    def scored(self) -> bool:
        """Whether documents without scores are of no use."""
        return self.least_score is not None

    def check(self, embeds: bool) -> None:
        """Raises ConfigurationError: a least score where nothing computes scores; before anything is asked."""
        if self.least_score is not None and not embeds:
            raise ConfigurationError(
                "a least score needs scores, which this machine computes and the provider does not release: give the "
                "account an embedder, or leave the least score out; nothing was sent"
            )

    def of(self, result: Result) -> list[Passage]:
        """The chosen documents of a result, best first; by slot, which says nothing, without an embedder.

        Raises:
            ConfigurationError: the window gives answers in words, which have no documents to hand on.
            TransportError: a least score, and a result without scores; :meth:`Asking.ask` with ``scored`` keeps those.
        """
        found = passages(result)
        if self.keep is not None:
            found = [one for one in found if self.keep(one.own)]
        if self.least_score is not None:
            if result.ranked is None:
                raise TransportError(
                    "the embedder could not be reached, so these documents have no scores to choose by: ask again, or "
                    "leave the least score out"
                )
            found = [one for one in found if one.score is not None and one.score >= self.least_score]
        return found[: self.most]


def passages(result: Result) -> list[Passage]:
    """A result's documents, ranked where the client has an embedder.

    Under ``ragseal`` stand ``window`` and ``seq`` of the record, by which ``ragseal-client receipts list`` finds its
    receipt; ``checked``, whether its embedding was; ``claim``, what holds of the account's tenant; ``id``, the
    document's; ``source``, what a citation names: what the document calls its source, url or title, else its id; and
    ``score`` where there is one.

    Raises:
        ConfigurationError: the window gives answers in words, which have no documents to hand on.
    """
    if result.answer is not None:
        raise ConfigurationError(
            "this window gives answers in words and no documents: ask it with `Client.ask`, or wait for a window of "
            "documents"
        )
    request = result.record.signed.request
    place = {"window": request.window, "seq": result.record.seq, "checked": result.checked, "claim": result.claim}
    out = []
    for one in result.opened if result.ranked is None else result.ranked:
        score = one.cosine if isinstance(one, Ranked) else None
        recorded = {**place, "id": one.id, "source": _cited(one)} | ({} if score is None else {"score": score})
        out.append(Passage(one.id, one.text, score, {**one.metadata, RECORDED: recorded}))
    return out


def _cited(one: Opened) -> str:
    named: Mapping[str, Any] = one.metadata
    return next((text for key in CITED if isinstance(text := named.get(key), str) and text.strip()), one.id)


def needs(package: str, extra: str, error: ImportError) -> ImportError:
    """Of a framework that is not installed: which extra brings it."""
    return ImportError(f"this adapter needs {package}: pip install 'ragseal[{extra}]' ({error})", name=error.name)
