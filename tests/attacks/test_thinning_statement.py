# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that keeps a favourite visible, or hides or replaces a document.  docs/proofs/thinning.md.

One lie a test, everything else made consistent with it.  Where a lie is about slots there are three ways to tell it,
and each ends at another check: a witness for it (there is none), a W' that is not that of the thinned columns (the
link), and a proof of other scores than W' holds (the pairing).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ragseal.kernel import field
from ragseal.kernel.bn254 import IDENTITY, POINT_BYTES
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import MAX_COLUMNS, ScoreBases
from ragseal.kernel.errors import AuditError, CommitmentError, EncodingError, ProofError
from ragseal.kernel.params import P, R
from ragseal.kernel.thinning import ThinnedFile, verify_thinning
from tests.attacks import thinning_scene as scene
from tests.attacks.checks import (
    LINK_HASHES_PROOF,
    PLACED_HASHED,
    THINNED_HASHED,
    THINNING_COLUMNS,
    THINNING_FILE,
    THINNING_KEY,
    THINNING_LINK,
    THINNING_PAIRING,
    THINNING_SHARE,
    without,
)
from tests.attacks.removal import Check
from tests.attacks.thinning_scene import GROUP, HIDDEN, D, N, Rows, Sent, backend, base, send

pytestmark = pytest.mark.slow

PLACED_COLUMNS = Check(scene, "verify_columns")  #: what the auditor does with the manifest's columns before
PAIRING, LINK = "the proof that hidden slots are empty does not hold", "the thinning opening does not hold"
COLUMNS = "the columns opening does not hold"


def refused(sent: Sent, match: str, error: type[AuditError] = ProofError) -> None:
    with pytest.raises(error, match=match):
        sent.check()


def honest_rows() -> Rows:
    return scene.thin(scene.placed_rows(), scene.mask())


def row_changed(at: int, row: Sequence[int]) -> Rows:
    rows = honest_rows()
    rows[at] = list(row)
    return rows


@cache
def honest() -> Sent:
    return send()


def test_the_honest_index() -> None:
    assert 0 < sum(scene.mask()) < N
    honest().check()
    again = ThinnedFile.decode(honest().file.encode())
    assert again == honest().file
    replace(honest(), file=again).check()


# --- lies about slots ------------------------------------------------------------------------------------------------

