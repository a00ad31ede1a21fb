# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "unseen": coins without decoys.  SPEC Claims, D.11.7, D.23; docs/proofs/decoys.md, section 6.

It is theorems 1 and 2 of the claim until-delivered, in full, and not the third: lists hold nothing by chance, so each
id in one tells for certain that its slot holds a document which the question matches.  No return is bounded, and none
is printed as if it were: a verdict of it has no ``epsilon_audit``.  No query takes a delta, whatever is asked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ragseal.accounting.audit import AGREEMENT
from ragseal.accounting.bands import band_of
from ragseal.accounting.claims import notes
from ragseal.accounting.claims.bound import Around, Bound, Report, Values
from ragseal.accounting.claims.claim import one_claim
from ragseal.accounting.claims.planned import Planned
from ragseal.accounting.claims.until_delivered import UntilDelivered
from ragseal.accounting.delivered import certified_unseen, ideal_unseen
from ragseal.accounting.delivered_words import hidden_in_words, unseen_in_words
from ragseal.accounting.guess import STRONG, absence_in_words, presence_odds
from ragseal.accounting.rounding import upward
from ragseal.accounting.spent import Spent
from ragseal.kernel.claims import UNSEEN, UNTIL_DELIVERED
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.params import COIN_BITS
from ragseal.kernel.policy import Policy
from ragseal.kernel.verdict import UNBOUNDED, Claimed

TEXT = (
    "For a slot of a tenant's index that holds a document, and the same index with that slot empty, everything else "
    "being equal, and any number of accounts that choose any number of queries from everything received. Delivered is "
    "the document by a list that has its slot. (1) No test on all that these accounts are sent says more often that "
    "the document is there where it is than where it is not, by more than the probability that it is delivered to one "
    "of them. (2) All that they are sent is at most e^unseen times as likely without the document as with it, texts "
    "included. Computationally (SIM-CDP). Return is not bounded: lists are exact and have nothing by chance, so a list "
    "that has a slot tells for certain that a document is there which its question matches."
)

_DOES_NOT_SAY = (
    "What a list tells of what is in it: no id comes by chance, so return is not bounded by any number. An account "
    "that was sent a list knows of each of its slots that a document is there, and was handed its text. The claim "
    "until-delivered bounds that, with decoys.",
)
_COIN = (
    ("one coin for each slot, the same for everybody", "step 4: hidden slots are empty in the columns of all records"),
    ("nobody chose the coins", "steps 2 and 5: C_coin before the beacon that threw them, this auditor's nonce last"),
    ("every throw of the period counts", "step 11: windows that never opened are counted if their coins were known"),
)
BEST = (
    (
        "a list has the best of all slots that match and no other, as many as there are up to K",
        notes.PROVEN + "every slot outside of the list is worse than its last or does not match",
    ),
    ("nothing else depends on scores", "step 8: proofs reveal nothing; no refusal depends on a score"),
)


