# SPDX-License-Identifier: GPL-3.0-or-later
"""One audit window from nothing to its verdict: four phases, three parties, one process, no network.

    python -m examples.one_window        about fifteen seconds once the circuits are compiled

Everything is what the programs use: circuit class "ranked-tiny-one" with keys that are made here, native proofs, the
log on disk, the default embedder.  Only the wire is left out (in_memory.py).  Clauses of SPEC.md stand in brackets.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from secrets import token_bytes
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from examples.in_memory import LedgerForAccounts, ProviderForAccounts, ProviderForAuditor, Running
from ragseal.backends.group import default_group
from ragseal.circuits.build import build, default_cache
from ragseal.circuits.circuit import class_digest, load_classes, shapes_of
from ragseal.client import AccountState, Client
from ragseal.embedder import load_embedder, quantise
from ragseal.groth16.keys import make_keys
from ragseal.kernel import signature
from ragseal.prover import assembly
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.commitment.registry import Registration, add_accounts
from ragseal.prover.provider import Provider
from ragseal.prover.serving import ServeOptions
from ragseal.prover.storage import state as provider_folder
from ragseal.verifier.audit import class_build, estimate_build, thinning_build
from ragseal.verifier.evidence import AUDITOR, ReceiptFile
from ragseal.verifier.outcome import Verdict
from ragseal.verifier.participant import Participant, Stage
from ragseal.verifier.service import environment
from ragseal.verifier.state import State as Auditor
from ragseal.verifier.verification import audit

POLICY = {
    "class": "ranked-tiny-one", "claim": "until-delivered", "unseen": 3, "lo": 0.3, "hi": 0.6, "gain": 40, "n_max": 6,
    "k_max": 2, "delta": "1/1000000",
}  # fmt: skip
TEXTS = ("logrotate rotates log files.", "json.loads parses JSON.", "sorted() sorts a list.", "ssh-keygen makes keys.")


def one_window(folder: Path, question: str) -> Verdict:
    cls, embedder = load_classes()["ranked-tiny-one"], load_embedder("minilm")
    digests: dict[Any, bytes] = {circuit: class_digest(circuit) for circuit in shapes_of(cls)}

    # The auditor makes its identity and its keys: nobody else's keys are sound for it.  [A.9]
    auditor = Auditor.create(folder / "auditor", Ed25519PrivateKey.generate())
    keys = {}
    for circuit, digest in digests.items():
        r1cs = build(circuit, default_cache()).r1cs
        keys[circuit] = make_keys(r1cs, circuit, digest, auditor.directory / "keys")
        auditor.add_key(auditor.line_of(keys[circuit], circuit, digest, AUDITOR))

    # An account makes its key.  The provider makes its folder, embeds documents and registers the account.
    account = AccountState.create(folder / "alice", "alice")
    settings = provider_folder.Settings("example.org/rag", cls.name, "minilm")
    provider_folder.create(folder / "provider", settings, Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate())
    state = provider_folder.State(folder / "provider")
    puts = [Put(Document(f"d{i}", text)) for i, text in enumerate(TEXTS)]
    shape = IndexShape(cls.N, embedder.dimension)
    apply(state, "acme", puts, lambda texts: quantise(embedder.embed(texts)), token_bytes, shape)
    add_accounts(state, [Registration("alice", "acme", account.public)])

    # It takes the auditor's proving keys, checks them against its own circuits and tries them.  [A.9]
    provider = Provider(state, assembly.assemble(state, lambda text: None))
    rings: list[Any] = [provider.backends.keys, *provider.backends.estimate_keys, provider.backends.thinning_keys]
    for ring in rings:
        if ring.cls in keys:
            copy = shutil.copy(keys[ring.cls].zkey, folder / "copy.zkey")
            ring.install(Path(copy), keys[ring.cls].digest)
    state.remember_auditor(keys[cls].digest, auditor.public_key)

    # Phase A, commitment: index, seed, coins, policy, accounts; the manifest is the log's first entry.  [A.1 to A.7]
    binding = Binding(cls, digests[cls], embedder.dimension, int(time.time()))
    provider.commit(read_policy(POLICY, binding, assembly.advertised_epsilon), "w1")
    log_key = provider.state.log_signer.verifier

    # The beacon: each party commits to a nonce, then they open in order, the auditor last.  [A.8]  It decides which
    # slots the coins hide; the provider empties those, proves it, and opens the window.  [A.11]
    running = Running(provider, ServeOptions(eager=False, tick=0.0, beacon=BeaconRules(participants=1), publish=0.0))
    link = ProviderForAuditor(running)
    around = environment()
    builds, now = (class_build(), thinning_build()), lambda: int(time.time())
    part = Participant(link, auditor, log_key, *builds, default_group(), token_bytes, now)
    while part.advance()[0] is not Stage.OPENED:
        time.sleep(0.05)

    # Phase B, attestation: e is fixed, the request signed, the record logged, the answer sealed.  [B.1 to B.4]
    ledger = LedgerForAccounts(provider.journal.public)
    with Client(ProviderForAccounts(running), folder / "alice", log_key.vkey(), embedder, ledger=ledger) as client:
        result = client.ask(question)
        print(f"answer    {result.best.text if result.best else 'nothing that can be read came back'}")
        print(f"receipt   record {result.receipt.body.seq}, entry {result.receipt.body.index} of {log_key.name}")

    # The provider ends the window; it can add nothing to it now.
    manifest = provider.journal.history.named("w1").digest
    running.call(running.serving.close_window(manifest, signature.sign(state.key, "close", manifest)))

    # Phases C and D: links, proofs, openings, epsilon; the auditor sees no index, query, noise or seed.  [C, D]
    believed = auditor.auditor(log_key, class_build(), estimate_build(), thinning_build())
    verdict = audit(link, believed, around, receipts=[ReceiptFile("alice's", result.receipt)])
    for step in verdict.steps:
        print(f"{step.number:4}  {step.title:14} {step.status}")
    running.stop()
    provider.close()
    return verdict


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(one_window(Path(scratch), "How do I rotate a log file?").line())
