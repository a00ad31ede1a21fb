# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts as sentences and words, for BM25, the deterministic judge and the embedded fall-backs.

Latin words are whole; Chinese, which has no spaces, is cut into pairs of characters, so that the original data can be
read by the same rules.
"""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+")
_SHORT_NOT = re.compile(r"n['’]t\b")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")

_SMALL = """a an the this that these those it its they their them he she his her we our you your i my and or but so as
than then also of in on at by for from to into onto with without within under over about is are was were be been being
has have had do does did will would can could may might shall should must there here what which who whom whose how
when where why s"""
#: Words that say nothing of what a sentence is about.  Negations are none of them.
STOP = frozenset(_SMALL.split())
NEGATIONS = frozenset(("no", "not", "never", "none", "nobody", "nothing", "neither", "nor", "nowhere", "cannot"))


def words(text: str) -> list[str]:
    """Lower-case words, numbers and pairs of Chinese characters, in order."""
    out: list[str] = []
    plain = _SHORT_NOT.sub(" not", unicodedata.normalize("NFKC", text).lower())
    for word in _WORD.findall(plain):
        at = 0
        for run in _HAN.finditer(word):
            if run.start() > at:
                out.append(word[at : run.start()])
            piece = run.group()
            out += [piece[i : i + 2] for i in range(len(piece) - 1)] or [piece]
            at = run.end()
        if at < len(word):
            out.append(word[at:])
    return out


def content(text: str) -> frozenset[str]:
    """The words that a sentence is about; all of them where there is no other."""
    found = words(text)
    return frozenset(word for word in found if word not in STOP) or frozenset(found)


def sentences(text: str) -> list[str]:
    """A text's sentences in order, none of them blank."""
    return [piece.strip() for piece in _SENTENCE.split(text) if piece.strip()]
