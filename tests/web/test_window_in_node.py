# SPDX-License-Identifier: GPL-3.0-or-later
"""A window's public files, checked in TypeScript by Node: an honest window holds, one that was changed does not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.commitment import IndexFile
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofBatch
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner, NoteVerifier
from tests.attacks.machine import machine, make_tenant, policy
from tests.attacks.test_moved import rerandomised
from tests.attacks.world import AttackWorld, queried
from tests.classes import GAUSSIAN
from tests.simulator import key_of
from tests.web.published import NODE, PROGRAM, ROOT, Published, publish

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]

BATCH, BUNDLE, HASHES, KEY, COLUMNS = "proofs/*/0.bin", "tile/entries/**/*", "tile/0/**/*", "vk-*.bin", "columns/*.bin"
Change = Callable[[Published], None]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Three records of two tenants."""
    return publish(queried(), tmp_path_factory.mktemp("honest"))


@pytest.fixture
def copied(honest: Published, tmp_path: Path) -> Published:
    shutil.copytree(honest.folder, tmp_path / "files")
    return Published(tmp_path / "files", honest.key)


def files(published: Published, pattern: str) -> list[Path]:
    return sorted(path for path in published.folder.glob(pattern) if path.is_file())


def byte(pattern: str, at: int, which: int = 0) -> Change:
    """One bit of a file is another."""

    def change(published: Published) -> None:
        path = files(published, pattern)[which]
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return change


def swapped(pattern: str) -> Change:
    """Two files change places."""

    def change(published: Published) -> None:
        one, other = files(published, pattern)
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)

    return change


def batch(edit: Callable[[ProofBatch], ProofBatch]) -> Change:
    """Another batch in its place."""

    def change(published: Published) -> None:
        path = published.only(BATCH)
        path.write_bytes(edit(ProofBatch.decode(path.read_bytes())).encode())

    return change


def with_entry(made: ProofBatch, at: int, **changes: Any) -> ProofBatch:
    entries = list(made.entries)
    entries[at] = replace(entries[at], **changes)
    return replace(made, entries=tuple(entries))


def other_response(opening: Opening) -> Opening:
    first, *rest = opening.responses
    return replace(opening, responses=((first + 1) % R, *rest))


def proof_of_another(made: ProofBatch) -> ProofBatch:
    return with_entry(made, 1, proof=made.entries[0].proof)


def hints_of_another(made: ProofBatch) -> ProofBatch:
    return with_entry(made, 1, committed=made.entries[0].committed)


def with_opening(made: ProofBatch, at: int, *instead: Opening) -> ProofBatch:
    """These in place of one opening of what the batch commits to."""
    return replace(made, openings=(*made.openings[:at], *instead, *made.openings[at + 1 :]))


def other_opening_of(made: ProofBatch, at: int) -> ProofBatch:
    return with_opening(made, at, other_response(made.openings[at]))


def same_proof_anew(made: ProofBatch) -> ProofBatch:
    """A Groth16 proof is malleable, and chi hashes it."""
    return with_entry(made, 1, proof=rerandomised(made.entries[1].proof, 5))


def other_link(made: ProofBatch) -> ProofBatch:
    first, *rest = made.links
    return replace(made, links=(replace(first, opening=other_response(first.opening)), *rest))


def links_swapped(made: ProofBatch) -> ProofBatch:
    one, other = made.links
    return replace(made, links=(replace(one, opening=other.opening), replace(other, opening=one.opening)))


def one_link(made: ProofBatch) -> ProofBatch:
    return replace(made, links=made.links[:1])


def fewer_rounds(made: ProofBatch) -> ProofBatch:
    hints = made.openings[0]
    return with_opening(made, 0, replace(hints, folds=hints.folds[2:]))


def other_opening(published: Published) -> None:
    path = files(published, COLUMNS)[0]
    file = IndexFile.decode(path.read_bytes())
    path.write_bytes(replace(file, opening=other_response(file.opening)).encode())


