# SPDX-License-Identifier: GPL-3.0-or-later
"""An account whose log turns its key: it asks once, keeps the turn, and is led astray by nobody.  SPEC G.6.13."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client.__main__ import main
from ragseal.client.account import TURNS_FILE
from ragseal.kernel.errors import LedgerError
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import Note, NoteSigner
from ragseal.ledger.turns import LogKey, TurnProof
from tests.client.small_provider import ORIGIN


def second() -> NoteSigner:
    return NoteSigner(ORIGIN, Ed25519PrivateKey.from_private_bytes(b"n" * 32))


def third() -> NoteSigner:
    return NoteSigner(ORIGIN, Ed25519PrivateKey.from_private_bytes(b"o" * 32))


def test_an_account_goes_on_across_turns_and_asks_once(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.log.rotate(second())
    assert client.ask("csv").record.signed.request.ctr == 2
    bench.provider.log.rotate(third())
    assert client.ask("json").record.signed.request.ctr == 3
    asked = bench.provider.calls.count("rotations")
    assert asked == 2
    client = bench.client()
    client.ask("csv")
    assert bench.provider.calls.count("rotations") == asked, "what it learnt is kept"
    assert client.state.log_key() == bench.provider.log.verifier
    assert client.state.pin_log(bench.provider.log_signer.verifier.vkey()) == bench.provider.log.verifier


def test_in_the_overlap_an_account_goes_on_without_asking(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.log.rotate(second(), overlap=100)
    client.ask("csv")
    assert "rotations" not in bench.provider.calls
    assert not (bench.state / TURNS_FILE).exists()


def test_a_note_whose_new_line_was_taken_away_does_not_lock_the_account_out(bench: Any) -> None:
    """It is remembered under the old key; once the turn is learnt it is void, and compared all the same."""
    client = bench.client()
    client.ask("json")
    turn = bench.provider.log.rotate(second(), overlap=1)
    real = bench.provider.checkpoint
    bench.provider.checkpoint = lambda: _stripped(real())
    client.ask("csv")
    bench.provider.checkpoint = real
    client.ask("json")
    assert isinstance(client.state.log_key(), LogKey)
    stripped = _stripped(bench.provider.log.checkpoint_at(turn.until))
    client.state.remember_checkpoint(stripped)
    client = bench.client()
    assert client.state.checkpoint().void
    client.ask("csv")
    assert not client.state.checkpoint().void


def _stripped(note: bytes) -> bytes:
    parsed = Note.parse(note)
    return Note(parsed.text, parsed.signatures[:1]).encode()


def test_a_log_that_shows_no_turn_is_refused(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.log.rotate(second())
    bench.provider.rotations = list
    with pytest.raises(LedgerError, match="no signature by a known key"):
        client.ask("csv")
    assert client.state.log_key() == bench.provider.log_signer.verifier


def test_a_thief_of_the_old_key_leads_nobody_astray_who_knows_the_turn(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.log.rotate(second())
    client.ask("csv")
    log = bench.provider.log
    root = MerkleTree(log.entries(0, log.size)).root()
    bench.provider.checkpoint = lambda: Checkpoint(ORIGIN, log.size, root).sign(bench.provider.log_signer)
    with pytest.raises(LedgerError, match="no signature by a known key"):
        client._history.latest(client._evidence(None))


def test_a_fork_that_a_thief_showed_does_not_lock_the_account_out(bench: Any, tmp_path: Path) -> None:
    """Once the turn is known what was remembered is void: the honest log need not continue it."""
    client = bench.client()
    client.ask("json")
    bench.provider.log.rotate(second())
    client.ask("csv")
    size = bench.provider.log.size
    for length in (size, size + 50):
        client.state.remember_checkpoint(Checkpoint(ORIGIN, length, bytes(32)).sign(bench.provider.log_signer))
        assert client.state.checkpoint().void
        client.ask("json")
        assert not client.state.checkpoint().void


def test_two_turns_of_one_key_are_refused_with_both_kept(bench: Any, tmp_path: Path) -> None:
    client = bench.client()
    client.ask("json")
    log = bench.provider.log
    log.rotate(second())
    client.ask("csv")
    other = type(log).create(tmp_path / "fork", bench.provider.log_signer)
    turned = LogKey.of(log.verifier).turns[0].index
    other.append_now([lambda index, entry=entry: entry for entry in log.entries(0, turned)])
    other.rotate(third())
    other.append_now([lambda index: b"behind the turn"])
    bench.provider.checkpoint = other.checkpoint
    bench.provider.rotations = lambda: [proof.encode() for proof in other.turns()]
    with pytest.raises(LedgerError, match="has signed two different turns"):
        client._history.latest(client._evidence(None))
    other.close()


def test_receipts_from_both_sides_of_a_turn_are_checked_offline(bench: Any, tmp_path: Path) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.log.rotate(second())
    client.ask("csv")
    vkey = bench.provider.log_signer.verifier.vkey()
    client.close()
    out = tmp_path / "receipts"
    assert (
        CliRunner().invoke(main, ["receipts", "export", "--state", str(bench.state), "--out", str(out)]).exit_code == 0
    )
    found = sorted(out.glob("*.receipt"))
    assert len(found) == 2
    assert [TurnProof.decode(path.read_bytes()) for path in out.glob("*.turn-proof")] == bench.provider.log.turns()
    for file in found:
        for where in (["--log-key", vkey], ["--state", str(bench.state)]):
            done = CliRunner().invoke(main, ["receipts", "check", str(file), *where])
            assert done.exit_code == 0, done.output
    (out / TURNS_FILE).unlink()
    results = [CliRunner().invoke(main, ["receipts", "check", str(file), "--log-key", vkey]) for file in found]
    assert sorted(result.exit_code for result in results) == [0, 1]
    note = bench.provider.log.checkpoint()
    assert open_checkpoint(note, LogKey.of(bench.provider.log.verifier)).checkpoint.size == bench.provider.log.size
