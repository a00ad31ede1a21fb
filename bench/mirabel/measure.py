# SPDX-License-Identifier: GPL-3.0-or-later
"""The paper's tables on one corpus and embedder: normality, detection, attacks, utility, composition with noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ks_2samp, normaltest

from bench.mirabel.attacks import IA, MBA, S2MIA, Attack
from bench.mirabel.corpus import Corpus, embed, words
from bench.mirabel.defence import CLEAN, DEFENCES, RETURNED, Index, Scores, found
from ragseal.generators import Generator
from ragseal.kernel.policy import FORMULAS, PAPER, PRECISE
from ragseal.prover.commitment.guard import Rule

RHOS = (0.001, 0.01, 0.05, 0.1, 0.2)
CONTEXTS = 3  #: texts that a generator gets, as in the paper
DEPTHS = (5, 20)  #: of the utility table


@dataclass(frozen=True, slots=True)
class Setting:
    """How much is measured."""

    embedder: str
    seed: int
    targets: int  #: of members, and as many others
    benign: int
    questions: int
    rho: float = 0.05


@dataclass(frozen=True, slots=True)
class Asked:
    """One attack's queries about targets, members first: rows of ``index`` and the targets that they are about."""

    attack: Attack
    names: list[str]
    texts: list[str]
    members: int
    rows: list[list[int]]  #: of each target
    index: Index

    @property
    def scores(self) -> Scores:
        return self.index.scores

    def of(self, member: bool) -> list[int]:
        """Rows of members' targets, or of the others'."""
        part = self.rows[: self.members] if member else self.rows[self.members :]
        return [row for rows in part for row in rows]


def attacks_of(corpus: Corpus, seed: int, asked: dict[str, list[tuple[str, str]]] | None) -> list[Attack]:
    known = Counter(word for text in corpus.members.values() for word in set(words(text)))
    return [S2MIA(), MBA(seed), IA(known, asked)]


def ask(corpus: Corpus, attack: Attack, vectors: Scores, setting: Setting) -> Asked:
    """An attack's queries about members and others, and their scores against the index."""
    inside, outside = list(corpus.members.items())[: setting.targets], list(corpus.others.items())[: setting.targets]
    targets = [*inside, *outside]
    texts: list[str] = []
    rows: list[list[int]] = []
    for name, text in targets:
        made = attack.queries(name, text)
        rows.append(list(range(len(texts), len(texts) + len(made))))
        texts += made
    scores = embed(setting.embedder, texts, "query") @ vectors.T
    index = Index(np.asarray(scores, dtype=np.float32), setting.embedder, setting.seed)
    return Asked(attack, [n for n, _ in targets], texts, len(inside), rows, index)


# --- table 1 ---------------------------------------------------------------------------------------------------------


def normality(scores: Scores) -> dict[str, float]:
    """Mean p of D'Agostino's and Pearson's test over queries, of all scores and without the largest."""
    without = [np.sort(row)[:-1] for row in scores]
    return {
        "all": float(np.mean([normaltest(row).pvalue for row in scores])),
        "without": float(np.mean([normaltest(row).pvalue for row in without])),
    }


# --- tables 2 and 8 --------------------------------------------------------------------------------------------------


def rates(positive: Sequence[bool], negative: Sequence[bool]) -> dict[str, float]:
    """Accuracy, precision, recall and F1; precision without a finding is 0."""
    tp, fp = sum(positive), sum(negative)
    recall = tp / len(positive) if positive else 0.0
    precision = tp / (tp + fp) if tp + fp else 0.0
    total = len(positive) + len(negative)
    return {
        "accuracy": (tp + len(negative) - fp) / total if total else 0.0,
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
    }