@dataclass(frozen=True, slots=True)
class UnseenBound(Bound):
    """Unseen, and nothing beside it."""

    routes: tuple[float, float]  #: (certified, ideal)
    once: tuple[float, float]  #: of one coin period, the largest
    periods: int
    hidden_share: float
    asked: int  #: by all accounts

    @property
    def unseen(self) -> float:
        """U, in nats: of all coin periods, the larger of the two routes."""
        return max(self.routes)

    @property
    def epsilon(self) -> float:
        return self.unseen

    @property
    def queries(self) -> int:
        return self.asked

    @property
    def returned(self) -> float:
        return math.inf

    @property
    def accountant(self) -> str:
        return UNSEEN

    @property
    def disagreement(self) -> str:
        agree = all(abs(one - other) <= AGREEMENT * other for one, other in (self.routes, self.once))
        return "" if agree else "the two logarithms of the coin disagree"

    def evidence(self, delta: Fraction) -> Values:
        return {
            "unseen": self.unseen, "coin_periods": self.periods, "returned": UNBOUNDED, "queries": self.queries,
            "unseen_by_two_routes": list(self.routes),
        }  # fmt: skip

    def details(self, around: Around) -> Values:
        return {
            "unseen": self.unseen, "unseen_of_one_coin_period": max(self.once), "coin_periods": self.periods,
            "return": math.inf, "share_of_documents_hidden": self.hidden_share,
            "unseen_by_two_routes": list(self.routes), "late": "unproven" if around.late else None,
            "windows_that_never_opened": list(around.unopened),
            "windows_left_out_that_never_opened": list(around.unopened_outside),
        }  # fmt: skip

    def line(self, around: Around) -> str:
        said = f" periods={self.periods}"
        return said + (f" periods_left_out={around.throws_left_out}" if around.throws_left_out else "")

    def conditions(self, policies: Sequence[Policy], late: bool) -> list[Values]:
        word = ["where a document stands does not depend on coins that are known already"] if late else []
        after = "the provider's word, for what was put after a coin period's coins were thrown (A.11.6)"
        placed = notes.on_the_providers_word(word, after)
        return [notes.empty_scores_lowest(policies), *placed, *notes.held((*_COIN, *BEST))]

    def guess(self, account: float, delta: float, k_max: int) -> Values:
        absent, _ = presence_odds(self.unseen)
        said = f"over the period any number of accounts, whatever they ask, {absence_in_words(self.unseen)}"
        if self.unseen > STRONG:
            said += f"; above unseen {STRONG:g} such a bound hardly protects anybody"
        band = band_of(self.unseen).name
        return {
            "account_per_cent": absent, "coalition_per_cent": absent, "account_band": band, "coalition_band": band,
            "coalition_accounts": None, "even_odds_per_cent": 50.0,
            "formula": "1 / (1 + e^-unseen): docs/proofs/until-delivered.md, theorems 1 and 2", "sentence": said,
        }  # fmt: skip

    def foreseen(self) -> Values:
        return {
            "epsilon": self.epsilon, "unseen": self.unseen, "return": UNBOUNDED, "coin_periods": self.periods,
            "hidden_share": self.hidden_share, "queries": self.queries,
        }  # fmt: skip


def unseen_period(windows: Sequence[Spent]) -> UnseenBound:
    """U of windows together: every throw of coins counts once, whether its window opened or not.

    Raises:
        PolicyError: no window, or one that opened under a different claim.
    """
    one_claim([one.policy for one in windows if one.queries] or [one.policy for one in windows])
    chunks = max(one.policy.chunks_max for one in windows)
    throws = {(one.coins, one.policy.hidden) for one in windows if one.policy.hidden}
    of = Counter(hidden for _, hidden in throws)
    routes = [[each(j, chunks, n) for j, n in sorted(of.items())] for each in (certified_unseen, ideal_unseen)]
    once = [max((each(j, chunks, 1) for j in of), default=0.0) for each in (certified_unseen, ideal_unseen)]
    total = math.fsum(routes[0])
    return UnseenBound(
        routes=(total if len(of) == 1 else math.nextafter(total, math.inf), math.fsum(routes[1])),
        once=(once[0], once[1]),
        periods=len(throws),
        hidden_share=max(of, default=0) / (1 << COIN_BITS),
        asked=sum(one.all_queries for one in windows),
    )


