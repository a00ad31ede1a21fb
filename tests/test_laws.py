# SPDX-License-Identifier: GPL-3.0-or-later
"""A further law is a class and its registrations: nothing else asks which kind a class is of."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence
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
from ragseal.accounting.promises import Promised, promise
from ragseal.backends import mechanism
from ragseal.circuits.circuit import Circuit, attestation_circuit, class_digest, described, layout_of, load_classes
from ragseal.circuits.search import Rows, count_rows
from ragseal.kernel import classes, field, statements
from ragseal.kernel.attestation import Request
from ragseal.kernel.bn254 import Group
from ragseal.kernel.classes import Asked, AttestationClass, places_suffice
from ragseal.kernel.committed import CommittedBases, Over, Use
from ragseal.kernel.errors import PolicyError, ProofError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.policy import EVERY_LIST, Policy, check_policy
from ragseal.kernel.poseidon import poseidon
from ragseal.kernel.proofs import batch_context, statement_of, verify_committed
from ragseal.kernel.record_proofs import proof_equations, statements_of
from ragseal.kernel.stated import Points, Poseidon, Stated
from ragseal.kernel.statement import HintLayout, Input, InputTable, Returned, Size
from ragseal.prover.planning import laws
from ragseal.prover.planning.budgets import Budget, Terms
from ragseal.prover.planning.candidates import Candidate, Shape, Sizes, Window
from ragseal.prover.planning.consent import lines, terms
from ragseal.prover.planning.frontier import Planner
from ragseal.prover.planning.laws.interface import Dial, PlannedLaw
from ragseal.prover.planning.quality import Mask, Measurement, Setting, largest_slots
from ragseal.prover.planning.recommendation import Target, advise, describe
from ragseal.prover.planning.shapes import left_out, shapes
from ragseal.prover.planning.workload import Workload
from tests.classes import DECOYS
from tests.simulator import GROUP, Tenant, World
from tests.simulator import policy as a_policy
from tests.simulator.parties import StatedKey

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = (
    "accounting", "backends", "circuits", "client", "demo", "embedder", "generators", "groth16", "kernel", "ledger",
    "prover", "runtime", "scripts", "verifier",
)  # fmt: skip
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
        "isinstance(cls, NoiseClass)", "isinstance(one.cls, int | decoys_class.DecoysClass)",
        "issubclass(kind, (A, NoiseClass))", "type(cls) is DecoysClass",
        "match cls:\n    case NoiseClass():\n        pass",
    ],
)  # fmt: skip
def test_a_question_is_counted(line: str) -> None:
    assert len(questions(line, {"NoiseClass", "DecoysClass"})) == 1


@pytest.mark.parametrize("line", ["isinstance(cls, EstimateClass)", "NoiseClass(1)", "type(a) is type(b)"])
def test_what_is_no_question_is_not_counted(line: str) -> None:
    assert questions(line, {"NoiseClass", "DecoysClass"}) == []


def test_product_code_never_asks_which_kind_a_class_is_of() -> None:
    names = kinds()
    assert {"NoiseClass", "DecoysClass"} <= names
    files = [path for room in PRODUCT for path in (ROOT / room).rglob("*.py") if "node_modules" not in path.parts]
    assert len(files) > 300
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in questions(path.read_text(), names)]
    assert found == []


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
    noisy: ClassVar[bool] = False

    name: str
    law: str
    N: int
    K: int
    S: int

    def to_mapping(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def L(self) -> int:
        return (self.N - 1).bit_length()

    @property
    def sizes(self) -> str:
        return f"K={self.K}"

    def least_ids(self, shards: int) -> int:
        return self.K

    def most_ids(self, shards: int) -> int:
        return self.K

    def check_lists(self, ids: int, shards: int, decoy_rate: int) -> None:
        if ids != self.K:
            raise PolicyError(f"a toy has {self.K} ids, not {ids}")

    def asked(self, hmax: int, lo: int, ids: int, decoy_rate: int) -> Asked:
        return Asked((hmax, lo, 17))

    @property
    def step_bits(self) -> int:
        return 0

    def window_of(self, width: int) -> int:
        return width

    def shift_of(self, width: int) -> int:
        return max(1, width)

    def check_asked(self, asked: Asked, shards: int) -> None:
        """Whatever it is."""

    def check_range(self, hmax: int, lo: int, least: int, most: int) -> None:
        if hmax > 1 << 20:
            raise PolicyError(f"{hmax} units are more than a toy compares")

    def tried(self) -> tuple[Asked, int, int]:
        return Asked((1 << 10, 0, 17)), 1 << 10, self.K

    def tables(self, decoy_rate: int) -> tuple[ToyTable, ...]:
        return (ToyTable(),)

    def stated_of_shard(self, shard: int, shards: int) -> tuple[int, ...]:
        return 4711, shard

    def overflow_bound_holds(self) -> bool:
        return True

    def overflow_without(self, chunks: int) -> Fraction:
        raise PolicyError("a toy bounds no list")

    def outside_grid(self, chunks: int) -> Fraction:
        return Fraction(chunks, 1 << 90)


TOY = ToyClass("toy-one", "toy", N=128, K=5, S=2)
CLASSES: Sequence[AttestationClass] = (*load_classes().values(), TOY)


TABLE = InputTable(
    given=(Size("N", "N", "slots"),),
    derived=(),
    clear=tuple(
        Input(name, "", "")
        for name in ("c_seed", "beacon", "ctx", "hmax", "lo", "odd", "t_commit", "toy", "shard", "alpha", "beta")
    ),
    hints=(Input("slot", "N, 2", "of a slot"),),
    behind=(Input("counted", "", ""), Input("total", "", "held by C_v")),
)


@dataclass(frozen=True)
class ToyStated(Stated):
    """Hints of slots alone; a number of each shard, of which C_v has the sum."""

    cls: ToyClass

    @property
    def layout(self) -> HintLayout:
        return HintLayout(self.cls, TABLE)

    def bases(self, points: Points, group: Group) -> CommittedBases:
        at, size, b = self.layout, self.layout.size, points(self.layout.blind_at, 1)
        hints, count = points(at.hints_at, size), points(at.behind_at, 1)
        own = Use("toys", size, (Over(hints + b, ((0, size + 1),)),)), Use("counts", 1, (Over(count + b, ((0, 2),)),))
        shared = Over(points(at.shared_at, 1) + b, ((0, 2),)), Over(count + b, ((0, 1), (2, 3)))
        return CommittedBases(own, Use("totals", 1, shared), sums=(1,))

    def scales(self, beta: int) -> tuple[int, ...]:
        return 1, beta, 1, 1

    def wires(self, w: Sequence[int], witnesses: Sequence[bytes], beta: int) -> bytes:
        hints, count = witnesses
        return field.pack(w) + hints + count

    def lists(
        self, salt: int, returned: Sequence[Returned], shards: int, hashed: Poseidon = poseidon
    ) -> tuple[int, ...]:
        return tuple(hashed(77, salt, shard, *(one.packed for one in returned)) for shard in range(shards))

    def lists_due(self, shards: int) -> int:
        return shards


@described.register
def _(cls: ToyClass) -> Circuit:
    return attestation_circuit(cls, b"toy", [], "")


@count_rows.register
def _(cls: ToyClass) -> Rows:
    return Rows(cls.N, layout_of(cls).public, 0, layout_of(cls).clear, cls.N)


@promise.register
def _(cls: ToyClass, windows: Sequence[Promised], *, coins: CoinThrows, chunks: int, delta: Fraction) -> Delivered:
    lost = sum(one.queries for one in windows) * cls.outside_grid(chunks)
    items, unseen = {"grid": float(lost)}, 1.5 * coins.periods
    routes = Routes((unseen, unseen), (2.0, 2.0), True)
    return Delivered(unseen, 1.5, 2.0, float(delta), items, coins.periods, 0.2, 0.0, 0.05, 0.0, routes)


class ToyEngine:
    """The best K, and hints of nothing."""

    def __init__(self, cls: ToyClass) -> None:
        self.cls = cls

    def answer(self, key: int, w: npt.NDArray[np.int64], asked: Asked, /) -> tuple[Returned, ...]:
        best = sorted(range(len(w)), key=lambda slot: (-w[slot], slot))[: self.cls.K]
        return tuple(Returned(slot, bool(w[slot] > 0)) for slot in sorted(best))

    def hidden(self, key: int, w: npt.NDArray[np.int64], asked: Asked, /) -> mechanism.Hidden:
        counts = [sum(one.slot // self.cls.N == at for one in self.answer(key, w, asked)) for at in range(2)]
        hints = field.pack(range(2 * self.cls.N))
        shards = len(w) // self.cls.N
        return mechanism.Hidden(shards, lambda at: (hints, field.pack([counts[at]])), (sum(counts),))


class ToyMeasurement(Measurement):
    """Nothing is drawn."""

    def lists(self, draw: int, settings: Sequence[Setting]) -> Iterator[tuple[Setting, int, Mask, Any]]:
        for setting in settings:
            hidden = self.hidden(draw, setting.hidden)
            v = np.where(hidden, 0, self._work.scores)
            yield setting, setting.lo, hidden, list(largest_slots(v.astype(np.int64), setting.K))


@dataclass(frozen=True, slots=True)
class ToyDial(Dial):
    """One place."""

    def at(self, turned: int) -> Candidate:
        return Candidate(self.shape, self.window, turned, self.budget, self.shape.ids)

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
    least_setting: ClassVar[str] = "no toys"

    cls: ToyClass

    @staticmethod
    def in_words(law: str) -> str:
        return "the toy"

    @staticmethod
    def capacity(cls: AttestationClass) -> int:
        return cls.N

    @staticmethod
    def shapes(classes: Sequence[AttestationClass], sizes: Sizes, documents: int) -> list[Shape]:
        return [Shape(classes[0], True, K) for K in sizes.returned or (5,)]

    def dial(self, shape: Shape, window: Window, budget: Budget, dimension: int) -> ToyDial:
        return ToyDial(shape, window, budget, 1, 1)

    @property
    def bits(self) -> int:
        return 0

    @staticmethod
    def measurement(work: Workload, law: str, bits: int, capacity: int, draws: int, seed: int) -> ToyMeasurement:
        return ToyMeasurement(work, capacity, draws, seed)

    def comes_back(self, policy: Policy, y: int) -> float:
        return 0.75 if y > policy.lo else 0.25

    def shown_scores(self, lo: int, hi: int) -> tuple[int, ...]:
        return hi, lo + 1

    def setting(self, chosen: Candidate) -> str:
        return "nothing is drawn"

    def policy_lines(self, chosen: Candidate) -> str:
        return f"toys = {chosen.gain}\n"

    def terms(self, policy: Policy) -> dict[str, Any]:
        return {"toys": self.cls.K}

    def terms_in_words(self, terms: Mapping[str, Any]) -> list[str]:
        return [f"{terms['toys']} toys"]


@pytest.fixture(autouse=True)
def _third_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law as a release would add it: one entry of each registry by kind."""
    monkeypatch.setattr(classes, "KINDS", (*classes.KINDS, ToyClass))
    monkeypatch.setitem(mechanism.ENGINES, "toy", (ToyEngine, ToyEngine))
    monkeypatch.setitem(laws.LAWS, "toy", ToyPlan)
    monkeypatch.setitem(statements.STATED, "toy", ToyStated)


