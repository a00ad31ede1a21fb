# SPDX-License-Identifier: GPL-3.0-or-later
"""keys.json: which verifying keys an auditor believes in, and who made them, under the auditor's own signature.

Who made a key is what a verdict hangs on, and a file says it: one that was copied from another auditor's folder, or
written by hand, must not make somebody else's key this auditor's own.  So every line is signed by the identity of the
folder that it was written in; in any other folder the key is there, and its maker is unknown.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from ragseal.kernel import signature
from ragseal.kernel.errors import AttestationError, ConfigurationError
from ragseal.kernel.printable import printable
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.transcript import tagged_hash
from ragseal.verifier.evidence.evidence import AUDITOR, CEREMONY, PROVIDER, UNKNOWN

KEYS_FILE = "keys.json"
PURPOSE = "auditor-key-line"
_ANOTHER = re.compile(f"{AUDITOR}:[0-9a-f]{{64}}")
_OPTIONAL = {"signature", "ceremony"}


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One entry of keys.json; digests in hexadecimal, ``path`` relative to the folder or absolute."""

    key_digest: str
    class_name: str
    class_digest: str
    made_by: str
    path: str  #: not signed: a folder may be moved, and the key that lies there has to give the digest
    signature: str = ""  #: of the folder's identity, 128 hexadecimal digits
    ceremony: str = ""  #: what a ceremony's key was taken for, as JSON (:mod:`ragseal.verifier.ceremony.trusting`)

    @classmethod
    def read(cls, values: Any) -> KeyEntry:
        """Raises ConfigurationError: not such an entry."""
        names = list(cls.__dataclass_fields__)
        if not isinstance(values, dict) or not set(names) - _OPTIONAL <= set(values) <= set(names):
            raise ConfigurationError(f"{KEYS_FILE}: an entry has exactly the fields {', '.join(names)}")
        if not all(isinstance(value, str) for value in values.values()):
            raise ConfigurationError(f"{KEYS_FILE}: every field is text")
        line = cls(**values)
        read_digest(line.key_digest)
        read_digest(line.class_digest)
        if line.made_by not in (AUDITOR, CEREMONY, PROVIDER) and not _ANOTHER.fullmatch(line.made_by):
            raise ConfigurationError(
                f"{KEYS_FILE}: made_by is {AUDITOR}, {AUDITOR}:<key of another>, {CEREMONY} or {PROVIDER}, not "
                f"{line.made_by!r}"
            )
        return line

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.key_digest)

    def _body(self) -> bytes:
        parts = (self.key_digest, self.class_name, self.class_digest, self.made_by, self.ceremony)
        return tagged_hash(PURPOSE, *(part.encode() for part in parts))

    def signed(self, identity: SigningKey) -> KeyEntry:
        """The line as this identity's own."""
        return replace(self, signature=signature.sign(identity, PURPOSE, self._body()).hex())

    def maker(self, identity: bytes) -> str:
        """Who made the key, as far as the folder with this public key has signed it: ``made_by``, or UNKNOWN.

        A ceremony's key that says of nobody whom this auditor knew is nobody's.
        """
        try:
            signature.verify(identity, PURPOSE, self._body(), bytes.fromhex(self.signature))
        except (AttestationError, ValueError):
            return UNKNOWN
        return UNKNOWN if self.made_by == CEREMONY and not self.participants else self.made_by

    @property
    def participants(self) -> tuple[str, ...]:
        """Of a ceremony's key: the parties whom the auditor knew when it took the key, fit for a terminal."""
        try:
            known = json.loads(self.ceremony)["known"]
            return tuple(f"{printable(one['name'])[:80]} ({one['key'][:16]})" for one in known)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return ()


def read_digest(text: str) -> bytes:
    """32 bytes from their 64 lower-case hexadecimal digits.  Raises ConfigurationError: anything else."""
    try:
        value = bytes.fromhex(text)
    except (ValueError, RecursionError):
        value = b""
    if len(value) != 32 or value.hex() != text:
        raise ConfigurationError(f"{text[:80]!r} is not a digest: 64 lower-case hexadecimal digits are expected")
    return value
