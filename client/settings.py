# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client is made with besides account and provider: what it trusts, how it calls, what it computes with."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ragseal.backends.group import default_group
from ragseal.client.classes import known_class
from ragseal.client.commitment import ClassOf
from ragseal.kernel.bn254 import Group
from ragseal.ledger.policy import Policy
from ragseal.runtime.tls import BY_DEFAULT, ClientTls


@dataclass(frozen=True, slots=True)
class Trust:
    """What a window must show before the account asks in it."""

    provider_key: bytes | None = None  #: 32 bytes; pinned at first use (or on first contact, where it is left out)
    auditor_key: bytes | None = None  #: 32 bytes; only windows that name this auditor are used.  None: any
    #: A file (C2SP tlog-policy) or its content: only windows are used of which a quorum of its witnesses cosigned the
    #: opening.  None: nobody has to.
    witness_policy: str | Path | Policy | None = None
    accept_unchecked: bool = False  #: sign also when the provider commits to another e than this client's own


@dataclass(frozen=True, slots=True)
class Calls:
    """How the provider and its ledger are called."""

    #: Whom to trust, and an own certificate; by default plain on loopback, TLS with the system's authorities elsewhere.
    tls: ClientTls = BY_DEFAULT
    timeout: float = 60.0  #: seconds for a call


@dataclass(frozen=True, slots=True)
class Environment:
    """Where classes, randomness and time come from, and what computes; outside tests this installation's own."""

    class_of: ClassOf = known_class
    group: Group = field(default_factory=default_group)
    entropy: Callable[[int], bytes] = secrets.token_bytes
    clock: Callable[[], float] = time.time
