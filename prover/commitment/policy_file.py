# SPDX-License-Identifier: GPL-3.0-or-later
"""policy.toml: a window's policy as people write it.  SPEC A.6.

Cosines are written as decimals (``lo = 0.3``), never as whole numbers: the circuit counts them in units of 1/127^2, so
that 1 could be either.  Times are seconds since 1970 or left out (opens at once, for ``duration``), rationals text
(``"1/1000000"``) or whole numbers.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from ragseal.accounting.decoys_curve import ids_needed
from ragseal.accounting.delivered import certified_unseen, fewest_hidden
from ragseal.accounting.delivered_decoys import rate_of_return
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.claims import FORMS, Form, form_of
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.policy import (
    LONGEST_WINDOW,
    NO_DELTA,
    NO_FORMULA,
    NO_NUMBER,
    NO_RHO,
    NO_VOCABULARY,
    OFF,
    PRECISE,
    UNSEEN,
    UNTIL_DELIVERED,
    Policy,
    check_law,
)
from ragseal.prover.commitment.guard import guard_of
from ragseal.runtime import texts

COSINE_ONE = SCORE_UNIT * SCORE_UNIT
MAX_FILE = 1 << 16
MAX_RATIONAL = 64  #: characters of a fraction in lowest terms, as the kernel reads it
TIMES = ("opens", "closes", "period_start")
TENANTS = "tenants"  #: the table of tenants that have a claim of their own
MOST_UNSEEN = certified_unseen(1, chunks=1, periods=1)  #: of a coin that hides one slot in 2^COIN_BITS
ANSWERED_BY = 30  #: seconds, of a policy file of the claim answers that names none
GUARD_RHO = "1/20"  #: of a guard whose policy file names none: that of Mirabel's experiments
LEAST_RETURN, MOST_RETURN = 1, 30
REPORTED, CHECKED = "reported", "checked"  #: what a policy asks of accounts about embeddings
RESULTS = 10  #: of an answer at least, but once in a million, where a policy file names no ids
LEAST_UNSEEN = 0.004  #: a little above that of a coin that hides all slots but one in 2^COIN_BITS

#: What a policy must say, why, and what to write if in doubt.
_REQUIRED = {
    "claim": 'what is claimed: claim = "until-delivered" for any number of accounts, "every-list", or "answers"; '
    '"unseen" and "exact" without decoys',
    "lo": "the lower end of the score window, such as lo = 0.3",
    "n_max": "queries an account may ask; no epsilon of claim every-list follows without it; such as n_max = 25",
    "k_max": "accounts a coalition may have; no epsilon of claim every-list follows without it; k_max = 2 is the least "
    "that is a coalition",
    "delta": 'of the (epsilon, delta) claim, such as delta = "1/1000000"',
}
#: What a class with noise needs beside, and a class of decoys has not.
_OF_NOISE = {
    "hi": "the upper end of the score window, such as hi = 0.7",
    "gain": "signal against the noise; `ragseal-provider plan` finds one, `ragseal-provider policy` prints one",
}
#: And the other way round.
_OF_DECOYS = {
    "return": "an answer with a document is e^return times as likely where the document is; such as return = 6",
}
_DEFAULTS: dict[str, Any] = {
    "class": None,
    "hi": None,
    "gain": None,
    "ids": None,
    "return": None,
    "unseen": None,
    "estimate": "gate",
    "embeddings": REPORTED,
    "epsilon_account": "auto",
    "theta": "9/10",
    "tau": 1000,
    "tau_time": 0,
    "unit": "slot",
    "chunks_max": 1,
    "opens": None,
    "duration": 24 * 3600,
    "closes": None,
    "period_start": None,
    "version_every": 0,
    "guard": OFF,
    "guard_rho": None,
    "guard_formula": None,
    "vocabulary": "",
    "words_max": 0,
    "participations": 0,
    "similarity": 0.0,
    "answered_by": None,
}

TEMPLATE = """\
# A window's policy.  Everything the guarantee depends on; printed in the verdict and bound by the manifest.
{about}
class = "{class_name}"          # circuit class: capacity, and the law, which is decoys
claim = "until-delivered" # what epsilon is about: any accounts and queries, until a document is delivered to them
unseen = {unseen:g}                # the odds of a document's absence grow e^unseen times at most, in a budget period
lo = {lo}                 # cosine above which a document matches: a public choice, no quantile of a tenant's scores
# ids = {ids:<18}# K of an answer, drawn ones and the best of all others; left out, it grows with the index
return = {returned:<17g}# fewer ids are drawn, the larger it is; what a text may be read for it does not bound
n_max = {n_max}                # queries an account may ask in this window: a limit of load, no part of epsilon
k_max = {k_max}                 # accounts that ask as one, above which the estimate warns: no part of epsilon either
estimate = "report"       # "gate" withholds the verdict where more than k_max accounts ask as one
delta = "{delta}"       # of the claim
epsilon_account = "auto"  # advertised to an account; "auto" computes it, a number is checked against the coin
theta = "9/10"            # estimator: cosine that links two queries; `ragseal-provider calibrate` finds one
tau = 1000                # estimator: how many records apart they may be
# tau_time = "1h"         # estimator: or how long apart, however many lie between; records' times are the provider's
chunks_max = 1            # slots one document may fill; m slots cost unseen m times and return about m times
duration = 86400          # seconds the window takes queries, from its opening on; or opens = ... and closes = ...
# version_every = "15m"   # documents that come, change or go count from the next tick on; left out, in the next window
# embeddings = "checked"  # only accounts that compute it themselves are answered; left out, the others are counted
# guard = "returned"      # of each answer one text is withheld: the best one where it is too near to the question
# guard_rho = "1/20"      # how rarely the best score of an unrelated question is taken for too near
# period_start = ...      # windows from then on share one budget; left out, the period of the window before goes on
# [tenants.NAME]          # a tenant with a lower claim than the others: "unseen", or "exact", where nothing is private
# claim = "exact"
"""


Advertise = Callable[[Policy, AttestationClass], Fraction]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a policy takes from the program instead of the file."""

    cls: AttestationClass
    class_digest: bytes
    dimension: int
    now: int  #: seconds since 1970
    period_start: int | None = None  #: of the window before: its budget period goes on unless the file names another
    shards: int = 1  #: of the class, that every index is


