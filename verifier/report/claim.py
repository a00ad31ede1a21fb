# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict says beside its claim's own text, whichever that is.  SPEC D.17."""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.verdict import NOT_KNOWN, Claimed, minute_text, word
from ragseal.runtime.face import counted
from ragseal.verifier.steps.epsilon import PeriodBudget
from ragseal.verifier.steps.estimate import FULL, Estimation

SAMPLED = (
    "Only the sampled records were proven. With the stated confidence at most the share beta of all records could be "
    "unprovable; epsilon is conditional on every record being as the sampled ones were."
)

SAMPLED_NO_EPSILON = SAMPLED.replace("epsilon is conditional", "what is claimed is conditional")
SAMPLED_ALL = "A sample was asked for, hence the verdict's name; it took in every record, and every record was proven."

UNSAFE = (
    "The keys are not this auditor's own and of no ceremony that it checked: the provider made them, or this folder "
    "does not say by its own signature who did. The maker of keys can forge proofs under them, so nothing here binds "
    "the provider."
)

ANOTHERS_KEYS = (
    "The keys are another auditor's, by this auditor's own trust in it. That auditor can forge proofs under them, so "
    "what is proven binds the provider only if the two do not work together."
)

NO_VERDICT = (
    "This is not a verdict. Nothing that the provider signed was found wrong, and nothing was found right either: the "
    "step that is named could not be decided, and its way out says what would decide it."
)


GUARDED = (
    "What the guard achieves. Of every answer one text is withheld: the nearest to the question if the guard takes it "
    "for too near, otherwise the farthest. Every epsilon here is that of the lists with all their texts, so it holds "
    "with one less. Which one is withheld rests on the provider's word. Lists and flags still show that something near "
    "is there, and show the same slot again and again to an account that asks about one document often."
)


def listing(tenants: Sequence[str]) -> str:
    """Names as lines write them: the provider chose them, and none with a comma is to be read as two tenants."""
    return ", ".join(map(word, tenants))


def shared(lower: Sequence[str]) -> str:
    """What tenants of a lower claim mean for documents that stand in their indices, too.  SPEC D.24.6."""
    return (
        f"In windows of this log the tenants {listing(lower)} have a lower claim than others. A document "
        "that stands in the indices of several tenants has the weakest of their claims: accounts of these tenants may "
        "work together, and learn about it in whichever index shows more. Which document stands where is the "
        "provider's affair, and no log shows it."
    )


#: Notes that stand before all others where they apply.
QUALIFIED = (SAMPLED, SAMPLED_NO_EPSILON, SAMPLED_ALL, UNSAFE)
SAMPLED_LINKS = "The certificate of the coalition estimate is a sample."


def in_full(budget: PeriodBudget, claimed: Claimed) -> str:
    """What a verdict claims, with the value of every symbol in it."""
    return f"{budget.claim.text(budget.slots)} {here(budget, claimed)}"


def of_tenants(budgets: Sequence[PeriodBudget], claims: Sequence[Claimed], lower: Sequence[str]) -> str:
    """What a verdict claims for each tenant: the weakest claim first, and of several whose each is.

    Args:
        lower: tenants that have a lower claim than others in a window of the log.
    """
    said = [in_full(*one) for one in zip(budgets, claims, strict=True)]
    beside = f" {shared(lower)}" if lower else ""
    if len(said) < 2:
        return f"{said[0]}{beside}"
    named = [listing(one.tenants) for one in budgets]
    others = [f"For {names} it is this: {text}" for names, text in zip(named[1:], said[1:], strict=True)]
    return f"{said[0]} This holds for the tenants {named[0]} of the window. {' '.join(others)}{beside}"


def here(budget: PeriodBudget, claimed: Claimed) -> str:
    """The values of the claim's symbols, the budget period and whose word they rest on."""
    windows = counted(len(budget.windows), "window")
    lows = sorted({one.policy.lo for one in budget.windows})
    symbols = budget.claim.symbols(claimed, " or ".join(f"{low / SCORE_UNIT**2:.6g}" for low in lows))
    if not budget.claim.form.private:
        return f"Here {symbols}."
    said = f"Here {symbols}, over {windows} of the budget period that begins at {minute_text(claimed.period_from)}."
    if claimed.left_out:
        name = "epsilon" if budget.claim.form.numbered else "unseen"
        whole = "not known to this auditor" if claimed.epsilon_log == NOT_KNOWN else claimed.epsilon_log
        said += f" Windows of the log outside of it: {claimed.left_out}; {name} with them: {whole}."
    return said


def sampled_estimate(estimation: Estimation) -> str:
    """What a sampled certificate of the estimate leaves open, in plain words."""
    parts = []
    for one in estimation.tenants:
        if one.certificate != FULL:
            sure = f"{float(one.caught.confidence):.0%}"
            told = [f"{h} with at most {d} at one record" for d, h in one.caught.links.items() if h is not None]
            parts.append(
                f"tenant {one.tenant}: {one.blocks} random sets of records were checked. "
                + ("" if one.complete else "Pairs that its links join by way of others count as listed. ")
                + (
                    f"With {sure} confidence that shows any {one.caught.group} records that all link to each other "
                    f"without being listed, and unlisted links in such numbers: {'; '.join(told)}; fewer may have gone "
                    "unnoticed"
                    if told and one.caught.group is not None
                    else f"So few show nothing with {sure} confidence"
                )
            )
    return f"{SAMPLED_LINKS} " + ". ".join(parts) + "."


NO_PART = "This auditor had no part in the window's beacon."


def anothers_beacon(owner: str) -> str:
    """What a verdict says that rests on another auditor's part in the beacon."""
    return (
        f"{NO_PART} That nobody chose it, and that the window is not dated back, "
        f"rests on {owner}, whose nonce was in it, and on the provider's clock."
    )
