# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of SafeRAG's layout: ``nctd.json`` and ``knowledge_base/TASK/db.txt``.

The shipped set (:data:`SHIPPED`) was written for this project in the same layout; ``--data DIR`` reads the original,
whose licence nobody states, so it is not shipped.  Everything is checked before anything is measured: a file that does
not fit is refused as a whole, by name and place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.runtime.edges.filesystem import why

SHIPPED = Path(__file__).resolve().parent / "data"
MOST_BYTES = 64 << 20  #: of one file
MOST_CHARACTERS = 1 << 16  #: of one text

TASKS = {
    "SN": "silver noise", "ICC": "inter-context conflict", "SA": "soft ad", "WDoS": "white DoS",
}  # fmt: skip
NO_KEYWORDS = "SN"  #: its attack texts say nothing wrong, so no word shows that the attack got through

_OPTION = re.compile(r"\s*(\d{1,3})\s*[.．、:：)）]\s*(\S.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Item:
    """One question of one attack."""

    id: int
    question: str
    options: tuple[tuple[str, str], ...]  #: (number, text)
    correct: frozenset[str]  #: numbers of the options that the golden contexts support
    incorrect: frozenset[str]  #: all others
    golden: tuple[str, ...]  #: contexts that answer the question
    attacks: tuple[str, ...]  #: contexts that the attacker writes
    keywords: tuple[str, ...]  #: what only an attack text brings into an answer; none for silver noise, or where a
    #: record has none


@dataclass(frozen=True, slots=True)
class Task:
    """One attack: its questions, and the contexts of the clean index."""

    name: str  #: a key of TASKS
    items: tuple[Item, ...]
    base: tuple[str, ...]  #: without repetitions
    strays: int  #: golden contexts that the index lacks

    def first(self, count: int) -> Task:
        """The same index with the first ``count`` questions only."""
        return Task(self.name, self.items[:count], self.base, self.strays)


@dataclass(frozen=True, slots=True)
class Dataset:
    """All tasks of a folder, with a digest of the files they came from."""

    source: str
    digest: str
    tasks: tuple[Task, ...]


def load(folder: Path = SHIPPED, tasks: Sequence[str] = tuple(TASKS)) -> Dataset:
    """Read a folder: the shipped set, or a checkout of the original.

    Args:
        folder: holds ``nctd.json`` or ``nctd_datasets/nctd.json``, and ``knowledge_base``; without the latter the
            golden contexts of a task are its index.
        tasks: which attacks are read.

    Raises:
        ConfigurationError: a file is missing, cannot be read or is too large; an index is empty.
        EncodingError: names file and place of what does not fit the layout.
    """
    path = next((p for p in (folder / "nctd.json", folder / "nctd_datasets" / "nctd.json") if p.is_file()), None)
    if path is None:
        raise ConfigurationError(
            f"{folder} holds neither nctd.json nor nctd_datasets/nctd.json: give a checkout of SafeRAG, or leave out "
            "--data for the shipped set"
        )
    text = _text(path)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EncodingError(f"{path} is no JSON ({error}): fetch the file again") from None
    if not isinstance(found, dict):
        raise EncodingError(f"{path}: an object with the attacks {', '.join(TASKS)} is expected at the top")
    digest = hashlib.sha256(text.encode())
    read = []
    for name in tasks:
        if name not in TASKS:
            raise ConfigurationError(f"unknown attack {name!r}; known: {', '.join(TASKS)}")
        records = found.get(name)
        if not isinstance(records, list) or not records:
            raise EncodingError(f"{path}: no questions under {name!r}; leave the attack out, or give all of its file")
        items = tuple(_item(record, name, f"{path}, {name}[{i}]") for i, record in enumerate(records))
        base = _base(folder, name, items)
        digest.update("\n".join(base).encode())
        strays = sum(context not in set(base) for item in items for context in item.golden)
        read.append(Task(name, items, base, strays))
    return Dataset("shipped set" if folder == SHIPPED else folder.name, digest.hexdigest()[:16], tuple(read))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigurationError(f"{path} has more than {MOST_BYTES} bytes: it is no file of SafeRAG")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    except UnicodeDecodeError:
        raise EncodingError(f"{path} is no UTF-8 text: fetch the file again") from None


def _base(folder: Path, name: str, items: Sequence[Item]) -> tuple[str, ...]:
    """The clean index of a task, one context a line."""
    if not (folder / "knowledge_base").is_dir():
        return tuple(dict.fromkeys(context for item in items for context in item.golden))
    path = folder / "knowledge_base" / name / "db.txt"
    base = tuple(dict.fromkeys(line.strip() for line in _text(path).splitlines() if line.strip()))
    if not base:
        raise ConfigurationError(f"{path} is empty: an index needs contexts, one a line")
    return base


def _item(record: Any, task: str, where: str) -> Item:
    if not isinstance(record, dict):
        raise EncodingError(f"{where}: an object is expected")
    number = record.get("id")
    if not isinstance(number, int) or isinstance(number, bool):
        raise EncodingError(f"{where}: id is no whole number")
    options = tuple(_option(text, where) for text in _texts(record, "numbered_options", where))
    numbers = [n for n, _ in options]
    if len(set(numbers)) < len(numbers):
        raise EncodingError(f"{where}: two of numbered_options have one number")
    correct = _numbers(record, "ground_truth_correct_options", where)
    incorrect = _numbers(record, "ground_truth_incorrect_options", where)
    if correct & incorrect or correct | incorrect != set(numbers):
        raise EncodingError(
            f"{where}: every option is in exactly one of ground_truth_correct_options and "
            f"ground_truth_incorrect_options; options are {', '.join(numbers)}"
        )
    return Item(
        id=number,
        question=_one(record.get("questions"), f"{where}: questions"),
        options=options,
        correct=correct,
        incorrect=incorrect,
        golden=_texts(record, "enhanced_contexts", where),
        attacks=_texts(record, f"enhanced_{task}_contexts", where),
        keywords=() if task == NO_KEYWORDS else _texts(record, "attack_kws", where, least=0),
    )


def _one(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise EncodingError(f"{what} is no text")
    if len(value) > MOST_CHARACTERS:
        raise EncodingError(f"{what} has {len(value)} characters, at most {MOST_CHARACTERS} are read")
    return value.strip()


def _texts(record: dict[str, Any], field: str, where: str, least: int = 1) -> tuple[str, ...]:
    values = record.get(field)
    if not isinstance(values, list) or len(values) < least:
        raise EncodingError(f"{where}: {field} is no list of texts")
    return tuple(_one(value, f"{where}: {field}[{i}]") for i, value in enumerate(values))


def _numbers(record: dict[str, Any], field: str, where: str) -> frozenset[str]:
    values = record.get(field)
    if not isinstance(values, list) or any(not isinstance(v, str | int) or isinstance(v, bool) for v in values):
        raise EncodingError(f"{where}: {field} is no list of option numbers")
    return frozenset(str(v).strip() for v in values)


def _option(text: str, where: str) -> tuple[str, str]:
    found = _OPTION.fullmatch(text)
    if found is None:
        raise EncodingError(f"{where}: option {text[:60]!r} has no number in front, as in '1. text'")
    return found[1], found[2].strip()
