# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "answers": what the keywords of answers tell of one document, present or not.  SPEC D.22.

An answer is the set of the K keywords with the largest noisy counts.  A document adds at most one to every count and at
most m in all, so it moves no count by more than g steps, all of them the same way.  With two-sided
geometric noise of scale b the set is then, for every event and but for the tail of the noise,

    at most  r^min(m, K)  times as likely with the document as without it,
    at most  r^K          times as likely without it as with it,

where r is the largest ratio of the law's upper tail at x - g and at x, and e^(g/b) of the ideal law
(docs/proofs/answers.md proves it, and that the second exponent is tight whatever m is).  That is the pure bound of one
answer.  Over n answers two bounds of the same thing are computed, and the smaller counts:

*pure*      n times the larger logarithm.  It holds for each transcript by itself, so n may be read off the log.
*composed*  the loss of n runs of the two-point law that dominates one answer (Kairouz, Oh and Viswanath 2015, with two
            different sides); n is then what the policies allow, fixed before the first answer.

Each comes from the integer table by exact fractions and from the ideal law; where the two routes differ nothing is
used.

A document that may stand in the index in c parts under ids of their own (``chunks_max``) is c entries that come and go
together: it moves a count by up to c g steps, has up to c m words, and its parts take part in up to c times B answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from ragseal.accounting.spent import Spent
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import GEOMETRIC_SCALE, NoiseTable, build_table
from ragseal.kernel.noise_class import NoiseClass, with_noise
from ragseal.kernel.params import GAUSSIAN, GRID_EXPONENT, OVERFLOW_EXPONENT
from ragseal.kernel.policy import ANSWERS

TAIL = Fraction(1, 1 << 64)  #: of one answer: the chance that some noise lies where the table's tail ends
MOST_COMPOSED = 4096  #: answers up to which the composed loss is computed; beyond, pure alone counts
AGREE = 1e-5  #: by how much table and ideal law may differ, relatively
PURE, COMPOSED = "pure", "composed"
_NAMED = 8  # windows that an error names

_DIGITS = 60  #: of the decimals that the composed loss is computed in
_SLACK = Decimal("1e-30")  #: covers every rounding of at most 10^5 steps in so many digits
_HALVINGS = 50


@dataclass(frozen=True, slots=True)
class OneAnswer:
    """What one answer tells of one document, in nats, rounded up; ``lost`` is its part of delta."""

    present: float  #: how much likelier an event may become by the document
    absent: float  #: how much likelier an event may become without it
    ideal: tuple[float, float]  #: the same two of the ideal law
    lost: Fraction  #: tail, overflow and grid (SPEC D.22.3)
    part: float = 0.0  #: of ``pure`` what one part of a document adds at most, wherever the others take part

    @property
    def pure(self) -> float:
        """The larger of the two."""
        return max(self.present, self.absent)

    @property
    def agree(self) -> bool:
        """Whether table and ideal law give the same."""
        pairs = ((self.present, self.ideal[0]), (self.absent, self.ideal[1]))
        return all(abs(a - b) <= AGREE * max(a, b) for a, b in pairs)


@dataclass(frozen=True, slots=True)
class Bound:
    """An epsilon over some answers, and how it was found."""

    answers: int
    epsilon: float
    accountant: str  #: PURE or COMPOSED
    pure: float
    composed: float  #: infinite where it was not computed


@dataclass(frozen=True, slots=True)
class AnswersReport:
    """What the claim answers promises over a budget period."""

    plain: Bound  #: of all answers of the log: proven
    filtered: Bound  #: of the answers that one document takes part in: the filter is the provider's word
    alone: OneAnswer
    participations: int  #: B
    delta: float
    items: dict[str, float]  #: delta by what it is for
    parts: int = 1  #: c, the most parts of one document: all numbers are for such a document whole

    @property
    def agree(self) -> bool:
        return self.alone.agree


def tail_ratio(table: NoiseTable, g: int, slots: int, beyond: Fraction = TAIL) -> Fraction:
    """r: the largest P(z >= x - g) / P(z >= x) up to where noise of ``slots`` slots reaches with chance ``beyond``.

    The law is log-concave, so is its upper tail, and the ratio grows with x: it is that of the largest such x.

    Raises:
        PolicyError: the table ends before so little is left.
    """
    low = _reach(table, g, slots, beyond)
    return Fraction(table.tail(low - 1 - g), table.tail(low - 1))