def test_its_classes_are_read_from_a_file(tmp_path: Path) -> None:
    values = {f.name: getattr(TOY, f.name) for f in fields(TOY) if f.name != "name"}
    text = "[toy-one]\n" + "".join(f"{k} = {v if isinstance(v, int) else repr(v)}\n" for k, v in values.items())
    file = tmp_path / "toy_classes.toml"
    file.write_text(text)
    assert load_classes(file) == {"toy-one": TOY}
    file.write_text(text + "draws = 3\n")
    with pytest.raises(PolicyError, match="toy class: these keys are unknown or missing: draws"):
        load_classes(file)


def of_a_toy() -> Policy:
    return BUDGET.draft(TOY, 384, Terms(4000, 8000, 100, TOY.K))


def test_a_policy_of_it_is_checked_by_its_own_rules() -> None:
    policy = of_a_toy()
    check_policy(policy, TOY, class_digest(TOY))
    assert policy.whole(TOY) is TOY
    assert policy.hmax(TOY) == 400_000
    assert policy.table(TOY) == ToyTable()
    assert places_suffice(TOY, ToyTable())
    with pytest.raises(PolicyError, match=r"1200000 units are more than a toy compares: use gain <= 262"):
        check_policy(replace(policy, gain=300), TOY, class_digest(TOY))
    with pytest.raises(PolicyError, match="toy table is not the canonical toy table"):
        check_policy(replace(policy, table_digest=bytes(32)), TOY, class_digest(TOY))
    with pytest.raises(PolicyError, match="a toy has 5 ids, not 6"):
        check_policy(replace(policy, ids=6), TOY, class_digest(TOY))
    listed = replace(policy, claim=EVERY_LIST, hidden=0, gate=True)
    with pytest.raises(PolicyError, match="bounds nothing under the claim every-list: take a class with noise"):
        check_policy(listed, TOY, class_digest(TOY))
    with pytest.raises(PolicyError, match="1 to 2 shards, not 3"):
        check_policy(replace(policy, shards=3), TOY, class_digest(TOY))


