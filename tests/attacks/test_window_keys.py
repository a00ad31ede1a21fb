# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of a window signs that window's words, and nobody else's key does.  SPEC A.1.4, B.4.8, D.7.

Whoever steals the key of an old window can lie about that window only; the provider itself cannot get rid of what it
signed by keeping a window beside the log.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client import attestation as client
from ragseal.kernel import signature
from ragseal.kernel.attestation import ReceiptBody
from ragseal.kernel.commitment import SignedManifest, WindowClose
from ragseal.kernel.errors import AttestationError
from ragseal.verifier.audit.audit import read_receipts
from ragseal.verifier.evidence.evidence import ReceiptFile
from ragseal.verifier.steps import receipts as step
from tests.attacks.checks import without
from tests.attacks.removal import Check, Guard
from tests.simulator import CLOSES, NOW, World, policy
from tests.simulator.entries import signed_manifest
from tests.simulator.turning import Turning
from tests.simulator.world import key_of

ANY_KEY = Check(step._Signers, "signed", lambda _, file: True)
OF_THIS_WINDOW = Check(step.Promise, "elsewhere", lambda _, digest: False)
OF_ITS_WINDOW = Guard(step, "_promised", "a window different from its record's")
BY_A_PROVIDER = Check(step, "_provider", lambda manifest: None)


def signed_by(file: ReceiptFile, key: Ed25519PrivateKey, **changes: object) -> ReceiptFile:
    """The receipt with another body, signed by a key; without its answer."""
    body: ReceiptBody = replace(file.receipt.body, **changes)  # type: ignore[arg-type]
    made = replace(file.receipt, body=body, signature=signature.sign(key, "receipt", body.encode()))
    return replace(file, receipt=made, answer=None)


def two_windows() -> tuple[World, World]:
    """w2 without records behind w1 with seven, each with a key of its own; and the same log as w1's provider has it."""
    first = World.honest()
    world = copy.copy(first)
    world.estimator = replace(first.estimator, world=world)
    world.window_key = key_of("window of w2")
    world.enter_manifest("w2", policy_=policy(opens=CLOSES, closes=CLOSES + 3600))
    world.enter_beacon()
    world.messages[-1] = replace(world.messages[-1], time=CLOSES + 60)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, CLOSES + 3000))
    return world, first


@pytest.mark.parametrize("thief", ["provider", "window of w2", "stranger"])
def test_no_other_key_says_anything_of_a_window(thief: str) -> None:
    """A lie about w1 by the key of another window, or by the provider's own, which signs manifests only."""
    _, first = two_windows()
    lie = signed_by(first.receipts()[0], key_of(thief), record_digest=bytes(32))
    told = first.audit(window="w1", receipts=[lie], now=NOW + 7200)
    assert told.verdict == "PASS", told.line()
    assert [one.why for one in told.set_aside] == ["no provider of this log signed it"]
    with without(ANY_KEY):
        assert first.audit(window="w1", receipts=[lie], now=NOW + 7200).verdict == "FAIL", "it saves the window"


def test_the_windows_own_key_is_the_providers_word() -> None:
    _, first = two_windows()
    lie = signed_by(first.receipts()[0], key_of("window"), record_digest=bytes(32))
    told = first.audit(window="w1", receipts=[lie], now=NOW + 7200)
    assert told.verdict == "FAIL"
    assert "is not the record that was promised" in told.line()


def test_whoever_has_the_key_of_an_old_window_convicts_no_other() -> None:
    """Its lies about w1 are named in the audit of w2, for whoever audits w1, and decide nothing there."""
    world, _ = two_windows()
    lie = signed_by(world.receipts()[0], key_of("window"), record_digest=bytes(32))
    told = world.audit(window="w2", receipts=[lie, *world.receipts()[1:]], now=NOW + 7200)
    assert told.verdict == "PASS", told.line()
    [aside] = told.set_aside
    assert "about window 'w1', which this audit is not of, and does not hold" in aside.why
    with without(OF_THIS_WINDOW):
        assert world.audit(window="w2", receipts=[lie], now=NOW + 7200).verdict == "FAIL"


def test_an_old_windows_key_and_an_old_log_key_convict_no_other_window() -> None:
    """With both a thief signs a body of that window around a note of his own; in its own audit that counts."""
    world = Turning.turned()
    [own, *_] = world.receipts()
    file = signed_by(own, world.window_key, checkpoint=note_beside())
    assert world.audit(receipts=[file]).verdict == "FAIL"
    first = world.manifest.window
    world.window_key = key_of("window of w2")
    world.enter_manifest("w2", policy_=policy(opens=CLOSES, closes=CLOSES + 3600))
    world.enter_beacon()
    world.messages[-1] = replace(world.messages[-1], time=CLOSES + 60)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, CLOSES + 3000))
    told = world.audit(window="w2", receipts=[file], now=NOW + 7200)
    assert told.verdict == "PASS", told.line()
    assert f"about window {first!r}" in told.set_aside[0].why
    with without(OF_THIS_WINDOW):
        assert world.audit(window="w2", receipts=[file], now=NOW + 7200).verdict == "FAIL"


