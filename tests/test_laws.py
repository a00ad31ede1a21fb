# SPDX-License-Identifier: GPL-3.0-or-later
"""A further law is a class and its registrations: nothing else asks which kind a class is of."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from ragseal.accounting import failures
from ragseal.accounting.delivered import CoinThrows, Delivered, Routes
from ragseal.accounting.delivered_period import delivered_window
from ragseal.accounting.promises import promise
from ragseal.backends import mechanism
from ragseal.circuits.circuit import Circuit, class_digest, described, layout_of, load_classes
from ragseal.circuits.search import Rows, count_rows
from ragseal.kernel import classes
from ragseal.kernel.classes import AttestationClass, places_suffice, table_of, usual_table
from ragseal.kernel.errors import PolicyError, ProofError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.policy import EVERY_LIST, check_policy
from ragseal.kernel.proofs import Statement, statement_of
from ragseal.kernel.record_proofs import statements_of
from ragseal.kernel.scaled_layout import SCALED, SLOT_HINTS, ScaledLayout
from ragseal.kernel.statement import Input, InputTable, Returned, Size
from ragseal.prover.planning import laws
from ragseal.prover.planning.budgets import Budget
from ragseal.prover.planning.candidates import Candidate, Shape, Window
from ragseal.prover.planning.consent import lines, terms
from ragseal.prover.planning.defaults import policy_text
from ragseal.prover.planning.frontier import Planner
from ragseal.prover.planning.laws.interface import Dial, PlannedLaw
from ragseal.prover.planning.quality import Integers, Mask, Measurement, Setting
from ragseal.prover.planning.recommendation import Target, advise, describe
from ragseal.prover.planning.shapes import left_out, shapes
from ragseal.prover.planning.workload import Workload

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = (
    "accounting", "backends", "circuits", "client", "demo", "embedder", "generators", "groth16", "kernel", "ledger",
    "prover", "runtime", "scripts", "verifier",
)  # fmt: skip
MOST = 9  #: questions after the kind of a class in product code
BUDGET = Budget(25, 2, Fraction(1, 10**6), 3.0)


# --- nothing asks ----------------------------------------------------------------------------------------------------


def kinds() -> set[str]:
    """Names of the kinds of class, and of their subclasses."""
    found, left = set(), list(classes.KINDS)
    while left:
        kind = left.pop()
        found.add(kind.__name__)
        left += kind.__subclasses__()
    return found


def questions(text: str, names: set[str]) -> list[int]:
    """Lines of a program that ask whether something is of a kind: by isinstance, by type() or by a match."""

    def named(node: ast.AST) -> bool:
        inner = (one.id if isinstance(one, ast.Name) else getattr(one, "attr", "") for one in ast.walk(node))
        return not names.isdisjoint(inner)

    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.MatchClass(cls=kind):
                found += [node.lineno] * named(kind)
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass")):
                found += [node.lineno] * named(node)
            case ast.Compare() if "type(" in ast.unparse(node):
                found += [node.lineno] * named(node)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(cls, NoiseClass)", "isinstance(one.cls, int | lottery_class.LotteryClass)",
        "issubclass(kind, (A, NoiseClass))", "type(cls) is LotteryClass",
        "match cls:\n    case NoiseClass():\n        pass",
    ],
)  # fmt: skip
def test_a_question_is_counted(line: str) -> None:
    assert len(questions(line, {"NoiseClass", "LotteryClass"})) == 1


@pytest.mark.parametrize("line", ["isinstance(cls, EstimateClass)", "NoiseClass(1)", "type(a) is type(b)"])
def test_what_is_no_question_is_not_counted(line: str) -> None:
    assert questions(line, {"NoiseClass", "LotteryClass"}) == []


def test_product_code_asks_fewer_than_ten_times_which_kind_a_class_is_of() -> None:
    names = kinds()
    assert {"NoiseClass", "LotteryClass"} <= names
    files = [path for room in PRODUCT for path in (ROOT / room).rglob("*.py") if "node_modules" not in path.parts]
    assert len(files) > 300
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in questions(path.read_text(), names)]
    assert len(found) <= MOST, found


# --- a third law, of nothing but a list of the best ------------------------------------------------------------------


@dataclass(frozen=True)
class ToyTable:
    """What a policy binds: the law's name."""

    law: ClassVar[str] = "toy"

    def digest(self) -> bytes:
        return hashlib.sha256(b"toy").digest()

    def check(self) -> None:
        """Nothing to break."""

    def evidence(self) -> Mapping[str, object]:
        return {"law": self.law}