def load_policy(path: Path, binding: Binding, advertise: Advertise) -> Policy:
    """Read policy.toml.

    Args:
        advertise: computes the account's epsilon for ``epsilon_account = "auto"``.

    Raises:
        PolicyError: unreadable, an unknown or missing key, a value of the wrong kind or out of range.
    """
    return read_policy(policy_values(policy_bytes(path)), binding, advertise)


def policy_bytes(path: Path) -> bytes:
    """What a policy file holds, once it is found to be TOML.  PolicyError: it cannot be read, or is too large."""
    data = texts.read_bytes(path, f"the policy {path}", most=MAX_FILE, error=PolicyError)
    policy_values(data, f"the policy {path}")
    return data


def policy_values(data: bytes, what: str = "the policy") -> dict[str, Any]:
    """The table of a policy file, which errors call ``what``.  PolicyError: it is none, or too large."""
    if len(data) > MAX_FILE:
        raise PolicyError(f"{what} has more than {MAX_FILE} bytes")
    return texts.toml_of(data, what, error=PolicyError)


def read_policy(values: dict[str, Any], binding: Binding, advertise: Advertise) -> Policy:
    """As :func:`load_policy`, from the file's table."""
    unknown = sorted(set(values) - set(_REQUIRED) - set(_DEFAULTS) - {TENANTS})
    if unknown:
        nearest = {key: difflib.get_close_matches(key, [*_REQUIRED, *_DEFAULTS], 1) for key in unknown}
        named = ", ".join(
            f"{key!r}" + (f" (did you mean {near[0]!r}?)" if near else "") for key, near in nearest.items()
        )
        raise PolicyError(f"policy: unknown keys {named}")
    claim = values.get("claim")
    form = form_of(claim if isinstance(claim, str) else "")
    v = {**_DEFAULTS, **_fixed(form), **values}
    missing = [f"{key} is missing ({why})" for key, why in _REQUIRED.items() if key not in v]
    if missing:
        raise PolicyError(f"policy: {'; '.join(missing)}")
    if v["class"] not in (None, binding.cls.name):
        raise PolicyError(
            f"the policy is for class {texts.shown(v['class'])}, this provider was made for {binding.cls.name!r}"
        )
    opens = binding.now if v["opens"] is None else _whole(v, "opens")
    opens -= opens % COARSE_TIME  # records carry coarse times, which must not lie before the opening
    # The opening states its time to the minute: one minute more, and no window is shorter than its duration.
    closes = opens + _length(v, "duration") + COARSE_TIME if v["closes"] is None else _whole(v, "closes")
    closes += -closes % COARSE_TIME
    running = opens if binding.period_start is None else min(binding.period_start, opens)
    running = running if form.private else opens
    period = running if v["period_start"] is None else _whole(v, "period_start")
    auto = v["epsilon_account"] == "auto"
    claim = v["claim"] if isinstance(v["claim"], str) else ""
    if claim in FORMS:
        check_law(claim, binding.cls)
    _require_own(v, binding.cls, form)
    lo, hi = _window(v, claim) if binding.cls.scaled else (_cosine(v, "lo"), _cosine(v, "lo") + 1)
    coin = _hidden(v, claim) if form.coin else _no_coin(v)
    ids, rate = _lists(v, binding, coin, form)
    draft = Policy(
        class_name=binding.cls.name,
        class_digest=binding.class_digest,
        table_digest=binding.cls.tables(rate)[-1].digest(),
        dimension=binding.dimension,
        claim=claim,
        hidden=coin,
        lo=lo,
        hi=hi,
        gain=_whole(v, "gain") if binding.cls.scaled else 1,
        n_max=_whole(v, "n_max"),
        k_max=_whole(v, "k_max"),
        delta=_rational(v, "delta"),
        epsilon_account="1" if auto else _rational(v, "epsilon_account"),
        theta=_rational(v, "theta"),
        tau=_whole(v, "tau"),
        gate=_gate(v),
        unit=v["unit"] if isinstance(v["unit"], str) else "",
        chunks_max=_whole(v, "chunks_max"),
        period_start=period,
        opens=opens,
        closes=closes,
        version_every=_length(v, "version_every"),
        **_guard(v),
        vocabulary=_vocabulary(v),
        words_max=_whole(v, "words_max"),
        participations=_whole(v, "participations"),
        similarity=_cosine(v, "similarity"),
        shards=binding.shards,
        answered_by=_answered_by(v, claim),
        ids=ids,
        decoy_rate=rate,
        checked=_embeddings(v),
        tau_time=_length(v, "tau_time"),
    )
    draft.validate()
    if opens > binding.now + LONGEST_WINDOW:
        raise PolicyError(
            f"policy: opens = {opens} is more than 366 days from now: let it open by {binding.now + LONGEST_WINDOW}"
        )
    guard_of(draft)  # which counts in floats: here it is refused, and not by every answer of the window
    if not auto:
        return draft
    advertised = advertise(draft, binding.cls)
    if advertised <= 0 and draft.form.private:
        raise PolicyError(f"policy: delta = {draft.delta} alone covers all that an account learns: name a smaller one")
    fields = {name: getattr(draft, name) for name in Policy.__slots__}
    return Policy(**{**fields, "epsilon_account": str(advertised)})


