# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers in words to a question, from texts, from keywords, or from neither.

    from ragseal.embedder import load_embedder
    from ragseal.generators import ExtractiveGenerator
    ExtractiveGenerator(load_embedder()).answer("Who wrote it?", ["Ada wrote it. It rained."])    # "Ada wrote it."

What a generator says is no part of any proof.  It matters to privacy in one way: an answer depends on nothing but the
model, the question, the texts and the keywords of its own call (:class:`Generator`).
"""

from __future__ import annotations

if __name__ != "ragseal.generators":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.generators, not generators")

from ragseal.generators.chat import ChatGenerator
from ragseal.generators.extractive import ExtractiveGenerator
from ragseal.generators.interface import NOTHING, Generator, Limited, check_asked, within
from ragseal.generators.named import EXTRACTIVE, named_generator
from ragseal.generators.sentences import SentenceGenerator, Sentences, chosen_sentence

__all__ = [
    "EXTRACTIVE",
    "NOTHING",
    "ChatGenerator",
    "ExtractiveGenerator",
    "Generator",
    "Limited",
    "SentenceGenerator",
    "Sentences",
    "check_asked",
    "chosen_sentence",
    "named_generator",
    "within",
]
