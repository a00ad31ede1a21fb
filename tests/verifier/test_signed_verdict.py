# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict that is handed on: whose it is, what it is about, and that no byte of it can be another.  SPEC D.18."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from ragseal.kernel.errors import AttestationError, AuditError, ConfigurationError, EncodingError
from ragseal.verifier.__main__ import main
from ragseal.verifier.base.named_key import named_key
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document
from ragseal.verifier.signed import envelope
from ragseal.verifier.signed.entering import Issued, reports_of
from ragseal.verifier.signed.log import entry_of
from ragseal.verifier.signed.statement import PAYLOAD_TYPE, read_verdict, signed_verdict
from ragseal.verifier.steps.sample import Sample, confidence_of
from tests.simulator import World, asked

KEY = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
PUBLIC = KEY.public_key().public_bytes_raw()
NOW = 1_750_000_000
LOG = World.honest().signer.verifier


def issued(verdict: Verdict) -> Issued:
    """A signed verdict with both reports that it names."""
    values = document.build(replace(verdict, auditor=PUBLIC, at=NOW))
    reports = reports_of(values)
    return Issued(signed_verdict(verdict, values, reports, LOG, KEY), values, reports)


def signed(verdict: Verdict) -> tuple[bytes, bytes]:
    """A verdict's envelope and report.json."""
    made = issued(verdict)
    return made.signed, made.reports["report.json"]


@pytest.fixture(scope="module")
def honest() -> tuple[bytes, bytes]:
    return signed(World.honest().audit())


def payload(data: bytes) -> Any:
    return json.loads(base64.b64decode(json.loads(data)["payload"]))


def resigned(data: bytes, change: Callable[[Any], object]) -> bytes:
    """The auditor itself signs something else."""
    said = payload(data)
    change(said)
    return envelope.seal(PAYLOAD_TYPE, json.dumps(said).encode(), KEY)


def test_it_says_what_the_report_says(honest: tuple[bytes, bytes]) -> None:
    data, report = honest
    found, values = read_verdict(data, PUBLIC, {"report.json": report}), json.loads(report)
    assert found.line == values["line"]
    assert found.verdict == values["verdict"] == "PASS"
    for ours, its in (("epsilon", "epsilon_audit"), ("delta", "delta"), ("doesNotSay", "does_not_say")):
        assert found.predicate[ours] == values[its]
    assert values["manifest"] in found.subjects.values()
    assert found.predicate["circuit"]["class"] == values["policy"]["class_name"]
    assert found.predicate["issued"] == "2025-06-15T15:06:40Z"
    assert [step["number"] for step in found.predicate["steps"]] == list(range(1, 12))
    assert all("evidence" not in step for step in found.predicate["steps"])
    assert found.predicate["program"]["with"]["cryptography"]


def test_a_fail_and_a_no_verdict_are_signed_too() -> None:
    failed = read_verdict(signed(asked(sign_as="mallory").audit())[0], PUBLIC)
    assert failed.verdict == "FAIL"
    assert failed.predicate["epsilon"] is None
    assert failed.predicate["ending"]["step"] == 6
    world = World.honest()
    world.made_by = "provider"
    nothing = read_verdict(signed(world.audit())[0], PUBLIC)
    assert nothing.verdict == "NO VERDICT"
    assert nothing.predicate["epsilon"] is None
    assert nothing.predicate["ending"]["wayOut"]


def test_an_audit_that_found_nothing_names_the_log_alone() -> None:
    verdict = Verdict(origin=LOG.name)
    found = read_verdict(signed(verdict)[0], PUBLIC)
    assert list(found.subjects) == [f"key of log {LOG.name}"]


def test_a_tool_that_is_not_ours_verifies_it(honest: tuple[bytes, bytes]) -> None:
    """securesystemslib, the library of in-toto and TUF."""
    found = Envelope.from_dict(json.loads(honest[0]))
    key = SSlibKey(PUBLIC.hex(), "ed25519", "ed25519", {"public": PUBLIC.hex()})
    assert found.verify([key], 1)
    assert found.payload_type == PAYLOAD_TYPE
    found.payload = found.payload.replace(b"PASS", b"FAIL")
    with pytest.raises(VerificationError):
        found.verify([key], 1)


