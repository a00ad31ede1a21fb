# SPDX-License-Identifier: GPL-3.0-or-later
"""The mechanism and its hints for one class: native where possible, else the kernel's reference.  SPEC B."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar, overload

import numpy as np

from ragseal.backends.asked import ScoreLine, Scores, check_asked
from ragseal.backends.native import available, native
from ragseal.kernel import field, noise
from ragseal.kernel.classes import Asked, AttestationClass
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.hints import assign
from ragseal.kernel.decoys.law import Selection, select
from ragseal.kernel.decoys.table import DrawTable, table_of_rows
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_hints import noise_hints
from ragseal.kernel.noise_mechanism import select_noise
from ragseal.kernel.statement import Returned
from ragseal.kernel.statements import stated_of

T = TypeVar("T")


class Engine(Protocol):
    """T of an index, and what its proofs open.

    Scores are those of a whole index: N of every shard, one shard after the other; of decoys y, else w.
    """

    def answer(self, key: int, w: Scores, asked: Asked, /) -> tuple[Returned, ...]:
        """T, by increasing slot of the whole index, with flags.  UnprovableError where no proof exists."""

    def hidden(self, key: int, w: Scores, asked: Asked, /) -> Hidden:
        """What the commitments of every shard's proof open to."""


class Hidden(Sequence[tuple[bytes, ...]]):
    """The witnesses of every shard of a query, packed, and what its shards share: the opening of C_v.

    Witnesses are megabytes each: those of a shard are computed whenever they are asked for.
    """

    def __init__(self, shards: int, of: Callable[[int], tuple[bytes, ...]], shared: Sequence[int]) -> None:
        """
        Args:
            of: the witnesses of one shard, in the order of :attr:`ragseal.kernel.committed.CommittedBases.own`.
        """
        self._shards, self._of = range(shards), of
        self.shared = tuple(shared)

    def __len__(self) -> int:
        return len(self._shards)

    @overload
    def __getitem__(self, shard: int) -> tuple[bytes, ...]: ...
    @overload
    def __getitem__(self, shard: slice) -> Sequence[tuple[bytes, ...]]: ...
    def __getitem__(self, shard: int | slice) -> tuple[bytes, ...] | Sequence[tuple[bytes, ...]]:
        if isinstance(shard, slice):
            return [self._of(at) for at in self._shards[shard]]
        return self._of(self._shards[shard])

    def __repr__(self) -> str:
        return f"Hidden({len(self)})"


