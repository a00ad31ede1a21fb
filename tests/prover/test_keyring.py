# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetching the auditor's key: what is announced is what is kept, and nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.circuits.build import BuiltCircuit
from ragseal.circuits.circuit import HERE, class_digest, layout_of
from ragseal.groth16.keys import ZKEY, KeyPaths, install_key, make_keys
from ragseal.groth16.powers import PowersFile
from ragseal.groth16.provers import AttestationBackend, open_backend
from ragseal.kernel import noise
from ragseal.kernel.errors import AuditError, ConfigurationError, ProofError, TransportError
from ragseal.kernel.msm import multi_scalar
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import P, R
from ragseal.prover.base.check_report import Report
from ragseal.prover.fsck.keys_check import check_keys
from ragseal.prover.keys.keyring import AttestationKeys, attestation_keys
from ragseal.prover.keys.trial_proofs import rehearse
from ragseal.prover.wire.remote import fetch_key
from ragseal.runtime import durable
from ragseal.runtime.rpc import bind, new_server
from ragseal.runtime.tls import BY_DEFAULT
from ragseal.v1 import verifier_pb2, verifier_pb2_grpc
from tests.classes import GAUSSIAN, TINY
from tests.prover.zkeys import sections, written
from tests.simulator.provider import AUDITOR

pytestmark = pytest.mark.slow


@dataclass
class Sender(verifier_pb2_grpc.VerifierServiceServicer):
    """An auditor's key service that sends what a test tells it to."""

    data: bytes
    info: dict[str, Any] = field(default_factory=dict)
    none: bool = False

    async def ListKeys(self, request: Any, context: Any) -> Any:
        keys = [] if self.none else [verifier_pb2.KeyInfo(**self.info)]
        return verifier_pb2.ListKeysResponse(keys=keys, auditor_key=AUDITOR)

    async def GetKey(self, request: Any, context: Any) -> AsyncIterator[Any]:
        for at in range(0, len(self.data), 1 << 20):
            yield verifier_pb2.KeyChunk(data=self.data[at : at + (1 << 20)])