def test_its_proofs_state_what_it_adds() -> None:
    stated = statement_of(of_a_toy(), TOY, 1, 2, 3, (5, 6))
    assert stated.common() == [1, 2, 3, 400_000, 4000, 17, 5, 6]
    clear = [[1, 2, 3, 400_000, 4000, 17, t, 4711, shard] for shard, t in enumerate((5, 6))]
    assert list(statements_of(TOY, stated, 2)) == clear
    with pytest.raises(ProofError, match="3 shards; class 'toy-one' has 1"):
        statements_of(TOY, stated, 3)
    with pytest.raises(ProofError, match="commits to 2 lists, class 'toy-one' has 1 of 1 shards"):
        statements_of(TOY, stated, 1)


class ToyWorld(World):
    """A window of toys: its key has the bases that the law states."""

    def select(
        self, request: Request, tenant: str, e: list[int]
    ) -> tuple[Sequence[Returned], Sequence[tuple[bytes, ...]], tuple[int, ...]]:
        w = np.array(self.tenants[tenant].rows, dtype=np.int64) @ np.array(e, dtype=np.int64)
        engine, asked = mechanism.open_engine(TOY), self.manifest.policy.asked(TOY)
        hidden = engine.hidden(1, w, asked)
        return engine.answer(1, w, asked), list(hidden), hidden.shared


