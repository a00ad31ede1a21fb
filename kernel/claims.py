# SPDX-License-Identifier: GPL-3.0-or-later
"""What the name of a claim means to the bytes: which members policies, manifests and verdicts of it have.  SPEC A.6.

This is all that the kernel knows of a claim.  What it promises, computes and says is one class in
:mod:`ragseal.accounting.claims`, which the kernel may not import.
"""

from __future__ import annotations

from dataclasses import dataclass

EVERY_LIST, UNTIL_DELIVERED, ANSWERS = "every-list", "until-delivered", "answers"
UNSEEN, EXACT = "unseen", "exact"  #: of lists without decoys: with a coin, and without one


@dataclass(frozen=True, slots=True)
class Form:
    """What messages that name a claim hold."""

    name: str
    coin: bool = False  #: slots are hidden by coins: policies name a share, manifests commit to the coins
    words: bool = False  #: records are of histograms of keywords, and answers are in words
    counted: bool = False  #: epsilon is of k_max accounts: the estimate gates, and a verdict names both numbers
    returned: bool = False  #: a verdict's epsilon is unseen, and beside it stands the return
    plain: bool = False  #: lists have neither noise nor decoys: no return is bounded, and without a coin nothing is

    @property
    def noisy(self) -> bool:
        """Whether every score has noise: its windows have a class with noise, others one of decoys."""
        return not self.coin and not self.plain

    @property
    def private(self) -> bool:
        """Whether it bounds what anybody learns: a verdict of any other one has no number of it."""
        return self.coin or not self.plain

    @property
    def numbered(self) -> bool:
        """Whether a verdict prints an epsilon of it: one that says nothing of what lists tell is none."""
        return not self.plain


FORMS = {
    form.name: form
    for form in (
        Form(EVERY_LIST, counted=True),
        Form(UNTIL_DELIVERED, coin=True, returned=True),
        Form(ANSWERS, words=True),
        Form(UNSEEN, coin=True, returned=True, plain=True),
        Form(EXACT, plain=True),
    )
}
#: Claims of one circuit, weakest first: each keeps from readers at least what those before it keep.  SPEC D.24.
LADDER = (EXACT, UNSEEN, UNTIL_DELIVERED)
NO_FORM = Form("")  #: of a name that no claim has, which every decoder refuses


def below(claim: str) -> tuple[str, ...]:
    """The claims that single tenants may have in a window of this one, weakest first."""
    return LADDER[: LADDER.index(claim)] if claim in LADDER else ()


def form_of(claim: str) -> Form:
    """The form of a claim; :data:`NO_FORM` of another name."""
    return FORMS.get(claim, NO_FORM)
