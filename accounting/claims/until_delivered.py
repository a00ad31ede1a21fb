# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered": any accounts and queries, until a document is delivered to them.  SPEC Claims, D.11.7.

A period has two numbers, *unseen*, which is the claim's epsilon, and *return*, which stands beside it
(:mod:`ragseal.accounting.delivered`).  Each throw of coins counts once for all windows that carry it on, also that of a
window which never opened: its provider knew the coins and may have begun again because it did not like them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ragseal.accounting import guess
from ragseal.accounting.bands import band_of
from ragseal.accounting.claims import notes
from ragseal.accounting.claims.bound import Around, Bound, Report, Values, finite, number
from ragseal.accounting.claims.claim import Claim, one_claim
from ragseal.accounting.claims.planned import Planned, Row, Wanted
from ragseal.accounting.delivered import CoinThrows, Delivered, fewest_hidden
from ragseal.accounting.delivered_period import delivered_period, delivered_window, without_a_return
from ragseal.accounting.delivered_words import (
    chance_in_words,
    hidden_in_words,
    return_in_words,
    unseen_in_words,
)
from ragseal.accounting.guess import STRONG, absence_in_words, presence_odds, times
from ragseal.accounting.promises import Promised, promise
from ragseal.accounting.rounding import for_people, upward
from ragseal.accounting.spent import Spent
from ragseal.kernel.claims import EXACT, UNSEEN, UNTIL_DELIVERED
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.params import COIN_BITS
from ragseal.kernel.policy import Policy, rational
from ragseal.kernel.verdict import Claimed

RETURN = 6.0  #: recommended, and a plan's target where none is given
ACCOUNTS = 1000  #: whose queries share delta in a plan; a commit counts those that are registered

TEXT = (
    "For a slot of a tenant's index that holds a document, and the same index with that slot empty, everything else "
    "being equal, and any number of accounts that choose any number of queries from everything received. Delivered is "
    "the document by a list that has its slot, at a query for which it scores above the window's lower end. (1) No "
    "test on all that these accounts are sent says more often that the document is there where it is than where it is "
    "not, by more than the probability that it is delivered to one of them, up to delta. (2) All that they are sent is "
    "at most e^unseen times as likely without the document as with it, texts included. (3) All that they are sent up "
    "to the first list that delivers it, of that list without the flag and the text that deliver it, is at most "
    "e^return times as likely with the document as without it, up to delta. "
    "Computationally (SIM-CDP)."
)

_DOES_NOT_SAY = (
    "That a document is not read: an account that knows what to ask for is handed it, unless its coin hides it.",
    "What a provider would have done. Coins that were thrown and not used are counted; those that it would have thrown "
    "again, had it not liked these, cannot be: a provider that begins again unless a document is visible tells by not "
    "beginning again what it saw.",
    "Windows outside of the budget period and their coins, which the line counts as left_out and periods_left_out: the "
    "provider says when a period begins. Beside them the line has epsilon of the whole log.",
    "Documents that were put into a window which carries on an earlier one's coins, or while a window with coins was "
    "open (the line says late=unproven then): the provider knew the coins when it placed them. If it did not choose "
    "their slots by the coins, the claim holds for them as for the others.",
    "That an index has more documents than places: that its number of shards grows, or that coins are thrown anew for "
    "want of places, tells everybody that the largest tenant had more additions than places.",
    "What is known of a document's later changes and deletion to those who were handed it.",
    "A document of which copies or near copies stand in the index, or that fills more slots than chunks_max: m of them "
    "count as one document of m slots, and whether there are any nobody checks.",
    "Return bounds how often a slot comes back, and nothing of reading: a slot without its text is weak evidence, and "
    "no more is claimed.",
)
_HANDED = "That a document is not read: an account that knows what to ask for is handed it, unless its coin hides it."
_COIN = (
    ("one coin for each slot, the same for everybody", "step 4: hidden slots are empty in the columns of all records"),
    ("nobody chose the coins", "steps 2 and 5: C_coin before the beacon that threw them, this auditor's nonce last"),
    ("every throw of the period counts", "step 11: windows that never opened are counted if their coins were known"),
    ("texts are opened for flagged ids only", "flags are proven with the ids (step 8); what is opened, accounts check"),
)
_LATE = "where a document stands does not depend on coins that are known already"
_AFTER_THE_THROW = "the provider's word, for what was put after a coin period's coins were thrown (A.11.6)"


