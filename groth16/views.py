# SPDX-License-Identifier: GPL-3.0-or-later
"""Verifying keys cut into the bases of what they are for: attestations, blocks of an estimate's certificate, thinnings.

A view refuses a key with another number of public inputs than its class, so keys never cross classes.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from ragseal.backends.group import default_group
from ragseal.backends.native import native_errors
from ragseal.groth16.relations import check_relations
from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, split_points
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.committed import CommittedBases
from ragseal.kernel.errors import ProofError
from ragseal.kernel.estimate_class import EstimateClass
from ragseal.kernel.params import R
from ragseal.kernel.statements import stated_of
from ragseal.kernel.thinning_class import PAIRS, ThinningClass

#: Digests of the keys of this process whose points have no relation: a key is read again for each window, and looking
#: for relations takes longer than all else about it.
_UNRELATED: set[bytes] = set()


class VerifyingKeyData(Protocol):
    """A parsed key: ``ragseal_native.VerifyingKey``, or :class:`ragseal.groth16.verifying_key.VerifyingKey`."""

    @property
    def n_public(self) -> int:
        """Number of public inputs."""

    def to_bytes(self) -> bytes:
        """The canonical form that the digest is of."""

    def to_json(self) -> str:
        """snarkjs' verification_key.json."""

    def digest(self) -> bytes:
        """SHA-256 of :meth:`to_bytes`."""

    def ic(self, start: int, count: int, /) -> bytes:
        """IC points [start, start + count)."""

    def verify(self, proof: bytes, clear: bytes, commitments: bytes, /) -> None:
        """Raises unless the proof holds."""

    def verify_batch(
        self, proofs: list[bytes], clears: list[bytes], commitments: list[bytes], scales: list[bytes], weights: bytes, /
    ) -> None:
        """Raises unless all proofs hold; ``scales`` of a proof's points, or none; 16 unpredictable bytes for each."""