def test_a_receipt_of_one_window_for_a_record_of_another() -> None:
    """The provider signs it as a receipt of w2, so that nobody compares it with those of w1."""
    world, _ = two_windows()
    lie = signed_by(world.receipts()[0], world.window_key, manifest=world.digest)
    told = world.audit(receipts=[lie], now=NOW + 7200)
    assert told.verdict == "FAIL"
    assert "a window different from its record's" in told.line()
    with without(OF_ITS_WINDOW):
        assert world.audit(receipts=[lie], now=NOW + 7200).verdict == "PASS"


def test_a_client_takes_no_receipt_by_another_key() -> None:
    world = World.honest()
    answer, log = world.answers[0], world.signer.verifier
    digest = answer.openings.digest()
    client.check_receipt(world.manifest, log, answer.record, digest, answer.receipt)
    body = answer.receipt.body
    for key in (world.provider, key_of("window of w2")):
        other = replace(answer.receipt, signature=signature.sign(key, "receipt", body.encode()))
        with pytest.raises(AttestationError, match="not signed by the window key"):
            client.check_receipt(world.manifest, log, answer.record, digest, other)
    elsewhere = replace(body, manifest=bytes(32))
    other = replace(
        answer.receipt, body=elsewhere, signature=signature.sign(key_of("window"), "receipt", elsewhere.encode())
    )
    with pytest.raises(AttestationError, match="of another window"):
        client.check_receipt(world.manifest, log, answer.record, digest, other)


def test_a_seal_by_the_providers_own_key_is_none() -> None:
    world = World()
    world.enter_manifest()
    world.window_key, real = world.provider, world.window_key
    world.enter_beacon()
    world.window_key = real
    world.close()
    told = world.audit()
    assert told.verdict == "FAIL", told.line()
    assert "the beacon-seal signature does not hold" in told.line()


def note_beside() -> bytes:
    """A note that the first key alone signed behind the log's turn."""
    fork = Turning()
    fork.commit()
    for account in ("alice", "bob", "carol", "alice", "bob"):
        fork.ask(account)
    return fork.receipts()[-1].receipt.body.checkpoint


# --- a window that is kept beside the log ----------------------------------------------------------------------------


def beside_the_log(signer: Ed25519PrivateKey) -> tuple[Turning, list[ReceiptFile]]:
    """A log that has turned, and answers of a window that it does not hold, under notes of the old key alone.

    Args:
        signer: of that window's manifest.
    """
    world, fork = Turning.turned(), Turning()
    fork.window_key = key_of("window beside the log")
    fork.commit()
    for account in ("alice", "bob", "carol", "alice", "bob"):
        fork.ask(account)
    shown: SignedManifest = signed_manifest(fork.manifest, signer)
    return world, [replace(file, manifests={fork.digest: shown}) for file in fork.receipts()[3:]]


def test_answers_of_a_window_beside_the_log_convict_its_provider() -> None:
    world, files = beside_the_log(key_of("provider"))
    told = world.audit(receipts=files)
    assert told.verdict == "FAIL", told.line()
    assert "its answer is in no log that others see" in told.line()
    with without(Check(step._Signers, "_certified", lambda _, file, named: bytes(32))):
        assert world.audit(receipts=files).verdict == "PASS"
    alone = world.audit(receipts=[replace(file, manifests={}) for file in files])
    assert alone.verdict == "PASS", "without the manifest nothing says whose key that is"


def test_a_manifest_that_a_stranger_signed_certifies_nothing() -> None:
    """It names the provider's key, or the stranger's own; neither makes its window the provider's."""
    world, files = beside_the_log(key_of("stranger"))
    assert world.audit(receipts=files).verdict == "PASS"
    with without(Check(SignedManifest, "verify")):
        assert world.audit(receipts=files).verdict == "FAIL"
    [shown] = files[0].manifests.values()
    own = replace(shown.manifest, provider_key=signature.public_bytes(key_of("stranger")))
    made = signed_manifest(own, key_of("stranger"))
    lies = [signed_by(file, key_of("window beside the log"), manifest=own.digest()) for file in files]
    lies = [replace(file, manifests={own.digest(): made}) for file in lies]
    assert world.audit(receipts=lies).verdict == "PASS"
    with without(BY_A_PROVIDER):
        assert world.audit(receipts=lies).verdict == "FAIL"


def test_a_manifest_is_read_beside_its_receipt_and_what_is_none_is_not(tmp_path: Path) -> None:
    world = World.honest()
    shown = signed_manifest(world.manifest, world.provider)
    (tmp_path / "w1.manifest").write_bytes(shown.encode())
    (tmp_path / "a.manifest").write_bytes(b"no manifest")
    (tmp_path / "one.receipt").write_bytes(world.answers[0].receipt.encode())
    [file], aside = read_receipts(tmp_path)
    assert (dict(file.manifests), aside) == ({world.digest: shown}, [])
