# SPDX-License-Identifier: GPL-3.0-or-later
"""One meaning a word: fails where a name that was given up is used again, or a page counts the tree or reads badly."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READ = (".py", ".pyi", ".md", ".toml", ".rs", ".circom")
HISTORY = ("CHANGELOG.md", "scripts/words.py", "tests/test_lints.py", "bench/results/")

#: retired -> what it is called
RETIRED = {
    "Machinery": "Backends",
    "Conduct": "ServeOptions",
    "Edges": "Environment",
    "Surroundings": "Environment",
    "Basis": "ProofContext",
    "Fixer": "EmbeddingCommitter",
    "Offer": "PrepareJob",
    "Opinion": "CrossCheck",
    "KeyLine": "KeyEntry",
    "LinkOpening": "SameEmbeddingOpening",
    "ConfiguredEstimate": "ConfiguredKey",
    "BuiltEstimate": "BuiltCircuit",
    "EstimateRing": "BlockKeys",
    "EstimateBackend": "BlockBackend",
    "fold_challenge": "batching_challenge",
    "columns_fold": "columns_batching_challenge",
    "fold_of": "opening.batching_challenge",
    "query_place": "query_key",
    "privacyloss": "pld",
    "closedforms": "closed_forms",
    "idealchannel": "ideal_channel",
    "lowerbound": "attack",
}
#: Counts of what the tree has in numbers that nobody keeps up to date in prose.
_NUMBER = r"(?:both|two|three|four|five|six|seven|eight|nine|ten|[0-9][0-9,]*)"
_COUNTED = re.compile(
    rf"(?<![\w.,-]){_NUMBER} (?:kinds of )?(?:circuits|laws|claims|circuit classes)(?!\w)"
    r"|(?<![\w.,-])[0-9][0-9,]* (?:tests|vectors|files|clauses)(?!\w)",
    re.IGNORECASE,
)
PROSE = (".md",)
#: A law is a distribution there, and what is counted stands in the same sentence.
MATHEMATICS = ("docs/proofs/", "docs/decisions/", "bench/experiments.md")
#: Pages for readers, and those that are rewritten elsewhere and do not hold yet.
PAGES = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/how-to/", "docs/tutorial.md"),
    *("spec/", "docs/scale.md", "docs/glossary.md", "bench/README.md", "vectors/README.md", "examples/README.md"),
)
NOT_YET = ("docs/how-to/plan.md", "docs/how-to/backup.md")
#: What a reader has to read twice -> what says it.
TURNS = {
    r"whoever": "anyone who, or the role",
    r"(?:is|are) no (?!part of|longer|more|less|later|earlier|larger|smaller)[a-z]+": "is not a, are not",
    r"another(?: [\w-]+){0,2} than": "a different ... than",
}
#: A part of the specification that scripts/spec.py writes: code and comments, held where they come from.
_GENERATED = re.compile(r"(?ms)^<!-- generated: .*?^<!-- end -->$")
_TURNS = {re.compile(rf"(?<!\w){turn}(?!\w)", re.IGNORECASE): instead for turn, instead in TURNS.items()}
_WORD = re.compile(r"(?<![\w.])(?:" + "|".join(re.escape(word) for word in RETIRED) + r")(?!\w)")


def found(text: str) -> Iterator[tuple[int, str]]:
    """Lines with a retired word, and what to say."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in _WORD.finditer(line):
            yield number, f"{match[0]} is called {RETIRED[match[0]]}"


def counts(text: str) -> Iterator[tuple[int, str]]:
    """Lines that count circuits, laws, claims, tests or files, and what to do."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in _COUNTED.finditer(line):
            yield number, f"{match[0]!r} is a count that no test holds: say which, or leave the number out"


def turns(text: str) -> Iterator[tuple[int, str]]:
    """Where a turn begins that a reader has to read twice, across the ends of lines, and what says it instead."""
    text = _GENERATED.sub(lambda found: "\n" * found[0].count("\n"), text)
    for turn, instead in _TURNS.items():
        for match in turn.finditer(text.replace("\n", " ")):
            yield text.count("\n", 0, match.start()) + 1, f"{match[0]!r} reads badly: say {instead}"


def main() -> None:
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    faults = []
    for name in names:
        path = ROOT / name
        if name.endswith(READ) and not name.startswith(HISTORY) and path.is_file():
            text = path.read_text(encoding="utf-8")
            faults += [f"{name}:{line}: {what}" for line, what in found(text)]
            if name.endswith(PROSE) and not name.startswith(MATHEMATICS):
                faults += [f"{name}:{line}: {what}" for line, what in counts(text)]
            if name.startswith(PAGES) and not name.startswith(NOT_YET):
                faults += [f"{name}:{line}: {what}" for line, what in turns(text)]
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()
