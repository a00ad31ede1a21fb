# SPDX-License-Identifier: GPL-3.0-or-later
"""From a state folder's settings to what computes: class, keys, mechanism, embedder; and what a policy promises."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from ragseal.accounting.answers import answers_of_one_account
from ragseal.accounting.audit import EpsilonReport, ScorePolicy, epsilon_audit
from ragseal.accounting.delivered import Delivered, largest_shift
from ragseal.accounting.delivered_period import delivered_window
from ragseal.accounting.pld import ONE_SIDED_REASON, infinite_loss_mass
from ragseal.accounting.rounding import upward
from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.backends.native import slow_path_notice
from ragseal.circuits.build import BuiltCircuit, build, default_cache
from ragseal.circuits.circuit import class_digest, fitting, load_classes
from ragseal.circuits.packages import node_modules
from ragseal.embedder import load_embedder
from ragseal.groth16.provers import open_backend
from ragseal.kernel import noise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.estimate_class import CLASSES, EstimateClass
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.policy import Policy, check_policy, listed, rational
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.thinning import ThinningClass, thinning_class
from ragseal.prover.keys.keyring import (
    AttestationKeys,
    BlockKeys,
    ThinningKeys,
    attestation_keys,
    block_keys,
    thinning_keys,
)
from ragseal.prover.provider.backends import Backends
from ragseal.prover.storage.state import KEY_FILE, State
from ragseal.runtime.keyfile import load_key

BACKEND_VARIABLE = "RAGSEAL_BACKEND"  #: auto, native or snarkjs
ACCOUNTS = 1000  #: of a window whose registry is not known yet
EPSILON_UNIT = 10**6  #: an advertised epsilon is rounded up to a millionth

Progress = Callable[[str], None]
C = TypeVar("C", AttestationClass, EstimateClass, ThinningClass)
Ring = TypeVar("Ring")
MakeRing = Callable[[Path, C, Callable[[], Path], Callable[[Path], Any]], Ring]


def circuit_class(name: str) -> AttestationClass:
    """A class of the parameter file by name.

    Raises:
        ConfigurationError: there is none of this name; lists those there are.
    """
    classes = load_classes()
    if name not in classes:
        raise ConfigurationError(f"there is no circuit class {name!r}, only {', '.join(classes)}")
    return classes[name]


def build_directory() -> Path:
    """Where compiled circuits lie: RAGSEAL_BUILD, RAGSEAL_CACHE, or the user's cache folder."""
    return default_cache()


def open_keys(state: State, cls: AttestationClass, progress: Progress) -> AttestationKeys:
    """The state's keys; the circuit is compiled when one is taken in or first used.  Says if the slow path is taken."""
    notice = slow_path_notice()
    if notice is not None:
        progress(notice)
    return _open_ring(attestation_keys, state, cls, progress)


def fitting_estimate(cls: AttestationClass) -> EstimateClass:
    """The size of the estimate's circuit that goes with a class."""
    return fitting(cls.name)


def open_estimate_keys(state: State, progress: Progress) -> tuple[BlockKeys, ...]:
    """The state's keys of the estimate's circuit, one ring per size; compiled as in :func:`open_keys`."""
    return tuple(_open_ring(block_keys, state, cls, progress) for cls in CLASSES.values())


def open_thinning_keys(state: State, cls: AttestationClass, progress: Progress) -> ThinningKeys:
    """The state's keys of the thinning's circuit for a class; compiled as in :func:`open_keys`."""
    return _open_ring(thinning_keys, state, thinning_class(cls.N), progress)


def _open_ring(make: MakeRing[C, Ring], state: State, cls: C, progress: Progress) -> Ring:
    """A circuit's keys, which prove by the chosen back end; nothing is compiled yet."""

    def circuit() -> BuiltCircuit[C]:
        return build(cls, build_directory(), progress)

    def backend(folder: Path) -> Any:
        return open_backend(circuit(), folder, node_modules(), os.environ.get(BACKEND_VARIABLE, "auto"))

    return make(state.keys_directory, cls, lambda: circuit().r1cs, backend)