@dataclass(frozen=True)
class ToyClass(AttestationClass):
    """Exact scores, the smallest slot first of equal ones; so many slots are returned whatever was asked."""

    kind: ClassVar[str] = "toy"
    laws: ClassVar[tuple[str, ...]] = ("toy",)
    table_kind: ClassVar[str] = "toy table"
    by_chance: ClassVar[str] = "a toy"
    coin_only: ClassVar[str] = "is a toy"

    name: str
    law: str
    N: int
    K: int
    R: int
    m: int
    q: int
    c: int

    @property
    def step_bits(self) -> int:
        return 0

    def window_of(self, width: int) -> int:
        return width

    def shift_of(self, width: int) -> int:
        return max(1, width)

    def widest(self, shift: int) -> int:
        return shift

    @property
    def hmax_range(self) -> tuple[int, int]:
        return 1, 1 << 30

    def check_range(self, hmax: int, least: int, most: int) -> None:
        if hmax > 1 << 20:
            raise PolicyError(f"{hmax} units are more than a toy compares")

    def tried_range(self) -> tuple[int, int]:
        return 1 << 10, 1 << 10

    def tables(self) -> tuple[ToyTable, ...]:
        return (ToyTable(),)

    def stated(self, prizes: int) -> tuple[int, ...]:
        return (4711,)

    def overflow_bound_holds(self) -> bool:
        return True

    def overflow_without(self, chunks: int) -> Fraction:
        raise PolicyError("a toy bounds no list")

    def outside_grid(self, chunks: int) -> Fraction:
        return Fraction(chunks, 1 << 90)


TOY = ToyClass("toy-one", "toy", N=128, K=5, R=6, m=8, q=16, c=11)
CLASSES: Sequence[AttestationClass] = (*load_classes().values(), TOY)


class ToyLayout(ScaledLayout):
    """Hints of slots alone."""

    TABLE: ClassVar[InputTable] = InputTable(
        given=(Size("N", "N", "slots"),),
        derived=(),
        clear=tuple(
            Input(name, "", "") for name in ("c_seed", "beacon", "ctx", "hmax", "t_commit", "toy", "alpha", "beta")
        ),
        hints=(Input("slot", f"N, {SLOT_HINTS}", "of a slot"),),
        behind=(SCALED,),
    )


@layout_of.register
def _(cls: ToyClass) -> ScaledLayout:
    return ToyLayout(cls)


@described.register
def _(cls: ToyClass) -> Circuit:
    layout = layout_of(cls)
    digest = hashlib.sha256(repr(cls).encode()).digest()
    return Circuit(cls, cls.kind, (), False, "", layout.public, layout.clear, (), digest)


@count_rows.register
def _(cls: ToyClass) -> Rows:
    return Rows(cls.N, layout_of(cls).public, 0, 7, cls.N)


@promise.register
def _(
    cls: ToyClass, *, prizes: int, shift: int, coins: CoinThrows, chunks: int, queries: int, delta: Fraction, n_max: int
) -> Delivered:
    lost = failures.until_delivered(cls, chunks, queries)
    items, unseen = {"grid": float(lost.grid)}, 1.5 * coins.periods
    routes = Routes((unseen, unseen), (2.0, 2.0), True)
    return Delivered(unseen, 1.5, 2.0, float(delta), items, coins.periods, 0.2, False, 0.0, 0.0, routes)


class ToyEngine:
    """The best K, and hints of nothing."""

    def __init__(self, cls: ToyClass) -> None:
        self.cls = cls

    def answer(self, key: int, w: npt.NDArray[np.int64], hmax: int, prizes: int = 0, /) -> tuple[Returned, ...]:
        best = sorted(range(len(w)), key=lambda slot: (-w[slot], slot))[: self.cls.K]
        return tuple(Returned(slot, bool(w[slot] > 0)) for slot in sorted(best))

    def shard_hints(self, key: int, w: npt.NDArray[np.int64], hmax: int, prizes: int = 0, /) -> mechanism.ShardHints:
        return mechanism.ShardHints(1, lambda _: b"")


class ToyMeasurement(Measurement):
    """Nothing is drawn."""

    def drawn(self, draw: int) -> npt.NDArray[np.int32]:
        return np.zeros((self._work.queries, self._capacity), dtype=np.int32)

    def values(self, drawn: npt.NDArray[np.int32], setting: Setting, hidden: Mask) -> Integers:
        v = drawn.astype(np.int64)
        v[:, : self._work.documents] = self._work.scores
        v[:, : self._work.documents][:, hidden] = 0
        return v

    def silent(self, lo: int, gain: int) -> int:
        return lo