@dataclass(frozen=True, slots=True)
class CoinBound(Bound):
    """Unseen and return."""

    promise: Delivered
    asked: int  #: by all accounts

    @property
    def epsilon(self) -> float:
        return self.promise.epsilon

    @property
    def queries(self) -> int:
        return self.asked

    @property
    def returned(self) -> float:
        return self.promise.returned

    @property
    def accountant(self) -> str:
        return UNTIL_DELIVERED

    @property
    def disagreement(self) -> str:
        return "" if self.promise.routes.agree else "the table's and the ideal law's numbers disagree"

    @property
    def boundless(self) -> str:
        if math.isfinite(self.epsilon):
            return ""
        return "no finite return follows at this delta: fewer ids, fewer queries, or fewer slots of a document"

    def evidence(self, delta: Fraction) -> Values:
        found, routes = self.promise, self.promise.routes
        return {
            "unseen": found.unseen, "coin_periods": found.periods, "returned": found.returned,
            "epsilon_audit": found.epsilon, "delta": float(delta), "delta_items": dict(found.items),
            "queries": self.queries, "unseen_by_two_routes": list(routes.unseen),
            "return_by_two_routes": list(routes.returned),
        }  # fmt: skip

    def details(self, around: Around) -> Values:
        found, routes = self.promise, self.promise.routes
        return {
            "unseen": found.unseen, "unseen_of_one_coin_period": found.unseen_once, "coin_periods": found.periods,
            "return": found.returned, "chance": found.chance,
            "ids_listed_by_chance": found.listed_by_chance, "share_of_documents_hidden": found.hidden_share,
            "delta_items": dict(found.items), "unseen_by_two_routes": list(routes.unseen),
            "return_by_two_routes": list(routes.returned), "late": "unproven" if around.late else None,
            "windows_that_never_opened": list(around.unopened),
            "windows_left_out_that_never_opened": list(around.unopened_outside),
        }  # fmt: skip

    def line(self, around: Around) -> str:
        said = f" periods={self.promise.periods} chance={upward(self.promise.chance)}"
        return said + (f" periods_left_out={around.throws_left_out}" if around.throws_left_out else "")

    def conditions(self, policies: Sequence[Policy], late: bool) -> list[Values]:
        placed = notes.on_the_providers_word([_LATE] if late else [], _AFTER_THE_THROW)
        return [notes.empty_scores_lowest(policies), *placed, *notes.held((*_COIN, *notes.BY_THE_CIRCUIT))]

    def guess(self, account: float, delta: float, k_max: int) -> Values:
        unseen = self.promise.unseen
        absent, _ = presence_odds(unseen)
        said = f"over the period any number of accounts, whatever they ask, {absence_in_words(unseen)}"
        if unseen > STRONG:
            said += f"; above unseen {STRONG:g} such a bound hardly protects anybody"
        return {
            "account_per_cent": absent,
            "coalition_per_cent": absent,
            "account_band": band_of(unseen).name,
            "coalition_band": band_of(unseen).name,
            "coalition_accounts": None,
            "even_odds_per_cent": 50.0,
            "formula": "1 / (1 + e^-unseen): docs/proofs/until-delivered.md, theorems 1 and 2",
            "sentence": said,
        }

    def foreseen(self) -> Values:
        found = self.promise
        return {
            "epsilon": finite(found.epsilon), "unseen": found.unseen, "return": finite(found.returned),
            "coin_periods": found.periods, "hidden_share": found.hidden_share, "chance": found.chance,
            "listed_once": found.listed_once, "listed_by_chance": found.listed_by_chance,
            "queries": self.queries,
        }  # fmt: skip