def _embeddings(values: dict[str, Any]) -> bool:
    if values["embeddings"] not in (REPORTED, CHECKED):
        raise PolicyError(
            f'policy: embeddings = "{CHECKED}" answers only accounts that computed the embedding themselves, '
            f'"{REPORTED}" counts the others in the verdict; not {texts.shown(values["embeddings"])}'
        )
    return bool(values["embeddings"] == CHECKED)


def tenant_claims(values: dict[str, Any], policy: Policy) -> dict[str, str]:
    """The lower claims of single tenants, by their names: ``[tenants.NAME]`` with ``claim = "exact"``.  SPEC D.24.

    Args:
        values: the file's table, of which ``policy`` was read.

    Raises:
        PolicyError: no table of tenants, something else than a claim in it, or a claim that is none below the policy's.
    """
    tables = values.get(TENANTS, {})
    if not isinstance(tables, dict) or not all(isinstance(one, dict) for one in tables.values()):
        raise PolicyError('policy: what a tenant has of its own stands in a table: [tenants.NAME], claim = "exact"')
    found = {}
    for name, own in sorted(tables.items()):
        said = f"[tenants.{texts.shown(name)}]"
        if set(own) != {"claim"} or not isinstance(own["claim"], str):
            raise PolicyError(f'policy: {said} has a claim and nothing else, such as claim = "exact"')
        try:
            lower = policy.under(own["claim"]).claim
        except PolicyError as error:
            raise PolicyError(f"policy: {said}: {error}") from None
        if lower != policy.claim:
            found[name] = lower
    return found


def _fixed(form: Form) -> dict[str, Any]:
    """What the file of a claim without decoys need not say, since it can have one value only."""
    if not form.plain:
        return {}
    if form.private:
        return {"delta": NO_DELTA}
    return {"delta": NO_NUMBER, "epsilon_account": NO_NUMBER, "k_max": 1, "estimate": "report"}


