# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's policy: a public score window, the gain that gives TARGET_MU, and budgets that fit its queries.

Window and theta depend on the embedder.  The default one's stand here; for any other they are measured on the demo's
own corpus and queries, which are public: a provider may do so with public texts, never with a tenant's (SPEC M.2).
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice

import numpy as np

from ragseal.accounting.audit import epsilon_audit
from ragseal.accounting.rounding import upward
from ragseal.circuits.circuit import load_classes
from ragseal.demo.corpus import COLLUDING
from ragseal.demo.scenario import Scenario
from ragseal.embedder import Embedder, quantise
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.fixedpoint import least_repeat
from ragseal.kernel.noise import build_table
from ragseal.kernel.params import SCORE_UNIT
from ragseal.prover.commitment.corpora import open_corpus

TARGET_MU = 3.0  #: score window over noise scale of one query: what the demo pays for useful answers
DOCUMENTS = 256  #: of each tenant, that the window of another embedder is measured on
ABOVE = 0.9  #: share of documents that score below the window: ten of a thousand come back


@dataclass(frozen=True, slots=True)
class Choice:
    """A score window in cosines, and the cosine from which on two queries count as linked."""

    lo: float
    hi: float
    theta: Fraction


MINILM = Choice(0.3, 0.7, Fraction(9, 10))


def measured(plan: Scenario, embedder: Embedder) -> Choice:
    """A window around the highest tenth of scores; theta half way from strangers' most alike queries to a repeat.

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
    hi = max(lo + 0.05, math.ceil(100 * float(cosines.max())) / 100)

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
    return Choice(lo, min(1.0, hi), Fraction((max(0, nearest) + repeat) // 2, SCORE_UNIT**2))


def coalition_epsilon(text: str) -> str:
    """Epsilon of the coalition under a policy file of :func:`policy_text`, as `commit` wants it said: rounded up."""
    values = tomllib.loads(text)
    cls = load_classes()[values["class"]]
    report = epsilon_audit(
        cls,
        build_table(cls.law),
        gain=values["gain"],
        lo=round(Fraction(str(values["lo"])) * SCORE_UNIT**2),
        hi=round(Fraction(str(values["hi"])) * SCORE_UNIT**2),
        k_max=values["k_max"],
        n_max=values["n_max"],
        delta=Fraction(values["delta"]),
    )
    return upward(report.epsilon)


def policy_text(plan: Scenario, choice: Choice) -> str:
    """A policy file for the demo's window."""
    cls = load_classes()[plan.class_name]
    asked = max(sum(q.account == a for q in plan.queries) for a in plan.accounts)
    width = round(choice.hi * SCORE_UNIT**2) - round(choice.lo * SCORE_UNIT**2)
    scale = 256 if cls.law == "gaussian" else 32
    gain = max(1, round(TARGET_MU * (scale << cls.s) / width))
    return (
        f'class = "{cls.name}"\nclaim = "every-list"\n'
        f"lo = {choice.lo:.2f}\nhi = {choice.hi:.2f}\ngain = {gain}\nn_max = {asked}\n"
        f'k_max = {len(COLLUDING)}\ndelta = "1/1000000"\ntheta = "{choice.theta}"\n'
    )
