# SPDX-License-Identifier: GPL-3.0-or-later
"""snarkjs and this module read each other's files: keys, witnesses and proofs, both ways."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

native = pytest.importorskip("ragseal_native")

MODULES = Path(__file__).resolve().parents[2] / "circuits" / "node_modules"
SNARKJS = MODULES / "snarkjs" / "build" / "cli.cjs"
CIRCOM = MODULES / "circom2" / "cli.js"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (SNARKJS.exists() and CIRCOM.exists() and shutil.which("node")),
        reason="circom2 and snarkjs are not installed (npm ci in circuits/)",
    ),
]

SOURCE = """
pragma circom 2.1.0;
template Small() {
    signal input a;
    signal input w[3];
    signal input blind;
    signal input secret;
    signal output out;
    signal inverse;
    signal t[3];
    for (var i = 0; i < 3; i++) { t[i] <== w[i] * (w[i] + a + i); }
    inverse <-- 1 / (a + secret);
    inverse * (a + secret) === 1;
    out <== inverse * (t[0] + 3 * t[1] - t[2]) + secret;
}
component main {public [a, w, blind]} = Small();
"""
VALUES = {"a": "5", "w": ["-3", "7", "1000"], "blind": "123456789", "secret": "42"}


def node(folder: Path, script: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["node", str(script), *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("interop")
    (at / "small.circom").write_text(SOURCE)
    (at / "input.json").write_text(json.dumps(VALUES))
    node(at, CIRCOM, "small.circom", "--r1cs", "--wasm", "--O1")
    node(at, SNARKJS, "wtns", "calculate", "small_js/small.wasm", "input.json", "small.wtns")
    native.setup(at / "small.r1cs", at / "small.zkey")
    return at


def test_same_witness(folder: Path) -> None:
    circuit = native.R1cs.load(folder / "small.r1cs")
    theirs = native.Witness.from_wtns(folder / "small.wtns")
    inputs = theirs.slice(2, 6)
    assert circuit.solve(inputs).bytes() == theirs.bytes()
    assert circuit.check(theirs) is None


def test_their_proof_from_our_key_and_witness(folder: Path) -> None:
    key = native.ProvingKey.load(folder / "small.zkey")
    circuit = native.R1cs.load(folder / "small.r1cs")
    inputs = native.Witness.from_wtns(folder / "small.wtns").slice(2, 6)
    circuit.solve(inputs).to_wtns(folder / "ours.wtns")
    node(folder, SNARKJS, "groth16", "prove", "small.zkey", "ours.wtns", "their_proof.json", "their_public.json")
    node(folder, SNARKJS, "zkey", "export", "verificationkey", "small.zkey", "their_vk.json")
    vk = native.VerifyingKey.from_json((folder / "their_vk.json").read_text())
    assert vk.digest() == key.verifying_key().digest()
    proof = native.proof_from_json((folder / "their_proof.json").read_text())
    public = native.public_from_json((folder / "their_public.json").read_text())
    vk.verify(proof, public, b"")
    with pytest.raises(native.NativeError, match="does not verify"):
        vk.verify(proof, public[:-32] + public[:32], b"")


def test_our_proof_in_their_verifier(folder: Path) -> None:
    key = native.ProvingKey.load(folder / "small.zkey")
    proof = key.prove(folder / "small.wtns")
    public = native.Witness.from_wtns(folder / "small.wtns").slice(1, key.n_public)
    (folder / "vk.json").write_text(key.verifying_key().to_json())
    (folder / "proof.json").write_text(native.proof_to_json(proof))
    (folder / "public.json").write_text(native.public_to_json(public))
    node(folder, SNARKJS, "groth16", "verify", "vk.json", "public.json", "proof.json")


def test_a_key_of_theirs(folder: Path) -> None:
    """A key with two phases, made by snarkjs alone, loads here and proves."""
    node(folder, SNARKJS, "powersoftau", "new", "bn128", "5", "pot.ptau")
    node(folder, SNARKJS, "powersoftau", "contribute", "pot.ptau", "next.ptau", "-e=for this test only")
    node(folder, SNARKJS, "powersoftau", "prepare", "phase2", "next.ptau", "final.ptau")
    node(folder, SNARKJS, "groth16", "setup", "small.r1cs", "final.ptau", "first.zkey")
    node(folder, SNARKJS, "zkey", "contribute", "first.zkey", "theirs.zkey", "-e=for this test only")
    with pytest.raises(native.NativeError, match="gamma equals delta"):
        native.ProvingKey.load(folder / "first.zkey")
    key = native.ProvingKey.load(folder / "theirs.zkey")
    proof = key.prove(folder / "small.wtns")
    public = native.Witness.from_wtns(folder / "small.wtns").slice(1, key.n_public)
    key.verifying_key().verify(proof, public, b"")
