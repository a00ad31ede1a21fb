# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns of a log's key: an honest one changes no verdict, and a stolen old key is worth nothing behind it.

SPEC G.6.13.  Each lie ends in a refusal, and with exactly the check that it names removed in what it was made for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.errors import AuditError
from ragseal.kernel.rotation import Rotation
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.note import Note, NoteSignature, NoteSigner
from ragseal.ledger.turns import LogKey, TurnedTwiceError, TurnError, TurnProof, follow, refuse_contradiction
from ragseal.verifier.evidence.evidence import ReceiptFile, TurnFile
from ragseal.verifier.outcome.outcome import Verdict
from tests.attacks import turn_checks as checks
from tests.attacks.checks import without
from tests.attacks.removal import Removable
from tests.simulator.turning import Turning
from tests.simulator.world import ORIGIN, key_of


def note_of(world: Turning, size: int) -> bytes:
    """The log's own note of an earlier size."""
    return world.log_signer.note(Checkpoint(ORIGIN, size, world.root(size)))


def says(verdict: Verdict, outcome: str, why: str) -> None:
    assert verdict.verdict == outcome, verdict.line()
    assert why in verdict.line()


def old_alone(world: Turning) -> None:
    """From now on the newest note is signed by the first key alone: whoever stole it shows the log as it is."""
    world.by = lambda point: point.sign(world.signer)


# --- honest turns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0, 2, 100])
def test_a_window_across_a_turn_passes(overlap: int) -> None:
    world = Turning.turned(overlap)
    kept: list[LogKey] = []
    auditor = replace(world.auditor(), keep_turns=kept.append)
    verdict = world.audit(auditor=auditor, receipts=world.receipts())
    says(verdict, "PASS", "")
    assert not verdict.set_aside
    assert kept == [world.log_signer.log], "the turn is kept before it is believed"
    assert verdict.log is not None
    assert verdict.log.checkpoint.size == world.size


def test_an_auditor_that_knows_the_turn_passes_it_again() -> None:
    world = Turning.turned()
    auditor = replace(world.auditor(), log_key=world.log_signer.log)
    assert world.audit(auditor=auditor, receipts=world.receipts()).verdict == "PASS"


def test_turns_are_followed_in_their_order() -> None:
    world = Turning()
    world.commit()
    for number in range(3):
        world.ask("alice")
        world.turn(f"log key {number}", overlap=1)
        world.ask("bob")
    world.close()
    assert world.audit(receipts=world.receipts()).verdict == "PASS"


def test_what_was_remembered_before_the_turn_is_continued() -> None:
    world = Turning.turned()
    remembered = open_checkpoint(note_of(world, 6), world.signer.verifier)
    assert world.audit(auditor=replace(world.auditor(), remembered=remembered)).verdict == "PASS"


# --- turns that are none ---------------------------------------------------------------------------------------------


def unsigned_old(world: Turning) -> None:
    _change_turn(world, lambda turn: replace(turn, by_old=turn.by_new))


def unsigned_new(world: Turning) -> None:
    _change_turn(world, lambda turn: replace(turn, by_new=turn.by_old))


def _change_turn(world: Turning, change: Callable[[Rotation], Rotation]) -> None:
    index = world.at(Rotation)
    turn = world.messages[index]
    assert isinstance(turn, Rotation)
    world.messages[index] = change(turn)


def made(change: Callable[[Turning], None]) -> Turning:
    world = Turning.turned()
    change(world)
    return world


def back_to_the_first(world: Turning) -> None:
    """A second turn, from the second key to the first, which may have been stolen long ago."""
    first, second = world.log_signer.signers[-1], world.log_signer.signers[0]
    world.messages.pop()
    index, root = world.size, world.root(world.size)
    turn = world.log_signer.turn(NoteSigner(ORIGIN, key_of("third")), index, root, 0)
    turn = replace(turn, new_key=first.verifier.public_key).signed(second.private_key, first.private_key)
    world.messages.append(turn)
    world.close()
    world.by = lambda point: point.sign(first)