@asynccontextmanager
async def serving(sender: Sender) -> AsyncIterator[str]:
    server = new_server()
    verifier_pb2_grpc.add_VerifierServiceServicer_to_server(sender, server)
    port = bind(server, "127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@pytest.fixture
def ring(tmp_path: Path, tiny: NoiseClass, built: BuiltCircuit) -> AttestationKeys:
    def backend(folder: Path) -> AttestationBackend:
        return open_backend(built, folder, HERE / "node_modules")

    return attestation_keys(tmp_path, tiny, lambda: built.r1cs, backend)


@pytest.fixture
def sender(tiny: NoiseClass, keys: KeyPaths) -> Sender:
    data = keys.zkey.read_bytes()
    info = {
        "class_name": TINY.name,
        "class_digest": class_digest(tiny),
        "key_digest": keys.digest,
        "size": len(data),
        "made_by": "auditor",
    }
    return Sender(data, info)


def fetch(
    sender: Sender,
    ring: AttestationKeys,
    tiny: NoiseClass,
    wanted: bytes | None = None,
    powers: PowersFile | None = None,
) -> tuple[KeyPaths, list[int]]:
    moved: list[int] = []

    async def run() -> KeyPaths:
        async with serving(sender) as address:
            fetched = await asyncio.to_thread(
                fetch_key,
                address,
                BY_DEFAULT,
                tiny,
                class_digest(tiny),
                wanted,
                ring,
                lambda done, _: moved.append(done),
                powers,
            )
            assert fetched.auditor_key == AUDITOR
            return fetched.paths

    return asyncio.run(run()), moved


def leftovers(ring: AttestationKeys) -> list[str]:
    return [p.name for p in ring.directory.iterdir()]


def test_the_announced_key_is_kept(sender: Sender, ring: AttestationKeys, tiny: NoiseClass, keys: KeyPaths) -> None:
    paths, moved = fetch(sender, ring, tiny)
    assert paths.digest == keys.digest
    assert paths.zkey.read_bytes() == sender.data
    assert moved[-1] == len(sender.data)
    assert ring.newest().digest == keys.digest
    assert ring.view(keys.digest).digest == keys.digest
    fetch(sender, ring, tiny, keys.digest)  # again: replaced, not doubled
    assert leftovers(ring) == [paths.directory.name]


def test_a_key_that_is_fetched_again_onto_a_full_disk_stays(
    sender: Sender, ring: AttestationKeys, tiny: NoiseClass, keys: KeyPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows are proven under it."""
    paths, _ = fetch(sender, ring, tiny)

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(durable, "sync_directory", fails)
    with pytest.raises(ConfigurationError, match=r"cannot keep the key in .*: Input/output error"):
        fetch(sender, ring, tiny)
    assert leftovers(ring) == [paths.directory.name]
    assert paths.zkey.read_bytes() == sender.data


def test_what_is_not_the_announced_key_leaves_nothing_behind(
    sender: Sender, ring: AttestationKeys, tiny: NoiseClass
) -> None:
    good_data, good_info = sender.data, sender.info
    flipped = bytearray(good_data)
    flipped[-1000] ^= 1  # a point; for wrong coefficients see below
    cases: list[tuple[bytes, dict[str, Any], type[AuditError]]] = [
        (good_data[:-1], {}, TransportError),
        (good_data + b"\0", {}, ProofError),
        (good_data[:-7], {"size": len(good_data) - 7}, ProofError),
        (b"", {"size": 1}, TransportError),
        (bytes(1000), {"size": 1000}, ProofError),
        (good_data, {"key_digest": b"x" * 32}, ProofError),
        (good_data, {"key_digest": b"x"}, TransportError),
        (good_data, {"size": 1 << 40}, TransportError),
        (good_data, {"class_digest": b"c" * 32}, ConfigurationError),
        (good_data, {"class_name": "noise-small-two-50"}, ConfigurationError),
        (bytes(flipped), {}, ProofError),
    ]
    for data, change, kind in cases:
        sender.data, sender.info = data, {**good_info, **change}
        with pytest.raises(kind):
            fetch(sender, ring, tiny)
        assert leftovers(ring) == []
    sender.none = True
    with pytest.raises(ConfigurationError, match="no such key"):
        fetch(sender, ring, tiny)
    with pytest.raises(ConfigurationError, match="fetch-keys"):
        ring.newest()


def with_predicate(zkey: bytes, wire: int, guess: int) -> bytes:
    """The key whose proofs hold only where the wire has this value: coefficients of A in a row where B has none."""
    parts = sections(zkey)
    row = struct.unpack_from("<I", parts[2], 2 * 36 + 8)[0] - 1
    count = struct.unpack_from("<I", parts[4])[0]
    terms = [(wire, 1), (0, -guess)] if guess else [(wire, 1)]
    for at, factor in terms:
        parts[4] += struct.pack("<III", 0, row, at) + (factor * 2**512 % R).to_bytes(32, "little")
    parts[4] = struct.pack("<I", count + len(terms)) + parts[4][4:]
    return written(zkey, parts)


def raw(point: tuple[int, int] | None) -> bytes:
    """A point as a .zkey holds it."""
    return b"".join((c * 2**256 % P).to_bytes(32, "little") for c in point or (0, 0))


def moved(zkey: bytes, kind: int, wire: int, guess: int) -> bytes:
    """The same predicate in a section of points: something along the wire, and the guess along the constant."""
    parts = sections(zkey)
    for at, factor in ((wire, 1), (0, -guess)):
        numbers = [int.from_bytes(parts[kind][64 * at + 32 * i :][:32], "little") for i in (0, 1)]
        x, y = (n * pow(2**256, -1, P) % P for n in numbers)
        held = (x, y) if x or y else None
        changed = raw(multi_scalar([held, (1, 2)], [1, 77 * factor]))
        parts[kind] = parts[kind][: 64 * at] + changed + parts[kind][64 * at + 64 :]
    return written(zkey, parts)


def wire_of(tiny: NoiseClass, group: str, at: int) -> int:
    """The wire of a hint: public inputs follow the constant."""
    layout = layout_of(tiny)
    return 1 + layout.hints_at + layout.by_name[group].offset + at


def send(sender: Sender, data: bytes) -> None:
    sender.data = data
    sender.info["size"] = len(data)


def test_a_key_whose_failures_tell_a_score_is_refused(sender: Sender, ring: AttestationKeys, tiny: NoiseClass) -> None:
    """The verifying key, its digest and every consistency of the file are untouched."""
    assert with_predicate(sender.data, 1, 0) != sender.data
    assert written(sender.data, sections(sender.data)) == sender.data  # the attack writes a key but for the predicate
    send(sender, with_predicate(sender.data, 1 + layout_of(tiny).scores_at + 17, 4711))
    with pytest.raises(ProofError, match="coefficients are not those of the circuit"):
        fetch(sender, ring, tiny)
    assert leftovers(ring) == []


def test_a_predicate_that_made_up_statements_satisfy_is_refused(
    sender: Sender, ring: AttestationKeys, tiny: NoiseClass, built: BuiltCircuit, tmp_path: Path
) -> None:
    """One coefficient more: proofs hold unless a place has the table's largest noise.  No rehearsal shows it."""
    honest = sender.data
    quiet = with_predicate(honest, wire_of(tiny, "noiseCount", noise.build_table(tiny.law).cut), 0)
    (tmp_path / "quiet.zkey").write_bytes(quiet)
    made = install_key(tmp_path / "quiet.zkey", tiny, tmp_path / "quiet")
    backend = open_backend(built, made.directory, HERE / "node_modules")
    rehearse(backend, open_engine(tiny), default_group())
    shutil.rmtree(tmp_path / "quiet")
    send(sender, quiet)
    with pytest.raises(ProofError, match="coefficients are not those of the circuit"):
        fetch(sender, ring, tiny)
    assert leftovers(ring) == []


def test_points_that_are_not_the_circuits_fail_on_made_up_statements(
    sender: Sender, ring: AttestationKeys, tiny: NoiseClass
) -> None:
    honest, score = sender.data, 1 + layout_of(tiny).scores_at + 17
    send(sender, moved(honest, 5, score, 4711))
    with pytest.raises(ProofError, match="made-up statement"):
        fetch(sender, ring, tiny)
    send(sender, moved(honest, 6, score, 4711))
    with pytest.raises(ProofError, match="B1 and B2 disagree"):
        fetch(sender, ring, tiny)
    assert leftovers(ring) == []


@pytest.fixture(scope="module")
def powers(tmp_path_factory: pytest.TempPathFactory) -> PowersFile:
    pytest.importorskip("ragseal_native").make_powers(file := tmp_path_factory.mktemp("powers") / "own.ptau", 14)
    return PowersFile(file)


@pytest.fixture(scope="module")
def checkable(
    tiny: NoiseClass, built: BuiltCircuit, powers: PowersFile, tmp_path_factory: pytest.TempPathFactory
) -> KeyPaths:
    """An auditor's key of these powers."""
    folder = tmp_path_factory.mktemp("checkable")
    made = make_keys(built.r1cs, tiny, class_digest(tiny), folder, powers=powers)
    again = make_keys(built.r1cs, tiny, class_digest(tiny), folder, powers=powers)
    assert again.digest == made.digest, "made once"
    return made


def test_a_key_of_powers_is_checked_in_full(
    sender: Sender, ring: AttestationKeys, tiny: NoiseClass, powers: PowersFile, checkable: KeyPaths
) -> None:
    sender.info["key_digest"] = checkable.digest
    send(sender, checkable.zkey.read_bytes())
    assert fetch(sender, ring, tiny, powers=powers)[0].digest == checkable.digest
    assert fetch(sender, ring, tiny)[0].digest == checkable.digest


def test_a_predicate_in_the_points_passes_unless_they_are_checked(
    sender: Sender, ring: AttestationKeys, tiny: NoiseClass, powers: PowersFile, checkable: KeyPaths
) -> None:
    """One point of A more: proofs hold unless a place has the table's largest noise.  SPEC A.9.6 and its hole."""
    rare = wire_of(tiny, "noiseCount", noise.build_table(tiny.law).cut)
    sender.info["key_digest"] = checkable.digest
    send(sender, moved(checkable.zkey.read_bytes(), 5, rare, 0))
    assert fetch(sender, ring, tiny)[0].zkey.read_bytes() == sender.data, "without powers nothing shows it"
    shutil.rmtree(ring.folder(checkable.digest))
    with pytest.raises(ProofError, match=r"section 5 \(A\)"):
        fetch(sender, ring, tiny, powers=powers)
    assert leftovers(ring) == []


def test_a_key_of_one_party_cannot_be_checked(
    sender: Sender, ring: AttestationKeys, tiny: NoiseClass, powers: PowersFile
) -> None:
    with pytest.raises(ProofError, match="alpha and beta are not those of these powers"):
        fetch(sender, ring, tiny, powers=powers)
    assert leftovers(ring) == []


def test_a_key_of_another_class_is_refused(sender: Sender, tmp_path: Path) -> None:
    other = GAUSSIAN
    (tmp_path / "other").mkdir()
    ring = attestation_keys(tmp_path / "other", other, lambda: tmp_path, lambda folder: None)  # type: ignore[arg-type, return-value]
    sender.info = {**sender.info, "class_name": other.name, "class_digest": class_digest(other)}
    with pytest.raises(ProofError, match="never cross"):
        fetch(sender, ring, other)


def test_fsck_notices_every_byte_of_a_proving_key(sender: Sender, ring: AttestationKeys, tiny: NoiseClass) -> None:
    """One byte deep among the points: the key is opened as before, and only its SHA-256 tells."""
    held, _ = fetch(sender, ring, tiny)
    whole = held.zkey.read_bytes()

    def examined() -> Report:
        report = Report()
        check_keys(ring.directory, report, lambda *_: None)
        return report

    assert (examined().findings, examined().notes, examined().checked) == ([], [], {"proving keys": 1})
    for at in (len(whole) // 2, 2 * len(whole) // 3, len(whole) - 1):
        held.zkey.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        ring.check_held(held.digest)
        (problem,) = examined().findings
        assert "is not what was fetched" in problem
        assert "fetch-keys" in problem
    held.zkey.write_bytes(whole)
    (held.directory / "proving_key.sha256").unlink()
    assert examined().findings == []
    assert "a release before this one" in examined().notes[0]
    held.zkey.unlink()
    assert "proving_key.zkey is missing" in examined().findings[0]


@pytest.mark.parametrize("name", ["proving_key.zkey", "proving_key.sha256"])
def test_fsck_waits_for_no_pipe_in_a_key_s_place(ring: AttestationKeys, name: str) -> None:
    folder = ring.directory / f"{ring.cls.name}-0"
    folder.mkdir()
    for one in ("proving_key.zkey", "proving_key.sha256"):
        (folder / one).write_bytes(b"x")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    report = Report()
    looking = threading.Thread(target=check_keys, args=(ring.directory, report, lambda *_: None), daemon=True)
    looking.start()
    looking.join(10)
    assert not looking.is_alive()
    assert f"{name} is not a regular file" in report.findings[0]


def test_a_damaged_key_folder_is_noticed(ring: AttestationKeys, keys: KeyPaths) -> None:
    with pytest.raises(ConfigurationError, match="does not hold"):
        ring.view(keys.digest)
    wrong = b"w" * 32
    shutil.copytree(keys.directory, ring.folder(wrong))
    with pytest.raises(ProofError, match="another key"):
        ring.view(wrong)
    (ring.folder(wrong) / "verifying_key.bin").write_bytes(b"broken")
    with pytest.raises(ProofError):
        ring.view(wrong)


def test_a_proving_key_that_cannot_be_loaded_is_no_failed_proof(ring: AttestationKeys, keys: KeyPaths) -> None:
    """A ProofError would stop the key for good (SPEC A.9.5), and a worn disk says nothing of the key."""
    held = ring.folder(keys.digest)
    shutil.copytree(keys.directory, held)
    ring.check_held(keys.digest)
    whole = keys.zkey.read_bytes()
    for damaged in (whole[:-1], whole[:5000], whole + b"\0", b"", b"r1cs" + whole[4:]):
        (held / ZKEY).write_bytes(damaged)
        for use in (ring.check_held, ring.backend):
            with pytest.raises(ConfigurationError, match="cannot be loaded"):
                use(keys.digest)
    (held / ZKEY).unlink()
    for use in (ring.check_held, ring.backend):
        with pytest.raises(ConfigurationError):
            use(keys.digest)
    (held / ZKEY).write_bytes(whole)
    assert ring.backend(keys.digest) is ring.backend(keys.digest)


def test_answers_have_their_key_while_a_back_end_is_loaded(
    tmp_path: Path, tiny: NoiseClass, built: BuiltCircuit, keys: KeyPaths
) -> None:
    loading, loaded, opened = threading.Event(), threading.Event(), list[Path]()

    def slow(folder: Path) -> AttestationBackend:
        opened.append(folder)
        loading.set()
        assert loaded.wait(30)
        return open_backend(built, folder, HERE / "node_modules")

    ring = attestation_keys(tmp_path, tiny, lambda: built.r1cs, slow)
    shutil.copytree(keys.directory, ring.folder(keys.digest))
    with ThreadPoolExecutor(3) as pool:
        both = [pool.submit(ring.backend, keys.digest) for _ in range(2)]
        try:
            assert loading.wait(30)
            assert pool.submit(ring.view, keys.digest).result(10).digest == keys.digest
        finally:
            loaded.set()
        assert both[0].result(30) is both[1].result(30)
    assert len(opened) == 1, "loaded twice"
