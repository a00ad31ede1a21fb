# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies of claims without decoys, and what each gives: nothing is traded for answers, so nothing is measured.

Lists are the best K of what is not hidden, whatever is asked.  What remains to be chosen is the coin, K and lo.
"""

from __future__ import annotations

from typing import Any

from ragseal.accounting.claims import named
from ragseal.accounting.delivered import certified_unseen, fewest_hidden
from ragseal.accounting.delivered_words import hidden_in_words, unseen_in_words
from ragseal.kernel.claims import FORMS, UNSEEN, UNTIL_DELIVERED, form_of
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.params import COIN_BITS
from ragseal.kernel.policy import check_law
from ragseal.prover.commitment.policy_file import RESULTS
from ragseal.prover.planning.public_score_ranges import PublicWindow

RUNGS = tuple(name for name, form in FORMS.items() if form.plain)
N_MAX, K_MAX = 25, 2

_HEAD = """\
# A window's policy.  Everything the verdict depends on; printed in the verdict and bound by the manifest.
{about}
class = "{class_name}"      # circuit class: capacity, and room for ids
claim = "{claim}"
"""
_COIN = """\
unseen = {unseen:g}                # the odds of a document's absence grow e^unseen times at most, in a budget period
k_max = {k_max}                 # accounts that ask as one, above which the estimate warns: no part of any number
estimate = "report"       # "gate" withholds the verdict where more than k_max accounts ask as one
chunks_max = 1            # slots one document may fill; m slots cost unseen m times
"""
_LISTS = """\
ids = {ids}                  # K of an answer: the best documents that match, and no other
lo = {lo}                 # cosine above which a document matches
n_max = {n_max}                # queries an account may ask in this window: a limit of load
duration = 86400          # seconds the window takes queries, from its opening on; or opens = ... and closes = ...
# version_every = "15m"   # documents that come, change or go count from the next tick on; left out, in the next window
"""


def gives(claim: str, unseen: float) -> dict[str, Any]:
    """What `plan --json` says of a claim without decoys."""
    found: dict[str, Any] = {"claim": claim, "text": named(claim).text()}
    if not form_of(claim).coin:
        return {**found, "private": "nothing", "answers": "exact"}
    hidden = fewest_hidden(unseen, chunks=1, periods=1)
    return {
        **found,
        "unseen": certified_unseen(hidden, chunks=1, periods=1),
        "hidden_share": hidden / (1 << COIN_BITS),
        "return": "inf",
        "answers": "exact among documents that are not hidden",
    }


def in_words(values: dict[str, Any]) -> list[str]:
    """The same for people."""
    claim = values["claim"]
    if not form_of(claim).coin:
        return [
            f"claim {claim}: every answer is the best of the committed index, and proven to be. NOTHING IS PRIVATE: no "
            "epsilon follows, and none is printed",
            "answers are those of the same search without proofs; there are no coins, so no window waits for thinning",
            f"the claim {UNSEEN} hides documents by a secret coin, and answers are exact among the others; "
            f"{UNTIL_DELIVERED} adds decoys, which bound how often a slot comes back",
        ]
    return [
        f"claim {claim}: {hidden_in_words(values['hidden_share'])}; among all others answers are exact",
        unseen_in_words(values["unseen"]),
        "return is not bounded: there are no decoys, so an account that is sent a list knows for certain what is in "
        f"it; {UNTIL_DELIVERED} bounds that, and takes places of each list for it",
    ]


def policy_text(claim: str, cls: AttestationClass, unseen: float, public: PublicWindow | None) -> str:
    """A policy file to start from.

    Raises:
        PolicyError: a class with noise.
    """
    check_law(claim, cls)
    own = _COIN.format(unseen=unseen, k_max=K_MAX) if form_of(claim).coin else ""
    lo = 0.0 if public is None else public.lo
    about = "\n".join(f"# {line}." for line in in_words(gives(claim, unseen)))
    head = _HEAD.format(about=about, class_name=cls.name, claim=claim)
    return head + own + _LISTS.format(ids=RESULTS, lo=f"{lo:.2f}", n_max=N_MAX)
