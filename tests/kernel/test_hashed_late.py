# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared hashes of accounts that come and go, turns of the log's key, histograms and shards, computed apart.

As in test_hashed.py: what the specification lists, against what prover and verifier call alike.
"""

from __future__ import annotations

import hashlib

from ragseal.kernel import proofs
from ragseal.kernel.classes import Asked
from ragseal.kernel.enrolment import Enrolment, LateMembership, enrolment_leaves, leaf_salt
from ragseal.kernel.rotation import Rotation
from tests import apart
from tests.apart import be, canonical, element, h
from tests.simulator.parties import account


def digest(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()


def test_leaves_of_who_may_ask() -> None:
    """A.13: salt of every place and version; 1 and the line where an account may ask, 0 and nothing elsewhere."""
    there, gone, early = (
        Enrolment(account(name, "north"), place, since, until)
        for name, place, since, until in (("alice", 2, 0, 0), ("bob", 5, 0, 3), ("carol", 6, 4, 0))
    )
    secret, version = digest("secret of the window"), 3
    expected = []
    for place in range(8):
        salt = h("enrolment-salt", secret, be(version, 4), be(place, 4))
        assert leaf_salt(secret, version, place) == salt
        held = place == there.place
        expected.append(h("enrolment", salt, bytes([held]), canonical(there.account) if held else b""))
    assert enrolment_leaves(secret, version, [there, gone, early], 8) == expected
    late = LateMembership(there.account, 2, leaf_salt(secret, version, 2), (), 17)
    assert late.leaf() == expected[2]


def test_what_both_keys_sign_of_a_turn() -> None:
    """G.6.13: the log, number, index and last size in 8 bytes each, both keys, the root."""
    turn = Rotation(
        digest("log"), 2, digest("old key"), digest("new key"), 300, digest("root"), 301 + 70, bytes(64), bytes(64)
    )
    numbers = [be(number, 8) for number in (2, 300, 371)]
    assert turn.body() == h(
        "log-rotation-body", digest("log"), *numbers, digest("old key"), digest("new key"), digest("root")
    )


def test_context_of_histograms() -> None:
    """B.7.8: the batch's context, the tenant and its index version, under a tag that is not the link's."""
    context, index = digest("context"), digest("index version")
    assert proofs.histogram_context(context, "north", index) == h("histogram", context, b"north", index)


def test_alpha_and_beta_of_a_shard() -> None:
    """Key digest, record digest, the clear inputs with shard and number of shards, C_w, and C_h with C_v behind it."""
    stated = proofs.Statement(1, 2, 3, Asked((4,)), (apart.ORDER - 5,)).clear(apart.ORDER - 5, (6, 7))
    clear = b"".join(map(be, (1, 2, 3, 4, apart.ORDER - 5, 6, 7)))
    parts = (digest("key"), digest("record"), clear, b"w" * 64, b"h" * 128 + b"v" * 64)
    assert proofs.challenges(*parts[:2], stated, *parts[3:]) == [element("alpha", *parts), element("beta", *parts)]