class Unseen(UntilDelivered):
    """The claim with a coin and without decoys."""

    name = UNSEEN
    alone_is = "unseen_of_this_window"
    planned: Planned | None = None  # type: ignore[assignment]

    def account(self, windows: Sequence[Spent], delta: Fraction) -> UnseenBound:  # type: ignore[override]
        return unseen_period(windows)

    def alone(self, policy: Policy, cls: AttestationClass, accounts: int) -> UnseenBound:  # type: ignore[override]
        return unseen_period([Spent("", policy, policy.whole(cls), policy.n_max, accounts=accounts)])

    def row(self, so_far: Sequence[Spent], new: Sequence[Spent], period: Sequence[Spent], delta: Fraction) -> Values:
        found = unseen_period(so_far)
        return {"periods": found.periods, "queries": found.queries, "unseen": found.unseen}

    # --- what a verdict says ---

    def text(self, slots: int = 1) -> str:
        return notes.several_slots(TEXT, slots, f"unseen is {slots} times that of one slot")

    def symbols(self, claimed: Claimed, ends: str) -> str:
        return f"unseen is {claimed.epsilon}; the window's lower end is cosine {ends}"

    def does_not_say(self) -> list[str]:
        left_out = ("Return bounds", "Windows that ended before")
        others = (one for one in super().does_not_say() if not one.startswith(left_out))
        return [*_DOES_NOT_SAY, *(one.replace("epsilon", "unseen") for one in others)]

    def in_short(self) -> list[str]:
        return [_DOES_NOT_SAY[0], *super().in_short()]

    # --- how a report of it reads ---

    def strength_number(self, report: Report) -> Any:
        return (report["epsilon"] or {}).get("unseen")

    def bounded(self, report: Report) -> str:
        return f"{super().bounded(report)} How often a slot comes back is not bounded: lists are exact."

    def strength(self, report: Report, found: tuple[str, str], weak: bool) -> str:
        sure = absence_in_words(self.strength_number(report))
        return (
            f"How {'weak' if weak else 'strong'}: any number of accounts {sure}. "
            "Apart from that, a list tells for certain what is in it: return is not bounded."
        )

    def facts(self, report: Report) -> list[tuple[str, Any]]:
        hidden = [fact for fact in super().facts(report) if fact[0] == "documents hidden"]
        return [("return", "not bounded: lists are exact"), *hidden]

    # --- what a provider is told ---

    def target_refused(self, epsilon: float | None, returned: float | None) -> str:
        if returned is not None:
            return f"the claim {self.name} has no decoys and bounds no return: {UNTIL_DELIVERED} has a --return"
        return "" if epsilon is None else f"epsilon of the claim {self.name} is unseen: give --unseen"

    def spent_row(self, row: Values) -> Values:
        return {
            "window": row["window"], "coin_periods": row["periods"], "queries": row["queries"], "unseen": row["unseen"],
            "epsilon": row["unseen"],
        }  # fmt: skip

    def spent_words(self, row: Values, asked: int) -> str:
        return (
            f", up to window {row['window']}: {_count(row['coin_periods'])} and unseen {upward(row['unseen'])} "
            f"are spent; {asked} queries were asked, which no number counts"
        )

    def foreseen_words(self, values: Values) -> str:
        return (
            f"with this window an auditor will certify unseen {upward(values['unseen'])} for any accounts, over "
            f"{_count(values['coin_periods'])}; return is not bounded, and no epsilon is printed"
        )

    def terms(self, policy: Policy, account: float, epsilon: float, foreseen: Report) -> Values:
        found: Values = {"hidden_share": policy.hidden / (1 << COIN_BITS), "return": UNBOUNDED}
        if "unseen" in foreseen:
            found |= {"unseen": foreseen["unseen"], "presence_odds": presence_odds(foreseen["unseen"])}
        return found

    def terms_words(self, values: Report, policy: Policy, cls: AttestationClass, returned: Sequence[str]) -> list[str]:
        return [
            returned[0],
            hidden_in_words(values["hidden_share"]),
            *returned[1:],
            *([unseen_in_words(values["unseen"])] if "unseen" in values else []),
            "return is not bounded: there are no decoys, so whoever is sent a list knows for certain what is in it",
        ]

    def way_out(self, policy: Policy, cls: AttestationClass, accounts: int, found: Bound) -> str:
        return found.boundless

    def too_little(
        self, policy: Policy, cls: AttestationClass, accounts: int, declared: Fraction, least: Fraction
    ) -> str:
        return (
            f"epsilon_account = {policy.epsilon_account} is less than {float(least):.6g}, which is unseen; advertise "
            f'at least {float(least):.6g} (or "auto"), or use unseen <= {float(declared / policy.chunks_max):.6g}'
        )


def _count(periods: int) -> str:
    return f"{periods} coin period{'' if periods == 1 else 's'}"
