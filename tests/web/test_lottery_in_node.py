# SPDX-License-Identifier: GPL-3.0-or-later
"""A window of the lottery, as the page's checks see it: honest files hold, others do not.

The window and its proofs are real.  Of each lie it is shown which check of the page sees it: without that one, or told
of another number of prizes, the page lets it pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragseal.circuits.circuit import class_digest
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.lottery_class import PrizeTable
from ragseal.kernel.lottery_statement import LotteryLayout
from ragseal.kernel.proofs import ProofBatch
from tests.attacks.lottery_scene import CLS, Fewer, Hiding, asked, proven_for_fewer, true_bounds_in_c_1
from tests.attacks.test_batches import rerandomised
from tests.simulator import World, policy
from tests.simulator import provider as scene
from tests.simulator.live import live
from tests.web.published import NODE, Published, export_log
from tests.web.second_reader import reports
from tests.web.test_shards_in_node import OPENING, bad, exported, order
from tests.web.test_window_in_node import other_link, other_response, with_entry

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]

PRIZES = 2
NO_PROOF = "the proof of record 0 does not hold"


def window(folder: Path, **options: Any) -> Any:
    """A live window of claim until-delivered with two prizes."""
    return live(folder, coins=True, kind=scene.ONE_LOTTERY, prizes=PRIZES, **options)


@dataclass
class Scene:
    honest: Published
    batch: ProofBatch


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("lottery")
    with window(folder / "scene") as one:
        asked(one)
        honest = exported(one, folder / "honest")
    return Scene(honest, ProofBatch.decode(honest.only("proofs/*/0.bin").read_bytes()))


def test_an_honest_window_holds(made: Scene) -> None:
    said = made.honest.check()
    assert (said.state, said.proven) == ("good", 3), said.lines
    assert said.of("good")["columns"].endswith("the slots that the coins hide are empty in them, and no others")


def told(files: str, **changes: Any) -> str:
    """The same files, for a page that is told otherwise of the class than it was built with."""
    return json.dumps({**json.loads(files), "classes": {CLS.name: changes}})


def tables(*prizes: int) -> list[str]:
    """Digests of prize tables: the first one is the page's for one prize, and so on."""
    return [PrizeTable(CLS.m, j).digest().hex() for j in prizes]


def test_fewer_prizes_than_the_policy_has_are_seen(tmp_path: Path) -> None:
    """By the clear input that the page takes from the policy: read as one prize, the policy's table lets it pass."""
    with window(tmp_path / "scene", engine=Fewer) as one, proven_for_fewer():
        asked(one)
        lied = order(exported(one, tmp_path / "lied"))
    assert bad(reports([lied])[0]) == {"proofs": NO_PROOF}
    assert bad(reports([told(lied, tableDigests=tables(1, 2, 3))])[0]) == {"proofs": NO_PROOF}  # as the page has them
    assert reports([told(lied, tableDigests=tables(2, 1, 3))])[0]["state"] == "good"


def test_a_hidden_winner_is_seen(tmp_path: Path) -> None:
    """By the opening of hints alone, whose bounds are not those of C_1: with that taken away, the page lets it pass."""
    engines: list[Hiding] = []

    def hiding(real: Any) -> Hiding:
        engines.append(Hiding(real))
        return engines[-1]

    with (
        window(tmp_path / "scene", engine=hiding) as one,
        true_bounds_in_c_1(one.window.manifest.policy.width, PRIZES),
    ):
        asked(one)
        lied = order(exported(one, tmp_path / "lied"))
    assert any(engine.hidden for engine in engines)
    assert bad(reports([lied])[0]) == {"openings": OPENING}
    assert reports([lied], OPENING)[0]["state"] == "good"


def hints_of(batch: ProofBatch, *points: tuple[int, int]) -> ProofBatch:
    """The first record's commitments to hints are these: (record, 0 of C_h or 1 of C_1)."""
    parts = [batch.entries[at].c_h[POINT_BYTES * k : POINT_BYTES * (k + 1)] for at, k in points]
    return with_entry(batch, 0, c_h=b"".join(parts))


