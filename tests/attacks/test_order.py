# SPDX-License-Identifier: GPL-3.0-or-later
"""e chosen after the noise is known.  C_e is fixed before the client draws its nonce, and the noise's key hashes both.

Whoever may still choose e, within the slack of 1 an entry that rounding needs, chooses the answer: SPEC B.2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ragseal.client import attestation as client
from ragseal.kernel.attestation import Prepare, Prepared
from ragseal.kernel.bn254 import IDENTITY
from ragseal.kernel.commitment import embedding_commitment
from ragseal.kernel.errors import AttestationError, ProofError
from ragseal.kernel.mechanism import noise_key
from tests.attacks.checks import CLIENT_OPENS_C_E, REQUEST_SIGNED, without
from tests.attacks.machine import DIMENSION, GENERATORS, GROUP, honest_tenants, machine, policy
from tests.attacks.world import AttackWorld, Cheat, accepted, queried, refused


def nudged(e: list[int], by: int) -> list[int]:
    """An e that differs by at most 1 an entry: one of 2^d."""
    return [x + (by >> j & 1) for j, x in enumerate(e)]


def test_who_knows_the_nonce_chooses_the_answer() -> None:
    """What the order prevents: 64 neighbours of one e, committed under a known nonce, release as many different sets.

    Two may agree by chance (once in a hundred keys or so, of 302,621 sets of 3), hardly five pairs.
    """
    world = AttackWorld()
    world.commit()
    request = world.ask("alice").signed.request
    query = world.kept[world.digest, 0]
    south, terms = honest_tenants()["north"], policy()
    found = set()
    for by in range(64):
        e = nudged(query.e, by)
        known = replace(request, c_e=embedding_commitment(GROUP, GENERATORS, e, query.blinder))
        w = terms.gain * (np.array(south.rows) @ np.array(e, dtype=np.int64) - terms.lo)
        key = noise_key(world.seed, world.beacon, known.ctx())
        found.add(machine().engine.answer(key, w, terms.asked(machine().cls)))
    assert len(found) >= 60
    other = replace(request, nonce=bytes(16))
    assert other.ctx() != request.ctx()


def test_query_commitment_replaced_under_the_clients_signature() -> None:
    """The client signed another C_e; everything else follows the new one."""
    world = queried(Cheat(e_after_nonce=lambda e: nudged(e, 5)))
    refused(world, 6, "the request signature does not hold")
    with without(REQUEST_SIGNED):
        accepted(world)


def test_client_refuses_a_record_of_another_query_commitment() -> None:
    world = AttackWorld()
    world.commit()
    record = world.ask("alice")
    client.check_record(GROUP, world.manifest.policy, record.signed, record)
    request = record.signed.request
    for change in (
        {"c_e": embedding_commitment(GROUP, GENERATORS, [1] * DIMENSION, 3)},
        {"nonce": bytes(16)},
        {"ctr": 2},
        {"query_digest": bytes(32)},
    ):
        other = replace(record, signed=replace(record.signed, request=replace(request, **change)))
        with pytest.raises(AttestationError, match="a request different from the one this account signed"):
            client.check_record(GROUP, world.manifest.policy, record.signed, other)


@pytest.mark.slow
def test_client_refuses_a_commitment_to_another_e() -> None:
    """The provider states the client's e and commits to its own choice; nobody after the client could tell."""
    world = AttackWorld()
    world.commit()
    tenant, mine = world.tenants["north"], [81, -41, 34, 0, -7, 62, -51, 12]
    window = client.Window(world.manifest, world.digest, world.registry[0], tenant.index, world.tools.cls)
    prepare = Prepare(world.digest, "alice", bytes(16), bytes(32), "q", client.encode_embedding(mine))
    theirs = nudged(mine, 21)

    def prepared(stated: list[int], committed: list[int], blinder: int = 77) -> Prepared:
        c_e = embedding_commitment(GROUP, GENERATORS, committed, blinder)
        return Prepared(bytes(16), client.encode_embedding(stated), c_e, blinder, tenant.index.digest())

    def checked(reply: Prepared) -> bool:
        return client.check_prepared(GROUP, GENERATORS, window, prepare, reply, mine)

    assert checked(prepared(mine, mine))
    with pytest.raises(AttestationError, match="C_e does not open"):
        checked(prepared(mine, theirs))
    assert not checked(prepared(theirs, theirs)), "an e that is not the client's own is never called checked"
    with pytest.raises(ProofError, match="identity"):
        checked(replace(prepared(mine, mine), c_e=IDENTITY))

    with without(CLIENT_OPENS_C_E):
        assert checked(prepared(mine, theirs))
    # a record over that C_e is a record like any other: the auditor sees no difference
    accepted(queried(Cheat(e=theirs)))