def other_note(size: int, key: str) -> Change:
    """Another tree under the log's name, signed by this key."""

    def change(published: Published) -> None:
        signer = NoteSigner("test.example/log", key_of(key))
        (published.folder / "checkpoint").write_bytes(Checkpoint(signer.name, size, bytes(32)).sign(signer))

    return change


def other_key(published: Published) -> None:
    """A sound key, of another class."""
    published.only(KEY).write_bytes(machine(GAUSSIAN.name).key.vk.to_bytes())


def of_another_size(published: Published) -> None:
    path = published.folder / "checkpoint"
    path.write_bytes(path.read_bytes().replace(b"\n12\n", b"\n13\n"))


CHANGES: dict[str, tuple[Change, str, str]] = {
    "a bit of an entry": (byte(BUNDLE, 400), "entries", "do not hash to the signed root"),
    "a bit of an entry's length": (byte(BUNDLE, 1), "entries", "truncated|expected|signed root"),
    "a bit of a tile": (byte(HASHES, 40), "tiles", "not that of the entries"),
    "a stranger's checkpoint": (other_note(12, "stranger"), "checkpoint", "no signature of"),
    "a checkpoint of another size": (of_another_size, "checkpoint", "does not verify"),
    "another tree of the log's key": (other_note(12, "log"), "entries", "do not hash to the signed root"),
    "a bit of the key": (byte(KEY, 70), "verifying key", "not on the curve|canonical"),
    "a bit of an IC point": (byte(KEY, -1), "verifying key", "not on the curve|canonical"),
    "another key": (other_key, "verifying key", "not the one that the manifest names"),
    "a bit of a column": (byte(COLUMNS, 40), "columns", "not those that the log names"),
    "another opening of columns": (other_opening, "columns", "not the one that the log names"),
    "two tenants' columns swapped": (swapped(COLUMNS), "columns", "not those that the log names"),
    "a bit of a proof's digest": (byte(BATCH, 20), "proofs", "another window"),
    "the proof of another record": (batch(proof_of_another), "proofs", "the proof of record 1 does not hold"),
    "the hints of another record": (batch(hints_of_another), "proofs", "the proof of record 1 does not hold"),
    "a proof made anew": (batch(same_proof_anew), "openings", "does not hold"),
    "another opening of hints": (batch(lambda b: other_opening_of(b, 0)), "openings", "does not hold"),
    "fewer rounds of folding": (batch(fewer_rounds), "proofs", "rounds of folding expected"),
    "another link": (batch(other_link), "openings", "does not hold"),
    "two tenants' links swapped": (batch(links_swapped), "openings", "does not hold"),
    "a link left out": (batch(one_link), "proofs", "one link opening for each version"),
    "records reordered": (batch(lambda b: replace(b, entries=b.entries[::-1])), "proofs", "exactly the records"),
    "a record left out": (batch(lambda b: replace(b, entries=b.entries[1:])), "proofs", "exactly the records"),
    "another window's batch": (batch(lambda b: replace(b, manifest=bytes(32))), "proofs", "another window"),
}


def test_an_honest_window_holds_and_says_what_it_does_not_show(honest: Published) -> None:
    said = honest.check_alone()
    assert (said.state, said.proven, said.exit, said.bad) == ("good", 3, 0, {})
    assert list(said.of("good")) == [
        "checkpoint", "entries", "tiles", "messages", "manifest", "opening and closing", "beacon", "index versions",
        "records", "verifying key", "columns", "proofs", "openings",
    ]  # fmt: skip
    assert list(said.of("open")) == [
        "witnesses", "who asked", "origin of the keys", "noise and epsilon", "estimate", "answers",
        "the auditor's nonce",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["noise-tiny-two"])
