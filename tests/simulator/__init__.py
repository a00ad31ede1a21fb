# SPDX-License-Identifier: GPL-3.0-or-later
"""One simulator for all tests: an honest run of the protocol, of which a test changes one thing.

This package exports the cheapest one: provider, auditor and accounts in memory, at the level of kernel messages, under
a key that needs no circuit (:mod:`~tests.simulator.world`).  On it build :mod:`~tests.simulator.coined`, the same with
claim until-delivered, and ``tests.attacks.world``, the same with real proofs and every way to cheat.

:mod:`~tests.simulator.provider` is the product's own provider on a state folder, with accounts, an auditor and a
beacon; :mod:`~tests.simulator.live` that provider behind gRPC, with clients.  Circuits and keys for all of them are
made once, by :mod:`~tests.simulator.keys`.
"""

from tests.simulator.evidence import SimulatedEvidence
from tests.simulator.parties import (
    ACCOUNTS,
    CLASS_DIGEST,
    CLOSES,
    CLS,
    DIMENSION,
    GAIN,
    GROUP,
    HINTS,
    KEY,
    LOUD,
    NOW,
    OPENS,
    ORIGIN,
    TENANTS,
    BindingKey,
    Tenant,
    account,
    index_file,
    key_of,
    policy,
    pseudonym,
    registry,
    scalars,
    slot_text,
)
from tests.simulator.world import (
    Kept,
    World,
    asked,
    resign,
)

__all__ = [
    "ACCOUNTS",
    "CLASS_DIGEST",
    "CLOSES",
    "CLS",
    "DIMENSION",
    "GAIN",
    "GROUP",
    "HINTS",
    "KEY",
    "LOUD",
    "NOW",
    "OPENS",
    "ORIGIN",
    "TENANTS",
    "BindingKey",
    "Kept",
    "SimulatedEvidence",
    "Tenant",
    "World",
    "account",
    "asked",
    "index_file",
    "key_of",
    "policy",
    "pseudonym",
    "registry",
    "resign",
    "scalars",
    "slot_text",
]
