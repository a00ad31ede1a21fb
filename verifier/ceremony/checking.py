# SPDX-License-Identifier: GPL-3.0-or-later
"""A ceremony's folder, checked from the circuits' sources and the powers of tau on.  SPEC A.9.13, A.9.15.

Nothing that the folder says is believed: circuits are compiled here, the key that it begins with is made again, the
points of every later key are compared with what the powers give, and the contributions are walked.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ragseal.backends.native import native, native_errors
from ragseal.circuits.build import compiled
from ragseal.circuits.circuit import Circuit, Shape, circuit_of
from ragseal.circuits.container import read_container, write_container
from ragseal.circuits.independence import check_independent
from ragseal.circuits.r1cs import ConstraintSystem, read_r1cs
from ragseal.groth16.coefficients import COEFFICIENT_BYTES, check_coefficients
from ragseal.groth16.contributions import BEACON, HASH_BYTES, SECTION, Chain, Contribution, check_chain, read_chain
from ragseal.groth16.powers import PowersFile
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.runtime.edges.filesystem import why
from ragseal.verifier.base.builds import find_shape
from ragseal.verifier.ceremony.attestation import Made, Round
from ragseal.verifier.ceremony.folder import SUFFIX, Description, Folder, Listed

Tell = Callable[[str], None]
_BLOCK = 1 << 20
#: Bytes that one contribution adds to a key: at least its points, transcript, kind and length; at most name and beacon.
_LEAST, _MOST = 3 * 64 + 128 + HASH_BYTES + 8, 3 * 64 + 128 + HASH_BYTES + 8 + 1024
_SCRATCH = "ragseal-ceremony-"


@dataclass(frozen=True, slots=True)
class Subject:
    """A circuit of a ceremony as it is built here."""

    listed: Listed
    cls: Shape
    circuit: Circuit
    system: ConstraintSystem

    @property
    def name(self) -> str:
        return self.listed.name

    @property
    def size(self) -> int:
        """Bytes of its key without contributions."""
        wires, public, kept = self.system.wires, self.system.public, self.circuit.kept
        terms = sum(len(rows) for rows, _ in self.system.matrices[:2]) + kept + 1
        points = (public + 1) + 2 * wires + 2 * wires + (wires - public - 1) + self.system.domain(kept)
        header = 2 * (4 + 32) + 12 + 3 * 64 + 3 * 128
        return 12 + 10 * 12 + 4 + header + 64 * points + 4 + COEFFICIENT_BYTES * terms + HASH_BYTES + 4


@dataclass(frozen=True, slots=True)
class Party:
    """Who made a round, as far as it is known."""

    number: int
    name: str  #: anybody's choice unless ``key`` signed it; not made fit for a terminal
    beacon: str  #: "HEX, 2^N iterations" of a beacon, else empty
    key: bytes | None  #: that signed the attestation; None: nobody signed
    hashes: Mapping[str, str]  #: of its contributions, by circuit, in hexadecimal


@dataclass(frozen=True, slots=True)
class Checked:
    """A folder of which all holds."""

    description: Description
    parties: Sequence[Party]
    keys: Mapping[str, str]  #: digest of the last verifying key by circuit; empty before the first contribution
    powers_file: str  #: BLAKE2b-512 of the file that the keys were compared with

    @property
    def beacon(self) -> str:
        """The beacon that ends it; empty: it is not finished."""
        return self.parties[-1].beacon if self.parties else ""


def subject_of(name: str, cache: Path, tell: Tell) -> tuple[Shape, Circuit, ConstraintSystem]:
    """A circuit by its class, compiled here.

    Raises:
        CommitmentError: no such class.
        ConfigurationError: no compiler.
    """
    cls, _ = find_shape(name)
    tell(f"{name}: compiling")
    system = read_r1cs(compiled(cls, cache, tell))
    circuit = circuit_of(cls)
    check_independent(system, circuit.kept, circuit.relations)
    return cls, circuit, system


def file_hash(path: Path) -> str:
    """BLAKE2b-512 of a file.  Raises ConfigurationError: it cannot be read."""
    digest = hashlib.blake2b()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    return digest.hexdigest()


def check_published(powers: PowersFile, published: str | None) -> str:
    """The powers' hash, which is the one that was published, if one is given.

    Raises:
        ConfigurationError: ``published`` is no BLAKE2b-512.
        ProofError: another file.
    """
    found = powers.blake2b()
    if published is None:
        return found
    wanted = "".join(published.split()).lower()
    if len(wanted) != 2 * HASH_BYTES or set(wanted) - set("0123456789abcdef"):
        raise ConfigurationError(
            "--powers-hash: a BLAKE2b-512 hash is expected, 128 hexadecimal digits (b2sum prints it)"
        )
    if found != wanted:
        raise ProofError(
            f"{powers.path} is not the file that was published: its BLAKE2b-512 begins with {found[:16]}, the one "
            f"published with {wanted[:16]}; download it again"
        )
    return found


def begin_key(description: Description, subject: Subject, powers: PowersFile, target: Path) -> None:
    """Write the key that a ceremony begins with: a function of description, circuit and powers."""
    plain = target.with_name(target.name + ".plain")
    try:
        powers.initial_key(subject.system, subject.circuit.kept, plain)
        sections = dict(read_container(plain, b"zkey", 1).sections)
        sections[SECTION] = memoryview(description.circuit_hash(subject.listed) + bytes(4))
        write_container(target, b"zkey", 1, sections)
    finally:
        plain.unlink(missing_ok=True)


class Checker:
    """Checks the rounds of one folder with the powers that are at hand."""

    def __init__(self, folder: Folder, powers: Path, published: str | None, cache: Path, tell: Tell) -> None:
        """Compile the folder's circuits and compare the powers.

        Args:
            published: BLAKE2b-512 of the powers' file, as their ceremony published it.

        Raises:
            ProofError: another file than the published one, other powers than the ceremony's, or circuits that are
                not those of this installation.
        """
        self.folder, self._tell = folder, tell
        self.subjects = [self._subject(one, cache) for one in folder.description.circuits]
        tell("reading the powers of tau")
        self.powers = PowersFile(powers)
        self.powers_file = check_published(self.powers, published)
        for subject in sorted(self.subjects, key=lambda one: -one.system.domain(one.circuit.kept)):
            if self.powers.digest(subject.system, subject.circuit.kept).hex() != folder.description.powers:
                raise ProofError(
                    f"{powers} holds other powers of tau than those that the ceremony began with, a file whose "
                    f"BLAKE2b-512 begins with {folder.description.powers_file[:16]}"
                )

    def _subject(self, listed: Listed, cache: Path) -> Subject:
        cls, circuit, system = subject_of(listed.name, cache, self._tell)
        if (circuit.digest.hex(), system.digest.hex()) != (listed.class_digest, listed.rows):
            raise ProofError(
                f"circuit {listed.name} is a different one here than in the ceremony: install the version of ragseal "
                "and of circom that it was begun with, or begin one with these"
            )
        return Subject(listed, cls, circuit, system)

    @property
    def description(self) -> Description:
        return self.folder.description

    @contextmanager
    def scratch(self, where: Path | None = None) -> Iterator[Path]:
        """A folder for copies that only this user can reach.  Raises ConfigurationError: no place."""
        try:
            with tempfile.TemporaryDirectory(dir=where, prefix=_SCRATCH, ignore_cleanup_errors=True) as at:
                yield Path(at)
        except OSError as error:
            raise ConfigurationError(f"no room for a copy of the keys: {why(error)}") from None

    def take(self, subject: Subject, number: int, target: Path) -> bytes:
        """A private copy of a round's key, of the size that it must have, and its SHA-256."""
        sizes = subject.size + number * _LEAST, subject.size + number * _MOST
        return self.folder.take(number, subject.name, sizes, target)

    # --- one key ---

    def check_begin(self, subject: Subject, key: Path) -> None:
        """The key that a ceremony begins with, made again.  Raises ProofError: another one."""
        own = key.with_name(key.name + ".own")
        try:
            begin_key(self.description, subject, self.powers, own)
            if file_hash(own) != file_hash(key):
                raise ProofError(
                    f"round 0000 of {subject.name} is not the key that its circuit and these powers give: it was not "
                    "made with `ceremony new`, or hidden inputs are still private in it; do not contribute to it"
                )
        finally:
            own.unlink(missing_ok=True)

    def check_points(self, subject: Subject, number: int, key: Path) -> None:
        """Every coefficient and every point of a key with contributions, up to its delta.  ProofError: which not."""
        try:
            check_coefficients(key, subject.system, subject.circuit.kept)
            self.powers.check_key(key, subject.system, subject.circuit.kept)
        except ProofError as error:
            raise ProofError(f"round {number:04} of {subject.name}: {error}") from None

    def chain(self, subject: Subject, number: int, key: Path) -> Chain:
        """What a round's key lists: as many contributions as came before and with it, a beacon at the end only.

        Raises:
            ProofError: more or fewer, or one after a beacon.
        """
        try:
            chain = read_chain(key)
        except ProofError as error:
            raise ProofError(f"round {number:04} of {subject.name}: {error}") from None
        if len(chain.contributions) != number:
            raise ProofError(
                f"round {number:04} of {subject.name} lists {len(chain.contributions)} contributions where {number} "
                "are expected: one was dropped or added out of turn, or the key is another round's"
            )
        if any(one.kind == BEACON for one in chain.contributions[:-1]):
            raise ProofError(f"round {number:04} of {subject.name} has a contribution after the beacon, which ends it")
        return chain

    def walk(self, subject: Subject, chain: Chain) -> None:
        """The chain's hashes and proofs of knowledge.  ProofError: which does not hold."""
        self._tell(f"{subject.name}: walking {len(chain.contributions)} contributions")
        try:
            check_chain(chain, self.description.circuit_hash(subject.listed))
        except ProofError as error:
            raise ProofError(f"{subject.name}: {error}") from None

    # --- what a contributor is handed ---

    def latest(self, number: int, at: Path) -> dict[str, tuple[bytes, Chain]]:
        """Copy the last round's keys into a folder and check them, each with its whole chain: SHA-256 and chain."""
        found = {}
        for subject in self.subjects:
            self._tell(f"{subject.name}: checking what was handed over")
            target = at / (subject.name + SUFFIX)
            digest = self.take(subject, number, target)
            chain = self.chain(subject, number, target)
            self.walk(subject, chain)
            if number:
                self.check_points(subject, number, target)
            else:
                self.check_begin(subject, target)
            found[subject.name] = digest, chain
        return found

    # --- the whole folder ---

    def check(self, at: Path) -> Checked:
        """Every round of the folder; copies of the last keys stay in ``at``.

        Raises:
            ProofError: a key, a point, a contribution or a beacon that is not as it must be, with its round.
            AttestationError: an attestation of something else.
        """
        last = self.folder.rounds()
        files: dict[str, list[bytes]] = {}
        chains: dict[str, Chain] = {}
        keys: dict[str, str] = {}
        for subject in self.subjects:
            files[subject.name], chains[subject.name] = self._rounds(subject, last, at)
            if last:
                with native_errors():
                    loaded = native.ProvingKey.load(str(at / (subject.name + SUFFIX)))
                keys[subject.name] = loaded.verifying_key().digest().hex()
        parties = [self._party(number, files, chains) for number in range(1, last + 1)]
        return Checked(self.description, parties, keys, self.powers_file)

    def _rounds(self, subject: Subject, last: int, at: Path) -> tuple[list[bytes], Chain]:
        """Every round's key of one circuit: their digests, and the last chain."""
        digests: list[bytes] = []
        target = at / (subject.name + SUFFIX)
        before: Chain | None = None
        for number in range(last + 1):
            self._tell(f"{subject.name}: checking round {number} of {last}")
            target.unlink(missing_ok=True)
            digests.append(self.take(subject, number, target))
            chain = self.chain(subject, number, target)
            if before is not None and not chain.continues(before):
                raise ProofError(
                    f"round {number:04} of {subject.name} does not list the contributions of the round before: one was "
                    "dropped or changed"
                )
            if number:
                if chain.delta1 != chain.contributions[-1].after:
                    raise ProofError(
                        f"round {number:04} of {subject.name}: the key's delta is not the one that its contributions "
                        "make: the key was swapped or changed"
                    )
                self.check_points(subject, number, target)
            else:
                self.check_begin(subject, target)
            before = chain
        assert before is not None
        self.walk(subject, before)
        return digests, before

    def _party(self, number: int, files: Mapping[str, list[bytes]], chains: Mapping[str, Chain]) -> Party:
        """Who made a round; all circuits end with the same beacon."""
        ones = {name: chain.contributions[number - 1] for name, chain in chains.items()}
        first = next(iter(ones.values()))
        if len({(one.kind, one.iterations, one.beacon) for one in ones.values()}) > 1:
            raise ProofError(f"round {number:04}: the circuits do not have the same beacon")
        data = self.folder.attestation(number)
        key = None
        if data is not None:
            if len({one.name for one in ones.values()}) > 1:
                raise ProofError(f"round {number:04} is signed, and its circuits' contributions have different names")
            made = [Made(name, files[name][number - 1], files[name][number], one.hash) for name, one in ones.items()]
            said = Round(self.description.digest, number, first.name, first.kind == BEACON, made)
            key = said.check(data)
        return Party(
            number,
            " / ".join(dict.fromkeys(one.name for one in ones.values())),
            beacon_text(first),
            key,
            {name: one.hash.hex() for name, one in ones.items()},
        )


def beacon_text(one: Contribution) -> str:
    """A beacon as programs show it; empty of another contribution."""
    return f"{one.beacon.hex()}, 2^{one.iterations} iterations" if one.kind == BEACON else ""
