# SPDX-License-Identifier: GPL-3.0-or-later
"""All linters, every one run to its end so that one failure does not hide the next.

python3 scripts/lint.py           as many at a time as there are cores
python3 scripts/lint.py --web     only those of web/verify, which fail where npm's packages are not there
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

WEB = ROOT / "web" / "verify"
PROGRAMS = ["bench", "examples", "scripts", "vectors"]  #: what is typed strictly beside the package

Check = tuple[str, list[str], Path]  #: name, command, working folder


def mypy(cache: str, *arguments: str) -> list[str]:
    """Each call has a cache of its own: the calls' options differ, so that in one cache each would undo the others'."""
    return [str(BIN / "mypy"), "--cache-dir", f".mypy_cache/{cache}", *arguments]


#: The native module against its stub, the tree's: names, arguments, classes.  A change of either needs the other.
STUBTEST = [
    *("env", "MYPYPATH=native", sys.executable, "-m", "mypy.stubtest", "ragseal_native"),
    *("--ignore-disjoint-bases", "--allowlist", "native/stubtest-allowlist.txt"),
]

#: The longest begin, so that none runs alone at the end.
CHECKS: list[Check] = [
    ("mypy tests", mypy("tests", "--explicit-package-bases", "--implicit-reexport", "tests"), ROOT),
    ("clippy", ["cargo", "clippy", "--release", "--quiet", "--all-targets", "--", "-D", "warnings"], ROOT / "native"),
    ("mypy", mypy("package", "-p", "ragseal"), ROOT),
    ("mypy programs", mypy("programs", "--explicit-package-bases", *PROGRAMS), ROOT),
    ("the native module's stub", STUBTEST, ROOT),
    ("ruff", [str(BIN / "ruff"), "check", "."], ROOT),
    ("ruff format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."], ROOT),
    ("import-linter", [str(BIN / "lint-imports")], ROOT),
    ("the kernel is exact", [sys.executable, "scripts/exact.py"], ROOT),
    ("the paper's page", [sys.executable, "scripts/paper.py"], ROOT),
    ("retired words", [sys.executable, "scripts/words.py"], ROOT),
    ("pins of the proofs", [sys.executable, "scripts/pin_proofs.py", "--check"], ROOT),
    ("generated constants", [sys.executable, "scripts/constants.py", "--check"], ROOT),
    ("generated signals and hints", [sys.executable, "scripts/layout.py", "--check"], ROOT),
    ("stored measurements", [sys.executable, "-m", "bench.measured", "--check"], ROOT),
    ("generated protobuf code", [sys.executable, "scripts/protos.py", "--check"], ROOT),
    ("generated vectors", [sys.executable, "vectors/generate.py", "--check"], ROOT),
    ("generated TypeScript", [sys.executable, "scripts/web_messages.py", "--check"], ROOT),
    ("reference pages", [sys.executable, "scripts/docs.py", "--check"], ROOT),
    ("generated parts of the specification", [sys.executable, "scripts/spec.py", "--check"], ROOT),
    ("cargo fmt", ["cargo", "fmt", "--check"], ROOT / "native"),
]


#: What needs npm's packages in web/verify: `npm ci` there, or `scripts/setup.py --extras`, brings them.
WEB_CHECKS: list[Check] = [
    ("TypeScript", ["node", "node_modules/typescript/bin/tsc", "-p", "."], WEB),
    ("the page's bundle", ["node", "build.mjs", "--check"], WEB),
]


def run(check: Check) -> subprocess.CompletedProcess[str]:
    _, command, where = check
    return subprocess.run(command, cwd=where, capture_output=True, text=True)


def chosen() -> list[Check]:
    """What is to be run; what is left out is said."""
    if "--web" in sys.argv:
        return WEB_CHECKS
    checks = list(CHECKS)
    if (WEB / "node_modules" / "esbuild").exists():
        checks += WEB_CHECKS
    else:
        print("skip TypeScript, the page's bundle: npm's packages are not there (npm ci in web/verify)", flush=True)
    if shutil.which("circomspect"):  # cargo install circomspect
        sources = [f"circuits/{noun}.circom" for noun in ("noise", "decoys")]
        checks.append(("circomspect", ["circomspect", "--level", "error", *sources], ROOT))
    return checks


def main() -> None:
    checks = chosen()
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (name, _, _), done in zip(checks, pool.map(run, checks), strict=True):
            print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name}", flush=True)
            if done.returncode:
                failed.append(name)
                print((done.stdout + done.stderr)[-8000:])
    if failed:
        sys.exit(f"lint: {len(failed)} of {len(checks)} failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
