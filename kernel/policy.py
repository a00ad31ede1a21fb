# SPDX-License-Identifier: GPL-3.0-or-later
"""C_policy: everything the guarantee of a window depends on.  SPEC A.6.

A policy is checked against its circuit class before a window opens: score window, gain and budgets must not overflow
the class's comparison width (completeness), and what it advertises must follow from the noise (privacy).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from ragseal.kernel.claims import ANSWERS as ANSWERS
from ragseal.kernel.claims import EVERY_LIST as EVERY_LIST
from ragseal.kernel.claims import EXACT as EXACT
from ragseal.kernel.claims import FORMS, Form, below, form_of
from ragseal.kernel.claims import UNSEEN as UNSEEN
from ragseal.kernel.claims import UNTIL_DELIVERED as UNTIL_DELIVERED
from ragseal.kernel.classes import Asked, AttestationClass, Table, table_of
from ragseal.kernel.encoding import FLAG, HASH, I32, NAME, U16, U32, U64, Codec, Message, Text
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.estimate import link_threshold
from ragseal.kernel.fixedpoint import least_repeat, score_limit
from ragseal.kernel.params import COIN_BITS, MAX_SHARDS, SCORE_UNIT

MAX_DIMENSION = 4096
NO_VOCABULARY = bytes(32)  #: of a claim without one
LONGEST_WINDOW = 366 * 86400  #: seconds
_MINUTE = 60  #: seconds: openings state the minute, as records do (COARSE_TIME)
OPENS_WITHIN = 3600  #: seconds from ``opens`` in which a window may open that lasts shorter
LEAST_TICK, MOST_TICK = 60, 86400  #: seconds between two versions of a live index
BEFORE_TICK = (
    60  #: seconds of version_every that answers leave: an update may be entered a coarse tick late, SPEC A.14.9.2
)
MOST_ANSWERED_BY = 300  #: seconds from a request's admission to its answer, where the claim is answers
OFF, RETURNED = "off", "returned"  #: what a window's guard decides from, SPEC M.10
GUARDS = (OFF, RETURNED)
PRECISE, PAPER = "precise", "paper"  #: the Gumbel law's location in the guard's threshold, SPEC M.10
FORMULAS = (PRECISE, PAPER)
NO_RHO, NO_FORMULA = "0", "none"  #: of a policy without a guard
NO_DELTA = "0"  #: what delta is where nothing takes any
NO_NUMBER = "none"  #: what delta and epsilon_account are where nothing is private
RATIONAL = Text(64, plain=True)


def rational(text: str, name: str) -> Fraction:
    """The value of a canonical rational "p" or "p/q".

    Digits only: Fraction would also take an exponent, and a few bytes such as 1e999999999 fill the memory.

    Raises:
        PolicyError: not a rational in lowest terms.
    """
    try:
        if not re.fullmatch(r"[0-9./]{1,64}", text):
            raise ValueError(text)
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise PolicyError(f"{name}: {text!r} is no rational number such as 1/1000000") from None
    if str(value) != text:
        raise PolicyError(f"{name}: write {text!r} in lowest terms as {value}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Message):
    """All numbers of a window that its guarantee depends on.  SPEC A.6."""

    TAG: ClassVar[str] = "policy"
    LATER: ClassVar[int] = 4
    CODECS: ClassVar[Sequence[Codec]] = (
        NAME, HASH, HASH, U32, NAME, U32, I32, I32, U32, U32, U32, RATIONAL, RATIONAL, RATIONAL, U32, FLAG, Text(64),
        U32, U64, U64, U64, U32, NAME, RATIONAL, NAME, HASH, U32, U32, U32, U16, U32, U32, U32, FLAG, U32,
    )  # fmt: skip

    class_name: str  #: circuit class
    class_digest: bytes  #: digest of the class: parameters, tables and circuit sources
    table_digest: bytes  #: digest of the noise table, or of the decoys' table of draws, SPEC M.4
    dimension: int  #: d, entries of a vector
    claim: str  #: `every-list`, `until-delivered`, `answers`, `unseen` or `exact`
    hidden: int  #: j: the coin hides a slot with probability j / 256; 0 where the claim has no coin
    lo: int  #: least score that counts, 0 <= lo < hi, in units of y (127^2 is cosine 1); of the claim answers 0
    #: score from which on none counts for more, in units of y; of the claim answers the count that a keyword is
    #: clipped to
    hi: int
    gain: int  #: units of w for a unit of y; of the claim answers the steps of noise that one document counts for
    n_max: int  #: queries an account may ask in this window
    k_max: int  #: accounts a coalition may have; 1 of the claim exact
    delta: str  #: of (epsilon, delta), strictly between 0 and 1; `0` of the claim unseen, `none` of exact
    epsilon_account: str  #: what is advertised to one account of n_max queries, SPEC A.6.1; `none` of the claim exact
    theta: str  #: cosine from which two queries are linked, SPEC C.1
    tau: int  #: how many records apart two linked queries may be, SPEC C.1
    gate: bool  #: whether an estimate above k_max leaves a window without a verdict; else it is reported only
    unit: str  #: privacy unit: `slot`
    chunks_max: int  #: slots one document may fill
    period_start: int  #: seconds since 1970: windows from here on share one budget; `opens` of the claim exact
    opens: int  #: seconds since 1970 before which it does not open
    closes: int  #: seconds since 1970 at which it is over if it opens at `opens`; one that opens later lasts as long
    version_every: int = 0  #: seconds between two versions of the indices, SPEC A.12; 0: one version for the window
    guard: str = OFF  #: `off`, or `returned`: one text of an answer is withheld, SPEC M.10
    guard_rho: str = NO_RHO  #: significance at which the guard takes a best score for too near; `0` where it is off
    guard_formula: str = NO_FORMULA  #: `precise` or `paper`; `none` where the guard is off
    vocabulary: bytes = NO_VOCABULARY  #: root of the vocabulary's tree, SPEC A.14.1; 32 zero bytes of another claim
    words_max: int = 0  #: m: keywords that one document may give to an answer; 0 of another claim
    participations: int = 0  #: B: answers of the period that one document may take part in; 0 of another claim
    similarity: int = 0  #: least score of a document that takes part, in units of y, SPEC A.14.3; 0 of another claim
    shards: int = 1  #: S: every tenant's index is so many shards of the class, with one threshold, SPEC A.15
    answered_by: int = 0  #: D: seconds from a request's admission to its answer, SPEC A.14.7; 0 of another claim
    ids: int = 0  #: K: ids of a list, of decoys unless more are drawn or fewer match; of noise the class's, or 0
    #: ids that a shard draws on average, times 2^16; 0 of a class with noise, and of the claims unseen and exact
    decoy_rate: int = 0
    checked: bool = False  #: whether every record's embedding was checked by its account, SPEC B.2.5
    tau_time: int = 0  #: seconds within which records are compared however many lie between, SPEC C.1; 0: tau alone

    @property
    def length(self) -> int:
        """Seconds that the window takes queries, from the time that its opening states."""
        return self.closes - self.opens

    @property
    def opens_by(self) -> int:
        """The latest time that an opening may state, in seconds since 1970."""
        return self.opens + max(self.length, OPENS_WITHIN)

    def may_open(self, time: int) -> bool:
        """Whether an opening may state this time, in seconds since 1970.  SPEC A.1.6."""
        return self.opens - self.opens % _MINUTE <= time <= self.opens_by

    def ends(self, opened: int) -> int:
        """When a window is over whose opening states ``opened``, both in seconds since 1970.  SPEC A.1.6."""
        return opened + self.length

    @property
    def width(self) -> int:
        """gain * (hi - lo): the score window's width in units of w, of the claim answers in steps without the
        constant."""
        return self.gain * (self.hi - self.lo)

    def hmax(self, cls: AttestationClass) -> int:
        """H as the statement has it: the width, or of a noise class its whole steps; of answers one step more."""
        return 1 + self.width if self.answers else cls.window_of(self.width)

    def capacity(self, cls: AttestationClass) -> int:
        """Slots of a tenant's index: those of all its shards."""
        return self.shards * cls.N

    def whole(self, cls: AttestationClass) -> AttestationClass:
        """The class as an accountant sees it: of all the slots among which a query's list is chosen.

        Raises:
            PolicyError: more shards than the class has.
        """
        return cls.whole(self.shards)

    def asked(self, cls: AttestationClass) -> Asked:
        """What every query asks of the class's law.

        Raises:
            PolicyError: the law has no table of this rate.
        """
        return cls.asked(self.hmax(cls), self.lo, self.ids, self.decoy_rate)

    def table(self, cls: AttestationClass) -> Table:
        """The table that the policy binds.

        Raises:
            PolicyError: the class has none of this digest and rate.
        """
        return table_of(cls, self.table_digest, self.decoy_rate)

    @property
    def form(self) -> Form:
        """What the claim means to the bytes."""
        return form_of(self.claim)

    def under(self, claim: str) -> Policy:
        """What the window's policy comes to for a tenant of a lower claim; itself for its own.  SPEC D.24.

        The digest of the table stays that of the policy: a lower claim draws nothing, and has no other table to bind.

        Raises:
            PolicyError: no claim below the policy's.
        """
        if claim == self.claim:
            return self
        if claim not in below(self.claim):
            lower = listed(below(self.claim)) or "none"
            raise PolicyError(
                f"a tenant of a window of the claim {self.claim} cannot have the claim {claim!r}: those below it are "
                f"{lower}"
            )
        made = replace(self, claim=claim, decoy_rate=0, delta=NO_DELTA)
        if form_of(claim).coin:
            return made
        return replace(made, hidden=0, **_not_private(self))

    @property
    def coined(self) -> bool:
        """Whether slots are hidden by coins."""
        return self.form.coin

    @property
    def guarded(self) -> bool:
        """Whether a guard withholds a text of each answer."""
        return self.guard != OFF

    def withheld_of(self, flagged: int) -> int:
        """How many texts are withheld of an answer with this many flagged slots: never more, never fewer, SPEC M.10."""
        return min(1, flagged) if self.guarded else 0

    @property
    def answers(self) -> bool:
        """Whether records are about histograms of keywords, which no column gives, and not about documents' scores."""
        return self.form.words

    def shift(self, cls: AttestationClass) -> int:
        """Delta_b: the worst shift of one query, in table steps: ceil(width / 2^s), or H of a noise class.

        Of answers: what one document adds to one count.
        """
        return self.gain if self.answers else cls.shift_of(self.width)

    def factor(self, cls: AttestationClass) -> int:
        """What w has of y: w_i = factor * y_i + offset (SPEC M.3, of answers A.14.2)."""
        return self.gain << cls.step_bits if self.answers else self.gain

    def offset(self, cls: AttestationClass) -> int:
        """The constant of w.  Of answers one step, so that every keyword has the flag whatever its count is."""
        return 1 << cls.step_bits if self.answers else -self.gain * self.origin(cls)

    def origin(self, cls: AttestationClass) -> int:
        """The score that w counts from: lo, or 0 of decoys."""
        return self.lo if cls.scaled else 0

    def read_from(self, text_root: bytes) -> bytes:
        """The root under which the texts of flagged slots are opened: the index version's, or the vocabulary's."""
        return self.vocabulary if self.answers else text_root

    def validate(self) -> None:
        if not self.form.plain and not 0 < rational(self.delta, "delta") < 1:
            raise PolicyError("delta must lie strictly between 0 and 1")
        self._validate_claim()
        if self.form.private and rational(self.epsilon_account, "epsilon_account") <= 0:
            raise PolicyError("epsilon_account must be positive")
        if not 0 < rational(self.theta, "theta") <= 1:
            raise PolicyError("theta must lie in (0, 1]")
        if not 0 <= self.lo < self.hi:
            raise PolicyError(
                f"the score window needs 0 <= lo < hi, not [{self.lo}, {self.hi}], since an empty slot must score "
                f"lowest: the nearest is {nearest_window(self.lo, self.hi)}"
            )
        if self.gain < 1:
            raise PolicyError("gain must be at least 1")
        if self.n_max < 1 or self.k_max < 1:
            raise PolicyError(
                "n_max and k_max must be at least 1, since without them no epsilon follows: the nearest are n_max = "
                f"{max(1, self.n_max)}, k_max = {max(1, self.k_max)}"
            )
        if not 1 <= self.dimension <= MAX_DIMENSION:
            raise PolicyError(f"dimension must lie in 1..{MAX_DIMENSION}")
        if not 1 <= self.shards <= MAX_SHARDS:
            raise PolicyError(f"shards must lie in 1..{MAX_SHARDS}, not {self.shards}")
        least = least_repeat(self.dimension)
        if link_threshold(Fraction(self.theta)) > least:
            raise PolicyError(
                f"theta = {self.theta} does not link every repeat of a query, whose vectors may be shorter and turned: "
                f"the nearest is theta = {Fraction(least, SCORE_UNIT * SCORE_UNIT)}"
            )
        if self.tau < 1:
            raise PolicyError("tau must be at least 1, or no two records are compared; such as tau = 1000")
        if self.tau_time % _MINUTE or self.tau_time > LONGEST_WINDOW:
            raise PolicyError(
                f"tau_time must be 0 or a multiple of {_MINUTE} s up to {LONGEST_WINDOW}, as records state minutes, "
                f"not {self.tau_time}: the nearest is {min(self.tau_time + -self.tau_time % _MINUTE, LONGEST_WINDOW)}"
            )
        if self.chunks_max < 1:
            raise PolicyError("chunks_max must be at least 1")
        if self.version_every and (self.version_every % 60 or not LEAST_TICK <= self.version_every <= MOST_TICK):
            raise PolicyError(
                f"version_every must be 0 or a multiple of 60 s from {LEAST_TICK} to {MOST_TICK}, not "
                f"{self.version_every}: the nearest is {nearest_tick(self.version_every)}"
            )
        self._validate_guard()
        if self.unit != "slot":
            raise PolicyError('the only privacy unit is "slot"')
        if self.closes <= self.opens:
            raise PolicyError(
                f"needs opens < closes: the window would close at {self.closes}, before it opens at {self.opens}; "
                f"let it close after {self.opens}"
            )
        if self.length > LONGEST_WINDOW:
            raise PolicyError(
                f"a window of {self.length} s is longer than {LONGEST_WINDOW} s (366 days): let it close at "
                f"{self.opens + LONGEST_WINDOW} at the latest, and commit the next one beside it (`serve --next`)"
            )
        if self.period_start > self.opens:
            raise PolicyError(
                f"needs period_start <= opens: the budget period would begin at {self.period_start}, after the window "
                f"opens; the nearest is period_start = {self.opens}"
            )

    def _validate_claim(self) -> None:
        if self.claim not in FORMS:
            raise PolicyError(f"the claim is one of {listed(tuple(FORMS))}, not {self.claim!r}")
        most = (1 << COIN_BITS) - 1
        if self.coined and not 1 <= self.hidden <= most:
            raise PolicyError(
                f"the claim {self.claim} needs a coin that hides 1 to {most} of {most + 1} slots, not "
                f"{self.hidden}: the nearest is hidden = {min(max(self.hidden, 1), most)}"
            )
        if not self.coined and self.hidden:
            raise PolicyError(f"the claim {self.claim} has no coin: hidden must be 0, not {self.hidden}")
        self._validate_plain()
        self._validate_answers()
        if self.form.counted and not self.gate:
            raise PolicyError(
                f"epsilon of the claim {self.claim} is that of k_max accounts: the estimate must gate the verdict"
            )

    def _validate_plain(self) -> None:
        """What means nothing without decoys has one value, and where nothing is private, what means nothing there."""
        if not self.form.plain:
            return
        fixed = {"delta": NO_DELTA, "decoy_rate": 0} | ({} if self.form.private else _not_private(self))
        found = {name: getattr(self, name) for name in fixed}
        odd = [f"{name} must be {only}, not {found[name]}" for name, only in fixed.items() if found[name] != only]
        if odd:
            why = "has no decoys, so that no return is bounded" if self.form.private else "bounds what nobody learns"
            raise PolicyError(f"the claim {self.claim} {why}: {', '.join(odd)}")

    def _validate_guard(self) -> None:
        if self.guard not in GUARDS:
            raise PolicyError(
                f"the guard is one of {listed(GUARDS)}, not {self.guard!r}{_NO_GUARDS.get(self.guard, '')}"
            )
        rho = rational(self.guard_rho, "guard_rho")
        if not self.guarded:
            if (self.guard_rho, self.guard_formula) != (NO_RHO, NO_FORMULA):
                raise PolicyError(f"a policy without a guard has guard_rho = {NO_RHO}, guard_formula = {NO_FORMULA}")
            return
        if not 0 < rho < 1:
            raise PolicyError(f"guard_rho must lie strictly between 0 and 1, such as 1/20, not {self.guard_rho}")
        if self.guard_formula not in FORMULAS:
            raise PolicyError(f"the guard's formula is one of {listed(FORMULAS)}, not {self.guard_formula!r}")

    def _validate_answers(self) -> None:
        said = (self.vocabulary != NO_VOCABULARY, self.words_max > 0, self.participations > 0, self.similarity > 0)
        if not self.answers and any((*said, self.answered_by)):
            raise PolicyError(
                f"vocabulary, words_max, participations, similarity and answered_by are of the claim {ANSWERS}, not "
                f"{self.claim}"
            )
        if self.answers and not all(said):
            raise PolicyError(
                f"the claim {ANSWERS} needs a vocabulary, and words_max, participations and similarity of at least 1"
            )
        if self.answers:
            self._validate_deadline()
        if self.answers and self.lo:
            raise PolicyError(f"counts of the claim {ANSWERS} begin at 0: lo must be 0, not {self.lo}")
        if self.answers and self.guarded:
            raise PolicyError(f"a window of the claim {ANSWERS} returns no document: it has no guard to withhold one")

    def _validate_deadline(self) -> None:
        by = self.answered_by
        if not 1 <= by <= MOST_ANSWERED_BY:
            raise PolicyError(
                f"the claim {ANSWERS} needs answered_by from 1 to {MOST_ANSWERED_BY} s, not {by}: the nearest is "
                f"answered_by = {min(max(by, 1), MOST_ANSWERED_BY)}"
            )
        most = self.version_every - BEFORE_TICK
        if self.version_every and by > most:
            nearest = f"answered_by = {most}" if most > 0 else f"version_every = {LEAST_TICK + BEFORE_TICK}"
            raise PolicyError(
                f"answers would leave {by} s after their request, over versions of the index that are replaced every "
                f"{self.version_every} s: answered_by must be at least {BEFORE_TICK} s below version_every; the "
                f"nearest is {nearest}"
            )
        if self.opens < self.closes < self.opens + by:
            raise PolicyError(
                f"answers would leave {by} s after their request, and the window is open for "
                f"{self.closes - self.opens} s: no request could be answered; let it close after {self.opens + by}"
            )


