# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts come and go with the versions of an open window's indices.  SPEC A.13."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ragseal.client.commitment import check_window
from ragseal.client.remote import ProviderOverGrpc
from ragseal.kernel import signature
from ragseal.kernel.enrolment import LateMembership
from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.prover.commitment import dropped, enrolling, registry, slots
from ragseal.prover.commitment.index import Version
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.commitment.update_secrets import update_key
from ragseal.prover.fsck import fsck
from ragseal.prover.provider.assembly import circuit_class
from ragseal.prover.storage.window import Window
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


# Versions of a live index that no record names leave the folder, and nothing that is needed does. SPEC A.12.12.


def kept(live: Ticking) -> list[int]:
    """Numbers of the updates of which the folder has salts and blinders."""
    query = "SELECT DISTINCT number FROM versions WHERE manifest = ? AND number > 0 AND secret <> x'' ORDER BY number"
    return [number for (number,) in live.provider.state.rows(query, (live.window.digest,))]


def held(live: Ticking, document: str) -> list[tuple[int, int | None]]:
    """From which version and before which one rows of a document hold."""
    query = "SELECT number, until FROM version_texts WHERE manifest = ? AND document = ? ORDER BY number"
    return [(number, until) for number, until in live.provider.state.rows(query, (live.window.digest, document))]


def drop(live: Ticking) -> None:
    live.call(live.server.serving.drop_versions())


@pytest.mark.parametrize("coins", [False, True])
def test_what_no_record_names_goes_and_the_window_passes(tmp_path: Path, coins: bool) -> None:
    with ticking(tmp_path, coins=coins, gain=2, n_max=6) as live:
        with live.client() as client:
            client.ask("over version 1")
            live.put(("acme-1", "what version 2 alone says"))
            live.tick()
            live.put(("acme-1", "what versions 3 to 5 say"))
            live.tick()
            client.ask("over version 3")
            live.tick()
            live.tick()
            drop(live)
            assert kept(live) == [1, 3, 4, 5]  # named, named, and the two that answer
            gone = "SELECT 1 FROM version_texts WHERE text = 'what version 2 alone says'"
            assert live.provider.state.rows(gone) == []
            assert held(live, "acme-1")[-1] == (3, None)
            assert (2, 3) not in held(live, "acme-1")
            live.put(("acme-1", "what version 6 says"))
            live.tick()
            client.ask("over version 6")
        assert not fsck.examine(live.provider, True).findings
        live.restarted()
        drop(live)
        assert kept(live) == [1, 3, 5, 6]
        with pytest.raises(CommitmentError, match="was deleted: no record named it"):
            live.provider.windows.of(live.window.digest).version("acme", live.updates[1].index_digest("acme"))
        live.clock.now += 60
        live.end_window()
        drop(live)
        assert kept(live) == [1, 3, 6]
        assert not fsck.examine(live.provider, True).findings
        verdict = live.audited()
        assert verdict.verdict == "PASS", verdict.line()


def test_a_version_takes_what_changed_and_no_more(tmp_path: Path) -> None:
    """Else whoever asks once a tick would have the whole index kept for it until the window is retired."""

    def rows(live: Ticking) -> int:
        return len(live.provider.state.rows("SELECT rowid FROM version_texts"))

    with ticking(tmp_path, gain=2, n_max=6) as live, live.client() as client:
        first, files = rows(live), len(list(live.provider.state.windows_directory.iterdir()))
        for _ in range(3):
            client.ask("a question that keeps its version")
            live.tick()
        assert rows(live) == first
        live.put(("acme-1", "changed"), ("new", "a document that was not there"))
        live.delete("acme-2")
        live.tick()
        assert rows(live) == first + 2
        assert held(live, "acme-1") == [(0, 5), (5, None)]
        assert held(live, "acme-2") == [(0, 5)]
        assert held(live, "new") == [(5, None)]
        assert len(list(live.provider.state.windows_directory.iterdir())) == files

        def of(n: int) -> Version:
            return live.provider.windows.of(live.window.digest).version("acme", live.updates[n].index_digest("acme"))

        before, after = of(3), of(4)
        live.restarted()
        for n, version in ((3, before), (4, after)):
            again = of(n)
            assert again.texts == version.texts
            assert np.array_equal(again.matrix, version.matrix)


def test_a_version_without_its_entry_leaves_no_trace(tmp_path: Path) -> None:
    """A version that is made anew has what is there then, and the one before it what it had."""
    with ticking(tmp_path, gain=2, n_max=6) as live:
        state, digest = live.provider.state, live.window.digest
        everything = "SELECT * FROM version_texts ORDER BY tenant, slot, number"
        before = state.rows(everything)
        live.put(("acme-1", "of a version that never was"))
        live.delete("acme-2")
        live.call(live.server.serving.ticks.making.acquire())  # the provider makes none by itself meanwhile
        live.clock.now += 60
        made = live.provider.update(live.window, int(live.clock.now))
        assert held(live, "acme-1") == [(0, 2), (2, None)]
        with state.transaction() as db:
            slots.withdraw(db, digest, 2)
        assert state.rows(everything) == before
        live.put(("acme-1", "of the one that is"), ("acme-2", "back again"))
        again = live.provider.update(live.window, int(live.clock.now))
        assert again.entry.number == made.entry.number == 2
        contents = {one.id: one.text for one in again.versions["acme"].texts.values()}
        assert contents["acme-1"] == "of the one that is"
        assert held(live, "acme-1") == [(0, 2), (2, None)]
        assert state.rows("SELECT 1 FROM version_texts WHERE text = 'of a version that never was'") == []


def test_a_crash_while_versions_are_deleted_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live:
        for _ in range(3):
            live.tick()

        def full(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(slots, "drop_unused", full)
            with pytest.raises(KeyboardInterrupt):
                dropped.drop(live.provider.state, live.window, [1])
        assert kept(live) == [1, 2, 3, 4]
        assert not fsck.examine(live.provider, True).findings
        live.restarted()
        drop(live)
        assert kept(live) == [3, 4]


def test_texts_that_no_version_needs_any_more_are_missed_by_nobody_and_found(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live:
        for text in ("two", "three"):
            live.put(("acme-1", text))
            live.tick()
        live.tick()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slots, "drop_unused", lambda *_: None)
            drop(live)
        found = fsck.examine(live.provider, True).findings
        assert any("version 2 of the indices was deleted in part" in one for one in found), found


def test_what_is_needed_is_refused_and_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check that keeps it, broken on purpose: fsck sees that answers and proofs lack it."""
    with ticking(tmp_path, gain=2, n_max=6) as live:
        live.tick()
        for number in (1, 2):
            with pytest.raises(CommitmentError, match=f"version {number} of the indices is still needed"):
                dropped.drop(live.provider.state, live.window, [number])
        assert kept(live) == [1, 2]
        with monkeypatch.context() as patch:
            patch.setattr(dropped, "needed", lambda window: set())
            dropped.drop(live.provider.state, live.window, [2])
        found = fsck.examine(live.provider, True).findings
        assert any("was deleted, and answers or proofs need it" in one for one in found), found


def test_what_records_name_is_known_after_a_restart(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live, live.client() as client:
        client.ask("one question")
        before: Window = live.window
        assert before.named == {1}
        live.restarted()
        assert live.window is not before
        assert live.window.named == {1}
