# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict claims and what it does not, as printed with every epsilon.  SPEC D.17 and the claim."""

from __future__ import annotations

from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.policy import ANSWERS, UNTIL_DELIVERED
from ragseal.kernel.verdict import NOT_KNOWN, Claimed, minute_text
from ragseal.runtime.face import counted
from ragseal.verifier.steps.epsilon import PeriodBudget
from ragseal.verifier.steps.estimate import FULL, Estimation

CLAIM = (
    "For two histories of a tenant's index that differ at every moment in at most one slot, and any coalition of k_max "
    "accounts with n_max queries each that choose queries from everything received, the slot-id lists up to and "
    "including the first one containing that slot are (epsilon, delta)-indistinguishable, computationally (SIM-CDP). "
    "Once a slot is returned, its text is read."
)

DELIVERED = (
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

ANSWERED = (
    "For a tenant's documents and the same documents without one, and any number of accounts that choose any number of "
    "questions from everything received: all that these accounts are sent, the texts of answers included, is "
    "(epsilon, delta)-indistinguishable, computationally (SIM-CDP). epsilon counts every answer of the period. The "
    "provider's word is that each proven histogram is that of the tenant's documents, of which one adds at most one to "
    "a keyword's count, that each text was written from question and keywords alone, and that the vocabulary comes "
    "from public data; so is what the number with the filter adds: that a document takes part in no more answers of "
    "the period than the policy says."
)

#: Beside what :func:`does_not_say` takes of :data:`DOES_NOT_SAY`, of the claim answers.
ANSWERED_DOES_NOT_SAY = (
    "That a histogram is of the tenant's documents, each answered alone and counted once: no column gives a histogram, "
    "so a provider could put into one what it likes, within the clip, and knows the noise when it does. What is proven "
    "is that the keywords are those of what it committed to, under noise that nobody chose.",
    "That a document takes part in no more answers than the policy's participations: the provider keeps that count, "
    "and no log shows it. Without its word the epsilon of all answers holds.",
    "That texts of answers were written from question and keywords alone. The keywords are proven; their text is not, "
    "and could repeat a document.",
    "That the words of the vocabulary come from public data. They were fixed before the window; words that were taken "
    "from documents would tell of them before anything is asked.",
    "How long an answer takes: it may grow with the documents that take part. Answers should leave on a fixed tick.",
    "A document of which copies or near copies stand in the index under other ids, or more parts than chunks_max: m of "
    "them count as m documents.",
    "That the answer is right.",
)

#: Beside :data:`DOES_NOT_SAY`, of the claim until-delivered.
DELIVERED_DOES_NOT_SAY = (
    "That a document is not read: whoever knows what to ask for is handed it, unless its coin hides it.",
    "What a provider would have done. Coins that were thrown and not used are counted; those that it would have thrown "
    "again, had it not liked these, cannot be: a provider that begins again unless a document is visible tells by not "
    "beginning again what it saw.",
    "Windows outside of the budget period and their coins, which the line counts as left_out and periods_left_out: the "
    "provider says when a period begins. Beside them the line has epsilon of the whole log.",
    "Documents that were put into a window which carries on an earlier one's coins, or while a window with coins was "
    "open (the line says late=unproven then): the provider knew the coins when it placed them. If it did not choose "
    "their slots by the coins, the claim holds for them as for the others.",
    "What is known of a document's later changes and deletion to those who were handed it.",
    "A document of which copies or near copies stand in the index, or that fills more slots than chunks_max: m of them "
    "count as one document of m slots, and whether there are any nobody checks.",
    "Return bounds how often a slot comes back; where the report says that it does not bound reading, a slot without "
    "its text is weak evidence, and no more is claimed.",
)

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
    "How long an answer is: whoever watches an account's line sees it, as encryption hides no length.",
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

SAMPLED = (
    "Only the sampled records were proven. With the stated confidence at most the share beta of all records could be "
    "unprovable; epsilon is conditional on every record being as the sampled ones were."
)

SAMPLED_ALL = "A sample was asked for, hence the verdict's name; it took in every record, and every record was proven."

UNSAFE = (
    "The keys are not this auditor's own and of no ceremony that it checked: the provider made them, or this folder "
    "does not say by its own signature who did. Whoever makes keys can forge proofs under them, so nothing here binds "
    "the provider."
)

ANOTHERS_KEYS = (
    "The keys are another auditor's, by this auditor's own trust in it: whoever makes keys can forge proofs under "
    "them, so what is proven binds the provider as far as that auditor is no friend of its."
)

NO_VERDICT = (
    "This is no verdict. Nothing that the provider signed was found wrong, and nothing was found right either: the "
    "step that is named could not be decided, and its way out says what would decide it."
)


GUARDED = (
    "What the guard achieves. Of every answer one text is withheld: the nearest to the question where the guard takes "
    "it for too near, else the farthest. Every epsilon here is that of the lists with all their texts, so it holds "
    "with one less; which one that is rests on the provider's word. Lists and flags show all the same that something "
    "near is there, and the same slot again and again to whoever asks about one document often."
)

#: Notes that stand before all others where they apply.
QUALIFIED = (SAMPLED, SAMPLED_ALL, UNSAFE)
SAMPLED_LINKS = "The certificate of the coalition estimate is a sample."

_READ = "Texts, once they are shown: whoever is shown one reads it, and nothing is said of what is made of it then."
_COALITIONS = (
    "More accounts than the coalition has, and how many accounts one person holds: that is estimated, not known."
)
_HANDED = "That a document is not read: whoever knows what to ask for is handed it, unless its coin hides it."
_SHORT = (
    "Windows before the budget period, and that the others in it kept their rules: each has a verdict of its own.",
    "That everybody was shown the log that this auditor was shown: receipts and observers tell.",
    "That documents were put, copied and assigned to tenants honestly, and that the provider keeps its secrets.",
    "What happens outside the log, and how long an answer on the wire is.",
)


def in_short(delivered: bool, answered: bool = False) -> list[str]:
    """The limits of a PASS for the first page, beside what rests on the provider's word.

    Args:
        delivered: of the claim until-delivered.
        answered: of the claim answers.
    """
    if answered:  # whose texts and histograms are the provider's word
        return list(_SHORT)
    return [_READ, _HANDED if delivered else _COALITIONS, *_SHORT]


#: Beside a claim, where a document may fill several slots.
SEVERAL_SLOTS = (
    "A document of this period may fill up to {slots} slots, each of them hidden by a coin of its own, and all numbers "
    "here are for such a document whole: {rule}. Of a document that fills one slot they say less than holds."
)
#: The same of the claim answers, where a part has no slot of an answer and no coin.
SEVERAL_PARTS = (
    "A document of this period may stand in the index in up to {slots} parts under ids of their own, each of which "
    "takes part and is counted by itself; all numbers here are for such a document whole, and for one of a single part "
    "they say less than holds."
)
_RULES = {
    True: "unseen and return are {slots} times those of one slot",
    False: "each query counts as {slots} queries (group privacy)",
}


def in_full(budget: PeriodBudget, claimed: Claimed) -> str:
    """What a verdict claims, with the value of every symbol in it."""
    return f"{of(budget.claim, budget.slots)} {here(budget, claimed)}"


def here(budget: PeriodBudget, claimed: Claimed) -> str:
    """The values of the claim's symbols, the budget period and whose word they rest on."""
    windows = counted(len(budget.windows), "window")
    if claimed.claim == UNTIL_DELIVERED:
        lows = sorted({one.policy.lo for one in budget.windows})
        ends = " or ".join(f"{low / SCORE_UNIT**2:.6g}" for low in lows)
        symbols = (
            f"unseen is {claimed.epsilon}, return {claimed.returned} and delta {claimed.delta}; the window's lower end "
            f"is cosine {ends}"
        )
    elif claimed.claim == ANSWERS:
        symbols = f"epsilon is {claimed.epsilon} and delta {claimed.delta}"
    else:
        symbols = f"k_max is {claimed.coalition}, n_max {claimed.queries}, epsilon {claimed.epsilon}"
        symbols += f" and delta {claimed.delta}"
    said = f"Here {symbols}, over {windows} of the budget period that begins at {minute_text(claimed.period_from)}."
    if claimed.left_out:
        whole = "not known to this auditor" if claimed.epsilon_log == NOT_KNOWN else claimed.epsilon_log
        said += f" Windows of the log outside of it: {claimed.left_out}; epsilon with them: {whole}."
    return said


def of(name: str, slots: int = 1) -> str:
    """What a policy's claim says; ``slots``: the most that one document may fill."""
    if name == ANSWERS:
        return ANSWERED if slots == 1 else f"{ANSWERED} {SEVERAL_PARTS.format(slots=slots)}"
    delivered = name == UNTIL_DELIVERED
    said = DELIVERED if delivered else CLAIM
    if slots == 1:
        return said
    rule = _RULES[delivered].format(slots=slots)
    return f"{said} {SEVERAL_SLOTS.format(slots=slots, rule=rule)}"


def does_not_say(name: str) -> list[str]:
    """What it does not say, most important first."""
    if name == ANSWERS:
        left_out = (DOES_NOT_SAY[0], *ABOUT_COALITIONS)
        return [*ANSWERED_DOES_NOT_SAY, *(note for note in DOES_NOT_SAY if note not in left_out)]
    if name != UNTIL_DELIVERED:
        return list(DOES_NOT_SAY)
    # any number of accounts is covered
    return [*DELIVERED_DOES_NOT_SAY, *(note for note in DOES_NOT_SAY if note not in ABOUT_COALITIONS)]


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
