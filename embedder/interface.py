# SPDX-License-Identifier: GPL-3.0-or-later
"""What every embedder offers, and the canonical description that C_emb commits to.  SPEC A.2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ragseal.kernel.encoding import FLAG, HASH, NAME, U32, Codec, Message, Text
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.transcript import tagged_hash

Vectors = npt.NDArray[np.float32]  #: (n, d) unit vectors
Quantised = npt.NDArray[np.int8]  #: (n, d) rows e

#: ``progress(done, total)`` counts texts, never goes back, and ends with done == total.
Progress = Callable[[int, int], None]

#: Some models put another instruction before a query than before a document; the default model treats both alike.
Role = Literal["query", "document"]

#: The one quantisation of the protocol (SPEC M.1): see :func:`ragseal.embedder.quantise`.
QUANTISATION = "int8/127/half-even"

#: How the vectors of declared embedders are brought to length 1: by division by their Euclidean norm.
UNIT = "unit"

#: Longest text that an embedder reads.  Models cut far earlier; this only bounds the work a hostile text can cause.
MAX_TEXT_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class EmbedderIdentity(Message):
    """Everything that decides which vector a text gets, up to the rounding of floats.

    Two programs that run the same weights have the same identity whichever library computes them: digests are taken
    over the content of tensors and tokenizer (:mod:`ragseal.embedder.weights`), not over files or their names.
    Encoding: the kernel's canonical form (:mod:`ragseal.kernel.encoding`), fields in the order below.
    """

    TAG: ClassVar[str] = "embedder"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, HASH, Text(1024), Text(1024), U32, Text(4096), Text(4096), U32, NAME)

    weights: bytes  #: digest of all floating-point tensors
    tokenizer: bytes  #: digest of the tokenizer's definition without its padding and truncation
    architecture: str  #: canonical JSON of what the weights do not show: kind, heads, activation, epsilon
    pooling: str  #: from token vectors to the text's vector, "mean" for the default model
    max_tokens: int  #: longer texts are cut after this many tokens, special ones included
    query_prompt: str  #: put before a query, with no separator
    document_prompt: str  #: put before a document
    dimension: int  #: d, entries of a vector
    quantisation: str  #: "int8/127/half-even", SPEC M.1

    def validate(self) -> None:
        if self.quantisation != QUANTISATION:
            raise EncodingError(f"embedder: quantisation {self.quantisation!r}, this program knows {QUANTISATION!r}")
        if not 1 <= self.dimension <= 65535 or self.max_tokens < 1:
            raise EncodingError("embedder: dimension and max_tokens are positive, the dimension below 65536")

    def digest(self) -> bytes:
        """C_emb, 32 bytes: the tagged SHA-256 of the canonical encoding."""
        return tagged_hash("embedder", self.encode())


@dataclass(frozen=True, slots=True)
class DeclaredIdentity(Message):
    """What is declared of an embedder that runs elsewhere.  Nobody sees its weights, so nobody can check more.

    Neither URL nor key is part of it: an account may reach the same model on another way.
    """

    TAG: ClassVar[str] = "declared-embedder"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, NAME, U32, FLAG, NAME, NAME)

    provider: str  #: who runs it
    model: str  #: what the provider calls it
    dimension: int  #: d, entries of a vector
    shortened: bool  #: whether the provider is asked to shorten vectors to that dimension
    normalisation: str  #: `unit`: divided by the Euclidean norm
    quantisation: str  #: "int8/127/half-even", SPEC M.1

    def validate(self) -> None:
        if (self.normalisation, self.quantisation) != (UNIT, QUANTISATION):
            raise EncodingError(
                f"declared embedder: this program knows normalisation {UNIT!r} and quantisation {QUANTISATION!r}"
            )
        if not 1 <= self.dimension <= 65535:
            raise EncodingError("declared embedder: the dimension is positive and below 65536")

    def digest(self) -> bytes:
        """C_emb, 32 bytes, under a tag of its own."""
        return tagged_hash("declared-embedder", self.encode())


Identity = EmbedderIdentity | DeclaredIdentity


class Embedder(Protocol):
    """Turns texts into vectors.  Implementations load their model at first use and may be called from many threads."""

    @property
    def dimension(self) -> int:
        """d, entries of a vector."""
        ...

    def identity(self) -> Identity:
        """The description whose digest is C_emb; reads (and remembers) the weights' digest.

        Raises:
            ConfigurationError: the model's files are missing or unreadable.
        """
        ...

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: Progress | None = None) -> Vectors:
        """Unit vectors of ``texts``, float32, shape (len(texts), dimension), in the order given.

        A text's vector does not depend on its neighbours beyond the last bits of a float.

        Raises:
            EncodingError: a text is no valid Unicode or longer than MAX_TEXT_CHARACTERS.
            ConfigurationError: the model cannot be loaded or run.
            TransportError: (of a declared embedder) its server cannot be reached, or gives no embeddings.
        """
        ...


@runtime_checkable
class Cutting(Protocol):
    """An embedder that reads a long text's beginning alone, and can tell which texts those are."""

    @property
    def most_tokens(self) -> int:
        """What it reads of a text, in tokens, special ones included."""
        ...

    def cut(self, texts: Sequence[str]) -> list[int]:
        """Which of the texts have more, in order.  Raises EncodingError: as :meth:`Embedder.embed`."""
        ...


def check_texts(texts: Sequence[str]) -> None:
    """Refuse what no tokenizer should see, before a library answers with an exception of its own.

    Raises:
        EncodingError: names the first text that is not a string, holds a lone surrogate or is too long.
    """
    if isinstance(texts, str):
        raise EncodingError("embed takes a sequence of texts; put a single text in a list")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise EncodingError(f"text {i} is a {type(text).__name__}, not a string")
        if len(text) > MAX_TEXT_CHARACTERS:
            raise EncodingError(
                f"text {i} has {len(text)} characters, at most {MAX_TEXT_CHARACTERS}; split it into several documents"
            )
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise EncodingError(f"text {i} holds a lone surrogate at character {error.start}") from None