def assemble(state: State, progress: Progress) -> Backends:
    """All that a provider computes with.

    Raises:
        ConfigurationError: the class or the embedder of its settings is not there any more.
    """
    cls = circuit_class(state.settings.class_name)
    return Backends(
        group=default_group(),
        engine=open_engine(cls),
        keys=open_keys(state, cls, progress),
        embedder=load_embedder(state.settings.embedder, threads=1),
        estimate_keys=open_estimate_keys(state, progress),
        thinning_keys=open_thinning_keys(state, cls, progress),
        documents=lambda: load_embedder(state.settings.embedder, threads=1),
    )


def signing_key(directory: Path) -> SigningKey:
    """The provider's key, without opening (and locking) its state."""
    return load_key(directory / KEY_FILE)


# --- promises --------------------------------------------------------------------------------------------------------


def account_report(policy: Policy, cls: AttestationClass) -> EpsilonReport:
    """What one account's n_max queries can learn at most."""
    return _report(policy, cls, 1)


def _report(policy: Policy, cls: AttestationClass, k_max: int) -> EpsilonReport:
    return epsilon_audit(
        policy.whole(cls),
        noise.build_table(cls.law),
        scores=ScorePolicy(gain=policy.gain, lo=policy.lo, hi=policy.hi),
        k_max=k_max,
        n_max=policy.n_max,
        delta=rational(policy.delta, "delta"),
        chunks=policy.chunks_max,
    )


def advertised_epsilon(policy: Policy, cls: AttestationClass, accounts: int = ACCOUNTS) -> Fraction:
    """The smallest epsilon that may be advertised to an account, rounded up.

    Args:
        accounts: of the window, at most; under until-delivered all their queries count for delta.

    Raises:
        PolicyError: the policy overflows its class or its noise gives no finite epsilon; says what would do.
    """
    check_policy(policy, cls, class_digest(cls), load_classes().values())  # first: less gain mends both
    if policy.answers:
        return _rounded(answers_of_one_account(policy, cls))
    if policy.coined:
        return _rounded(_delivered(policy, cls, accounts).epsilon)
    report = account_report(policy, cls)
    _require_finite(report, policy, cls, "an account's")
    return _rounded(report.epsilon)


def _rounded(epsilon: float) -> Fraction:
    return Fraction(math.ceil(Fraction(epsilon) * EPSILON_UNIT), EPSILON_UNIT)


def _delivered(policy: Policy, cls: AttestationClass, accounts: int) -> Delivered:
    """What claim until-delivered promises in one window.

    Raises:
        PolicyError: no finite return follows, or two computations of it disagree.
    """
    delta = rational(policy.delta, "delta")
    found = delivered_window(policy, cls, accounts, delta)
    if not math.isfinite(found.epsilon) and isinstance(cls, LotteryClass):
        raise PolicyError(
            f"no finite return follows at delta {policy.delta}: refusals of {accounts * policy.n_max} queries alone "
            f"take {upward(sum(found.items.values()))}; use fewer queries, or a larger delta"
        )
    if not math.isfinite(found.epsilon):
        gain = _gain_of_a_return(policy, cls, accounts)
        ways = [f"gain <= {gain}" if gain else "a narrower window", "a larger delta"]
        raise PolicyError(
            f"no finite return follows at delta {policy.delta}: one query shifts the noise by {policy.shift(cls)} "
            f"steps, and returns that an empty slot cannot have are likelier than delta allows; use {listed(ways)}"
        )
    _require_agreement(found.routes.agree, *found.routes.returned)
    return found


