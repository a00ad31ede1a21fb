# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's public vocabulary: names of Python's standard library and words of the language's own reference.

The corpus is docstrings (:mod:`ragseal.demo.corpus`); these words come of other texts, which everybody has.  No
tenant's document has a say in which words there are.
"""

from __future__ import annotations

import ast
import builtins
import sys
import sysconfig
from collections import Counter
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.answers.keywords import STOP_WORDS, keywords_of

SHORTEST = 3  #: characters of a word


def public_words(most: int) -> list[str]:
    """At most so many keywords: modules and built-in names first, then the reference's words, the most frequent first.

    Raises:
        ConfigurationError: this installation of Python lacks the reference's texts.
    """
    named = [name.lower().strip("_") for name in (*sorted(sys.stdlib_module_names), *sorted(dir(builtins)))]
    counts: Counter[str] = Counter()
    for text in _topics().values():
        counts.update(keywords_of(text, most=sys.maxsize))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    words = dict.fromkeys(
        word
        for word in (*named, *ranked)
        if len(word) >= SHORTEST and word.isalpha() and word.isascii() and word not in STOP_WORDS
    )
    return list(words)[:most]


def _topics() -> dict[str, str]:
    """The texts of ``help()``, by topic, read and not imported."""
    path = Path(sysconfig.get_paths()["stdlib"]) / "pydoc_data" / "topics.py"
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        raise ConfigurationError(f"this Python has no texts of its language reference ({path}): {error}") from None
    found: dict[str, str] = {}
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is not None and not isinstance(value, ast.Constant):
            found |= _texts(value)
    if not found:
        raise ConfigurationError(f"{path} holds no texts of the language reference")
    return found


def _texts(value: ast.expr) -> dict[str, str]:
    try:
        read = ast.literal_eval(value)
    except ValueError:
        return {}
    return {str(name): str(text) for name, text in read.items()} if isinstance(read, dict) else {}
