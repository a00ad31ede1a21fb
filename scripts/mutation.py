# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutation testing: which small faults in the code that decides would no test notice?

    .venv/bin/python scripts/mutation.py kernel/squarednorm.py ledger     files or folders; none: all of TESTS
    .venv/bin/python scripts/mutation.py --again survived kernel          run the survivors once more, after new tests
    .venv/bin/python scripts/mutation.py --report                         what is known so far

Every mutant (scripts/mutation_operators.py) runs the tests that should notice it, fast ones first, in a child process
that gets the changed module from memory: no file is touched, and the libraries are loaded once for all.  Results are
kept in var/mutation/ by the file's content, so a broken-off run goes on where it was.  A survivor is explained by
a line in scripts/mutation-survivors.md that holds its name; the others are listed, and make the exit status 1.

Why not mutmut or cosmic-ray: both start an interpreter for every mutant (2 to 3 s here, where most mutants are killed
in less), cosmic-ray changes the files in place, and mutmut takes kernel/x.py for the module kernel.x, not for what the
links in ragseal/ make of it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import json
import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).resolve().parent)]

from mutation_operators import Mutant, mutants  # noqa: E402

RESULTS = ROOT / "var" / "mutation"  #: one file of results for each source file
EXPLAINED = ROOT / "scripts" / "mutation-survivors.md"
KILLED, TIMEOUT, SURVIVED = "killed", "timeout", "survived"
UNEXPLAINED = "unexplained"  #: a survivor of which EXPLAINED says nothing
LIBRARIES = (
    "numpy", "pytest", "_pytest.assertion.rewrite", "hypothesis", "py_ecc.optimized_bn128", "click", "rich.console",
    "cryptography.hazmat.primitives.asymmetric.ed25519", "cryptography.x509", "google.protobuf.message",
)  # fmt: skip