def test_an_honest_window_of_a_noise_class_holds(name: str, tmp_path: Path) -> None:
    tools = machine(name)
    world = AttackWorld(tools, {tenant: make_tenant(tenant, on=tools) for tenant in ("north", "south")})
    world.commit(policy_=policy(tools))
    for account in ("alice", "carol"):
        world.ask(account)
    world.close()
    published = publish(world, tmp_path)
    assert published.check().state == "good"
    path = published.only(BATCH)
    made = ProofBatch.decode(path.read_bytes())
    c_h, c_1 = (made.entries[0].committed[at : at + 64] for at in (0, 64))
    path.write_bytes(with_entry(made, 0, committed=c_1 + c_h).encode())
    assert published.check().bad == {"proofs": "the proof of record 0 does not hold"}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_does_not_hold(change: str, copied: Published) -> None:
    action, step, match = CHANGES[change]
    action(copied)
    said = copied.check_alone()
    assert (said.state, said.exit) == ("bad", 1)
    (found,) = [line for line in said.lines if line["state"] == "bad"]
    assert found["step"] == step
    assert re.search(match, found["text"]), found["text"]
    assert found["whose"] == "files"  # nobody signed them: whoever serves them may have made it so


@pytest.mark.parametrize("pattern", [BUNDLE, KEY, COLUMNS, BATCH])
def test_what_is_missing_is_never_said_to_hold(pattern: str, copied: Published) -> None:
    files(copied, pattern)[0].unlink()
    said = copied.check_alone()
    assert (said.state, said.exit, said.bad, said.proven) == ("open", 3, {}, 0)
    assert any("is not among the files" in text for text in said.of("open").values())


def test_a_window_that_is_still_open_has_no_proofs(tmp_path: Path) -> None:
    world = AttackWorld()
    world.commit()
    world.ask("alice")
    said = publish(world, tmp_path, with_proofs=False).check()
    assert said.state == "open"
    assert said.of("open")["proofs"] == "proofs are published once the window is closed"


# --- a checkpoint that the reader has ---------------------------------------------------------------------------------


def kept(folder: Path, published: Published, size: int, fork: bool = False) -> str:
    """A file with a note of the log's key over the first entries, or over others."""
    (path,) = files(published, BUNDLE)
    data, entries = path.read_bytes(), []
    while data:
        length = 2 + int.from_bytes(data[:2], "big")
        entries.append(data[2:length])
        data = data[length:]
    root = bytes(32) if fork else MerkleTree(entries).range_root(0, size)
    path = folder / "kept.note"
    path.write_bytes(Checkpoint("test.example/log", size, root).sign(NoteSigner("test.example/log", key_of("log"))))
    return str(path)


@pytest.mark.parametrize("size", [1, 7, 12])
def test_files_that_continue_a_kept_checkpoint(size: int, honest: Published, tmp_path: Path) -> None:
    said = honest.check("--kept", kept(tmp_path, honest, size))
    assert (said.state, said.exit) == ("good", 0)
    assert said.of("good")["kept checkpoint"].endswith(f"checkpoint of {size} entries was kept")


@pytest.mark.parametrize("size", [1, 7, 12])
def test_files_of_another_history_under_the_same_key(size: int, honest: Published, tmp_path: Path) -> None:
    """A host shows one log where it is remembered, and another one here: nothing of the other is said to hold."""
    note = kept(tmp_path, honest, size, fork=True)
    said = honest.check("--kept", note)
    assert (said.state, said.exit, list(said.bad), said.whose) == ("bad", 1, ["kept checkpoint"], ["log"])
    assert "manifest" not in said.of("good")
    (line,) = [line for line in said.lines if line["state"] == "bad"]
    assert list(line["notes"]) == [Path(note).read_text(), (honest.folder / "checkpoint").read_text()]


