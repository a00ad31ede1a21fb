# SPDX-License-Identifier: GPL-3.0-or-later
"""From a text to the set of its keywords, by rules and a list of stop words that everybody knows.

Nothing here looks at any other text: which words count as keywords must not depend on the documents of an index, or one
document would decide what another one's answer says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

MAX_KEYWORDS = 128  #: of one text: those that come first, each counted once
MAX_CHARACTERS = 40  #: of a keyword; longer runs of letters are no words

_WORD = re.compile(r"[0-9]+(?:[.,][0-9]+)+|[^\W_]+(?:'[^\W_]+)*")

_STOP_WORDS = """
a about above according across actually after again against all almost along already also although always am among
an and another answer answers any anybody anyone anything anyway are aren't around as at away back based be became
because become becomes been before behind being below beside besides between beyond both but by came can can't
cannot come comes context could couldn't did didn't do document documents does doesn't doing don't done down during
each either else enough especially etc even ever every everybody everyone everything except far few finally for from
further gave get gets getting give given gives go goes going gone got had hadn't has hasn't have haven't having he
he'd he'll hence her here hers herself him himself his how however i i'd i'll i'm i've if in indeed information
instead into is isn't it it'd it'll its itself just keep kept know known knows last later least less let like likely
made mainly make makes making many may maybe me mean means meant mentioned might mightn't more moreover most mostly
much must mustn't my myself near nearly need neither never nevertheless next no nobody none nor not nothing now
nowhere of off often on once one ones only onto or other others otherwise ought our ours ourselves out over own per
perhaps provided put question quite rather really regarding said same saw say saying says see seem seemed seems seen
several shall shan't she she'd she'll should shouldn't since so some somebody somehow someone something sometimes
somewhere soon still such take taken takes text than that that'll the their theirs them themselves then there
therefore these they they'd they'll they're they've thing things this those though through throughout thus to
together too took toward towards under unless until up upon us use used uses using usually very via was wasn't we
we'd we'll we're we've well went were weren't what whatever when whenever where whereas wherever whether which while
who who'll whoever whole whom whose why will with within without won't would wouldn't yes yet you you'd you'll
you're you've your yours yourself yourselves
"""

#: Words that say nothing by themselves.  English; the list is part of the mechanism and public, like its parameters.
STOP_WORDS: frozenset[str] = frozenset(_STOP_WORDS.split())


def keywords_of(
    text: str,
    stop_words: Container[str] = STOP_WORDS,
    vocabulary: Container[str] | None = None,
    most: int = MAX_KEYWORDS,
) -> frozenset[str]:
    """The keywords of one text: those that come first, ``most`` of them.

    Letters and digits in Unicode's compatibility form, case folded; a word may hold apostrophes, a number points and
    commas; a possessive 's is left out.

    Args:
        text: of any length; blank texts have no keywords.
        stop_words: what is no keyword, as this function spells words.
        vocabulary: if given, nothing else is a keyword.
    """
    found: dict[str, None] = {}
    for match in _WORD.finditer(_folded(text)):
        word = match[0].removesuffix("'s")
        if len(word) > MAX_CHARACTERS or word in stop_words or (vocabulary is not None and word not in vocabulary):
            continue
        found[word] = None
        if len(found) >= most:
            break
    return frozenset(found)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).replace("’", "'")
