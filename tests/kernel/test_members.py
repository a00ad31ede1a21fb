# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is named as a member of the largest coalition: those of the largest components, and nobody else.  SPEC C.1."""

from __future__ import annotations

from ragseal.kernel.estimate import components


def test_members_of_smaller_components_are_not_named() -> None:
    accounts = ["alice", "bob", "carol", "dave", "erin", "frank", "gina", "alice"]
    found = components(accounts, [(0, 1), (1, 2), (3, 4), (6, 7)])  # alice is in both components by her last record
    assert found.c == 3
    assert found.members == ("alice", "bob", "carol")
    assert [one.accounts for one in found.clusters] == [("alice", "bob", "carol"), ("dave", "erin"), ("alice", "gina")]


def test_members_of_equal_components_are_all_named() -> None:
    found = components(["alice", "bob", "carol", "dave", "erin"], [(0, 1), (2, 3)])
    assert (found.c, found.members) == (2, ("alice", "bob", "carol", "dave"))
    assert components(["alice", "bob"], []).members == ()
