# SPDX-License-Identifier: GPL-3.0-or-later
"""From a state folder's settings to what computes: class, keys, mechanism, embedder; and what a policy promises."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from ragseal.accounting.claims import claim_of
from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.backends.native import available, slow_path_notice
from ragseal.circuits.build import BuiltCircuit, build, default_cache
from ragseal.circuits.circuit import class_digest, fitting, load_classes
from ragseal.circuits.packages import node_modules
from ragseal.embedder import load_embedder
from ragseal.groth16.provers import open_backend
from ragseal.kernel.classes import AttestationClass, last_release_of
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate_class import CLASSES, EstimateClass
from ragseal.kernel.policy import Policy, check_policy
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.thinning_class import ThinningClass, thinning_class
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
        ConfigurationError: there is none of this name, or none any more; lists those there are.
    """
    classes = load_classes()
    last = last_release_of(name)
    if last and name not in classes:
        raise ConfigurationError(
            f"class {name!r} is no more: with ragseal {last} close its window, have it audited and retire it; then "
            f"`ragseal-provider change --class` takes one of {', '.join(classes)}"
        )
    if name not in classes:
        raise ConfigurationError(f"this release has no circuit class {name!r}, only {', '.join(classes)}")
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

    chosen = os.environ.get(BACKEND_VARIABLE, "auto")

    def circuit() -> BuiltCircuit[C]:
        return build(cls, build_directory(), progress, complete=not available() or chosen == "snarkjs")

    def backend(folder: Path) -> Any:
        return open_backend(circuit(), folder, node_modules(), chosen)

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
        thinning_keys=None if cls.noisy else open_thinning_keys(state, cls, progress),
        documents=lambda: load_embedder(state.settings.embedder, threads=1),
    )


def signing_key(directory: Path) -> SigningKey:
    """The provider's key, without opening (and locking) its state."""
    return load_key(directory / KEY_FILE)


# --- promises --------------------------------------------------------------------------------------------------------


def advertised_epsilon(policy: Policy, cls: AttestationClass, accounts: int = ACCOUNTS) -> Fraction:
    """The smallest epsilon that may be advertised to an account, rounded up; 0 of a claim that has none.

    Args:
        accounts: of the window, at most.

    Raises:
        PolicyError: the policy overflows its class or its noise gives no finite epsilon; says what would do.
    """
    check_policy(policy, cls, class_digest(cls), load_classes().values())  # first: less gain mends both
    if not policy.form.private:
        return Fraction(0)
    epsilon = claim_of(policy).promised(policy, cls, accounts).epsilon
    return Fraction(math.ceil(Fraction(epsilon) * EPSILON_UNIT), EPSILON_UNIT)


def check_promises(policy: Policy, cls: AttestationClass, accounts: int = ACCOUNTS) -> None:
    """A policy fits its class, its claim has a finite epsilon, and what it advertises follows from coin and noise.

    Args:
        accounts: of the window, at most.

    Raises:
        PolicyError: which bound is missed, and the nearest policy that would do.
    """
    claim_of(policy).check_promise(policy, cls, accounts, advertised_epsilon(policy, cls, accounts))
