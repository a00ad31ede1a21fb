# SPDX-License-Identifier: GPL-3.0-or-later
"""The native module as a :class:`ragseal.kernel.bn254.Group`, or the kernel's plain Python where it is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ragseal.kernel import field
from ragseal.kernel.bn254 import Group, PurePythonGroup
from ragseal.kernel.errors import ConfigurationError, ProofError

try:
    import ragseal_native
except ImportError:  # the native module is an accelerator; every caller has a slow path or says so
    ragseal_native = None  # type: ignore[assignment]


@contextmanager
def native_errors() -> Iterator[None]:
    """Turn the native module's refusals into ProofError."""
    if ragseal_native is None:
        yield
        return
    try:
        yield
    except ragseal_native.NativeError as error:
        raise ProofError(str(error)) from None


def available() -> bool:
    """Whether the native module is installed."""
    return ragseal_native is not None


def slow_path_notice() -> str | None:
    """What to tell an operator who runs without the native module; None with it."""
    if ragseal_native is not None:
        return None
    return (
        "The native module is not installed: this process takes the slow path, Python and snarkjs.  What comes out is "
        "the same; a proof takes many seconds, checking a key up to minutes.  `make setup` builds the module."
    )


def native() -> Any:
    """The native module.

    Raises:
        ConfigurationError: it is not installed.
    """
    if ragseal_native is None:
        raise ConfigurationError(
            "this needs the native module (making keys always does): run `make setup`, or `pip install ./native`"
        )
    return ragseal_native


class NativeGroup:
    """:class:`ragseal.kernel.bn254.Group` by the native module; uses all cores and releases the GIL."""

    def check(self, points: bytes) -> None:
        with native_errors():
            ragseal_native.g1_check(points)

    def msm(self, points: bytes, scalars: bytes) -> bytes:
        with native_errors():
            return ragseal_native.g1_msm(points, scalars)

    def hash_to_curve(self, domain: bytes, count: int) -> bytes:
        with native_errors():
            return ragseal_native.hash_to_curve(domain, count)

    def combine(self, vectors: Sequence[bytes], coefficients: Sequence[int]) -> bytes:
        with native_errors():
            return ragseal_native.linear_combination(list(vectors), field.pack(coefficients))

    def respond(self, nonces: bytes, challenge: int, witness: bytes) -> bytes:
        with native_errors():
            return ragseal_native.respond(nonces, field.to_bytes(challenge), witness)

    def fold(self, points: bytes, u: int) -> bytes:
        with native_errors():
            return ragseal_native.g1_fold(points, field.to_bytes(u))


@lru_cache(maxsize=1)
def default_group() -> Group:
    """The fastest group there is on this machine."""
    return PurePythonGroup() if ragseal_native is None else NativeGroup()
