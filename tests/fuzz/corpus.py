# SPDX-License-Identifier: GPL-3.0-or-later
"""The corpus: every seed of every target in one file of sorted lines ``target name hexadecimal`` (``-``: no bytes).

Text in one order has one form whoever writes it and whenever, and two branches that add seeds merge line by line.
``python -m tests.fuzz.grow`` is its only writer.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

PATH = Path(__file__).with_name("corpus.txt")

Seeds = dict[str, bytes]  #: by name: part of their digest, behind ``seed-`` for a real encoding, ``crash-`` for a crash
Corpus = dict[str, Seeds]  #: by target


def text_of(corpus: Corpus) -> str:
    """The file's text."""
    seeds = ((target, name, data) for target, own in corpus.items() for name, data in own.items())
    return "".join(f"{target} {name} {data.hex() or '-'}\n" for target, name, data in sorted(seeds))


def read(path: Path = PATH) -> Corpus:
    """Every seed.  Raises ValueError: the file is not what :func:`text_of` writes."""
    corpus: Corpus = {}
    text = path.read_text() if path.exists() else ""
    for line in text.splitlines():
        target, name, data = line.split(" ")
        corpus.setdefault(target, {})[name] = bytes.fromhex(data.removeprefix("-"))
    if text_of(corpus) != text:
        raise ValueError(f"{path}: lines are not sorted, or one is twice: python -m tests.fuzz.grow --seconds 0")
    return corpus


def write(corpus: Corpus, path: Path = PATH) -> None:
    path.write_text(text_of(corpus))


@cache
def _stored() -> Corpus:
    return read()


def kept(target: str) -> Seeds:
    """The seeds of a target, read once."""
    return _stored().get(target, {})