@dataclass(frozen=True, slots=True)
class ToyDial(Dial):
    """One place."""

    def at(self, turned: int) -> Candidate:
        return Candidate(self.shape, self.window, turned, self.budget)

    def place_of(self, candidate: Candidate) -> int:
        return candidate.gain

    def of_return(self, target: float) -> int:
        return 1 if target >= 2.0 else 0

    def places(self, scales: Mapping[str, Sequence[float]]) -> list[int]:
        return [1]


@dataclass(frozen=True, slots=True)
class ToyPlan(PlannedLaw):
    """The toy in a plan."""

    laws: ClassVar[tuple[str, ...]] = ("toy",)
    noun: ClassVar[str] = "toy"
    unbounded: ClassVar[str] = "a toy"

    cls: ToyClass

    @staticmethod
    def in_words(law: str) -> str:
        return "the toy"

    def returning(self, name: str, K: int) -> ToyClass:
        return replace(self.cls, name=name, K=K, R=K + 1)

    def dial(self, shape: Shape, window: Window, budget: Budget, most_gain: Callable[[Window], int]) -> ToyDial:
        return ToyDial(shape, window, budget, 1, min(1, most_gain(window)))

    def gain_of_return(self, lo: int, hi: int, target: float, budget: Budget) -> int:
        return 3

    @property
    def bits(self) -> int:
        return 0

    @staticmethod
    def measurement(work: Workload, law: str, bits: int, capacity: int, draws: int, seed: int) -> ToyMeasurement:
        return ToyMeasurement(work, capacity, draws, seed)

    def comes_back(self, signal: int, prizes: int) -> float:
        return 0.75 if signal else 0.25

    def setting(self, chosen: Candidate) -> str:
        return "nothing is drawn"

    def terms(self, policy: Any) -> dict[str, Any]:
        return {"toys": self.cls.K}

    def terms_in_words(self, terms: Mapping[str, Any]) -> list[str]:
        return [f"{terms['toys']} toys"]