def other_hints(batch: ProofBatch) -> ProofBatch:
    return ProofBatch(batch.manifest, batch.entries, batch.links, other_response(batch.hints), batch.thresholds)


#: A change of the batch, the step that sees it, and a part of what it says.
FORGERIES: dict[str, tuple[Callable[[ProofBatch], ProofBatch], str, str]] = {
    "another record's proof": (lambda b: with_entry(b, 0, proof=b.entries[1].proof), "proofs", NO_PROOF),
    "C_1 left out": (lambda b: hints_of(b, (0, 0)), "proofs", "not a multiple of 128 bytes"),
    "C_1 of another record": (lambda b: hints_of(b, (0, 0), (1, 1)), "proofs", NO_PROOF),
    "C_1 in the place of C_h": (lambda b: hints_of(b, (0, 1), (0, 0)), "proofs", NO_PROOF),
    "two pairs of commitments": (
        lambda b: hints_of(b, (0, 0), (0, 1), (1, 0), (1, 1)), "proofs", "hints of 2 shards, not of 1",
    ),
    "a threshold": (
        lambda b: with_entry(b, 0, c_v=(b.entries[0].c_h[:POINT_BYTES],)), "proofs", "1 commitments to a threshold",
    ),
    "the same proof anew": (
        lambda b: with_entry(b, 1, proof=rerandomised(b.entries[1].proof, 5)), "openings", OPENING,
    ),
    "another opening of hints": (other_hints, "openings", OPENING),
    "another link": (other_link, "openings", OPENING),
}  # fmt: skip


def test_what_is_no_proof_of_the_lottery_is_seen(made: Scene) -> None:
    orders = [order(made.honest, proofs=forge(made.batch).encode()) for forge, *_ in FORGERIES.values()]
    for (name, (_, step, match)), report in zip(FORGERIES.items(), reports(orders), strict=True):
        assert list(bad(report)) == [step], f"{name}: {report['lines']}"
        assert match in bad(report)[step], name


def test_a_key_of_another_size_is_seen(made: Scene) -> None:
    size = LotteryLayout(CLS).public
    report = reports([told(order(made.honest), inputs=size + 1)])[0]
    assert bad(report) == {"verifying key": f"this key has {size} public inputs, its class needs {size + 1}"}


# --- policies --------------------------------------------------------------------------------------------------------


ANSWERS = {"lo": 0, "vocabulary": bytes(31) + b"v", "words_max": 1, "participations": 1}
ANSWERS |= {"similarity": 1, "answered_by": 30}
CLAIM = "a class of the lottery bounds one return and nothing else"


def logged(folder: Path, prizes: int, **changes: Any) -> Published:
    """The log of a window whose policy names the class and so many prizes."""
    world = World()
    named = {"class_name": CLS.name, "class_digest": class_digest(CLS)}
    world.commit(policy_=policy(**named, table_digest=PrizeTable(CLS.m, prizes).digest(), **changes))
    world.close()
    export_log(world, folder)
    return Published(folder, world.signer.verifier.vkey())


@pytest.mark.parametrize("changes", [{"claim": "every-list"}, {"claim": "answers", **ANSWERS}], ids=["list", "answers"])
def test_a_claim_that_no_lottery_bounds_is_seen(changes: dict[str, Any], tmp_path: Path) -> None:
    published = logged(tmp_path, 1, **changes)
    said = published.check()
    assert (list(said.bad), said.whose) == (["verifying key"], ["log"]), said.lines
    assert f"{CLAIM}, the policy's claim is {changes['claim']}" in said.bad["verifying key"]
    assert bad(reports([order(published)], CLAIM)[0]) == {}


@pytest.mark.parametrize("prizes", [0, CLS.prizes + 1])
def test_a_number_of_prizes_that_the_class_does_not_have_is_not_known(prizes: int, tmp_path: Path) -> None:
    """It is a digest, of which nobody can tell what it stands for; nothing is good that rests on it."""
    said = logged(tmp_path, prizes).check()
    assert (said.state, said.bad) == ("open", {})
    assert "that this build does not know" in said.of("open")["verifying key"]
    assert PrizeTable(CLS.m, prizes) not in CLS.tables()