LIES: dict[str, tuple[Callable[[], Turning], Removable, str]] = {
    "of another history": (lambda: Turning.turned(root=bytes(32)), checks.TURN_IN_ITS_PLACE, "place or history"),
    "of another place": (lambda: Turning.turned(index=1, until=2), checks.TURN_IN_ITS_PLACE, "place or history"),
    "of another log": (lambda: Turning.turned(log=bytes(32)), checks.TURN_OF_THIS_LOG, "a different log's key"),
    "out of order": (lambda: Turning.turned(number=2), checks.TURN_IN_ORDER, "does not come behind"),
    "not signed by the old key": (lambda: made(unsigned_old), checks.TURN_OLD_SIGNED, "not signed by its old key"),
    "not signed by the new key": (lambda: made(unsigned_new), checks.TURN_NEW_SIGNED, "not signed by its new key"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_turn_that_does_not_hold_is_not_followed(name: str) -> None:
    make, check, why = LIES[name]
    world = make()
    told = world.audit()
    says(told, "NO VERDICT", "no signature by a known key")
    with without(check):
        believed = world.audit()
    if name in ("of another place", "out of order"):  # others refuse it then: it is counted by its index and number
        assert believed.line() != told.line()
    else:
        says(believed, "PASS", "")
    world.by = lambda point: point.sign(world.signer)
    told = world.audit()
    says(told, "FAIL", why)


def test_a_turn_by_a_key_that_did_not_sign_the_log_is_not_followed() -> None:
    world = Turning.turned()
    stranger, new = key_of("stranger"), world.log_signer.signers[0].private_key
    _change_turn(world, lambda turn: replace(turn, old_key=_public(stranger)).signed(stranger, new))
    assert world.audit().verdict == "NO VERDICT"
    with without(checks.TURN_OF_THE_NEWEST):
        assert world.audit().verdict == "PASS"


def test_a_log_does_not_turn_back_to_a_key_that_it_gave_up() -> None:
    world = Turning.turned()
    back_to_the_first(world)
    assert world.audit().verdict == "NO VERDICT"
    with without(checks.TURN_TO_NO_OLDER_KEY):
        assert world.audit().verdict == "PASS"


def test_a_turn_in_the_overlap_of_the_one_before_is_none() -> None:
    world = Turning.turned(overlap=50)
    with without(checks.TURN_BEHIND_THE_OVERLAP):
        world.turn("third log key")
        assert world.audit().verdict == "PASS"
    assert world.audit().verdict == "NO VERDICT"


# --- a stolen old key ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0, 100])
def test_a_note_of_the_old_key_alone_counts_for_nothing_behind_the_turn(overlap: int) -> None:
    world = Turning.turned(overlap)
    old_alone(world)
    told = world.audit()
    says(told, "NO VERDICT", "only by a key that the log has given up")
    with without(checks.OLD_KEY_ALONE):
        assert world.audit().verdict == "PASS"
    knowing = replace(world.auditor(), log_key=world.log_signer.log)
    assert world.audit(auditor=knowing).verdict == "NO VERDICT"


def test_a_fork_by_the_old_key_convicts_nobody_who_learns_of_the_turn() -> None:
    """Its notes behind the turn are void, in what an auditor remembered and in bodies that the thief made up."""
    world, fork = Turning.turned(), fork_of_the_first()
    remembered = open_checkpoint(fork.checkpoint(), world.signer.verifier)
    told = world.audit(auditor=replace(world.auditor(), remembered=remembered))
    says(told, "NO VERDICT", "a thief of that key")
    told = world.audit(receipts=[by_stranger(one) for one in fork.receipts()])
    says(told, "PASS", "")
    assert len(told.set_aside) == 5, "no provider of this log signed any of them"
    with without(checks.ONE_KEY_A_SIZE):
        told = world.audit(receipts=world.receipts()[:1])
        assert told.verdict == "FAIL", "a note before the turn is the old key's, and would count for nothing"


def fork_of_the_first() -> Turning:
    """The log without its turn, two answers longer than that: the first key goes on by itself."""
    fork = Turning()
    fork.commit()
    for account in ("alice", "bob", "carol", "alice", "bob"):
        fork.ask(account)
    return fork


def by_stranger(file: ReceiptFile, change: Callable[[bytes], bytes] = bytes) -> ReceiptFile:
    """The file with its body signed by nobody of this log, and the note in it changed before."""
    body = replace(file.receipt.body, checkpoint=change(file.receipt.body.checkpoint))
    signed = signature.sign(key_of("stranger"), "receipt", body.encode())
    return replace(file, receipt=replace(file.receipt, body=body, signature=signed))


def with_junk_line(note: bytes, world: Turning) -> bytes:
    """The note with a line that claims to be by the second key and does not verify."""
    parsed, second = Note.parse(note), world.log_signer.log.newest
    return parsed.with_signatures([NoteSignature(second.name, second.key_id, bytes(64))]).encode()


@pytest.mark.parametrize("spoiled", [False, True])
def test_answers_beside_the_log_convict_the_provider_that_signed_them(spoiled: bool) -> None:
    """An account that has not learnt of the turn is served a log of its own, under notes of the old key alone.

    The provider's own signature is over the body that holds the note: whoever stole a log key cannot make that.
    """
    world, fork = Turning.turned(), fork_of_the_first()
    files = fork.receipts()[3:]  # from the turn on
    if spoiled:  # so that the note is neither without a line of the second key nor with a good one
        files = [
            replace(one, receipt=replace(one.receipt, body=body, signature=signature.sign(
                fork.window_key, "receipt", body.encode()
            )))
            for one in files
            for body in [replace(one.receipt.body, checkpoint=with_junk_line(one.receipt.body.checkpoint, world))]
        ]  # fmt: skip
    told = world.audit(receipts=files)
    says(told, "FAIL", "its answer is in no log that others see")
    with without(checks.NO_ANSWER_BESIDE_THE_LOG):
        says(world.audit(receipts=files), "PASS", "")


@pytest.mark.parametrize("checks_left", [None, checks.PIN_IN_TURNS, checks.PIN_IN_MANIFEST])
def test_an_auditor_that_was_given_a_later_key_convicts_nobody(checks_left: Removable | None) -> None:
    """Both places where the log's name differs from the pin say so; with either of them gone it is a FAIL."""
    world = Turning.turned()
    auditor = replace(world.auditor(), log_key=world.log_signer.log.newest)
    if checks_left is None:
        says(world.audit(auditor=auditor), "NO VERDICT", "is called by its first key")
        return
    with without(checks_left):
        assert world.audit(auditor=auditor).verdict == "FAIL"


def test_a_made_up_turn_to_a_logs_own_first_key_hides_no_lie() -> None:
    """Attack: a provider that dropped a promised record enters a turn of another log's key to its own first one.

    It signs for both keys.  The auditor must not believe that it was given a later key, and leave the receipt unread.
    """
    honest, lie, other = Turning(), Turning(), key_of("another log's key")
    for world, asked in ((honest, ("alice", "bob", "carol")), (lie, ("alice", "bob"))):
        world.commit()
        for account in asked:
            world.ask(account)
    promised = honest.receipts()
    index, root = lie.size, lie.root(lie.size)
    keys = _public(other), lie.signer.verifier.public_key
    turn = Rotation(bytes(32), 1, *keys, index, root, index + 1, bytes(64), bytes(64))
    lie.messages.append(turn.signed(other, lie.signer.private_key))
    lie.close()
    says(lie.audit(receipts=promised), "FAIL", "turn is of a different log's key")
    with without(checks.GOES_BY_ITS_NAME):
        says(lie.audit(receipts=promised), "NO VERDICT", "is called by its first key")
    del lie.messages[index]
    says(lie.audit(receipts=promised), "FAIL", "log was forked")


def test_a_rollback_to_a_note_before_the_turn_is_stale() -> None:
    world = Turning.turned()
    auditor = replace(
        world.auditor(), log_key=world.log_signer.log,
        remembered=open_checkpoint(world.checkpoint(), world.log_signer.log),
    )  # fmt: skip
    del world.messages[world.at(Rotation) :]
    world.log_signer = Turning().log_signer
    told = world.audit(auditor=auditor)
    says(told, "NO VERDICT", "old copy")


def test_the_new_key_signs_nothing_before_the_turn() -> None:
    world = Turning.turned()
    early = Checkpoint(ORIGIN, 5, world.root(5)).sign(world.log_signer.signers[0])
    with pytest.raises(AuditError, match="no signature by a known key"):
        open_checkpoint(early, world.log_signer.log)
    with without(checks.ONE_KEY_A_SIZE):
        open_checkpoint(early, world.log_signer.log)


def test_a_stripped_line_of_the_overlap_changes_nothing_for_good() -> None:
    """Whoever stands in between takes the new key's line away: asked again, the audit passes."""
    world = Turning.turned(overlap=100)
    note = Note.parse(world.checkpoint())
    world.by = lambda point: Note(note.text, note.signatures[:1]).encode()
    assert world.audit().verdict == "NO VERDICT"
    world.by = None
    assert world.audit().verdict == "PASS"


# --- turns that were shown to one account ---


def beside(*before: str) -> Turning:
    """A log that turns to a third key behind so many answers, kept for one account."""
    fork = Turning()
    fork.commit()
    for account in before:
        fork.ask(account)
    fork.turn("third log key")
    for account in ("bob", "alice"):
        fork.ask(account)
    return fork


def shown(fork: Turning) -> list[TurnFile]:
    return [TurnFile("a.turn-proof", proof_of(fork))]


def test_the_note_behind_a_turn_that_the_log_does_not_hold_convicts_it() -> None:
    world, fork = Turning(), beside("alice")
    world.commit()
    for account in ("alice", "bob", "carol"):
        world.ask(account)
    world.close()
    says(world.audit(), "PASS", "")
    told = world.audit(turns=shown(fork))
    says(told, "FAIL", "the log was forked")
    with without(checks.SHOWN_TURNS):
        assert world.audit(turns=shown(fork)).verdict == "PASS"


def test_answers_under_a_key_that_one_account_was_shown_convict_their_provider() -> None:
    """The old key's second turn is void behind the first; bodies around the third key's notes are the provider's."""
    world, fork = Turning.turned(), beside("alice", "bob", "carol", "alice")
    files = fork.receipts()[-1:]
    told = world.audit(receipts=files, turns=shown(fork))
    says(told, "FAIL", "its answer is in no log that others see")
    with without(checks.KEYS_BESIDE):
        assert world.audit(receipts=files, turns=shown(fork)).verdict == "PASS"
    strangers = [by_stranger(one) for one in files]
    assert world.audit(receipts=strangers, turns=shown(fork)).verdict == "PASS"


def test_turns_that_accounts_were_shown_and_the_log_holds_change_nothing() -> None:
    world = Turning.turned()
    assert world.audit(receipts=world.receipts(), turns=[TurnFile("a", proof_of(world))]).verdict == "PASS"


def test_a_turn_that_a_stranger_wrote_down_convicts_nobody() -> None:
    world = Turning.turned()
    proof, stranger = proof_of(world), key_of("stranger")
    forged = replace(proof.turn, root=bytes(32)).signed(stranger, stranger)
    assert world.audit(turns=[TurnFile("a", replace(proof, turn=forged))]).verdict == "PASS"


# --- two turns of one key --------------------------------------------------------------------------------------------


def test_two_turns_of_one_key_convict_the_log() -> None:
    world, other = Turning.turned(), Turning()
    other.commit()
    for account in ("alice", "bob", "carol"):
        other.ask(account)
    other.turn("third log key")
    other.ask("bob")
    other.close()
    auditor = replace(world.auditor(), log_key=other.log_signer.log)
    told = world.audit(auditor=auditor)
    says(told, "FAIL", "has signed two different turns")
    assert told.failure is not None
    assert {"known", "other"} <= set(told.failure.evidence)
    with without(checks.TURNED_ONCE):
        assert world.audit(auditor=auditor).verdict == "NO VERDICT"


@pytest.mark.parametrize("before", [1, 5])
def test_a_second_turn_elsewhere_convicts_nobody(before: int) -> None:
    """Behind the first the key is given up: whoever stole it can sign, and show its turn first or last."""
    world, other = Turning.turned(), beside(*["alice", "bob", "carol", "alice", "bob"][:before])
    auditor = replace(world.auditor(), log_key=other.log_signer.log)
    assert world.audit(auditor=auditor).verdict == "NO VERDICT"
    with pytest.raises(TurnError) as raised:
        refuse_contradiction(world.log_signer.log, other.log_signer.log.turns[0])
    assert not isinstance(raised.value, TurnedTwiceError)


def test_two_signatures_over_the_same_words_convict_nobody() -> None:
    world = Turning.turned()
    turn = world.messages[world.at(Rotation)]
    assert isinstance(turn, Rotation)
    known = replace(world.log_signer.log, turns=(replace(turn, by_old=bytes(64)),))
    assert world.audit(auditor=replace(world.auditor(), log_key=known)).verdict == "PASS"


def test_words_that_the_old_key_did_not_sign_convict_nobody() -> None:
    world = Turning.turned()
    stranger = key_of("stranger")
    log = world.log_signer.log
    forged = replace(log.turns[0], index=1, until=2).signed(stranger, stranger)
    with pytest.raises(TurnError) as raised:
        TurnProof(forged, (), b"").follow(log)
    assert not isinstance(raised.value, TurnedTwiceError)


# --- shown to whoever does not hash the log --------------------------------------------------------------------------


def proof_of(world: Turning) -> TurnProof:
    return world.proofs()[0]


def test_a_proven_turn_is_followed_once() -> None:
    world = Turning.turned()
    proof = proof_of(world).encode()
    assert follow(world.signer.verifier, [proof]) == follow(world.log_signer.log, [proof]) == world.log_signer.log


def test_a_turn_in_no_history_that_both_keys_signed_is_not_followed() -> None:
    world = Turning.turned()
    proof, log = proof_of(world), world.signer.verifier
    note = Note.parse(proof.checkpoint)
    for lines in (note.signatures[:1], note.signatures[1:]):
        alone = replace(proof, checkpoint=Note(note.text, lines).encode())
        with pytest.raises(TurnError, match="in no history that both of its keys signed"):
            alone.follow(log)
        with without(checks.TURN_SIGNED_THERE):
            assert alone.follow(log) == world.log_signer.log
    later = replace(proof, checkpoint=world.checkpoint())
    both = replace(world.log_signer, log=replace(world.log_signer.log, turns=(replace(proof.turn, until=1000),)))
    later = replace(proof, checkpoint=both.note(Checkpoint(ORIGIN, world.size, world.root(world.size))))
    with pytest.raises(TurnError, match="it is of"), without(checks.TURN_SHOWN_IN_ITS_PLACE):
        later.follow(log)
    with without(checks.TURN_SHOWN_IN_ITS_PLACE), without(checks.TURN_SHOWN_IN_ITS_SIZE):
        later.follow(log)


def test_a_turn_is_shown_in_its_place() -> None:
    world = Turning.turned(root=bytes(32))
    turn = world.messages[world.at(Rotation)]
    assert isinstance(turn, Rotation)
    proof = replace(proof_of(world), turn=turn)
    with pytest.raises(TurnError, match="another root stands before the entry"):
        proof.follow(world.signer.verifier)
    with without(checks.TURN_SHOWN_IN_ITS_PLACE):
        proof.follow(world.signer.verifier)
    with pytest.raises(TurnError):
        replace(proof_of(Turning.turned()), path=()).follow(world.signer.verifier)


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()
