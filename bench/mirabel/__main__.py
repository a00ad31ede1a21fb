# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m bench.mirabel`` writes bench/results/mirabel.json and .png and prints the tables.

By default on the demo's corpus, with the packaged embedder and one of plain words.  ``--corpus beir:FOLDER`` takes any
corpus in BEIR's layout, ``--quick`` a small part with plain words alone.  Cells that are finished are read back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.experiment import RESULTS, Cell, run
from bench.measured import code_of
from bench.mirabel import report
from bench.mirabel.attacks import generated_questions, read_questions
from bench.mirabel.corpus import Corpus, Words, called, load
from bench.mirabel.measure import Setting, measure
from ragseal.generators import ChatGenerator, ExtractiveGenerator, Generator
from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.prover.commitment.guard import Rule

GENERATOR = "generator"  #: of ``--ia``
SENTENCES = 3  #: of an answer without a model


def generator_of(chat: str | None, model: str | None) -> Generator:
    """A served model, or sentences of the texts by plain words."""
    if chat is None:
        return ExtractiveGenerator(Words(), SENTENCES)
    if model is None:
        raise ConfigurationError("--chat needs --model, the name by which the server knows its model")
    return ChatGenerator(chat, model)


def ia_questions(
    source: str | None, generator: Generator, corpus: Corpus, targets: int
) -> dict[str, list[tuple[str, str]]]:
    """IA's questions of the generator, where they are to be; else none."""
    if source != GENERATOR:
        return {}
    texts = dict([*list(corpus.members.items())[:targets], *list(corpus.others.items())[:targets]])
    return generated_questions(generator, texts)


def named(path: str | Path | None) -> str:
    """A file by name and content, as results call it; nothing that is none."""
    if path is None or not Path(path).is_file():
        return str(path or "")
    return f"{Path(path).name} {hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Wanted:
    """What is to be measured; as the command has it."""

    specs: Sequence[str]
    embedders: Sequence[str]
    documents: int
    targets: int
    rho: float
    questions: Path | None
    ia: str | None
    chat: str | None
    model: str | None
    seed: int
    out: Path
    quick: bool


@click.command(help=__doc__)
@click.option("--corpus", "specs", multiple=True, default=["demo"], help="demo or beir:FOLDER; may be given again")
@click.option(
    "--embedder", "embedders", multiple=True, default=["minilm", "words"], help="the provider's names, or words"
)
@click.option(
    "--documents", type=click.IntRange(60, 1 << 20), default=800, help="of a corpus, in the index and kept out"
)
@click.option("--targets", type=click.IntRange(8, 1 << 16), default=100, help="members attacked, and as many others")
@click.option("--rho", type=float, default=0.05, help="significance of the guard")
@click.option("--questions", type=click.Path(dir_okay=False, path_type=Path), help="question-answer set, as NQ-open's")
@click.option("--ia", help="file with IA's questions, or `generator`; by default sentences with a word asked for")
@click.option("--chat", help="address of a chat server that answers; by default sentences of the texts are answers")
@click.option("--model", help="its model")
@click.option("--seed", type=click.IntRange(0), default=1)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=RESULTS / "mirabel.json")
@click.option("--quick", is_flag=True, help="a small part, with plain words alone: seconds")
def main(**options: Any) -> None:
    try:
        found = tables(Wanted(**options))
    except AuditError as error:
        raise click.ClickException(str(error)) from None
    report.picture(found, options["out"].with_suffix(".png"))
    click.echo(report.markdown(found))


def tables(wanted: Wanted) -> dict[str, Any]:
    """Measure what is not yet in its file.

    Raises:
        AuditError: a corpus, file, embedder or server that cannot be used; says how to go on.
    """
    embedders, documents, targets = wanted.embedders, wanted.documents, wanted.targets
    rho, seed, ia = wanted.rho, wanted.seed, wanted.ia
    Rule(rho)
    generator = generator_of(wanted.chat, wanted.model)
    benign, asked = 200, 150
    if wanted.quick:
        embedders, documents, targets, benign, asked = ("words",), 120, 12, 40, 20
    read = read_questions(Path(ia)) if ia is not None and ia != GENERATOR else {}
    corpora = {called(spec): load(spec, documents, seed, wanted.questions) for spec in wanted.specs}
    cells: list[Cell] = [{"corpus": name, "embedder": embedder} for name in corpora for embedder in embedders]
    setting = {
        "seed": seed,
        "documents": documents,
        "targets": targets,
        "benign": benign,
        "asked": asked,
        "rho": rho,
        "generator": generator.name,
        "questions": named(wanted.questions),
        "ia": named(ia),
        "mirabel": code_of("mirabel"),
    }

    def one(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
        corpus = corpora[cell["corpus"]]
        made = read or ia_questions(ia, generator, corpus, targets)
        return measure(corpus, generator, Setting(cell["embedder"], seed, targets, benign, asked, rho), made)

    return run("mirabel", setting, cells, one, wanted.out)


if __name__ == "__main__":
    main()