def test_no_byte_can_be_another(honest: tuple[bytes, bytes]) -> None:
    data, report = honest
    line = json.loads(data)
    for name in ("payload", "payloadType"):
        for at in range(0, len(line[name]) - 4, max(1, len(line[name]) // 40)):
            changed = line[name][:at] + ("A" if line[name][at] != "A" else "B") + line[name][at + 1 :]
            with pytest.raises(AuditError):
                read_verdict(json.dumps({**line, name: changed}).encode(), PUBLIC)
    with pytest.raises(AttestationError, match="not the one"):
        read_verdict(data, PUBLIC, {"report.json": report.replace(b"PASS", b"FAIL")})


def test_another_auditors_is_refused(honest: tuple[bytes, bytes]) -> None:
    other = Ed25519PrivateKey.from_private_bytes(b"b" * 32)
    with pytest.raises(AttestationError, match="no signature"):
        read_verdict(honest[0], other.public_key().public_bytes_raw())
    line = json.loads(honest[0])
    line["signatures"][0]["keyid"] = other.public_key().public_bytes_raw().hex()  # a hint, and no more
    assert read_verdict(json.dumps(line).encode(), PUBLIC).verdict == "PASS"
    with pytest.raises(AttestationError, match="no signature"):
        read_verdict(json.dumps(line).encode(), other.public_key().public_bytes_raw())


def test_a_signature_of_another_purpose_is_none() -> None:
    """What the identity signs elsewhere are 32-byte digests."""
    body = b"x" * 32
    line = {"payload": base64.b64encode(body).decode(), "payloadType": PAYLOAD_TYPE}
    line["signatures"] = [{"sig": base64.b64encode(KEY.sign(body)).decode()}]
    with pytest.raises(AttestationError, match="no signature"):
        read_verdict(json.dumps(line).encode(), PUBLIC)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: s.update(extra=1), "no in-toto statement"),
        (lambda s: s.update(predicateType="https://slsa.dev/verification_summary/v1"), "of this version"),
        (lambda s: s["predicate"].update(more=1), "other members"),
        (lambda s: s["predicate"].pop("line"), "other members"),
        (lambda s: s["predicate"].update(records=True), "a different type"),
        (lambda s: s["predicate"]["reports"].pop("report.html"), "does not name the SHA-256"),
        (lambda s: s["predicate"]["reports"].update({"report.html": "00"}), "does not name the SHA-256"),
        (lambda s: s["predicate"]["reports"].update({"report.pdf": {"sha256": "00"}}), "does not name the SHA-256"),
        (lambda s: s["predicate"].update(verdict="FAIL"), "a FAIL claims nothing"),
        (lambda s: s["predicate"].update(verdict="FINE"), "none of the four"),
        (lambda s: s["subject"].clear(), "no subject"),
        (lambda s: s["subject"].pop(), "not what the verdict is about"),
        (lambda s: s["subject"][1]["digest"].update(sha256="00" * 32), "not what the verdict is about"),
        (lambda s: s["predicate"]["log"].update(origin="other.example/log"), "different names"),
        (lambda s: s["predicate"]["log"].update(checkpoint=7), "not text"),
        (lambda s: s["predicate"]["log"].pop("key"), "does not name its log"),
        (lambda s: s["predicate"]["log"].update(
            checkpoint=s["predicate"]["log"]["checkpoint"].replace("\n7\n", "\n8\n", 1) + "x"), "note|checkpoint"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(honest: tuple[bytes, bytes], change: Any, why: str) -> None:
    with pytest.raises(AuditError, match=why):
        read_verdict(resigned(honest[0], change), PUBLIC)


@pytest.fixture(scope="module")
def sampled() -> bytes:
    return signed(World.honest().audit(sample=Sample(3, confidence_of("1-2^-20"))))[0]


def told(of_sample: str, **members: object) -> Callable[[Any], None]:
    """Line and members agree on something else about the sample."""

    def change(said: Any) -> None:
        predicate = said["predicate"]
        predicate.update(members)
        predicate["line"] = re.sub(r"proven=.* confidence=\S+", of_sample, predicate["line"])

    return change


def test_a_signed_sample_says_its_confidence(sampled: bytes) -> None:
    read = read_verdict(sampled, PUBLIC)
    assert read.predicate["confidence"] == "1-2^-20"
    assert " proven=3 beta=0.571429 confidence=1-2^-20 " in read.line
    fewer = told("proven=3 beta=0.714286 confidence=1-2^-20", beta=5 / 7)
    assert read_verdict(resigned(sampled, fewer), PUBLIC), "who claims less than the sample shows is believed"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (told("proven=3 beta=0.142858 confidence=1-2^-20", beta=1 / 7), "claims more than its sample shows"),
        (told("proven=2 beta=0.571429 confidence=1-2^-20", proven=2), "claims more than its sample shows"),
        (told("proven=3 beta=0.571429 confidence=0.99"), "something else of its sample"),
        (told("proven=3 beta=0.5 confidence=1-2^-20"), "something else of its sample"),
        (told("proven=4 beta=0.571429 confidence=1-2^-20"), "something else of its sample"),
        (told("proven=3 beta=0.571429 confidence=1-2^-999", confidence="1-2^-999"), "not a confidence"),
        (told("proven=3 beta=0.571429 confidence=sure", confidence="sure"), "not a confidence"),
        (told("proven=3 beta=0.571429 confidence=1-2^-20", confidence=None), "how many records were proven"),
        (told("proven=3 beta=0.571429 confidence=1-2^-20", records=2), "how many records were proven"),
        (told("proven=3 beta=0.571429 confidence=1-2^-20", records=1 << 60), "how many records were proven"),
        (told("proven=3 beta=-1 confidence=1-2^-20", beta=-1), "how many records were proven"),
        (told("proven=3", beta=None, confidence=None), "how many records were proven"),
    ],
)
def test_no_verdict_claims_more_than_its_sample_shows(sampled: bytes, change: Any, why: str) -> None:
    """The attack: an auditor hands on a higher confidence, or a smaller share, than so few records can give."""
    with pytest.raises(AuditError, match=why):
        read_verdict(resigned(sampled, change), PUBLIC)


