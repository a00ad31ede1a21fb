# SPDX-License-Identifier: GPL-3.0-or-later
"""A circuit class as compiled, with a real key and what proves under it; tenants and policies of that class."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import Engine, open_engine
from ragseal.backends.native import native, native_errors
from ragseal.circuits.build import BuiltCircuit, build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.groth16.assignments import Assignment
from ragseal.groth16.keys import KeyPaths, KeyView, load_key
from ragseal.groth16.snarkjs import proof_bytes
from ragseal.kernel import commitment, noise_statement
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.policy import Policy
from tests import simulator
from tests.classes import TINY
from tests.simulator.keys import KEYS as KEYS
from tests.simulator.keys import ROOT as ROOT
from tests.simulator.keys import keys_of
from tests.simulator.parties import Extra, Tenant

DIMENSION = 8
GROUP = default_group()
GENERATORS = commitment.generators(GROUP, DIMENSION)
TENANT_NAMES = ("north", "south")


@dataclass(frozen=True)
class Machine:
    """A compiled class with a key, and what proves under it."""

    cls: AttestationClass
    digest: bytes  #: of the class
    built: BuiltCircuit
    paths: KeyPaths
    key: KeyView
    r1cs: Any
    proving: Any
    engine: Engine

    def base(self, name: str) -> bytes:
        """The IC point of a clear input."""
        return bytes(self.key.vk.ic(1 + noise_statement.CLEAR_NAMES.index(name), 1))

    def witness(self, assignment: Assignment) -> Any:
        """All wires by propagation; nothing is checked."""
        with native_errors():
            return self.r1cs.solve(assignment.packed())

    def violated(self, assignment: Assignment) -> int | None:
        """The first row that the completed witness violates."""
        row = self.r1cs.check(self.witness(assignment))
        return None if row is None else int(row)

    def prove(self, assignment: Assignment) -> bytes:
        """A checked proof.  ProofError if the inputs satisfy no witness."""
        packed = assignment.packed()
        at = self.key.digest, hashlib.sha256(packed).digest()
        if at not in _PROOFS:
            with native_errors():
                _PROOFS[at] = bytes(self.proving.prove(self.r1cs.solve(packed)))
        return _PROOFS[at]

    def prove_unchecked(self, assignment: Assignment, folder: Path) -> bytes:
        """What snarkjs' prover makes of any witness, true or not: it checks neither the rows nor its own proof."""
        wtns, proof, public = folder / "w.wtns", folder / "proof.json", folder / "public.json"
        for old in (wtns, proof, public):
            old.unlink(missing_ok=True)
        self.witness(assignment).to_wtns(str(wtns))
        node = shutil.which("node")
        assert node is not None
        cli = ROOT / "circuits" / "node_modules" / "snarkjs" / "build" / "cli.cjs"
        command = [node, str(cli), "groth16", "prove", str(self.paths.zkey), str(wtns), str(proof), str(public)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        return proof_bytes(json.loads(proof.read_text()))


_PROOFS: dict[tuple[bytes, bytes], bytes] = {}  #: honest records are the same in every world: proven once


def open_machine(cls: AttestationClass, paths: KeyPaths, built: BuiltCircuit) -> Machine:
    """Load what a key folder holds."""
    return Machine(
        cls=cls,
        digest=class_digest(cls),
        built=built,
        paths=paths,
        key=load_key(paths.directory, cls),
        r1cs=native.R1cs.load(str(built.r1cs)),
        proving=native.ProvingKey.load(str(paths.zkey)),
        engine=open_engine(cls),
    )


@cache
def machine(name: str = TINY.name, keys: Path = KEYS) -> Machine:
    """Class TINY, compiled and keyed; built once and kept under var/."""
    cls = load_classes()[name]
    return open_machine(cls, keys_of(cls, keys), build(cls))


def make_tenant(name: str, extra: Mapping[int, Extra] | None = None, on: Machine | None = None) -> Tenant:
    """A tenant under a class's real key; ``extra``: components outside the span, by column."""
    tools = on or machine()
    return Tenant.make(name, tools.key, slots=tools.cls.N, dimension=DIMENSION, extra=extra)


@cache
def honest_tenants() -> dict[str, Tenant]:
    return {name: make_tenant(name) for name in TENANT_NAMES}


def policy(tools: Machine | None = None, **changes: Any) -> Policy:
    """The verifier tests' policy for the real class."""
    on = tools or machine()
    own: dict[str, Any] = {"class_name": on.cls.name, "class_digest": on.digest, "ids": on.cls.most_ids(1)}
    table = on.cls.tables(0)[0]
    return simulator.policy(**{**own, "table_digest": table.digest(), "dimension": DIMENSION, **changes})
