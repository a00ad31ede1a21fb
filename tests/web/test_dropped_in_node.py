# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that a visitor drops on the page: receipts, tlog proofs, signed verdicts; any change of a byte is seen."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.attestation import Receipt
from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.printable import printable
from ragseal.ledger.receipt import InclusionBundle
from ragseal.verifier.report.document import SIGNED_NAME
from tests.simulator import World, asked
from tests.simulator.entries import signed_manifest
from tests.verifier.test_signed_verdict import KEY, LOG, honest, payload, resigned, signed
from tests.web.published import NODE

SCRIPT = Path(__file__).with_name("dropped.mjs")
AUDITOR = KEY.public_key().public_bytes_raw().hex()

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]
_ = honest  # a fixture


def said(files: Sequence[Path], log: str = "-", auditor: str = "-") -> list[tuple[str, str]]:
    """State and text of every line."""
    assert NODE is not None
    command = [NODE, str(SCRIPT), log, auditor, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [(line["state"], line["text"]) for line in json.loads(done.stdout)]


def states(lines: list[tuple[str, str]]) -> set[str]:
    return {state for state, _ in lines}


@pytest.fixture(scope="module")
def world() -> World:
    return World.honest()


@pytest.fixture
def exported(world: World, tmp_path: Path) -> dict[str, Path]:
    """A receipt as `ragseal-client receipts export` writes it."""
    answer = world.answers[1]
    body = answer.receipt.body
    parts = {
        "receipt": answer.receipt.encode(),
        "record": answer.record.encode(),
        "tlog-proof": InclusionBundle(body.index, answer.receipt.path, body.checkpoint).to_text(),
        "manifest": world.messages[0].encode(),
        "answer": answer.encode(),
    }
    out = {name: tmp_path / f"one.{name}" for name in parts}
    for name, data in parts.items():
        out[name].write_bytes(data)
    return out


def test_a_receipt_holds_as_far_as_its_files_go(world: World, exported: dict[str, Path]) -> None:
    key = world.signer.verifier.vkey()
    whole = [exported[name] for name in ("receipt", "record", "tlog-proof", "manifest")]
    assert states(said(whole, key)) == {"good"}
    assert states(said(whole)) == {"good", "open"}  # without the log's key
    for missing in ("record", "manifest"):
        lines = said([path for path in whole if path != exported[missing]], key)
        assert states(lines) <= {"good", "open"}
        assert "open" in states(lines)
    lines = said([exported["answer"], exported["manifest"]], key)
    assert [state for state, _ in lines].count("open") == 1  # slots and texts are the account's to check
    assert states(said([exported["record"]])) == {"open"}


@pytest.mark.parametrize("name", ["receipt", "record", "tlog-proof", "manifest"])
def test_any_other_byte_is_seen(name: str, world: World, exported: dict[str, Path]) -> None:
    key, data = world.signer.verifier.vkey(), exported[name].read_bytes()
    whole = [exported[one] for one in ("receipt", "record", "tlog-proof", "manifest")]
    for at in random.Random(name).sample(range(len(data)), 12):
        exported[name].write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        lines = said(whole, key)
        assert states(lines) != {"good"}, at
        assert "bad" in states(lines) or name == "manifest", (at, lines)  # of another manifest nothing is said


def test_a_receipt_for_another_record(world: World, exported: dict[str, Path]) -> None:
    exported["record"].write_bytes(world.answers[2].record.encode())
    lines = said([exported["receipt"], exported["record"]], world.signer.verifier.vkey())
    assert ("bad", "none of the records that were dropped is the receipt's") in lines
    other = Receipt.decode(exported["receipt"].read_bytes())
    assert other.body.record_digest != world.answers[2].record.digest()


@pytest.mark.parametrize("beside", [False, True])
def test_a_manifest_that_its_provider_did_not_sign_certifies_no_receipt(
    beside: bool, world: World, exported: dict[str, Path]
) -> None:
    """A window's key of the liar's own, in a manifest with the provider's key and another signature."""
    forger = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    one, stated = world.answers[1], world.manifest
    made = replace(stated, window_key=signature.public_bytes(forger))
    forged = SignedManifest(made, signature.sign(forger, "manifest", made.encode()))
    request = replace(one.record.signed.request, manifest=made.digest())
    record = replace(one.record, manifest=made.digest(), signed=replace(one.record.signed, request=request))
    body = replace(
        one.receipt.body, manifest=made.digest(), record_digest=record.digest(), request_digest=request.digest()
    )
    lie = replace(one.receipt, body=body, signature=signature.sign(forger, "receipt", body.encode()))
    for name, data in (("receipt", lie), ("record", record), ("manifest", forged)):
        exported[name].write_bytes(data.encode())
    whole = [exported[name] for name in ("receipt", "record", "manifest")]
    if beside:
        whole.append(exported["manifest"].with_name("true.manifest"))
        whole[-1].write_bytes(signed_manifest(stated, world.provider).encode())
    lines = said(whole)
    assert not any("certifies" in text for _, text in lines), lines
    assert ("open", "the provider's signature: drop the record and the window's .manifest file with it") in lines
    assert [text for state, text in lines if state == "bad"] == ["the manifest signature does not hold"]


def test_a_record_that_nothing_is_about_is_not_passed_over(world: World, exported: dict[str, Path]) -> None:
    """A forged one beside the true one, whose receipt and proof hold."""
    key = world.signer.verifier.vkey()
    forged = exported["record"].with_name("forged.record")
    forged.write_bytes(replace(world.answers[1].record, seq=7).encode())
    whole = [forged, *(exported[name] for name in ("receipt", "record", "tlog-proof", "manifest"))]
    lines = said(whole, key)
    assert [text for state, text in lines if state == "open"] == [
        "a record that no other file here is about: drop its receipt or its .tlog-proof with it"
    ]
    assert states(said([one for one in whole if one != exported["tlog-proof"]], key)) == {"good", "open"}
    assert states(said([one for one in whole if one != exported["receipt"]], key)) == {"good", "open"}
    assert states(said([forged, exported["answer"], exported["manifest"]], key)) == {"good", "open"}


def test_an_answer_with_anothers_receipt(world: World, exported: dict[str, Path]) -> None:
    """Also where the receipt's own record lies beside it."""
    one, other = world.answers[1], world.answers[2]
    exported["answer"].write_bytes(replace(other, receipt=one.receipt, openings=one.openings).encode())
    lines = said([exported["answer"], exported["record"], exported["manifest"]], world.signer.verifier.vkey())
    assert ("bad", "the receipt is for another record than the answer's") in lines


def test_a_verdict_and_whose_it_is(honest: tuple[bytes, bytes], tmp_path: Path) -> None:
    path = tmp_path / SIGNED_NAME
    path.write_bytes(honest[0])
    lines = said([path], LOG.vkey(), AUDITOR)
    assert [state for state, _ in lines] == ["good", "good", "good", "open"]
    assert lines[2][1].startswith("it says: PASS epsilon_audit=")
    assert "good" not in states(said([path]))  # whoever signed it, and whatever log it names
    named = said([path], LOG.vkey())
    assert [state for state, _ in named] == ["open", "good", "open", "open"]
    assert named[2][1].startswith("it says, whoever has signed it: PASS epsilon_audit=")
    assert named[0] == (
        "open",
        f"signed by the auditor key {AUDITOR}: compare it with the key that the auditor published",
    )
    (line,) = said([path], LOG.vkey(), "ab" * 32)
    assert line[0] == "bad"


def other_line(statement: dict[str, dict[str, str]]) -> None:
    statement["predicate"]["line"] = "FAIL"


def test_text_of_others_steers_no_line(tmp_path: Path) -> None:
    """What would turn a line round, hide in it or end it is shown as the Python programs show it.

    A FAIL may quote it; a PASS with it is refused.
    """
    failed = signed(asked(sign_as="mallory").audit())[0]
    odd = "".join(map(chr, [0x202E, 0x200B, 0xAD, 0xA0, 0x85, 0x1B, 9, 10, 13, 0x2028, 0xFEFF, 0xE0001, 0x1F600, 0xE9]))
    path = tmp_path / f"v\u202e.{SIGNED_NAME}"
    line = payload(failed)["predicate"]["line"]
    quoted = line.replace(" window=", f" {odd} window=")
    path.write_bytes(resigned(failed, lambda s: s["predicate"].update(line=quoted)))
    shown = line.replace(" window=", f" {printable(odd)} window=")
    assert shown in [text.removeprefix("it says: ") for _, text in said([path], LOG.vkey(), AUDITOR)]
    assert NODE is not None
    command = [NODE, str(SCRIPT), LOG.vkey(), AUDITOR, str(path)]
    steps = {line["step"] for line in json.loads(subprocess.run(command, capture_output=True, check=True).stdout)}
    assert steps == {f"v\\u202e.{SIGNED_NAME}"}


def other_subject(statement: dict[str, object]) -> None:
    statement["subject"] = [{"name": "log", "digest": {"sha256": "0" * 64}}]


@pytest.mark.parametrize(
    ("change", "match"), [(other_line, "contradict each other"), (other_subject, "not a subject of the statement")]
)
def test_a_verdict_that_contradicts_itself(
    honest: tuple[bytes, bytes], tmp_path: Path, change: Callable[[object], None], match: str
) -> None:
    """The auditor signed it, as it stands."""
    path = tmp_path / SIGNED_NAME
    path.write_bytes(resigned(honest[0], change))
    assert any(state == "bad" and match in text for state, text in said([path], LOG.vkey(), AUDITOR))


def test_what_a_verdict_says_cannot_be_another(honest: tuple[bytes, bytes], tmp_path: Path) -> None:
    path, data = tmp_path / SIGNED_NAME, honest[0]
    start = data.index(b'"payload": "') + 12
    for at in range(start, start + 400, 40):
        other = b"A" if data[at : at + 1] != b"A" else b"B"
        path.write_bytes(data[:at] + other + data[at + 1 :])
        assert said([path], LOG.vkey(), AUDITOR)[0][0] == "bad"


@pytest.mark.parametrize(
    "given", [[None], [{}], [{"keyid": 3, "sig": None}], [{"keyid": {"toString": 0}, "sig": "AA=="}], []]
)
def test_an_envelope_without_proper_signatures(
    given: list[object], honest: tuple[bytes, bytes], tmp_path: Path
) -> None:
    path = tmp_path / SIGNED_NAME
    path.write_text(json.dumps({**json.loads(honest[0]), "signatures": given}))
    assert states(said([path])) == states(said([path], LOG.vkey(), AUDITOR)) == {"bad"}


def test_envelopes_of_many_signatures_are_not_tried_forever(honest: tuple[bytes, bytes], tmp_path: Path) -> None:
    path = tmp_path / SIGNED_NAME
    (own,) = json.loads(honest[0])["signatures"]
    stranger = {**own, "keyid": "ab" * 32}
    for count, state in ((63, "open"), (64, "bad")):
        path.write_text(json.dumps({**json.loads(honest[0]), "signatures": [stranger] * count + [own]}))
        assert said([path])[0][0] == state


@pytest.mark.parametrize("key", ["ab", "AB" * 32, "zz" * 32, "ab" * 33])
def test_what_is_no_auditors_key(key: str, honest: tuple[bytes, bytes], tmp_path: Path) -> None:
    path = tmp_path / SIGNED_NAME
    path.write_bytes(honest[0])
    assert said([path], LOG.vkey(), key) == [("bad", "the auditor's key is 64 hexadecimal digits, in lower case")]


@pytest.mark.parametrize("data", [b"", b"{", b"not ragseal's", b"\x06policy\x00\x01", bytes(40)])
def test_what_is_nothing_of_this(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert states(said([path])) == {"bad"}