def test_a_pass_of_all_records_has_no_confidence(honest: tuple[bytes, bytes]) -> None:
    with pytest.raises(AttestationError, match="no beta and no confidence"):
        read_verdict(resigned(honest[0], lambda s: s["predicate"].update(confidence="0.99")), PUBLIC)


def test_a_key_under_which_anybody_signs_is_refused(honest: tuple[bytes, bytes]) -> None:
    with pytest.raises(EncodingError, match="small order"):
        read_verdict(honest[0], bytes(32))


def _without_manifest(said: Any) -> None:
    said["subject"] = [one for one in said["subject"] if not one["name"].startswith("manifest")]


def _line_without_window(said: Any) -> None:
    _without_manifest(said)
    said["predicate"]["line"] = re.sub(r" window=\S+", "", said["predicate"]["line"])


def _window_in_the_line_alone(said: Any) -> None:
    _without_manifest(said)
    said["predicate"]["window"] = None


#: What contradicts itself in a FAIL about a window, which claims nothing.
OF_A_FAIL: dict[str, tuple[Callable[[Any], object], str]] = {
    "line of a PASS": (
        lambda s: s["predicate"].update(line=s["predicate"]["line"].replace("FAIL ", "PASS ", 1)),
        "its line contradict each other",
    ),
    "word of the provider": (lambda s: s["predicate"].update(providersWord=["late"]), "a FAIL claims nothing"),
    "delta": (lambda s: s["predicate"].update(delta=1e-6), "a FAIL claims nothing"),
    "no manifest": (_line_without_window, "names a window and no manifest of it"),
    "window in the line alone": (_window_in_the_line_alone, "does not end with what it is about"),
}


@pytest.fixture(scope="module")
def failed() -> bytes:
    return signed(asked(sign_as="mallory").audit())[0]


@pytest.mark.parametrize("name", OF_A_FAIL)
def test_a_fail_that_contradicts_itself_is_refused(failed: bytes, name: str) -> None:
    change, why = OF_A_FAIL[name]
    assert read_verdict(failed, PUBLIC).line.startswith("FAIL ")
    with pytest.raises(AuditError, match=why):
        read_verdict(resigned(failed, change), PUBLIC)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"{" * 100_000,
        b'{"payload": 1, "payloadType": 2, "signatures": 3}',
        b"x" * (2**24 + 1),
    ],
)
def test_bytes_that_are_no_envelope(data: bytes) -> None:
    with pytest.raises(EncodingError):
        read_verdict(data, PUBLIC)


def test_an_envelope_without_signatures(honest: tuple[bytes, bytes]) -> None:
    line = json.loads(honest[0])
    for given in ([], [{}], [{"sig": 1}], [{"sig": "!"}], line["signatures"] * 65, {}):
        with pytest.raises(EncodingError):
            read_verdict(json.dumps({**line, "signatures": given}).encode(), PUBLIC)


