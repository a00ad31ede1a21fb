# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal-provider as people use it: commands, JSON, and refusals in one line."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ragseal.embedder import load_embedder
from ragseal.groth16.keys import KeyPaths
from ragseal.kernel import signature
from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.policy import Policy
from ragseal.prover.__main__ import main
from ragseal.prover.commitment import index
from ragseal.prover.storage.state import State
from ragseal.runtime.metadata import mapping_of
from tests.classes import GAUSSIAN, TINY
from tests.simulator.provider import AUDITOR as AUDITOR_BYTES
from tests.simulator.provider import account_key

pytestmark = pytest.mark.slow

AUDITOR = AUDITOR_BYTES.hex()
SMALL = (
    f'class = "{TINY.name}"\n'
    'claim = "every-list"\nlo = 0.3\nhi = 0.7\ngain = 1\nn_max = 25\nk_max = 2\ndelta = "1/1000000"\n'
)
EVERY_LIST_POLICY = SMALL.replace("hi = 0.7\ngain = 1", "hi = 0.5\ngain = 80")  # good answers, a large epsilon


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def answer(*arguments: str | Path) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, keys: KeyPaths) -> Path:
    """A provider with documents, an account, a key and a committed window, made by commands only."""
    folder = tmp_path_factory.mktemp("cli")
    state = folder / "state"
    made = answer("init", "--state", state, "--origin", "example.org/cli", "--class", TINY.name)
    assert len(bytes.fromhex(made["provider_key"])) == 32
    assert made["ledger_key"].startswith("example.org/cli+")
    lines = [
        json.dumps({"id": f"d{i}", "text": f"document number {i} about topic {i % 5}", "page": i, "x": 1})
        for i in range(12)
    ]
    corpus = folder / "corpus.jsonl"
    corpus.write_text("\n".join(lines) + "\n")
    of_acme = ("documents", "put", "--state", state, "--tenant", "acme", "--corpus", f"jsonl:{corpus}")
    done = answer(*of_acme, "--metadata-fields", "page, source")
    told = ["not kept, as they are not named as metadata: 'x' (in 12 documents)", "no document has metadata 'source'"]
    assert done == {
        "tenant": "acme",
        "added": 12,
        "changed": 0,
        "deleted": 0,
        "unchanged": 0,
        "erased": 0,
        "waiting": 0,
        "notes": told,
        "still_answered": [],
    }
    with State(state) as opened:
        kept = index.current(opened, "acme", TINY.N, load_embedder().dimension)[1].values()
    assert {one.id: mapping_of(one.metadata) for one in kept} == {f"d{i}": {"page": i} for i in range(12)}
    public = _public("alice")
    answer("accounts", "add", "alice", "--state", state, "--tenant", "acme", "--key", public)
    assert answer("accounts", "list", "--state", state)["accounts"][0]["key"] == public
    file = folder / "accounts.toml"
    file.write_text("".join(f'[{n}]\ntenant = "acme"\nkey = "{_public(n)}"\n' for n in ("alice", "bob")))
    assert answer("accounts", "load", file, "--state", state) == {"added": 1, "skipped": 1}
    (state / "keys" / f"{TINY.name}-{keys.digest.hex()[:24]}").symlink_to(keys.directory.resolve())
    policy = folder / "policy.toml"
    printed = run("policy", "--state", state)
    assert printed.exit_code == 1
    assert "policy --claim every-list" in " ".join(printed.output.split())
    policy.write_text(EVERY_LIST_POLICY)
    refused = run("commit", "--state", state, "--policy", policy, "--window", "w1")
    assert refused.exit_code == 1
    said = " ".join(refused.output.split())
    needed = re.search(r"all the same with --yes-epsilon-is ([\d.]+)", said)
    assert needed is not None, said
    assert answer("status", "--state", state)["windows"] == []
    agreed = ("--yes-epsilon-is", needed.group(1), "--auditor", AUDITOR)
    committed = answer("commit", "--state", state, "--policy", policy, "--window", "w1", *agreed)
    assert committed["ledger_index"] == 0
    assert float(needed.group(1)) * (1 - 1e-5) < committed["epsilon"] <= float(needed.group(1))
    assert committed["comes_back"][0]["share"] > 0.9
    assert committed["attacker_guess"]["coalition"] == 1
    return state


def _public(name: str) -> str:
    return signature.public_bytes(account_key(name)).hex()


