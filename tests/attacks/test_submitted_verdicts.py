# SPDX-License-Identifier: GPL-3.0-or-later
"""An auditor's verdict in the provider's ledger: whose gets in, how often, and that it moves no audit.  SPEC D.20."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.kernel.errors import AttestationError, AuditError, CommitmentError, EncodingError
from ragseal.kernel.verdict import MOST_VERDICTS, AuditVerdict, log_digest
from ragseal.ledger.__main__ import entry_lines
from ragseal.ledger.entries import describe
from ragseal.prover.storage import history as history_module
from ragseal.prover.storage.history import History
from ragseal.v1 import provider_pb2
from ragseal.verifier import verdicts as kept_verdicts
from ragseal.verifier.outcome import CHANGED, PASS
from ragseal.verifier.steps.log import decoded, read_note, read_tree
from ragseal.verifier.verdicts import Verdicts
from tests.attacks.test_who_gets_what import Stage
from tests.simulator import ORIGIN, SimulatedEvidence, World
from tests.simulator import provider as scene
from tests.simulator.live import live

OTHER = Ed25519PrivateKey.from_private_bytes(b"x" * 32)


def verdict(manifest: bytes, log_key: str, digest: bytes = bytes(32), **words: str) -> AuditVerdict:
    said = {"outcome": "PASS", "epsilon": "85.8", **words}
    key = scene.AUDITOR_KEY
    made = AuditVerdict(manifest, log_digest(log_key), signature.public_bytes(key), digest, signature=bytes(64), **said)
    return made.signed(key)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with live(tmp_path_factory.mktemp("stage"), publish=3600.0) as made:
        yield Stage(made, [])


def submit(stage: Stage, made: AuditVerdict) -> None:
    stage.send("SubmitVerdict", provider_pb2.SubmitVerdictRequest(canonical=made.encode()))


@pytest.mark.slow
def test_what_gets_into_the_ledger(stage: Stage) -> None:
    """One provider, from the first stranger to the sixteenth verdict; its log is read again from its bytes at the end."""
    ledger, window, key = stage.live.provider.ledger, stage.live.window, stage.live.log_key
    size = ledger.size
    good = verdict(stage.manifest, key)
    for lie, words in (
        (replace(good, auditor=signature.public_bytes(OTHER)).signed(OTHER), "names the auditor"),
        (good.signed(OTHER), "signature does not hold"),
        (replace(good, outcome="FAIL", epsilon=""), "signature does not hold"),  # the old digest, another word
        (replace(good, epsilon="0.1"), "signature does not hold"),
        (verdict(stage.manifest, scene.make_log_key("another/log")), "a log of another key"),  # replayed from there
    ):
        with pytest.raises(AttestationError, match=words):
            submit(stage, lie)
    with pytest.raises(CommitmentError, match="no window with that manifest"):
        submit(stage, verdict(bytes(32), key))
    with pytest.raises(EncodingError):
        stage.send("SubmitVerdict", provider_pb2.SubmitVerdictRequest(canonical=b"\x00" * 100))
    assert ledger.size == size, "nothing of theirs got in"

    public = stage.live.provider.journal.public.size
    submit(stage, good)
    assert (ledger.size, stage.live.provider.journal.public.size) == (size + 1, public), "beside records: on the tick"
    for _ in range(1000 // 50):  # replays are of public bytes, so anybody can send them

        async def flood() -> None:
            await asyncio.gather(*(stage.live.server.serving.verdicts.submit(good.encode()) for _ in range(50)))

        stage.live.call(flood())
    submit(stage, good)
    assert ledger.size == size + 1
    with pytest.raises(CommitmentError, match="is in the ledger already"):
        submit(stage, verdict(stage.manifest, key, outcome="NO-VERDICT", epsilon=""))
    for number in range(1, MOST_VERDICTS):
        submit(stage, verdict(stage.manifest, key, bytes([number]) * 32, outcome="FAIL", epsilon=""))
    with pytest.raises(CommitmentError, match="as many as it takes"):
        submit(stage, verdict(stage.manifest, key, b"\xff" * 32))
    assert ledger.size == size + MOST_VERDICTS == size + len(window.verdicts)

    with stage.live.client() as client:
        client.ask("report number 5")  # the window goes on
    shown = describe(ledger.entry(size))
    assert shown["says"] == (
        f"audited: PASS epsilon 85.8 by {signature.public_bytes(scene.AUDITOR_KEY).hex()} (the auditor's claim)"
    )
    assert shown["says"] in entry_lines({"index": 0, **shown})
    stage.live.restart()
    again = stage.live.provider.journal.history.window(stage.manifest)
    assert list(again.verdicts.values())[0] == good
    stage.live.server.serving.verdicts._taken = False
    submit(stage, good)
    with pytest.raises(CommitmentError, match="as many as it takes|enters no verdicts"):
        submit(stage, verdict(stage.manifest, key, b"\xfe" * 32))


@pytest.mark.slow
def test_a_provider_may_refuse(tmp_path: Path) -> None:
    with live(tmp_path) as made:
        made.server.serving.verdicts._taken = False
        size = made.provider.ledger.size
        with pytest.raises(CommitmentError, match="enters no verdicts"):
            submit(Stage(made, []), verdict(made.window.digest, made.log_key))
        assert made.provider.ledger.size == size


def test_a_forged_claim_is_not_shown_as_one() -> None:
    good = verdict(bytes(32), "log")
    assert "says" in describe(good.encode())
    shown = describe(replace(good, outcome="FAIL", epsilon="").encode())
    assert "says" not in shown
    assert "signature does not hold" in shown["problem"]
    for text in ("<img src=x>", "\x1b[2K", "NO VERDICT"):
        with pytest.raises(EncodingError):
            AuditVerdict.decode(replace(good, outcome=text).encode())
        with pytest.raises(EncodingError):
            AuditVerdict.decode(replace(good, epsilon=text[:24]).encode())


def entered(world: World, made: AuditVerdict, at: int) -> World:
    world.messages.insert(at, made)
    return world


def about(world: World, auditor: Ed25519PrivateKey = OTHER) -> AuditVerdict:
    log = log_digest(world.signer.verifier.vkey())
    made = AuditVerdict(world.digest, log, signature.public_bytes(auditor), bytes(32), "FAIL", "", bytes(64))
    return made.signed(auditor)


def places(world: World) -> list[int]:
    """Behind every entry."""
    return list(range(1, len(world.messages) + 1))


def test_no_verdict_in_the_log_moves_an_audit() -> None:
    """Anybody's, forged or not, behind every entry of the window: the audit says what it said without."""
    honest = World.honest().audit().line()
    assert honest.startswith("PASS ")
    for at in places(World.honest()):
        world = World.honest()
        made = about(world)
        assert entered(world, made, at).audit().line() == honest, at
    world = World.honest()
    assert entered(world, replace(about(world), manifest=bytes(32), signature=bytes(64)), 3).audit().line() == honest


