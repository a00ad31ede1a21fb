# SPDX-License-Identifier: GPL-3.0-or-later
"""Forked logs and manifests outside them are refused, with the evidence in a folder.  SPEC B.4."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.attestation import Answer, Receipt, SealedAnswer
from ragseal.kernel.errors import AttestationError, AuditError, LedgerError, TransportError


def test_a_forked_log_is_refused_with_evidence(bench: Any, tmp_path: Path) -> None:
    """The log key signs two histories: same key, other entries."""
    from ragseal.ledger.log import Log

    client = bench.client()
    client.ask("json")
    before = bench.snapshot()
    honest = bench.provider.log
    bench.provider.log = Log.create(tmp_path / "fork", bench.provider.log_signer)
    for _ in range(20):
        bench.provider.append(bench.provider.signed)
    with pytest.raises(LedgerError, match=r"contradicts the one this account remembers.*evidence saved"):
        client.ask("csv")
    (bundle,) = bench.evidence()
    assert {p.name.split("-", 1)[1] for p in bundle.glob("*.bin")} >= {
        "remembered-checkpoint.bin",
        "received-answer.bin",
        "received-consistency.bin",
    }
    after = bench.snapshot()
    pending = {name for name in after if name.endswith("pending")}
    assert {n: d for n, d in after.items() if n not in pending} == before
    bench.provider.log.close()
    bench.provider.log = honest
    bench.provider.answers.clear()
    assert client.ask("csv").record.signed.request.ctr == 2


def test_a_log_that_refuses_to_prove_consistency(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.gives_paths = False

    def refuse(call: str) -> None:
        if call == "consistency":
            raise LedgerError("no such size")

    bench.provider.on_call = refuse
    with pytest.raises(LedgerError, match="does not prove"):
        client.ask("csv")
    assert len(bench.evidence()) == 1


def test_an_old_answer_is_proven_against_the_newer_checkpoint(bench: Any, outage: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.gives_paths = False
    bench.provider.on_call = outage("consistency")
    with pytest.raises(TransportError):
        client.ask("csv")
    bench.provider.on_call = lambda _: None
    bench.provider.append(bench.provider.signed)
    client.state.remember_checkpoint(bench.provider.log.checkpoint())
    newest = client.state.checkpoint()
    client.ask("csv")
    assert client.state.checkpoint() == newest  # never replaced by an older one


def test_a_manifest_outside_the_log_is_refused_before_anything_is_sent(bench: Any) -> None:
    size = bench.provider.index_in_log = bench.provider.log.size
    with pytest.raises(LedgerError, match=f"would be entry {size}, the log has {size}"):
        bench.client().ask("json")
    bench.provider.append(bench.provider.signed)
    bench.provider.append(bench.provider.signed)
    bench.provider.manifest = dataclasses.replace(bench.provider.manifest, c_seed=8)
    bench.provider.seal()  # signed, shown to this account only
    with pytest.raises(LedgerError, match="does not hold the manifest"):
        bench.client().ask("json")
    assert "prepare" not in bench.provider.calls
    assert len(bench.evidence()) == 2
    assert bench.client().state.windows() == []


def test_a_manifest_in_a_forked_log(bench: Any, tmp_path: Path) -> None:
    from ragseal.ledger.log import Log

    client = bench.client()
    client.ask("json")
    honest = bench.provider.log
    bench.provider.log = Log.create(tmp_path / "fork", bench.provider.log_signer)
    for window in ("w2", "w3", "w4"):
        bench.provider.open(window)
    with pytest.raises(LedgerError, match="contradicts the one this account remembers"):
        client.ask("csv")
    bench.provider.log.close()
    bench.provider.log = honest


def test_evidence_tells_what_happened(bench: Any) -> None:
    client = bench.client()
    bench.provider.tamper = lambda m: m if not isinstance(m, Answer) else _other_receipt(m)
    with pytest.raises(AuditError, match="evidence saved in"):
        client.ask("json")
    (bundle,) = bench.evidence()
    reason = json.loads((bundle / "reason.json").read_text())
    assert reason["error"] == "AttestationError"
    assert "not signed by the window key" in reason["reason"]
    assert reason["account"] == "alice"
    names = [f["file"] for f in reason["files"]]
    assert names == [
        "00-manifest.bin", "01-sent-prepare.bin", "02-received-prepared.bin", "03-sent-request.bin",
        "04-received-answer.bin",
    ]  # fmt: skip
    assert SealedAnswer.decode((bundle / names[-1]).read_bytes()).receipt.signature == bytes(64)
    assert (bundle.stat().st_mode & 0o777, (bundle / names[0]).stat().st_mode & 0o777) == (0o700, 0o600)


def _other_receipt(answer: Answer) -> Answer:
    receipt = answer.receipt
    return Answer(answer.record, answer.openings, Receipt(receipt.body, bytes(64), receipt.path))


def test_evidence_that_cannot_be_saved_never_hides_the_error(bench: Any) -> None:
    client = bench.client()
    (bench.state / "evidence").write_bytes(b"")
    bench.provider.tamper = lambda m: m if not isinstance(m, Answer) else _other_receipt(m)
    with pytest.raises(AttestationError, match=r"not signed by the window key.*could NOT be saved"):
        client.ask("json")
