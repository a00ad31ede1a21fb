# SPDX-License-Identifier: GPL-3.0-or-later
"""An auditor's verdict in the provider's ledger: whose gets in, how often, and that it moves no audit.  SPEC D.20."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client.opening import find_opening
from ragseal.kernel import signature
from ragseal.kernel.beacon import Seat
from ragseal.kernel.commitment import SignedManifest, WindowOpen
from ragseal.kernel.errors import AttestationError, AuditError, CommitmentError, EncodingError, LedgerError
from ragseal.kernel.verdict import MOST_VERDICTS, AuditVerdict, log_digest
from ragseal.ledger.__main__ import entry_lines
from ragseal.ledger.__main__ import main as observer_main
from ragseal.ledger.auditors import ELSEWHERE, NAMED, STRANGE, UNKNOWN, NamedAuditors, is_claim
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.entries import describe
from ragseal.ledger.note import NoteSigner
from ragseal.prover.storage.audit_verdicts import check_verdict
from ragseal.prover.storage.history import History
from ragseal.v1 import provider_pb2
from ragseal.verifier.__main__ import main
from ragseal.verifier.folder.state import State
from ragseal.verifier.folder.verdicts import Verdicts
from ragseal.verifier.outcome.outcome import CHANGED, PASS, Ending, Verdict
from ragseal.verifier.report import document
from ragseal.verifier.signed import log as verdict_log
from ragseal.verifier.signed.entering import reports_of
from ragseal.verifier.signed.log import VerdictLog, entry_of
from ragseal.verifier.signed.statement import read_verdict, signed_verdict
from ragseal.verifier.steps.log import decoded, read_note, read_tree
from tests.attacks import checks
from tests.attacks.checks import without
from tests.attacks.removal import Removable
from tests.attacks.test_who_gets_what import Stage
from tests.simulator import ORIGIN, SimulatedEvidence, World
from tests.simulator import provider as scene
from tests.simulator.claims import claimed
from tests.simulator.entries import signed_manifest
from tests.simulator.live import live
from tests.verifier import test_verdict_log as own_log

OTHER = Ed25519PrivateKey.from_private_bytes(b"x" * 32)


def verdict(manifest: bytes, log_key: str, digest: bytes = bytes(32), **words: Any) -> AuditVerdict:
    said = {"outcome": "PASS", "claimed": (claimed(),), **words}
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
    """One provider, from the first stranger to the sixteenth verdict; at the end its log is read again."""
    ledger, window, key = stage.live.provider.ledger, stage.live.window, stage.live.log_key
    size = ledger.size
    good = verdict(stage.manifest, key)
    for lie, words in (
        (replace(good, auditor=signature.public_bytes(OTHER)).signed(OTHER), "no other auditor's signature"),
        (good.signed(OTHER), "signature does not hold"),
        (replace(good, outcome="FAIL", claimed=()), "signature does not hold"),  # the old digest, another word
        (replace(good, claimed=(claimed("0.1"),)), "signature does not hold"),
        (verdict(stage.manifest, NoteSigner("another/log", OTHER).verifier.vkey()), "a log with a different key"),
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
        submit(stage, verdict(stage.manifest, key, outcome="NO-VERDICT", claimed=()))
    for number in range(1, MOST_VERDICTS):
        submit(stage, verdict(stage.manifest, key, bytes([number]) * 32, outcome="FAIL", claimed=()))
    with pytest.raises(CommitmentError, match="as many as it takes"):
        submit(stage, verdict(stage.manifest, key, b"\xff" * 32))
    assert ledger.size == size + MOST_VERDICTS == size + len(window.verdicts)

    with stage.live.client() as client:
        client.ask("report number 5")  # the window goes on
    shown = describe(ledger.entry(size))
    by = signature.public_bytes(scene.AUDITOR_KEY).hex()
    claim = "(a claim under that key: compare it with the window's auditors)"
    assert shown["says"] == f"audited: PASS {claimed().text()} by {by} {claim}"
    assert shown["says"] in entry_lines({"index": 0, **shown})
    stage.live.restart()
    again = stage.live.provider.journal.history.window(stage.manifest)
    assert next(iter(again.verdicts.values())) == good
    stage.live.server.serving.verdicts._taken = False
    submit(stage, good)
    with pytest.raises(CommitmentError, match="as many as it takes"):
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
    shown = describe(replace(good, outcome="FAIL", claimed=()).encode())
    assert "says" not in shown
    assert "signature does not hold" in shown["problem"]
    for text in ("<img src=x>", "\x1b[2K", "NO VERDICT"):
        with pytest.raises(EncodingError):
            AuditVerdict.decode(replace(good, outcome=text).encode())
        with pytest.raises(EncodingError):
            AuditVerdict.decode(replace(good, claimed=(claimed(text[:24]),)).encode())


def entered(world: World, made: AuditVerdict, at: int) -> World:
    world.messages.insert(at, made)
    return world


def about(world: World, auditor: Ed25519PrivateKey = OTHER) -> AuditVerdict:
    log = log_digest(world.signer.verifier.vkey())
    made = AuditVerdict(world.digest, log, signature.public_bytes(auditor), bytes(32), "FAIL", (), bytes(64))
    return made.signed(auditor)


def places(world: World) -> list[int]:
    """Behind every entry."""
    return list(range(1, len(world.messages) + 1))


@pytest.mark.slow
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


def test_no_verdict_in_the_log_keeps_an_account_from_its_window() -> None:
    honest = World.honest()
    manifest = next(at for at, one in enumerate(honest.messages) if isinstance(one, SignedManifest))
    opening = next(at for at, one in enumerate(honest.messages) if isinstance(one, WindowOpen))
    for at in range(manifest + 1, opening + 1):
        world = World.honest()
        entries = [one.encode() for one in entered(world, about(world), at).messages[manifest + 1 :]]
        assert find_opening(world.manifest, world.digest, entries) == opening - manifest


def shown(world: World, served: list[bytes] | None = None) -> list[str]:
    """What a reader of the log is told of the verdicts in it; ``served``: the entries as they come to that reader."""
    entries, auditors = world.entries(), NamedAuditors(world.signer.verifier)

    class Served:
        async def entries(self, start: int, count: int) -> list[bytes]:
            return (entries if served is None else served)[start : start + count]

    asyncio.run(auditors.read(Served(), open_checkpoint(world.checkpoint(), world.signer.verifier).checkpoint))
    return [describe(one, auditors)["says"] for one in entries if is_claim(one)]


def test_a_strangers_verdict_is_shown_as_one() -> None:
    """A provider enters its friend's PASS, or one about what this log never held: readers are told whose it is."""
    world = World.honest()
    claims = {
        NAMED: about(world, world.auditor_key),
        STRANGE: about(world),
        UNKNOWN: replace(about(world), manifest=bytes(32)).signed(OTHER),
        ELSEWHERE: replace(about(world, world.auditor_key), log=bytes(32)).signed(world.auditor_key),
    }
    for made in claims.values():
        entered(world, made, len(world.messages))
    assert [one.rpartition(" (")[2] for one in shown(world)] == [f"{words})" for words in claims]
    with without(checks.CLAIMS_COMPARED):
        assert shown(world)[1].endswith(f"({NAMED})")


