# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is said of a period of :mod:`tests.claims.scene`: by an auditor, by its provider before, and in a plan.

Whatever follows from keys, circuits, clocks or this machine is masked, so that what is left is the claim's own.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ragseal.kernel import signature
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import AuditError
from ragseal.kernel.policy import Policy
from ragseal.ledger.note import NoteSigner
from ragseal.prover.planning import consent, spending
from ragseal.prover.planning import page as plan_page
from ragseal.prover.planning.budgets import Budget, cost
from ragseal.prover.planning.candidates import Candidate, Shape
from ragseal.prover.planning.candidates import Window as ScoreWindow
from ragseal.prover.planning.frontier import Point
from ragseal.prover.planning.quality import Quality
from ragseal.prover.planning.recommendation import describe, in_words
from ragseal.prover.provider import assembly
from ragseal.verifier.evidence.evidence import Auditor, Refused, Undecided
from ragseal.verifier.outcome.outcome import FAIL, NO_VERDICT, SAMPLED_PASS, TITLES, Ending, Neighbour, Step, Verdict
from ragseal.verifier.report import document, page
from ragseal.verifier.signed.log import entry_of
from ragseal.verifier.signed.oscal import assessment_results
from ragseal.verifier.signed.statement import read_verdict, signed_verdict
from ragseal.verifier.steps.receipts import Tally
from tests.claims import scene
from tests.claims.scene import DECOYS, OPENS, ORIGIN, PLAIN, Log, auditor, classes, eleventh, key_of

_KEYS = ("seconds", "program", "total_seconds")
#: Digests, keys and signatures; the laws that there are; versions of programs.
_NOT_THE_CLAIMS = re.compile(
    r"\b[0-9a-f]{8,}\b|[A-Za-z0-9+/]{40,}={0,2}|[0-9a-f]{10,}\u2026"
    r"|(?<=use a class with the law ).*|(?<=noise law must be one of )\([^)]*\)"
    r"|(?<=ragseal-verifier )\d[\w.]*\d|(?<=\">programs</th><td class=\"mono\">)[^<]*"
)


def ended(error: AuditError, own: Auditor) -> Verdict:
    verdict = Verdict(auditor=own.identity, at=OPENS, origin=ORIGIN)
    way = error.way_out if isinstance(error, Undecided) else ""
    verdict.end(Ending(11, str(error), {}, way, failed=isinstance(error, Refused)))
    return verdict


def told(verdict: Verdict, said: Mapping[str, Any]) -> dict[str, Any]:
    """Line, report, page, signed statement and what log and compliance programs get of one verdict."""
    verdict.steps.append(Step(11, TITLES[11], "ok", dict(said), 0.0))
    values = document.build(verdict)
    reports = {document.JSON_NAME: document.to_json(values), document.PAGE_NAME: page.render(values).encode()}
    key = key_of("auditor")
    log = NoteSigner(ORIGIN, key_of("log")).verifier
    data = signed_verdict(verdict, values, reports, log, key)
    read = read_verdict(data, signature.public_bytes(key), reports)
    entry = entry_of(data, read)
    return {
        "line": verdict.line(),
        "report": values,
        "page": page.render(values).splitlines(),
        "statement": json.loads(base64.b64decode(json.loads(data)["payload"])),
        "log entry": [entry.outcome, *([one.encode().decode("latin-1"), one.text()] for one in entry.claimed)],
        "compliance": json.loads(assessment_results(data, read))["assessment-results"]["results"][0]["props"],
    }


def audited(name: str) -> dict[str, Any]:
    """All that is said of a period: proven whole; sampled, with a neighbour that failed and embeddings unchecked."""
    make, window = scene.PERIODS[name]
    log, said, own = make(), {}, auditor()  # type: ignore[var-annotated]
    whole = eleventh(log, window, own, said, [Tally("north", 4, 4, 4)])
    out = {"whole": told(whole, said)}
    said = {}
    part = eleventh(log, window, auditor(since=OPENS), said, [Tally("north", 4, 3, 4)])
    part.verdict, part.mode, part.beta, part.confidence = SAMPLED_PASS, "sampled", 0.5, Fraction(99, 100)
    part.proven = 2
    part.neighbours = (Neighbour("w1", bytes(32), FAIL),)
    part.beacon_of = "other"
    return {**out, "in part": told(part, said), "provider": foreseen(log, window)}


