# SPDX-License-Identifier: GPL-3.0-or-later
"""The cosigning rule: growth only, memory before signature, evidence that convicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.ledger import witness as witness_module
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.witness import ForkError, UnprovenError, Witness

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
KEY = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x02"), COSIGNATURE)
TREE = MerkleTree([f"entry {i}".encode() for i in range(12)])
OTHER = MerkleTree([f"other {i}".encode() for i in range(12)])


def note(size: int, tree: MerkleTree = TREE) -> bytes:
    return Checkpoint(LOG.name, size, tree.root(size)).sign(LOG)


def test_growth_is_cosigned_and_survives_a_restart(tmp_path: Path) -> None:
    witness = Witness(tmp_path, KEY)
    first = witness.cosign(note(5), LOG.verifier, [], 100)
    assert KEY.verifier.verify(Checkpoint(LOG.name, 5, TREE.root(5)).text(), first) == 100
    witness.close()
    witness = Witness(tmp_path, KEY)
    witness.cosign(note(5), LOG.verifier, [], 101)
    witness.cosign(note(9), LOG.verifier, TREE.consistency(5, 9), 102)
    remembered = witness.remembered(LOG.verifier)
    assert remembered is not None
    assert (remembered.checkpoint.size, remembered.witnesses[0].time) == (9, 102)


def test_an_empty_log_may_grow(tmp_path: Path) -> None:
    witness = Witness(tmp_path, KEY)
    witness.cosign(note(0), LOG.verifier, [], 100)
    with pytest.raises(LedgerError, match="nothing to prove"):
        witness.cosign(note(3), LOG.verifier, [bytes(32)], 101)
    witness.cosign(note(3), LOG.verifier, [], 101)


def test_two_roots_of_one_size_are_refused_with_evidence(tmp_path: Path) -> None:
    witness = Witness(tmp_path, KEY)
    witness.cosign(note(5), LOG.verifier, [], 100)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ForkError) as caught:
        witness.cosign(note(5, OTHER), LOG.verifier, [], 101)
    evidence = caught.value.evidence
    assert (evidence.kind, evidence.newer) == ("fork", note(5, OTHER))
    older = open_checkpoint(evidence.older, LOG.verifier, [KEY.verifier])
    assert (older.checkpoint.size, len(older.witnesses)) == (5, 1)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("newer", "path"),
    [
        (note(4), []),
        (note(0), []),
        (note(9, OTHER), OTHER.consistency(5, 9)),
        (note(9), []),
        (note(9), TREE.consistency(4, 9)),
    ],
)
def test_what_is_not_proven_to_continue_is_not_cosigned(tmp_path: Path, newer: bytes, path: list[bytes]) -> None:
    """A replayed note or a spoiled path convicts nobody: no signature, no evidence, nothing forgotten."""
    witness = Witness(tmp_path, KEY)
    witness.cosign(note(5), LOG.verifier, [], 100)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(UnprovenError):
        witness.cosign(newer, LOG.verifier, path, 101)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_no_signature_leaves_before_memory_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Witness(tmp_path, KEY)

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(witness_module, "write_durably", broken)
    with pytest.raises(LedgerError, match="nothing was cosigned"):
        witness.cosign(note(5), LOG.verifier, [], 100)


def test_what_is_not_the_logs_is_refused(tmp_path: Path) -> None:
    witness = Witness(tmp_path, KEY)
    stranger = NoteSigner(LOG.name, Ed25519PrivateKey.from_private_bytes(bytes(32)))
    with pytest.raises(LedgerError, match="no signature by a known key"):
        witness.cosign(Checkpoint(LOG.name, 5, TREE.root(5)).sign(stranger), LOG.verifier, [], 100)
    with pytest.raises(LedgerError, match="nothing is remembered"):
        witness.cosign(note(5), LOG.verifier, [bytes(32)], 100)
    witness.cosign(note(5), LOG.verifier, [], 100)
    with pytest.raises(LedgerError, match="clock"):
        witness.cosign(note(5), LOG.verifier, [], 99)


def test_memory_is_this_witnesss_own(tmp_path: Path) -> None:
    witness = Witness(tmp_path, KEY)
    witness.cosign(note(5), LOG.verifier, [], 100)
    with pytest.raises(LedgerError, match="in use"):
        Witness(tmp_path, KEY)
    witness.close()
    state = next(tmp_path.glob("*.note"))
    state.write_bytes(note(3))  # a valid note of the log, but never cosigned: somebody wants the witness to forget
    with pytest.raises(LedgerError, match="not written by this witness"):
        Witness(tmp_path, KEY).remembered(LOG.verifier)
    with pytest.raises(ConfigurationError, match="0x04"):
        Witness(tmp_path / "x", LOG)


def test_each_checkpoint_of_one_second_has_its_own_line(tmp_path: Path) -> None:
    witness = Witness(tmp_path, KEY)
    first = witness.cosign(note(5), LOG.verifier, [], 100)
    assert witness.cosign(note(5), LOG.verifier, [], 100) == first
    second = witness.cosign(note(9), LOG.verifier, TREE.consistency(5, 9), 100)
    assert KEY.verifier.verify(Checkpoint(LOG.name, 9, TREE.root(9)).text(), second) == 100
    remembered = witness.remembered(LOG.verifier)
    assert remembered is not None
    assert remembered.checkpoint.size == 9


def test_the_memory_of_one_log_is_not_that_of_another(tmp_path: Path) -> None:
    """The witness did sign it: a rename must not let one log take another one's place."""
    other = NoteSigner("log.example/other", LOG.private_key)
    witness = Witness(tmp_path, KEY)
    witness.cosign(Checkpoint(other.name, 5, TREE.root(5)).sign(other), other.verifier, [], 100)
    (moved,) = tmp_path.glob("*.note")
    moved.rename(tmp_path / f"{witness_module.state_name(LOG.name)}.note")
    with pytest.raises(LedgerError, match=r"is about the log 'log.example/other': it was moved here"):
        witness.remembered(LOG.verifier)
    with pytest.raises(LedgerError, match="it was moved here"):
        witness.cosign(note(5), LOG.verifier, [], 101)


def test_a_fork_counts_also_where_the_key_was_given_up_without_a_turn(tmp_path: Path) -> None:
    """Whoever pins a log's new key alone: no turn says that the old one did not count by then."""
    new = NoteSigner(LOG.name, Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x03"))
    witness = Witness(tmp_path, KEY)
    witness.cosign(note(5), LOG.verifier, [], 100)
    remembered = witness.remembered(new.verifier)
    assert remembered is not None
    assert not remembered.void
    with pytest.raises(ForkError):
        witness.cosign(Checkpoint(LOG.name, 5, OTHER.root(5)).sign(new), new.verifier, [], 101)