def test_status_tells_what_there_is(prepared: Path) -> None:
    found = answer("status", "--state", prepared)
    assert found["tenants"] == {"acme": 12}
    assert (found["wrong"], found["still_answered"]) == ([], [])
    assert run("status", "--state", prepared, "--check").exit_code == 0
    assert [(w["window"], w["stage"], w["records"]) for w in found["windows"]] == [("w1", "committed", 0)]


def _policy_of(directory: Path, window: str) -> Policy:
    state = State(directory)
    try:
        found = state.row("SELECT signed FROM windows WHERE name = ?", (window,))
        assert found is not None
        return SignedManifest.decode(found[0]).manifest.policy
    finally:
        state.close()


def test_a_new_window_does_not_restart_the_budget(prepared: Path, tmp_path: Path) -> None:
    """A policy file that names no period goes on with the one before, so epsilon adds up."""
    state, policy = tmp_path / "state", tmp_path / "policy.toml"
    shutil.copytree(prepared, state, symlinks=True)
    first = _policy_of(state, "w1")
    text = SMALL + f"opens = {first.closes}\n"
    policy.write_text(text)
    agreed = ("--yes-epsilon-is", "1000", "--auditor", AUDITOR)
    answer("commit", "--state", state, "--policy", policy, "--window", "w2", *agreed)
    assert _policy_of(state, "w2").opens > first.opens
    assert _policy_of(state, "w2").period_start == first.period_start
    policy.write_text(text + f"period_start = {first.closes}\n")
    answer("commit", "--state", state, "--policy", policy, "--window", "w3", *agreed)
    assert _policy_of(state, "w3").period_start == first.closes