class ReferenceNoiseEngine:
    """The kernel's plain integers for a noise class: the fallback, and what native code is compared with."""

    def __init__(self, cls: NoiseClass) -> None:
        self._cls = cls

    def answer(self, key: int, w: Scores, asked: Asked) -> tuple[Returned, ...]:
        check_asked(self._cls, key, w, asked)
        return select_noise(self._cls, key, _shards(w, self._cls.N), *asked.inputs).returned

    def hidden(self, key: int, w: Scores, asked: Asked) -> Hidden:
        check_asked(self._cls, key, w, asked)
        scores, (hmax,) = _shards(w, self._cls.N), asked.inputs
        found = select_noise(self._cls, key, scores, hmax)
        return Hidden(
            len(scores),
            lambda shard: (field.pack(noise_hints(self._cls, found, shard, scores[shard], hmax)),),
            (found.threshold, found.threshold_slot),
        )


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

    def answer(self, key: int, w: Scores, asked: Asked) -> tuple[Returned, ...]:
        return self.select(key, w, asked).returned

    def respond(
        self,
        key: int,
        rows: native.ScoreMatrix,
        columns: Sequence[native.Committer],
        embedding: bytes,
        line: ScoreLine,
        rhos: Sequence[int],
    ) -> native.Response:
        """As :func:`ragseal.backends.response.respond`."""
        noise_key, blinders, (hmax,) = field.to_bytes(key), [field.to_bytes(rho) for rho in rhos], line.asked.inputs
        scale = line.lo, line.gain
        return done(lambda: self._engine.respond(noise_key, rows, list(columns), embedding, scale, hmax, blinders))

    def hidden(self, key: int, w: Scores, asked: Asked) -> Hidden:
        found, shards = self.select(key, w, asked), np.reshape(w, (-1, self._cls.N))
        return Hidden(
            len(shards),
            lambda shard: (self.hints(key, shards[shard], asked.inputs[0], (shard, len(shards)), found),),
            (found.threshold, found.threshold_slot),
        )

    def select(self, key: int, w: Scores, asked: Asked) -> NoiseAnswer:
        """T of all shards' scores, (shards, N).  UnprovableError where one shard's proof does not exist."""
        check_asked(self._cls, key, w, asked)
        found = done(lambda: self._engine.answer(field.to_bytes(key), buffer_of(w), asked.inputs[0]))
        return NoiseAnswer(winners(found), found["v"], found["i_star"])

    def hints(self, key: int, w: Scores, steps: int, place: tuple[int, int], answer: NoiseAnswer) -> bytes:
        """The hint vector of one shard, packed: of its own scores and of what all shards have in common.

        ``place``: its number, and how many shards there are.
        """
        packed = [one.packed for one in answer.returned]
        threshold = answer.threshold, answer.threshold_slot
        return done(lambda: self._engine.hints(field.to_bytes(key), buffer_of(w), steps, place, threshold, packed))


class ReferenceDecoysEngine:
    """The kernel's plain integers for a class of decoys."""

    def __init__(self, cls: DecoysClass) -> None:
        self._cls = cls

    def answer(self, key: int, w: Scores, asked: Asked) -> tuple[Returned, ...]:
        return self._select(key, w, asked)[0].listed(self._cls.N)

    def hidden(self, key: int, w: Scores, asked: Asked) -> Hidden:
        found, table, scores = self._select(key, w, asked)
        shared, made = assign(self._cls, table, found, scores, *asked.inputs)

        def witnesses(shard: int) -> tuple[bytes, ...]:
            one = made[shard]
            return field.pack(one.members), field.pack(one.behind), field.pack(one.hints), field.pack([one.count])

        return Hidden(len(scores), witnesses, shared.values())

    def _select(self, key: int, w: Scores, asked: Asked) -> tuple[Selection, DrawTable, list[list[int]]]:
        check_asked(self._cls, key, w, asked)
        table, scores, (lo, K) = table_of_rows(self._cls.L, asked.table), _shards(w, self._cls.N), asked.inputs
        return select(self._cls, table, key, scores, lo, K), table, scores