class CoinPlan(Planned):
    """The return against answers: epsilon is unseen, which nothing but the coin moves."""

    bound = "return"
    usual = RETURN
    cheaper = "return more (--returned), "
    line = "-"

    def queries(self, n_max: int, k_max: int) -> int:
        return n_max * ACCOUNTS

    def hidden(self, unseen: float | None) -> int:
        return 0 if unseen is None else fewest_hidden(unseen, chunks=1, periods=1)

    def cost(self, wanted: Wanted) -> tuple[float, Delivered]:
        cls = wanted.cls
        one = Promised(cls, wanted.ids, wanted.decoy_rate, wanted.shards, wanted.queries, wanted.n_max)
        coins = CoinThrows(hidden=wanted.hidden, periods=1)
        found = promise(cls, [one], coins=coins, chunks=1, delta=wanted.delta)
        return (found.epsilon if found.routes.agree else math.inf), found

    def pairs(self, n_max: Sequence[int], k_max: Sequence[int]) -> list[tuple[int, int]]:
        """One: no number of queries changes its epsilon."""
        return [(n_max[0], k_max[0])]

    def reasons(self) -> list[str]:
        return [
            "the windows of a budget period share their coins, so unseen counts once, as the return does; a throw more "
            "(another unseen or auditor, or --new-coins) adds unseen again",
            "without decoys answers are exact among documents that the coin does not hide, and no return is bounded "
            f"(--claim {UNSEEN}); without the coin they are exact, and nothing is private (--claim {EXACT})",
        ]

    def against(self, n_max: int, k_max: int, delta: Fraction) -> str:
        return (
            f"the claim {UNTIL_DELIVERED} holds against any accounts and queries, at delta {delta} for {ACCOUNTS} "
            f"accounts of {n_max} queries; its epsilon is unseen, which depends on neither number and on no answer"
        )

    def policy_lines(self, unseen: float | None) -> str:
        return f'unseen = {unseen!r}\nestimate = "report"\n'

    def described(self, unseen: float | None) -> str:
        return f"unseen {unseen:g}, "

    def accounts(self, row: Row) -> str:
        return "any"

    def label(self, n_max: int, k_max: int) -> str:
        return "any accounts"

    def traded(self, row: Row) -> float:
        return float(row["return"])

    def protects(self, row: Row) -> float:
        return float(row["unseen"])

    def headline(self, row: Row) -> str:
        return f"Any number of accounts {absence_in_words(row['unseen'])} (unseen {upward(row['unseen'])})."

    def guess(self, row: Row) -> str:
        """Whether a document is there that was not handed to anybody of the coalition."""
        return f"{presence_odds(row['unseen'])[0]:g} %"

    def sentences(self, row: Row, which: str, quality: str) -> list[str]:
        return [
            f"Bounded would be what any accounts learn about any one document until it is delivered to them: unseen "
            f"{upward(row['unseen'])} at delta {row['delta']}, under the policy that is {which}; beside it stands "
            f"{guess.return_in_words(row['return'])}.",
            f"Any number of accounts {absence_in_words(row['unseen'])}; {row['hidden_share']:.1%} of the documents are "
            f"found by nobody; {quality}",
        ]