def test_refusals_are_one_line_with_a_way_out(prepared: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(SMALL.replace(TINY.name, GAUSSIAN.name))
    public = _public("x")
    for text in ("[a", "a = 1", '[a]\ntenant = "t"', '[a]\ntenant = "t"\nkey = "00"'):
        (tmp_path / "accounts.toml").write_text(text)
        assert run("accounts", "load", tmp_path / "accounts.toml", "--state", prepared).exit_code == 1
    cases: list[tuple[list[str | Path], str]] = [
        (["init", "--state", prepared, "--origin", "o", "--class", TINY.name], "already"),
        (["init", "--state", tmp_path / "n", "--origin", "o", "--class", "huge"], "no circuit class"),
        (["init", "--state", tmp_path / "n", "--origin", "has space", "--class", TINY.name], "without spaces"),
        (
            ["init", "--state", tmp_path / "m", "--origin", "o", "--class", TINY.name, "--embedder", "x"],
            "unknown embedder",
        ),
        (["status", "--state", tmp_path / "nowhere"], "ragseal-provider init"),
        (["documents", "put", "--state", prepared, "--tenant", "acme", "--corpus", "pdf:x"], "jsonl:FILE"),
        (["accounts", "add", "b", "--state", prepared, "--tenant", "acme", "--key", "00"], "64 hexadecimal"),
        (["accounts", "add", "alice", "--state", prepared, "--tenant", "acme", "--key", public], "another key"),
        (["commit", "--state", prepared, "--policy", policy, "--window", "w2"], "class"),
        (["close", "--state", prepared, "--provider", "127.0.0.1:1"], "cannot be reached"),
        (["fetch-keys", "--state", prepared, "--verifier", "127.0.0.1:1"], "cannot be reached"),
        (["fetch-keys", "--state", prepared, "--verifier", "no-such-host.invalid:1"], "cannot be reached"),
        (["serve", "--state", prepared, "--listen", "0.0.0.0:0"], "in the clear"),
    ]
    for arguments, text in cases:
        done = run(*arguments)
        assert done.exit_code == 1, arguments
        assert text in done.output, (arguments, done.output)
        assert "Traceback" not in done.output


def test_documents_are_put_listed_deleted_and_placed_afresh(prepared: Path, tmp_path: Path) -> None:
    state, corpus = tmp_path / "state", tmp_path / "more.jsonl"
    shutil.copytree(prepared, state, symlinks=True)
    corpus.write_text('{"id": "d0", "text": "changed"}\n{"id": "e", "text": "new"}\n')
    tenant = ("--state", state, "--tenant", "acme")
    done = answer("documents", "put", *tenant, "--corpus", f"jsonl:{corpus}")
    waits = {"window": "w1", "stage": "committed", "tenant": "acme", "until": None, "tick": False}
    counts = {"added": 1, "changed": 1, "deleted": 0, "unchanged": 0, "erased": 0, "waiting": 0}
    assert done == {"tenant": "acme", **counts, "notes": [], "still_answered": [{**waits, "ids": ["d0"]}]}
    done = answer("documents", "delete", *tenant, "--id", "d1", "--id", "d2")
    assert done == {"tenant": "acme", "deleted": 2, "still_answered": [{**waits, "ids": ["d1", "d2"]}]}
    listed = answer("documents", "list", *tenant)["documents"]
    assert len(listed) == 11
    assert listed[0] == {"id": "d0", "bytes": 7, "source": ""}
    refused = run("documents", "delete", *tenant, "--id", "d3", "--id", "d1")
    assert refused.exit_code == 1
    assert "nothing was deleted" in " ".join(refused.output.split())
    assert answer("status", "--state", state)["tenants"] == {"acme": 11}
    refused = run("documents", "new-period", *tenant)
    assert refused.exit_code == 1
    assert "window 'w1' is committed" in " ".join(refused.output.split())
    fresh = tmp_path / "fresh"
    answer("init", "--state", fresh, "--origin", "example.org/cli", "--class", TINY.name)
    answer("documents", "put", "--state", fresh, "--tenant", "acme", "--corpus", f"jsonl:{corpus}")
    answer("documents", "delete", "--state", fresh, "--tenant", "acme", "--id", "e")
    done = answer("documents", "new-period", "--state", fresh, "--tenant", "acme")
    assert done == {"tenant": "acme", "placed": 1, "waiting": 0}
    checked = run("status", "--state", fresh, "--check")
    assert checked.exit_code == 1
    assert checked.stdout.startswith("WRONG (auditor): no proving key")


def test_help_teaches(prepared: Path) -> None:
    shown = run("--help").output
    order = [
        shown.index(f"ragseal-provider {c}")
        for c in ("init", "documents put", "fetch-keys", "commit", "serve", "close")
    ]
    assert order == sorted(order)
    formats = " ".join(run("documents", "put", "--help").output.split())
    assert all(word in formats for word in ('{"id": "d1"', "csv", "standard input", "Links are not followed"))


def test_serve_is_one_process_that_stops_cleanly(prepared: Path) -> None:
    command = [sys.executable, "-m", "ragseal.prover", "serve", "--state", str(prepared), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["listening"]
        assert address.startswith("127.0.0.1:")
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 1
        assert "in use by another process" in second.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert time.monotonic() - began < 20
    assert answer("status", "--state", prepared)["windows"][0]["stage"] == "committed"


def test_serve_takes_its_options_from_a_file_and_reads_it_again_at_a_hangup(prepared: Path, tmp_path: Path) -> None:
    """The program itself: what the file says is in force, a mistake in it later changes nothing, and none ends it."""
    file = tmp_path / "serve.toml"
    options = f'state = "{prepared}"\nlisten = "127.0.0.1:0"\nlog-format = "json"\n'
    file.write_text(f'{options}account-rate = "5/m"\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "ragseal.prover", "serve", "--config", str(file), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=os.getcwd(),
    )  # fmt: skip
    said: list[str] = []

    def told(text: str) -> bool:
        """Whether the log says it, by the next lines."""
        while (line := process.stderr.readline()) if process.stderr is not None else "":
            said.append(json.loads(line)["message"] if line.startswith("{") else line)
            if text in said[-1]:
                return True
        return False

    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["listening"].startswith("127.0.0.1:")
        for changes, expected in (
            ('account-rate = "7/m"\npeer-rate = "9/s"\n', "limits: 7/m of an account, 9/s of a machine"),
            ('account-rate = "7/m', "THE LIMITS STAY AS THEY ARE"),
            ('acount-rate = "7/m"\n', "do you mean account-rate?"),
            ('account-rate = "often"\n', "'often' is not a rate"),
            ('proofs = "on-demand"\n', "proofs has changed in the file: that takes effect at the next start"),
            ("", "limits: none of an account, none of a machine"),
        ):
            file.write_text(options + changes)
            process.send_signal(signal.SIGHUP)
            assert told(expected), said
        file.unlink()
        process.send_signal(signal.SIGHUP)
        assert told("THE LIMITS STAY AS THEY ARE"), said
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    file.write_text(f"{options}listen-plan = true\n")
    refused = subprocess.run(
        [sys.executable, "-m", "ragseal.prover", "serve", "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert refused.returncode == 1
    assert "do you mean listen-plain?" in refused.stderr


def test_a_lost_database_is_not_replaced_by_an_empty_one(prepared: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(prepared, copy, symlinks=True)
    os.chmod(copy, 0o700)
    for file in copy.glob("state.db*"):
        file.unlink()
    for command in (("status",), ("accounts", "list"), ("fsck",), ("serve", "--listen", "127.0.0.1:0")):
        done = run(*command, "--state", copy)
        assert done.exit_code != 0, command
        assert "state.db is missing" in " ".join(done.output.split()), done.output
    assert not list(copy.glob("state.db*"))


def _of_class(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        settings = folder / "provider.toml"
        settings.write_text(settings.read_text().replace(f'"{TINY.name}"', f'"{name}"'))

    return damage


def _retired_class(folder: Path) -> None:
    settings = folder / "provider.toml"
    settings.write_text(settings.read_text().replace(f'"{TINY.name}"', '"small-one-32"'))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            lambda folder: (folder / "ledger" / "log.sqlite").unlink(),
            "log.sqlite is missing): restore the whole",
        ),
        (
            lambda folder: (folder / "ledger" / "checkpoint").unlink(),
            "checkpoint is missing): restore the whole",
        ),
        (lambda folder: (folder / "provider.toml").unlink(), "provider.toml is missing, beside other files"),
        (_of_class("tinny"), "this release has no circuit class 'tinny'"),
        (_of_class("ranked-small-one-50"), "is no more: with ragseal 0.3.0 close its window, have it audited"),
        (_of_class("sharded-large-two-10"), "`ragseal-provider change --class` takes one of"),
    ],
)
def test_a_damaged_folder_has_a_status(
    prepared: Path, tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(prepared, copy, symlinks=True)
    os.chmod(copy, 0o700)
    damage(copy)
    for options in ((), ("--check",)):
        done = run("status", "--state", copy, "--json", *options)
        told = json.loads(done.stdout)
        assert (done.exit_code, told["outcome"], told["unchecked"]) == (1, "wrong", [])
        assert [one["what"] for one in told["wrong"]] == ["damaged"]
        assert says in told["wrong"][0]["text"]
    assert "WRONG (damaged)" in run("status", "--state", copy).stdout
    examined = run("fsck", "--state", copy, "--json")
    assert (examined.exit_code, json.loads(examined.stdout)["outcome"]) == (1, "wrong"), examined.output
    assert says in " ".join(json.loads(examined.stdout)["findings"])


def test_a_mistyped_account_is_taken_out_again(prepared: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(prepared, copy, symlinks=True)
    os.chmod(copy, 0o700)
    said = run(
        "accounts", "add", "dora", "--state", copy, "--tenant", "acmee", "--key", _public("dora"), "--new-tenant"
    ).output
    assert "tenant acmee has no documents yet" in said
    said = run("accounts", "add", "dora", "--state", copy, "--tenant", "acme", "--key", _public("dora")).output
    assert "accounts remove" in said
    assert answer("accounts", "remove", "dora", "--state", copy) == {"removed": "dora"}
    assert "no documents" not in run(
        "accounts", "add", "dora", "--state", copy, "--tenant", "acme", "--key", _public("dora")
    ).output  # fmt: skip
    assert "no account 'nobody'" in run("accounts", "remove", "nobody", "--state", copy).output
    found = answer("accounts", "list", "--state", copy)["accounts"]
    assert [(a["name"], a["tenant"]) for a in found] == [("alice", "acme"), ("bob", "acme"), ("dora", "acme")]


def test_an_init_that_fails_leaves_nothing_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    assert run("init", "--state", tmp_path / "s", "--origin", "bad origin+", "--class", TINY.name).exit_code == 1
    assert not (tmp_path / "s").exists()
    with monkeypatch.context() as broken:
        broken.setattr("ragseal.prover.storage.state.Log.create", full)
        assert "No space left" in run("init", "--state", tmp_path / "s", "--origin", "o", "--class", TINY.name).output
    assert list((tmp_path / "s").iterdir()) == []
    answer("init", "--state", tmp_path / "s", "--origin", "o", "--class", TINY.name)
    said = run("init", "--state", tmp_path / "s", "--origin", "o", "--class", TINY.name).output
    assert "holds a provider already" in said
    answer("status", "--state", tmp_path / "s")