@pytest.mark.parametrize("fork", [False, True])
def test_files_that_end_before_a_kept_checkpoint(fork: bool, honest: Published, tmp_path: Path) -> None:
    """Whether they are of its log does not show."""
    path = tmp_path / "kept.note"
    signer = NoteSigner("test.example/log", key_of("log"))
    path.write_bytes(Checkpoint(signer.name, 13, bytes([fork]) * 32).sign(signer))
    said = honest.check("--kept", str(path))
    assert (said.state, said.exit, said.bad, said.proven) == ("open", 3, {}, 3)
    assert said.of("open")["kept checkpoint"].startswith("these files end at 12 entries")


def test_a_kept_checkpoint_of_a_key_that_the_files_do_not_show(honest: Published, tmp_path: Path) -> None:
    """Of a turn that is newer than the files, or of another log: no fault of this one, and nothing is claimed of it."""
    path = tmp_path / "kept.note"
    path.write_bytes(Checkpoint("test.example/log", 12, bytes(32)).sign(NoteSigner("test.example/log", key_of("bob"))))
    said = honest.check("--kept", str(path))
    assert (said.state, said.exit, said.bad, said.proven) == ("open", 3, {}, 3)
    assert "has no signature of test.example/log" in said.of("open")["kept checkpoint"]


def test_a_kept_checkpoint_of_another_log_is_none(honest: Published, tmp_path: Path) -> None:
    path = tmp_path / "kept.note"
    path.write_bytes(
        Checkpoint("other.example/log", 12, bytes(32)).sign(NoteSigner("other.example/log", key_of("bob")))
    )
    with pytest.raises(AssertionError, match="has no signature of"):
        honest.check("--kept", str(path))


# --- witnesses -------------------------------------------------------------------------------------------------------


def cosigned(published: Published, *names: str) -> dict[str, NoteSigner]:
    """Witnesses' lines under the folder's checkpoint."""
    witnesses = {
        name: NoteSigner(name, Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32)), COSIGNATURE)
        for name in ("a.example", "b.example", "c.example")
    }
    path = published.folder / "checkpoint"
    note: Note = open_checkpoint(path.read_bytes(), NoteVerifier.from_vkey(published.key)).note
    lines = [witnesses[name].sign(note.text, 1_800_000_000) for name in names]
    path.write_bytes(note.with_signatures(lines).encode())
    return witnesses


def written(folder: Path, published: Published, witnesses: dict[str, NoteSigner], least: str) -> str:
    path = folder / "policy"
    lines = [f"log {published.key}", *(f"witness {n} {w.verifier.vkey()}" for n, w in witnesses.items())]
    path.write_text("\n".join([*lines, f"group all {least} {' '.join(witnesses)}", "quorum all", ""]))
    return str(path)


def test_a_quorum_of_witnesses(copied: Published, tmp_path: Path) -> None:
    witnesses = cosigned(copied, "a.example", "c.example")
    policy_of = partial(written, tmp_path, copied, witnesses)
    assert copied.check("--policy", policy_of("2")).of("good")["witnesses"] == (
        "a quorum cosigned this checkpoint: a.example, c.example"
    )
    short = copied.check("--policy", policy_of("3"))  # that convicts nobody (D.1.4), and is not what was asked for
    assert (short.state, short.exit, short.bad, short.proven) == ("open", 3, {}, 3)
    assert "no quorum" in short.of("open")["witnesses"]


def test_keys_of_witnesses_that_are_asked_for(copied: Published) -> None:
    witnesses = cosigned(copied, "a.example", "c.example")
    a, b, c = (["--witness", witnesses[f"{name}.example"].verifier.vkey()] for name in "abc")
    both = copied.check(*a, *c)
    assert both.exit == 0
    assert both.of("good")["witnesses"].startswith("cosigned by a.example, c.example")
    for missing in (copied.check(*b), copied.check(*a, *b)):
        assert (missing.state, missing.exit) == ("open", 3)
        assert missing.of("open")["witnesses"] == "this checkpoint has no line of b.example"
    with pytest.raises(AssertionError, match="is no witness's"):
        copied.check("--witness", copied.key)


