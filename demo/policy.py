# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's policy: claim until-delivered, a public score from which on documents match, and RETURN.

That score and theta depend on the embedder.  The default one's stand here, the score being its public one, which the
demo's queries had no part in; for any other they are measured on the demo's own corpus and queries, which are public:
a provider may do so with public texts, never with a tenant's (SPEC M.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice

import numpy as np

from ragseal.circuits.circuit import load_classes
from ragseal.demo.corpus import COLLUDING
from ragseal.demo.scenario import ANSWERED, MOST_ASKED, Scenario
from ragseal.embedder import Embedder, quantise
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.fixedpoint import least_repeat
from ragseal.kernel.noise_class import with_noise
from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.policy import ANSWERS, EVERY_LIST, UNTIL_DELIVERED
from ragseal.prover.commitment.corpora import open_corpus
from ragseal.prover.planning.budgets import UNSEEN, Budget
from ragseal.prover.planning.candidates import Window
from ragseal.prover.planning.lists import lists_policy

DELTA = Fraction(1, 10**6)
DOCUMENTS = 256  #: of each tenant, that another embedder's scores are measured on
ANSWERS_GAIN = 4  #: steps that one document counts for: 2.5 nats an answer of ten keywords
ANSWERS_COUNTED = 60  #: documents that one keyword counts
ANSWERS_SIMILARITY = 0.35  #: cosine from which a document takes part
ANSWERS_WORDS = 6  #: keywords of one document
ANSWERS_FILTER = 3  #: answers that one document takes part in
ABOVE = 0.9  #: share of documents that do not match
WIDTH = 0.2  #: of the paper's score window, cosine


@dataclass(frozen=True, slots=True)
class Choice:
    """The cosine above which a document matches, and the one from which on two queries count as linked."""

    lo: float
    theta: Fraction


MINILM = Choice(0.3, Fraction(9, 10))


def measured(plan: Scenario, embedder: Embedder) -> Choice:
    """Where the highest tenth of scores begins; theta half way from strangers' most alike queries to a repeat.

    Raises:
        ConfigurationError: the embedder takes queries of strangers for repeats, so no theta tells them apart.
    """
    texts = list(dict.fromkeys(query.text for query in plan.queries))
    asked = quantise(embedder.embed(texts, role="query")).astype(np.int32)
    scores = []
    for tenant, corpus in plan.corpora.items():
        documents = list(open_corpus(corpus))
        thinned = islice(documents, 0, None, max(1, len(documents) // DOCUMENTS))
        rows = quantise(embedder.embed([d.text for d in thinned])).astype(np.int32)
        of_tenant = [texts.index(query.text) for query in plan.queries if query.tenant == tenant]
        scores.append((asked[of_tenant] @ rows.T).ravel())
    cosines = np.concatenate(scores) / SCORE_UNIT**2
    lo = max(0.0, math.floor(100 * float(np.quantile(cosines, ABOVE))) / 100)

    # the least product of a query with its own repeat, and the largest of two accounts that do not collude
    repeat = least_repeat(embedder.dimension)
    nearest = max(
        int(asked[texts.index(a.text)] @ asked[texts.index(b.text)])
        for a, b in combinations(plan.queries, 2)
        if a.account != b.account and not {a.account, b.account} <= set(COLLUDING)
    )
    if nearest >= repeat:
        raise ConfigurationError(
            f"this embedder gives queries of two strangers in the demo cosine {nearest / SCORE_UNIT**2:.3f}, as a "
            "repeat may have: no theta tells them from a coalition"
        )
    return Choice(lo, Fraction((max(0, nearest) + repeat) // 2, SCORE_UNIT**2))


def answers_policy_text(plan: Scenario, vocabulary: str) -> str:
    """A policy file for a window of answers in words; ``vocabulary``: its root."""
    return (
        f'class = "{plan.class_name}"\nclaim = "{ANSWERS}"\nestimate = "report"\nvocabulary = "{vocabulary}"\n'
        f"lo = 0\nhi = {ANSWERS_COUNTED}\ngain = {ANSWERS_GAIN}\nsimilarity = {ANSWERS_SIMILARITY}\n"
        f"words_max = {ANSWERS_WORDS}\nparticipations = {ANSWERS_FILTER}\nn_max = {ANSWERED}\n"
        f'k_max = {len(COLLUDING)}\ndelta = "{DELTA}"\n'
    )


def lists_policy_text(plan: Scenario, embedder: Embedder, choice: Choice) -> str:
    """A policy file for the paper's window: of COLLUDING together an epsilon that is at most plan.most_return."""
    cls, asked, hi = with_noise(load_classes()[plan.class_name]), most_asked(plan), choice.lo + WIDTH
    budget = Budget(asked, len(COLLUDING), DELTA)
    scores = Window.of(choice.lo, hi)
    gain = lists_policy(cls, embedder.dimension, scores, budget, plan.shards, plan.most_return).chosen.gain
    return (
        f'claim = "{EVERY_LIST}"\nlo = {choice.lo:.2f}\nhi = {hi:.2f}\ngain = {gain}\nestimate = "gate"\n'
        f'n_max = {asked}\nk_max = {len(COLLUDING)}\ndelta = "{DELTA}"\ntheta = "{choice.theta}"\n'
    )


def most_asked(plan: Scenario) -> int:
    """Questions of the account that asks most."""
    if plan.own:
        return MOST_ASKED
    return max(sum(query.account == account for query in plan.queries) for account in plan.accounts)


def policy_text(plan: Scenario, choice: Choice) -> str:
    """A policy file for the demo's window: the return, and the score from which on a document matches."""
    return (
        f'claim = "{UNTIL_DELIVERED}"\nunseen = {UNSEEN:g}\nreturn = {plan.most_return:g}\nlo = {choice.lo:.2f}\n'
        f'estimate = "report"\nn_max = {most_asked(plan)}\nk_max = {len(COLLUDING)}\n'
        f'delta = "{DELTA}"\ntheta = "{choice.theta}"\n'
    )
