# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m bench.certificate``: what the certificate of a coalition estimate costs provider and auditor.

full: 256 and 2,000 records of one tenant at tau = 1,000, the policy's default.  sampled: 100,000 records, tau = 10,000,
the auditor's default number of random sets; finding all links is part of it.  Vectors are uniform on the sphere, d =
384, with near-copies planted; the certificate's cost does not depend on what they are.  Proofs are made and checked by
the product's own code, in deliveries as an auditor asks for them.  Writes bench/results/certificate.json with every
sample.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from bench.classes import LARGE
from bench.experiment import machine, save
from ragseal.backends.group import default_group
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.groth16.keys import make_keys
from ragseal.groth16.provers import BlockBackend, open_backend
from ragseal.kernel import certificate, commitment, link_list, noise
from ragseal.kernel.certificate import BlockBatch, Scope
from ragseal.kernel.estimate import find_links, full_blocks, reach_of
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.noise_class import with_noise
from ragseal.kernel.policy import Policy
from ragseal.prover.base.randomness import scalar
from ragseal.prover.estimate.estimate import BlockProver, TenantRecords
from ragseal.verifier.steps.blocks import SAMPLE_BLOCKS, caught, sampled_blocks
from ragseal.verifier.steps.estimate import BATCH

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench" / "results" / "certificate.json"
DIMENSION = 384
GROUP = default_group()
FULL = (256, 2000)


class Commitments(Sequence[bytes]):
    """C_e of every record, computed when it is needed: a provider and an auditor have them in the ledger."""

    def __init__(self, generators: bytes, vectors: npt.NDArray[np.int8], blinders: Sequence[int]) -> None:
        self._generators, self._vectors, self._blinders = generators, vectors, blinders
        self._known: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    def __getitem__(self, at: Any) -> Any:
        if at not in self._known:
            e = [int(x) for x in self._vectors[at]]
            self._known[at] = commitment.embedding_commitment(GROUP, self._generators, e, self._blinders[at])
        return self._known[at]


def vectors(count: int, copies: int) -> npt.NDArray[np.int8]:
    """Quantised uniform unit vectors; ``copies`` of them are near-copies of the one before."""
    rng = np.random.default_rng(1)
    found = rng.standard_normal((count, DIMENSION), dtype=np.float32)
    for at in rng.choice(count - 1, copies, replace=False) + 1:
        found[at] = found[at - 1] + 0.2 * found[at]
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(np.rint(127 * found), dtype=np.int8)


def policy(tau: int) -> Policy:
    """A policy with this tau; only theta, tau and the dimension matter here."""
    cls = with_noise(load_classes()[LARGE])
    return Policy(
        class_name=cls.name, class_digest=class_digest(cls), table_digest=noise.build_table(cls.law).digest(),
        dimension=DIMENSION,
        claim="every-list", hidden=0, lo=4839, hi=11290,
        gain=1, n_max=1000, k_max=10, delta="1/1000000", epsilon_account="100",
        theta="4/5", tau=tau, gate=True, unit="slot", chunks_max=1, period_start=0, opens=1, closes=2, ids=cls.K,
    )  # fmt: skip


def measure(backend: BlockBackend, count: int, tau: int, sampled: int, say: Any) -> dict[str, Any]:
    """Find links, prove and check one tenant's certificate; ``sampled``: sets to draw, 0 for a full certificate."""
    rows, n = vectors(count, max(2, count // 100)), backend.key.cls.n
    blinders = [scalar(secrets.token_bytes) for _ in range(count)]
    generators = commitment.generators(GROUP, DIMENSION)
    c_e = Commitments(generators, rows, blinders)
    reach = reach_of([0] * count, tau)
    records = TenantRecords((), reach, c_e, rows, tuple(blinders))
    scope = Scope(backend.key.cls, backend.key.digest, bytes(32), bytes(32), "bench", policy(tau), reach)
    began = time.monotonic()
    links = find_links(rows, reach, scope.threshold)
    links_s = time.monotonic() - began
    assert links is not None
    say(f"{count} records: {len(links)} links in {links_s:.1f} s")
    wanted = sampled_blocks(count, tau, n, sampled, bytes(32)) if sampled else full_blocks(reach, n)
    assert wanted is not None, "so many records are not certified fully"
    listing = link_list.Listing(frozenset(links))
    statements = [certificate.make_block(scope, ranks, c_e, listing) for ranks in wanted]
    prover = BlockProver(GROUP, backend, scope, records, secrets.token_bytes)
    prove_s, verify_s, prove_cpu_s, verify_cpu_s, size = [], [], 0.0, 0.0, 0
    for at in range(0, len(statements), BATCH):
        part = statements[at : at + BATCH]
        began, cpu = time.monotonic(), time.process_time()
        data = prover.batch(part).encode()
        prove_s.append(time.monotonic() - began)
        prove_cpu_s += time.process_time() - cpu
        size += len(data)
        began, cpu = time.monotonic(), time.process_time()
        certificate.verify_blocks(GROUP, backend.key, generators, scope, part, BlockBatch.decode(data))
        verify_s.append(time.monotonic() - began)
        verify_cpu_s += time.process_time() - cpu
        say(f"{count} records: {at + len(part)} of {len(statements)} blocks")
    said = caught(reach, n, sampled) if sampled else None
    return {
        "records": count, "tau": tau, "load": os.getloadavg(), "links": len(links), "blocks": len(statements),
        "links_s": links_s, "prove_s": prove_s, "verify_s": verify_s,
        "prove_cpu_s": prove_cpu_s, "verify_cpu_s": verify_cpu_s, "bytes": size,
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "caught": None if said is None else {
            "confidence": float(said.confidence), "share": said.share, "group": said.group, "links": said.links,
        },
    }  # fmt: skip


@click.command()
@click.option("--blocks", type=click.IntRange(min=1), default=SAMPLE_BLOCKS, show_default=True, help="Sampled sets.")
@click.option("--records", type=click.IntRange(min=1000), default=100_000, show_default=True)
@click.option("--full", type=int, multiple=True, default=FULL, show_default=True, help="Records of a full certificate.")
@click.option("--only", type=click.Choice(["full", "sampled"]), help="One of the two parts.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT)
def main(blocks: int, records: int, full: tuple[int, ...], only: str | None, out: Path) -> None:
    """Measure and write bench/results/certificate.json; a part that is not measured is kept as it is there."""
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"[{time.monotonic() - began:5.0f} s] {text}", err=True)

    cls = CLASSES["estimate-112"]
    built = build(cls, progress=say)
    paths = make_keys(built.r1cs, cls, class_digest(cls), ROOT / "var" / "keys", say)
    backend = open_backend(built, paths.directory)
    found = read(out)
    found.pop("targets", None)
    found["machine"] = machine()
    for count in () if only == "sampled" else full:
        one = measure(backend, count, 1000, 0, say)
        kept = found["full"] if isinstance(found.get("full"), list) else []
        found["full"] = sorted([k for k in kept if k["records"] != count] + [one], key=lambda k: int(k["records"]))
        say(f"proven in {one['prove_cpu_s']:.0f} s of processor time, checked in {one['verify_cpu_s']:.1f} s")
        save(out, found)
    if only != "full":
        found["sampled"] = measure(backend, records, 10_000, blocks, say)
        whole = found["sampled"]["links_s"] + sum(found["sampled"]["prove_s"]) + sum(found["sampled"]["verify_s"])
        say(f"found, proven and checked in {whole:.0f} s")
        save(out, found)


def read(path: Path) -> dict[str, Any]:
    """What an earlier run wrote."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


if __name__ == "__main__":
    main()
