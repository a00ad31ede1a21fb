# SPDX-License-Identifier: GPL-3.0-or-later
"""Every field of every message altered on the way.  SPEC B."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.attestation import Answer, Prepared, Receipt, SealedAnswer, sealed_digest
from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AttestationError, AuditError, LedgerError, TransportError
from tests.client.test_signed_lies import resigned

Change = Callable[[Any], Any]


def replace(message: Any, path: tuple[str | int, ...], value: Callable[[Any], Any]) -> Any:
    """A copy of nested messages and tuples with ``value`` applied at ``path``."""
    if not path:
        return value(message)
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        step %= len(message)
        return (*message[:step], replace(message[step], rest, value), *message[step + 1 :])
    return dataclasses.replace(message, **{step: replace(getattr(message, step), rest, value)})


def alterations(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, Change]]:
    """Every leaf of a message changed in the smallest way, and every list cut, doubled and turned around."""

    def at(change: Callable[[Any], Any], how: str) -> tuple[str, Change]:
        return ".".join(map(str, path)) + " " + how, lambda message: replace(message, path, change)

    if isinstance(value, Message):
        for field in dataclasses.fields(value):  # type: ignore[arg-type]
            yield from alterations(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, bool):
        yield at(lambda v: not v, "negated")
    elif isinstance(value, int):
        yield at(lambda v: v + 1, "plus one")
    elif isinstance(value, str):
        yield at(lambda v: v + "x", "longer")
    elif isinstance(value, bytes):
        yield at(lambda v: v[:-1] + bytes([v[-1] ^ 1]), "last bit")
    elif value == ():
        return  # nothing in it to alter; what an unflagged slot could get is among LIES
    elif isinstance(value, tuple):
        if path[-1:] != ("t_commits",) or len(value) > 1:  # no bytes say that there is none
            yield at(lambda v: v[:-1], "cut")
        if path[-1:] != ("texts",):  # of which no message carries two
            yield at(lambda v: (*v, v[-1]), "last one doubled")
        if len(value) > 1:
            yield at(lambda v: v[::-1], "turned around")
        for i in (0, -1):
            yield from alterations(value[i], (*path, i))
    else:
        raise AssertionError(f"no alteration of {type(value)}")


def survivors(bench: Any, kind: type[Message], changes: Iterable[tuple[str, Change]]) -> list[str]:
    """The alterations of ``kind`` that the client accepts, that leave no evidence, or that change its memory."""
    bad: list[str] = []
    client = bench.client()
    for name, change in changes:
        before, seen = bench.snapshot(), len(bench.evidence())
        bench.provider.tamper = lambda m, change=change: change(m) if isinstance(m, kind) else m
        try:
            client.ask("xml")
        except AuditError:
            changed = {n for n in before.keys() | bench.snapshot().keys() if not n.endswith("pending")}
            after = bench.snapshot()
            if any(before.get(n) != after.get(n) for n in changed) or len(bench.evidence()) != seen + 1:
                bad.append(f"{name}: memory or evidence")
        else:
            bad.append(f"{name}: accepted")
    bench.provider.tamper = lambda message: message
    return bad


def test_every_altered_prepared_is_refused(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    prepared = client.state.windows()[0].exchange(1).prepared
    assert survivors(bench, Prepared, alterations(prepared)) == []
    assert bench.client().ask("xml").record.signed.request.ctr == 2  # the retry is possible, the counter unspent


@pytest.mark.slow
def test_every_altered_answer_is_refused(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    client.ask("csv")  # so that last_receipt, seq and path are not zero or empty
    answer = client.state.windows()[0].answer(2)
    assert survivors(bench, SealedAnswer, alterations(bench.provider.delivered(answer))) == []
    assert bench.client().ask("xml").record.signed.request.ctr == 3


@pytest.mark.slow
def test_every_altered_part_that_is_sealed_and_signed_anew_is_refused(bench: Any) -> None:
    """What nobody on the line can alter any more, the provider can: it seals and signs exactly what it has altered."""
    client = bench.client()
    client.ask("json")
    client.ask("csv")
    seen: list[Answer] = []

    def unheard(message: Any) -> Any:
        if isinstance(message, Answer):
            seen.append(message)
            raise TransportError("the line is down")
        return message

    bench.provider.tamper = unheard
    with pytest.raises(TransportError):
        client.ask("xml")  # it is asked for again, byte for byte, and gets the same answer
    answer = seen[0]
    assert any(slot.texts for slot in (answer.openings.slots[0], answer.openings.slots[-1])), "no text to alter"

    def bound(change: Change) -> Change:
        def both(message: Answer) -> Answer:
            altered = change(message)
            sealed = bench.provider.sealed_openings(altered.record, altered.openings)
            return resigned(bench, altered, sealed_digest=sealed_digest(sealed))

        return both

    parts = [(name, bound(change)) for name, change in alterations(answer) if not name.startswith("receipt")]
    assert len(parts) > 40
    for one in ("content.id", "content.text", "key", "value", "salt"):
        assert any(f"{one} " in name and ".texts." in name for name, _ in parts), one
    assert survivors(bench, Answer, parts) == []
    assert bench.client().ask("xml").record.signed.request.ctr == 3


@pytest.mark.slow
def test_every_altered_manifest_is_refused(bench: Any) -> None:
    for name, change in alterations(bench.provider.signed):
        bench.provider.tamper = lambda m, change=change: change(m) if isinstance(m, SignedManifest) else m
        before = bench.snapshot()
        with pytest.raises(AuditError):
            bench.client().ask("json")
        assert "log.vkey" in bench.snapshot(), name
        assert {n: d for n, d in bench.snapshot().items() if n != "log.vkey"} == {
            n: d for n, d in before.items() if n != "log.vkey"
        }, name
        assert bench.evidence(), name
    bench.provider.tamper = lambda message: message
    bench.client().ask("json")


# Forked logs and manifests outside them are refused, with the evidence in a folder. SPEC B.4.


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