class UntilDelivered(Claim):
    """The claim with a coin."""

    name = UNTIL_DELIVERED
    planned = CoinPlan()
    not_probed = "its coin may hide the planted slot from everybody, and a probe would say nothing"
    alone_is = "epsilon_of_this_window"
    gives, advertised_to = "its coin gives", ""

    def counted(self, windows: Sequence[Spent]) -> Sequence[Spent]:
        """All of them: coins that were known count."""
        return windows

    def account(self, windows: Sequence[Spent], delta: Fraction) -> CoinBound:
        found = delivered_period(windows, delta)
        one_claim([one.policy for one in windows if one.queries] or [one.policy for one in windows])
        return CoinBound(found, sum(one.all_queries for one in windows))

    def alone(self, policy: Policy, cls: AttestationClass, accounts: int) -> CoinBound:
        """Of all that the accounts may ask."""
        found = delivered_window(policy, cls, accounts, rational(policy.delta, "delta"))
        return CoinBound(found, accounts * policy.n_max)

    def row(self, so_far: Sequence[Spent], new: Sequence[Spent], period: Sequence[Spent], delta: Fraction) -> Values:
        found = self.account(so_far, delta)
        promise = found.promise
        return {
            "periods": promise.periods, "queries": found.queries, "unseen": promise.unseen,
            "returned": promise.returned, "epsilon": found.epsilon,
        }  # fmt: skip

    # --- what a verdict says ---

    def text(self, slots: int = 1) -> str:
        return notes.several_slots(TEXT, slots, f"unseen and return are {slots} times those of one slot")

    def symbols(self, claimed: Claimed, ends: str) -> str:
        return (
            f"unseen is {claimed.epsilon}, return {claimed.returned} and delta {claimed.delta}; the window's lower end "
            f"is cosine {ends}"
        )

    def does_not_say(self) -> list[str]:
        others = [note for note in notes.DOES_NOT_SAY if note not in notes.ABOUT_COALITIONS]  # any accounts are covered
        return [*_DOES_NOT_SAY, *others]

    def in_short(self) -> list[str]:
        return [notes.READ, _HANDED, *notes.SHORT]

    def word(self, late: bool) -> frozenset[str]:
        return frozenset({"late"} if late else ())

    # --- how a report of it reads ---

    question = (
        "Somebody was not handed a document, starts from even odds (50 %) that it is there, and guesses from all that "
        "was answered that it is not. How often may the guess be right?"
    )

    def grades(self, report: Report) -> list[tuple[str, float, float]]:
        return [("any number of accounts, of a document that they were not handed", _unseen(report), 0.0)]

    def guesses(self, report: Report) -> tuple[str, str]:
        odds = self.guessed(_unseen(report), report)
        return odds, odds

    def guessed(self, epsilon: float, report: Report) -> str:
        return f"{presence_odds(epsilon)[0]:g} %"

    def headline(self, report: Report, found: tuple[str, str]) -> str:
        return f"Any number of accounts, whatever they ask, {absence_in_words(_unseen(report))}."

    def bounded(self, report: Report) -> str:
        return (
            "Bounded is what any number of accounts that work together, whatever and however often they ask, can tell "
            f"about any one document of a tenant, until it is delivered to one of them; {_hidden(report)} of the "
            "documents are hidden from everybody for the period, and nobody can tell which."
        )

    def strength(self, report: Report, found: tuple[str, str], weak: bool) -> str:
        return (
            f"How {'weak' if weak else 'strong'}: any number of accounts {absence_in_words(_unseen(report))}. Apart "
            f"from that, the id of a slot is returned at most {_times(report)} times as often as that of an empty slot "
            "by chance, which is no promise about reading."
        )

    def facts(self, report: Report) -> list[tuple[str, Any]]:
        returned = for_people(report["epsilon"]["return"], bound=True)
        often = f"{_times(report)} times as often as an empty slot's by chance"
        return [(f"return {returned}: a slot's id comes back at most", often), ("documents hidden", _hidden(report))]

    # --- what a provider is told ---

    def target_refused(self, epsilon: float | None, returned: float | None) -> str:
        if epsilon is None:
            return ""
        return (
            f"epsilon of the claim {self.name} is unseen, whatever is answered: give --unseen, and --return for how "
            "often a slot's id may come back"
        )

    def spent_row(self, row: Values) -> Values:
        return {
            "window": row["window"], "coin_periods": row["periods"], "queries": row["queries"], "unseen": row["unseen"],
            "return": finite(row["returned"]), "epsilon": finite(row["epsilon"]),
        }  # fmt: skip

    def spent_words(self, row: Values, asked: int) -> str:
        return (
            f", up to window {row['window']}: {_count(row['coin_periods'])} and unseen {number(row['unseen'])} are "
            f"spent; delta counts the {row['queries']} queries that all accounts may ask, {asked} were asked"
        )

    def foreseen_words(self, values: Values) -> str:
        return (
            f"with this window an auditor will certify epsilon {number(values['epsilon'])} for any accounts, which is "
            f"unseen over {_count(values['coin_periods'])}; beside it stands return {number(values['return'])}"
        )

    def terms(self, policy: Policy, account: float, epsilon: float, foreseen: Report) -> Values:
        found: Values = {"hidden_share": policy.hidden / (1 << COIN_BITS)}
        if "unseen" in foreseen:
            found |= {
                name: foreseen[name] for name in ("unseen", "return", "chance", "listed_once", "listed_by_chance")
            }
            found["presence_odds"] = presence_odds(foreseen["unseen"])
        return found

    def terms_words(self, values: Report, policy: Policy, cls: AttestationClass, returned: Sequence[str]) -> list[str]:
        out = [returned[0], hidden_in_words(values["hidden_share"]), *returned[1:]]
        if "unseen" in values:
            out += [
                unseen_in_words(values["unseen"]),
                return_in_words(float(values["return"])),
                chance_in_words(values["listed_by_chance"], policy.n_max, cls),
            ]
        return out

    def too_large(self, values: Report, text: str, said: str) -> str:
        return (
            f"epsilon over this budget period, which is unseen, is {text}: it can be proven but promises nearly "
            f"nothing. {said}Begin a new period (period_start; every throw of coins adds its unseen), use less unseen, "
            f"or commit to it all the same with --yes-epsilon-is {text}"
        )

    def way_out(self, policy: Policy, cls: AttestationClass, accounts: int, found: Bound) -> str:
        return without_a_return(policy, cls, accounts)

    def too_little(
        self, policy: Policy, cls: AttestationClass, accounts: int, declared: Fraction, least: Fraction
    ) -> str:
        found = self.alone(policy, cls, accounts).promise
        return (
            f"epsilon_account = {policy.epsilon_account} is less than {float(least):.6g}, which is unseen "
            f'{upward(found.unseen_once)}; advertise at least {float(least):.6g} (or "auto"), or use unseen <= '
            f"{float(declared / policy.chunks_max):.6g}"
        )


def _unseen(report: Report) -> float:
    return float((report["epsilon"] or {})["unseen"])


def _hidden(report: Report) -> str:
    share = (report["epsilon"] or {}).get("share_of_documents_hidden")
    return f"{100 * share:.1f} %" if isinstance(share, int | float) else "some"


def _times(report: Report) -> str:
    found = (report["epsilon"] or {}).get("return")
    return times(found) if isinstance(found, int | float) else "any number of"


def _count(periods: int) -> str:
    return f"{periods} coin period{'' if periods == 1 else 's'}"
