# SPDX-License-Identifier: GPL-3.0-or-later
"""From a state folder's settings to what computes: class, keys, mechanism, embedder; and what a policy promises."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits import build as circuits
from ragseal.embedder import load_embedder
from ragseal.groth16.engine import open_engine
from ragseal.groth16.group import default_group
from ragseal.groth16.proving import Backend, open_backend
from ragseal.kernel import noise
from ragseal.kernel.accounting import EpsilonReport, epsilon_audit
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.policy import Policy, check_policy, rational
from ragseal.ledger.keyfile import load_key
from ragseal.prover.keyring import KeyRing
from ragseal.prover.provider import Machinery
from ragseal.prover.state import KEY_FILE, State

BUILD_VARIABLE = "RAGSEAL_BUILD"  #: folder of compiled circuits
BACKEND_VARIABLE = "RAGSEAL_BACKEND"  #: auto, native or snarkjs
EPSILON_UNIT = 10**6  #: an advertised epsilon is rounded up to a millionth

Progress = Callable[[str], None]


def circuit_class(name: str) -> CircuitClass:
    """A class of the parameter file by name; ConfigurationError lists those there are."""
    classes = circuits.load_classes()
    if name not in classes:
        raise ConfigurationError(f"there is no circuit class {name!r}, only {', '.join(classes)}")
    return classes[name]


def class_digest(cls: CircuitClass) -> bytes:
    """What policies and keys name."""
    return circuits.class_digest(cls)


def build_directory() -> Path:
    """Where compiled circuits lie: RAGSEAL_BUILD, else var/build below the working folder."""
    return Path(os.environ.get(BUILD_VARIABLE) or circuits.DEFAULT_CACHE)


def open_keys(state: State, cls: CircuitClass, progress: Progress) -> KeyRing:
    """The state's keys; the circuit is compiled when a back end is first opened."""

    def backend(folder: Path) -> Backend:
        built = circuits.build(cls, build_directory(), progress)
        kind = os.environ.get(BACKEND_VARIABLE, "auto")
        return open_backend(cls, built.r1cs, built.wasm, folder, circuits.HERE / "node_modules", kind)

    return KeyRing(state.keys_directory, cls, backend)


def assemble(state: State, progress: Progress) -> Machinery:
    """All that a provider computes with.

    Raises:
        ConfigurationError: the class or the embedder of its settings is not there any more.
    """
    cls = circuit_class(state.settings.class_name)
    return Machinery(
        group=default_group(),
        engine=open_engine(cls),
        keys=open_keys(state, cls, progress),
        embedder=load_embedder(state.settings.embedder),
    )


def signing_key(directory: Path) -> Ed25519PrivateKey:
    """The provider's key, without opening (and locking) its state."""
    return load_key(directory / KEY_FILE)


# --- promises --------------------------------------------------------------------------------------------------------


def account_report(policy: Policy, cls: CircuitClass) -> EpsilonReport:
    """What one account's n_max queries can learn at most."""
    return epsilon_audit(
        cls,
        noise.build_table(cls.law),
        gain=policy.gain,
        lo=policy.lo,
        hi=policy.hi,
        k_max=1,
        n_max=policy.n_max,
        delta=rational(policy.delta, "delta"),
        chunks=policy.chunks_max,
    )


def advertised_epsilon(policy: Policy, cls: CircuitClass) -> Fraction:
    """The smallest epsilon that may be advertised to an account, rounded up.

    Raises:
        PolicyError: the noise gives no finite epsilon.
    """
    report = account_report(policy, cls)
    if not math.isfinite(report.epsilon):
        raise PolicyError(
            f"no finite epsilon: a query shifts the noise by {report.shift} steps, which allows "
            f"{report.n_max_finite} queries at delta {policy.delta}; use less gain, a narrower window or fewer queries"
        )
    if not report.agree:
        raise PolicyError(
            f"the two computations of epsilon disagree ({report.epsilon_pld:.6g} and {report.epsilon_second:.6g}): "
            "no auditor would accept this policy; use another gain or delta"
        )
    return Fraction(math.ceil(Fraction(report.epsilon) * EPSILON_UNIT), EPSILON_UNIT)


def check_promises(policy: Policy, cls: CircuitClass) -> None:
    """A policy fits its class, and what it advertises follows from the noise.

    Raises:
        PolicyError: which bound is missed, and what would do.
    """
    check_policy(policy, cls, class_digest(cls))
    least = advertised_epsilon(policy, cls)
    if rational(policy.epsilon_account, "epsilon_account") < least:
        raise PolicyError(
            f"epsilon_account = {policy.epsilon_account} is less than the noise gives: {float(least):.6g} for "
            f'{policy.n_max} queries; advertise at least that (or "auto"), or use less gain'
        )
