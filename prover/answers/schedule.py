# SPDX-License-Identifier: GPL-3.0-or-later
"""When each step of an answer in words begins and ends, fixed by policy and class before any document is looked at.

An answer leaves ``answered_by`` seconds after its request was admitted.  Of these seconds every step has its share, and
none of them ends earlier because there was less to do.  SPEC A.14.7.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel.policy import Policy
from ragseal.prover.base.limits import WORDED_AT_ONCE

LANES = 4096  #: documents that are asked about at once
_PARTS = 20  #: of a deadline
_WITHOUT, _DOCUMENTS, _VOTES, _TEXT = 4, 5, 13, 18  #: parts by which a step is over, or (of documents) begins


@dataclass(frozen=True, slots=True)
class Schedule:
    """Instants of one answer, in seconds after the admission of its request."""

    without: float  #: the answer without documents is there, or the request is refused
    documents: float  #: the first documents are asked about
    turn: float  #: seconds that each document has, whatever others take
    votes: float  #: what documents have not said by now they do not say
    text: float  #: the answer's text is there, or that without documents takes its place
    due: float  #: record, receipt and answer, or the refusal, leave

    def turn_of(self, place: int) -> float:
        """When the call about the ``place``-th document that takes part begins."""
        return self.documents + place // LANES * self.turn


def schedule_of(policy: Policy, slots: int) -> Schedule:
    """The schedule of a window's answers.

    Args:
        slots: of an index.  So many documents could take part, and each has a whole turn by itself: how many there are
            decides of none of them whether its answer is late.
    """
    part = policy.answered_by / _PARTS
    turns = -(-slots // LANES)
    return Schedule(
        without=_WITHOUT * part,
        documents=_DOCUMENTS * part,
        turn=(_VOTES - _DOCUMENTS) * part / turns,
        votes=_VOTES * part,
        text=_TEXT * part,
        due=float(policy.answered_by),
    )


def at_once(slots: int, threads: int) -> int:
    """How many answers are written at once: as many as have a thread for every document that could take part.

    How many do take part must not decide whether another one's call begins.

    Args:
        slots: of an index.
        threads: that the process may have.  A quarter is left to everything else.
    """
    return max(1, min(WORDED_AT_ONCE, threads * 3 // 4 // min(slots, LANES)))
