# SPDX-License-Identifier: GPL-3.0-or-later
"""An account that asks for a quorum of witnesses sends nothing under a window that they were not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client import history
from ragseal.client.__main__ import main
from ragseal.kernel.errors import ConfigurationError, LedgerError, TransportError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner
from ragseal.ledger.policy import Policy

QUESTION = "bicycle repair"
KEYS = [
    NoteSigner(f"w{n}.example", Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32), COSIGNATURE) for n in (1, 2, 3)
]
LINES = "\n".join(f"witness w{n} {key.verifier.vkey()}" for n, key in enumerate(KEYS))
POLICY = Policy.parse(f"{LINES}\ngroup g 2 w0 w1 w2\nquorum g\n".encode())


def cosigned(note: bytes, *keys: NoteSigner) -> bytes:
    found = Note.parse(note)
    return found.with_signatures(key.sign(found.text, 1000) for key in keys).encode()


def newest(bench: Any) -> bytes:
    return bytes(bench.provider.log.checkpoint())


def opened_at(bench: Any) -> int:
    return int(bench.provider.log.size - 1)  # the window's opening is the newest entry


def asked(bench: Any) -> bool:
    """Whether anything went out under the window but the ask for one's own line."""
    return "prepare" in bench.provider.calls


def test_a_quorum_over_the_opening_lets_an_account_ask(bench: Any) -> None:
    bench.provider.witnessed = cosigned(newest(bench), *KEYS[:2])
    assert bench.client(witness_policy=POLICY).ask(QUESTION).checked
    calls = bench.provider.calls.count("cosigned")
    bench.provider.witnessed = None
    assert bench.client(witness_policy=POLICY).ask(QUESTION).checked  # the note is kept with the window
    assert bench.provider.calls.count("cosigned") == calls


@pytest.mark.parametrize("signers", [(), (0,), (0, 0)])
def test_without_a_quorum_nothing_is_sent(bench: Any, signers: tuple[int, ...]) -> None:
    bench.provider.witnessed = cosigned(newest(bench), *(KEYS[n] for n in signers))
    with pytest.raises(TransportError, match=r"not the quorum 'g' .*ask again in a minute"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    assert not asked(bench)
    assert bench.evidence() == []  # witnesses that are late are no lie
    bench.provider.witnessed = None
    with pytest.raises(TransportError, match="no witness has cosigned"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    bench.provider.witnessed = cosigned(newest(bench), *KEYS)
    assert bench.client(witness_policy=POLICY).ask(QUESTION).checked


def test_a_client_can_be_put_under_a_policy_later(bench: Any) -> None:
    """As an adapter does it: the window at hand is judged again, and nobody takes the policy away."""
    client = bench.client()
    assert client.ask(QUESTION).checked
    client.require_witnesses(POLICY)
    sent = bench.provider.calls.count("prepare")
    with pytest.raises(TransportError, match="no witness has cosigned"):
        client.ask(QUESTION)
    assert bench.provider.calls.count("prepare") == sent
    stranger = NoteSigner("other.example/log", Ed25519PrivateKey.from_private_bytes(b"s" * 32)).verifier.vkey()
    for other, words in (
        (Policy.parse(b"quorum none\n"), "one client for each witness policy"),
        (Policy.parse(f"log {stranger}\nquorum none\n".encode()), "is not for the log"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            client.require_witnesses(other)
    bench.provider.witnessed = cosigned(newest(bench), *KEYS[:2])
    client.require_witnesses(POLICY)
    assert client.ask(QUESTION).checked
    client.close()
    with pytest.raises(ConfigurationError, match="closed"):
        client.require_witnesses(POLICY)


def test_a_quorum_over_what_came_before_the_opening_is_not_enough(bench: Any) -> None:
    before = bench.provider.log.checkpoint_at(opened_at(bench))
    bench.provider.witnessed = cosigned(before, *KEYS)
    with pytest.raises(TransportError, match=f"cosigned {opened_at(bench)} entries, the window opens with entry"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    assert not asked(bench)


def split_view(bench: Any, size: int) -> bytes:
    """What witnesses were shown of a log that this account was not: another first entry, signed by the same key."""
    entries = bench.provider.log.entries(0, bench.provider.log.size)
    other = [b"another beginning", *entries[1:], *[b"more"] * 9][:size]
    return Checkpoint(bench.provider.log.origin, size, MerkleTree(other).root()).sign(bench.provider.log_signer)


@pytest.mark.parametrize("more", [0, 3])
def test_a_split_view_is_refused_with_both_notes_kept(bench: Any, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.provider.witnessed = cosigned(split_view(bench, bench.provider.log.size + more), *KEYS)
    if more:  # the ledger goes along with the lie and gives a path, which fits nothing
        consistency = bench.provider.consistency
        monkeypatch.setattr(
            bench.provider, "consistency", lambda old, new: consistency(old, min(new, old)) or [bytes(32)]
        )
    with pytest.raises(LedgerError, match="contradicts the one this account remembers"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    assert not asked(bench)
    names = {path.name[3:] for path in bench.evidence()[0].iterdir()}
    assert {"received-cosigned.bin", "remembered-checkpoint.bin"} <= names
    monkeypatch.setattr(history, "verify_consistency", lambda *_: None)  # without the check the account would ask
    assert bench.client(witness_policy=POLICY).ask(QUESTION).checked


def test_a_spoiled_line_of_a_witness_is_refused(bench: Any) -> None:
    spoiled = KEYS[0].sign("another text\n", 1000)
    bench.provider.witnessed = Note.parse(cosigned(newest(bench), *KEYS[1:])).with_signatures([spoiled]).encode()
    with pytest.raises(LedgerError, match="does not verify"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    assert not asked(bench)


def test_another_policy_asks_anew(bench: Any) -> None:
    bench.provider.witnessed = cosigned(newest(bench), *KEYS[:2])
    bench.client(witness_policy=POLICY).ask(QUESTION)
    stricter = Policy.parse(f"{LINES}\ngroup g all w0 w1 w2\nquorum g\n".encode())
    with pytest.raises(TransportError, match="not the quorum"):
        bench.client(witness_policy=stricter).ask(QUESTION)
    assert bench.client().ask(QUESTION).checked  # without a policy, as ever


def test_a_policy_file(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "policy"
    path.write_text(f"log {KEYS[0].verifier.vkey()}\n")
    with pytest.raises(ConfigurationError, match="line 1: a log's key"):
        bench.client(witness_policy=path)
    other = NoteSigner("other.example", KEYS[0].private_key)
    path.write_text(f"log {other.verifier.vkey()}\nquorum none\n")
    with pytest.raises(ConfigurationError, match="is not for the log"):
        bench.client(witness_policy=str(path))
    path.write_text(f"log {bench.provider.log.verifier.vkey()}\nquorum none\n")
    assert bench.client(witness_policy=path).ask(QUESTION).checked
    assert "cosigned" not in bench.provider.calls
    assert "--witness-policy" in CliRunner().invoke(main, ["ask", "--help"]).output
