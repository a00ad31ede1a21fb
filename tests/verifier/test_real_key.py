# SPDX-License-Identifier: GPL-3.0-or-later
"""The checklist with a compiled circuit, a real Groth16 key and real proofs of class TINY; attacks on them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.backends import group
from ragseal.backends.mechanism import Engine, open_engine
from ragseal.circuits.build import build, find_compiler
from ragseal.circuits.circuit import HERE, class_digest
from ragseal.groth16.assignments import assign_attestation
from ragseal.groth16.keys import KeyPaths, make_keys
from ragseal.groth16.provers import AttestationBackend, open_backend
from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Record, Request
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofEntry
from ragseal.kernel.statement import Returned, seed_commitment
from ragseal.verifier.folder.state import State
from tests.classes import TINY
from tests.simulator import CLS, GROUP, Kept, Tenant, World, key_of

pytestmark = pytest.mark.slow

SEED = (12345, 67890)


@dataclass(frozen=True)
class Real:
    backend: AttestationBackend
    engine: Engine
    tenants: dict[str, Tenant]
    paths: KeyPaths | None = None


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Real:
    if not group.available():
        pytest.skip("the native module is not installed")
    try:
        find_compiler()
        built = build(CLS)
    except ConfigurationError as error:
        pytest.skip(f"no circuit: {error}")
    paths = make_keys(built.r1cs, CLS, class_digest(CLS), tmp_path_factory.mktemp("keys"))
    backend = open_backend(built, paths.directory, HERE / "node_modules")
    tenants = {name: Tenant.make(name, backend.key) for name in ("north", "south")}
    return Real(backend, open_engine(CLS), tenants, paths)


class ProvenWorld(World):
    """The simulator with the mechanism and the proofs of the product."""

    def __init__(self, real: Real) -> None:
        super().__init__(real.backend.key, real.tenants)
        self.real = real
        self.proofs: dict[tuple[bytes, int], bytes] = {}

    def scores(self, tenant: str, e: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
        policy = self.manifest.policy
        rows = np.array(self.tenants[tenant].rows, dtype=np.int64)
        return policy.gain * (rows @ np.array(e, dtype=np.int64) - policy.lo)

    def select(
        self, request: Request, tenant: str, e: list[int]
    ) -> tuple[Sequence[Returned], Sequence[tuple[bytes, ...]], tuple[int, ...]]:
        key, w = noise_key(SEED, self.beacon, request.ctx()), self.scores(tenant, e)
        asked = self.manifest.policy.asked(self.cls)
        hidden = self.real.engine.hidden(key, w, asked)
        return self.real.engine.answer(key, w, asked), list(hidden), hidden.shared

    def prove(self, record: Record, kept: Kept, shard: int, clear: list[int], committed: bytes) -> bytes:
        c_w = self.c_w(record)
        known = self.proofs.get((c_w, record.seq))
        if known is None:
            inside = proofs.total_blinder(
                self.manifest.policy.gain, kept.e, self.tenants[kept.tenant].blinders, kept.rho
            )
            every = (inside, *chain.from_iterable(kept.blinders(self.key.committed, shard)), kept.rho_v)
            scales = self.key.stated.scales(clear[-1])
            known = self.real.backend.prove(
                assign_attestation(
                    self.cls,
                    clear=tuple(clear),
                    w=self.scores(kept.tenant, kept.e).tolist(),
                    witnesses=kept.hidden[shard],
                    shared=kept.shared,
                    blind=sum(scale * rho for scale, rho in zip(scales, every, strict=True)) % R,
                    secret=(SEED, kept.t_salt),
                )
            )
            self.proofs[c_w, record.seq] = known
        return known


@pytest.fixture(scope="module")
def proven(real: Real) -> ProvenWorld:
    world = ProvenWorld(real)
    world.commit(c_seed=seed_commitment(SEED))
    for account in ("alice", "carol", "bob"):
        world.ask(account)
    world.close()
    world.batch(world.digest, range(3))
    return world


@pytest.fixture
def world(proven: ProvenWorld) -> Any:
    before = (list(proven.messages), proven.tamper_entry, proven.tamper_batch)
    yield proven
    proven.messages, proven.tamper_entry, proven.tamper_batch = list(before[0]), before[1], before[2]


def test_real_proofs_pass(world: ProvenWorld) -> None:
    verdict = world.audit(receipts=world.receipts())
    assert verdict.verdict == "PASS", verdict.line()
    assert verdict.proven == 3


def entry(change: Callable[[ProofEntry], ProofEntry], seq: int = 1) -> Callable[[ProofEntry], ProofEntry]:
    return lambda one: change(one) if one.seq == seq else one


def refused(world: ProvenWorld, match: str, what: str = "") -> None:
    verdict = world.audit()
    assert verdict.failure is not None, (what, verdict.line())
    assert verdict.failure.number == 8, (what, verdict.line())
    assert match in verdict.failure.message, (what, verdict.line())


def test_every_part_of_a_proof_counts(world: ProvenWorld) -> None:
    honest = {e.seq: e for e in world.batch(world.digest, range(3)).entries}
    a, b, c = (honest[1].proof[x:y] for x, y in ((0, 64), (64, 192), (192, 256)))
    other = honest[0].proof
    negated = GROUP.msm(a, field.pack([-1]))
    forgeries = {
        "A of another proof": other[:64] + b + c,
        "B of another proof": a + other[64:192] + c,
        "C of another proof": a + b + other[192:],
        "A negated": negated + b + c,
        "A the identity": bytes(64) + b + c,
        "C the identity": a + b + bytes(64),
        "B the identity": a + bytes(128) + c,
        "A off the curve": b"\x01" * 64 + b + c,
        "a whole other proof": other,
        "one bit flipped": bytes([*honest[1].proof[:-1], honest[1].proof[-1] ^ 1]),
    }
    for name, proof in forgeries.items():
        world.tamper_entry = entry(functools.partial(replace, proof=proof))
        refused(world, "does not hold", name)


def test_a_key_takes_exactly_its_clear_inputs(world: ProvenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more, even of value 0, would stand on an input that is committed to."""
    key, taken = world.real.backend.key, []
    once = type(key).verify_batch

    def kept(self: Any, items: Any) -> None:
        taken.extend(items)
        once(self, items)

    monkeypatch.setattr(type(key), "verify_batch", kept)
    assert world.audit().verdict == "PASS"
    clear, c_w, committed, proof = taken[0]
    key.verify(clear, c_w, committed, proof)
    for other in (clear[:-1], [*clear, 0], []):
        with pytest.raises(ProofError, match=f"{len(clear)} clear inputs expected"):
            key.verify(other, c_w, committed, proof)
        with pytest.raises(ProofError, match=f"{len(clear)} clear inputs expected"):
            once(key, [*taken, (other, c_w, committed, proof)])


