# SPDX-License-Identifier: GPL-3.0-or-later
"""The mechanism and its hints for one class: native where possible, else the kernel's reference.  SPEC B."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload

import numpy as np

from ragseal.backends.asked import Scores, check_asked
from ragseal.backends.native import available, native
from ragseal.kernel import field, noise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.lottery_hints import lottery_hints
from ragseal.kernel.lottery_mechanism import select_lottery
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_hints import noise_hints
from ragseal.kernel.noise_mechanism import select_noise
from ragseal.kernel.statement import Returned

T = TypeVar("T")


class Engine(Protocol):
    """Noise over every slot on a fixed schedule, exact top-K, and the committed hints.

    Scores are those of a whole index: N of every shard, one shard after the other.
    """

    def answer(self, key: int, w: Scores, hmax: int, prizes: int = 0, /) -> tuple[Returned, ...]:
        """T: the K slots with the largest (v_i, -i), increasing, with flags.  UnprovableError where no proof exists.

        ``prizes``: the policy's under the lottery; 0 of another law.
        """

    def shard_hints(self, key: int, w: Scores, hmax: int, prizes: int = 0, /) -> ShardHints:
        """What the proofs of every shard open."""


class ShardHints(Sequence[bytes]):
    """The hint vector h of every shard of a query, packed, and the threshold that they share.

    Vectors are megabytes each: one is computed whenever it is asked for.
    """

    def __init__(self, shards: int, of: Callable[[int], bytes], threshold: tuple[int, int] | None = None) -> None:
        """
        Args:
            of: the vector of one shard.
            threshold: (v*, i*); None of a class with one shard, where it is among the hints.
        """
        self._shards, self._of = range(shards), of
        self.threshold = threshold

    def __len__(self) -> int:
        return len(self._shards)

    @overload
    def __getitem__(self, shard: int) -> bytes: ...
    @overload
    def __getitem__(self, shard: slice) -> Sequence[bytes]: ...
    def __getitem__(self, shard: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(shard, slice):
            return [self._of(at) for at in self._shards[shard]]
        return self._of(self._shards[shard])

    def __repr__(self) -> str:
        return f"ShardHints({len(self)})"


class OneShard(ABC):
    """What engines of classes with one shard have in common."""

    @abstractmethod
    def hints(self, key: int, w: Scores, hmax: int, prizes: int = 0, /) -> bytes:
        """The hint vector h, packed."""

    def shard_hints(self, key: int, w: Scores, hmax: int, prizes: int = 0) -> ShardHints:
        """Those of the one shard."""
        return ShardHints(1, lambda _: self.hints(key, w, hmax, prizes))


class ReferenceLotteryEngine(OneShard):
    """The kernel's plain integers for a lottery's class: the fallback, and what native code is compared with.

    ``hmax`` is H in units of w.
    """

    def __init__(self, cls: LotteryClass) -> None:
        self._cls = cls

    def answer(self, key: int, w: Scores, hmax: int, prizes: int = 0) -> tuple[Returned, ...]:
        check_asked(self._cls, key, w, hmax, prizes)
        return select_lottery(self._cls, key, _integers(w), hmax, prizes).returned

    def hints(self, key: int, w: Scores, hmax: int, prizes: int = 0) -> bytes:
        check_asked(self._cls, key, w, hmax, prizes)
        scores = _integers(w)
        selection = select_lottery(self._cls, key, scores, hmax, prizes)
        return field.pack(lottery_hints(self._cls, selection, scores, hmax, prizes))


class NativeLotteryEngine(OneShard):
    """The native module's lottery; :mod:`ragseal.kernel.lottery_mechanism` is the reference."""

    def __init__(self, cls: LotteryClass) -> None:
        self._cls = cls
        sizes = {n: getattr(cls, n) for n in ("N", "K", "R", "m", "q", "c", "prizes")}
        self._engine = native.LotteryEngine(sizes, cls.grid)

    def answer(self, key: int, w: Scores, hmax: int, prizes: int = 0) -> tuple[Returned, ...]:
        check_asked(self._cls, key, w, hmax, prizes)
        return winners(_done(lambda: self._engine.answer(field.to_bytes(key), _buffer(w), hmax, prizes)))

    def hints(self, key: int, w: Scores, hmax: int, prizes: int = 0) -> bytes:
        check_asked(self._cls, key, w, hmax, prizes)
        return _done(lambda: self._engine.hints(field.to_bytes(key), _buffer(w), hmax, prizes))