class NativeDecoysEngine:
    """The native module's; :mod:`ragseal.kernel.decoys.law` is the reference."""

    def __init__(self, cls: DecoysClass) -> None:
        self._cls = cls
        self._of = lru_cache(maxsize=4)(self._made)

    def _made(self, table: tuple[int, ...]) -> native.DecoysEngine:
        table_of_rows(self._cls.L, table)  # refuses what is none
        sizes = {name: getattr(self._cls, name) for name in ("N", "draws", "room", "c", "chunks", "S")}
        return native.DecoysEngine(sizes, [row.to_bytes(16, "big") for row in table])

    def answer(self, key: int, w: Scores, asked: Asked) -> tuple[Returned, ...]:
        return winners(self._answer(key, w, asked))

    def respond(
        self,
        key: int,
        rows: native.ScoreMatrix,
        columns: Sequence[native.Committer],
        embedding: bytes,
        line: ScoreLine,
        rhos: Sequence[int],
    ) -> native.Response:
        """As :func:`ragseal.backends.response.respond`."""
        engine, draws_key, blinders = self._of(line.asked.table), field.to_bytes(key), map(field.to_bytes, rhos)
        lo, ids = line.asked.inputs
        return done(lambda: engine.respond(draws_key, rows, list(columns), embedding, lo, ids, list(blinders)))

    def hidden(self, key: int, w: Scores, asked: Asked) -> Hidden:
        found, engine = self._answer(key, w, asked), self._of(asked.table)
        packed, scores, (lo, ids) = field.to_bytes(key), buffer_of(w), asked.inputs

        def witnesses(shard: int) -> tuple[bytes, ...]:
            *one, count = done(lambda: engine.assignment(packed, scores, lo, ids, shard))
            return (*one, field.pack([count]))

        ends = int(found["short"]), int(found["over"]), len(found["ids"])
        return Hidden(w.size // self._cls.N, witnesses, (found["v"], found["i_star"], *ends))

    def _answer(self, key: int, w: Scores, asked: Asked) -> native.DecoysSelection:
        check_asked(self._cls, key, w, asked)
        engine = self._of(asked.table)
        return done(lambda: engine.answer(field.to_bytes(key), buffer_of(w), *asked.inputs))


def hidden_wires(cls: AttestationClass, w: Sequence[int], witnesses: Sequence[bytes], beta: int) -> bytes:
    """As :meth:`ragseal.kernel.stated.Stated.wires`, which is the reference."""
    made = WIRES.get(cls.kind) if available() else None
    return made(cls, w, witnesses, beta) if made else stated_of(cls).wires(w, witnesses, beta)


def _decoys_wires(cls: DecoysClass, w: Sequence[int], witnesses: Sequence[bytes], beta: int) -> bytes:
    members, behind, hints, count = witnesses
    chunks, scores, packed = (cls.c, cls.chunks), buffer_of(np.array(w, dtype=np.int64)), field.to_bytes(beta)
    x, z = done(lambda: native.decoys_wires(chunks, scores, members, behind, hints, packed))
    return b"".join((x, z, memoryview(hints)[len(z) :], count))


@dataclass(frozen=True, slots=True)
class NoiseAnswer:
    """T of an index, and its threshold, which stays secret: what one shard's prover needs of all."""

    returned: tuple[Returned, ...]
    threshold: int
    threshold_slot: int

    def __repr__(self) -> str:
        return "NoiseAnswer(...)"


def winners(found: native.NoiseSelection | native.DecoysSelection | native.Response) -> tuple[Returned, ...]:
    """T as the native module gives it."""
    return tuple(Returned(slot, flag) for slot, flag in zip(found["ids"], found["flags"], strict=True))


def done(call: Callable[[], T]) -> T:
    """What the native module gives; UnprovableError where it names a completeness failure, else AttestationError."""
    try:
        return call()
    except native.NativeError as error:
        text = str(error)
    if text.startswith("overflow"):
        raise UnprovableError(f"{text}; the record cannot be proven")
    raise AttestationError(text)


def buffer_of(w: Scores) -> bytes:
    return np.ascontiguousarray(w, dtype="<i8").tobytes()


def _shards(w: Scores, N: int) -> list[list[int]]:
    """Scores of every shard."""
    return [[int(x) for x in part] for part in np.reshape(w, (-1, N))]


#: By kind of law: what the native module makes of witnesses; of others the kernel does.
WIRES: dict[str, Callable[[Any, Sequence[int], Sequence[bytes], int], bytes]] = {DecoysClass.kind: _decoys_wires}

#: By kind of law: the native module's engine, and the kernel's.
ENGINES: dict[str, tuple[Callable[[Any], Engine], Callable[[Any], Engine]]] = {
    NoiseClass.kind: (NativeNoiseEngine, ReferenceNoiseEngine),
    DecoysClass.kind: (NativeDecoysEngine, ReferenceDecoysEngine),
}


def open_engine(cls: AttestationClass) -> Engine:
    """The fastest engine there is on this machine."""
    fast, plain = ENGINES[cls.kind]
    return fast(cls) if available() else plain(cls)
