# SPDX-License-Identifier: GPL-3.0-or-later
"""The thinned file of an honest provider, end to end: the steps in their order, with either back end."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from ragseal.circuits.build import DEFAULT_CACHE, build
from ragseal.circuits.circuit import circuit_of
from ragseal.circuits.packages import node_modules
from ragseal.circuits.r1cs import read_r1cs
from ragseal.groth16.coefficients import check_coefficients
from ragseal.groth16.coin_proofs import CoinSecrets, scalars_needed
from ragseal.groth16.keys import load_key
from ragseal.groth16.provers import ThinningBackend, open_backend
from ragseal.groth16.thinning import Matrix, ThinningSecrets, combine_rows, make_thinned, thin
from ragseal.kernel import field
from ragseal.kernel.coin import coin_commitment, hidden_slots
from ragseal.kernel.commitment import verify_columns
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import R
from ragseal.kernel.thinning import ThinnedFile, ThinningStatement, verify_thinning
from tests.attacks import thinning_scene as scene
from tests.attacks.thinning_scene import GROUP, SIZE, N, scalars
from tests.simulator.keys import keys_of

D = 6


def matrix() -> Matrix:
    return np.random.default_rng(3).integers(-128, 128, (N, D)).astype(np.int8)


def coins() -> CoinSecrets:
    return CoinSecrets(scene.SEED, field.pack(scalars(scalars_needed(SIZE, sides=2), 4)))


def made(backend: ThinningBackend, e: Matrix) -> tuple[ThinningStatement, ThinnedFile]:
    """As a provider does, in this order."""
    key, on = backend.key, scene.bases()
    hidden = hidden_slots(scene.SEED, scene.context(), N, scene.HIDDEN)
    placed = commit(key.scores, e, 1)
    verify_columns(GROUP, key.scores, key.digest, D, scene.opened(key.scores, key.digest, placed))
    thinned = commit(on, thin(e, hidden), 2)
    statement = ThinningStatement(
        thinning_key=key.digest,
        attestation_key=scene.ATTESTATION,
        manifest=scene.MANIFEST,
        c_coin=coin_commitment(scene.SEED),
        context=scene.context(),
        hidden=scene.HIDDEN,
        placed=placed.points,
        thinned=thinned.points,
    )
    (rho,) = scalars(1, 3)
    secrets = ThinningSecrets(coins(), placed.blinders, thinned.blinders, rho)
    assert "22" not in repr(secrets) + repr(secrets.coins)
    opening = scene.opened(on, scene.ATTESTATION, thinned).opening
    shard = make_thinned(GROUP, backend, on, statement, e, hidden, secrets)
    return statement, ThinnedFile(thinned.points, opening, (shard,))


def commit(on: scene.ScoreBases, e: Matrix, number: int) -> scene.Columns:
    blinders = scalars(D, number)
    points = [
        GROUP.msm(on.y + on.b, field.pack([*column, beta])) for column, beta in zip(e.T.tolist(), blinders, strict=True)
    ]
    return scene.Columns(e.tolist(), blinders, b"".join(points))


@pytest.fixture(autouse=True)
def _columns_of_six(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "D", D)


def test_native() -> None:
    statement, file = made(scene.backend(), matrix())
    verify_thinning(GROUP, [statement], scene.backend().key, scene.bases(), ThinnedFile.decode(file.encode()))
    assert len(file.encode()) == 64 * D + 3909


@pytest.mark.slow
def test_snarkjs() -> None:
    """A prover that shares nothing with the native module makes a file that is accepted just so."""
    built = build(SIZE, DEFAULT_CACHE)
    paths = keys_of(SIZE)
    backend = open_backend(built, paths.directory, node_modules(), "snarkjs")
    statement, file = made(backend, matrix())
    verify_thinning(GROUP, [statement], scene.backend().key, scene.bases(), file)


def test_what_was_made_is_checked_before_it_leaves() -> None:
    """Blinders that are not those of the columns give a link that does not hold."""
    e, backend = matrix(), scene.backend()
    statement, _ = made(backend, e)
    secrets = ThinningSecrets(coins(), scalars(D, 1), scalars(D, 7), 5)
    hidden = hidden_slots(scene.SEED, scene.context(), N, scene.HIDDEN)
    with pytest.raises(ProofError, match="thinning opening"):
        make_thinned(GROUP, backend, scene.bases(), statement, e, hidden, secrets)


def test_rows_combined() -> None:
    e, rng = matrix(), random.Random(5)
    weights = [(1 << 248) - 1, 1, *(rng.getrandbits(248) for _ in range(D - 2))]
    want = [sum(w * int(x) for w, x in zip(weights, row, strict=True)) % R for row in e]
    assert combine_rows(e, weights) == want
    wide = np.full((2, 4096), -128, dtype=np.int8)
    assert combine_rows(wide, [(1 << 248) - 1] * 4096) == [-128 * 4096 * ((1 << 248) - 1) % R] * 2


def test_thin_leaves_the_matrix_alone() -> None:
    e = matrix()
    before, hidden = e.copy(), [i % 3 == 0 for i in range(N)]
    thinned = thin(e, hidden)
    assert (e == before).all()
    assert not thinned[::3].any()
    assert (thinned[1::3] == e[1::3]).all()


def test_the_key_on_disk_is_of_this_circuit(tmp_path: Path) -> None:
    built = build(SIZE, DEFAULT_CACHE)
    paths = keys_of(SIZE)
    check_coefficients(paths.zkey, read_r1cs(built.r1cs), circuit_of(built.cls).kept)
    assert load_key(paths.directory, SIZE).digest == scene.backend().key.digest == paths.digest
