# SPDX-License-Identifier: GPL-3.0-or-later
"""Honest statements satisfy the decoys' circuit, in all modes; its layout; what determines what."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from ragseal.circuits.build import _constants as poseidon_constants
from ragseal.circuits.build import compile_main, compiled_circuit, find_compiler, header
from ragseal.circuits.circuit import circuit_of, decoys_sources
from ragseal.circuits.search import count_rows
from ragseal.kernel import mechanism
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.hints import assign
from ragseal.kernel.decoys.law import select
from ragseal.kernel.decoys.statement import CLEAR_NAMES, SHARED, DecoysLayout, list_commitment, pack_list
from ragseal.kernel.errors import AttestationError, EncodingError, UnprovableError
from ragseal.kernel.params import TAG_DRAWS, TAG_LIST
from ragseal.kernel.statement import Returned
from tests.circuits.determination import (
    DERIVED,
    check_quotients,
    check_sources,
    check_what_follows,
    group_wires,
    loose_of_places,
)
from tests.circuits.r1cs import read
from tests.circuits.scene import CACHE
from tests.decoys.drafts import FULL, LO, TINY, WIDE, Draft, Setting, scores

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[TINY, FULL, WIDE], ids=lambda cls: cls.name)
def setting(request: pytest.FixtureRequest) -> Setting:
    return Setting(request.param)


def reference(d: Draft) -> None:
    """The kernel's list and openings are the draft's, which shares no code with them."""
    key, y = mechanism.noise_key(d.seed, d.beacon, d.ctx), [one.y for one in d.shards]
    chosen = select(d.cls, d.table, key, y, d.lo, d.K)
    shared, made = assign(d.cls, d.table, chosen, y, d.lo, d.K)
    assert shared.values() == [d.threshold, d.last, d.short, d.over, d.total]
    for h, (one, own) in enumerate(zip(d.shards, made, strict=True)):
        assert list(chosen.returned[h]) == d.returned(h)
        assert list(own.hints) == d.hints(h)
        assert (list(own.members), list(own.behind)) == (one.members, one.b[1:])
        assert own.count == len(d.returned(h))


def mode(d: Draft) -> tuple[str, bool]:
    """How the list ends, and whether it has results."""
    return ("short" if d.short else "over" if d.over else "exact"), d.total > len(d.drawn)


def test_public_signals_stand_in_layout_order(setting: Setting) -> None:
    cls, layout = setting.cls, DecoysLayout(setting.cls)
    names = [name.split("[")[0] for name in setting.r1cs.names[1:]]
    assert setting.r1cs.public == layout.public == circuit_of(cls).public
    clear = [name for name in CLEAR_NAMES for _ in range(cls.draws + 1 if name == "table" else 1)]
    assert names[: layout.clear] == clear
    assert names[layout.blind_at] == "blind"
    assert names[layout.scores_at : layout.hints_at] == ["x"] * cls.N
    for group in layout.groups:
        at = layout.hints_at + group.offset
        assert names[at : at + group.count] == [group.name] * group.count
    assert names[layout.behind_at] == "count"
    assert tuple(names[layout.shared_at : layout.public]) == SHARED
    assert names[layout.public : layout.public + 3] == ["s_hi", "s_lo", "t_salt"]


def test_honest_statements_are_accepted_in_all_modes(setting: Setting) -> None:
    """60 requests of each small class: short, exact, longer than K; no results, no decoys, nothing; ties; shards."""
    cls, seen = setting.cls, Counter[tuple[str, bool]]()
    small = cls is not WIDE
    for number in range(60 if small else 4):
        rng = random.Random(number)
        shards = 1 + number % cls.S
        y = scores(rng, cls, shards, share=rng.choice((0.0, 0.1, 0.5, 1.0)))
        K = rng.choice((1, 3, 6, cls.room))
        d = setting.honest(number, y, K, rate=rng.choice((1 << 14, 2 << 16) if small else (30 << 16, 1 << 16)))
        reference(d)
        seen[mode(d)] += 1
        for h in range(shards):
            assert setting.accepts(d, h), (number, h)
    if small:
        assert set(seen) >= {("short", True), ("short", False), ("exact", True), ("over", False), ("exact", False)}


def test_scores_at_the_class_s_limits_are_accepted_and_beyond_refused(setting: Setting) -> None:
    """The lowest slot below the highest threshold: X spans all of its chunks, and a bit less is too little."""
    cls = setting.cls
    if cls is WIDE:
        return
    top = min(cls.reach - 2, LO + cls.reach - 1)
    for number in range(3):
        y = [[top, *[top - 1] * 20, *[top - cls.reach + 2] * (cls.N - 21)]]
        d = setting.honest(number, y, 3)
        reference(d)
        assert setting.accepts(d)
        y[0][-1] -= 4
        d = setting.honest(number, y, 3)
        if cls.N - 1 in d.drawn:
            continue
        with pytest.raises(AttestationError, match="range"):
            reference(d)
        assert not setting.accepts(d)


def test_changing_any_public_input_is_rejected() -> None:
    """Every clear input and shared one, a sample of hints and slots, one at a time, all else recomputed."""
    setting, rng = Setting(TINY), random.Random(5)
    drafts = (setting.honest(n, scores(random.Random(n), TINY, 2, 0.1), 9) for n in range(500))
    # The last result is not the shard's only one, scores more than lo + 1, and something was drawn here.
    d = next(
        d
        for d in drafts
        if d.last // TINY.N == 1
        and not d.short
        and d.threshold > LO + 1
        and d.ids[1]
        and any(e.used and not e.drawn for e in d.shards[1].elements)
    )
    inputs, r1cs, layout = d.inputs(1), setting.r1cs, DecoysLayout(TINY)
    names = [name.split("[")[0] for name in r1cs.names]
    # The table of draws enters where J is: its other rows are the policy's word.
    wires = [w for w in range(1, layout.clear - 1) if names[w] != "table"]
    wires += [1 + layout.scores_at + rng.randrange(TINY.N), *range(1 + layout.behind_at, 1 + layout.public)]
    for group in layout.groups:
        used = sum(e.used for e in d.shards[1].elements)
        at = rng.randrange(used) if group.shape[0] == TINY.room else rng.randrange(group.count)
        if group.name == "inverse":  # that of 0 may be anything
            at = next(k for k, e in enumerate(d.shards[1].elements) if e.hits)
        if group.name == "act":
            at = sum(d.shards[1].act)
        wires.append(1 + layout.hints_at + group.offset + at)
    for w in wires:
        assert r1cs.violations(r1cs.solve({**inputs, w: inputs[w] + 1})), r1cs.names[w]


def test_lists_have_one_commitment() -> None:
    """Without a length {} and {slot 0 without a flag} would be one (broken before)."""
    nothing, first = list_commitment(TINY, 7, []), list_commitment(TINY, 7, [Returned(0, False)])
    assert nothing != first
    assert pack_list(TINY, []) == pack_list(TINY, [Returned(0, False)])
    assert len({list_commitment(TINY, 7, [], shard) for shard in range(3)}) == 3  # under one salt
    with pytest.raises(EncodingError, match="room"):
        pack_list(TINY, [Returned(i, False) for i in range(TINY.room + 1)])


@pytest.mark.parametrize("room", [24 * 13, 24 * 13 + 1, 24 * 20])
def test_long_lists_are_hashed_in_a_chain(tmp_path: Path, room: int) -> None:
    """Of 13, 14 and 20 inputs: one hash, and two."""
    cls = DecoysClass("chain", N=1 << 9, draws=1, room=min(room, 1 << 9), c=8, chunks=2)
    room = cls.room
    main = (
        'pragma circom 2.1.6;\ninclude "returned.circom";\n'
        f"component main {{public [salt, count, shard, packed]}} = ListCommitment({room}, {cls.L});\n"
    )
    files = [
        path for path in decoys_sources() if path.name in ("constants.circom", "poseidon.circom", "returned.circom")
    ]
    compile_main(main, tmp_path, find_compiler(), [*files, poseidon_constants()], "chain")
    r1cs = read(tmp_path / "chain.r1cs", tmp_path / "chain.sym")
    returned = [Returned(i, i % 3 == 0) for i in range(0, room, 2)]
    packed = [one.packed for one in returned] + [0] * (room - len(returned))
    inputs = dict(zip(r1cs.inputs, [7, len(returned), 3, *packed], strict=True))
    assert r1cs.solve(inputs)[r1cs.wire_of["out"]] == list_commitment(cls, 7, returned, 3)


def test_tags_are_the_circuit_s() -> None:
    text = "".join(path.read_text() for path in decoys_sources())
    assert f"function TAG_DRAWS() {{ return {TAG_DRAWS}; }}" in text
    assert f"function TAG_LIST() {{ return {TAG_LIST}; }}" in text


@pytest.mark.parametrize(("shards", "K"), [(1, 3), (2, 5)])
def test_too_little_room_is_refused_whatever_the_scores_are(shards: int, K: int) -> None:
    cls = DecoysClass("decoys-small", N=60, draws=14, room=3, c=8, chunks=2, S=2)
    table, refused = Setting(TINY).honest(0, [[0] * 60], rate=5 << 15).table, 0
    for key in range(40):
        outcomes = set()
        for y in ([0] * 60, [LO + i for i in range(60)], [LO + 1, *[0] * 59]):
            try:
                select(cls, table, key, [y] * shards, LO, K)
                outcomes.add("answered")
            except UnprovableError:
                outcomes.add("refused")
        assert len(outcomes) == 1
        refused += outcomes == {"refused"}
    assert 5 < refused < 40


def _check_formula(cls: DecoysClass) -> None:
    rows = count_rows(cls)
    assert (rows.constraints, rows.public) == header(compiled_circuit(circuit_of(cls), CACHE))


def test_the_formula_is_the_compilers(setting: Setting) -> None:
    _check_formula(setting.cls)


def test_ids_of_one_chunk_may_fill_several_blocks() -> None:
    """The compiler divides by an empty array's size where components of one array differ (broken before)."""
    _check_formula(DecoysClass("decoys-blocks", N=1024, draws=340, room=10, c=10, chunks=1))


