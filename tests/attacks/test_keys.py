# SPDX-License-Identifier: GPL-3.0-or-later
"""Verifying keys under which anything can be proven: points that are multiples of each other, identities, points
outside the subgroup.

Such a key is refused wherever a key is read.  What it would be good for is shown by an independent pairing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from py_ecc.optimized_bn128 import FQ, FQ2, FQ12, add, is_inf, multiply, neg, normalize, pairing

from ragseal.backends.native import native_errors
from ragseal.groth16 import relations, views
from ragseal.groth16.keys import VKEY, load_key
from ragseal.groth16.verifying_key import VerifyingKey
from ragseal.groth16.views import View
from ragseal.kernel import field
from ragseal.kernel.bn254 import PurePythonGroup
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import P, R
from ragseal.verifier.__main__ import main as verifier
from tests.attacks import checks
from tests.attacks.checks import without
from tests.attacks.machine import machine
from tests.attacks.world import outside_subgroup
from tests.classes import TINY
from tests.web.published import NODE
from vectors.source.trapdoor import GROUP, Trapdoor, g2

pytestmark = pytest.mark.slow

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


def delta_is_minus_gamma(data: bytes) -> bytes:
    y = (P - int.from_bytes(data[at : at + 32], "big") for at in (GAMMA + 64, GAMMA + 96))
    return _put(data, DELTA, data[GAMMA : GAMMA + 64] + b"".join(one.to_bytes(32, "big") for one in y))


def two_bases_are_opposite(data: bytes) -> bytes:
    y = P - int.from_bytes(data[IC + 96 : IC + 128], "big")
    return _put(data, IC + 2 * G1, data[IC + G1 : IC + G1 + 32] + y.to_bytes(32, "big"))


KEYS: dict[Callable[[bytes], bytes], str] = {
    gamma_is_delta: "gamma equals delta",
    delta_is_minus_gamma: "small multiples of each other",
    two_bases_are_opposite: "holds for other statements",
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
    arguments = ["trust", "--state", str(tmp_path / "v"), "--class", TINY.name, "--file", str(tmp_path / VKEY)]
    told = CliRunner().invoke(
        verifier, [*arguments, "--key-digest", hashlib.sha256(bad).hexdigest(), "--made-by", "provider"]
    )
    assert told.exit_code == 1, told.output
    assert "Traceback" not in told.output
    shutil.rmtree(tmp_path / "v")


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


# --- relations of points, by keys whose trapdoors are known to nobody who forges -------------------------------------

CLEAR = [3, 1, 4, 1]

#: b, c, d of b beta = c gamma + d delta
RELATIONS = [
    (0, 1, 1), (0, 1, 16), (0, 16, 1), (0, 16, -15), (1, 1, 0), (1, -1, 0), (16, 1, 0), (-3, 7, 0), (1, 0, 1),
    (1, 0, -16), (5, 0, 1), (1, 1, 1), (1, -1, 1), (-16, 15, 13), (2, 16, 16),
]  # fmt: skip


def kinds() -> list[Any]:
    native = pytest.importorskip("ragseal_native")
    return [native.VerifyingKey, VerifyingKey]


def view(kind: Any, data: bytes) -> View:
    """A key that this process reads for the first time."""
    views._UNRELATED.clear()
    with native_errors():
        return View("toy", len(CLEAR), len(CLEAR), kind.from_bytes(data))


@cache
def related(b: int, c: int, d: int) -> bytes:
    """A key with b beta = c gamma + d delta, and no other relation."""
    made = Trapdoor("related", len(CLEAR))
    if b:
        made.beta = (c * made.gamma + d * made.delta) * pow(b, -1, R) % R
    else:
        made.delta = -c * made.gamma * pow(d, -1, R) % R
    return made.key[:BETA] + b"".join(map(g2, (made.beta, made.gamma, made.delta))) + made.key[IC - 4 :]


def combined(points: bytes, *scalars: int) -> bytes:
    return GROUP.msm(points, field.pack(x % R for x in scalars))


def forged(key: bytes, b: int, c: int, d: int) -> bytes:
    """A proof of any statement at all, by the key and its relation alone."""
    alpha, beta = key[:BETA], key[BETA:GAMMA]
    vk_x = combined(key[IC:], 1, *CLEAR)
    if not b:
        return alpha + beta + combined(vk_x, d * pow(c, -1, R))
    inverse = pow(b, -1, R)
    a = combined(vk_x + alpha, 1, c * inverse)
    both = normalize(add(_g2(key[GAMMA:]), _g2(key[DELTA:])))
    encoded = b"".join(int(x).to_bytes(32, "big") for pair in both for x in pair.coeffs[::-1])
    return a + encoded + combined(a + alpha, 1, -d * inverse)


def verifying(first: bool) -> list[Any]:
    """Whose pairing looks at a forgery: plain Python's, which takes half a second, at the first of each kind alone."""
    return kinds() if first else kinds()[:1]


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_made_up_statement_holds_under_related_points(relation: tuple[int, int, int]) -> None:
    key = related(*relation)
    proof = forged(key, *relation)
    for kind in kinds():
        with pytest.raises(ProofError, match="small multiples of each other"):
            view(kind, key)
    for kind in verifying(relation == RELATIONS[0]):
        with without(checks.KEY_POINTS_RELATED):
            view(kind, key).verify_points(CLEAR, b"", proof)
            with pytest.raises(ProofError):
                view(kind, Trapdoor("related", len(CLEAR)).key).verify_points(CLEAR, b"", proof)


