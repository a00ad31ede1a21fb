# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts as logs have them: in the auditor's own log, and as a provider's may hold them.  SPEC D.19, D.20.

Neither holds a verdict: both name the digest of the signed envelope (SPEC D.18), and what is public of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime  # exact: the calendar of a given second, no clock
from typing import ClassVar
from urllib.parse import quote

from ragseal.kernel import signature
from ragseal.kernel.claims import FORMS, LADDER, form_of
from ragseal.kernel.encoding import HASH, NAME, PUBLIC_KEY, SIGNATURE, U64, Codec, Many, Message, Nested, Text
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.params import MAX_TENANTS
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.transcript import tagged_hash

#: The words of D.12 as identifiers, which hold no blank.
PASSED = ("PASS", "SAMPLED-PASS")
OUTCOMES = (*PASSED, "FAIL", "NO-VERDICT")
MOST_VERDICTS = 16  #: of one auditor about one window that a provider's log holds
PURPOSE = "audit-verdict"
UNCOMPARED = "a claim under that key: compare it with the window's auditors"

ANY = "any"  #: of accounts or queries: the claim holds for any number of them
NONE = "none"  #: what a claim that bounds nothing has in the place of a number, which no reader takes for 0
UNBOUNDED = "inf"  #: the return of a claim without decoys
NOTHING_PRIVATE = "private=nothing"  #: beside such a claim, in the verdict's line
NOT_KNOWN = "unknown"  #: epsilon of the whole log, where this auditor cannot compute it
LAST_MINUTE = 253_402_300_740  #: of the year 9999, in seconds since 1970

#: What of a PASS rests on the provider's word, and how the verdict's line says it, in this order.
WORD_OF_THE_PROVIDER = {
    "late": "late=unproven",  #: where documents stand that came when their coins were known
    "filter": "filter=provider",  #: in how many answers a document takes part
    "histograms": "histograms=provider",  #: that they are those of the tenant's documents
    "texts": "texts=provider",  #: that answers say no more than question and keywords
    "vocabulary": "vocabulary=provider",  #: that its words are public
    "embeddings": "embeddings=provider",  #: of queries whose accounts did not check them
    "neighbours": "neighbours=provider",  #: that windows which count kept their rules, though no PASS says so
}

_BOUND = re.compile(r"inf|(0|[1-9][0-9]{0,14})(\.[0-9]{1,12})?(e[+-][0-9]{2,3})?")
_COUNT = re.compile(r"[1-9][0-9]{0,19}")
BOUND = Text(24)


