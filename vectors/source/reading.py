# SPDX-License-Identifier: GPL-3.0-or-later
"""What operations read their JSON with."""

from __future__ import annotations

import sys
from typing import Any

from ragseal.backends.group import default_group
from ragseal.backends.native import available, native, native_errors
from ragseal.groth16.verifying_key import VerifyingKey
from ragseal.kernel.classes import attestation_class
from ragseal.kernel.encoding import Message

Json = dict[str, Any]
GROUP = default_group()
un = bytes.fromhex

#: Files of one program, and what its own processes tell each other: nobody else reads them.
PRIVATE = {"account-name", "exchange", "kept-turns", "query-secrets", "work", "work-result"}


def public_kinds() -> dict[str, type[Message]]:
    """Every message that is hashed, signed or sent, by its tag."""

    def below(kind: type[Message]) -> list[type[Message]]:
        return [found for child in kind.__subclasses__() for found in (child, *below(child))]

    # a dataclass with slots leaves a second class of the same name behind: the module's own is the one in use
    kinds = [kind for kind in below(Message) if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind]
    kinds = [kind for kind in kinds if "TAG" in kind.__dict__ and kind.__module__.startswith("ragseal.")]
    return {kind.TAG: kind for kind in kinds if kind.TAG not in PRIVATE}


def read(tag: str, data: str) -> Any:
    return public_kinds()[tag].decode(un(data))


def class_from(given: Json) -> Any:
    return attestation_class(given)


def verifying_key_of(data: bytes) -> Any:
    if not available():
        return VerifyingKey.from_bytes(data)
    with native_errors():
        return native.VerifyingKey.from_bytes(data)
