# SPDX-License-Identifier: GPL-3.0-or-later
"""One audit window from nothing to its verdict: four phases, three parties, one process, no network.

    python -m examples.one_window        about fifteen seconds once the circuits are compiled

Everything is what the programs use: circuit class "decoys-tiny" with keys that are made here, native proofs, the
log on disk, the default embedder.  Only the wire is left out (in_memory.py); parties.py makes keys and folders.
Clauses of the specification stand in brackets.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import token_bytes
from typing import Any

from examples.in_memory import LedgerForAccounts, ProviderForAccounts, ProviderForAuditor, Running
from examples.parties import auditor_with_keys, provider_with_documents, take_keys
from ragseal.backends.group import default_group
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.client import AccountState, Client
from ragseal.embedder import load_embedder
from ragseal.kernel import signature
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.provider import assembly
from ragseal.prover.serving.serving import ServeOptions
from ragseal.verifier.audit.participant import Participant, Stage
from ragseal.verifier.audit.verification import audit
from ragseal.verifier.base.builds import class_build, estimate_build, thinning_build
from ragseal.verifier.evidence.evidence import ReceiptFile
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.service.service import environment

POLICY = {
    "class": "decoys-tiny", "claim": "until-delivered", "unseen": 3, "return": 5, "ids": 8, "lo": 0.3, "n_max": 6,
    "k_max": 2, "delta": "1/1000000",
}  # fmt: skip
TEXTS = ("logrotate rotates log files.", "json.loads parses JSON.", "sorted() sorts a list.", "ssh-keygen makes keys.")


def one_window(folder: Path, question: str, policy: Mapping[str, Any] = POLICY) -> Verdict:
    cls, embedder = load_classes()[policy["class"]], load_embedder("minilm")

    # The auditor makes its keys: nobody else's are sound for it.  An account makes its key, and the provider registers
    # it beside its documents; it takes the auditor's proving keys once it has checked and tried them.  [A.9]
    auditor, keys = auditor_with_keys(folder / "auditor", cls)
    alice = Registration("alice", "acme", AccountState.create(folder / "alice", "alice").public)
    provider = provider_with_documents(folder / "provider", cls, embedder, TEXTS, [alice])
    take_keys(provider, keys, auditor, folder)

    # Phase A, commitment: index, seed, coins, policy, accounts; the manifest is the log's first entry.  [A.1 to A.7]
    binding = Binding(cls, class_digest(cls), embedder.dimension, int(time.time()))
    provider.commit(read_policy(dict(policy), binding, assembly.advertised_epsilon), "w1")
    log_key = provider.state.log_signer.verifier

    # The beacon: each party commits to a nonce, then they open in order, the auditor last.  [A.8]  It decides which
    # slots the coins hide; the provider empties those, proves it, and opens the window.  [A.11]
    running = Running(provider, ServeOptions(eager=False, tick=0.0, beacon=BeaconRules(participants=1), publish=0.0))
    link, group, now = ProviderForAuditor(running), default_group(), lambda: int(time.time())
    part = Participant(
        link=link,
        state=auditor,
        log_key=log_key,
        classes=class_build(),
        thinnings=thinning_build(),
        group=group,
        random=token_bytes,
        now=now,
    )
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
    running.call(running.serving.close_window(manifest, signature.sign(provider.state.key, "close", manifest)))

    # Phases C and D: links, proofs, openings, epsilon; the auditor sees no index, query, noise or seed.  [C, D]
    believed = auditor.auditor(log_key, class_build(), estimate_build(), thinning_build())
    verdict = audit(link, believed, environment(), receipts=[ReceiptFile("alice's", result.receipt)])
    for step in verdict.steps:
        print(f"{step.number:4}  {step.title:14} {step.status}")
    running.stop()
    provider.close()
    return verdict


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(one_window(Path(scratch), "How do I rotate a log file?").line())
