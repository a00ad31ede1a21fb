# SPDX-License-Identifier: GPL-3.0-or-later
"""Making rounds of a ceremony: its beginning, a contribution, the beacon at its end.  SPEC A.9.12 to A.9.14.

snarkjs computes, in a process of its own that ends with the contribution's secret in it; what it wrote is checked like
anybody's before it is put in place.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragseal.circuits.packages import node_modules, way_out
from ragseal.groth16.contributions import BEACON, Chain
from ragseal.groth16.powers import PowersFile
from ragseal.groth16.snarkjs_random import MAX_ITERATIONS, MIN_ITERATIONS
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.printable import printable
from ragseal.kernel.signature import SigningKey
from ragseal.runtime.durable import place_durably, sync_directory, unchanged
from ragseal.runtime.edges.filesystem import why
from ragseal.verifier.ceremony.attestation import MAX_NAME, Made, Round
from ragseal.verifier.ceremony.checking import Checker, Subject, Tell, begin_key, check_published, subject_of
from ragseal.verifier.ceremony.folder import ATTESTATION, DESCRIPTION, SUFFIX, WORK, Description, Folder, Listed

SECONDS = 6 * 3600  #: that one run of snarkjs may take
MIN_BEACON, MAX_BEACON = 16, 255  #: bytes
BEACON_NAME = "beacon"


def begin(
    path: Path, classes: Sequence[str], powers: Path, published: str | None, cache: Path, tell: Tell
) -> Description:
    """Make a ceremony's folder: its description, and of every circuit the key that it begins with.

    Args:
        path: does not exist, or is an empty folder.
        published: BLAKE2b-512 of the powers' file, as their ceremony published it.

    Raises:
        ConfigurationError: there is something at ``path``, no compiler or native module, or the disk refuses.
        ProofError: powers that are refused: another file than the published one, too small, or not prepared.
    """
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise ConfigurationError(f"{path} exists: a ceremony begins in a new folder, choose another name")
    tell("reading the powers of tau")
    held = PowersFile(powers)
    blake2b = check_published(held, published)
    built = [subject_of(name, cache, tell) for name in classes]
    listed = [
        Listed(name, about.digest.hex(), system.digest.hex())
        for name, (_, about, system) in zip(classes, built, strict=True)
    ]
    _, circuit, system = max(built, key=lambda one: one[2].domain(one[1].kept))
    description = Description(tuple(listed), held.digest(system, circuit.kept).hex(), blake2b)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=WORK, ignore_cleanup_errors=True) as work:
            made = Path(work) / "ceremony"
            (made / "0000").mkdir(parents=True)
            (made / DESCRIPTION).write_bytes(description.encode())
            for one, (cls, about, rows) in zip(listed, built, strict=True):
                tell(f"{one.name}: making the key that the ceremony begins with")
                begin_key(description, Subject(one, cls, about, rows), held, made / "0000" / (one.name + SUFFIX))
            _sync(made)
            place_durably(made, path)
    except OSError as error:
        wrote = unchanged(error, "; nothing was written")
        raise ConfigurationError(f"cannot make {path}: {why(error, path)}{wrote}") from None
    return description


@dataclass(frozen=True, slots=True)
class Step:
    """What a round is made with."""

    name: str
    beacon: str = ""  #: hexadecimal digits; empty: a contribution
    iterations: int = 0

    @classmethod
    def contribution(cls, name: str) -> Step:
        """Raises ConfigurationError: no name that every tool shows as it is."""
        if not name.strip() or name != name.strip() or not name.isprintable() or len(name.encode()) > MAX_NAME:
            raise ConfigurationError(
                f"--name {printable(name)[:80]!r}: a name is 1 to {MAX_NAME} bytes of printable text, with no blank at "
                "either end"
            )
        return cls(name)

    @classmethod
    def ending(cls, beacon: str, iterations: int) -> Step:
        """Raises ConfigurationError: no hexadecimal digits, too few or too many, or of the iterations."""
        text = beacon.lower()
        try:
            size = len(bytes.fromhex(text))
        except ValueError:
            size = 0
        if not MIN_BEACON <= size <= MAX_BEACON or len(text) != 2 * size:
            raise ConfigurationError(
                f"--beacon: {2 * MIN_BEACON} to {2 * MAX_BEACON} hexadecimal digits are expected, such as a block's "
                "hash or a round of a public beacon that nobody knew before the last contribution"
            )
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ConfigurationError(
                f"--iterations {iterations}: 2^N hashes are made, N from {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
        return cls(BEACON_NAME, text, iterations)


def add_round(
    folder: Folder, step: Step, identity: SigningKey, checker: Checker, tell: Tell
) -> tuple[int, dict[str, str]]:
    """Check what the folder holds last, make the next round of it, and put it in place with its attestation.

    Returns:
        The round's number, and the hash of its contribution by circuit.

    Raises:
        LedgerError: another process is adding a round.
        ConfigurationError: the ceremony is finished, or has no contribution to end; no snarkjs; the disk refuses.
        ProofError: what was handed over is not as it must be: nothing was contributed to it.
    """
    program = _snarkjs()
    with folder.writing():
        number = folder.rounds() + 1
        try:
            # Not in the ceremony's folder: whoever may write there could put other keys in the place of those checked.
            with checker.scratch() as work:
                return number, _add(folder, step, identity, checker, tell, number, work, program)
        except OSError as error:
            raise _unwritten(folder, number, error) from None


def _add(
    folder: Folder,
    step: Step,
    identity: SigningKey,
    checker: Checker,
    tell: Tell,
    number: int,
    work: Path,
    program: Sequence[str],
) -> dict[str, str]:
    before, after = work / "before", work / f"{number:04}"
    before.mkdir()
    after.mkdir()
    handed = checker.latest(number - 1, before)
    _check_turn(step, handed)
    made = []
    for subject in checker.subjects:
        old, new = (at / (subject.name + SUFFIX) for at in (before, after))
        tell(f"{subject.name}: {'applying the beacon' if step.beacon else 'contributing'}")
        _run(program, step, old, new)
        digest, chain = handed[subject.name]
        made.append(_made(checker, subject, number, digest, chain, new))
    said = Round(folder.description.digest, number, step.name, bool(step.beacon), made)
    (after / ATTESTATION).write_bytes(said.sign(identity, int(time.time())))
    try:
        with tempfile.TemporaryDirectory(dir=folder.path, prefix=WORK, ignore_cleanup_errors=True) as staged:
            whole = Path(staged) / after.name
            shutil.copytree(after, whole)  # what is changed from here on does not fit the attestation
            _sync(whole)
            place_durably(whole, folder.path / after.name)  # fails where somebody else's round lies there by now
    except OSError as error:
        raise _unwritten(folder, number, error) from None
    return {one.circuit: one.contribution.hex() for one in made}


def _unwritten(folder: Folder, number: int, error: OSError) -> ConfigurationError:
    said = f"{why(error, folder.path)}{unchanged(error, '; nothing was added')}"
    return ConfigurationError(f"cannot write round {number:04} to {folder.path}: {said}")


def _check_turn(step: Step, handed: dict[str, tuple[bytes, Chain]]) -> None:
    lists = [chain.contributions for _, chain in handed.values()]
    if any(found and found[-1].kind == BEACON for found in lists):
        raise ConfigurationError("the ceremony is finished: its beacon is applied, and nothing can follow")
    if step.beacon and not all(lists):
        raise ConfigurationError(
            "nobody has contributed yet: a key of the beacon alone would be a key whose secrets everybody knows"
        )


def _made(checker: Checker, subject: Subject, number: int, before: bytes, chain: Chain, key: Path) -> Made:
    """What snarkjs wrote: checked as anybody's would be, before it leaves this machine."""
    try:
        found = checker.chain(subject, number, key)
        if not found.continues(chain):
            raise ProofError("snarkjs changed earlier contributions")
        checker.walk(subject, found)
        checker.check_points(subject, number, key)
    except ProofError as error:
        raise ProofError(f"what snarkjs wrote is wrong ({error}): nothing was added; run it again") from None
    with key.open("rb") as file:
        after = hashlib.file_digest(file, "sha256").digest()
    return Made(subject.name, before, after, found.contributions[-1].hash)