def test_its_commitments_are_proven_and_opened_as_those_of_any_law() -> None:
    key = StatedKey(TOY)
    tenants = {name: Tenant.make(name, key, slots=TOY.N, shards=2) for name in ("north", "south")}
    world = ToyWorld(key, tenants, cls=TOY)
    world.commit(policy_=a_policy(class_name=TOY.name, table_digest=ToyTable().digest(), ids=TOY.K, shards=2))
    world.ask("alice")
    world.ask("carol")
    batch, items = world.batch(world.digest, [0, 1]), [world.item(one) for one in world.records()]
    for one in (one for item in items for one in proof_equations(TOY, key.digest, key.committed, item)):
        key.verify(one.clear, one.c_w, one.committed, one.proof)
    context = batch_context(key.digest, world.digest, items)
    verify_committed(GROUP, key.committed, context, items, batch.openings)
    for at, use in enumerate(("toys", "counts", "totals")):
        openings = list(batch.openings)
        openings[at] = replace(openings[at], responses=(*openings[at].responses[:-1], 0))
        with pytest.raises(ProofError, match=f"the {use} opening does not hold"):
            verify_committed(GROUP, key.committed, context, items, openings)


def test_its_engine_is_its_own() -> None:
    w = np.arange(TOY.N, dtype=np.int64) - 126
    assert [one.slot for one in mechanism.open_engine(TOY).answer(1, w, Asked((10,)))] == [123, 124, 125, 126, 127]