def test_nobody_in_between_names_auditors() -> None:
    """Attack: a manifest that names the friend is served to the reader in the place of the log's."""
    world = World.honest()
    entered(world, about(world), len(world.messages))
    served = world.entries()
    at = next(at for at, one in enumerate(world.messages) if isinstance(one, SignedManifest))
    seat = replace(world.manifest.auditors[0], public_key=signature.public_bytes(OTHER))
    other = replace(world.manifest, auditors=(seat,))
    served[at] = signed_manifest(other, world.provider).encode()
    made = replace(about(world), manifest=other.digest()).signed(OTHER)
    entered(world, made, len(world.messages))
    served.append(made.encode())
    with pytest.raises(LedgerError, match="different from those it signed"):
        shown(world, served)
    with without(checks.AUDITORS_OF_THE_SIGNED_LOG):
        assert shown(world, served)[1].endswith(f"({NAMED})")


def test_a_verdict_about_it_does_not_make_an_audited_window_changed(tmp_path: Path) -> None:
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
    with without(checks.VERDICT_CHANGES_NOTHING):
        assert beside() == [CHANGED]


# --- each check is what stops it -------------------------------------------------------------------------------------


def taking(world: World, *made: AuditVerdict) -> History:
    """A provider's history of the world's log, and behind it these."""
    history = History(ORIGIN, signature.public_bytes(world.provider), log_digest(world.signer.verifier.vkey()))
    for at, message in enumerate([*world.messages, *made]):
        history.add(at, message.encode())
    return history


def own(world: World, digest: bytes = bytes(32), **changes: Any) -> AuditVerdict:
    made = replace(about(world, world.auditor_key), digest=digest, **changes)
    return made.signed(world.auditor_key)


