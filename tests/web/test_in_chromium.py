# SPDX-License-Identifier: GPL-3.0-or-later
"""The observer's page in a real Chromium: a real provider's window, tampered copies of it, keyboard, screens, paper."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ragseal.client import receipts
from ragseal.kernel.proofs import ProofBatch
from ragseal.ledger.__main__ import main as observer
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.note import NoteSigner
from ragseal.prover.wire.operator_remote import Remote
from tests.simulator.live import live
from tests.web.published import NODE, ROOT, Published
from tests.web.test_window_in_node import BATCH, proof_of_another

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MODULES = ROOT / "web" / "verify" / "node_modules" / "playwright-core"
SCRIPT = Path(__file__).with_name("browser.mjs")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None, reason="Node.js is not installed"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"),
    pytest.mark.skipif(not MODULES.exists(), reason="npm's packages are not there: npm ci in web/verify"),
]


def visit(folder: Path, task: str, *files: Path) -> dict[str, Any]:
    """What is seen; no error on the console, no refused script."""
    assert NODE is not None
    assert CHROMIUM is not None
    command = [NODE, str(SCRIPT), CHROMIUM, str(folder), task, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(*arguments: str) -> None:
    done = CliRunner().invoke(observer, arguments)
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A window with coins, as its provider and an observer publish it; an account's receipt beside it."""
    folder = tmp_path_factory.mktemp("chromium")
    out = folder / "site"
    with live(folder / "scene", coins=True) as made:
        for name in ("alice", "carol"):
            with made.client(name=name) as client:
                client.ask("report about topic 5")
        made.call(made.server.serving.turn(made.window))
        with Remote(made.folder / "provider") as there:
            there.export_proofs(out, "", lambda *_: None)
        for one in receipts.kept(made.account("alice")):
            receipts.export(one, folder / "receipts")
        state, peer = str(folder / "observer"), ("--provider", made.address, "--log-key", made.log_key)
        run("keygen", "--name", "w.example", "--state", state)
        run("export", *peer, "--tiles", str(out))
        run("page", *peer, "--state", state, "--out", str(out))
        assert Published(out, made.log_key).check().state == "good"
    return out


@pytest.fixture
def copied(site: Path, tmp_path: Path) -> Path:
    shutil.copytree(site, tmp_path / "site")
    return tmp_path / "site"


def test_a_whole_window_is_checked_by_keyboard_alone(site: Path) -> None:
    seen = visit(site, "window")
    assert seen["said"]["kind"] == "good"
    assert "2 of 2 records proven" in seen["said"]["text"]
    assert seen["focused"] == "window-said"  # a screen reader goes on where the result is
    marks = [line.split(":")[0] for line in seen["checks"]]
    assert marks.count("✔ holds") == 14
    assert marks.count("– not checked") == 7
    assert seen["troubles"] == []
    assert {path.split("/")[1] for path in seen["requests"] if path.endswith(".bin")} >= {"columns", "proofs"}


def test_a_changed_proof_is_seen(copied: Path) -> None:
    (path,) = copied.glob(BATCH)
    path.write_bytes(proof_of_another(ProofBatch.decode(path.read_bytes())).encode())
    seen = visit(copied, "window")
    assert seen["said"]["kind"] == "bad"
    (line,) = [line for line in seen["checks"] if line.startswith("✘")]
    assert "proofs: the proof of record 1 does not hold (whoever serves these files" in line


def test_a_changed_entry_and_a_missing_key_are_seen(copied: Path) -> None:
    for key in copied.glob("vk-*.bin"):
        key.unlink()
    assert visit(copied, "window")["said"]["kind"] == "wait"
    (bundle,) = (path for path in copied.glob("tile/entries/**/*") if path.is_file())
    data = bytearray(bundle.read_bytes())
    data[300] ^= 1
    bundle.write_bytes(data)
    seen = visit(copied, "window")
    assert seen["said"]["kind"] == "bad"
    assert any("the entries do not hash to the signed root" in line for line in seen["checks"])


def test_a_window_of_another_log_under_the_same_key_is_seen(copied: Path, site: Path) -> None:
    """The page's own log holds; beside it lie files of a fork."""
    key = load_pem_private_key((site.parent / "scene" / "provider" / "log.pem").read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    origin, size, _ = (copied / "checkpoint").read_text().split("\n")[:3]
    (copied / "checkpoint").write_bytes(Checkpoint(origin, int(size), bytes(32)).sign(NoteSigner(origin, key)))
    seen = visit(copied, "window")
    assert seen["headline"]["kind"] == "good"
    assert seen["said"]["kind"] == "bad"
    (line,) = [line for line in seen["checks"] if line.startswith("✘")]
    assert "kept checkpoint: the log has signed another history" in line
    assert line.endswith("Save note 1 Save note 2")


def test_files_are_checked_without_a_network(site: Path) -> None:
    exported = sorted((site.parent / "receipts").iterdir())
    seen = visit(site, "files", *exported)
    assert seen["said"] == {"kind": "good", "text": "✔ All of it holds."}
    assert seen["checks"] == seen["dropped"]
    assert len(seen["checks"]) == 6
    assert seen["fetched"] == []
    assert seen["unreadable"]["kind"] == "bad"  # and what was said before of others stands there no longer
    assert seen["unreadable"]["text"].startswith("✘ Nothing was checked: ")
    assert seen["unreadable"]["checks"] == []
    assert seen["troubles"] == []


def test_a_changed_receipt_is_seen(site: Path, tmp_path: Path) -> None:
    shutil.copytree(site.parent / "receipts", tmp_path / "receipts")
    (receipt,) = (tmp_path / "receipts").glob("*.receipt")
    data = bytearray(receipt.read_bytes())
    data[-100] ^= 1
    receipt.write_bytes(data)
    seen = visit(site, "files", *sorted((tmp_path / "receipts").iterdir()))
    assert seen["said"]["kind"] == "bad"


def test_phone_darkness_paper_and_strangers_scripts(site: Path) -> None:
    seen = visit(site, "faces")
    assert seen["light"] == seen["dark"] == []  # axe-core finds nothing
    assert (seen["wide"], seen["wideWithPolicy"]) == (360, 360)  # nothing to scroll sideways
    assert seen["paper"] == "rgb(13, 17, 23)"
    assert seen["printed"] == []  # no form on paper
    assert (seen["stranger"], seen["refused"]) == (False, 1)  # no script runs but those whose hash the policy has
    assert seen["troubles"] == []
