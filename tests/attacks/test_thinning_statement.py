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
from typing import Any

import pytest

from ragseal.groth16.assignments import CoinWitness, coin_witness
from ragseal.groth16.coin_proofs import Opened
from ragseal.kernel import field
from ragseal.kernel.bn254 import IDENTITY, POINT_BYTES
from ragseal.kernel.coin import COINS_PER_ELEMENT, coin_commitment
from ragseal.kernel.coin_proof import Coined, CoinPoints
from ragseal.kernel.commitment import MAX_COLUMNS, ScoreBases
from ragseal.kernel.errors import AuditError, CommitmentError, EncodingError, ProofError
from ragseal.kernel.params import P, R
from ragseal.kernel.thinning import ThinnedFile, verify_thinning
from ragseal.kernel.thinning_class import PAIRS, TOP_CHUNKS
from tests.attacks import thinning_scene as scene
from tests.attacks.checks import (
    ALPHA_HASHES_POINTS,
    BETA_HASHES_POINTS,
    CHALLENGES_HASH_POINTS,
    LINK_HASHES_PROOF,
    PLACED_HASHED,
    THINNED_HASHED,
    THINNING_COLUMNS,
    THINNING_FILE,
    THINNING_HINTS,
    THINNING_KEY,
    THINNING_LINK,
    THINNING_PAIRING,
    THINNING_SHARE,
    without,
)
from tests.attacks.removal import Both, Check
from tests.attacks.thinning_scene import GROUP, HIDDEN, SIZE, D, N, Rows, Sent, backend, base, send

pytestmark = pytest.mark.slow

PLACED_COLUMNS = Check(scene, "verify_columns")  #: what the auditor does with the manifest's columns before
PAIRING, LINK = "the proof that hidden slots are empty does not hold", "the thinning opening does not hold"
HINTS = "the thinning-hints opening does not hold"
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
    sent = send(thinned=rows, inputs=lambda _, clear, w, w2: ([clear[0], context], w, w2))
    refused(sent, PAIRING)
    with without(THINNING_PAIRING):
        sent.check()


def test_coins_of_another_seed() -> None:
    rows = scene.thin(scene.placed_rows(), scene.mask(scene.OTHER_SEED))
    other = coin_commitment(scene.OTHER_SEED)
    sent = send(thinned=rows, seed=scene.OTHER_SEED, inputs=lambda _, clear, w, w2: ([other, clear[1]], w, w2))
    refused(sent, PAIRING)
    with without(THINNING_PAIRING):
        sent.check()
    with pytest.raises(ProofError, match="witness does not satisfy"):
        send(thinned=rows, seed=scene.OTHER_SEED)


