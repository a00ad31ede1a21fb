# SPDX-License-Identifier: GPL-3.0-or-later
"""DP-KSA's trade-off of privacy and answers: four metrics and the test's pass rate over epsilon and over ensembles.

``python -m bench.dpksa`` writes bench/results/dpksa.json and .png.  Without options it asks a made-up world and answers
with sentences of its documents; ``--questions`` and ``--corpus`` take any questions (NQ-open's layout) and documents,
``--endpoint`` a served model.  What is measured is the provider's own code: histogram, exact draws, final answer.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.answer_files import Asked, made_up, read_questions
from bench.answer_metrics import METRICS, scores
from bench.answered import Answered, Index, answer_all
from bench.experiment import RESULTS, Cell, pyplot, run, save, table
from bench.measured import code_of
from bench.paper import PAGE, insert
from bench.remembering import Remembering
from ragseal.accounting.keyword_release import ReleaseCost, cost_for
from ragseal.embedder import Embedder, load_embedder
from ragseal.generators import ChatGenerator, ExtractiveGenerator, Generator
from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.prover.answers.final import final_answer
from ragseal.prover.answers.release import Range, release
from ragseal.prover.answers.stream import KEY_BYTES, Stream
from ragseal.prover.commitment.corpora import open_corpus
from ragseal.runtime.terminal import progress_bars

EPSILONS = (1, 2, 3, 5, 8)
ENSEMBLES = (10, 20, 40, 60, 80, 100)
ENSEMBLE, EPSILON = 80, 3  #: while the other one is varied
DELTA = Fraction(1, 10**4)  #: of a query, as in the paper
KS = Range(1, 10)
COMPOSED = (1, 10, 100)
ACCOUNTANTS = {"Renyi": False, "exact": True}


@dataclass(frozen=True)
class Plan:
    """What is measured over which numbers."""

    epsilons: tuple[int, ...] = EPSILONS
    ensembles: tuple[int, ...] = ENSEMBLES
    ensemble: int = ENSEMBLE
    trials: int = 20
    accountants: tuple[str, ...] = tuple(ACCOUNTANTS)

    @property
    def most(self) -> int:
        return max(self.ensemble, *self.ensembles)

    def cells(self) -> list[Cell]:
        plain: list[Cell] = [
            {"method": name, "documents": self.ensemble} for name in ("no retrieval", "plain retrieval", "KSA")
        ]
        private: list[Cell] = [
            {"method": "DP-KSA", "accountant": a, "epsilon": e, "documents": self.ensemble}
            for a in self.accountants for e in self.epsilons
        ]  # fmt: skip
        sizes: list[Cell] = [{"method": "KSA", "documents": n} for n in self.ensembles if n != self.ensemble]
        sizes += [
            {"method": "DP-KSA", "accountant": self.accountants[-1], "epsilon": EPSILON, "documents": n}
            for n in self.ensembles
        ]
        return list({str(cell): cell for cell in (*plain, *private, *sizes)}.values())


QUICK = Plan((1, 8), (12, 24), 24, 3, ("Renyi",))


class Measure:
    """From a cell to its numbers; final answers are asked for once for each set of keywords."""

    def __init__(self, generator: Generator, answered: Sequence[Answered], trials: int) -> None:
        self._generator = generator
        self._answered = answered
        self._trials = trials
        self._finals: dict[tuple[str, tuple[str, ...]], str] = {}

    def __call__(self, cell: Cell, random: np.random.Generator) -> dict[str, Any]:
        if cell["method"] == "DP-KSA":
            return self._private(cell, random)
        rows = [scores(self._baseline(cell, one), one.asked.answers) for one in self._answered]
        return _means([list(row.values()) for row in rows])

    def _baseline(self, cell: Cell, one: Answered) -> str:
        if cell["method"] == "no retrieval":
            return one.without
        if cell["method"] == "plain retrieval":
            return one.plain
        histogram = one.histogram(cell["documents"])
        return self._final(one, histogram.top(KS.best(histogram)))

    def _private(self, cell: Cell, random: np.random.Generator) -> dict[str, Any]:
        cost = cost_of(cell["accountant"], cell["epsilon"])
        rows, passes, sizes = [], 0, []
        for one in self._answered:
            drawn = []
            for _ in range(self._trials):
                released = release(one.histogram(cell["documents"]), KS, cost, Stream(random.bytes(KEY_BYTES)))
                passes += released.passed
                sizes += [len(released.words)] if released.passed else []
                drawn.append(list(scores(self._final(one, released.words), one.asked.answers).values()))
            rows.append([math.fsum(column) / len(column) for column in zip(*drawn, strict=True)])
        return {
            **_means(rows),
            "pass_rate": passes / (len(rows) * self._trials),
            "keywords": math.fsum(sizes) / len(sizes) if sizes else 0.0,
        }

    def _final(self, one: Answered, words: tuple[str, ...]) -> str:
        key = (one.asked.question, words)
        if key not in self._finals:
            self._finals[key] = final_answer(self._generator, one.asked.question, words, one.without)
        return self._finals[key]


def _means(rows: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Mean of each metric over the questions, and its standard error."""
    values = np.array(rows)
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else np.zeros(values.shape[1])
    return {
        "scores": dict(zip(METRICS, values.mean(axis=0).tolist(), strict=True)),
        "errors": dict(zip(METRICS, error.tolist(), strict=True)),
    }


