# SPDX-License-Identifier: GPL-3.0-or-later
"""All linters, every one run to its end so that one failure does not hide the next."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

WEB = ROOT / "web" / "verify"
PROGRAMS = ["bench", "examples", "scripts", "vectors"]  #: what is typed strictly beside the package

CHECKS: list[tuple[str, list[str], Path]] = [
    ("ruff", [str(BIN / "ruff"), "check", "."], ROOT),
    ("ruff format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."], ROOT),
    ("mypy", [str(BIN / "mypy"), "-p", "ragseal"], ROOT),
    ("mypy programs", [str(BIN / "mypy"), "--explicit-package-bases", *PROGRAMS], ROOT),
    ("mypy tests", [str(BIN / "mypy"), "--explicit-package-bases", "--implicit-reexport", "tests"], ROOT),
    ("import-linter", [str(BIN / "lint-imports")], ROOT),
    ("the kernel is exact", [sys.executable, "scripts/exact.py"], ROOT),
    ("retired words", [sys.executable, "scripts/words.py"], ROOT),
    ("generated constants", [sys.executable, "scripts/constants.py", "--check"], ROOT),
    ("generated protobuf code", [sys.executable, "scripts/protos.py", "--check"], ROOT),
    ("generated vectors", [sys.executable, "vectors/generate.py", "--check"], ROOT),
    ("generated TypeScript", [sys.executable, "scripts/web_messages.py", "--check"], ROOT),
    ("reference pages", [sys.executable, "scripts/docs.py", "--check"], ROOT),
    ("clippy", ["cargo", "clippy", "--release", "--quiet", "--all-targets", "--", "-D", "warnings"], ROOT / "native"),
    ("cargo fmt", ["cargo", "fmt", "--check"], ROOT / "native"),
]


#: What needs npm's packages in web/verify: `npm ci` there, or `scripts/setup.py --extras`, brings them.
WEB_CHECKS: list[tuple[str, list[str], Path]] = [
    ("TypeScript", ["node", "node_modules/typescript/bin/tsc", "-p", "."], WEB),
    ("the page's bundle", ["node", "build.mjs", "--check"], WEB),
]


def main() -> None:
    checks = list(CHECKS)
    if (WEB / "node_modules" / "esbuild").exists():
        checks += WEB_CHECKS
    else:
        print("skip TypeScript, the page's bundle: npm's packages are not there (npm ci in web/verify)", flush=True)
    if shutil.which("circomspect"):  # cargo install circomspect
        checks.append(
            (
                "circomspect",
                [
                    "circomspect",
                    "--level",
                    "error",
                    "circuits/attestation.circom",
                    "circuits/ranked.circom",
                    "circuits/sharded.circom",
                ],
                ROOT,
            )
        )
    failed = []
    for name, command, where in checks:
        done = subprocess.run(command, cwd=where, capture_output=True, text=True)
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name}", flush=True)
        if done.returncode:
            failed.append(name)
            print((done.stdout + done.stderr)[-8000:])
    if failed:
        sys.exit(f"lint: {len(failed)} of {len(checks)} failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