def refused(name: str) -> dict[str, Any]:
    make, window = scene.REFUSALS[name]
    log, own = make(), auditor()
    try:
        found = eleventh(log, window, own, {}, [Tally("north", 0, 0, 0)])
    except AuditError as error:
        found = ended(error, own)
        assert found.verdict in (FAIL, NO_VERDICT)
        values = document.build(found)
        return {"line": found.line(), "claim": values["claim"], "provider": foreseen(log, window)}
    return {"line": found.line(), "provider": foreseen(log, window)}


def foreseen(log: Log, name: str) -> dict[str, Any]:
    """What the provider says of the window before it commits to it."""
    at = next(i for i, one in enumerate(log.provider) if one.manifest.window == name)
    rules = log.provider[at].manifest.policy
    cls = classes()[rules.class_name][0]

    def found(class_name: str) -> AttestationClass:
        return classes()[class_name][0]

    out: dict[str, Any] = {}
    for when, known, following in (("before", log.provider[:at], rules), ("after", log.provider, None)):
        values = spending.spending(known, found, following, 5, b"c" * 32)
        out[when] = {"values": values, "lines": spending.lines(values)}
    terms = consent.terms(rules, cls, out["before"]["values"])
    out["terms"], out["terms in words"] = terms, consent.lines(terms, rules, cls)
    for what, ask in (("advertised", _advertised), ("promises", _promises)):
        try:
            out[what] = ask(rules, cls)
        except AuditError as error:
            out[what] = str(error)
    return out


def _advertised(rules: Policy, cls: AttestationClass) -> Any:
    return str(assembly.advertised_epsilon(rules, cls, 5))


def _promises(rules: Policy, cls: AttestationClass) -> Any:
    return assembly.check_promises(rules, cls, 5)


def planned() -> dict[str, Any]:
    """A plan's page and its points, under both claims that are planned on a corpus."""
    noise, decoys, delta, out = classes()[PLAIN][0], classes()[DECOYS][0], Fraction(1, 10**6), {}
    lists, coined = Budget(25, 2, delta), Budget(25, 2, delta, 3.0)
    of_noise = Candidate(Shape(noise, True, 3), ScoreWindow(4800, 5600), 16, lists, 3)
    of_decoys = Candidate(Shape(decoys, True, 8), ScoreWindow(4800, 4801), 1, coined, 8, 1 << 16, 4.5)
    for chosen in (of_noise, of_decoys):
        budget = chosen.budget
        found = cost(chosen.cls, chosen.terms, budget)
        quality = Quality(*(0.5,) * 6)
        point = Point(chosen, found.epsilon, quality, found.delivered)
        row = {**point.row(), "policy": point.policy_file(900), "efficient": True}
        for met in ("recommended", "nearest"):
            plan = {
                "workload": "8 documents, 9 queries", "noise_free": {"ndcg10": 0.6}, "frontier": [row], "reasons": [],
                "recommended": None, "nearest": None, met: row,
            }  # fmt: skip
            out[f"{budget.claim}, {met}"] = plan_page.page(plan, None, OPENS).splitlines()
        out[budget.claim] = {
            "row": row, "table": plan_page.text_table([row]), "bound": point.bound, "words": point.bound_in_words,
            "described": describe(point), "in words": in_words(point), "of all queries": budget.queries,
        }  # fmt: skip
    return out


def masked(value: Any) -> Any:
    """Without digests, keys, times of this machine and versions of programs."""
    if isinstance(value, Mapping):
        return {str(key): masked(one) for key, one in value.items() if key not in _KEYS}
    if isinstance(value, list | tuple):
        return [masked(one) for one in value]
    if isinstance(value, bytes):
        return "*"
    if isinstance(value, str):
        return _NOT_THE_CLAIMS.sub("*", value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
