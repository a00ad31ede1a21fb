# SPDX-License-Identifier: GPL-3.0-or-later
"""A signed verdict's line says what its members say, and nothing else in their place.  SPEC D.12.5, D.18.

The line is what people read and hand on, so a reader holds all of it against the statement: what it claims, about which
window of which log, and the claim in words.  An auditor that signs two different things is believed in neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ragseal.accounting.claims import named
from ragseal.accounting.rounding import upward
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.verdict import Claimed, about, claims_text
from ragseal.verifier.outcome.words import SAMPLED_PASS
from ragseal.verifier.steps.sample import attainable, confidence_of, confidence_text

_MOST_RECORDS = 1 << 32  #: of a sampled verdict: what is checked of it is no more work than a reader can do
_FIELD = re.compile(r"([a-z_]+)=[!-~]+")


def check_line(said: Mapping[str, Any], claims: Sequence[Claimed], manifest: bytes | None) -> None:
    """The line, and the claim in words, of a predicate whose members are of the right types.

    Args:
        claims: what its members claim, the weakest first.
        manifest: its digest, among the statement's subjects.

    Raises:
        AttestationError: line, text and members contradict each other, or a PASS is about no window or no log.
    """
    outcome, line, window = said["verdict"], said["line"], said["window"]
    if not line.startswith(f"{outcome} "):
        raise AttestationError("the signed verdict and its line contradict each other")
    if (window is None) != (manifest is None):
        raise AttestationError("the signed verdict names a window and no manifest of it, or a manifest and no window")
    end = about(None if window is None or manifest is None else (window, manifest), said["log"]["origin"])
    if not line.endswith(f" {end}") or (manifest is None and " window=" in line):
        raise AttestationError(f"the signed verdict's line does not end with what it is about: {end}")
    if not claims:
        return
    if not line.startswith(f"{outcome} {claims_text(claims)} "):
        raise AttestationError("the signed verdict's line does not have the claim that its members have")
    fields = [_FIELD.fullmatch(one) for one in line.split(" ")[1:]]
    names = [one.group(1) for one in fields if one is not None]
    if len(names) < len(fields) or len(set(names)) < len(names):
        raise AttestationError("the signed verdict's line has a field twice, or something that is no field")
    if ("tenants" in names) != (len(claims) > 1):
        raise AttestationError("the signed verdict's line names tenants whose claims its members do not have")
    if not said["claim"].startswith(named(claims[0].claim).text()):
        raise AttestationError(f"the signed verdict describes another claim than {claims[0].claim}")
    for one in claims[1:]:
        if named(one.claim).text() not in said["claim"]:
            raise AttestationError(f"the signed verdict does not describe the claim {one.claim} of its tenants")
    _check_sample(said, dict(one.split("=", 1) for one in line.split(" ")[1:]))
    if manifest is None or said["log"].get("checkpoint") is None:
        raise AttestationError(f"a {outcome} is about a window's manifest and a log's checkpoint, and this one is not")


def _check_sample(said: Mapping[str, Any], fields: Mapping[str, str]) -> None:
    """A sampled PASS says of its sample what its line does, and no more than a sample of that size can show."""
    beta, confidence, records, proven = (said[name] for name in ("beta", "confidence", "records", "proven"))
    told = [fields.get(name) for name in ("proven", "beta", "confidence")]
    if said["verdict"] != SAMPLED_PASS:
        if (beta, confidence, *told) != (None,) * 5:
            raise AttestationError("a PASS of all records has no beta and no confidence")
        return
    if (
        beta is None
        or confidence is None
        or not 0 <= proven <= records <= _MOST_RECORDS
        or not 0 <= beta <= 2
        or str(beta)[0] == "-"
    ):
        raise AttestationError(f"a {SAMPLED_PASS} says how many records were proven, beta, and its confidence")
    # release 0.3.0 wrote the member as a fraction
    sure = Fraction(99, 100) if confidence == "99/100" else confidence_of(confidence)
    if told != [str(proven), upward(beta), confidence_text(sure)]:
        raise AttestationError("the signed verdict's line says something else of its sample than its members")
    if not attainable(records, proven, beta, sure):
        raise AttestationError(
            f"{proven} of {records} records cannot rule out a share above {upward(beta)} at confidence {confidence}: "
            "the signed verdict claims more than its sample shows"
        )
