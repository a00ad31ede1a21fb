# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutation testing: which small faults in the code that decides would no test notice?

    .venv/bin/python scripts/mutation.py kernel/squarednorm.py ledger     files or folders; none: all of TESTS
    .venv/bin/python scripts/mutation.py --again survived kernel          run the survivors once more, after new tests
    .venv/bin/python scripts/mutation.py --report                         what is known so far

Every mutant (scripts/mutation_operators.py) runs the tests that should notice it (scripts/mutation_tests.py), fast ones
first, in a child process (scripts/mutation_attempt.py) that gets the changed module from memory: no file is touched,
and the libraries are loaded once for all.  Results are kept in var/mutation/ by the file's content, so a broken-off run
goes on where it was.  A survivor is explained by a line in scripts/mutation-survivors.md that holds its name; the
others are listed, and make the exit status 1.

Why not mutmut or cosmic-ray: both start an interpreter for every mutant (2 to 3 s here, where most mutants are killed
in less), cosmic-ray changes the files in place, and mutmut takes kernel/x.py for the module kernel.x, not for what the
links in ragseal/ make of it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).resolve().parent)]

from mutation_attempt import KILLED, SURVIVED, TIMEOUT, attempt  # noqa: E402
from mutation_operators import Mutant, mutants  # noqa: E402
from mutation_tests import TESTS  # noqa: E402

RESULTS = ROOT / "var" / "mutation"  #: one file of results for each source file
EXPLAINED = ROOT / "scripts" / "mutation-survivors.md"
UNEXPLAINED = "unexplained"  #: a survivor of which EXPLAINED says nothing
LIBRARIES = (
    "numpy", "pytest", "_pytest.assertion.rewrite", "hypothesis", "py_ecc.optimized_bn128", "click", "rich.console",
    "cryptography.hazmat.primitives.asymmetric.ed25519", "cryptography.x509", "google.protobuf.message",
)  # fmt: skip

Held = dict[str, Any]  #: of one file: {"content": digest, "mutants": {key: [status, who noticed, line]}}


# --- what is loaded once ---------------------------------------------------------------------------------------------