LIES: dict[str, tuple[Callable[[World], list[AuditVerdict]], Removable]] = {
    "no other auditor's signature": (lambda w: [about(w)], checks.VERDICT_AUDITOR),
    "signature does not hold": (lambda w: [replace(own(w), outcome="NO-VERDICT")], checks.VERDICT_SIGNED),
    "a log with a different key": (lambda w: [own(w, log=bytes(32))], checks.VERDICT_LOG),
    "is in the ledger already": (
        lambda w: [own(w), own(w, outcome="NO-VERDICT")], checks.VERDICT_ONCE,
    ),
    "as many as it takes": (
        lambda w: [own(w, bytes([n]) * 32) for n in range(MOST_VERDICTS + 1)], checks.VERDICTS_BOUNDED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", LIES)
def test_an_honest_program_enters_no_such_verdict(words: str) -> None:
    lie, check = LIES[words]
    world = World.honest()
    with pytest.raises(AuditError, match=words):
        taking(world, *lie(world))
    with without(check):
        assert taking(world, *lie(world)).window(world.digest).verdicts


def test_nobody_takes_the_place_of_anothers_verdict() -> None:
    """An auditor's log shows the digest of its FAIL before that is handed in: another one claims it, with a PASS."""
    world = World.honest()
    seats = (world.manifest.auditors[0], Seat("auditor-b", signature.public_bytes(OTHER)))
    two = replace(world.manifest, auditors=seats)
    log = world.manifest.log
    squat = replace(own(world), auditor=signature.public_bytes(OTHER), outcome="PASS", claimed=(claimed("1"),)).signed(
        OTHER
    )
    late = own(world)
    known = {(squat.auditor, squat.digest): squat}
    assert squat.digest == late.digest
    check_verdict(late, two, known, log)
    with pytest.raises(CommitmentError, match="in the ledger already"):
        check_verdict(squat, two, known, log)
    many = {(squat.auditor, bytes([n + 1]) * 32): squat for n in range(MOST_VERDICTS)}
    check_verdict(late, two, many, log)
    with pytest.raises(CommitmentError, match="as many as it takes"):
        check_verdict(squat, two, many, log)


# --- the auditor's own log, as a reader checks it --------------------------------------------------------------------


def test_a_reader_takes_no_other_log_no_other_auditor_and_no_other_words(tmp_path: Path) -> None:
    log = VerdictLog(tmp_path, signature.public_bytes(own_log.KEY))
    data = own_log.signed(log)
    log.enter(data)
    log.enter(own_log.signed(log, own_log.NOW + 1))
    found = read_verdict(data, signature.public_bytes(own_log.KEY))
    good, other = log.proof(0).to_text(), NoteSigner("ragseal-verdicts/other", OTHER).verifier
    verdict_log.check_entered(data, found, good, log.verifier())

    with pytest.raises(AttestationError, match="names a different log"):
        verdict_log.check_entered(data, found, good, other)
    with without(checks.ENTERED_THERE):
        verdict_log.check_entered(data, found, good, other)

    with pytest.raises(LedgerError, match=r"inclusion|path|root"):
        verdict_log.check_entered(data, found, log.proof(1).to_text(), None)
    with without(checks.ENTERED_AS_IT_IS):
        verdict_log.check_entered(data, found, log.proof(1).to_text(), None)

    verdict, values = own_log._honest()
    theirs = signed_verdict(verdict, values, reports_of(values), own_log.LOG, OTHER, log.verifier())
    strange = read_verdict(theirs, signature.public_bytes(OTHER))
    proof = own_log._alone(log, entry_of(theirs, strange)).to_text()
    with pytest.raises(AttestationError, match="is not that of the auditor"):
        verdict_log.check_entered(theirs, strange, proof, None)
    with without(checks.ENTERED_BY_ITS_AUDITOR):
        verdict_log.check_entered(theirs, strange, proof, None)


@pytest.mark.slow
def test_an_auditor_hands_its_verdict_to_the_provider(tmp_path: Path) -> None:
    """From the signed file to what observers read; a verdict about nothing, or another auditor's, is not handed in."""
    with live(tmp_path) as made:
        state = State.create(tmp_path / "auditor", scene.AUDITOR_KEY)
        log = VerdictLog(state.directory, state.public_key)

        def issued(about: tuple[str, bytes] | None) -> Path:
            verdict = Verdict(auditor=state.public_key, at=own_log.NOW, origin=made.log.name, about=about)
            verdict.end(Ending(2, "the window is still open", {}, "audit it after it was closed"))
            values = document.build(verdict)
            data = signed_verdict(verdict, values, reports_of(values), made.log, state.identity, log.verifier())
            log.enter(data)
            (tmp_path / "verdict").write_bytes(data)
            return tmp_path / "verdict"

        def submit_it(path: Path, folder: Path) -> Any:
            command = ["verdict", "submit", str(path), "--state", str(folder), "--provider", made.address]
            return CliRunner().invoke(main, command)

        size = made.provider.ledger.size
        done = submit_it(issued(("w1", made.window.digest)), state.directory)
        assert done.exit_code == 0, done.output
        shown = describe(made.provider.ledger.entry(size))
        assert shown["says"].startswith(f"audited: NO-VERDICT by {state.public_key.hex()}")
        command = ["show", str(size), "--provider", made.address, "--log-key", made.log_key]
        said = CliRunner().invoke(observer_main, command)
        assert f"by {state.public_key.hex()} ({NAMED})" in said.output, said.output
        assert shown["fields"]["digest"] == log.entries()[0].digest.hex(), "both logs name one envelope"
        refused = submit_it(issued(None), state.directory)
        assert (refused.exit_code, "about no manifest" in refused.output) == (1, True)
        other = State.create(tmp_path / "other", OTHER)
        refused = submit_it(issued(("w1", made.window.digest)), other.directory)
        assert (refused.exit_code, "no signature of the envelope is by the key" in refused.output) == (1, True)
        assert made.provider.ledger.size == size + 1
