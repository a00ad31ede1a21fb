# SPDX-License-Identifier: GPL-3.0-or-later
"""The claims, one file each: what a policy's epsilon is about, computed and said.  :mod:`.claim` has the interface.

A claim is chosen once, by :func:`claim_of`, where a policy that was decoded is first asked for more than its bytes: by
the auditor in step 11, by the provider before it commits, by readers of a report or a signed verdict through
:func:`named`.  It cannot be chosen by the decoder itself, which is the kernel's: a claim computes in floats and speaks
to people, and the kernel may import neither.
"""

from __future__ import annotations

from ragseal.accounting.claims.answers import Answers
from ragseal.accounting.claims.claim import Claim
from ragseal.accounting.claims.every_list import EveryList
from ragseal.accounting.claims.exact import Exact
from ragseal.accounting.claims.planned import Planned
from ragseal.accounting.claims.unseen import Unseen
from ragseal.accounting.claims.until_delivered import UntilDelivered
from ragseal.kernel.claims import FORMS
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import Policy

CLAIMS: dict[str, Claim] = {
    claim.name: claim for claim in (EveryList(), UntilDelivered(), Answers(), Unseen(), Exact())
}
assert list(CLAIMS) == list(FORMS)  # every claim that decodes is accounted, and no other one


def named(name: str) -> Claim:
    """The claim of that name.  PolicyError: there is none."""
    if name not in CLAIMS:
        raise PolicyError(f"the claim is one of {', '.join(CLAIMS)}, not {name!r}")
    return CLAIMS[name]


def planned(name: str) -> Planned:
    """How the claim of that name is planned on a corpus.  PolicyError: it is not."""
    found = named(name).planned
    if found is None:
        raise PolicyError(f"the claim {name} is not planned on a corpus")
    return found


def claim_of(policy: Policy) -> Claim:
    """The claim that a policy makes."""
    return named(policy.claim)
