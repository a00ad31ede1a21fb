# SPDX-License-Identifier: GPL-3.0-or-later
"""What several claims say alike: what none of them covers, and conditions that proofs show.  SPEC D.17, D.14.4."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ragseal.kernel.policy import Policy

#: What the estimate cannot see, as measured: ``bench.estimate``, results in bench/results/figure4.json.
EVASION = (
    "Accounts that compare their questions before they ask are never joined, and lose little by it: at theta = 0.9, of "
    "50 simulated coalitions of 10 accounts that kept cosine 0.945 to one target and stayed below theta of each other, "
    "0 were found; of 50 that varied their questions at random around cosine 0.93, 2."
)

#: What holds of coalitions up to k_max only.
ABOUT_COALITIONS = (
    "Coalitions of more than k_max accounts.",
    "How many accounts one person holds. The estimate joins accounts of a tenant that ask nearly the same within tau "
    "records; those that reword their questions below theta, or wait for longer, are not joined. It is an estimate "
    "over committed vectors: a client that does not check its embedding can be an accomplice.",
    EVASION,
)

DOES_NOT_SAY = (
    "The generator's output and the returned text: once a slot is returned, its text is read, with id and metadata.",
    "How long an answer is: anyone who watches an account's line sees it, as encryption hides no length.",
    *ABOUT_COALITIONS,
    "Windows that ended before the policy's period_start: their queries are not in this epsilon.",
    "That the other windows of the period kept their policies: they are counted as if they had; audit each of them. Of "
    "a window in whose beacon this auditor had no part it can only say something by relying on another.",
    "That everybody was shown this log: a provider may keep two, and this one may lack what accounts were answered in "
    "the other, or which coins were thrown there. Receipts of the accounts and cosignatures of observers that follow "
    "the log find that.",
    "What happens outside the ledger: other channels, logs, timing.",
    "Signed requests that the provider never recorded: their accounts hold them as evidence, and asked again in a "
    "later window they meet other noise.",
    "That documents were embedded and assigned to tenants honestly.",
    "A document that stands in the indices of several tenants as one: each index is bounded by itself, so accounts of "
    "m tenants that compare notes learn m times as much about it. The provider's `commit` says which tenants share.",
    "That the provider keeps its seed secret.",
    "Embeddings of queries whose clients did not check them: for those records epsilon holds only if the provider's "
    "embedding did not depend on the index.",
)

#: For the first page.
READ = "Texts, once they are shown: nothing is said of what their readers make of them."
SHORT = (
    "Windows before the budget period, and that the others in it kept their rules: each has a verdict of its own.",
    "That everybody was shown the log that this auditor was shown: receipts and observers tell.",
    "That documents were put, copied and assigned to tenants honestly, and that the provider keeps its secrets.",
    "What happens outside the log, and how long an answer on the wire is.",
)

#: Beside a claim about slots, where a document may fill several of them.
SEVERAL_SLOTS = (
    "A document of this period may fill up to {slots} slots, each of them hidden by a coin of its own, and all numbers "
    "here are for such a document whole: {rule}. Of a document that fills one slot they say less than holds."
)

#: What proofs show of every record: for conditions of a claim.
PROVEN = "step 8, for the records proven: "
BY_THE_CIRCUIT = (
    ("every score of the capacity is clipped from below", PROVEN + "no slot is left out whose noise alone wins"),
    ("every slot carries noise, empty ones too", PROVEN + "noise of all N slots of the class"),
    ("the noise of every query is fresh", "steps 2 and 6: seed never used before; account and ctr in the noise's key"),
    ("always exactly K ids, as a set in slot order", PROVEN + "K winners, strictly increasing"),
    ("nothing else depends on the noisy scores", "step 10: overflow and grid are in delta; proofs reveal nothing"),
)


def several_slots(text: str, slots: int, rule: str) -> str:
    """A claim about slots, for a document that may fill so many."""
    return text if slots == 1 else f"{text} {SEVERAL_SLOTS.format(slots=slots, rule=rule)}"


def held(conditions: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Conditions that earlier steps refuse a window for: here they hold."""
    return [{"condition": what, "holds": True, "shown_by": where} for what, where in conditions]


def on_the_providers_word(conditions: Iterable[str], where: str) -> list[dict[str, Any]]:
    """Conditions that no log shows."""
    return [{"condition": what, "holds": None, "shown_by": where} for what in conditions]


def empty_scores_lowest(policies: Sequence[Policy]) -> dict[str, Any]:
    """The condition of every claim about documents' scores."""
    return {
        "condition": "an empty slot scores lowest: 0 <= lo < hi in every window",
        "holds": all(0 <= policy.lo < policy.hi for policy in policies),
        "shown_by": f"the policies of {len(policies)} windows",
    }
