# SPDX-License-Identifier: GPL-3.0-or-later
"""Embedders that run on somebody else's machine, behind the API that OpenAI's has become the pattern of.

``declared:openai/text-embedding-3-small@1536``: provider, model and dimension are declared, and C_emb is a digest of
that, since nobody sees weights.  Every text, of a document or a query, is sent there.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragseal.embedder.endpoint import Endpoint, Patience
from ragseal.embedder.interface import QUANTISATION, UNIT, DeclaredIdentity, Progress, Role, Vectors, check_texts
from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError
from ragseal.kernel.policy import MAX_DIMENSION

PREFIX = "declared:"
URL, KEY = "RAGSEAL_EMBEDDING_URL", "RAGSEAL_EMBEDDING_KEY"
OPENAI = "https://api.openai.com/v1"

BATCH_TEXTS = 64
BATCH_CHARACTERS = 200_000  #: a longer text goes alone
FIXED_BYTES, BYTES_A_NUMBER = 1 << 16, 64  #: of an answer, indented or not

#: Documents are embedded by their owner, who waits and may read what the server says.  A query keeps its account
#: waiting, and a place of the provider's, and errors go to the account.
DOCUMENTS = Patience(seconds=120.0, attempts=5, quotes=True)
QUERIES = Patience(seconds=10.0, attempts=2, quotes=False)

_NAME = re.compile(r"([A-Za-z0-9._-]{1,64})/([!-~]{1,128})@([1-9][0-9]{0,4})(\+shortened)?")


def declared(name: str) -> DeclaredIdentity:
    """What "openai/text-embedding-3-large@256+shortened" declares.

    Raises:
        ConfigurationError: not of the form PROVIDER/MODEL@DIMENSION.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ConfigurationError(
            f"{name[:200]!r} is not of the form PROVIDER/MODEL@DIMENSION, such as openai/text-embedding-3-small@1536; "
            "+shortened behind it asks for vectors that the server shortens to that dimension"
        )
    provider, model, dimension, shortened = found.groups()
    if int(dimension) > MAX_DIMENSION:
        raise ConfigurationError(f"{dimension} dimensions: at most {MAX_DIMENSION} can be committed to, see +shortened")
    return DeclaredIdentity(provider, model, int(dimension), shortened is not None, UNIT, QUANTISATION)


class DeclaredModel:
    """A model by what its provider calls it.  Implements :class:`ragseal.embedder.Embedder`."""

    def __init__(self, identity: DeclaredIdentity, endpoint: Endpoint) -> None:
        """Nothing is asked yet."""
        self._identity = identity
        self._endpoint = endpoint

    @classmethod
    def from_environment(cls, name: str) -> DeclaredModel:
        """By name, with URL and key from RAGSEAL_EMBEDDING_URL and RAGSEAL_EMBEDDING_KEY.

        Raises:
            ConfigurationError: a name of another form, no URL for this provider, or a URL or key that cannot be used.
        """
        identity = declared(name)
        base = os.environ.get(URL) or (OPENAI if identity.provider == "openai" else None)
        if base is None:
            raise ConfigurationError(
                f"where does {identity.provider!r} answer? Set {URL} to the part before /embeddings"
            )
        return cls(identity, Endpoint(base, os.environ.get(KEY) or None))

    @property
    def dimension(self) -> int:
        return self._identity.dimension

    def identity(self) -> DeclaredIdentity:
        return self._identity

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: Progress | None = None) -> Vectors:
        """See :meth:`ragseal.embedder.Embedder.embed`.

        Raises:
            EncodingError: a text that is refused, by this program or by the server.
            TransportError: the server is away, busy, or gives no embeddings.
            ConfigurationError: it does not take the key, or gives vectors of another dimension.
        """
        check_texts(texts)
        for i, text in enumerate(texts):
            if not text.strip():
                raise EncodingError(f"text {i} is blank: there is nothing to embed")
        patience = QUERIES if role == "query" else DOCUMENTS
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        done = 0
        for batch in _batches(texts):
            out[done : done + len(batch)] = self._ask(batch, patience)
            done += len(batch)
            if progress is not None:
                progress(done, len(texts))
        return out

    def _ask(self, texts: Sequence[str], patience: Patience) -> Vectors:
        asked: dict[str, Any] = {"model": self._identity.model, "input": list(texts), "encoding_format": "float"}
        if self._identity.shortened:
            asked["dimensions"] = self.dimension
        limit = FIXED_BYTES + len(texts) * self.dimension * BYTES_A_NUMBER
        data = self._endpoint.post("embeddings", json.dumps(asked).encode(), limit, patience)
        return self._vectors(data, len(texts))

    def _vectors(self, data: bytes, count: int) -> Vectors:
        """Unit rows in the order of the texts, whatever the order of the answer."""
        rows: list[list[float] | None] = [None] * count
        listed = self._listed(data)
        if len(listed) != count:
            raise self._broken(f"{len(listed)} embeddings for {count} texts")
        for one in listed:
            index, row = (one.get("index"), one.get("embedding")) if isinstance(one, dict) else (None, None)
            if type(index) is not int or not 0 <= index < count or rows[index] is not None:
                raise self._broken("embeddings that do not name their texts, each once")
            if not isinstance(row, list) or not all(type(x) in (int, float) for x in row):
                raise self._broken("an embedding that is no list of numbers")
            if len(row) != self.dimension:
                raise ConfigurationError(
                    f"{self._endpoint.host} gives {len(row)} dimensions of {self._identity.model!r}, declared are "
                    f"{self.dimension}"
                )
            rows[index] = self._unit(row)
        return np.array(rows, dtype=np.float32).reshape(count, self.dimension)

    def _listed(self, data: bytes) -> list[Any]:
        try:
            answer = json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise self._broken("what is no JSON") from None
        listed = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise self._broken("no list of embeddings")
        return listed

    def _unit(self, row: list[float]) -> list[float]:
        try:
            norm = math.hypot(*row)  # scales, so that squares neither under- nor overflow
        except OverflowError:
            norm = math.inf
        if not math.isfinite(norm):
            raise self._broken("an embedding that is not finite")
        if not norm:
            raise self._broken("an embedding without direction")
        return [x / norm for x in row]

    def _broken(self, what: str) -> TransportError:
        return TransportError(f"{self._endpoint.host} answers with {what}")


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    held = 0
    for text in texts:
        if batch and (len(batch) == BATCH_TEXTS or held + len(text) > BATCH_CHARACTERS):
            yield batch
            batch, held = [], 0
        batch.append(text)
        held += len(text)
    if batch:
        yield batch


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