def test_an_accountant_asks_it() -> None:
    found = delivered_window(of_a_toy(), TOY, 10, Fraction(1, 10**6))
    assert (found.unseen, found.returned) == (1.5, 2.0)
    assert found.items == {"grid": float(Fraction(250, 1 << 90))}
    with pytest.raises(PolicyError, match="a toy bounds no list"):
        failures.every_list(TOY, 1, 10)


def test_a_plan_lists_it() -> None:
    assert shapes(CLASSES, ["toy"], Sizes((5, 7)), 60) == [Shape(TOY, True, 5), Shape(TOY, True, 7)]
    assert left_out(CLASSES, ["toy"], []) == [
        "the toy is left out: its largest class holds 128 documents; split the corpus into tenants to use it"
    ]


def test_a_plan_compares_it_with_the_other_law_of_its_claim() -> None:
    random = np.random.default_rng(7)
    scores = random.integers(0, 9000, (6, 60), dtype=np.int32)
    work = Workload("test", 60, scores, tuple({int(row.argmax()): 1} for row in scores))
    planner, window = Planner(work, 384, 2), Window(4839, 8064)
    names = {"toy-one": 5, "decoys-tiny": 5}
    used = [Shape(one, True, names[one.name]) for one in CLASSES if one.name in names]
    (point,) = planner.grid([Shape(TOY, True, 5)], [window], {}, [BUDGET])
    assert (point.row()["class"], point.row()["scale"], point.row()["decoys"]) == ("toy-one", None, None)
    assert (point.bound, point.epsilon) == (2.0, 1.5)
    (best,) = [p for p in planner.for_bound(6.0, used, [window], BUDGET) if p.cls == TOY]
    assert describe(best).endswith(", nothing is drawn")
    made = advise(planner, Target(returned=6.0), used, [window], BUDGET)
    assert made.recommended is not None
    assert made.recommended.cls in (TOY, DECOYS)
    assert any(one.startswith("of 2 ways to stay within return 6 these answers are best") for one in made.reasons)


def test_what_a_provider_reads_of_it_is_its_own() -> None:
    policy = of_a_toy()
    spent = {
        "epsilon": 1.5, "unseen": 1.5, "return": 2.0, "chance": 0.0, "listed_by_chance": 0.0, "listed_once": 0.05,
        "hidden_share": 0.2, "coin_periods": 1,
    }  # fmt: skip
    found = terms(policy, TOY, spent)
    assert found["toys"] == 5
    assert "levels" not in found
    assert "decoys" not in found
    assert found["comes_back"][0]["share"] == pytest.approx(0.75 * (1 - policy.hidden / 256))
    assert any("5 toys" in line for line in lines(found, policy, TOY))


def test_a_kind_without_an_accountant_bounds_nothing() -> None:
    class Unknown(ToyClass):
        """Of no registry."""

    assert promise.dispatch(Unknown) is promise.dispatch(ToyClass)  # a subclass has its kind's
    assert promise.dispatch(AttestationClass) is promise.dispatch(NoiseClass)
    with pytest.raises(PolicyError, match="which bounds no return"):
        promise.dispatch(AttestationClass)(TOY, [], coins=CoinThrows(1, 1), chunks=1, delta=Fraction(1, 2))