def _require_own(values: dict[str, Any], cls: AttestationClass, form: Form) -> None:
    """Each law has keys of its own, which the other has not."""
    if form.plain and values["return"] is not None:
        raise PolicyError(
            f"policy: the claim {form.name} has no decoys, so it bounds no return: leave return out, or name the claim "
            f"{UNTIL_DELIVERED}"
        )
    own, other = (_OF_NOISE, _OF_DECOYS) if cls.scaled else ({} if form.plain else _OF_DECOYS, _OF_NOISE)
    missing = [f"{key} is missing ({why})" for key, why in own.items() if values[key] is None]
    if missing:
        raise PolicyError(f"policy: {'; '.join(missing)}")
    odd = [key for key in (*other, *(("ids",) if cls.scaled else ())) if values[key] is not None]
    if odd:
        raise PolicyError(f"policy: class {cls.name!r} has the law {cls.law!r}: leave out {' and '.join(odd)}")


def _lists(values: dict[str, Any], binding: Binding, hidden: int, form: Form) -> tuple[int, int]:
    """The policy's K, and of decoys the draws that keep to its ``return``."""
    cls = binding.cls
    if cls.scaled:
        return cls.most_ids(binding.shards), 0
    if form.plain:
        return RESULTS if values["ids"] is None else _whole(values, "ids"), 0
    most = values["return"]
    if isinstance(most, bool) or not isinstance(most, (int, float)) or not LEAST_RETURN <= most <= MOST_RETURN:
        raise PolicyError(
            f"policy: return is a number from {LEAST_RETURN:g} to {MOST_RETURN:g}, such as return = 6, not "
            f"{texts.shown(most)}"
        )
    if values["ids"] is None:
        ids = min(ids_needed(binding.shards * cls.N, most, hidden, RESULTS), cls.most_ids(binding.shards))
    else:
        ids = _whole(values, "ids")
    return ids, rate_of_return(cls.N, ids, binding.shards, hidden, most)


def _hidden(values: dict[str, Any], claim: str) -> int:
    """The least j whose coin keeps to the policy's ``unseen``, by the logarithm that the auditor takes."""
    unseen = values["unseen"]
    if isinstance(unseen, bool) or not isinstance(unseen, (int, float)) or not LEAST_UNSEEN <= unseen <= MOST_UNSEEN:
        raise PolicyError(
            f"policy: the claim {claim} needs unseen = a number from {LEAST_UNSEEN} to {MOST_UNSEEN:.4g}, "
            f"such as unseen = 3, not {texts.shown(unseen)}: the odds of a document's absence grow by a factor of "
            "e^unseen at most"
        )
    return fewest_hidden(unseen, chunks=1, periods=1)


def _no_coin(values: dict[str, Any]) -> int:
    if values["unseen"] is not None:
        raise PolicyError(
            f"policy: unseen is of the claims {UNTIL_DELIVERED} and {UNSEEN}: leave it out, or name one of them"
        )
    return 0


def _vocabulary(values: dict[str, Any]) -> bytes:
    """The root that `ragseal-provider vocabulary` printed."""
    named = values["vocabulary"]
    if named == "":
        return NO_VOCABULARY
    try:
        root = bytes.fromhex(named)
    except (TypeError, ValueError):
        root = b""
    if len(root) != len(NO_VOCABULARY):
        raise PolicyError(
            "policy: vocabulary is the root that `ragseal-provider vocabulary` printed, 64 digits, not "
            f"{texts.shown(named)}"
        )
    return root


def _answered_by(values: dict[str, Any], claim: str) -> int:
    """Seconds from a request's admission to its answer; what the file does not say has a default where it is needed."""
    if values["answered_by"] is None:
        return ANSWERED_BY if form_of(claim).words else 0
    return _length(values, "answered_by")


def _gate(values: dict[str, Any]) -> bool:
    if values["estimate"] not in ("gate", "report"):
        raise PolicyError(f'policy: estimate is "gate" or "report", not {texts.shown(values["estimate"])}')
    return bool(values["estimate"] == "gate")