#: file -> the tests that should notice, fast ones first.
TESTS: dict[str, list[str]] = {
    "kernel/transcript.py": ["kernel/test_hashed.py", "kernel/test_folding.py"],
    "kernel/slot_text.py": ["kernel/test_slot_text.py"],
    "kernel/squarednorm.py": ["kernel/test_squarednorm.py", "kernel/test_certificate.py"],
    "kernel/opening.py": [
        "kernel/test_opening_shapes.py", "kernel/test_opening.py", "kernel/test_hashed.py", "kernel/test_folding.py",
    ],
    "kernel/folding.py": ["kernel/test_opening.py", "kernel/test_hashed.py", "kernel/test_folding.py"],
    "kernel/certificate.py": [
        "kernel/test_lists.py", "kernel/test_certificate.py", "kernel/test_hashed.py", "attacks/test_links_cover.py",
        "verifier/test_batch_word.py", "attacks/test_estimate.py",
    ],
    "kernel/encoding.py": [
        "kernel/test_codecs.py", "kernel/test_encoding.py", "kernel/test_hashed.py", "fuzz/test_decoders.py",
    ],
    "kernel/field.py": ["kernel/test_curve.py", "kernel/test_encoding.py", "kernel/test_opening.py"],
    "kernel/signature.py": ["kernel/test_purposes.py", "kernel/test_hashed.py"],
    "kernel/estimate.py": ["kernel/test_members.py", "kernel/test_estimate.py"],
    "kernel/policy.py": ["kernel/test_policy.py", "prover/test_policies.py"],
    "kernel/fixedpoint.py": ["kernel/test_certificate.py", "kernel/test_policy.py"],
    "kernel/bn254.py": ["kernel/test_curve.py", "kernel/test_hashed.py", "kernel/test_folding.py"],
    "kernel/statement.py": ["kernel/test_hints.py", "kernel/test_hashed.py", "backends/test_mechanism.py"],
    "kernel/mechanism.py": ["kernel/test_hints.py", "kernel/test_hashed.py", "backends/test_mechanism.py"],
    "kernel/hints.py": ["kernel/test_hints.py", "kernel/test_hashed.py", "backends/test_mechanism.py"],
    "kernel/attestation.py": [
        "kernel/test_hashed.py", "kernel/test_message_refusals.py", "kernel/test_hashed_asks.py",
        "client/test_attestation.py", "verifier/test_proofs.py", "verifier/test_attestation.py",
        "client/test_sealed.py", "attacks/test_moved.py",
    ],
    "kernel/proofs.py": [
        "kernel/test_hashed.py", "kernel/test_message_refusals.py", "verifier/test_proofs.py", "attacks/test_moved.py",
    ],
    "kernel/commitment.py": [
        "kernel/test_hashed.py", "kernel/test_message_refusals.py", "kernel/test_hashed_asks.py",
        "verifier/test_commitment.py", "verifier/test_beacon.py", "attacks/test_columns.py",
    ],
    "kernel/publickey.py": ["kernel/test_publickey.py"],
    "kernel/sealing.py": ["kernel/test_sealing.py"],
    "kernel/inquiry.py": ["kernel/test_message_refusals.py", "kernel/test_hashed_asks.py", "prover/test_limits.py"],
    "accounting/guess.py": ["accounting/test_guess.py"],
    "accounting/rounding.py": ["accounting/test_guess.py"],
    "ledger/merkle.py": ["ledger/test_merkle_refusals.py", "ledger/test_merkle.py"],
    "ledger/note.py": [
        "ledger/test_note_refusals.py", "ledger/test_checkpoint_refusals.py", "ledger/test_note.py",
        "ledger/test_checkpoint.py",
    ],
    "ledger/checkpoint.py": ["ledger/test_checkpoint_refusals.py", "ledger/test_checkpoint.py", "ledger/test_note.py"],
    "groth16/pairing.py": ["native/test_plain_python.py"],
    "groth16/verifying_key.py": ["native/test_plain_python.py", "native/test_hostile_files.py"],
    "groth16/views.py": [
        "groth16/test_views.py", "verifier/test_real_key.py",
        "native/test_plain_python.py", "attacks/test_estimate.py",
    ],
    "client/attestation.py": ["client/test_attestation.py", "client/test_tampering.py", "client/test_commands.py"],
    "client/commitment.py": ["client/test_opening.py", "client/test_tampering.py", "client/test_client.py"],
    "client/opening.py": ["client/test_opening.py"],
    "client/history.py": ["client/test_opening.py", "client/test_tampering.py", "client/test_client.py"],
    "verifier/steps/sample.py": ["verifier/test_hashed.py", "verifier/test_sample.py"],
    "verifier/steps/blocks.py": ["verifier/test_hashed.py", "verifier/test_blocks.py"],
    "verifier/steps/log.py": ["verifier/test_log.py", "verifier/test_beacon.py", "verifier/test_meanwhile.py"],
    "verifier/asking.py": ["verifier/test_verification.py", "verifier/test_proofs.py", "attacks/test_outsiders.py"],
    "verifier/steps/receipts.py": [
        "verifier/test_attestation.py", "attacks/test_receipts.py", "verifier/test_log.py",
        "verifier/test_verification.py", "attacks/test_outsiders.py",
    ],
    "verifier/steps/beacon.py": ["verifier/test_beacon_order.py", "verifier/test_beacon.py", "attacks/test_windows.py"],
    "verifier/participant.py": ["verifier/test_beacon.py", "verifier/test_beacon_order.py"],
    "verifier/steps/manifest.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/lifespan.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/keys.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/index.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/noise_table.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/records.py": [
        "verifier/test_attestation.py", "attacks/test_records.py", "attacks/test_receipts.py",
    ],
    "verifier/steps/proofs.py": ["verifier/test_batch_word.py", "verifier/test_proofs.py", "attacks/test_batches.py"],
    "verifier/steps/estimate.py": [
        "verifier/test_estimation.py", "attacks/test_links_cover.py", "verifier/test_hashed.py",
        "verifier/test_verification.py", "attacks/test_estimate.py", "attacks/test_outsiders.py",
    ],
    "verifier/steps/epsilon.py": ["verifier/test_epsilon.py", "verifier/test_odometer.py", "attacks/test_epsilon.py"],
    "verifier/verification.py": [
        "verifier/test_verification.py", "verifier/test_verdicts.py", "verifier/test_remote.py",
        "verifier/test_meanwhile.py", "attacks/test_withheld.py",
    ],
    "verifier/checklist.py": ["verifier/test_verification.py", "attacks/test_withheld.py"],
    "verifier/verdicts.py": ["verifier/test_verdicts.py", "verifier/test_beacon.py"],
    "verifier/outcome.py": ["verifier/test_verdicts.py", "verifier/test_report.py", "verifier/test_verification.py"],
    "verifier/patience.py": ["verifier/test_remote.py"],
    "verifier/remote.py": ["verifier/test_remote.py", "verifier/test_proofs.py"],
    "verifier/key_entries.py": ["verifier/test_state.py", "verifier/test_real_key.py"],
    "verifier/report/guess.py": ["verifier/test_report.py", "verifier/test_summary.py"],
    "verifier/limits.py": ["verifier/test_service.py"],
    "verifier/steps/conditions.py": ["verifier/test_command.py", "verifier/test_verdicts.py"],
    "verifier/steps/dp_accounting_check.py": ["verifier/test_odometer.py", "verifier/test_epsilon.py"],
    "verifier/state.py": ["verifier/test_state.py", "verifier/test_beacon.py", "attacks/test_files.py"],
    "verifier/key_store.py": ["verifier/test_state.py", "verifier/test_real_key.py", "attacks/test_files.py"],
    "client/acceptance.py": ["client/test_opening.py", "client/test_sealed.py", "client/test_tampering.py"],
    "client/window.py": ["client/test_client.py", "client/test_opening.py", "client/test_sealed.py"],
    "client/account.py": ["client/test_account.py", "client/test_client.py"],
    "client/receipts.py": ["client/test_account.py", "client/test_sealed.py", "client/test_commands.py"],
    "client/repeat.py": ["client/test_client.py", "client/test_sealed.py"],
    "client/link.py": ["client/test_client.py", "client/test_against_provider.py"],
    "client/client.py": ["client/test_client.py", "client/test_sealed.py", "client/test_tampering.py"],
    "client/exchanges.py": ["client/test_client.py", "client/test_sealed.py", "client/test_tampering.py"],
    "ledger/published.py": ["ledger/test_published.py"],
    "ledger/receipt.py": ["ledger/test_receipt.py", "client/test_tampering.py"],
    "ledger/entries.py": ["ledger/test_page.py", "fuzz/test_decoders.py"],
    "ledger/cosignatures.py": ["ledger/test_cosignatures.py", "ledger/test_service.py"],
    "ledger/observer.py": ["ledger/test_observer.py", "attacks/test_windows.py"],
    "ledger/witness.py": ["ledger/test_witness.py", "ledger/test_observer.py"],
    "ledger/remote.py": ["ledger/test_service.py", "runtime/test_rpc_tls.py"],
    "runtime/tokenbucket.py": ["runtime/test_tokenbucket.py"],
    "groth16/zkey.py": ["native/test_plain_python.py", "native/test_hostile_files.py"],
    "circuits/container.py": ["native/test_plain_python.py", "native/test_hostile_files.py"],
    "groth16/coefficients.py": ["native/test_coefficients.py"],
    "groth16/g2.py": ["native/test_plain_python.py"],
    "kernel/printable.py": ["attacks/test_hostile_names.py"],
    "runtime/gate.py": ["attacks/test_exhaustion.py"],
    "runtime/limits.py": ["attacks/test_exhaustion.py"],
    "runtime/peers.py": ["attacks/test_exhaustion.py"],
    "runtime/statuses.py": ["ledger/test_service.py", "runtime/test_rpc_tls.py", "verifier/test_remote.py"],
    "runtime/durable.py": ["attacks/test_exhaustion.py", "ledger/test_log.py", "crash/test_storage.py"],
    "prover/attestation/admission.py": ["attacks/test_provider_load.py", "attacks/test_who_gets_what.py"],
    "prover/attestation/asked.py": ["attacks/test_auditors_asks.py"],
    "prover/storage/loaded.py": ["attacks/test_provider_load.py"],
    "prover/attestation/guard.py": ["prover/test_guard.py", "prover/test_guard_window.py"],
    "prover/attestation/own_lines.py": ["attacks/test_who_gets_what.py", "attacks/test_provider_load.py"],
    "prover/attestation/turns.py": ["attacks/test_auditors_asks.py", "prover/test_proofs.py"],
    "prover/attestation/deliveries.py": ["attacks/test_auditors_asks.py", "attacks/test_who_gets_what.py"],
    "prover/limits.py": ["prover/test_limits.py", "attacks/test_provider_load.py"],
    "accounting/period.py": ["verifier/test_odometer.py"],
}  # fmt: skip

