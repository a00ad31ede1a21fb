# SPDX-License-Identifier: GPL-3.0-or-later
"""The native module as a :class:`ragseal.kernel.bn254.Group`, or the kernel's plain Python where it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ragseal.backends.native import available, native, native_errors
from ragseal.kernel.bn254 import Group, PurePythonGroup, check_count, pack_scalar


class NativeGroup:
    """:class:`ragseal.kernel.bn254.Group` by the native module; uses all cores and releases the GIL."""

    def check(self, points: bytes) -> None:
        with native_errors():
            native.g1_check(points)

    def msm(self, points: bytes, scalars: bytes) -> bytes:
        with native_errors():
            return native.g1_msm(points, scalars)

    def hash_to_curve(self, domain: bytes, count: int) -> bytes:
        check_count(count)
        with native_errors():
            return native.hash_to_curve(domain, count)

    def combine(self, vectors: Sequence[bytes], coefficients: Sequence[int]) -> bytes:
        with native_errors():
            return native.linear_combination(list(vectors), b"".join(map(pack_scalar, coefficients)))

    def respond(self, nonces: bytes, challenge: int, witness: bytes) -> bytes:
        with native_errors():
            return native.respond(nonces, pack_scalar(challenge), witness)

    def fold(self, points: bytes, u: int) -> bytes:
        with native_errors():
            return native.g1_fold(points, pack_scalar(u))


@lru_cache(maxsize=1)
def default_group() -> Group:
    """The fastest group there is on this machine."""
    return NativeGroup() if available() else PurePythonGroup()
