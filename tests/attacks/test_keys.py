# SPDX-License-Identifier: GPL-3.0-or-later
"""Verifying keys under which anything can be proven: gamma = delta, identities, points outside the subgroup.

Such a key is refused wherever a key is read.  What it would be good for is shown by an independent pairing.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from py_ecc.optimized_bn128 import FQ, FQ2, FQ12, add, is_inf, multiply, neg, normalize, pairing

from ragseal.groth16.keys import VKEY, load_key
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import P
from ragseal.verifier.__main__ import main as verifier
from tests.attacks.machine import machine
from tests.attacks.world import outside_subgroup

G1, G2 = 64, 128
ALPHA, BETA = 0, G1
GAMMA, DELTA = BETA + G2, BETA + 2 * G2
IC = BETA + 3 * G2 + 4  #: after a u32 that counts them


def _put(data: bytes, at: int, point: bytes) -> bytes:
    return data[:at] + point + data[at + len(point) :]


def _g1(data: bytes) -> Any:
    x, y = (int.from_bytes(data[i : i + 32], "big") for i in (0, 32))
    return FQ(x), FQ(y), FQ.one()


def _g2(data: bytes) -> Any:
    x1, x0, y1, y0 = (int.from_bytes(data[i : i + 32], "big") for i in range(0, 128, 32))
    return FQ2([x0, x1]), FQ2([y0, y1]), FQ2.one()


def gamma_is_delta(data: bytes) -> bytes:
    return _put(data, DELTA, data[GAMMA : GAMMA + G2])


def beta_outside_the_subgroup(data: bytes) -> bytes:
    return _put(data, BETA, outside_subgroup())


def delta_is_the_identity(data: bytes) -> bytes:
    return _put(data, DELTA, bytes(G2))


def a_base_is_the_identity(data: bytes) -> bytes:
    return _put(data, IC + G1, bytes(G1))


def alpha_off_the_curve(data: bytes) -> bytes:
    return _put(data, ALPHA, (1).to_bytes(32, "big") + (3).to_bytes(32, "big"))


def coordinate_above_the_modulus(data: bytes) -> bytes:
    x = int.from_bytes(data[:32], "big") + P
    return _put(data, 0, x.to_bytes(32, "big"))


KEYS: dict[Callable[[bytes], bytes], str] = {
    gamma_is_delta: "gamma equals delta",
    beta_outside_the_subgroup: "subgroup",
    delta_is_the_identity: "identity",
    a_base_is_the_identity: "identity",
    alpha_off_the_curve: "curve",
    coordinate_above_the_modulus: "canonical",
}


@pytest.mark.parametrize("change", KEYS, ids=lambda change: change.__name__)
def test_key_under_which_anything_holds(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    tools = machine()
    data = tools.paths.vkey.read_bytes()
    bad = change(data)
    assert len(bad) == len(data)
    assert bad != data
    (tmp_path / VKEY).write_bytes(bad)
    with pytest.raises(ProofError, match=KEYS[change]):
        load_key(tmp_path, tools.cls)
    # the auditor's command line, told the very digest of the bad key
    assert CliRunner().invoke(verifier, ["init", "--state", str(tmp_path / "v")]).exit_code == 0
    arguments = ["trust", "--state", str(tmp_path / "v"), "--class", "tiny", "--file", str(tmp_path / VKEY)]
    told = CliRunner().invoke(
        verifier, [*arguments, "--key-digest", hashlib.sha256(bad).hexdigest(), "--made-by", "provider"]
    )
    assert told.exit_code == 1, told.output
    assert "Traceback" not in told.output
    shutil.rmtree(tmp_path / "v")


@pytest.mark.slow
def test_a_forged_proof_under_gamma_equal_delta() -> None:
    """A = alpha, B = beta, C = -vk_x: e(A, B) = e(alpha, beta) e(vk_x, gamma) e(C, delta) for any statement at all."""
    tools = machine()
    data = tools.paths.vkey.read_bytes()
    key = gamma_is_delta(data)
    statement = [11, 22, 33, 44, 55, 66, 77]  # clear inputs of nothing
    ic = [_g1(key[IC + G1 * i : IC + G1 * (i + 1)]) for i in range(len(statement) + 1)]
    vk_x = ic[0]
    for value, base in zip(statement, ic[1:], strict=True):
        vk_x = add(vk_x, multiply(base, value))
    alpha, beta = _g1(key[ALPHA:]), _g2(key[BETA:])

    def holds(vk: bytes, a: Any, b: Any, c: Any) -> bool:
        gamma, delta = _g2(vk[GAMMA:]), _g2(vk[DELTA:])
        product = pairing(beta, alpha) * pairing(gamma, vk_x) * pairing(delta, c)
        return bool(product == pairing(b, a)) and product != FQ12.one()

    assert not is_inf(vk_x)
    assert holds(key, alpha, beta, neg(vk_x)), "the forgery that the refusal of such keys is for"
    assert not holds(data, alpha, beta, neg(vk_x)), "under the real key it is worth nothing"
    # and through the real verifier of the real key: the same points, refused
    point = normalize(neg(vk_x))
    proof = data[: G1 + G2] + b"".join(int(c).to_bytes(32, "big") for c in point)
    with pytest.raises(ProofError):
        tools.key.verify(statement, tools.key.sum_y, tools.key.sum_y, proof)
