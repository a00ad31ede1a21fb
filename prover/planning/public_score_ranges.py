# SPDX-License-Identifier: GPL-3.0-or-later
"""Score windows that may be used because they were chosen on public corpora only.  SPEC M.2, A.6.

A window chosen by looking at a tenant's scores tells about them, and no noise covers that.  So an embedder has a window
here that was chosen once, on public texts, by ``python -m bench.plan calibrate``; an embedder without an entry gets
[0, 1], which needs no choice.  (The other legal way, a private choice that is charged to epsilon, is not built.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublicWindow:
    """The window of one embedder, in cosines, and where it comes from."""

    embedder: str
    lo: float
    hi: float
    chosen_on: str


WHOLE = (0.0, 1.0)  #: the window that needs no choice: an empty slot scores lowest, and no score is cut

#: By C_emb, 64 hexadecimal digits: another model, tokenizer or prompt has other cosines.
PUBLIC_WINDOWS: Mapping[str, PublicWindow] = {
    "e8074f6d0d23f3a175b53a19f545b8b5a8a60146897ee57e4ca86e794f32cdaf": PublicWindow(
        "minilm",
        0.3,
        0.5,
        "SciFact (5,183 abstracts, 120 train queries) and 300 docstrings of Python's standard library",
    ),
}


def public_window(embedder_digest: bytes) -> PublicWindow | None:
    """The entry of an embedder, None if it has none."""
    return PUBLIC_WINDOWS.get(embedder_digest.hex())
