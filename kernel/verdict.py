# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts as logs have them: in the auditor's own log, and as a provider's may hold them.  SPEC D.19, D.20.

Neither holds a verdict: both name the digest of the signed envelope (SPEC D.18), and what is public of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ragseal.kernel import signature
from ragseal.kernel.encoding import HASH, NAME, PUBLIC_KEY, SIGNATURE, U64, Codec, Many, Message, Text
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.transcript import tagged_hash

#: The words of D.12 as identifiers, which hold no blank.
PASSED = ("PASS", "SAMPLED-PASS")
OUTCOMES = (*PASSED, "FAIL", "NO-VERDICT")
MOST_VERDICTS = 16  #: of one auditor about one window that a provider's log holds
PURPOSE = "audit-verdict"
UNCOMPARED = "a claim under that key: compare it with the window's auditors"

_BOUND = re.compile(r"inf|(0|[1-9][0-9]{0,14})(\.[0-9]{1,12})?(e[+-][0-9]{2,3})?")
EPSILON = Text(24)


def _check(outcome: str, epsilon: str) -> None:
    """Raises EncodingError: none of the four outcomes, or an epsilon that does not go with it."""
    if outcome not in OUTCOMES:
        raise EncodingError(f"a verdict is one of {', '.join(OUTCOMES)}, not {outcome!r}")
    if outcome not in PASSED and epsilon:
        raise EncodingError(f"{outcome} has no epsilon")
    if outcome in PASSED and not _BOUND.fullmatch(epsilon):
        raise EncodingError(f"the epsilon of a {outcome} is a plain decimal number, or inf")


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
        EPSILON,
        U64,
    )

    auditor: bytes  #: the key that signed the verdict
    digest: bytes  #: SHA-256 of the envelope, as its file has it
    log: bytes  #: :func:`log_digest` of the log that was audited
    origin: str  #: its name
    window: str  #: empty where none was found
    manifest: tuple[bytes, ...]  #: its digest; none where none was found
    outcome: str
    epsilon: str  #: of a PASS, rounded up; else empty
    time: int  #: seconds since 1970

    def validate(self) -> None:
        _check(self.outcome, self.epsilon)


@dataclass(frozen=True, slots=True)
class AuditVerdict(Message):
    """An auditor's verdict about a window, as a provider may enter it in the log that was audited.  SPEC D.20.

    It is the auditor's claim: whoever wants to rely on it asks for the envelope of that digest.
    """

    TAG: ClassVar[str] = "audit-verdict"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, HASH, PUBLIC_KEY, HASH, NAME, EPSILON, SIGNATURE)

    manifest: bytes
    log: bytes  #: :func:`log_digest` of the log that was audited, and that alone may hold this
    auditor: bytes  #: one of the manifest's
    digest: bytes  #: SHA-256 of the envelope, as its file has it
    outcome: str
    epsilon: str  #: of a PASS, rounded up; else empty
    signature: bytes

    def validate(self) -> None:
        _check(self.outcome, self.epsilon)

    def body(self) -> bytes:
        parts = (self.manifest, self.log, self.auditor, self.digest, self.outcome.encode(), self.epsilon.encode())
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
        epsilon = f" epsilon {self.epsilon}" if self.epsilon else ""
        return f"audited: {self.outcome}{epsilon} by {self.auditor.hex()} ({whose})"