# --- snarkjs ----------------------------------------------------------------------------------------------------------


def _snarkjs() -> list[str]:
    node = shutil.which("node")
    program = node_modules() / "snarkjs" / "build" / "cli.cjs"
    if node is None or not program.is_file():
        raise ConfigurationError(f"Node.js or snarkjs is not installed: {way_out()}")
    return [node, str(program)]


def _run(program: Sequence[str], step: Step, old: Path, new: Path) -> None:
    """One contribution.  Entropy goes through a pipe, beside what snarkjs itself takes from the operating system."""
    if step.beacon:
        arguments = ["zkey", "beacon", str(old), str(new), step.beacon, str(step.iterations)]
        entropy = None
    else:
        arguments = ["zkey", "contribute", str(old), str(new)]
        entropy = secrets.token_hex(64) + "\n"
    try:
        done = subprocess.run(
            [*program, *arguments, f"--name={step.name}"],
            input=entropy,
            stdin=subprocess.DEVNULL if entropy is None else None,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProofError(f"snarkjs did not end within {SECONDS} s: nothing was added") from None
    if done.returncode or not new.is_file():
        last = (done.stderr or "it says nothing").strip().splitlines()[-1:]
        raise ProofError(f"snarkjs failed: {printable(' '.join(last))[:300]}; nothing was added")


def _sync(folder: Path) -> None:
    """Everything below a folder is on disk."""
    for path in folder.rglob("*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_directory(folder)
