# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts come and go with the versions of an open window's indices.  SPEC A.13."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ragseal.client.commitment import check_window
from ragseal.client.remote import ProviderOverGrpc
from ragseal.kernel import signature
from ragseal.kernel.enrolment import LateMembership
from ragseal.kernel.errors import AuditError
from ragseal.prover.commitment import enrolling, registry
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.commitment.update_secrets import update_key
from ragseal.prover.fsck import fsck
from ragseal.prover.provider.assembly import circuit_class
from ragseal.runtime.tls import BY_DEFAULT
from tests.attacks import checks
from tests.attacks.checks import without
from tests.simulator import provider as scene
from tests.simulator.clients import client_of
from tests.simulator.ticking import Ticking, ticking

pytestmark = pytest.mark.slow


def registration(name: str, tenant: str = "acme", key: str = "") -> Registration:
    return Registration(name, tenant, signature.public_bytes(scene.account_key(key or name)))


def add(live: Ticking, *new: Registration) -> None:
    registry.add_accounts(live.provider.state, new)


def remove(live: Ticking, name: str) -> None:
    registry.remove_account(live.provider.state, name)


def ask(live: Ticking, name: str) -> int:
    """The number of the version that the account is answered from."""
    with live.client(name=name) as client:
        found = client.ask(f"{name}'s own {name} question about {name}")
        return live.window.number_of(found.record.signed.request.index_digest)


class Lying(ProviderOverGrpc):
    """A provider that shows an account its line somewhere else."""

    def __init__(self, live: Ticking, lie: Callable[[LateMembership], LateMembership]) -> None:
        super().__init__(live.address, BY_DEFAULT, 20.0)
        self.lie = lie

    def account(self, canonical: bytes, signature: bytes) -> bytes:
        return self.lie(LateMembership.decode(super().account(canonical, signature))).encode()


def waiting(live: Ticking) -> tuple[int, int]:
    return enrolling.waiting(live.provider.state, live.window.manifest, live.window.digest, len(live.updates))


def test_accounts_come_and_go_on_ticks_and_the_window_passes(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live:
        assert ask(live, "bob") == 1
        add(live, registration("dave"))
        remove(live, "bob")
        assert waiting(live) == (1, 0)
        with pytest.raises(AuditError, match=r"no account of this name and key.*next of their versions"):
            ask(live, "dave")
        assert ask(live, "bob") == 1  # until the tick
        before = live.updates[-1]
        after = live.tick()
        assert len(after.encode()) == len(before.encode())
        assert ask(live, "dave") == 2
        with pytest.raises(AuditError, match="was removed and gets no answers since version 2"):
            ask(live, "bob")
        live.restarted()
        live.tick()
        assert ask(live, "dave") == 3
        assert ask(live, "alice") == 3
        live.clock.now += 60
        live.end_window()
        verdict = live.audited()
        assert verdict.verdict == "PASS", verdict.line()
        assert not fsck.examine(live.provider, True).findings
        state, digest = live.provider.state, live.window.digest
        with state.transaction() as db:  # as from a backup of another moment
            db.execute("DELETE FROM enrolments WHERE manifest = ? AND name = 'dave'", (digest,))
        found = fsck.examine(live.provider, True).findings
        assert any("are not those that version 2 commits to" in one for one in found), found


def test_nobody_gets_a_second_budget(tmp_path: Path) -> None:
    """Whoever was in the window comes back with the next one, and so does a name or key that was."""
    with ticking(tmp_path, gain=2, n_max=6) as live:
        remove(live, "bob")
        live.tick()
        add(live, registration("bob"), registration("eve"), registration("west", "nowhere"))
        assert waiting(live) == (1, 2)
        live.tick()
        lines = {
            one.account.name: one for one in enrolling.enrolments(live.provider.state, live.window.digest, 9).lines
        }
        assert (lines["bob"].until, lines["eve"].since, len(lines)) == (2, 3, 4)
        remove(live, "bob")
        add(live, registration("robert", key="bob"))
        live.tick()
        assert waiting(live) == (0, 2)
        with pytest.raises(AuditError, match="no account of this name"):
            ask(live, "robert")


def test_what_an_auditor_holds_against_a_provider_that_answers_whom_it_removed(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live:
        ask(live, "bob")
        remove(live, "bob")
        live.tick()
        with without(checks.PROVIDER_ENROLLED):
            assert ask(live, "bob") == 2
        live.clock.now += 60
        live.end_window()
        verdict = live.audited()
        assert verdict.verdict == "FAIL"
        assert "may not ask over version 2" in verdict.line()


def test_whoever_comes_later_believes_the_log_alone(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live:
        add(live, registration("dave"))
        live.tick()
        (first, _), (second, update) = live.window.updates
        lies: dict[str, Callable[[LateMembership], LateMembership]] = {
            "is not in the registry of the update": lambda made: replace(made, update=first),
            "is not in the registry of the update: ": lambda made: replace(made, salt=bytes(32)),
            "before its manifest": lambda made: replace(made, update=live.window.index),
            "does not show this version": lambda made: replace(made, update=second + 1),
            "not a index-update message": lambda made: replace(made, update=first - 1),
        }

        def asked(lie: Callable[[LateMembership], LateMembership]) -> None:
            link = Lying(live, lie)
            with client_of(
                link, live.account("dave"), live.log_key, scene.TrigramEmbedder(), ledger=live.address
            ) as client:
                client.ask("who am I")

        for match, lie in lies.items():
            with pytest.raises(AuditError, match=match):
                asked(lie)
        with without(checks.CLIENT_LATE_LINE):
            asked(lies["is not in the registry of the update"])
        line = enrolling.enrolled_by_name(live.provider.state, live.window.digest, "dave")
        assert line is not None
        made = live.provider.enrolments.get(update_key(live.window.digest, 2)).membership(line, second)
        other = replace(update, manifest=bytes(32))
        take = partial(
            check_window, live.window.signed, made, other, name="dave", public_key=line.account.public_key,
            class_of=lambda policy: circuit_class(policy.class_name),
        )  # fmt: skip
        with pytest.raises(AuditError, match="is another window's"):
            take()
        with without(checks.CLIENT_LATE_OF_ITS_WINDOW):
            assert take().account == line.account


def test_a_run_that_broke_off_before_its_entry_leaves_nobody_in(tmp_path: Path) -> None:
    """What was kept for a version that the log does not name is replaced by what the next run makes of it."""
    with ticking(tmp_path, gain=2, n_max=6) as live:
        add(live, registration("dave"))
        live.clock.now += 60
        live.provider.update(live.window, int(live.clock.now) // 60 * 60)
        remove(live, "dave")
        live.restarted()
        live.tick()
        lines = enrolling.enrolments(live.provider.state, live.window.digest, 9).lines
        assert "dave" not in {one.account.name for one in lines}
