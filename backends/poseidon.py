# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's Poseidon commitments, natively where that is installed.

In plain Python one of them takes longer than all else in an answer, and its constants longer than all else in a start.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.backends.native import available, native, native_errors
from ragseal.kernel import field
from ragseal.kernel import poseidon as reference
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.params import TAG_KEY, TAG_SEED
from ragseal.kernel.statement import Returned
from ragseal.kernel.statements import stated_of


def poseidon(*inputs: int) -> int:
    """:func:`ragseal.kernel.poseidon.poseidon`."""
    if not available():
        return reference.poseidon(*inputs)
    if not 1 <= len(inputs) <= 16:
        raise EncodingError(f"Poseidon takes 1 to 16 inputs here, not {len(inputs)}")
    with native_errors():
        return int.from_bytes(native.poseidon([field.to_bytes(x) for x in inputs]), "big")


def permute(state: list[int]) -> list[int]:
    """:func:`ragseal.kernel.poseidon.permute`."""
    if not available():
        return reference.permute(state)
    with native_errors():
        return [int.from_bytes(x, "big") for x in native.poseidon_permute([field.to_bytes(x) for x in state])]


def seed_commitment(seed: tuple[int, int]) -> int:
    """:func:`ragseal.kernel.statement.seed_commitment`."""
    return poseidon(TAG_SEED, *seed)


def noise_key(seed: tuple[int, int], beacon: int, ctx: int) -> int:
    """:func:`ragseal.kernel.mechanism.noise_key`."""
    return poseidon(TAG_KEY, *seed, beacon, ctx)


def commit_lists(cls: AttestationClass, salt: int, returned: Sequence[Returned], shards: int) -> tuple[int, ...]:
    """:meth:`ragseal.kernel.stated.Stated.lists`."""
    return stated_of(cls).lists(salt, returned, shards, poseidon)
