# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands whose output nobody gets, or that die behind their irreversible step: it is done, and seen again."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.__main__ import main as observer
from ragseal.prover.__main__ import main as provider
from ragseal.prover.cli import access
from ragseal.prover.serving import committing
from ragseal.runtime import streams
from ragseal.verifier.__main__ import main as auditor
from tests.classes import TINY
from tests.prover.erasure_scene import folder_of, live, texts
from tests.prover.test_cli import AUDITOR, EVERY_LIST_POLICY, answer
from tests.prover.test_cli import prepared as prepared
from tests.prover.test_erasure import _reopened

pytestmark = pytest.mark.slow

Run = Callable[..., str]


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a command whose standard output is on a full disk; gives standard error."""

    def run(program: click.Command, *arguments: object) -> str:
        real = streams._Written._now

        def full(stream: Any, data: Any) -> int:
            if stream.name == "<stdout>":
                raise OSError(28, "No space left on device")
            return real(stream, data)

        with monkeypatch.context() as patched:
            patched.setattr(streams._Written, "_now", full)
            done = CliRunner().invoke(program, [str(one) for one in arguments], catch_exceptions=False)
        assert (done.exit_code, done.stdout) == (streams.NOT_WRITTEN, ""), done.output
        return done.stderr

    return run  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("program", "command", "what"),
    [
        (auditor, ("init",), "of auditor key [0-9a-f]{64}: "),
        (observer, ("keygen", "--name", "observer.example"), r"Its public key is observer\.example\+"),
    ],
    ids=["auditor", "observer"],
)
def test_a_key_that_was_made_unseen_is_named_when_it_is_asked_for_again(
    lost: Run, tmp_path: Path, program: click.Command, command: tuple[str, ...], what: str
) -> None:
    where = "--state", str(tmp_path / "own")
    lost(program, *command, *where)
    before = {path: path.read_bytes() for path in (tmp_path / "own").rglob("*") if path.is_file()}
    again = CliRunner().invoke(program, [*command, *where])
    assert again.exit_code == 1
    assert re.search(what, " ".join(again.output.split())), again.output
    assert {path: path.read_bytes() for path in before} == before


def test_a_provider_made_unseen_shows_its_keys(lost: Run, tmp_path: Path) -> None:
    lost(provider, "init", "--state", tmp_path / "p", "--origin", "example.org/rag", "--class", TINY.name)
    found = answer("status", "--state", tmp_path / "p")
    assert len(bytes.fromhex(found["provider_key"])) == 32
    assert found["ledger_key"].startswith("example.org/rag+")
    lost(provider, "log", "rotate", "--state", tmp_path / "p", "--overlap", 0)
    assert answer("status", "--state", tmp_path / "p")["ledger_key"] == found["ledger_key"]
    keys = tmp_path / "keys.json"
    lost(provider, "backup", "--state", tmp_path / "p", "--to", tmp_path / "copy", "--keys", keys)
    assert keys.exists()
    restored = answer(
        "restore", "--state", tmp_path / "again", "--from", tmp_path / "copy", "--keys", keys, "--nothing-newer"
    )
    assert restored["entries"] == 1


def test_accounts_come_and_go_unseen(lost: Run, prepared: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    shutil.copytree(prepared, state, symlinks=True)
    lost(provider, "accounts", "remove", "bob", "--state", state)
    assert [one["name"] for one in answer("accounts", "list", "--state", state)["accounts"]] == ["alice"]


def test_a_window_that_was_committed_unseen_is_in_the_status(lost: Run, prepared: Path, tmp_path: Path) -> None:
    state, policy = tmp_path / "state", tmp_path / "policy.toml"
    shutil.copytree(prepared, state, symlinks=True)
    policy.write_text(EVERY_LIST_POLICY)
    agreed = "--yes-epsilon-is", "1000", "--auditor", AUDITOR
    lost(provider, "commit", "--state", state, "--policy", policy, "--window", "w2", *agreed)
    found = answer("status", "--state", state)["windows"]
    assert {one["window"]: one["stage"] for one in found}["w2"] == "committed"


def test_a_window_of_which_nothing_can_be_said_is_said_to_be_committed(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, policy = tmp_path / "state", tmp_path / "policy.toml"
    shutil.copytree(prepared, state, symlinks=True)
    policy.write_text(EVERY_LIST_POLICY)

    def fails(*_: object) -> None:
        raise ConfigurationError("the provider's database refuses: disk I/O error")

    agreed = "--yes-epsilon-is", "1000", "--auditor", AUDITOR
    command = ["commit", "--state", str(state), "--policy", str(policy), "--window", "w2", *agreed]
    with monkeypatch.context() as patched:
        patched.setattr(committing.window_secrets, "shared_documents", fails)
        done = CliRunner().invoke(provider, command)
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "window w2 IS committed, entry 1 of the log" in said
    assert "disk I/O error" in said
    assert [one["window"] for one in answer("status", "--state", state)["windows"]] == ["w1", "w2"]


def test_a_document_erased_and_a_window_closed_and_purged_unseen_are_listed(
    lost: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with live(tmp_path, texts=texts) as made:
        made.stop()
        tools = made.provider.backends
        monkeypatch.setattr(access.assembly, "assemble", lambda state, progress: _reopened(state, tools))
        where = "--state", str(folder_of(made))
        lost(provider, "close", *where)
        lost(provider, "documents", "erase", *where, "--tenant", "acme", "--id", "acme-marked-id-77", "--reason", "17")
        assert {one["window"]: one["stage"] for one in answer("status", *where)["windows"]} == {"w1": "closed"}
        made.clock.now += 60
        lost(provider, "retire", *where, "w1", "--yes")
        (listed,) = answer("documents", "erasures", *where)["erasures"]
        assert listed["purged"] is not None
        made.restart_after_stop()