def test_the_command(tmp_path: Path, honest: tuple[bytes, bytes]) -> None:
    file, report, run = tmp_path / "v.jsonl", tmp_path / "report.json", CliRunner()
    file.write_bytes(honest[0])
    report.write_bytes(honest[1])
    pem = tmp_path / "auditor.pem"
    state = State.create(tmp_path / "auditor", KEY)
    shown = run.invoke(main, ["verdict", "key", "--state", str(state.directory), "--pem"])
    pem.write_text(shown.output)
    for key in (PUBLIC.hex(), str(pem)):
        done = run.invoke(main, ["verdict", "verify", str(file), "--auditor", key, "--report", str(report)])
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines()[-1] == json.loads(honest[1])["line"]
    as_json = run.invoke(main, ["verdict", "verify", str(file), "--auditor", PUBLIC.hex(), "--json"])
    assert json.loads(as_json.stdout)["verdict"] == "PASS"
    file.write_bytes(signed(asked(sign_as="mallory").audit())[0])
    another = run.invoke(main, ["verdict", "verify", str(file), "--auditor", PUBLIC.hex()])
    assert another.exit_code == 1
    assert "report.json is not the one that this verdict was signed with" in another.output
    report.unlink()
    failed = run.invoke(main, ["verdict", "verify", str(file), "--auditor", PUBLIC.hex()])
    assert failed.exit_code == 3
    assert "claim" in done.stderr
    assert "claim" not in failed.stderr, "below a FAIL it would be read as one"
    wrong = run.invoke(main, ["verdict", "verify", str(file), "--auditor", "11" * 32])
    assert wrong.exit_code == 1


def verified(folder: Path, *options: str) -> Any:
    command = ["verdict", "verify", str(folder / "verdict.intoto.jsonl"), "--auditor", PUBLIC.hex(), *options]
    return CliRunner().invoke(main, command)


@pytest.mark.parametrize("make", [World.honest, lambda: asked(sign_as="mallory")])
@pytest.mark.parametrize("name", ["report.html", "report.json"])
def test_a_report_that_was_changed_is_refused(tmp_path: Path, make: Any, name: str) -> None:
    """Both are covered by the signature, and looked at without being asked for; the page is what boards are sent."""
    made = issued(make().audit())
    document.save(tmp_path, made.files())
    assert set(made.files()) == {path.name for path in tmp_path.iterdir()}
    honest = verified(tmp_path)
    assert honest.exit_code in (0, 3)
    assert f"{name}: the one that was signed" in honest.stderr
    assert name in json.loads(verified(tmp_path, "--json").stdout)["checked_files"]
    for old, new in ((b"PASS", b"P\xc3\x84SS"), (b"FAIL", b"PASS"), (b"w1", b"w2")):
        changed = made.reports[name].replace(old, new)
        if changed == made.reports[name]:
            continue
        (tmp_path / name).write_bytes(changed)
        done = verified(tmp_path)
        assert done.exit_code == 1, (old, done.output)
        assert f"{name} is not the one that this verdict was signed with" in done.output
        assert "PASS" not in done.stdout
    (tmp_path / name).rename(tmp_path / "elsewhere")
    assert f"{name}: not looked at" in verified(tmp_path).stderr
    option = {"report.html": "--page", "report.json": "--report"}[name]
    assert verified(tmp_path, option, str(tmp_path / "elsewhere")).exit_code == 1


def test_the_page_names_the_signed_file_and_its_check(tmp_path: Path) -> None:
    """Not the digest of that file, which holds the page's own."""
    made = issued(World.honest().audit())
    text = made.reports["report.html"].decode()
    assert "verdict.intoto.jsonl" in text
    assert "ragseal-verifier verdict verify verdict.intoto.jsonl" in text
    assert hashlib.sha256(made.signed).hexdigest() not in text


def test_exclusions_are_printed_on_request(tmp_path: Path) -> None:
    made = issued(World.honest().audit())
    document.save(tmp_path, made.files())
    short, whole = verified(tmp_path), verified(tmp_path, "--all")
    notes = made.values["does_not_say"]
    assert f"{len(notes)} exclusions" in short.stderr
    assert not [note for note in notes if note in short.stderr]
    assert [note for note in notes if note in whole.stderr] == notes
    assert short.stdout == whole.stdout


def test_keys_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("x")
    for text in ("00" * 32, "zz" * 32, "abc", str(tmp_path / "x.pem"), str(tmp_path)):
        with pytest.raises(ConfigurationError):
            named_key(text, "--auditor")


@pytest.mark.parametrize(
    "time", ["2025-06-15T15:06:40", "2025-06-15T17:06:40+02:00", "2025-06-15", "20250615T150640Z", "yesterday"]
)
def test_a_time_that_two_readers_may_read_differently_is_in_no_log(honest: tuple[bytes, bytes], time: str) -> None:
    """Text without a zone is another second to each reader, and a proof of it holds for some of them."""
    data = resigned(honest[0], lambda s: s["predicate"].update(issued=time))
    with pytest.raises(EncodingError, match="cannot stand in a log"):
        entry_of(data, read_verdict(data, PUBLIC))
    assert entry_of(honest[0], read_verdict(honest[0], PUBLIC)).time == NOW