def of_share(share: int) -> dict[str, Any]:
    """What a provider sends that hides as of another j: numbers of pairs that are not in the table with them."""
    own = coin_witness(SIZE, scene.SEED, scene.context(), share)
    plain, pairs = own.hints[: SIZE.plain_hints], own.hints[SIZE.plain_hints :]
    every = [0] * share + [*pairs] + [0] * (PAIRS - share)
    outside = [k for k, count in enumerate(every) if count and not HIDDEN <= k < HIDDEN + PAIRS]
    assert outside
    return {
        "thinned": scene.thin(scene.placed_rows(), scene.mask(hidden=share)),
        "witness": lambda _: replace(own, hints=(*plain, *every[HIDDEN : HIDDEN + PAIRS])),
        "hints_extra": lambda _: [(scene.pair_base(k // PAIRS, k % PAIRS), every[k]) for k in outside],
        "assigned": lambda given: replace(given, hints=(*plain, *every)),
    }


@pytest.mark.parametrize("share", [HIDDEN - 20, HIDDEN + 20, 1, 255])
def test_another_share_than_stated(share: int) -> None:
    """Pairs that are not in the table of j have no base."""
    sent = send(**of_share(share))
    refused(sent, HINTS)
    with without(THINNING_HINTS):
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


def favoured(at: int) -> dict[str, Any]:
    """A hidden slot keeps its document; the circuit is shown an empty one."""
    row = scene.placed_rows()[at]
    return {
        "thinned": row_changed(at, row),
        "inputs": lambda r, clear, w, w2: (clear, w, [0 if i == at else x for i, x in enumerate(w2)]),
    }


def test_hints_with_a_component_along_a_score() -> None:
    """Of a hidden slot, which the circuit so sees empty."""
    at = scene.slot(True)
    points, row = backend().key.mixed.y, scene.placed_rows()[at]
    sent = send(**favoured(at), hints_extra=lambda r: ((base(points, at), -scene.dot(r, row)),))
    refused(sent, HINTS)
    with without(THINNING_HINTS):
        sent.check()


@pytest.mark.parametrize("name", ["products", "hides", "coins"])
def test_coins_with_a_component_that_is_not_under_the_other_keys_points(name: str) -> None:
    """The same favour by a commitment to products, h or coins that only the circuit sees."""
    at = scene.slot(True)
    points, row = backend().key.mixed.y, scene.placed_rows()[at]
    field_of = {"products": 1, "hides": 2, "coins": 3}[name]

    def otherwise(honest: Opened, coined: Coined) -> Opened:
        """The proof is of what these commitments hold; what is opened is honest."""

        class Moved(Opened):
            def commit(self, group: Any, coined: Coined) -> CoinPoints:
                made = super().commit(group, coined)
                with without(BETA_HASHES_POINTS):
                    beta = coined.challenges(made)[1]
                scale = [0, -beta, beta**2, beta**3][field_of]
                extra = ((base(points, at), -scene.dot(coined.statement.weights(), row) * pow(scale, -1, R)),)  # type: ignore[attr-defined]
                first, last = getattr(made, name)
                return replace(made, **{name: (first, scene.plus(last, extra))})

        return Moved(honest.scores, honest.witness, honest.products, honest.blinders)

    with without(BETA_HASHES_POINTS):
        sent = send(**favoured(at), held=otherwise)
        refused(sent, LINK)
    with without(Both((BETA_HASHES_POINTS, THINNING_LINK))):
        sent.check()


def test_scores_with_a_component_along_the_seed() -> None:
    """Coins of a seed that is chosen once the beacon is known."""
    other = coin_commitment(scene.OTHER_SEED)
    extra = ((scene.clear_base("c_coin"), other - coin_commitment(scene.SEED)),)
    sent = send(
        thinned=scene.thin(scene.placed_rows(), scene.mask(scene.OTHER_SEED)),
        seed=scene.OTHER_SEED,
        scores_extra=lambda _: extra,
        inputs=lambda _, clear, w, w2: ([other, clear[1]], w, w2),
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
        placed_extra=[((base(key.mixed.y, at), -x),) for x in row],
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


def products_that_fit(honest: Opened, coined: Coined) -> Opened:
    """With beta known, products make up for whatever w' is: h_i and coin_i stay in the table."""
    beta = coined.challenges(honest.commit(GROUP, coined))[1]
    scores, h = honest.scores, honest.witness.hides
    kept = [(1 - x) * w for x, w in zip(h, scores.placed, strict=True)]
    short = [(now - due) * pow(beta, -1, R) for now, due in zip(scores.thinned, kept, strict=True)]
    return replace(honest, products=[(p + x) % R for p, x in zip(honest.products, short, strict=True)])


def test_products_chosen_after_beta() -> None:
    with pytest.raises(ProofError, match="witness does not satisfy"):
        send(thinned=scene.placed_rows(), held=products_that_fit)
    with without(BETA_HASHES_POINTS):
        send(thinned=scene.placed_rows(), held=products_that_fit).check()


def numbers_that_fit(honest: Opened, coined: Coined) -> Opened:
    """One slot's h against its coin; with alpha and beta known, some pair's number makes up for it."""
    alpha, beta = coined.challenges(honest.commit(GROUP, coined))
    at, witness = scene.slot(True), honest.witness
    coin = witness.coins[at]
    excess = pow(alpha - beta * coin, -1, R) - pow(alpha - beta * coin - 1, -1, R)
    hints = list(witness.hints)
    hints[SIZE.plain_hints + 5] += excess * (alpha - beta * (HIDDEN + 5))
    hides = [0 if i == at else h for i, h in enumerate(witness.hides)]
    element, place = divmod(at, COINS_PER_ELEMENT)
    hints[element] -= 1 << 8 * place
    return replace(honest, witness=replace(witness, hides=tuple(hides), hints=tuple(x % R for x in hints)))


def test_numbers_of_pairs_chosen_after_the_challenges() -> None:
    at = scene.slot(True)
    rows = row_changed(at, scene.placed_rows()[at])
    with pytest.raises(ProofError, match="witness does not satisfy"):
        send(thinned=rows, held=numbers_that_fit)
    with without(CHALLENGES_HASH_POINTS):
        send(thinned=rows, held=numbers_that_fit).check()


def bytes_that_fit(honest: Opened, coined: Coined) -> Opened:
    """A coin that does not hide, out of a top that is no number of 46 bits; alpha is known to the numbers of bytes."""
    alpha, _ = coined.challenges(honest.commit(GROUP, coined))
    at, witness, per = scene.slot(True), honest.witness, TOP_CHUNKS
    coin, (element, place) = witness.coins[at], divmod(at, COINS_PER_ELEMENT)
    hints, byte_at, counts_at = list(witness.hints), SIZE.elements, SIZE.plain_hints - PAIRS
    pairs_at = SIZE.plain_hints - HIDDEN
    byte = hints[byte_at + per * element]
    other = byte - ((255 - coin) << 8 * place) * pow(2, -208, R)
    hints[byte_at + per * element] = other
    hints[counts_at + byte] -= 1
    hints[counts_at] += pow(alpha - other, -1, R) * alpha
    hints[element] -= 1 << 8 * place
    hints[pairs_at + PAIRS + coin] -= 1
    hints[pairs_at + 255] += 1
    hides = [0 if i == at else h for i, h in enumerate(witness.hides)]
    coins = [255 if i == at else x for i, x in enumerate(witness.coins)]
    products = [x * w % R for x, w in zip(coins, honest.scores.placed, strict=True)]
    now = CoinWitness(tuple(hides), tuple(coins), tuple(x % R for x in hints))
    return replace(honest, witness=now, products=products)


def test_numbers_of_bytes_chosen_after_alpha() -> None:
    at = scene.slot(True)
    rows = row_changed(at, scene.placed_rows()[at])
    with pytest.raises(ProofError, match="witness does not satisfy"):
        send(thinned=rows, held=bytes_that_fit)
    with without(ALPHA_HASHES_POINTS):
        send(thinned=rows, held=bytes_that_fit).check()


def test_another_proof_of_the_same_statement() -> None:
    """A proof is no identity, but the file is: the link is to its very bytes."""
    other = send()
    assert other.shown.proof != honest().shown.proof
    refused(honest().with_shown(proof=other.shown.proof), LINK)
    with without(LINK_HASHES_PROOF):
        sent = send()
        sent.with_shown(proof=other.shown.proof).check()


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
        honest().with_shown(proof=honest().shown.proof + b"\0").file.encode()


BAD_POINTS = {
    "the identity": IDENTITY,
    "off the curve": bytes(31) + b"\1" + bytes(31) + b"\5",
    "a coordinate above p": (P + 1).to_bytes(32, "big") + (2).to_bytes(32, "big"),
}


@pytest.mark.parametrize("point", BAD_POINTS.values(), ids=BAD_POINTS.keys())
def test_points_that_are_none(point: bytes) -> None:
    file, link, points = honest().file, honest().shown.slots, honest().shown.points
    columns = point + file.columns[POINT_BYTES:]
    for sent in (
        honest().with_shard(scores=point),
        honest().with_shown(slots=replace(link, announcements=(link.announcements[0], point))),
        honest().with_shown(slots=replace(link, folds=(*link.folds[:-1], point))),
        honest().with_shown(proof=point + honest().shown.proof[POINT_BYTES:]),
        honest().with_shown(points=replace(points, hints=point)),
        *(
            honest().with_shown(points=replace(points, **{name: (getattr(points, name)[0], point)}))
            for name in ("products", "hides", "coins")
        ),
        replace(honest().with_file(columns=columns), statement=replace(honest().statement, thinned=columns)),
    ):
        with pytest.raises(ProofError, match=r"identity|curve|canonical|malformed|does not hold"):
            sent.check()


def test_commitments_of_another_number() -> None:
    points = honest().shown.points
    for name in ("products", "hides", "coins"):
        own = getattr(points, name)
        for other in (own[:1], (*own, own[0])):
            sent = honest().with_shown(points=replace(points, **{name: other}))
            refused(sent, "each over 2 keys' points, are expected")


def test_links_of_another_shape() -> None:
    link = honest().shown.slots
    for other in (
        replace(link, announcements=link.announcements[:1]),
        replace(link, announcements=(*link.announcements, link.announcements[0])),
        replace(link, folds=link.folds[:-4]),
        replace(link, folds=(*link.folds, *link.folds[-4:])),
        replace(link, responses=link.responses[:-1]),
        replace(link, responses=((link.responses[0] + 1) % R, *link.responses[1:])),
        replace(link, announcements=link.announcements[::-1]),
    ):
        refused(honest().with_shown(slots=other), "thinning opening")
    refused(honest().with_shown(hints=replace(link, folds=())), "thinning-hints opening")


def test_responses_above_r() -> None:
    link = honest().shown.slots
    with pytest.raises(EncodingError):
        honest().with_shown(slots=replace(link, responses=(link.responses[0] + R, *link.responses[1:]))).file.encode()
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
    assert GROUP.msm(key.mixed.y, field.pack(w2)) != sent.shard.scores
    (rho,) = scene.scalars(1, 3)
    assert GROUP.msm(key.mixed.y + key.mixed.b, field.pack([*w2, rho])) == sent.shard.scores
