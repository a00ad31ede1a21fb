# SPDX-License-Identifier: GPL-3.0-or-later
"""What a worker is given and gives back, and what an engine that has workers can do.

An assignment holds the seed's limbs, scores and hints of a record: whoever reads it knows what noise hides.  Workers
stand inside the provider's boundary; between the processes it goes through a socket that nobody else has, or encrypted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ragseal.kernel import field
from ragseal.kernel.encoding import HASH, NAME, Blob, Codec, Message, Text
from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError
from ragseal.prover.workers.narrow import lengthen, shorten

HERE = "here"  #: the engine that has no workers: the provider proves, with every core
MAX_INPUTS = 1 << 27  #: bytes of one assignment
PROOF_BYTES = 256
MAX_FAILURE = 2000  #: bytes
FEWEST_PLACES = 16  #: so workers that just came are used at once
MOST_PLACES = 1024  #: each is a thread that holds an assignment, megabytes, whatever a database says of workers


def places_for(workers: int) -> int:
    """How many assignments are worth handing in at once to so many workers on other machines.

    A quarter more than workers, so that who is done has its next one before the result is read and checked.
    """
    return max(FEWEST_PLACES, min(workers + workers // 4, MOST_PLACES))


class UnreachedError(TransportError):
    """The engine has no worker that finishes an assignment now: the statement may be as provable as any."""


class StoppingError(ConfigurationError):
    """The provider is stopping: what is under way is made after its next start."""

    def __init__(self) -> None:
        super().__init__("the provider is stopping: the proof is made after its next start")


@dataclass(frozen=True, slots=True)
class _Travelling(Message):
    """A :class:`Work` on its way."""

    TAG: ClassVar[str] = "work"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, HASH, Blob(MAX_INPUTS + 1))

    circuit: str
    key: bytes
    inputs: bytes  #: as :mod:`ragseal.prover.workers.narrow` writes them


@dataclass(frozen=True, slots=True)
class Work:
    """One assignment: all inputs of a circuit, and the key that proves it."""

    circuit: str  #: name of its class
    key: bytes  #: digest of the verifying key
    inputs: bytes  #: in wire order, 32 bytes each

    def encode(self) -> bytes:
        """As long for every assignment of a circuit.  Raises EncodingError: no circuit has such inputs."""
        if not self.inputs or len(self.inputs) % field.FIELD_BYTES or len(self.inputs) > MAX_INPUTS:
            raise EncodingError("the inputs of an assignment are field elements of 32 bytes each")
        return _Travelling(self.circuit, self.key, shorten(self.circuit, self.inputs)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Work:
        """Raises EncodingError: as of a message, or a length that is no assignment's of this circuit."""
        told = _Travelling.decode(data)
        return cls(told.circuit, told.key, lengthen(told.circuit, told.inputs))

    def __repr__(self) -> str:
        return f"Work({self.circuit!r})"


@dataclass(frozen=True, slots=True)
class WorkResult(Message):
    """What a worker made of an assignment: a proof, or why there is none."""

    TAG: ClassVar[str] = "work-result"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, Blob(PROOF_BYTES), Text(MAX_FAILURE))

    worker: str  #: its own name: a database says what it likes of whose row it was
    proof: bytes  #: empty where it failed
    failure: str  #: empty where it did not

    def validate(self) -> None:
        if len(self.proof) != (0 if self.failure else PROOF_BYTES):
            raise EncodingError(f"a worker gives a proof of {PROOF_BYTES} bytes, or says why there is none")


@dataclass(frozen=True)
class WorkersStatus:
    """What there is to say of an engine."""

    engine: str  #: as ``serve --prove`` names it, without passwords
    workers: int  #: that gave a sign of life lately
    dropped: tuple[str, ...]  #: names, with the reason
    trouble: str  #: why no proof is made now; empty if one is


class Workers(Protocol):
    """An engine: workers that prove assignments.  Methods may be called from any thread."""

    @property
    def places(self) -> int:
        """How many assignments are worth handing in at once; it follows how many workers there are."""

    def start(self) -> None:
        """Begin to look for workers; nothing is waited for."""

    def prove(self, work: Work) -> WorkResult:
        """What some worker made of it; nobody has checked that.  Blocks, for a limited time.

        Raises:
            UnreachedError: nobody finished it.
            StoppingError: :meth:`close` was called.
        """

    def drop(self, worker: str, reason: str) -> None:
        """Give this worker nothing more."""

    def status(self) -> WorkersStatus:
        """Does not wait for anybody."""

    def close(self) -> None:
        """End the waiting of every :meth:`prove`, and what this engine started."""
