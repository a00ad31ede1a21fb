# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts come and go with the versions of an open window's indices.  SPEC A.13."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragseal.client import Client
from ragseal.kernel import signature
from ragseal.kernel.errors import AuditError
from ragseal.prover.commitment import enrolling, registry
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.storage import fsck
from tests.attacks import checks
from tests.attacks.checks import without
from tests.simulator import provider as scene
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
        return live.window.number_of(client.ask("acme report about topic 7").record.signed.request.index_digest)


def waiting(live: Ticking) -> tuple[int, int]:
    return enrolling.waiting(live.provider.state, live.window.manifest, live.window.digest, len(live.updates))


def test_accounts_come_and_go_on_ticks_and_the_window_passes(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live:
        assert ask(live, "bob") == 1
        add(live, registration("dave"))
        remove(live, "bob")
        assert waiting(live) == (1, 0)
        with pytest.raises(AuditError, match="no account of this name and key.*next of their versions"):
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
        assert not list(fsck.problems(live.provider))


def test_nobody_gets_a_second_budget(tmp_path: Path) -> None:
    """Whoever was in the window comes back with the next one, and so does a name or key that was."""
    with ticking(tmp_path, gain=2, n_max=6) as live:
        remove(live, "bob")
        live.tick()
        add(live, registration("bob"), registration("eve"), registration("west", "nowhere"))
        assert waiting(live) == (1, 2)
        live.tick()
        lines = {one.account.name: one for one in enrolling.enrolments(live.provider.state, live.window.digest, 9).lines}
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
