# SPDX-License-Identifier: GPL-3.0-or-later
"""What a signed verdict says: an in-toto Statement v1 whose subjects are the window and the log as it was audited.

Source: the in-toto Attestation Framework, *Statement v1* (in-toto/attestation).  The predicate repeats the report's
numbers, and names the report by digest, so that it can be handed on alone or with it.  SPEC D.18.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragseal.kernel.errors import AttestationError, EncodingError
from ragseal.kernel.rotation import MAX_TURNS, Rotation
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.verdict import Claimed
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.note import NoteVerifier, decode_base64
from ragseal.ledger.turns import LogKey
from ragseal.verifier.outcome.outcome import FAIL, FAILED, NO_VERDICT, OPEN, PASS, SAMPLED_PASS, Verdict
from ragseal.verifier.report.document import JSON_NAME, PAGE_NAME
from ragseal.verifier.signed import envelope, json_text
from ragseal.verifier.signed.line import check_line
from ragseal.verifier.signed.scope import TENANTS, by_tenant, claims_of, members

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://ragseal.example/verdict/v2"  #: a name, not an address: .example belongs to nobody (RFC 2606)
WORDS = (PASS, SAMPLED_PASS, FAIL, NO_VERDICT)
_MANIFEST = "manifest of window "
_SHA256 = re.compile(r"[0-9a-f]{64}")
REPORTS = (JSON_NAME, PAGE_NAME)  #: of one verdict; each is signed by its digest

#: Members of the predicate and the JSON types that each may have; a reader refuses any other.
_MEMBERS: Mapping[str, tuple[type, ...]] = {
    "verdict": (str,),
    "line": (str,),
    "claim": (str,),
    "doesNotSay": (list,),
    "epsilon": (float, int, str, type(None)),
    "delta": (float, int, str, type(None)),
    "claimName": (str, type(None)),
    "coalition": (int, str, type(None)),
    "queries": (int, str, type(None)),
    "periodFrom": (str, type(None)),
    "leftOut": (int, type(None)),
    "epsilonOfTheLog": (float, int, str, type(None)),
    "providersWord": (list,),
    "unseen": (float, int, str, type(None)),
    "return": (float, int, str, type(None)),
    "mode": (str,),
    "keys": (str,),
    "beaconOf": (str, type(None)),
    "records": (int,),
    "proven": (int,),
    "beta": (float, int, type(None)),
    "confidence": (str, type(None)),
    "window": (str, type(None)),
    "log": (dict,),
    "circuit": (dict, type(None)),
    "steps": (list,),
    "ending": (dict, type(None)),
    "otherWindows": (list,),
    "issued": (str,),
    "program": (dict,),
    "reports": (dict,),
    "verdictLog": (dict, type(None)),
}


NO_REPORTS: Mapping[str, bytes] = {}


def signed_verdict(
    verdict: Verdict,
    values: Mapping[str, Any],
    reports: Mapping[str, bytes],
    log: NoteVerifier,
    key: SigningKey,
    verdicts: NoteVerifier | None = None,
) -> bytes:
    """The verdict as one line of an ``.intoto.jsonl`` file.

    Args:
        values: the report, plain (:func:`ragseal.verifier.report.document.build`).
        reports: report.json and report.html, by name.
        log: the key of the log, as the auditor was given it.
        key: the auditor's identity.
        verdicts: the log that the verdict is entered in (SPEC D.19); None where it could not be.
    """
    said = {
        "_type": STATEMENT_TYPE,
        "subject": _subjects(verdict, log),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            **_predicate(verdict, values, reports, log),
            "verdictLog": None if verdicts is None else {"key": verdicts.vkey(), "turns": _turns(verdicts)},
        },
    }
    payload = json.dumps(said, ensure_ascii=False, allow_nan=False, sort_keys=True).encode()
    return envelope.seal(PAYLOAD_TYPE, payload, key)


def _subjects(verdict: Verdict, log: NoteVerifier) -> list[dict[str, Any]]:
    """The manifest's digest and the root of the log that was audited; where neither was found, the log's key."""
    found = []
    if verdict.about is not None:
        found.append(_subject(f"{_MANIFEST}{verdict.about[0]}", verdict.about[1]))
    if verdict.log is not None:
        head = verdict.log.checkpoint
        found.append(_subject(f"log {head.origin} at {head.size} entries", head.root))
    return found or [_subject(f"key of log {log.name}", hashlib.sha256(log.vkey().encode()).digest())]


def _subject(name: str, digest: bytes) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": digest.hex()}}


def _predicate(
    verdict: Verdict, values: Mapping[str, Any], reports: Mapping[str, bytes], log: NoteVerifier
) -> dict[str, Any]:
    ending = values["failure"] or values["no_verdict"]
    manifest = verdict.window.manifest if verdict.window is not None else None
    return {
        "verdict": verdict.verdict,
        "line": values["line"],
        "claim": values["claim"],
        "doesNotSay": values["does_not_say"],
        **members(values, verdict.claimed),
        **by_tenant(values["claims"], verdict.claims),
        "mode": verdict.mode,
        "keys": verdict.keys,
        "beaconOf": verdict.beacon_of or None,
        "records": verdict.records,
        "proven": verdict.proven,
        "beta": values["beta"],
        "confidence": values["confidence"],
        "window": values["window"],
        "log": {
            "origin": log.name,
            "key": log.vkey(),
            "turns": _turns(log),
            "checkpoint": None if verdict.log is None else verdict.log.note.encode().decode(),
        },
        "circuit": None if manifest is None else {
            "class": manifest.policy.class_name,
            "classDigest": manifest.policy.class_digest.hex(),
            "noiseTableDigest": manifest.policy.table_digest.hex(),
            "keyDigest": manifest.key_digest.hex(),
        },
        "steps": [{name: step[name] for name in ("number", "title", "status", "message")} for step in values["steps"]],
        "ending": ending and {
            "step": ending["step"], "message": ending["message"], "wayOut": ending.get("way_out", "")
        },
        "otherWindows": values["other_windows_of_the_period"],
        "issued": values["issued"],
        "program": values["program"],
        "reports": {name: {"sha256": hashlib.sha256(reports[name]).hexdigest()} for name in REPORTS},
    }  # fmt: skip


def _turns(log: NoteVerifier) -> list[str]:
    return [base64.b64encode(turn.encode()).decode() for turn in LogKey.of(log).turns]


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SignedVerdict:
    """A verdict whose signature holds."""

    predicate: Mapping[str, Any]
    subjects: Mapping[str, str]  #: SHA-256 in hexadecimal by name
    auditor: bytes  #: the key that signed it

    @property
    def verdict(self) -> str:
        return str(self.predicate["verdict"])

    @property
    def line(self) -> str:
        return str(self.predicate["line"])

    @property
    def claims(self) -> tuple[Claimed, ...]:
        """What a PASS claims, with every number that a claim needs, the weakest first; none of what is none."""
        return claims_of(self.predicate)


def read_verdict(data: bytes, auditor: bytes, reports: Mapping[str, bytes] = NO_REPORTS) -> SignedVerdict:
    """A signed verdict, checked without provider or network.

    Checked are the auditor's signature; that statement and predicate are of this form, with no member more or less;
    that the line is of this verdict, window and log and, of a PASS, begins with all that its claim needs, as the
    predicate has it, and has no other field twice; that the claim's words are those of its name; that the log's
    checkpoint is signed by the log's key which the verdict names, and is the subject; and the reports that
    are given, by their digests.  The numbers are the auditor's word.

    Args:
        auditor: the auditor's public key, 32 bytes.
        reports: of report.json and report.html those that came with it, by name.

    Raises:
        EncodingError: no signed verdict.
        AttestationError: not this auditor's, or parts of it contradict each other.
        LedgerError: the checkpoint in it is not the log's.
    """
    payload = envelope.open_sealed(data, PAYLOAD_TYPE, auditor)
    try:
        found = json_text.parse(payload)
    except EncodingError as error:
        raise EncodingError(f"the signed payload: {error}") from None
    if not isinstance(found, dict) or set(found) != {"_type", "subject", "predicateType", "predicate"}:
        raise EncodingError("the signed payload is no in-toto statement")
    if (found["_type"], found["predicateType"]) != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise EncodingError("the signed statement is not a verdict of this version")
    predicate, subjects = _read_predicate(found["predicate"]), _read_subjects(found["subject"])
    _check_log(predicate["log"], subjects)
    about = [name.removeprefix(_MANIFEST) for name in subjects if name.startswith(_MANIFEST)]
    if any(name != predicate["window"] for name in about):
        raise AttestationError("the signed verdict is about the manifest of another window than it names")
    made = SignedVerdict(predicate, subjects, auditor)
    check_line(predicate, made.claims, manifest_of(made))
    for name, report in reports.items():
        if hashlib.sha256(report).hexdigest() != predicate["reports"][name]["sha256"]:
            raise AttestationError(
                f"{name} is not the one that this verdict was signed with: it was changed, or is of a different audit; "
                "ask the auditor for it, or check the verdict alone in a folder of its own"
            )
    return made


def manifest_of(found: SignedVerdict) -> bytes | None:
    """The digest of the manifest that a verdict is about; None where none was found.

    Raises:
        EncodingError: the subject is no digest.
    """
    window = found.predicate["window"]
    digest = None if window is None else found.subjects.get(f"{_MANIFEST}{window}")
    if digest is None:
        return None
    if not _SHA256.fullmatch(digest):
        raise EncodingError("the manifest's digest in the signed verdict is not a SHA-256")
    return bytes.fromhex(digest)


def _read_predicate(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or set(found) - {TENANTS} != set(_MEMBERS):
        raise EncodingError("the signed verdict has other members than this version's")
    for name, kinds in _MEMBERS.items():
        if not isinstance(found[name], kinds) or (isinstance(found[name], bool)):
            raise EncodingError(f"the signed verdict's {name} is of a different type")
    entered = found["verdictLog"]
    if entered is not None and (set(entered) != {"key", "turns"} or not isinstance(entered["key"], str)):
        raise EncodingError("the signed verdict's verdictLog is not a key with its turns")
    digests = found["reports"]
    if set(digests) != set(REPORTS) or not all(_is_digest(one) for one in digests.values()):
        raise EncodingError(f"the signed verdict does not name the SHA-256 of {' and '.join(REPORTS)}")
    if found["verdict"] not in WORDS:
        raise AttestationError("the signed verdict is none of the four")
    if not all(map(_is_step, found["steps"])):
        raise EncodingError("a step of the signed verdict is not number, title, status and message")
    if found["verdict"] in (PASS, SAMPLED_PASS) and any(one["status"] in (FAILED, OPEN) for one in found["steps"]):
        raise AttestationError(f"a {found['verdict']} has no step that failed or could not be decided")
    return found


def _is_step(one: Any) -> bool:
    if not isinstance(one, dict) or set(one) != {"number", "title", "status", "message"}:
        return False
    text = all(isinstance(one[name], str) for name in ("title", "status", "message"))
    return text and isinstance(one["number"], int) and not isinstance(one["number"], bool)


def _is_digest(one: Any) -> bool:
    return isinstance(one, dict) and set(one) == {"sha256"} and isinstance(one["sha256"], str)


def _read_subjects(found: Any) -> dict[str, str]:
    subjects: dict[str, str] = {}
    for one in found if isinstance(found, list) else ():
        digest = one.get("digest") if isinstance(one, dict) else None
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not isinstance(digest, dict) or not isinstance(digest.get("sha256"), str):
            raise EncodingError("a subject of the signed statement has no name or no SHA-256")
        subjects[name] = digest["sha256"]
    if not subjects:
        raise EncodingError("the signed statement has no subject")
    return subjects


def read_turns(found: Any) -> list[Rotation]:
    """Turns of a log's key, each an entry of that log in base64.  EncodingError: something else."""
    if not isinstance(found, list) or len(found) > MAX_TURNS or not all(isinstance(one, str) for one in found):
        raise EncodingError("the signed verdict's log has no list of turns of its key")
    return [Rotation.decode(decode_base64(one, "turn of the log's key")) for one in found]


def _check_log(log: Mapping[str, Any], subjects: Mapping[str, str]) -> None:
    if not all(isinstance(log.get(name), str) for name in ("origin", "key")):
        raise EncodingError("the signed verdict does not name its log")
    key, note = NoteVerifier.from_vkey(log["key"]), log.get("checkpoint")
    if key.name != log["origin"]:
        raise AttestationError("the signed verdict's log and its key have different names")
    if note is None:
        return
    if not isinstance(note, str):
        raise EncodingError("the signed verdict's checkpoint is not text")
    head = open_checkpoint(note.encode(), LogKey.of(key, read_turns(log.get("turns")))).checkpoint
    if subjects.get(f"log {head.origin} at {head.size} entries") != head.root.hex():
        raise AttestationError("the log's checkpoint in the signed verdict is not what the verdict is about")