#: What the thinned columns hold instead.
LIES: dict[str, Callable[[], Rows]] = {
    "a hidden slot kept": lambda: row_changed(scene.slot(True), scene.placed_rows()[scene.slot(True)]),
    "a visible slot hidden": lambda: row_changed(scene.slot(False), [0] * D),
    "another document in a visible slot": lambda: row_changed(
        scene.slot(False), scene.placed_rows()[scene.slot(False, 1)]
    ),
    "another document in a hidden slot": lambda: row_changed(scene.slot(True), [9, -9, 9, -9]),
    "a document in an empty slot": lambda: row_changed(next(i for i in range(N) if not i % 9), [1, 2, 3, 4]),
    "one entry of one document": lambda: row_changed(
        scene.slot(False), [x + (not j) for j, x in enumerate(scene.placed_rows()[scene.slot(False)])]
    ),
    "a part of a hidden document": lambda: row_changed(
        scene.slot(True), [x * pow(256, -1, R) % R for x in scene.placed_rows()[scene.slot(True)]]
    ),
    "nothing hidden": scene.placed_rows,
    "another index": lambda: scene.thin(scene.placed_rows()[::-1], scene.mask()),
    "everything hidden": lambda: [[0] * D for _ in range(N)],
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_lie_has_no_witness(lie: Callable[[], Rows]) -> None:
    with pytest.raises(ProofError, match="witness does not satisfy"):
        send(thinned=lie())


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_scores_of_other_columns(lie: Callable[[], Rows]) -> None:
    """W' and the proof are honest, the columns are not."""
    sent = send(thinned=lie(), linked=honest_rows())
    refused(sent, LINK)
    with without(THINNING_LINK):
        sent.check()


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_proof_of_other_scores(lie: Callable[[], Rows]) -> None:
    """Columns and W' agree, the proof is of an honest w'."""
    sent = send(thinned=lie(), inputs=lambda r, clear, w, _: (clear, w, scene.times(honest_rows(), r)))
    refused(sent, PAIRING)
    with without(THINNING_PAIRING):
        sent.check()


# --- other coins -----------------------------------------------------------------------------------------------------

OTHER_CONTEXTS = {
    "of another tenant": scene.context(tenant="south"),
    "of another manifest": scene.context(manifest=b"n" * 32),
    "of another beacon": scene.context(beacon=scene.BEACON + 1),
}


@pytest.mark.parametrize("context", OTHER_CONTEXTS.values(), ids=OTHER_CONTEXTS.keys())
def test_coins(context: int) -> None:
    rows = scene.thin(scene.placed_rows(), scene.mask(of=context))
    assert rows != honest_rows()
    sent = send(thinned=rows, inputs=lambda _, clear, w, w2: ([clear[0], context, clear[2]], w, w2))
    refused(sent, PAIRING)
    with without(THINNING_PAIRING):
        sent.check()


def test_coins_of_another_seed() -> None:
    rows = scene.thin(scene.placed_rows(), scene.mask(scene.OTHER_SEED))
    other = coin_commitment(scene.OTHER_SEED)
    sent = send(thinned=rows, seed=scene.OTHER_SEED, inputs=lambda _, clear, w, w2: ([other, *clear[1:]], w, w2))
    refused(sent, PAIRING)
    with without(THINNING_PAIRING):
        sent.check()
    with pytest.raises(ProofError, match="witness does not satisfy"):
        send(thinned=rows, seed=scene.OTHER_SEED)


@pytest.mark.parametrize("share", [HIDDEN - 1, HIDDEN + 1, 1, 255])
def test_another_share_than_stated(share: int) -> None:
    rows = scene.thin(scene.placed_rows(), scene.mask(hidden=share))
    sent = send(thinned=rows, inputs=lambda _, clear, w, w2: ([*clear[:2], share], w, w2))
    refused(sent, PAIRING)
    with without(THINNING_PAIRING):
        sent.check()


@pytest.mark.parametrize(("share", "hides"), [(0, False), (256, True)])
def test_a_share_that_is_none(share: int, hides: bool) -> None:
    """The circuit's rows would hold: nothing hidden, or everything."""
    rows = scene.thin(scene.placed_rows(), [hides] * N)
    with pytest.raises(CommitmentError, match=r"a slot is hidden in 1\.\.255 of 256 cases"):
        send(thinned=rows, hidden=share)
    with without(THINNING_SHARE):
        send(thinned=rows, hidden=share).check()


# --- components along other points -----------------------------------------------------------------------------------


def test_scores_with_a_component_along_the_share() -> None:
    """The circuit's share becomes 0: nothing is hidden, and the columns keep everything."""
    extra = ((scene.clear_base("eta"), -HIDDEN),)
    sent = send(
        thinned=scene.placed_rows(),
        scores_extra=lambda _: extra,
        inputs=lambda _, clear, w, w2: ([*clear[:2], 0], w, w2),
    )
    refused(sent, LINK)
    with without(THINNING_LINK):
        sent.check()


def test_scores_with_a_component_along_the_seed() -> None:
    """Coins of a seed that is chosen once the beacon is known."""
    other = coin_commitment(scene.OTHER_SEED)
    extra = ((scene.clear_base("c_coin"), other - coin_commitment(scene.SEED)),)
    sent = send(
        thinned=scene.thin(scene.placed_rows(), scene.mask(scene.OTHER_SEED)),
        seed=scene.OTHER_SEED,
        scores_extra=lambda _: extra,
        inputs=lambda _, clear, w, w2: ([other, *clear[1:]], w, w2),
    )
    refused(sent, LINK)
    with without(THINNING_LINK):
        sent.check()


def test_scores_with_a_component_along_a_placed_score() -> None:
    """A visible slot's placed score becomes that of another document."""
    at, row = scene.slot(False), [5, 6, 7, 8]
    before = scene.placed_rows()[at]

    def shift(r: Sequence[int]) -> int:
        return scene.dot(r, [a - b for a, b in zip(row, before, strict=True)])

    sent = send(
        thinned=row_changed(at, row),
        scores_extra=lambda r: ((base(backend().key.scores.y, at), shift(r)),),
        inputs=lambda r, clear, w, w2: (clear, [(x + shift(r) * (i == at)) % R for i, x in enumerate(w)], w2),
    )
    refused(sent, LINK)
    with without(THINNING_LINK):
        sent.check()


def test_placed_columns_with_a_component_along_a_thinned_score() -> None:
    """W then takes from w' what W' has too much: a favourite stays although it is hidden."""
    at = scene.slot(True)
    key, row = backend().key, scene.placed_rows()[at]
    sent = send(
        thinned=row_changed(at, row),
        placed_extra=[((base(key.thinned.y, at), -x),) for x in row],
        inputs=lambda r, clear, w, w2: (clear, w, [0 if i == at else x for i, x in enumerate(w2)]),
    )
    refused(sent, COLUMNS)
    with without(PLACED_COLUMNS):
        sent.check()


def test_thinned_columns_without_an_opening_of_their_own() -> None:
    other = scene.opened(scene.bases(), b"b" * 32, scene.commit(scene.bases(), honest_rows(), 2))
    sent = honest().with_file(opening=other.opening)
    refused(sent, COLUMNS)
    with without(THINNING_COLUMNS):
        sent.check()


# --- what is fixed after the weights ---------------------------------------------------------------------------------


def _unseen(r: Sequence[int]) -> list[int]:
    """A row that the weights do not see."""
    return [r[1], -r[0] % R, 0, 0]


def test_thinned_columns_changed_after_the_weights() -> None:
    """With r known first, a hidden slot holds a row of the provider's choice, orthogonal to r."""
    first = honest().statement.weights()
    at = scene.slot(True)
    with pytest.raises(ProofError, match="witness does not satisfy"):
        send(thinned=row_changed(at, _unseen(first)))
    with without(THINNED_HASHED):
        r = replace(honest().statement).weights()
        send(thinned=row_changed(at, _unseen(r))).check()


def test_placed_columns_changed_after_the_weights() -> None:
    """The same for what a visible slot was said to hold before the beacon."""
    at = scene.slot(False)
    rows = scene.placed_rows()

    def moved(r: Sequence[int]) -> Rows:
        return [[(x + y) % R for x, y in zip(row, _unseen(r), strict=True)] if i == at else row
                for i, row in enumerate(rows)]  # fmt: skip

    with pytest.raises(ProofError, match="witness does not satisfy"):
        send(placed=moved(honest().statement.weights()))
    with without(PLACED_HASHED):
        r = replace(honest().statement).weights()
        send(placed=moved(r)).check()


def test_another_proof_of_the_same_statement() -> None:
    """A proof is no identity, but the file is: the link is to its very bytes."""
    other = send()
    assert other.shard.proof != honest().shard.proof
    refused(honest().with_shard(proof=other.shard.proof), LINK)
    with without(LINK_HASHES_PROOF):
        sent = send()
        sent.with_shard(proof=other.shard.proof).check()


# --- keys and files --------------------------------------------------------------------------------------------------


def test_a_proof_under_another_key(tmp_path: Path) -> None:
    sent = send(prover=backend(tmp_path))
    refused(sent, PAIRING)
    with without(THINNING_PAIRING):
        sent.check()


def test_a_statement_about_another_key() -> None:
    sent = send(thinning_key=b"x" * 32)
    refused(sent, "names another thinning key", CommitmentError)
    with without(THINNING_KEY):
        sent.check()


def test_a_statement_about_other_columns() -> None:
    """The file's columns are well opened, and nobody looked at their coins."""
    other = scene.opened(scene.bases(), scene.ATTESTATION, scene.commit(scene.bases(), scene.placed_rows(), 5))
    sent = honest().with_file(columns=other.columns, opening=other.opening)
    refused(sent, "about other thinned columns", CommitmentError)
    with without(THINNING_FILE):
        sent.check()


def test_bases_of_another_capacity() -> None:
    on = scene.bases()
    shorter = ScoreBases(on.y[POINT_BYTES:], on.b)
    with pytest.raises(CommitmentError, match="a thinning key of 60 slots for an attestation key of 59"):
        verify_thinning(GROUP, [honest().statement], backend().key, shorter, honest().file)


def test_columns_of_another_number() -> None:
    """Fewer or more, of thinned or of placed ones."""
    columns = honest().file.columns
    for other in (columns[:-POINT_BYTES], columns + columns[:POINT_BYTES], columns[:-1], b""):
        with pytest.raises(CommitmentError, match="bytes of thinned columns for"):
            replace(honest().statement, thinned=other)
        with pytest.raises(CommitmentError, match=r"malformed|bytes of thinned columns for"):
            replace(honest().statement, placed=other)


def test_truncated_and_oversized_files() -> None:
    data = honest().file.encode()
    for cut in (0, 1, 11, 40, len(data) // 2, len(data) - 256, len(data) - 1):
        with pytest.raises(EncodingError):
            ThinnedFile.decode(data[:cut])
    with pytest.raises(EncodingError, match="too many"):
        ThinnedFile.decode(data + b"\0")
    with pytest.raises(EncodingError):
        replace(honest().file, columns=bytes(POINT_BYTES * (MAX_COLUMNS + 1))).encode()
    with pytest.raises(EncodingError):
        honest().with_shard(proof=honest().shard.proof + b"\0").file.encode()


BAD_POINTS = {
    "the identity": IDENTITY,
    "off the curve": bytes(31) + b"\1" + bytes(31) + b"\5",
    "a coordinate above p": (P + 1).to_bytes(32, "big") + (2).to_bytes(32, "big"),
}


@pytest.mark.parametrize("point", BAD_POINTS.values(), ids=BAD_POINTS.keys())
def test_points_that_are_none(point: bytes) -> None:
    file, link = honest().file, honest().shard.link
    columns = point + file.columns[POINT_BYTES:]
    for sent in (
        honest().with_shard(scores=point),
        honest().with_shard(link=replace(link, announcements=(link.announcements[0], point))),
        honest().with_shard(link=replace(link, folds=(*link.folds[:-1], point))),
        honest().with_shard(proof=point + honest().shard.proof[POINT_BYTES:]),
        replace(honest().with_file(columns=columns), statement=replace(honest().statement, thinned=columns)),
    ):
        with pytest.raises(ProofError, match=r"identity|curve|canonical|malformed|does not hold"):
            sent.check()


def test_links_of_another_shape() -> None:
    link = honest().shard.link
    for other in (
        replace(link, announcements=link.announcements[:1]),
        replace(link, announcements=(*link.announcements, link.announcements[0])),
        replace(link, folds=link.folds[:-4]),
        replace(link, folds=(*link.folds, *link.folds[-4:])),
        replace(link, responses=link.responses[:-1]),
        replace(link, responses=((link.responses[0] + 1) % R, *link.responses[1:])),
        replace(link, announcements=link.announcements[::-1]),
    ):
        refused(honest().with_shard(link=other), "thinning opening")


def test_responses_above_r() -> None:
    link = honest().shard.link
    with pytest.raises(EncodingError):
        honest().with_shard(link=replace(link, responses=(link.responses[0] + R, *link.responses[1:]))).file.encode()
    data = honest().file.encode()
    value = field.to_bytes(link.responses[0])
    above = (link.responses[0] + R).to_bytes(32, "big") if link.responses[0] + R < 1 << 256 else b"\xff" * 32
    with pytest.raises(EncodingError, match="canonical"):
        ThinnedFile.decode(data.replace(value, above))


# --- a curious auditor -----------------------------------------------------------------------------------------------


def test_coins_cannot_be_tried_on_the_scores() -> None:
    """Whoever knows every document computes r, w, and w' for any coins; rho keeps W' from telling which they are."""
    key, sent = backend().key, honest()
    w2 = scene.times(honest_rows(), sent.statement.weights())
    assert GROUP.msm(key.thinned.y, field.pack(w2)) != sent.shard.scores
    (rho,) = scene.scalars(1, 3)
    assert GROUP.msm(key.thinned.y + key.thinned.b, field.pack([*w2, rho])) == sent.shard.scores