def _guard(values: dict[str, Any]) -> dict[str, str]:
    """The policy's fields about its guard; what a guard needs and the file does not say has a default."""
    guard, rho, formula = values["guard"], values["guard_rho"], values["guard_formula"]
    if not isinstance(guard, str):
        raise PolicyError(f'policy: guard is a name such as "returned", not {texts.shown(guard)}')
    if guard == OFF:
        if rho is not None or formula is not None:
            raise PolicyError('policy: guard_rho and guard_formula are of a guard: write guard = "returned" with them')
        return {"guard": OFF, "guard_rho": NO_RHO, "guard_formula": NO_FORMULA}
    rho = _rational(values, "guard_rho") if rho is not None else GUARD_RHO
    formula = PRECISE if formula is None else formula
    if not isinstance(formula, str):
        raise PolicyError(f'policy: guard_formula is "precise" or "paper", not {texts.shown(formula)}')
    return {"guard": guard, "guard_rho": rho, "guard_formula": formula}


def _window(values: dict[str, Any], claim: str) -> tuple[int, int]:
    """lo and hi in the circuit's units: counts of documents where answers are in words, else scores from cosines."""
    if form_of(claim).words:
        return _whole(values, "lo"), _whole(values, "hi")
    lo, hi = _cosine(values, "lo"), _cosine(values, "hi")
    if lo >= hi:
        below, above = texts.shown(values["lo"]), texts.shown(values["hi"])
        way = f"lo = {above}, hi = {below} (they look swapped)" if hi < lo else "a window such as lo = 0.3, hi = 0.7"
        raise PolicyError(f"policy: the score window needs lo < hi, not [{below}, {above}] in cosines: write {way}")
    return lo, hi


def _whole(values: dict[str, Any], name: str) -> int:
    value = values[name]
    if isinstance(value, date) and name in TIMES:  # a datetime is a date, too
        at = round(value.timestamp()) if isinstance(value, datetime) and value.tzinfo is not None else None
        seconds = "" if at is None else f": {name} = {at}"
        raise PolicyError(f"policy: {name} is a number of seconds since 1970, not {texts.shown(value)}{seconds}")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise PolicyError(f"policy: {name} must be a whole number from 0 to 2^63 - 1, not {texts.shown(value)}")
    return value


def _length(values: dict[str, Any], name: str) -> int:
    """A length of time: whole seconds, or a text such as "15m"."""
    value = values[name]
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", value) if isinstance(value, str) else None
    if found is not None:
        return int(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]
    if isinstance(value, str):
        raise PolicyError(
            f'policy: {name} = {texts.shown(value)} is not a length of time: write seconds, "90s", "15m", "6h" or "1d"'
        )
    return _whole(values, name)


def _cosine(values: dict[str, Any], name: str) -> int:
    value = values[name]
    if isinstance(value, int) and not isinstance(value, bool):
        inside = cosine_text(value * (1 if value > 1 else COSINE_ONE)) if 0 <= value <= COSINE_ONE else "0.3"
        also = f" for {value} units" if 1 < value <= COSINE_ONE else ""
        raise PolicyError(
            f"policy: {name} is a cosine, which is written as a decimal; {texts.shown(value)} is a whole number, which "
            f"could be of cosine 1 or of the circuit's unit, 1/127^2: write {name} = {inside}{also}"
        )
    if not isinstance(value, float):
        raise PolicyError(f"policy: {name} must be a cosine such as 0.3, not {texts.shown(value)}")
    if math.isnan(value):
        raise PolicyError(f"policy: {name} must be a cosine such as 0.3, not nan")
    if not 0 <= value <= 1:
        raise PolicyError(
            f"policy: the cosine {name} = {value!r} is outside [0, 1]; the nearest is {min(1.0, max(0.0, value))}"
        )
    return round(Fraction(str(value)) * COSINE_ONE)


def cosine_text(units: int) -> str:
    """A score in units of 1/127^2, at most the cosine 1, as a policy file has it: it is read back as the same."""
    text = f"{units / COSINE_ONE:.5f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def _rational(values: dict[str, Any], name: str) -> str:
    value = values[name]
    if value == NO_NUMBER:  # which the kernel takes of a claim that has none
        return NO_NUMBER
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise PolicyError(f'policy: {name} must be a rational such as "1/1000000", not {texts.shown(value)}')
    try:
        if re.search(r"[eE][+-]?[0-9]{4}", str(value)):  # Fraction would fill the memory with 1e999999999
            raise ValueError(value)
        found = str(Fraction(str(value)))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise PolicyError(
            f'policy: {name} = {texts.shown(value)} is not a rational number such as "1/1000000"'
        ) from None
    if len(found) > MAX_RATIONAL:
        raise PolicyError(
            f"policy: {name} = {texts.shown(value)} takes {len(found)} characters as a fraction, at most {MAX_RATIONAL}"
        )
    return found