@functools.cache
def cost_of(accountant: str, epsilon: int) -> ReleaseCost:
    """The noise of one query at (epsilon, DELTA)."""
    return cost_for(epsilon, DELTA, 1, exact=ACCOUNTANTS[accountant])


def costs(plan: Plan) -> list[dict[str, Any]]:
    """The noise of every epsilon, and what queries cost together by both accountants, at delta of DELTA a query."""
    return [
        {
            "accountant": a, "epsilon": e, "epsilon_k": float(cost.epsilon_k), "variance": float(cost.variance),
            "threshold": cost.threshold,
            "composed": {
                str(n): [cost.renyi_epsilon(n, n * float(DELTA)), cost.epsilon(n, n * float(DELTA))] for n in COMPOSED
            },
        }
        for a in plan.accountants for e in plan.epsilons for cost in [cost_of(a, e)]
    ]  # fmt: skip


def experiment(
    out: Path, plan: Plan, generator: Generator, embedder: Embedder, questions: Sequence[Asked], texts: Sequence[str],
    subject: str, seed: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """All cells.

    Raises:
        AuditError: documents or generator do not suffice; nothing is written then.
    """
    with progress_bars() as bars:
        task = bars.add_task("documents", total=len(texts))
        index = Index(embedder, texts, lambda done, _: bars.update(task, completed=done))
    warmed = embedder if isinstance(generator, ExtractiveGenerator) else None
    answered = answer_all(generator, index, questions, plan.most, warmed)
    said = repr([(one.asked, one.each, one.without, one.plain) for one in answered]).encode()
    setting = {
        "seed": seed, "subject": subject, "generator": generator.name, "questions": len(questions),
        "documents": len(texts), "trials": plan.trials, "answers": hashlib.sha256(said).hexdigest(),
        "delta": float(DELTA), "k": [KS.low, KS.high], "mechanism": code_of("dpksa"),
    }  # fmt: skip
    measure = Measure(generator, answered, plan.trials)
    found = run("DP-KSA", setting, plan.cells(), measure.__call__, out)
    found["costs"] = costs(plan)
    save(out, found)
    return found


def report(found: dict[str, Any]) -> str:
    """Markdown: the methods side by side, ensembles, and what many queries cost."""
    documents = found["cells"][0]["cell"]["documents"]
    rows, sizes = [], []
    for one in found["cells"]:
        cell = one["cell"]
        numbers = [f"{100 * one['scores'][name]:.1f}" for name in METRICS]
        passed = [f"{one['pass_rate']:.2f}", f"{one['keywords']:.1f}"] if "pass_rate" in one else ["-", "-"]
        if cell["documents"] == documents:
            rows.append([cell["method"], cell.get("accountant", "-"), cell.get("epsilon", "-"), *numbers, *passed])
        if cell["method"] in ("KSA", "DP-KSA") and (one in _by_size(found) or cell["method"] == "KSA"):
            sizes.append([cell["documents"], cell["method"], *numbers, *passed])
    priced = [
        [c["accountant"], c["epsilon"], c["epsilon_k"], c["variance"], c["threshold"],
         *(f"{a:.2f} / {b:.2f}" for a, b in c["composed"].values())]
        for c in found["costs"]
    ]  # fmt: skip
    several = [f"{n} quer{'y' if n == 1 else 'ies'}" for n in COMPOSED]
    setting = found["setting"]
    return "\n\n".join((
        f"{setting['questions']} questions, {setting['documents']} documents ({setting['subject']}), answered by "
        f"{setting['generator']}, {setting['trials']} draws each; ensembles of {documents}. Scores in per cent.",
        table(("method", "accountant", "epsilon", *METRICS, "pass rate", "keywords"), rows),
        f"Ensembles, epsilon {EPSILON}:",
        table(("documents", "method", *METRICS, "pass rate", "keywords"), sorted(sizes, key=lambda r: (r[0], r[1]))),
        "Noise of one query, and what several cost (Renyi / exact losses):",
        table(("accountant", "epsilon", "epsilon of k", "variance", "threshold", *several), priced),
    ))  # fmt: skip


def _by_size(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of the ensembles' curve."""
    last = found["costs"][-1]["accountant"]
    return [
        one for one in found["cells"]
        if one["cell"].get("epsilon") == EPSILON and one["cell"]["accountant"] == last
    ]  # fmt: skip


def plot(found: dict[str, Any], path: Path) -> None:
    """Four metrics and the pass rate over epsilon, F1 over ensembles."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.4))
    documents = found["cells"][0]["cell"]["documents"]
    here = [one for one in found["cells"] if one["cell"]["documents"] == documents]
    private = {
        name: [one for one in here if one["cell"].get("accountant") == name] for name in ACCOUNTANTS
    }  # fmt: skip
    for at, metric in zip(axes.flat, METRICS, strict=False):
        for name, cells in private.items():
            if cells:
                at.errorbar([c["cell"]["epsilon"] for c in cells], [100 * c["scores"][metric] for c in cells],
                            [100 * c["errors"][metric] for c in cells], fmt="o-", capsize=3, markersize=4,
                            label=f"DP-KSA, {name}")  # fmt: skip
        for i, one in enumerate(c for c in here if c["cell"]["method"] != "DP-KSA"):
            at.axhline(
                100 * one["scores"][metric], color="grey", linestyle=("-", "--", ":")[i], label=one["cell"]["method"]
            )
        at.set(xlabel="epsilon of a query", ylabel=metric, ylim=(0, 100))
        at.legend(fontsize=7)
    rates, sizes = axes.flat[4], axes.flat[5]
    for name, cells in private.items():
        if cells:
            rates.plot([c["cell"]["epsilon"] for c in cells], [c["pass_rate"] for c in cells], "o-", label=name)
    rates.set(xlabel="epsilon of a query", ylabel="pass rate of the test", ylim=(0, 1))
    rates.legend(fontsize=7)
    for label, cells in (
        ("DP-KSA", _by_size(found)),
        ("KSA", [c for c in found["cells"] if c["cell"]["method"] == "KSA"]),
    ):
        points = sorted((c["cell"]["documents"], 100 * c["scores"]["F1"]) for c in cells)
        if points:
            sizes.plot(*zip(*points, strict=True), "o-", label=label)
    sizes.set(xlabel=f"documents, epsilon {EPSILON}", ylabel="F1", ylim=(0, 100))
    sizes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


@click.command()
@click.option("--quick", is_flag=True, help="Few questions and numbers, into a file of its own.")
@click.option("--questions", type=click.Path(path_type=Path), help="JSON lines in NQ-open's layout.")
@click.option(
    "--corpus", help="Documents that --questions are about: jsonl:FILE, csv:FILE, beir:FOLDER or text:FOLDER."
)
@click.option("--most", default=100, show_default=True, help="Questions that are taken from the file.")
@click.option("--endpoint", help="URL of a served model, the part before /chat/completions.")
@click.option("--model", help="What the server calls it.")
@click.option("--key-variable", help="Environment variable that holds the server's key.")
@click.option("--embedder", default="minilm", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Results file; the plot gets the ending .png.")
@click.option("--seed", default=1, show_default=True)
def main(
    quick: bool, questions: Path | None, corpus: str | None, most: int, endpoint: str | None, model: str | None,
    key_variable: str | None, embedder: str, out: Path | None, seed: int,
) -> None:  # fmt: skip
    """DP-KSA: answers against epsilon and ensembles."""
    out = out or (Path("var/bench/dpksa-quick.json") if quick else RESULTS / "dpksa.json")
    plan = QUICK if quick else Plan()
    try:
        if (questions is None) != (corpus is None):
            raise ConfigurationError("--questions and --corpus go together: answers are looked for in the corpus")
        if (endpoint is None) != (model is None):
            raise ConfigurationError("--endpoint and --model go together")
        if questions is None or corpus is None:
            subject = "a made-up world"
            asked, texts = made_up(3, 28) if quick else made_up(30, 110)
        else:
            subject = f"{questions.name}, {corpus.partition(':')[0]}:{Path(corpus.partition(':')[2]).name}"
            asked, texts = read_questions(questions, most), tuple(one.text for one in open_corpus(corpus))
        remembering = Remembering(load_embedder(embedder))
        generator: Generator = ExtractiveGenerator(remembering)
        if endpoint is not None and model is not None:
            generator = ChatGenerator(endpoint, model, key_variable=key_variable)
        found = experiment(out, plan, generator, remembering, asked, texts, subject, seed)
        plot(found, out.with_suffix(".png"))
        if out == RESULTS / "dpksa.json":
            PAGE.write_text(insert(PAGE.read_text(), "dp-ksa", f"\n{report(found)}\n\n![](results/{out.stem}.png)\n"))
    except AuditError as error:
        raise click.ClickException(str(error)) from None
    click.echo(report(found))


if __name__ == "__main__":
    main()