def minute_text(seconds: int) -> str:
    """A minute in UTC as a verdict's line writes it: ``2026-11-27T00:00Z``.  ``seconds``: since 1970."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ}"


@dataclass(frozen=True, slots=True)
class Claimed(Message):
    """All that an epsilon needs to be a claim: whom it holds against, for what time, and whose word it rests on.

    A PASS has one for each claim of its window's tenants, and its line begins with the weakest.  Every symbol of the
    claim's text has its value here.  SPEC D.12.5.
    """

    TAG: ClassVar[str] = "claimed"
    LATER: ClassVar[int] = 1
    CODECS: ClassVar[Sequence[Codec]] = (
        NAME,
        BOUND,
        BOUND,
        BOUND,
        BOUND,
        BOUND,
        U64,
        U64,
        BOUND,
        Many(NAME, len(WORD_OF_THE_PROVIDER)),
        Many(NAME, MAX_TENANTS),
    )

    claim: str  #: `every-list`, `until-delivered`, `answers`, `unseen` or `exact`
    epsilon: str  #: over the budget period, rounded up; of until-delivered and unseen it is unseen; of exact `none`
    returned: str  #: of until-delivered, rounded up; of unseen `inf`; else empty
    delta: str  #: the policy's, as a decimal number rounded up; of exact `none`
    coalition: str  #: number of accounts, or `any`; of exact `none`
    queries: str  #: of one account over the budget period, or `any`; of exact `none`
    period_from: int  #: the minute in which the budget period begins, seconds since 1970; of exact 0
    left_out: int  #: windows of the log, as it was audited, that epsilon does not count
    epsilon_log: str  #: with those windows, rounded up, or `unknown`; empty where there are none
    #: what rests on the provider's word (SPEC D.11.11), in this order: late, filter, histograms, texts, vocabulary,
    #: embeddings, neighbours
    word: tuple[str, ...]
    tenants: tuple[str, ...] = ()  #: whom it holds for, in order; none: for every tenant of the window

    def validate(self) -> None:
        form = FORMS.get(self.claim)
        if form is None:
            raise EncodingError(f"a verdict's claim is none of this version's: {self.claim!r}")
        if self.word != tuple(name for name in WORD_OF_THE_PROVIDER if name in self.word):
            raise EncodingError("what rests on the provider's word is named in order, each once, as this version does")
        if self.tenants != tuple(sorted(set(self.tenants))):
            raise EncodingError("the tenants of a claim are named in order, each once")
        if not form.private:
            numbers = (self.epsilon, self.delta, self.coalition, self.queries)
            beside = (self.returned, self.period_from, self.left_out, self.epsilon_log)
            if set(numbers) != {NONE} or any(beside) or not set(self.word) <= {"embeddings"}:
                raise EncodingError(
                    f"the claim {self.claim} bounds what nobody learns: it has no number, and says {NONE}"
                )
            return
        for name in ("epsilon", "delta"):
            _check_bound(name, getattr(self, name))
        if form.returned and form.plain:
            if (self.returned, self.delta) != (UNBOUNDED, "0"):
                raise EncodingError(f"the claim {self.claim} bounds no return, and nothing of it takes a delta")
        elif form.returned:
            _check_bound("return", self.returned)
        elif self.returned:
            raise EncodingError(f"the claim {self.claim} has no return")
        for name in ("coalition", "queries"):
            if not (_COUNT.fullmatch(getattr(self, name)) if form.counted else getattr(self, name) == ANY):
                raise EncodingError(f"{name} of the claim {self.claim} is {'a count' if form.counted else ANY}")
        if self.period_from % 60 or self.period_from > LAST_MINUTE:
            raise EncodingError("a budget period begins with a whole minute, before the year 10000")
        if bool(self.left_out) != bool(self.epsilon_log):
            raise EncodingError("windows that are left out and epsilon of the whole log are named together")
        if self.epsilon_log and self.epsilon_log != NOT_KNOWN:
            _check_bound("epsilon of the whole log", self.epsilon_log)

    def text(self) -> str:
        """As the verdict's line has it: `epsilon_audit` of no claim without decoys, whose lists tell all they hold."""
        form, word = form_of(self.claim), [WORD_OF_THE_PROVIDER[name] for name in self.word]
        if not form.private:
            return " ".join((f"claim={self.claim} epsilon={NONE} {NOTHING_PRIVATE}", *word))
        epsilon = f"epsilon_audit={self.epsilon} " if form.numbered else ""
        delivered = f" unseen={self.epsilon} return={self.returned}" if self.returned else ""
        log = f" {'epsilon' if form.numbered else 'unseen'}_log={self.epsilon_log}" if self.left_out else ""
        return " ".join(
            (
                f"{epsilon}claim={self.claim} coalition={self.coalition} queries={self.queries}{delivered} "
                f"delta={self.delta} period_from={minute_text(self.period_from)} left_out={self.left_out}{log}",
                *word,
            )
        )


CLAIMED = Many(Nested(Claimed), len(LADDER))


def _check_bound(name: str, value: str) -> None:
    if not _BOUND.fullmatch(value):
        raise EncodingError(f"{name} of a verdict is a plain decimal number, or inf")


def _check(outcome: str, claimed: Sequence[Claimed]) -> None:
    """Raises EncodingError: none of the four outcomes, or a claim that does not go with it."""
    if outcome not in OUTCOMES:
        raise EncodingError(f"a verdict is one of {', '.join(OUTCOMES)}, not {outcome!r}")
    if outcome not in PASSED and claimed:
        raise EncodingError(f"{outcome} has no epsilon")
    if outcome in PASSED and not claimed:
        raise EncodingError(f"a {outcome} names its claim, coalition, queries, delta and period beside its epsilon")
    for one in claimed:
        one.validate()
    check_together(claimed)


def check_together(claimed: Sequence[Claimed]) -> None:
    """What a verdict claims for different tenants of one window.

    Raises:
        EncodingError: not the weakest claim first, each once; or a tenant that none has, or two have.
    """
    names = [one.claim for one in claimed]
    if len(claimed) < 2:
        if any(one.tenants for one in claimed):
            raise EncodingError("the one claim of a verdict is about every tenant, and names none")
        return
    if names != [name for name in LADDER if name in names]:
        raise EncodingError("the claims of a verdict stand in order, the weakest first, each once")
    named = [tenant for one in claimed for tenant in one.tenants]
    if not all(one.tenants for one in claimed) or len(set(named)) < len(named):
        raise EncodingError("of several claims in a verdict each names its tenants, and a tenant has one claim")


