# SPDX-License-Identifier: GPL-3.0-or-later
"""What a policy loses whose score window has few whole steps.

Noise in whole steps rounds every score down to a step (SPEC M.3.1), and a score window of H steps is a shift of H
steps: under a Gaussian of 512 steps a small shift of mu = H / 512 leaves few levels for scores.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.params import SCORE_UNIT

ENOUGH = 16  #: levels from which on rounding moves a score by less than a sixteenth of the window


@dataclass(frozen=True, slots=True)
class Levels:
    """A score window in whole steps, fewer than ENOUGH."""

    levels: int  #: H
    cosine: float  #: of one step: scores that are nearer to each other may count alike
    gain: int  #: the least gain of ENOUGH levels in this window

    @property
    def in_words(self) -> str:
        steps = "one level" if self.levels == 1 else f"{self.levels} levels"
        return (
            f"scores have {steps} in this window, fewer than {ENOUGH}: two documents whose cosines differ by less than "
            f"{self.cosine:.2g} may count alike, and one that is less than that above the window's lower end counts as "
            f"nothing (gain {self.gain} gives {ENOUGH} levels, and costs more)"
        )


def few_levels(cls: AttestationClass, lo: int, hi: int, gain: int) -> Levels | None:
    """What a score window loses by its few levels; None where there are enough, or where scores are not rounded.

    Args:
        lo, hi: in units of y; ``gain``: as in a policy.
    """
    if not cls.step_bits:
        return None
    levels, step = cls.window_of(gain * (hi - lo)), 1 << cls.step_bits
    if not 1 <= levels < ENOUGH:
        return None
    return Levels(levels, step / gain / SCORE_UNIT**2, -(-ENOUGH * step // (hi - lo)))
