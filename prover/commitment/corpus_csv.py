# SPDX-License-Identifier: GPL-3.0-or-later
"""CSV (RFC 4180, UTF-8) whose first row names the columns.  A separator is never guessed: another one is named."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ragseal.kernel.errors import EncodingError
from ragseal.prover.commitment.corpus_files import Limits, lines_of, shown
from ragseal.runtime import texts

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}  #: what other programs write for a comma
NAMELESS = "column {} (no name)"  #: how notes call one


def rows_of(
    path: Path, ids: Sequence[str], text: str, metadata: Collection[str], limits: Limits
) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Rows as they stand, each with its file and line; an empty cell of a metadata column is None: no value.

    Args:
        ids: one of these columns must be there.
        text, metadata: all of these must.

    Raises:
        EncodingError: not CSV, a first row that does not name every needed column, each once, or a row of another
            length; names file and line.
    """
    csv.field_size_limit(limits.line_bytes)  # of the whole process; csv's own 128 KiB are less than a text may have
    head: list[str] = []  # the first line as it stands

    def lines() -> Iterator[str]:
        for number, line in lines_of(path, limits):
            if number == 1:
                head.append(line)
            yield line + "\n"

    rows = csv.reader(lines(), strict=True)
    names: list[str] = []
    optional = set(metadata) - {*ids, text}
    while True:
        where = f"{shown(path)}, line {rows.line_num + 1}"
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reason = _separator(head[0]) if not names and head else ""
            if head and texts.old_breaks(head[0]) and "new-line" in str(error):
                reason = texts.OLD_BREAKS
            raise EncodingError(f"{where}: not CSV ({reason or error})") from None
        if not names:
            names = _names(cells, ids, text, metadata, where, head[0])
            continue
        if len(cells) != len(names):
            raise EncodingError(f"{where}: {len(cells)} cells, the first row names {len(names)} columns")
        yield where, {name: cell or (None if name in optional else "") for name, cell in zip(names, cells, strict=True)}


def _names(
    cells: list[str], ids: Sequence[str], text: str, metadata: Collection[str], where: str, head: str
) -> list[str]:
    """The columns' names as the first row has them."""
    names = [name or NAMELESS.format(at) for at, name in enumerate(cells, 1)]
    if not names:
        raise EncodingError(f"{where}: the first row must name every column, and it is empty")
    for name in names:
        if names.count(name) > 1:
            raise EncodingError(
                f"{where}: the first row must name every column, each once; {name!r} stands there twice"
            )
    missing = [] if text in names else [(repr(text), [text])]
    if not set(ids) & set(names):
        missing.append((" or ".join(map(repr, ids)), list(ids)))
    missing += [(f"{name!r}, which is to be metadata", [name]) for name in metadata if name not in names]
    if not missing:
        return names
    first, wanted = missing[0]
    reason = _separator(head) or _spelling(names, wanted) or "the first row names the columns"
    raise EncodingError(f"{where}: no column {first}; {reason}")


def _separator(head: str) -> str:
    """What is said of a first row that another separator divides."""
    counts = {one: head.count(one) for one in SEPARATORS}
    most = max(counts, key=lambda one: counts[one])
    if head.lower().startswith("sep="):
        return "it begins with a spreadsheet's line sep=: remove that line, and separate the columns by commas"
    if counts[most] <= head.count(","):
        return ""
    return f"{SEPARATORS[most]} stand between its columns: save the file with commas (RFC 4180)"


def _spelling(names: list[str], wanted: list[str]) -> str:
    """A name that is a wanted one but for blanks, case and characters that nobody sees."""

    def bare(name: str) -> str:
        return "".join(one for one in name if one.isprintable() and not one.isspace()).casefold()

    known = {bare(one) for one in wanted} | {one.casefold() for one in wanted}
    near = [name for name in names if name not in wanted and bare(name) in known]
    return f"it has {near[0]!r}: write the name alone, without blanks, in small letters" if near else ""
