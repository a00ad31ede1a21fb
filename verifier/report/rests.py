# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a PASS rests on somebody's word, in words, with the number of documents as far as the log shows one.

What rests on the provider's word turns a PASS amber and stands in its sentences (SPEC D.11.11).  Another auditor's
word, which this one chose to trust, and a guard, which no number rests on, are said and colour nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragseal.accounting.claims import CLAIMS
from ragseal.kernel.claims import EVERY_LIST
from ragseal.kernel.policy import OFF
from ragseal.verifier.outcome import guess

#: By the names of :data:`ragseal.kernel.verdict.WORD_OF_THE_PROVIDER`: short, with ``{}`` for the number.
_IN_SHORT = {
    "late": "that it placed documents which came after the coins were known without looking at the coins ({})",
    "filter": "that a document takes part in no more answers than the policy says (only epsilon_filtered needs it)",
    "histograms": "that histograms are of the tenant's documents",
    "texts": "that the texts of answers say no more than question and keywords",
    "vocabulary": "that the vocabulary comes from public data",
    "embeddings": "that the embeddings of {}, which their accounts did not check, {unchecked}",
    "neighbours": "that {} of which no PASS is known here kept the rules",
}


def on_the_provider(report: Mapping[str, Any]) -> list[str]:
    """What a PASS rests on besides proofs, one phrase each; nothing where it rests on no word."""
    numbers = {"late": _late(report), "embeddings": _embeddings(report), "neighbours": _neighbours(report)}
    claimed = report.get("claimed") or {}
    unchecked = CLAIMS.get(str(claimed.get("claim")), CLAIMS[EVERY_LIST]).unchecked
    found = [name for name in claimed.get("word") or () if name in _IN_SHORT]
    return [_IN_SHORT[name].format(numbers.get(name, ""), unchecked=unchecked) for name in found]


def sentence(report: Mapping[str, Any]) -> str:
    """The same as one sentence; empty where there is nothing."""
    found = on_the_provider(report)
    return f"Some of this is the provider's word and not proven: {listed(found)}." if found else ""


def on_others(report: Mapping[str, Any]) -> list[str]:
    """What else a reader of a PASS should know of its foundations, as sentences."""
    out = []
    keys = str(report.get("keys") or "")
    if keys.startswith("auditor:"):
        out.append("Keys were made by another auditor, whom this one trusts to have kept no trapdoor.")
    if report.get("beacon_of"):
        out.append(f"That nobody chose the beacon rests on the auditor {report['beacon_of']}, whom this one trusts.")
    if (report.get("policy") or {}).get("guard", OFF) != OFF:
        out.append("Which text the policy's guard withholds is the provider's word; no number here rests on it.")
    return out


def listed(parts: list[str]) -> str:
    """``a; b; and c``."""
    return parts[0] if len(parts) == 1 else f"{'; '.join(parts[:-1])}; and {parts[-1]}"


def _late(report: Mapping[str, Any]) -> str:
    places = (report["epsilon"] or {}).get("places_of_late_documents")
    return (
        f"at most {places:,} documents: all places of these indices, since no log shows how many are filled or changed"
        if isinstance(places, int)
        else "the log does not show how many"
    )


def _embeddings(report: Mapping[str, Any]) -> str:
    return f"{(report['epsilon'] or {}).get('unchecked_records', '?')} of {report['records']} answers"


def _neighbours(report: Mapping[str, Any]) -> str:
    found = [one for one in report.get("other_windows_of_the_period") or () if not guess.passes(str(one["verdict"]))]
    return f"{len(found)} other window{'' if len(found) == 1 else 's'}"