#: a, b of a IC_1 = b IC_2
ALIGNED = [(1, 1), (1, -1), (1, 2), (2, 1), (-1, 3), (3, 2), (16, 1), (-1, 16), (15, -16)]


def aligned(a: int, b: int) -> Trapdoor:
    """A key whose maker is known and with a IC_1 = b IC_2."""
    made = Trapdoor("bases", len(CLEAR))
    made.ic = made.ic[:128] + combined(made.ic[64:128], a * pow(b, -1, R)) + made.ic[192:]
    made.key = made.key[:IC] + made.ic
    return made


@pytest.mark.parametrize(("a", "b"), ALIGNED)
def test_a_proof_under_bases_that_are_multiples_holds_for_other_statements(a: int, b: int) -> None:
    made = aligned(a, b)
    proof, other = made.prove(CLEAR, b""), [CLEAR[0] + a, CLEAR[1] - b, *CLEAR[2:]]
    for kind in kinds():
        with pytest.raises(ProofError, match="holds for other statements"):
            view(kind, made.key)
    for kind in verifying((a, b) == ALIGNED[0]):
        with without(checks.KEY_POINTS_ALIKE):
            view(kind, made.key).verify_points(CLEAR, b"", proof)
            view(kind, made.key).verify_points([x % R for x in other], b"", proof)


@pytest.mark.parametrize(("at", "times"), [(0, 1), (0, -2), (1, 2), (4, 16)])
def test_alpha_along_a_base_is_refused(at: int, times: int) -> None:
    made = Trapdoor("alpha", len(CLEAR))
    key = _put(made.key, IC + G1 * at, combined(made.key[:G1], times))
    for kind in kinds():
        with pytest.raises(ProofError, match="holds for other statements"):
            view(kind, key)


def test_a_plain_python_reader_sees_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "default_group", PurePythonGroup)
    for a, b in ALIGNED:
        with pytest.raises(ProofError, match="holds for other statements"):
            view(VerifyingKey, aligned(a, b).key)
    view(VerifyingKey, aligned(17, 1).key)


def test_a_key_is_looked_at_once_and_a_refused_one_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = Trapdoor("related", len(CLEAR)).key, related(*RELATIONS[0])
    views._UNRELATED.clear()
    looked: list[bytes] = []
    look = views.check_relations

    def counted(key: bytes) -> None:
        looked.append(key)
        look(key)

    monkeypatch.setattr(views, "check_relations", counted)
    for data in (good, bad) * 2:
        with pytest.raises(ProofError, match="small multiples") if data is bad else nullcontext():
            View("toy", len(CLEAR), len(CLEAR), VerifyingKey.from_bytes(data))
    assert looked == [good, bad, bad]


def test_alpha_among_the_bases_gives_one_statement_for_nothing() -> None:
    """vk_x = alpha: A = alpha, B = beta + gamma + delta, C = alpha."""
    made = Trapdoor("alpha", len(CLEAR))
    key = made.key[:IC] + made.key[:BETA] + made.key[IC + 64 :]
    points = [_g2(key[at:]) for at in (BETA, GAMMA, DELTA)]
    total = normalize(add(add(points[0], points[1]), points[2]))
    b = b"".join(int(x).to_bytes(32, "big") for pair in total for x in pair.coeffs[::-1])
    for kind in kinds():
        with pytest.raises(ProofError, match="holds for other statements"):
            view(kind, key)
        with without(checks.KEY_POINTS_ALIKE):
            view(kind, key).verify_points([0] * len(CLEAR), b"", key[:BETA] + b + key[:BETA])


def test_keys_beside_related_ones_are_taken() -> None:
    """The check ends at 16, and an honest key is far from it."""
    for relation in ((0, 17, 1), (1, 0, 17), (17, 1, 1)):
        for kind in kinds():
            view(kind, related(*relation))
    for a, b in ((17, 1), (1, 17), (17, -16)):
        for kind in kinds():
            view(kind, aligned(a, b).key)
    assert relations.MOST == 16


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_page_draws_the_same_line() -> None:
    bad = [related(*one) for one in RELATIONS]
    good = [Trapdoor("related", len(CLEAR)).key, *(related(*one) for one in ((0, 17, 1), (1, 0, 17), (17, 1, 1)))]
    good += [aligned(17, 1).key, aligned(17, -16).key]
    data = good[0]
    alike = [_put(data, IC + G1, data[IC : IC + G1]), two_bases_are_opposite(data), _put(data, IC, data[:BETA])]
    alike += [aligned(a, b).key for a, b in ALIGNED]
    script = """
        const { Refusal, internals } = require(process.argv[1]);
        for (const line of require("node:fs").readFileSync(0, "ascii").trim().split("\\n")) {
          try { internals.VerifyingKey.decode(Uint8Array.from(Buffer.from(line, "hex"))); console.log("taken"); }
          catch (error) { if (!(error instanceof Refusal)) throw error; console.log(error.message); }
        }"""
    command = [str(NODE), "-e", script, str(Path(__file__).parents[2] / "ledger" / "web" / "verify.js")]
    lines = "".join(key.hex() + "\n" for key in (*good, *bad, *alike))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=60)
    said = done.stdout.splitlines()
    assert said[: len(good)] == ["taken"] * len(good)
    for line in said[len(good) : len(good) + len(bad)]:
        assert "small multiples of each other" in line or "gamma equals delta" in line
    assert all("holds for other statements" in line for line in said[len(good) + len(bad) :])
    assert len(said) == len(good) + len(bad) + len(alike)
