# SPDX-License-Identifier: GPL-3.0-or-later
"""A signed verdict as OSCAL assessment results, which programs for governance and compliance import.  SPEC D.21.

Source: NIST *Open Security Controls Assessment Language*, assessment-results model, version 1.2.1; what is used of it
is the same in 1.1.  One observation a step of the checklist, one finding a failure; a NO VERDICT has no finding, since
nothing was found.  The controls are the clauses of SPEC D, by number.

Identifiers are UUIDs of version 5 over the envelope's digest, so the same verdict gives the same bytes.  The document
is made from what the auditor signed, and names the envelope by digest: it is a rendering, and proves nothing by itself.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from ragseal.accounting.rounding import upward
from ragseal.kernel.printable import printable
from ragseal.kernel.verdict import WORD_OF_THE_PROVIDER
from ragseal.verifier.outcome.outcome import FAIL, FAILED, NO_VERDICT, OPEN
from ragseal.verifier.report.document import SIGNED_NAME
from ragseal.verifier.signed.scope import TENANTS
from ragseal.verifier.signed.statement import PREDICATE_TYPE, SignedVerdict

VERSION = "1.2.1"  #: of OSCAL
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, PREDICATE_TYPE)
_MARKUP = str.maketrans({ch: f"\\{ch}" for ch in "\\`*_[]<>&"})
_LONGEST = 4000  #: characters of one text


def assessment_results(data: bytes, found: SignedVerdict) -> bytes:
    """The document, JSON in UTF-8.

    Args:
        data: the envelope's bytes.
        found: the same, read (:func:`ragseal.verifier.signed.statement.read_verdict`).
    """
    made = _Document(data, found).build()
    return json.dumps({"assessment-results": made}, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def control_of(step: int) -> str:
    """The clause of SPEC D that a step of the checklist checks; that of the auditor's own folder is D.12."""
    return f"ragseal-d.{step or 12}"


def _line(value: Any) -> str:
    """Text of one line, which no name of others can break, end or steer; OSCAL wants no blank at either end."""
    text = printable(" ".join(str(value).split()))
    return text[:_LONGEST].strip() or "none"


def _markup(value: Any) -> str:
    """The same where OSCAL reads Markdown: nothing in it is a link, a tag or emphasis."""
    return _line(value).translate(_MARKUP)


class _Document:
    def __init__(self, data: bytes, found: SignedVerdict) -> None:
        self._digest = hashlib.sha256(data).hexdigest()
        self._found, self._said = found, found.predicate

    def _id(self, what: str) -> str:
        return str(uuid.uuid5(_NAMESPACE, f"{self._digest}/{what}"))

    @staticmethod
    def _prop(name: str, value: Any) -> dict[str, str]:
        shown = upward(value) if isinstance(value, float) else value  # all of them are bounds, as in the line
        return {"name": name, "ns": PREDICATE_TYPE, "value": _line(shown)}

    def build(self) -> dict[str, Any]:
        said, auditor = self._said, self._found.auditor.hex()
        about = f"window {_markup(said['window'])} of log {_markup(said['log']['origin'])}"
        return {
            "uuid": self._id("document"),
            "metadata": {
                "title": f"{said['verdict']}: audit of private retrieval, {about}",
                "last-modified": said["issued"],
                "version": _line(said["program"].get("version")),
                "oscal-version": VERSION,
                "roles": [{"id": "assessor", "title": "Auditor"}],
                "parties": [
                    {
                        "uuid": self._id("auditor"),
                        "type": "organization",
                        "name": f"the auditor with key {auditor}",
                        "props": [self._prop("ed25519-public-key", auditor)],
                    }
                ],
                "responsible-parties": [{"role-id": "assessor", "party-uuids": [self._id("auditor")]}],
            },
            "import-ap": {"href": f"#{self._id('plan')}"},
            "results": [self._result(about)],
            "back-matter": {"resources": self._resources()},
        }

    def _result(self, about: str) -> dict[str, Any]:
        said = self._said
        shown = (
            "verdict", "line", "claimName", "coalition", "queries", "epsilon", "delta", "unseen", "return",
            "periodFrom", "leftOut", "epsilonOfTheLog", "mode", "keys", "records", "proven", "beta",
        )  # fmt: skip
        limits = "\n".join(f"- {_markup(one)}" for one in said["doesNotSay"])
        several = said.get(TENANTS, ())
        findings = [self._finding(step) for step in said["steps"] if step["status"] == FAILED]
        result: dict[str, Any] = {
            "uuid": self._id("result"),
            "title": f"{said['verdict']}: {about}",
            "description": _markup(said["claim"] if said["verdict"] not in (FAIL, NO_VERDICT) else said["line"]),
            "start": said["issued"],
            "props": [
                *(self._prop(name, said[name]) for name in shown if said[name] is not None),
                *(self._prop(TENANTS, f"{one['claimName']}: {', '.join(one[TENANTS])}") for one in several),
                *(self._prop("providersWord", WORD_OF_THE_PROVIDER[name]) for name in said["providersWord"]),
            ],
            "reviewed-controls": {
                "control-selections": [
                    {"include-controls": [{"control-id": control_of(step["number"])} for step in said["steps"]]}
                ]
            },
            "observations": [self._observation(step) for step in said["steps"]],
            "remarks": f"What the verdict does not say:\n\n{limits or '- none'}",
        }
        if not said["steps"]:  # a list may not be empty
            result["reviewed-controls"]["control-selections"] = [{"include-all": {}}]
            del result["observations"]
        if findings:
            result["findings"] = findings
        return result

    def _observation(self, step: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {
            "uuid": self._id(f"step {step['number']}"),
            "title": f"Step {step['number']}: {_markup(step['title'])}",
            "description": _markup(f"{step['status']}. {step['message']}".strip()),
            "props": [self._prop("status", step["status"]), self._prop("step", step["number"])],
            "methods": ["TEST"],
            "types": ["finding" if step["status"] == FAILED else "control-objective"],
            "origins": [{"actors": [{"type": "party", "actor-uuid": self._id("auditor")}]}],
            "relevant-evidence": [{"href": f"#{self._id('verdict')}", "description": "The verdict that was signed."}],
            "collected": self._said["issued"],
        }
        ending = self._said["ending"] or {}
        if step["status"] == OPEN and ending.get("step") == step["number"] and ending.get("wayOut"):
            made["remarks"] = f"What would decide it: {_markup(ending['wayOut'])}"
        return made

    def _finding(self, step: dict[str, Any]) -> dict[str, Any]:
        return {
            "uuid": self._id(f"finding {step['number']}"),
            "title": f"FAIL at step {step['number']}: {_markup(step['title'])}",
            "description": _markup(step["message"] or self._said["line"]),
            "target": {
                "type": "objective-id",
                "target-id": control_of(step["number"]),
                "status": {"state": "not-satisfied", "reason": "fail"},
            },
            "related-observations": [{"observation-uuid": self._id(f"step {step['number']}")}],
        }

    def _resources(self) -> list[dict[str, Any]]:
        return [
            {
                "uuid": self._id("plan"),
                "title": "ragseal specification, section D",
                "description": "The checklist of an audit; a control is a clause of that section.",
            },
            {
                "uuid": self._id("verdict"),
                "title": "The signed verdict",
                "description": "in-toto Statement in a DSSE envelope: ragseal-verifier verdict verify",
                "rlinks": [
                    {
                        "href": SIGNED_NAME,
                        "media-type": "application/jsonl",
                        "hashes": [{"algorithm": "SHA-256", "value": self._digest}],
                    }
                ],
            },
        ]