def _imports(path: Path) -> set[str]:
    """Modules of this package (and grpc, which a fork does not survive) that a file names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith(("ragseal.", "grpc"))}


def independent_of(module: str) -> list[str]:
    """Modules of the package that a change of ``module`` cannot reach."""
    folders = (
        "accounting",
        "kernel",
        "runtime",
        "ledger",
        "groth16",
        "circuits",
        "embedder",
        "generators",
        "verifier",
        "client",
        "prover",
    )
    held = {
        f"ragseal.{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}".removesuffix(".__init__"): _imports(path)
        | _imports(path.parent / "__init__.py")
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if path.stem != "__main__" and "node_modules" not in path.parts
    }
    reached = {module, *(name for name, used in held.items() if any(one.startswith("grpc") for one in used))}
    while more := {name for name, used in held.items() if used & reached} - reached:
        reached |= more
    return sorted(set(held) - reached)


# --- many ------------------------------------------------------------------------------------------------------------


def load(file: str) -> Held:
    """What is known of a file as it stands now."""
    content = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]
    kept = RESULTS / f"{file.replace('/', '.')}.json"
    held: Held = json.loads(kept.read_text()) if kept.exists() else {}
    return held if held.get("content") == content else {"content": content, "mutants": {}}


def save(file: str, held: Held) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = RESULTS / f"{file.replace('/', '.')}.json"
    whole = kept.with_suffix(".tmp")
    whole.write_text(json.dumps(held, indent=1, sort_keys=True))
    whole.replace(kept)


def chosen(arguments: Sequence[str]) -> list[str]:
    """The files of TESTS that are named, in the order of TESTS."""
    named = [Path(one).resolve().relative_to(ROOT) for one in arguments]
    return [file for file in TESTS if not named or any(Path(file) == one or one in Path(file).parents for one in named)]


def _explained(file: str, key: str) -> bool:
    return EXPLAINED.exists() and f"`{file}` `{key}`" in EXPLAINED.read_text()


def _wanted(file: str, key: str, tried: dict[str, list[Any]], redo: set[str]) -> bool:
    """Without ``redo`` what was never tried, with it only those of what was."""
    if key not in tried or not redo:
        return key not in tried and not redo
    status = tried[key][0]
    return status in redo or (UNEXPLAINED in redo and status == SURVIVED and not _explained(file, key))


def run(
    file: str, redo: set[str], until: float, only_lines: range | None, checks: bool, sample: int | None = None
) -> None:
    known = load(file)
    every = mutants((ROOT / file).read_text())
    module = "ragseal." + file.removesuffix(".py").replace("/", ".")
    left: list[Mutant] = [
        one
        for one in every
        if _wanted(file, one.key, known["mutants"], redo)
        and (only_lines is None or one.line in only_lines)
        and (one.check or not checks)
    ]
    if sample is not None:  # the same ones every time, wherever in the file
        drawn = sorted(left, key=lambda one: hashlib.sha256(one.key.encode()).digest())[:sample]
        left = [one for one in left if one in drawn]
    if not left:
        return
    for name in independent_of(module):
        with contextlib.suppress(ImportError):  # an optional library is missing
            importlib.import_module(name)
    assert module not in sys.modules, f"{module} was loaded before it could be changed"
    tests = [f"tests/{name}" for name in TESTS[file] if (ROOT / "tests" / name).exists()]
    status, who, seconds = attempt(module, None, tests, 1200)
    if status != SURVIVED:
        print(f"{file}: its tests fail without any mutant: {who}", flush=True)
        os._exit(1)
    limit = 15 + 4 * seconds
    print(f"{file}: {len(left)} of {len(every)} mutants; their tests take {seconds:.0f} s", flush=True)
    for number, mutant in enumerate(left):
        if time.monotonic() > until:
            print(f"{file}: time is over, {len(left) - number} mutants are left", flush=True)
            return
        code = compile(mutant.tree(), str(ROOT / file), "exec")
        outcome = attempt(module, code, tests, limit)
        known["mutants"][mutant.key] = [outcome[0], outcome[1], mutant.line]
        save(file, known)
        if outcome[0] != KILLED:
            print(f"  {outcome[0]:8} {file}:{mutant.line} {mutant.key}", flush=True)


def report(files: Sequence[str]) -> int:
    """Print what is known; how many survivors nobody explained."""
    loose = []
    print(f"{'file':26} {'tried':>6} {'killed':>6} {'timeout':>7} {'survived':>8} {'unexplained':>11}")
    for file in files:
        held = load(file)["mutants"]
        if not held:
            continue
        counts = Counter(one[0] for one in held.values())
        open_ = [key for key, one in held.items() if one[0] == SURVIVED and not _explained(file, key)]
        loose += [(file, held[key][2], key) for key in open_]
        print(f"{file:26} {len(held):6} {counts[KILLED]:6} {counts[TIMEOUT]:7} {counts[SURVIVED]:8} {len(open_):11}")
    for file, line, key in loose:
        print(f"- `{file}` `{key}`: line {line}")
    return len(loose)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("files", nargs="*", help="files or folders of those in TESTS")
    parser.add_argument(
        "--again", action="append", default=[], choices=[SURVIVED, UNEXPLAINED, TIMEOUT], help="only these, once more"
    )
    parser.add_argument("--lines", help="only mutants of these lines, as 10-25")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no mutant after so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="files at a time (default: one a core)")
    parser.add_argument("--checks", action="store_true", help="only what drops or turns a check, a call, a hashed part")
    parser.add_argument("--sample", type=int, help="of those of a file that were not tried yet so many, spread over it")
    parser.add_argument("--report", action="store_true", help="run nothing")
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    if not given.report:
        recursion = sys.getrecursionlimit()
        for name in LIBRARIES:
            importlib.import_module(name)
        sys.setrecursionlimit(recursion)  # py_ecc lifts it, and a test of hostile JSON would end the process
        until = time.monotonic() + 60 * given.minutes
        lines = range(int(given.lines.split("-")[0]), int(given.lines.split("-")[1]) + 1) if given.lines else None
        waiting, running, broken = chosen(given.files), dict[int, str](), list[str]()
        while waiting or running:
            while waiting and len(running) < given.jobs:
                file = waiting.pop(0)
                child = os.fork()  # so that what it loads is not there for the next file
                if not child:
                    run(file, set(given.again), until, lines, given.checks, given.sample)
                    os._exit(0)
                running[child] = file
            ended, status = os.wait()
            broken += [running[ended]] if status else []
            del running[ended]
        if broken:
            print(f"broken off: {', '.join(broken)}", file=sys.stderr)
            sys.exit(1)
    sys.exit(bool(report(chosen(given.files))))


if __name__ == "__main__":
    main()