def _reach(table: NoiseTable, g: int, slots: int, beyond: Fraction) -> int:
    """x0: the least x with slots * P(z > x - g) <= beyond.  Raises PolicyError: as :func:`tail_ratio`."""
    if g < 1:
        raise PolicyError("a document that adds nothing to a count needs no account: gain must be at least 1")
    low, high = -table.cut, table.cut
    limit = beyond * table.total
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if slots * table.tail(middle - g) <= limit else (middle + 1, high)
    if slots * table.tail(low - g) > limit or not table.tail(low - 1):
        raise PolicyError(f"one document moves a count by {g} steps, more than the noise can hide: use a smaller gain")
    return low


def one_answer(cls: NoiseClass, table: NoiseTable, g: int, words: int, parts: int = 1) -> OneAnswer:
    """The bound of one answer (docs/proofs/answers.md, proposition 1 and section 4).

    Args:
        g: steps that one part of a document adds to a count.
        words: m, counts that it adds to at most.
        parts: c, parts of a document that may take part at once.

    Raises:
        PolicyError: a law without a tail of its own scale, or a gain that the noise cannot hide.
    """
    if table.law == GAUSSIAN:
        raise PolicyError(f"the claim answers needs geometric noise in whole steps, not the law {table.law!r}")
    if words < 1:
        raise PolicyError("a document that gives no keyword needs no account: words_max must be at least 1")
    up, down, whole = min(words * parts, cls.K), cls.K, g * parts
    x0 = _reach(table, whole, cls.N, TAIL)
    each = _log_up(Fraction(table.tail(x0 - 1 - whole), table.tail(x0 - 1)))
    # Where j parts take part the ratio is a product of j, each of them at an x of at most x0.
    part = _log_up(Fraction(table.tail(x0 - 1 - g), table.tail(x0 - 1)))
    present, absent = _up(up * each), _up(down * each)
    refused = Fraction(1, 1 << OVERFLOW_EXPONENT) + Fraction(1, 1 << GRID_EXPONENT)
    worst = Fraction(math.ceil(math.exp(min(down * each, 700.0)) * (1 + 1e-9)) + 1)
    ideal = up * whole / GEOMETRIC_SCALE, down * whole / GEOMETRIC_SCALE
    return OneAnswer(present, absent, ideal, TAIL + (1 + worst) * refused, _up(down * part))


def composed(alone: OneAnswer, n: int, delta: Fraction) -> float:
    """The least epsilon of n answers at ``delta``, which no longer holds ``lost``; infinite beyond MOST_COMPOSED.

    One answer is dominated by the law of two points whose losses are ``present`` and ``-absent``; n of them have n + 1
    sums.  Rounded up: sums in _DIGITS digits, times 1 + _SLACK, and the upper end of the last interval.
    """
    if n < 1:
        return 0.0
    if n > MOST_COMPOSED or delta <= 0:
        return math.inf
    with localcontext() as context:
        context.prec = _DIGITS
        context.Emax, context.Emin = 10**9, -(10**9)
        target = Decimal(delta.numerator) / Decimal(delta.denominator)
        most = n * alone.pure
        return _up(max(_least(alone, n, target, most, with_it) for with_it in (True, False)))


def _least(alone: OneAnswer, n: int, target: Decimal, most: float, with_it: bool) -> float:
    """The least epsilon of one direction: ``with_it`` of events that the document makes likelier."""
    a, b = Decimal(alone.present), Decimal(alone.absent)
    spread = a.exp() - (-b).exp()
    without = (1 - (-b).exp()) / spread  # the chance of the point with loss a, without the document
    chance = without * a.exp() if with_it else 1 - without  # of the point that counts for this direction
    gain, fall = (a, b) if with_it else (b, a)
    terms: list[tuple[Decimal, Decimal]] = []  # (loss, chance) of k points that count, from n downwards
    weight = chance**n
    for k in range(n, -1, -1):
        terms.append((gain * k - fall * (n - k), weight))
        weight = weight * k / (n - k + 1) * (1 - chance) / chance if k else weight

    step = (gain + fall).exp()

    def exceeds(epsilon: Decimal) -> bool:
        total = Decimal(0)
        left = (epsilon - terms[0][0]).exp()  # e^(epsilon - loss)
        for loss, mass in terms:
            if loss <= epsilon:
                break
            total += mass * (1 - left)
            left *= step
            if total * (1 + _SLACK) > target:
                return True
        return False

    low, high = Decimal(0), Decimal(most)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return _up(float(high))