Held = dict[str, Any]  #: of one file: {"content": digest, "mutants": {key: [status, who noticed, line]}}


# --- one mutant ------------------------------------------------------------------------------------------------------


class _Loader(importlib.machinery.SourceFileLoader):
    code: CodeType

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class _Finder(importlib.abc.MetaPathFinder):
    """Hands out the changed module under its own name."""

    def __init__(self, name: str, code: CodeType) -> None:
        self.name, self.code, self.used = name, code, False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.code = self.code
        spec.loader = loader
        self.used = True
        return spec


class _First:
    """Remembers the first test that failed."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = f"import of {report.nodeid}"


def _child(module: str, code: CodeType | None, tests: Sequence[str], out: int) -> None:
    """Run the tests in this (forked) process, say the outcome, and end it."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    import pytest

    finder = _Finder(module, code) if code is not None else None
    if finder is not None:
        sys.meta_path.insert(0, finder)
    first = _First()
    status = 3
    try:
        for test in tests:  # one by one: most mutants end with the first file, and no other need be imported
            status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--tb=no", test], plugins=[first]))
            if status:
                break
        if finder is not None and not finder.used:
            status, first.name = 100, "the changed module was never imported"
    finally:
        os.write(out, json.dumps([status, first.name]).encode())
        os._exit(0)


def attempt(module: str, code: CodeType | None, tests: Sequence[str], limit: float) -> tuple[str, str, float]:
    """(killed, survived or timeout; the test that failed; seconds)."""
    begun = time.monotonic()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _child(module, code, tests, write)
    os.close(write)
    said = b""
    if select.select([read], [], [], limit)[0]:
        said = os.read(read, 1 << 16)
    os.close(read)
    for end in (os.killpg, os.kill):
        try:
            end(child, signal.SIGKILL)
            break
        except ProcessLookupError:
            continue
    os.waitpid(child, 0)
    seconds = time.monotonic() - begun
    if not said:
        return (TIMEOUT if seconds >= limit else KILLED), "the process ended", seconds
    status, name = json.loads(said)
    if status == 100:
        raise RuntimeError(f"{module}: {name}")
    return (SURVIVED if status == 0 else KILLED), name or f"status {status}", seconds


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