class ReferenceNoiseEngine:
    """The kernel's plain integers for a noise class, over one shard or several; ``hmax`` is H in steps."""

    def __init__(self, cls: NoiseClass) -> None:
        self._cls = cls

    def answer(self, key: int, w: Scores, hmax: int, prizes: int = 0) -> tuple[Returned, ...]:
        check_asked(self._cls, key, w, hmax, prizes)
        return select_noise(self._cls, key, self._scores(w), hmax).returned

    def shard_hints(self, key: int, w: Scores, hmax: int, prizes: int = 0) -> ShardHints:
        check_asked(self._cls, key, w, hmax, prizes)
        scores = self._scores(w)
        found = select_noise(self._cls, key, scores, hmax)
        return ShardHints(
            len(scores),
            lambda shard: field.pack(noise_hints(self._cls, found, shard, scores[shard], hmax)),
            (found.threshold, found.threshold_slot),
        )

    def _scores(self, w: Scores) -> list[list[int]]:
        return [_integers(part) for part in np.reshape(w, (-1, self._cls.N))]


class NativeNoiseEngine:
    """The native module's engine with noise; :mod:`ragseal.kernel.noise_mechanism` is the reference."""

    def __init__(self, cls: NoiseClass) -> None:
        table = noise.build_table(cls.law)
        cumulative = [before for before, _ in noise.folded_rows(table)] + [table.total]
        sizes = {**{n: getattr(cls, n) for n in ("N", "K", "R", "m", "q", "c", "S")}, "bits": table.bits}
        self._cls = cls
        self._engine = native.NoiseEngine(
            sizes, list(cls.bounds), [f.to_bytes(16, "big") for f in cumulative], cls.grid
        )

    def answer(self, key: int, w: Scores, hmax: int, _prizes: int = 0) -> tuple[Returned, ...]:
        return self.select(key, w, hmax).returned

    def respond(
        self,
        key: int,
        rows: native.ScoreMatrix,
        columns: Sequence[native.Committer],
        embedding: bytes,
        line: tuple[int, int],
        hmax: int,
        rhos: Sequence[int],
    ) -> native.Response:
        """As :func:`ragseal.backends.response.respond`."""
        noise_key, blinders = field.to_bytes(key), [field.to_bytes(rho) for rho in rhos]
        return _done(lambda: self._engine.respond(noise_key, rows, list(columns), embedding, line, hmax, blinders))

    def shard_hints(self, key: int, w: Scores, hmax: int, _prizes: int = 0) -> ShardHints:
        found, shards = self.select(key, w, hmax), np.reshape(w, (-1, self._cls.N))
        return ShardHints(
            len(shards),
            lambda shard: self.hints(key, shards[shard], hmax, (shard, len(shards)), found),
            (found.threshold, found.threshold_slot),
        )

    def select(self, key: int, w: Scores, steps: int) -> NoiseAnswer:
        """T of all shards' scores, (shards, N).  UnprovableError where one shard's proof does not exist."""
        check_asked(self._cls, key, w, steps, 0)
        found = _done(lambda: self._engine.answer(field.to_bytes(key), _buffer(w), steps))
        return NoiseAnswer(winners(found), found["v"], found["i_star"])

    def hints(self, key: int, w: Scores, steps: int, place: tuple[int, int], answer: NoiseAnswer) -> bytes:
        """The hint vector of one shard, packed: of its own scores and of what all shards have in common.

        ``place``: its number, and how many shards there are.
        """
        packed = [one.packed for one in answer.returned]
        threshold = answer.threshold, answer.threshold_slot
        return _done(lambda: self._engine.hints(field.to_bytes(key), _buffer(w), steps, place, threshold, packed))


@dataclass(frozen=True, slots=True)
class NoiseAnswer:
    """T of an index, and its threshold, which stays secret: what one shard's prover needs of all."""

    returned: tuple[Returned, ...]
    threshold: int
    threshold_slot: int

    def __repr__(self) -> str:
        return "NoiseAnswer(...)"


def winners(found: native.Selection | native.NoiseSelection | native.Response) -> tuple[Returned, ...]:
    """T as the native module gives it."""
    return tuple(Returned(slot, flag) for slot, flag in zip(found["ids"], found["flags"], strict=True))


def _done(call: Callable[[], T]) -> T:
    """What the native module gives; UnprovableError where it names a completeness failure, else AttestationError."""
    try:
        return call()
    except native.NativeError as error:
        text = str(error)
    if text.startswith("overflow"):
        raise UnprovableError(f"{text}; the record cannot be proven")
    raise AttestationError(text)


def _buffer(w: Scores) -> bytes:
    return np.ascontiguousarray(w, dtype="<i8").tobytes()


def _integers(w: Scores | Sequence[int]) -> list[int]:
    return [int(x) for x in w]


#: By kind of law: the native module's engine, and the kernel's.
ENGINES: dict[str, tuple[Callable[[Any], Engine], Callable[[Any], Engine]]] = {
    NoiseClass.kind: (NativeNoiseEngine, ReferenceNoiseEngine),
    LotteryClass.kind: (NativeLotteryEngine, ReferenceLotteryEngine),
}


def open_engine(cls: AttestationClass) -> Engine:
    """The fastest engine there is on this machine."""
    fast, plain = ENGINES[cls.kind]
    return fast(cls) if available() else plain(cls)