def bound(alone: OneAnswer, n: int, allowed: int, delta: Fraction) -> Bound:
    """Epsilon of n answers where at most ``allowed`` could have been asked for (docs/proofs/answers.md, section 3)."""
    pure, loss = _up(n * alone.pure), composed(alone, allowed, delta)
    return Bound(n, min(pure, loss), COMPOSED if loss < pure else PURE, pure, loss)


def filtered_bound(alone: OneAnswer, often: int, parts: int, delta: Fraction) -> Bound:
    """Epsilon of the answers that a document takes part in, where each part of it does in at most ``often``.

    Parts may take part together or apart, so of several parts the number of answers is not known, and only the pure
    bound counts: each participation of each part adds at most ``alone.part``.
    """
    if parts == 1:
        return bound(alone, often, often, delta)
    pure = _up(often * parts * alone.part)
    return Bound(often * parts, pure, PURE, pure, math.inf)


def answers_period(windows: Sequence[Spent], delta: Fraction) -> AnswersReport:
    """What all windows of a period tell of one document at ``delta``.

    Every answer is charged as the worst one of the period, and a document as one of the most parts that any window of
    it allows.

    Raises:
        PolicyError: no window, one of another claim, or refusals and tails that use up delta.
    """
    if not windows:
        raise PolicyError("a period has at least one window")
    other = [one.window for one in windows if not one.policy.answers]
    if other:
        raise PolicyError(
            f"windows of this budget period make a claim other than {ANSWERS}, and hand out documents whose texts no "
            f"epsilon of answers covers: {', '.join(other[:_NAMED])}; begin a new period with period_start = the time "
            "at which the window opens, once those of the other claim have closed"
        )
    parts = max(one.policy.chunks_max for one in windows)
    each = [
        one_answer(with_noise(one.cls), build_table(one.cls.law), one.policy.gain, one.policy.words_max, parts)
        for one in windows
    ]
    worst = OneAnswer(
        max(one.present for one in each),
        max(one.absent for one in each),
        (max(one.ideal[0] for one in each), max(one.ideal[1] for one in each)),
        max(one.lost for one in each),
        max(one.part for one in each),
    )
    allowed = sum(max(one.all_queries, one.answered) for one in windows)
    lost = allowed * worst.lost
    if lost >= delta:
        raise PolicyError(
            f"refusals and tails of {allowed} answers have probability {float(lost):.3g}, and delta is "
            f"{float(delta):g}: use a smaller gain, or allow fewer answers"
        )
    often = participations_of(windows)
    plain = bound(worst, sum(one.answered for one in windows), allowed, delta - lost)
    filtered = filtered_bound(worst, often, parts, delta - lost)
    return AnswersReport(
        plain=plain,
        filtered=min(filtered, plain, key=lambda one: one.epsilon),  # nobody takes part in more answers than there are
        alone=worst,
        participations=often,
        delta=float(delta),
        items={"refusals and tails": _up(float(lost)), "composed loss": float(delta - lost)},
        parts=parts,
    )


def participations_of(windows: Sequence[Spent]) -> int:
    """B: the answers that one document may take part in, or one part of it.

    A provider counts over its policy's period, so windows that name one beginning share a filter; where this auditor
    looks further back than a policy does, the filters of several periods add up.
    """
    most: dict[int, int] = {}
    for one in windows:
        begins = one.policy.period_start
        most[begins] = max(most.get(begins, 0), one.policy.participations)
    return sum(most.values())


def _log_up(ratio: Fraction) -> float:
    """ln of a fraction of at least 1, rounded up."""
    with localcontext() as context:
        context.prec = _DIGITS
        return _up(float((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()))


def _up(value: float) -> float:
    return math.nextafter(math.nextafter(value, math.inf), math.inf) if value else 0.0