def detection(asked: Asked, benign: Index, rule: Rule, listed: bool) -> dict[str, dict[str, float]]:
    """Table 2 (negatives half attacks on others, half benign) and table 8 (benign alone), balanced.

    Args:
        listed: by the product's guard on its list; else by algorithm 1 on clean scores.
    """
    if listed:
        attacked = np.array([asked.index.found_in_list(i, rule) for i in range(len(asked.texts))])
        quiet = np.array([benign.found_in_list(i, rule) for i in range(len(benign.scores))])
    else:
        attacked, quiet = found(asked.scores, rule), found(benign.scores, rule)
    inside, outside = attacked[asked.of(True)].tolist(), attacked[asked.of(False)].tolist()
    half = min(len(inside) // 2, len(outside), len(quiet))
    mixed = [*outside[:half], *quiet.tolist()[:half]]
    most = min(len(inside), len(quiet))
    return {"table2": rates(inside[: len(mixed)], mixed), "table8": rates(inside[:most], quiet.tolist()[:most])}


# --- tables 4, 5, 6 and 9 --------------------------------------------------------------------------------------------


def best_threshold(inside: Sequence[float], outside: Sequence[float]) -> float:
    """The score from which an attacker says member, most accurate on these; of equal ones the lowest."""
    places = sorted({*inside, *outside, max([*inside, *outside]) + 1})
    return max(places, key=lambda t: (sum(x >= t for x in inside) + sum(x < t for x in outside), -t))


def membership(inside: Sequence[float], outside: Sequence[float]) -> dict[str, float]:
    """How well scores tell members: threshold from one half of the targets, measured on the other."""
    cut_in, cut_out = len(inside) // 2, len(outside) // 2
    at = best_threshold(inside[:cut_in], outside[:cut_out])
    measured = rates([x >= at for x in inside[cut_in:]], [x >= at for x in outside[cut_out:]])
    statistic = float(ks_2samp(inside[cut_in:], outside[cut_out:]).statistic)
    adjusted = max(measured["accuracy"], 1 - measured["accuracy"]) - 0.5
    return {**measured, "adjusted": adjusted, "ks": statistic}


def attacked(asked: Asked, corpus: Corpus, generator: Generator, defence: str, rule: Rule) -> dict[str, Any]:
    """An attack against a defence, by the answers that a generator makes of what is read.

    ``by_slot``: what the withheld slot's number says to whoever asks about one text often, texts aside.
    """
    documents = list(corpus.members.values())
    told: list[float] = []
    slots: list[float] = []
    for name, rows in zip(asked.names, asked.rows, strict=True):
        text = corpus.members.get(name) or corpus.others[name]
        seen = [asked.index.seen(row, defence, CONTEXTS, rule) for row in rows]
        answers = [
            generator.answer(asked.texts[row], [documents[i] for i in one.texts])
            for row, one in zip(rows, seen, strict=True)
        ]
        told.append(asked.attack.score(name, text, answers))
        kept = Counter(one.withheld for one in seen if one.withheld is not None)
        slots.append(max(kept.values(), default=0) / len(rows))
    out: dict[str, Any] = membership(told[: asked.members], told[asked.members :])
    if defence == RETURNED and any(len(rows) > 1 for rows in asked.rows):
        out["by_slot"] = membership(slots[: asked.members], slots[asked.members :])
    return out


# --- tables 3 and 7 --------------------------------------------------------------------------------------------------


def utility(
    corpus: Corpus, vectors: Scores, generator: Generator, setting: Setting, rule: Rule
) -> dict[str, dict[str, float]]:
    """R@k of a question-answer set under every defence, and EM@k of its questions that have answers in words."""
    asked = corpus.questions[: setting.questions]
    names, documents = list(corpus.members), list(corpus.members.values())
    scores = embed(setting.embedder, [one.text for one in asked], "query") @ vectors.T
    index = Index(np.asarray(scores, dtype=np.float32), setting.embedder, setting.seed + 1)
    out: dict[str, dict[str, float]] = {}
    for defence in DEFENCES:
        cell = out.setdefault(defence, {})
        for k in DEPTHS:
            right, recalled, worded = 0, 0, 0
            for at, one in enumerate(asked):
                seen = index.seen(at, defence, k, rule).texts
                texts = [documents[i] for i in seen]
                recalled += _in(one.answers, texts) or bool(set(one.relevant) & {names[i] for i in seen})
                if one.answers:
                    worded += 1
                    right += _in(one.answers, [generator.answer(one.text, texts)])
            cell[f"R@{k}"] = recalled / max(1, len(asked))
            if worded:
                cell[f"EM@{k}"] = right / worded
    return out


def _in(answers: Sequence[str], texts: Sequence[str]) -> bool:
    return any(answer.lower() in text.lower() for answer in answers for text in texts)


# --- all -------------------------------------------------------------------------------------------------------------


def measure(
    corpus: Corpus, generator: Generator, setting: Setting, asked_of: dict[str, list[tuple[str, str]]] | None = None
) -> dict[str, Any]:
    """Every table of one corpus and embedder."""
    documents = list(corpus.members.values())
    vectors = embed(setting.embedder, documents, "document")
    benign_scores = embed(setting.embedder, list(corpus.benign[: setting.benign]), "query") @ vectors.T
    benign = Index(np.asarray(benign_scores, dtype=np.float32), setting.embedder, setting.seed)
    rules = {formula: Rule(setting.rho, formula) for formula in FORMULAS}
    out: dict[str, Any] = {
        "corpus": corpus.name,
        "embedder": setting.embedder,
        "documents": len(documents),
        "generator": generator.name,
        "normality": {"benign": normality(benign.scores)},
        "false_positives": {f: float(found(benign.scores, rule).mean()) for f, rule in rules.items()},
        "detection": {},
        "rho": {},
        "attacks": {},
    }
    for attack in attacks_of(corpus, setting.seed, asked_of):
        asked = ask(corpus, attack, vectors, setting)
        out["normality"][attack.name] = normality(asked.scores[asked.of(True)])
        out["detection"][attack.name] = {
            **{formula: detection(asked, benign, rule, False) for formula, rule in rules.items()},
            RETURNED: detection(asked, benign, rules[PRECISE], True),
        }
        out["rho"][attack.name] = {
            str(rho): {formula: detection(asked, benign, Rule(rho, formula), False)["table2"] for formula in FORMULAS}
            for rho in RHOS
        }
        out["attacks"][attack.name] = {
            defence: attacked(asked, corpus, generator, defence, rules[PRECISE]) for defence in DEFENCES
        }
        out["attacks"][attack.name]["clean, paper"] = attacked(asked, corpus, generator, CLEAN, rules[PAPER])
    out["utility"] = utility(corpus, vectors, generator, setting, rules[PRECISE])
    return out