def claims_text(claimed: Sequence[Claimed]) -> str:
    """What a verdict claims, as its line has it: the weakest claim, and of several each tenant with its own."""
    said = [one.text() for one in claimed[:1]]
    if len(claimed) > 1:
        said.append("tenants=" + ",".join(f"{one.claim}:{word(name)}" for one in claimed for name in one.tenants))
    return " ".join(said)


def found(outcome: str, claimed: Sequence[Claimed]) -> str:
    """Outcome and claims in one line."""
    return " ".join((outcome, *filter(None, [claims_text(claimed)])))


def word(name: str) -> str:
    """A name in a line: without blanks and without what separates it from the next field."""
    return quote(name, safe="/.:+-_~")


def about(window: tuple[str, bytes] | None, origin: str) -> str:
    """How a line ends: name and manifest's digest of the window, where one was found, and the log's name."""
    named = "" if window is None else f"window={word(window[0])}@{window[1].hex()[:8]} "
    return f"{named}log={word(origin)}"


def log_digest(vkey: str) -> bytes:
    """What names a log by its key: SHA-256 of the key's text form, name+id+base64."""
    return hashlib.sha256(vkey.encode()).digest()


@dataclass(frozen=True, slots=True)
class VerdictEntry(Message):
    """An entry of an auditor's own log: which verdict it signed, about what, and how it ended.  SPEC D.19."""

    TAG: ClassVar[str] = "verdict-entry"
    CODECS: ClassVar[Sequence[Codec]] = (
        PUBLIC_KEY,
        HASH,
        HASH,
        Text(255),
        Text(128),
        Many(HASH, 1),
        NAME,
        CLAIMED,
        U64,
    )

    auditor: bytes  #: the key that signed the verdict
    digest: bytes  #: SHA-256 of the envelope, as its file has it
    log: bytes  #: SHA-256 of the text form of the first key of the log that was audited
    origin: str  #: that log's name
    window: str  #: the window's name; empty where none was found
    manifest: tuple[bytes, ...]  #: its digest; none where no manifest was found
    outcome: str  #: `PASS`, `SAMPLED-PASS`, `FAIL` or `NO-VERDICT`
    claimed: tuple[Claimed, ...]  #: of a PASS, the weakest claim first; else none
    time: int  #: seconds since 1970

    def validate(self) -> None:
        _check(self.outcome, self.claimed)


@dataclass(frozen=True, slots=True)
class AuditVerdict(Message):
    """An auditor's verdict about a window, as a provider may enter it in the log that was audited.  SPEC D.20.

    It is the auditor's claim: whoever wants to rely on it asks for the envelope of that digest.
    """

    TAG: ClassVar[str] = "audit-verdict"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, HASH, PUBLIC_KEY, HASH, NAME, CLAIMED, SIGNATURE)

    manifest: bytes  #: digest of the window's manifest
    log: bytes  #: SHA-256 of the text form of the first key of the log that was audited; no other log may hold this
    auditor: bytes  #: its key, one of the manifest's
    digest: bytes  #: SHA-256 of the envelope, as its file has it
    outcome: str  #: `PASS`, `SAMPLED-PASS`, `FAIL` or `NO-VERDICT`
    claimed: tuple[Claimed, ...]  #: of a PASS, the weakest claim first; else none
    signature: bytes  #: of the auditor, purpose "audit-verdict"

    def validate(self) -> None:
        _check(self.outcome, self.claimed)

    def body(self) -> bytes:
        said = b"".join(one.encode() for one in self.claimed)
        parts = (self.manifest, self.log, self.auditor, self.digest, self.outcome.encode(), said)
        return tagged_hash("audit-verdict-body", *parts)

    def signed(self, key: SigningKey) -> AuditVerdict:
        """The same under the auditor's signature."""
        return replace(self, signature=signature.sign(key, PURPOSE, self.body()))

    def verify(self) -> None:
        """The auditor that it names has signed it, else AttestationError."""
        signature.verify(self.auditor, PURPOSE, self.body(), self.signature)

    def says(self, whose: str = UNCOMPARED) -> str:
        """One sentence for people who read the log.  It names whose claim it is, since nobody else vouches for it.

        ``whose``: whether that is an auditor of the window, where the reader has its manifest.
        """
        return f"audited: {found(self.outcome, self.claimed)} by {self.auditor.hex()} ({whose})"