def test_a_policy_that_asks_nobody_or_is_for_other_logs(copied: Published, tmp_path: Path) -> None:
    path = tmp_path / "policy"
    path.write_text("quorum none\n")
    nobody = copied.check("--policy", str(path))
    assert (nobody.state, nobody.exit) == ("good", 0)
    assert "witnesses" not in nobody.of("good")
    assert "asks nobody" in nobody.of("open")["witnesses"]
    other = NoteSigner("other.example/log", key_of("log")).verifier.vkey()
    path.write_text(f"log {other}\nquorum none\n")
    with pytest.raises(AssertionError, match="has log lines, and none for test"):
        copied.check("--policy", str(path))


def test_a_witness_is_called_nothing_that_steers_a_line(copied: Published) -> None:
    path = copied.folder / "checkpoint"
    text = path.read_text().partition("\n\n")[0] + "\n"
    line = NoteSigner("w\u202e.example", key_of("bob"), COSIGNATURE).sign(text, 1_800_000_000).line()
    path.write_text(path.read_text() + line)
    assert "there are lines of w\\u202e.example," in copied.check().of("open")["witnesses"]


# --- how much is read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "size", "step"),
    [
        ("checkpoint", 2**16, "checkpoint"),
        (BUNDLE, 256 * 65_537, "entries"),
        (HASHES, 8192, "tiles"),
        (KEY, 2**26, "verifying key"),
        (COLUMNS, 2**26, "columns"),
        (BATCH, 2**26, "proofs"),
    ],
)
def test_a_file_that_is_too_long_is_not_read(pattern: str, size: int, step: str, copied: Published) -> None:
    with files(copied, pattern)[0].open("r+b") as file:
        file.truncate(size + 1)  # a hole, which takes no room
    said = copied.check()
    assert list(said.bad) == [step]
    assert said.bad[step].endswith(f"more than {size} bytes")


def test_a_log_beyond_what_is_read_convicts_nobody(copied: Published) -> None:
    """The page reads 1 GiB of entries; here less."""
    assert NODE is not None
    script = """
      const { readFileSync } = require("node:fs");
      const [bundle, folder, logKey] = process.argv.slice(1);
      const files = async (path) => new Uint8Array(readFileSync(`${folder}/${path}`));
      require(bundle).verifyWindow(files, { logKey, most: 1000 }).then((report) => console.log(JSON.stringify(report)));
    """
    command = [NODE, "-e", script, str(ROOT / "ledger" / "web" / "verify.js"), str(copied.folder), copied.key]
    report = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert report["state"] == "open"
    (line,) = [line for line in report["lines"] if line["step"] == "entries"]
    assert line["state"] == "open"
    assert line["text"].startswith("the entries have more than 1000 bytes together")


def test_a_server_that_does_not_end_is_left(copied: Published) -> None:
    """Its body has no length that it says beforehand."""
    sent = 0

    class Endless(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal sent
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while sent < 2**28:
                    sent += self.wfile.write(bytes(2**16))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert NODE is not None
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    command = [NODE, str(PROGRAM), address, "--log-key", copied.key, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    server.shutdown()
    server.server_close()
    assert done.returncode == 1, done.stderr
    assert "checkpoint: more than 65536 bytes" in done.stdout
    assert sent < 2**27


def test_a_witness_line_that_is_false(copied: Published, tmp_path: Path) -> None:
    witnesses = cosigned(copied, "a.example")
    path = copied.folder / "checkpoint"
    lines = path.read_text().splitlines(keepends=True)
    lines[-1] = witnesses["a.example"].sign("another text\n", 1_800_000_000).line()
    path.write_text("".join(lines))
    said = copied.check("--policy", written(tmp_path, copied, witnesses, "any"))
    assert "does not verify" in said.bad["witnesses"]