def test_slots_cost_a_row_or_two() -> None:
    """By formula: what 7,000, 16,384 and 90,000 slots cost in all."""
    for cls, each in (
        (DecoysClass("a", N=7000, draws=72, room=64, c=8, chunks=2), 2.7),
        (DecoysClass("b", N=16384, draws=107, room=107, c=8, chunks=2), 2.45),
        (DecoysClass("c", N=90000, draws=256, room=256, c=16, chunks=1), 1.9),
    ):
        assert count_rows(cls).rows < each * cls.N


# --- determination ----------------------------------------------------------------------------------------------------


def test_quotients_have_one_defining_row_and_all_else_follows(setting: Setting) -> None:
    check_quotients(setting.r1cs)
    check_what_follows(setting.r1cs)


def test_every_input_but_the_blinder_is_used_and_every_row_solved(setting: Setting) -> None:
    r1cs = setting.r1cs
    assert [r1cs.names[w] for w in r1cs.inputs if not r1cs.rows_of[w]] == ["blind"]
    assert len(r1cs.plan(r1cs.inputs)) == r1cs.wires - 1 - len(r1cs.inputs)


def test_nothing_but_quotients_is_assigned() -> None:
    check_sources(path for path in decoys_sources() if path.parent.name == "decoys" or path.name == "decoys.circom")


def test_everything_is_determined_without_a_challenge(setting: Setting) -> None:
    """Given all inputs, rows without a challenge leave nothing open but what is made of challenges."""
    made = r"|limits\.range|(draw|element|number|block)\[?\d*\]?\.(f\w*|range|beta\w+)|beta[34](\[0\])?|slots\.sum"
    assert loose_of_places(setting.r1cs, set(), DERIVED + made) == set()
    # Live: leave any group out of what is committed, or one tied to another with that, and all its wires are loose.
    tied = {"hits": {"drawn"}, "inverse": {"hits"}, "drawn": {"inverse"}, "count": {"used"}}
    names = ["x", *(group.name for group in DecoysLayout(setting.cls).groups), "count", *SHARED]
    for name in names:
        wires = set.union(*(group_wires(setting.r1cs, one) for one in {name} | tied.get(name, set())))
        assert wires
        assert wires <= loose_of_places(setting.r1cs, wires, DERIVED + made), name