@pytest.fixture(autouse=True)
def _third_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law as a release would add it: one entry of each registry by kind."""
    monkeypatch.setattr(classes, "KINDS", (*classes.KINDS, ToyClass))
    monkeypatch.setitem(mechanism.ENGINES, "toy", (ToyEngine, ToyEngine))
    monkeypatch.setitem(laws.LAWS, "toy", ToyPlan)


def test_its_classes_are_read_from_a_file(tmp_path: Path) -> None:
    values = {f.name: getattr(TOY, f.name) for f in fields(TOY) if f.name != "name"}
    text = "[toy-one]\n" + "".join(f"{k} = {v if isinstance(v, int) else repr(v)}\n" for k, v in values.items())
    file = tmp_path / "toy_classes.toml"
    file.write_text(text)
    assert load_classes(file) == {"toy-one": TOY}
    file.write_text(text + "prizes = 3\n")
    with pytest.raises(PolicyError, match="toy class: these keys are unknown or missing: prizes"):
        load_classes(file)


def test_a_policy_of_it_is_checked_by_its_own_rules() -> None:
    policy = BUDGET.draft(TOY, 384, 4000, 8000, 100)
    check_policy(policy, TOY, class_digest(TOY))
    assert policy.prizes(TOY) == 0
    assert policy.whole(TOY) is TOY
    assert policy.hmax(TOY) == 400_000
    assert usual_table(TOY) == table_of(TOY, policy.table_digest)
    assert places_suffice(TOY, ToyTable())
    with pytest.raises(PolicyError, match=r"1200000 units are more than a toy compares: use gain <= 262"):
        check_policy(replace(policy, gain=300), TOY, class_digest(TOY))
    with pytest.raises(PolicyError, match="toy table is not the canonical toy table"):
        check_policy(replace(policy, table_digest=bytes(32)), TOY, class_digest(TOY))
    listed = replace(policy, claim=EVERY_LIST, hidden=0, gate=True)
    with pytest.raises(PolicyError, match="has the law 'toy', which is a toy: it goes with the claim"):
        check_policy(listed, TOY, class_digest(TOY))
    with pytest.raises(PolicyError, match="1 to 1 shards, not 2"):
        check_policy(replace(policy, shards=2), TOY, class_digest(TOY))


def test_its_proofs_state_what_it_adds() -> None:
    policy = BUDGET.draft(TOY, 384, 4000, 8000, 100)
    stated = statement_of(policy, TOY, 1, 2, 3, 5)
    assert stated.clear() == [1, 2, 3, 400_000, 5, 4711]
    assert statements_of(TOY, stated, 1) == (stated,)
    with pytest.raises(ProofError, match="2 shards; class 'toy-one' has 1"):
        statements_of(TOY, Statement(1, 2, 3, 4, 5), 2)


def test_its_engine_is_its_own() -> None:
    w = np.arange(TOY.N, dtype=np.int64) - 126
    assert [one.slot for one in mechanism.open_engine(TOY).answer(1, w, 10)] == [123, 124, 125, 126, 127]


def test_an_accountant_asks_it() -> None:
    policy = BUDGET.draft(TOY, 384, 4000, 8000, 100)
    found = delivered_window(policy, TOY, 10, Fraction(1, 10**6))
    assert (found.unseen, found.returned) == (1.5, 2.0)
    assert found.items == {"grid": float(Fraction(250, 1 << 90))}
    with pytest.raises(PolicyError, match="a toy bounds no list"):
        failures.every_list(TOY, 1, 10)


def test_a_plan_lists_it() -> None:
    assert shapes(CLASSES, ["toy"], [5, 7], 60) == [
        Shape(TOY, True), Shape(replace(TOY, name="toy-one-k7", K=7, R=8), False),
    ]  # fmt: skip
    assert left_out(CLASSES, ["toy"], []) == [
        "the toy is left out: its largest class holds 128 documents; split the corpus into tenants to use it"
    ]


def test_a_plan_compares_it_with_every_other_kind() -> None:
    random = np.random.default_rng(7)
    scores = random.integers(0, 9000, (6, 60), dtype=np.int32)
    work = Workload("test", 60, scores, tuple({int(row.argmax()): 1} for row in scores))
    planner, window = Planner(work, 384, 2), Window(4839, 8064)
    used = [Shape(one, True) for one in CLASSES if one.name in ("toy-one", "noise-tiny-one", "lottery-tiny")]
    (point,) = planner.grid([Shape(TOY, True)], [window], {}, [BUDGET])
    assert (point.row()["class"], point.row()["scale"], point.row()["prizes"]) == ("toy-one", None, None)
    assert (point.bound, point.epsilon) == (2.0, 1.5)
    (best,) = [p for p in planner.for_bound(6.0, used, [window], BUDGET) if p.cls == TOY]
    assert describe(best).endswith("(nothing is drawn)")
    made = advise(planner, Target(returned=6.0), used, [window], BUDGET)
    assert made.recommended is not None
    nouns = {"law with noise", "lottery", "toy"} - {laws.planned_law(made.recommended.cls).noun}
    assert len(nouns) == 2
    for noun in nouns:
        assert any(one.startswith(f"the best {noun} within the same return reaches") for one in made.reasons), noun


def test_what_a_provider_reads_of_it_is_its_own() -> None:
    policy = BUDGET.draft(TOY, 384, 4000, 8000, 100)
    spent = {
        "epsilon": 1.5, "unseen": 1.5, "return": 2.0, "chance": 0.0, "listed_by_chance": 0.0, "hidden_share": 0.2,
        "bounds_reading": False, "coin_periods": 1,
    }  # fmt: skip
    found = terms(policy, TOY, spent)
    assert found["toys"] == 5
    assert "levels" not in found
    assert "prizes" not in found
    assert found["comes_back"][0]["share"] == pytest.approx(0.75 * (1 - policy.hidden / 256))
    assert any("5 toys" in line for line in lines(found, policy, TOY))
    assert "gain = 3" in policy_text(TOY, 384, "test", None)


def test_a_kind_without_an_accountant_bounds_nothing() -> None:
    class Unknown(ToyClass):
        """Of no registry."""

    assert promise.dispatch(Unknown) is promise.dispatch(ToyClass)  # a subclass has its kind's
    assert promise.dispatch(AttestationClass) is not promise.dispatch(NoiseClass)
    with pytest.raises(PolicyError, match="which bounds no return"):
        promise.dispatch(AttestationClass)(
            TOY, prizes=0, shift=1, coins=CoinThrows(1, 1), chunks=1, queries=1, delta=Fraction(1, 2), n_max=1
        )
