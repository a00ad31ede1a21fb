# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer's texts on a terminal: the best ones whole, of the others where they begin; and what a miss may mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragseal.kernel.printable import printable

if TYPE_CHECKING:
    from ragseal.client.result import Opened, Result
    from ragseal.runtime.metadata import Plain

TOP = 3  #: texts that are printed whole by default
BREAKS = "\n\t"  #: that a text may hold when it is shown
_BEGINS = 100  #: characters of another text


def texts(order: Sequence[Opened], top: int = TOP) -> list[str]:
    """Lines of an answer's documents, best first: ``top`` whole with their metadata, one line for each other one."""
    lines = []
    for at, one in enumerate(order, 1):
        name, text = printable(one.id), printable(one.text, keep=BREAKS)
        if at > top:
            lines.append(f"{at}. [{name}] {_beginning(text)}")
            continue
        lines.append(f"{at}. [{name}] {text}")
        lines += [f"   {printable(key)}: {printable(_said(value))}" for key, value in one.metadata.items()]
    return lines


def cut(order: Sequence[Opened], top: int = TOP) -> int:
    """How many of the texts are not printed whole."""
    return sum(_beginning(one.text) != one.text or bool(one.metadata) for one in order[top:])


def rest(result: Result, top: int = TOP) -> list[str]:
    """The line that says how to read what was cut, without another query; none where nothing was."""
    many = cut(result.opened if result.ranked is None else result.ranked, top)
    if not many or result.answer is not None:
        return []
    request = result.record.signed.request
    return [
        f"-- {many} of these texts {'is' if many == 1 else 'are'} cut: `ragseal-client receipts show "
        f"{request.window} {request.ctr}` prints all of it again and costs no query; --top N cuts fewer"
    ]


def missed(result: Result, hidden: float) -> list[str]:
    """What an answer without a text may mean besides; ``hidden``: the share of documents that coins hide."""
    if result.slots or result.answer is not None or not hidden:
        return []
    return [
        f"-- the document may be one that nobody finds in this period: coins hide 1 in {1 / hidden:.0f}, and nobody "
        "can tell which"
    ]


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _BEGINS else f"{words[: _BEGINS - 1]}\u2026"


def _said(value: Plain) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
