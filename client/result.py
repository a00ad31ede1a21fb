# SPDX-License-Identifier: GPL-3.0-or-later
"""What a caller gets: checked texts, re-ranked on this machine.  SPEC M.5.

The provider releases a set in slot order, since the order of noisy scores carries more; ranking the texts one already
holds with the public embedder costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from ragseal.client.attestation import decode_embedding
from ragseal.client.window import Exchange
from ragseal.embedder import Embedder, quantise
from ragseal.kernel.attestation import Answer, Receipt, Record
from ragseal.kernel.errors import AuditError
from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.policy import Policy
from ragseal.runtime.metadata import Plain, mapping_of


@dataclass(frozen=True, slots=True)
class Opened:
    """What a returned slot holds, as the manifest commits to it."""

    slot: int
    id: str  #: the document's, unique in its tenant's index
    text: str
    metadata: Mapping[str, Plain]


@dataclass(frozen=True, slots=True)
class Ranked(Opened):
    """A returned document with the score of its text against the query, computed on this machine."""

    score: int  #: inner product of the quantised embeddings; 127^2 is cosine 1

    @property
    def cosine(self) -> float:
        return self.score / SCORE_UNIT**2


@dataclass(frozen=True, slots=True)
class Result:
    """A checked answer."""

    opened: tuple[Opened, ...]  #: of the returned slots with the flag, by increasing slot
    returned: tuple[int, ...]  #: all of them; those not in ``opened`` came by chance, or the guard withholds them
    receipt: Receipt
    record: Record
    checked: bool  #: the committed e is this client's own, entry by entry
    ranked: tuple[Ranked, ...] | None  #: best first; None without an embedder, or where a declared one is away
    claim: str = ""  #: what the window claims of this account's tenant, SPEC D.24
    withheld: tuple[int, ...] = ()  #: the slot with the flag whose text the policy's guard withholds, SPEC M.10
    answer: str | None = (
        None  #: the provider's text, of a window of the claim answers; ``opened`` are its keywords then
    )
    unanswered: tuple[str, ...] = ()  #: windows that ended on this question: signed there, refused, asked again here
    #: Ranks what came while the embedder was away.
    _later: Callable[[], tuple[Ranked, ...]] | None = field(default=None, repr=False, compare=False)

    def rank(self) -> Result:
        """The same answer, ranked now if its embedder was away when it came; nobody but the embedder is asked.

        Raises:
            TransportError: the embedder is away still.
        """
        if self.ranked is not None or self._later is None:
            return self
        return replace(self, ranked=self._later(), _later=None)

    @property
    def slots(self) -> tuple[int, ...]:
        """Of ``opened``."""
        return tuple(one.slot for one in self.opened)

    @property
    def texts(self) -> tuple[str, ...]:
        """Of ``opened``."""
        return tuple(one.text for one in self.opened)

    @property
    def keywords(self) -> tuple[str, ...]:
        """Of an answer, by their slots: which of them many documents hold, and which the noise alone, nobody is "
        "told."""
        return () if self.answer is None else tuple(one.text for one in self.opened if one.text)

    @property
    def best(self) -> Ranked | None:
        """The first of ``ranked``; None where no slot came with a text, or there is no embedder to rank with."""
        return self.ranked[0] if self.ranked else None

    @property
    def unread(self) -> tuple[int, ...]:
        """Returned slots without the flag: no score above the window's lower end, so there is nothing to read."""
        return tuple(slot for slot in self.returned if slot not in (*self.slots, *self.withheld))

    @property
    def held(self) -> str:
        """How many of the returned slots came with a text, for people; says why where none did."""
        if self.answer is not None:
            return f"{len(self.keywords)} keywords, some of them by the noise alone; no document was handed out"
        came, returned = len(self.slots), len(self.returned)
        if not returned:
            return "nothing was returned: no document scores high enough for these words; other words may find one"
        if came == returned:
            return f"all {returned} returned slots came with a text"
        by_chance = len(self.unread)
        said = f"{came or 'none'} of the {returned} returned slots came with a text"
        if by_chance:
            said += f", {'all' if by_chance == returned else by_chance} by chance alone"
        if self.withheld:
            said += f"; the guard of this window withholds the text of slot {self.withheld[0]}"
        if came:
            return said
        return f"{said}: no document scores high enough for these words, or chance hid it; other words may find it"


@dataclass(frozen=True, slots=True)
class Owed:
    """A signed request without an answer, as :meth:`ragseal.client.client.Client.resume` found it."""

    window: str
    ctr: int | None  #: None where the folder is too damaged to tell
    reason: AuditError  #: why there is no answer
    given_up: bool  #: its window is over and the provider has no record of it: asked again only on demand
    folder: Path  #: holds the request as it was signed
    trouble: AuditError | None = None  #: why it could not be given up, though it would have been


@dataclass(frozen=True, slots=True)
class Resumed:
    """What became of the requests that were pending."""

    results: tuple[Result, ...]  #: answers that came and were checked, oldest window first
    owed: tuple[Owed, ...]  #: what got none
    given_up: int  #: requests that were given up before, and not asked for now


def make_result(exchange: Exchange, answer: Answer, embedder: Embedder | None, rules: Policy) -> Result:
    """A checked answer as the caller sees it; documents are ranked where there is an embedder.

    ``rules``: the policy that holds for the account's tenant.
    """
    result = kept_result(answer, rules)
    if embedder is None or rules.answers:
        return result
    result = replace(result, _later=partial(_ranked, exchange, result.opened, embedder))
    try:
        return result.rank()
    except AuditError:  # the embedder is away, or says what is no vector: the answer is here, checked and paid for
        return result


def kept_result(answer: Answer, rules: Policy) -> Result:
    """A checked answer from what an account keeps of it, not ranked; ``rules``: as of :func:`make_result`."""
    return Result(
        opened=tuple(
            Opened(slot.slot, found.id, found.text, mapping_of(found.metadata))
            for slot in answer.openings.slots
            if (found := slot.content) is not None
        ),
        returned=tuple(slot.slot for slot in answer.openings.slots),
        withheld=tuple(slot.slot for slot in answer.openings.slots if slot.flag and not slot.texts),
        receipt=answer.receipt,
        record=answer.record,
        checked=answer.record.signed.request.checked,
        ranked=None,
        claim=rules.claim,
        answer=answer.openings.answer if rules.answers else None,
    )


def _ranked(exchange: Exchange, opened: Sequence[Opened], embedder: Embedder) -> tuple[Ranked, ...]:
    """Best first.  Raises TransportError: a declared embedder is away."""
    scores: list[int] = []
    if opened:
        e = np.asarray(decode_embedding(exchange.prepared.embedding), dtype=np.int64)
        rows = quantise(embedder.embed([one.text for one in opened], role="document"))
        scores = [int(x) for x in rows.astype(np.int64) @ e]
    pairs = zip(scores, opened, strict=True)
    scored = (Ranked(one.slot, one.id, one.text, one.metadata, score) for score, one in pairs)
    return tuple(sorted(scored, key=lambda r: (-r.score, r.slot)))
