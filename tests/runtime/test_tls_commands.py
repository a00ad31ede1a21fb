# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS between the processes, through their command lines: each edge with the right certificates, and with wrong ones.

Servers are real processes on loopback with TLS turned on by files; "not loopback" is 127.0.0.1's other name 0.0.0.0
for a listener and a documentation address (RFC 5737) for a caller, which is refused before anything is sent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.classes import TINY
from tests.runtime.certificates import Authority

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KEYS = ROOT / "var" / "keys"
ELSEWHERE = "198.51.100.7:7800"

OUT_OF_REACH = ("cannot be reached", "do not agree on TLS")  #: what a peer is called that lets nobody in


def run(part: str, *arguments: object, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """One of ragseal's programs, run to its end."""
    command = [sys.executable, "-m", f"ragseal.{part}", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)


def done(part: str, *arguments: object) -> str:
    """The output of a program that must succeed."""
    finished = run(part, *arguments)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def refused(finished: subprocess.CompletedProcess[str], *words: str) -> None:
    """It ended with one plain error that holds one of the words; an audit with NO VERDICT, which is no error."""
    if finished.stdout.startswith("NO VERDICT"):
        assert finished.returncode == 4
        assert "cannot be reached" in finished.stdout or any(word in finished.stdout for word in words)
        return
    assert finished.returncode == 1, (finished.returncode, finished.stdout, finished.stderr)
    assert "Traceback" not in finished.stderr
    assert not words or any(word in finished.stderr for word in words), finished.stderr


def fetched(scene: Scene, finished: subprocess.CompletedProcess[str]) -> None:
    """The provider was let in and holds the auditor's key of class TINY."""
    assert not any(words in finished.stderr for words in OUT_OF_REACH), finished.stderr
    keys = list(scene.file("p").rglob("verifying_key.bin"))
    assert keys, finished.stderr
    for key in keys:
        key.unlink()


@dataclass
class Scene:
    """Folders and certificates: one auditor with a key of class TINY, one provider, one account, one observer."""

    folder: Path
    ours: Authority
    theirs: Authority

    def file(self, name: str) -> Path:
        return self.folder / name

    @property
    def log_key(self) -> str:
        finished = json.loads(done("prover", "status", "--state", self.file("p"), "--json"))
        return str(finished["ledger_key"])


class Served:
    """A server process; ``address`` once it listens."""

    def __init__(self, scene: Scene, part: str, *arguments: object) -> None:
        command = [sys.executable, "-m", f"ragseal.{part}", "serve", *map(str, arguments), "--json"]
        self._log = scene.file(f"{part}-{time.monotonic_ns()}.log").open("w+b")
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=self._log)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(10)
            self._log.seek(0)
            raise AssertionError(self._log.read().decode())
        self.address = str(json.loads(line)["listening"])

    def __enter__(self) -> str:
        return self.address

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._log.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A provider that has committed to a window under the auditor's key; no model is needed: the index is small."""
    folder = tmp_path_factory.mktemp("tls")
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    made = Scene(folder, ours, theirs)
    done("verifier", "init", "--state", folder / "v")
    done("verifier", "keygen", "--state", folder / "v", "--class", TINY.name)
    done("prover", "init", "--state", folder / "p", "--class", TINY.name, "--origin", "tls.example/log")
    done("ledger", "keygen", "--name", "watch.example", "--state", folder / "o")
    return made


def _mutual(scene: Scene, name: str) -> tuple[object, ...]:
    """Options of a server that wants certificates of our authority."""
    certificate, key = scene.ours.certificate(name)
    return "--tls-cert", certificate, "--tls-key", key, "--tls-clients", scene.ours.path


def _own(scene: Scene, name: str, of: Authority | None = None, trust: Authority | None = None) -> tuple[object, ...]:
    """Options of a caller with a certificate."""
    certificate, key = (of or scene.ours).certificate(name)
    return "--ca", (trust or scene.ours).path, "--cert", certificate, "--cert-key", key


def test_the_auditors_keys_travel_over_mutual_tls(scene: Scene) -> None:
    """fetch-keys: good; no certificate; one of another authority; an auditor of another authority; in the clear."""
    fetch = ("prover", "fetch-keys", "--state", scene.file("p"))
    with Served(scene, "verifier", "--state", scene.file("v"), "--listen", "127.0.0.1:0", *_mutual(scene, "v")) as at:
        refused(run(*fetch, "--verifier", at, "--ca", scene.ours.path), *OUT_OF_REACH)
        refused(run(*fetch, "--verifier", at, *_own(scene, "stranger", of=scene.theirs)), *OUT_OF_REACH)
        refused(run(*fetch, "--verifier", at, *_own(scene, "misled", trust=scene.theirs)), "TLS", "CERTIFICATE")
        refused(run(*fetch, "--verifier", at), *OUT_OF_REACH)
        fetched(scene, run(*fetch, "--verifier", at, *_own(scene, "p-client"), seconds=180))