def _gain_of_a_return(policy: Policy, cls: AttestationClass, accounts: int) -> int:
    """The largest gain, at most the policy's, that has a finite return; 0 if there is none."""
    shift = largest_shift(
        policy.whole(cls), noise.build_table(cls.law), target=1e9, chunks=policy.chunks_max,
        queries=accounts * policy.n_max, delta=rational(policy.delta, "delta"),
    )  # fmt: skip
    return min(policy.gain, cls.widest(shift) // (policy.hi - policy.lo)) if shift else 0


def _require_finite(report: EpsilonReport, policy: Policy, cls: AttestationClass, whose: str) -> None:
    """Epsilon is finite and both of its computations say so, or no auditor passes the window."""
    if not math.isfinite(report.epsilon):
        table = noise.build_table(cls.law)
        if table.one_sided:
            raise PolicyError(f"no finite epsilon for {whose} {report.n} queries: {ONE_SIDED_REASON}")

        def finite(gain: int) -> bool:
            shift = replace(policy, gain=gain).shift(cls)
            return infinite_loss_mass(table, shift, report.compositions) < report.delta.table

        gain = largest(finite, policy.gain)
        ways = [f"gain <= {gain}" if gain else "a narrower window"]
        if report.n_max_finite:
            ways.append(f"at most {report.n_max_finite} queries in all (k_max * n_max)")
        raise PolicyError(
            f"no finite epsilon for {whose} {report.n} queries at delta {policy.delta}: a query shifts the noise by "
            f"{report.shift} steps, and with probability {report.delta_inf:.3g} one of them shows a score that the "
            f"other index cannot give; use {listed(ways)}"
        )
    _require_agreement(report.agree, report.bounds[0].certified, report.bounds[0].second)


def _require_agreement(agree: bool, certified: float, second: float) -> None:
    if not agree:
        raise PolicyError(
            f"two computations of epsilon disagree ({certified:.6g}, {second:.6g}): no auditor would accept this "
            "policy; use another gain or delta"
        )


def largest(holds: Callable[[int], bool], most: int) -> int:
    """The largest x in 1..most for which a property holds that ends somewhere and stays ended; 0 if there is none."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def check_promises(policy: Policy, cls: AttestationClass, accounts: int = ACCOUNTS) -> None:
    """A policy fits its class, its claim has a finite epsilon, and what it advertises follows from coin and noise.

    Args:
        accounts: of the window, at most.

    Raises:
        PolicyError: which bound is missed, and the nearest policy that would do.
    """
    least = advertised_epsilon(policy, cls, accounts)
    if policy.coined:
        return _check_delivered(policy, cls, accounts, least)
    if policy.answers:
        return _check_answers(policy, least)
    if policy.k_max > 1:
        _require_finite(_report(policy, cls, policy.k_max), policy, cls, "the coalition's")
    declared = rational(policy.epsilon_account, "epsilon_account")
    if declared < least:
        ways = [f'advertise at least {float(least):.6g} (or "auto")']
        gain = largest(lambda x: account_report(replace(policy, gain=x), cls).epsilon <= declared, policy.gain)
        if gain:
            ways.append(f"use gain <= {gain}")
        queries = largest(lambda x: account_report(replace(policy, n_max=x), cls).epsilon <= declared, policy.n_max)
        if queries:
            ways.append(f"n_max <= {queries}")
        if not gain and not queries:
            ways.append("use a narrower score window")
        raise PolicyError(
            f"epsilon_account = {policy.epsilon_account} is less than the noise gives: {float(least):.6g} for "
            f"{policy.n_max} queries; {listed(ways)}"
        )


def _check_answers(policy: Policy, least: Fraction) -> None:
    if rational(policy.epsilon_account, "epsilon_account") < least:
        raise PolicyError(
            f"epsilon_account = {policy.epsilon_account} is less than {policy.n_max} answers give: {float(least):.6g}; "
            f'advertise at least {float(least):.6g} (or "auto"), or use a smaller gain or n_max'
        )


def _check_delivered(policy: Policy, cls: AttestationClass, accounts: int, least: Fraction) -> None:
    declared = rational(policy.epsilon_account, "epsilon_account")
    if declared >= least:
        return
    found = _delivered(policy, cls, accounts)
    ways = [f'advertise at least {float(least):.6g} (or "auto")']
    ways.append(f"use unseen <= {float(declared / policy.chunks_max):.6g}")
    raise PolicyError(
        f"epsilon_account = {policy.epsilon_account} is less than {float(least):.6g}, which is unseen "
        f"{upward(found.unseen_once)}; {listed(ways)}"
    )