def _not_private(policy: Policy) -> dict[str, Any]:
    """What means nothing where nothing is private, by its name in the policy, and the one value that it has there."""
    return {
        "delta": NO_NUMBER,
        "epsilon_account": NO_NUMBER,
        "k_max": 1,
        "gate": False,
        "chunks_max": 1,
        "period_start": policy.opens,
        "guard": OFF,
        "guard_rho": NO_RHO,
        "guard_formula": NO_FORMULA,
    }


#: Why a guard that somebody may ask for does not exist.
_NO_GUARDS = {
    "clean": ": a guard on clean scores looks at slots that were not returned, so every answer would depend on their "
    "exact scores, and no epsilon of any claim would follow; `python -m bench.mirabel` measures it, no window has it",
    "noised": ": noised scores of slots that were not returned are not released, so a guard that looks at them tells "
    "more than the list that epsilon is about; the guard that decides from what is returned is called returned",
}


def nearest_tick(seconds: int) -> int:
    """For people: a legal time between two index versions near an illegal one."""
    return min(MOST_TICK, max(LEAST_TICK, (seconds + 30) // 60 * 60))


def nearest_window(lo: int, hi: int) -> str:
    """For people: a legal score window near an illegal one."""
    low, high = sorted((max(0, lo), max(0, hi)))
    high = max(high, low + 1)
    return f"lo = {low}, hi = {high}" + (" (they look swapped)" if hi < lo else "")


def check_policy(
    policy: Policy, cls: AttestationClass, class_digest: bytes, others: Iterable[AttestationClass] = ()
) -> None:
    """A policy belongs to its class and cannot overflow it.

    Args:
        others: classes that a refusal may propose instead.

    Raises:
        PolicyError: says which bound is missed and the nearest gain, window or class that would do.
    """
    policy.validate()
    if policy.class_name != cls.name or policy.class_digest != class_digest:
        raise PolicyError(f"the policy names another circuit class than {cls.name!r} as built here")
    policy.table(cls).check()
    check_law(policy.claim, cls)
    check_draws(policy, cls)
    check_shards(policy, cls)
    cls.check_lists(policy.ids, policy.shards, policy.decoy_rate)
    if policy.answers:
        check_counts(policy, cls)
        return
    if not cls.scaled:
        check_unscaled(policy, cls)
        return
    limit = score_limit(policy.dimension)
    if policy.hi > limit:
        raise PolicyError(
            f"hi = {policy.hi} exceeds the largest possible score {limit} of {policy.dimension} dimensions: the "
            f"nearest is hi = {limit}"
        )
    if policy.hmax(cls) < 1:
        raise PolicyError(
            f"gain {policy.gain} on [{policy.lo}, {policy.hi}] is less than one step of the noise of class "
            f"{cls.name!r}, so that no query could return a text: the nearest is gain = "
            f"{-(-(1 << cls.step_bits) // (policy.hi - policy.lo))}"
        )
    missed = _misfit(policy, cls)
    if missed:
        raise PolicyError(f"gain {policy.gain} on [{policy.lo}, {policy.hi}] {missed}: {_way_out(policy, cls, others)}")


def check_law(claim: str, cls: AttestationClass) -> None:
    """The class's law bounds what a claim is about.

    Raises:
        PolicyError: it does not; names the kind of class that does.
    """
    if form_of(claim).noisy != cls.noisy:
        other = "of decoys" if cls.noisy else "with noise"
        raise PolicyError(
            f"class {cls.name!r} has the law {cls.law!r}, which bounds nothing under the claim {claim}: take a class "
            f"{other} for it (`ragseal-provider change`), or another claim"
        )


def check_draws(policy: Policy, cls: AttestationClass) -> None:
    """Of decoys some are drawn where the claim bounds a return by them.

    Raises:
        PolicyError: none are.
    """
    if not cls.scaled and not policy.form.plain and not policy.decoy_rate:
        raise PolicyError(
            f"without decoys no return is bounded, so the claim {policy.claim} cannot be made: let decoy_rate be "
            f"positive, or claim {UNSEEN}"
        )


def require_shards(cls: AttestationClass, shards: int) -> None:
    """An index has as many shards as its class proves one threshold for.

    Raises:
        PolicyError: too many, or none.
    """
    most = cls.S
    if not 1 <= shards <= most:
        raise PolicyError(
            f"an index of class {cls.name!r} has 1 to {most} shards, not {shards}: the nearest is shards = "
            f"{max(1, min(shards, most))}"
        )


def check_shards(policy: Policy, cls: AttestationClass) -> None:
    """A policy's shards are its class's and its claim's.

    Raises:
        PolicyError: as :func:`require_shards`, or a claim whose histograms have one shard.
    """
    require_shards(cls, policy.shards)
    if policy.answers and policy.shards != 1:
        raise PolicyError(
            f"the claim {ANSWERS} counts keywords in one shard: let shards be 1, not {policy.shards}, in a class that "
            "has a slot for every keyword (`ragseal-provider change --class CLASS --shards 1`)"
        )


def check_unscaled(policy: Policy, cls: AttestationClass) -> None:
    """Of decoys only the order of scores counts, and which are above lo.

    Raises:
        PolicyError: a score window or a gain is named, or scores do not fit the class.
    """
    if (policy.hi, policy.gain) != (policy.lo + 1, 1):
        raise PolicyError(
            f"class {cls.name!r} compares scores as they are: hi must be lo + 1 = {policy.lo + 1} and gain 1, not "
            f"{policy.hi} and {policy.gain}"
        )
    limit = score_limit(policy.dimension)
    if policy.lo >= limit:
        raise PolicyError(
            f"lo = {policy.lo}: no score of {policy.dimension} dimensions exceeds {limit}, so nothing would match; the "
            f"nearest is lo = {limit - 1}"
        )
    cls.check_range(0, policy.lo, -limit, limit)


def check_counts(policy: Policy, cls: AttestationClass) -> None:
    """Counts of the claim answers fit their class, however many documents take part.

    Raises:
        PolicyError: Gaussian noise, a similarity that nothing has, or clipped counts that overflow the class.
    """
    if not cls.counts:
        raise PolicyError(
            f"the claim {ANSWERS} needs geometric noise, whose tail falls alike at every count: class {cls.name!r} has "
            f"the law {cls.law!r}, name one with 'geometric-16'"
        )
    limit = score_limit(policy.dimension)
    if policy.similarity > limit:
        raise PolicyError(f"no document reaches similarity = {policy.similarity}: the largest score is {limit}")
    try:
        steps = policy.hmax(cls)
        cls.check_range(steps, 0, 0, steps << cls.step_bits)  # the provider clips counts before it commits to them
    except PolicyError as error:
        raise PolicyError(
            f"{policy.hi} documents of {policy.gain} steps overflow class {cls.name!r}, since {error}: use a smaller "
            "gain or hi"
        ) from None


def _way_out(policy: Policy, cls: AttestationClass, others: Iterable[AttestationClass]) -> str:
    """The largest gain that fits, and the classes in which the same noise for a score fits."""
    most = max_gain(policy, cls)
    ways = [f"use gain <= {most}" if most else "use a narrower score window"]
    for other in others:
        # The noise is 2^step_bits times the table's.
        same = replace(policy, gain=max(1, (policy.gain << other.step_bits) >> cls.step_bits))
        alike = type(other) is type(cls) and other.law == cls.law
        if alike and other.name != cls.name and not _misfit(same, other):
            ways.append(f"class {other.name!r} ({other.N} slots) with gain = {same.gain}")
    return listed(ways)


def listed(ways: Sequence[str]) -> str:
    """Ways out, for people: "a, b, or c"."""
    return ", ".join([*ways[:-2], ", or ".join(ways[-2:])])


def _misfit(policy: Policy, cls: AttestationClass) -> str:
    """Why not every query of the policy can be proven in the class (completeness only); nothing if all can."""
    try:
        cls.check_range(policy.hmax(cls), policy.lo, *extreme_scores(policy))
    except PolicyError as error:
        return f"overflows class {cls.name!r}, since {error}"
    return ""


def extreme_scores(policy: Policy) -> tuple[int, int]:
    """The least and the largest w that any score can have: of an opposite and of an equal vector."""
    limit = score_limit(policy.dimension)
    return policy.gain * (-limit - policy.lo), policy.gain * (limit - policy.lo)


def max_gain(policy: Policy, cls: AttestationClass) -> int:
    """Largest gain that the class can compare for this score window, 0 if none."""
    # What check_range compares grows with the gain: the largest that they take is found by halving.
    least = -(-(1 << cls.step_bits) // (policy.hi - policy.lo))
    if _misfit(replace(policy, gain=least), cls):
        return 0
    low, high = least, 1 << 32
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _misfit(replace(policy, gain=middle), cls) else (middle, high)
    return low