def test_a_verdict_about_it_does_not_make_an_audited_window_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit of the next window names this one as it was found; any other entry of it would count."""
    world = World.honest()
    found = world.audit()
    kept = Verdicts(tmp_path, world.signer.verifier)
    kept.keep(found, 0)

    def beside() -> list[str]:
        evidence = SimulatedEvidence(world)
        log = decoded(read_tree(evidence, read_note(evidence, world.signer.verifier)))
        return [one.verdict for one in kept.neighbours(log, [("w1", world.digest)], bytes(32))]

    entered(world, about(world), len(world.messages))
    assert beside() == [PASS]
    monkeypatch.setattr(kept_verdicts, "AuditVerdict", WindowOpen)  # without that check
    assert beside() == [CHANGED]


def test_the_ledgers_checks_are_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the one look at who signed, what a stranger made is taken in."""
    world = World.honest()
    history = History(ORIGIN, signature.public_bytes(world.provider), log_digest(world.signer.verifier.vkey()))
    for at, message in enumerate(world.messages):
        history.add(at, message.encode())
        if isinstance(message, WindowClose):
            break
    made = about(world)
    with pytest.raises(AttestationError):
        history.add(99, made.encode())
    assert not history.window(world.digest).verdicts
    nobody = History(ORIGIN, signature.public_bytes(world.provider))
    for at, message in enumerate(world.messages):
        nobody.add(at, message.encode())
    with pytest.raises(AuditError):
        nobody.add(99, about(world, world.auditor_key()).encode())
    monkeypatch.setattr(history_module, "check_verdict", lambda *_: None)
    history.add(99, made.encode())
    assert list(history.window(world.digest).verdicts.values()) == [made]