def test_a_proof_moved_to_another_record(world: ProvenWorld) -> None:
    honest = {e.seq: e for e in world.batch(world.digest, range(3)).entries}
    world.tamper_entry = entry(lambda one: replace(one, proof=honest[0].proof, committed=honest[0].committed))
    refused(world, "the proof of record 1 does not hold")


def test_another_t_than_the_mechanisms(world: ProvenWorld) -> None:
    index = world.at(Record, 1)
    world.messages[index] = replace(world.messages[index], t_commits=(7,))  # type: ignore[type-var]
    refused(world, "the proof of record 1 does not hold")


def test_another_hint_commitment(world: ProvenWorld) -> None:
    shift = world.key.committed.own[0].over[0].bases[:64]
    moved = lambda made: GROUP.msm(made[:64] + shift, field.pack([1, 1])) + made[64:]  # noqa: E731 - C_1 stays
    world.tamper_entry = entry(lambda one: replace(one, committed=moved(one.committed)))
    refused(world, "the proof of record 1 does not hold")


def test_scores_of_another_document(world: ProvenWorld) -> None:
    """C_y shifted by one document's score: neither the proof nor the link holds."""
    index = world.at(Record, 1)
    record = world.messages[index]
    assert isinstance(record, Record)
    shifted = GROUP.msm(record.c_y + world.key.scores.y[:64], field.pack([1, 500]))
    old = {e.seq: e for e in world.batch(world.digest, range(3)).entries}
    world.messages[index] = replace(record, c_y=shifted)
    world.tamper_entry = entry(lambda one: replace(one, proof=old[1].proof))
    refused(world, "the proof of record 1 does not hold")


def test_noise_of_another_seed_cannot_be_proven(real: Real) -> None:
    """The manifest commits to a seed that the provider does not use: its own back end finds no witness."""
    world = ProvenWorld(real)
    world.commit(c_seed=seed_commitment((1, 2)))
    world.ask("alice")
    world.close()
    with pytest.raises(ProofError):
        world.batch(world.digest, [0])


def test_sampled_audit_of_real_proofs(world: ProvenWorld) -> None:
    from ragseal.verifier.steps.sample import Sample

    verdict = world.audit(sample=Sample(2))
    assert verdict.verdict == "SAMPLED-PASS", verdict.line()
    assert verdict.proven == 2


def test_foreign_keys_are_imported_by_their_digest(real: Real, tmp_path: Path) -> None:
    state = State.create(tmp_path / "auditor", key_of("someone"))
    digest, paths = class_digest(CLS), real.paths
    assert paths is not None
    classes = {TINY.name: (CLS, digest)}
    with pytest.raises(ConfigurationError, match="not the one that you named"):
        state.import_key(paths.directory, CLS, digest, bytes(32), "provider")
    assert state.key_entries() == []
    for source in (paths.directory, paths.zkey, paths.vkey):
        line = state.import_key(source, CLS, digest, paths.digest, "provider")
        assert state.configured(classes)[line.digest].load().digest == paths.digest
    assert state.proving_key(paths.digest).stat().st_size == paths.zkey.stat().st_size
    (tmp_path / "cut.zkey").write_bytes(paths.zkey.read_bytes()[:-1000])
    with pytest.raises(ProofError):
        state.import_key(tmp_path / "cut.zkey", CLS, digest, paths.digest, "provider")
    assert not list((state.directory / "keys").glob("*.part"))