class View:
    """A verifying key whose first ``clear`` of ``public`` inputs are public indeed; the others live in commitments.

    Raises:
        ProofError: the key has another number of public inputs, or anybody can prove anything under it.
    """

    def __init__(self, name: str, public: int, clear: int, vk: VerifyingKeyData) -> None:
        self.vk = vk
        self._clear = clear
        if vk.n_public != public:
            raise ProofError(
                f"this key has {vk.n_public} public inputs, class {name!r} needs {public}: "
                "keys never cross circuit classes"
            )
        if self.digest not in _UNRELATED:
            check_relations(vk.to_bytes())
            _UNRELATED.add(self.digest)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical verifying key."""
        return self.vk.digest()

    def bases(self, at: int, count: int) -> bytes:
        """Points of ``count`` public inputs from ``at`` on; IC_0 belongs to the constant."""
        return self.vk.ic(at + 1, count)

    def _check(self, clear: Sequence[int]) -> None:
        if len(clear) != self._clear:
            raise ProofError(f"{self._clear} clear inputs expected")

    def verify_points(self, clear: Sequence[int], points: bytes, proof: bytes) -> None:
        """The pairing check of one proof with the points added to vk_x.

        Raises:
            ProofError: any input malformed, or the equation does not hold.
        """
        self._check(clear)
        with native_errors():
            self.vk.verify(proof, field.pack(clear), points)

    def verify_points_batch(self, items: Sequence[tuple[Sequence[int], bytes, Sequence[int], bytes]]) -> None:
        """Many (clear, points, scales, proof) in one pairing product with fresh 128-bit weights.

        A point is added to vk_x with its scale; no scales at all are as many ones.

        Raises:
            ProofError: some proof of the batch does not hold (verify one by one to learn which).
        """
        for clear, *_ in items:
            self._check(clear)
        with native_errors():
            self.vk.verify_batch(
                [proof for *_, proof in items],
                [field.pack(clear) for clear, *_ in items],
                [points for _, points, *_ in items],
                [field.pack(scales) for *_, scales, _ in items],
                secrets.token_bytes(16 * len(items)),
            )


class KeyView(View):
    """The key of a circuit that proves a list."""

    def __init__(self, cls: AttestationClass, vk: VerifyingKeyData) -> None:
        self.cls = cls
        self.stated = stated_of(cls)
        self.layout = self.stated.layout
        super().__init__(cls.name, self.layout.public, self.layout.clear, vk)

    @cached_property
    def scores(self) -> ScoreBases:
        """Y_0..Y_(N-1) and B."""
        return ScoreBases(self.bases(self.layout.scores_at, self.cls.N), self.bases(self.layout.blind_at, 1))

    @cached_property
    def committed(self) -> CommittedBases:
        """What the commitments of proofs are made over."""
        return self.stated.bases(self.bases, default_group())

    @cached_property
    def sum_y(self) -> bytes:
        """sum_i Y_i."""
        return default_group().msm(self.scores.y, field.pack([1]) * (len(self.scores.y) // POINT_BYTES))

    def _scales(self, clear: Sequence[int], committed: bytes) -> list[int]:
        """What C_w, the commitments and C_v are added to vk_x with.

        Raises:
            ProofError: another number of points or of clear inputs.
        """
        self._check(clear)
        due = self.committed.count + 1
        if len(committed) != POINT_BYTES * due:
            raise ProofError(f"{due} commitments are expected, not {len(committed) // POINT_BYTES}")
        return list(self.stated.scales(clear[-1]))

    def verify(self, clear: Sequence[int], c_w: bytes, committed: bytes, proof: bytes) -> None:
        """The pairing check of one proof with its commitments; ProofError if it does not hold.

        Args:
            clear: with alpha and beta as the last two.
            committed: the shard's commitments, and C_v behind them.
        """
        points, scales = split_points(c_w + committed), self._scales(clear, committed)
        added = [
            p if k == 1 else default_group().msm(p, field.to_bytes(k)) for p, k in zip(points, scales, strict=True)
        ]
        self.verify_points(clear, b"".join(added), proof)

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None:
        """Many (clear, c_w, committed, proof) at once; ProofError if one does not hold."""
        self.verify_points_batch(
            [(clear, c_w + own, self._scales(clear, own), proof) for clear, c_w, own, proof in items]
        )


class EstimateView(View):
    """The key of the estimate's circuit."""

    def __init__(self, cls: EstimateClass, vk: VerifyingKeyData) -> None:
        self.cls = cls
        super().__init__(cls.name, cls.public, cls.clear, vk)

    @cached_property
    def products(self) -> bytes:
        """Y_ab: of norms, then of products."""
        return self.bases(self.cls.products_at, self.cls.hidden)

    @cached_property
    def form(self) -> bytes:
        """S, on which s is committed."""
        return self.bases(self.cls.form_at, 1)

    @cached_property
    def blinder(self) -> bytes:
        """B."""
        return self.bases(self.cls.blind_at, 1)

    def verify(self, clear: Sequence[int], c_g: bytes, c_s: bytes, proof: bytes) -> None:
        """The pairing check of one block; ProofError if it does not hold."""
        self.verify_points(clear, c_g + c_s, proof)

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None:
        """Many (clear, c_g, c_s, proof) at once; ProofError if one does not hold."""
        self.verify_points_batch([(clear, c_g + c_s, (), proof) for clear, c_g, c_s, proof in items])


class ThinningView(View):
    """The key of the thinning's circuit."""

    def __init__(self, cls: ThinningClass, vk: VerifyingKeyData) -> None:
        self.cls = cls
        super().__init__(cls.name, cls.public, cls.clear, vk)

    @cached_property
    def scores(self) -> ScoreBases:
        """Y^t_0..Y^t_(N-1), on which placed columns and w are committed, and B^t."""
        return ScoreBases(self.bases(self.cls.placed_at, self.cls.N), self.bases(self.cls.blind_at, 1))

    @cached_property
    def mixed(self) -> ScoreBases:
        """Y'^t_0..Y'^t_(N-1), on which w', products, h and coins are committed, and B^t."""
        return ScoreBases(self.bases(self.cls.mixed_at, self.cls.N), self.scores.b)

    def hints(self, hidden: int) -> bytes:
        """H_k and B^t; of the numbers of pairs those of h = 0 and coins from j on, and of h = 1 and coins below j."""
        plain = self.bases(self.cls.hints_at, self.cls.plain_hints)
        return plain + self.bases(self.cls.pairs_at + hidden, PAIRS) + self.scores.b

    def verify(self, clear: Sequence[int], committed: Sequence[bytes], proof: bytes) -> None:
        """The pairing check; ProofError if it does not hold.

        Args:
            clear: with alpha and beta as the last two.
            committed: W, and over Y'^t_i W', C_p, C_h and C_c, then C_x.
        """
        beta = clear[-1]
        scales = 1, 1, R - beta, beta * beta % R, pow(beta, 3, R), 1
        self.verify_points(clear, default_group().msm(b"".join(committed), field.pack(scales)), proof)
