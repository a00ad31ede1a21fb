# SPDX-License-Identifier: GPL-3.0-or-later
"""What sealing an answer costs, and opening it, beside the library's own HPKE of the same suite in the same run.

The library draws its ephemeral key where ours follows from the answer, so that the same request brings the same bytes
(SPEC B.4); opening is the library's in both.
"""

from __future__ import annotations

import secrets
import statistics
import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from ragseal.kernel.sealing import OVERHEAD, public_of, seal, unseal


def sealing(size: int, rounds: int) -> dict[str, Any]:
    """Seal, open and the library's seal of ``size`` bytes, turn and turn about.

    Returns:
        samples in seconds, their medians in milliseconds, and how many bytes longer a sealed answer is.
    """
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    private, plain, info = secrets.token_bytes(32), secrets.token_bytes(size), secrets.token_bytes(32)
    public = public_of(private)
    receiver = X25519PublicKey.from_public_bytes(public)
    samples: dict[str, list[float]] = {"seal": [], "open": [], "library": []}
    for _ in range(rounds):
        secret = secrets.token_bytes(32)
        marks = [time.perf_counter()]
        sealed = seal(public, secret, info, plain)
        marks.append(time.perf_counter())
        opened = unseal(private, info, sealed)
        marks.append(time.perf_counter())
        other = suite.encrypt(plain, receiver, info)
        marks.append(time.perf_counter())
        assert opened == plain
        assert unseal(private, info, other) == plain, "the library's seal is not of our suite"
        for name, begun, done in zip(samples, marks, marks[1:], strict=False):
            samples[name].append(done - begun)
    medians = {name: statistics.median(found) for name, found in samples.items()}
    return {
        "bytes": size,
        "longer_by": OVERHEAD,
        "median_ms": {name: 1000 * value for name, value in medians.items()},
        "ratio": medians["seal"] / medians["library"],
        "samples_s": samples,
    }
