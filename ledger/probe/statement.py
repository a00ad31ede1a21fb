# SPDX-License-Identifier: GPL-3.0-or-later
"""What an observer states of its probe: every answer of its accounts in one window, for an auditor to count again.

The statement has no number that does not follow from the answers in it.  What follows from none of them is the
observer's word alone: which accounts it asked with, when it stopped, and that its two tenants differ in the pair alone.
So a count can mislead by choice, and no verdict rests on it.  Each answer is evidence by itself, whoever signed the
statement.  SPEC D.13.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ragseal.kernel import signature
from ragseal.kernel.attestation import MAX_QUERY_BYTES, Answer, Request
from ragseal.kernel.encoding import HASH, NAME, PUBLIC_KEY, SIGNATURE, U32, Codec, Fixed, Many, Message, Nested, Text
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.transcript import tagged_hash

MAX_ASKED = 1 << 14
PURPOSE = "probe-statement"


@dataclass(frozen=True, slots=True)
class ProbeAnswer(Message):
    """One question of a probe, with what came back and the salt that ties both together."""

    TAG: ClassVar[str] = "probe-answer"
    CODECS: ClassVar[Sequence[Codec]] = (Fixed(32), Text(MAX_QUERY_BYTES), Nested(Answer))

    salt: bytes  #: of h_q
    query: str  #: the question
    answer: Answer  #: as the account keeps it

    @property
    def request(self) -> Request:
        """What the account signed."""
        return self.answer.record.signed.request


@dataclass(frozen=True, slots=True)
class Planted(Message):
    """A document that the operator put into one tenant for the probe."""

    TAG: ClassVar[str] = "planted"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, Text(MAX_QUERY_BYTES))

    tenant: str  #: in whose index it is
    text: str  #: its text, and of the first of a pair also the question


@dataclass(frozen=True, slots=True)
class ProbeStatement(Message):
    """All answers of an observer's accounts in one window, under the observer's signature (D.13)."""

    TAG: ClassVar[str] = "probe-statement"
    CODECS: ClassVar[Sequence[Codec]] = (
        HASH, PUBLIC_KEY, Many(Nested(Planted), 2), Many(U32, 2), Many(Nested(ProbeAnswer), MAX_ASKED), SIGNATURE,
    )  # fmt: skip

    manifest: bytes  #: digest of the window's manifest, which names the log
    observer: bytes  #: its key
    planted: tuple[Planted, ...]  #: the canary and its replacement; none: there is no planted pair
    hits: tuple[int, ...]  #: how often the planted slot came back inside and outside; none without a pair
    answers: tuple[ProbeAnswer, ...]  #: of each account all that it has in the window
    signature: bytes  #: of the observer, purpose "probe-statement"

    def body(self) -> bytes:
        """What is signed."""
        return tagged_hash("probe-statement-body", replace(self, signature=bytes(64)).encode())

    def signed(self, key: SigningKey) -> ProbeStatement:
        """The same under the observer's signature."""
        return replace(self, signature=signature.sign(key, PURPOSE, self.body()))

    def verify(self) -> None:
        """The observer that it names has signed it, else AttestationError."""
        signature.verify(self.observer, PURPOSE, self.body(), self.signature)


@dataclass(frozen=True, slots=True)
class Worlds:
    """What the planted pair's queries brought, in the order of the statement."""

    inside: tuple[bool, ...]  #: of each query for the canary in its own tenant, whether its slot came back
    outside: tuple[bool, ...]  #: of each in the other tenant, whether the replacement's slot did
    slots: tuple[int | None, int]  #: of the canary, None where no answer shows it, and of its replacement

    @property
    def hits(self) -> tuple[int, int]:
        """How often the planted slots came back, inside and outside."""
        return sum(self.inside), sum(self.outside)


TenantOf = Callable[[Request], str]


def check_asked(answers: Sequence[ProbeAnswer], manifest: bytes) -> None:
    """Each answer is to the question beside it, in this window, and stands there once.

    Raises:
        AttestationError: it is not.
    """
    seen: set[bytes] = set()
    for number, one in enumerate(answers):
        if one.request.manifest != manifest:
            raise AttestationError(f"answer {number} is of a different window")
        if tagged_hash("query", one.salt, one.query.encode("utf-8")) != one.request.query_digest:
            raise AttestationError(f"answer {number} is not to the question that the statement has")
        record = one.answer.record.digest()
        if record in seen:
            raise AttestationError(f"answer {number} is counted twice")
        seen.add(record)


def check_complete(answers: Sequence[ProbeAnswer], recorded: Sequence[Request]) -> None:
    """Of each account that the answers name, all that it asked in the window is there: misses cannot be left out.

    Args:
        recorded: the requests of the window's records.

    Raises:
        AttestationError: names the account's pseudonym and how many are missing.
    """
    stated: dict[str, set[int]] = defaultdict(set)
    for one in answers:
        stated[one.request.account].add(one.request.ctr)
    asked: dict[str, set[int]] = defaultdict(set)
    for request in recorded:
        asked[request.account].add(request.ctr)
    for account, numbers in stated.items():
        missing = len(asked[account] - numbers)
        if missing:
            raise AttestationError(
                f"it leaves out {missing} of the {len(asked[account])} answers of account {account[:8]}: a count of "
                "chosen answers says nothing. State all of them: `ragseal-observer probe --queries 0`"
            )


def count(planted: Sequence[Planted], answers: Sequence[ProbeAnswer], tenant_of: TenantOf) -> Worlds | None:
    """Count the planted pair's hits; None where there is no pair.

    The texts in the answers are taken as they stand: whether they are the index's is checked with the answers.

    A canary that no answer shows was never returned: its text comes with it.

    Raises:
        AttestationError: one document alone, both in one tenant, one of which answers show several slots, a replacement
            whose slot no answer shows, or no query for the canary in one of the tenants.
    """
    if not planted:
        return None
    if len(planted) != 2 or planted[0].tenant == planted[1].tenant:
        raise AttestationError("a planted pair is two documents in two tenants")
    canary = planted[0].text
    worlds: list[tuple[bool, ...]] = []
    slots: list[int | None] = []
    for one in planted:
        own = [asked for asked in answers if tenant_of(asked.request) == one.tenant]
        shown = {
            slot.slot
            for asked in own
            for slot in asked.answer.openings.slots
            if slot.content is not None and slot.content.text == one.text
        }
        if len(shown) > 1 or (not shown and one is not planted[0]):
            raise AttestationError(f"the planted document of tenant {one.tenant} is in {len(shown)} known slots, not 1")
        slot = next(iter(shown), None)
        asked_for = [asked for asked in own if asked.query == canary]
        if not asked_for:
            raise AttestationError(f"nobody asked for the canary in tenant {one.tenant}")
        worlds.append(tuple(slot in [s.slot for s in asked.answer.openings.slots] for asked in asked_for))
        slots.append(slot)
    assert slots[1] is not None
    return Worlds(worlds[0], worlds[1], (slots[0], slots[1]))