def test_the_ledger_is_followed_over_mutual_tls(scene: Scene, tmp_path: Path) -> None:
    """Observer, account and auditor towards a provider that only lets certificates in."""
    log_key = scene.log_key
    state = scene.file("p")
    with Served(scene, "prover", "--state", state, "--listen", "127.0.0.1:0", *_mutual(scene, "p")) as at:
        where = ("--provider", at, "--log-key", log_key)
        follow = ("ledger", "follow", "--state", scene.file("o"), "--once", *where)
        audit = ("verifier", "audit", "--state", scene.file("v"), "--out", tmp_path, "--patience", 0, *where)
        done("client", "keygen", "--state", tmp_path / "a", "--account", "alice")
        ask = ("client", "ask", "q", "--state", tmp_path / "a", "--embedder", "none", "--timeout", "5", *where)
        for command in (follow, audit, ask):
            refused(run(*command), *OUT_OF_REACH, "Error:")
            refused(run(*command, "--ca", scene.ours.path), *OUT_OF_REACH, "Error:")
            refused(run(*command, *_own(scene, "stranger", of=scene.theirs)), *OUT_OF_REACH)
            refused(run(*command, *_own(scene, "misled", trust=scene.theirs)), "TLS", "CERTIFICATE")
        # with the right ones all three are let in and hear what the provider has to say: nothing is there yet
        for command, said in ((follow, "0 entries"), (audit, "no opened window"), (ask, "window")):
            finished = run(*command, *_own(scene, "friend"))
            assert said in finished.stdout + finished.stderr, finished.stdout + finished.stderr
            assert not any(words in finished.stderr for words in OUT_OF_REACH), finished.stderr


def test_server_tls_without_client_certificates(scene: Scene) -> None:
    """One-sided: callers need only the authority."""
    certificate, key = scene.ours.certificate("one-sided")
    fetch = ("prover", "fetch-keys", "--state", scene.file("p"))
    arguments = ("--state", scene.file("v"), "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key)
    with Served(scene, "verifier", *arguments) as at:
        fetched(scene, run(*fetch, "--verifier", at, "--ca", scene.ours.path, seconds=180))
        refused(run(*fetch, "--verifier", at, "--ca", scene.theirs.path), "TLS")
        refused(run(*fetch, "--verifier", at), *OUT_OF_REACH)


@pytest.mark.parametrize(("part", "folder"), [("prover", "p"), ("verifier", "v")])
def test_a_server_beyond_loopback_needs_tls(scene: Scene, part: str, folder: str) -> None:
    state = ("--state", scene.file(folder))
    refused(run(part, "serve", *state, "--listen", "0.0.0.0:0"), "in the clear", "TLS")
    with Served(scene, part, *state, "--listen", "0.0.0.0:0", "--listen-plain") as at:
        assert at.startswith("0.0.0.0:")
    certificate, key = scene.ours.certificate(f"{part}-everywhere")
    with Served(scene, part, *state, "--listen", "0.0.0.0:0", "--tls-cert", certificate, "--tls-key", key) as at:
        assert at.startswith("0.0.0.0:")


@pytest.mark.parametrize("part", ["prover", "verifier"])
def test_a_server_refuses_files_that_do_not_do(scene: Scene, part: str) -> None:
    state = ("--state", scene.file("p" if part == "prover" else "v"), "--listen", "127.0.0.1:0")
    good, key = scene.ours.certificate(f"{part}-good")
    _, foreign = scene.ours.certificate(f"{part}-other")
    old, old_key = scene.ours.certificate(f"{part}-old", expires=-60)
    junk = scene.file("junk.pem")
    junk.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for options, words in (
        (("--tls-cert", good), "both --tls-cert and --tls-key"),
        (("--tls-cert", good, "--tls-key", foreign), "is not the key of the certificate"),
        (("--tls-cert", old, "--tls-key", old_key), "expired at"),
        (("--tls-cert", junk, "--tls-key", key), "holds no certificate"),
        (("--tls-cert", good, "--tls-key", junk), "not a private key"),
        (("--tls-clients", good), "--tls-clients needs"),
        (("--tls-cert", good, "--tls-key", key, "--tls-clients", junk), "holds no certificate"),
        (("--tls-cert", good, "--tls-key", key, "--listen-plain"), "contradict"),
    ):
        refused(run(part, "serve", *state, *options), words)


def test_an_expired_certificate_is_refused_by_the_other_side(scene: Scene) -> None:
    """A caller's expired one by its own program; a server's by the caller, at the handshake."""
    fetch = ("prover", "fetch-keys", "--state", scene.file("p"))
    old = scene.ours.certificate("old-client", expires=-60)
    refused(
        run(*fetch, "--verifier", "127.0.0.1:9", "--ca", scene.ours.path, "--cert", old[0], "--cert-key", old[1]),
        "expired at",
    )
    short = scene.ours.certificate("short", expires=6)
    arguments = ("--listen", "127.0.0.1:0", "--tls-cert", short[0], "--tls-key", short[1])
    with Served(scene, "verifier", "--state", scene.file("v"), *arguments) as at:
        time.sleep(6)
        refused(run(*fetch, "--verifier", at, "--ca", scene.ours.path), "TLS")


def test_callers_never_speak_in_the_clear_beyond_loopback(scene: Scene, tmp_path: Path) -> None:
    """By default they use TLS there; --plain is the only way out, and contradicts certificates."""
    fetch = ("prover", "fetch-keys", "--state", scene.file("p"), "--verifier", ELSEWHERE)
    refused(run(*fetch, "--plain", "--ca", scene.ours.path), "contradict")
    code = (
        "import asyncio, grpc.aio\n"
        "from ragseal.runtime import rpc\n"
        "from ragseal.runtime.tls import ClientTls\n"
        "opened = []\n"
        "grpc.aio.insecure_channel = lambda *a, **k: opened.append('clear')\n"
        "grpc.aio.secure_channel = lambda *a, **k: opened.append('tls')\n"
        f"rpc.dial('{ELSEWHERE}', ClientTls())\n"
        f"rpc.dial('{ELSEWHERE}', ClientTls(plain=True))\n"
        "rpc.dial('127.0.0.1:1', ClientTls())\n"
        f"try:\n    rpc.open_channel('{ELSEWHERE}')\n"
        "except Exception as error:\n    opened.append(type(error).__name__)\n"
        "print(opened)\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == str(["tls", "clear", "clear", "ConfigurationError"])
    assert os.listdir(tmp_path) == []
