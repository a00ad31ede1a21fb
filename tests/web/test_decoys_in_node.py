# SPDX-License-Identifier: GPL-3.0-or-later
"""A window of decoys over two shards, as the page's checks see it: honest files hold, others do not.

The window and its proofs are real.  Of each lie it is shown which check of the page sees it: without that one the page
lets it pass.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.backends.mechanism import Engine, Hidden
from ragseal.circuits.circuit import class_digest, layout_of
from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.committed import CommittedBases
from ragseal.kernel.decoys.table import RATE_BITS, build_table
from ragseal.kernel.law import Asked
from ragseal.kernel.policy import Policy
from ragseal.kernel.proofs import PROOF_BYTES, ProofBatch
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.provider.provider import Provider
from tests.attacks.test_moved import rerandomised
from tests.classes import DECOYS, TINY
from tests.simulator import provider as scene
from tests.simulator.live import Live, live
from tests.simulator.ticking import ticking
from tests.web.published import NODE, ROOT, Published, export_log
from tests.web.second_reader import reports
from tests.web.test_shards_in_node import OPENING, bad, exported, log_of, order
from tests.web.test_window_in_node import other_link, other_opening_of, with_entry, with_opening

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]

SHARDS, IDS = 2, 8
USES = ("members", "behind", "hints", "counts", "lists")
POINTS = 7  #: of a shard: C_m, C_im, C_m'', C_b, C_b', C_h and C_n
HINTS, COUNT = 5, 6  #: the last two of them
NO_PROOF = "the proof of record 0 for shard 0 does not hold"


def window(folder: Path, **options: Any) -> Any:
    """A live window of decoys."""
    kind = scene.Kind(DECOYS, SHARDS)
    return live(folder, coins=True, kind=kind, **{"ids": IDS, "return": 5, "unseen": 3, **options})


def asked(one: Live) -> None:
    """Two questions, and the window's end."""
    with one.client() as client:
        for question in ("acme report number 1", "acme report number 2 about topic 4"):
            client.ask(question)
    one.end_window()


@dataclass
class Scene:
    honest: Published
    batch: ProofBatch
    log: Any


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("decoys")
    with window(folder / "scene") as one:
        asked(one)
        honest, log = exported(one, folder / "honest"), log_of(one)
    return Scene(honest, ProofBatch.decode(honest.only("proofs/*/0.bin").read_bytes()), log)


def test_an_honest_window_holds(made: Scene) -> None:
    said = made.honest.check()
    assert (said.state, said.proven) == ("good", 2), said.lines
    assert said.of("good")["columns"].endswith("the slots that the coins hide are empty in them, and no others")


@pytest.mark.parametrize("claim", ["exact", "unseen"])
def test_an_honest_window_without_decoys_holds_and_says_what_is_private(claim: str, tmp_path: Path) -> None:
    own: dict[str, Any] = {"claim": claim, "return": None, "delta": "0", "estimate": "report"}
    if claim == "exact":
        own |= {"unseen": None, "k_max": 1, "delta": "none"}
    with live(tmp_path / "scene", coins=claim == "unseen", kind=scene.Kind(DECOYS, SHARDS), ids=IDS, **own) as one:
        asked(one)
        said = exported(one, tmp_path / "honest").check()
    assert (said.state, said.proven) == ("good", 2), said.lines
    hides = said.of("good")["columns"].endswith("the slots that the coins hide are empty in them, and no others")
    assert hides == (claim == "unseen")
    ends = f"of claim {claim}" + (": nothing in it is private" if claim == "exact" else "")
    assert said.of("good")["manifest"].endswith(ends)


@pytest.mark.parametrize("claim", ["exact", "unseen"])
@pytest.mark.parametrize("ticks", [False, True])
def test_an_honest_window_whose_tenants_have_different_claims_holds(
    claim: str, ticks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene, "SHAPE", IndexShape(SHARDS * DECOYS.N, scene.DIMENSION))
    made: Any = ticking if ticks else live
    with made(tmp_path / "scene", coins=True, kind=scene.Kind(DECOYS, SHARDS), claims={"acme": claim}) as one:
        if ticks:
            one.tick()
        for name in ("alice", "carol"):
            with one.client(name=name) as client:
                client.ask("report number 2 about topic 4")
        one.end_window()
        said = exported(one, tmp_path / "honest").check()
    assert (said.state, said.proven) == ("good", 2), said.lines
    assert said.of("good")["columns"].endswith("of tenants with a coin, and no others") == (claim == "exact")
    ends = f"; of tenant acme it claims {claim} only" + (", so nothing of it is private" if claim == "exact" else "")
    assert said.of("good")["manifest"].endswith(f"of claim until-delivered{ends}")


# --- what a batch shows ----------------------------------------------------------------------------------------------


def committed(batch: ProofBatch, *points: tuple[int, int, int]) -> ProofBatch:
    """The first record's commitments are these: (record, shard, which of a shard's)."""
    at = [(entry, POINT_BYTES * (POINTS * shard + k)) for entry, shard, k in points]
    return with_entry(batch, 0, committed=b"".join(batch.entries[one].committed[n : n + POINT_BYTES] for one, n in at))


def own(record: int, shard: int) -> list[tuple[int, int, int]]:
    return [(record, shard, k) for k in range(POINTS)]


def swapped(batch: ProofBatch) -> ProofBatch:
    """Shards in another order."""
    proof = batch.entries[0].proof
    return with_entry(committed(batch, *own(0, 1), *own(0, 0)), 0, proof=proof[PROOF_BYTES:] + proof[:PROOF_BYTES])


def changed_points(of_shard: list[int]) -> Callable[[ProofBatch], ProofBatch]:
    """The first shard's commitments are these of its own."""
    return lambda batch: committed(batch, *((0, 0, k) for k in of_shard), *own(0, 1))


#: A change of the batch, the step that sees it, and a part of what it says.
FORGERIES: dict[str, tuple[Callable[[ProofBatch], ProofBatch], str, str]] = {
    "another record's proof": (lambda b: with_entry(b, 0, proof=b.entries[1].proof), "proofs", NO_PROOF),
    "a shard's proof left out": (
        lambda b: with_entry(b, 0, proof=b.entries[0].proof[:PROOF_BYTES]), "proofs", "has as many proofs, not 1",
    ),
    "shards in another order": (swapped, "proofs", NO_PROOF),
    "C_m'' left out": (
        changed_points([0, 1, 3, 4, 5, 6]), "proofs", "has 7 commitments to hidden inputs each, not 13 in all",
    ),
    "a shard's commitments left out": (lambda b: committed(b, *own(0, 0)), "proofs", "inputs each, not 7 in all"),
    "C_n of another record": (
        lambda b: committed(b, *own(0, 0)[:COUNT], (1, 0, COUNT), *own(0, 1)), "proofs", NO_PROOF,
    ),
    "C_im in the place of C_m": (changed_points([1, 0, 2, 3, 4, 5, 6]), "proofs", NO_PROOF),
    "C_b in the place of C_b'": (changed_points([0, 1, 2, 4, 3, 5, 6]), "proofs", NO_PROOF),
    "another C_v": (lambda b: with_entry(b, 0, c_v=b.entries[1].c_v), "proofs", NO_PROOF),
    "the same proof anew": (
        lambda b: with_entry(
            b, 1, proof=rerandomised(b.entries[1].proof[:PROOF_BYTES], 5) + b.entries[1].proof[PROOF_BYTES:]
        ),
        "openings", OPENING,
    ),
    "openings in another order": (
        lambda b: replace(b, openings=(b.openings[1], b.openings[0], *b.openings[2:])), "proofs",
        "members opening: 3 announcements expected",
    ),
    "an opening too many": (
        lambda b: replace(b, openings=(b.openings[0], *b.openings[:4])), "proofs", "behind opening: 2 announcements",
    ),
    "another link": (other_link, "openings", OPENING),
    **{f"another opening of {use}": (lambda b, k=k: other_opening_of(b, k), "openings", OPENING)
       for k, use in enumerate(USES)},
    **{f"no opening of {use}": (
        lambda b, k=k: with_opening(b, k), "proofs", f"the batch has 4 openings, where {', '.join(USES)} are due")
       for k, use in enumerate(USES)},
}  # fmt: skip


def test_what_is_no_proof_of_decoys_is_seen(made: Scene) -> None:
    orders = [order(made.honest, proofs=forge(made.batch).encode()) for forge, *_ in FORGERIES.values()]
    for (name, (_, step, match)), report in zip(FORGERIES.items(), reports(orders), strict=True):
        assert list(bad(report)) == [step], f"{name}: {report['lines']}"
        assert match in bad(report)[step], name


def test_nothing_else_sees_a_false_opening(made: Scene) -> None:
    orders = [order(made.honest, proofs=other_opening_of(made.batch, k).encode()) for k in range(len(USES))]
    assert [one["state"] for one in reports(orders, OPENING)] == ["good"] * len(USES)


def told(files: str, **changes: Any) -> str:
    """The same files, for a page that is told otherwise of the class than it was built with."""
    return json.dumps({**json.loads(files), "classes": {DECOYS.name: changes}})


def test_a_key_of_another_size_is_seen(made: Scene) -> None:
    size = layout_of(DECOYS).public
    report = reports([told(order(made.honest), inputs=size + 1)])[0]
    assert bad(report) == {"verifying key": f"this key has {size} public inputs, its class needs {size + 1}"}


# --- lists -----------------------------------------------------------------------------------------------------------


def with_lists(made: Scene, folder: Path, lists: Callable[[tuple[int, ...]], tuple[int, ...]]) -> str:
    """A log whose first record commits to other lists, and a batch about that record."""
    log = replace(made.log, all=list(made.log.all))
    at = next(k for k, entry in enumerate(log.all) if entry.startswith(b"\x06record"))
    record = Record.decode(log.all[at])
    lied = replace(record, t_commits=lists(record.t_commits))
    log.all[at] = lied.encode()
    shutil.copytree(made.honest.folder, folder)
    export_log(log, folder)
    batch = with_entry(made.batch, 0, record_digest=lied.digest())
    return order(Published(folder, made.honest.key), proofs=batch.encode())


LISTS: dict[str, tuple[Callable[[tuple[int, ...]], tuple[int, ...]], str]] = {
    "shards' lists swapped": (lambda lists: lists[::-1], NO_PROOF),
    "one list of both shards": (lambda lists: (lists[0], lists[0]), NO_PROOF),
    "a list left out": (lambda lists: lists[:1], "record 0 commits to 1 lists, where 2 are due"),
    "a list more": (lambda lists: (*lists, lists[0]), "record 0 commits to 3 lists, where 2 are due"),
}


def test_another_list_is_seen(made: Scene, tmp_path: Path) -> None:
    found = reports([with_lists(made, tmp_path / str(k), lists) for k, (lists, _) in enumerate(LISTS.values())])
    assert [list(bad(one)) for one in found] == [["proofs"]] * len(LISTS)
    for (name, (_, match)), one in zip(LISTS.items(), found, strict=True):
        assert match in bad(one)["proofs"], name


# --- a provider that lies --------------------------------------------------------------------------------------------


@contextmanager
def asking(change: Callable[[Asked], Asked]) -> Iterator[None]:
    """Selects and proves by other numbers than the policy's."""
    real = Policy.asked
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Policy, "asked", lambda self, cls: change(real(self, cls)))
        yield


def other_table(given: Asked) -> Asked:
    """The class's for a third as many draws."""
    rows = build_table(DECOYS.L, 9000).rows(DECOYS.draws)
    assert rows != given.table
    return replace(given, table=rows)


ASKED: dict[str, Callable[[Asked], Asked]] = {
    "another rate": other_table,
    "another K": lambda given: replace(given, inputs=(given.inputs[0], IDS - 1)),
    "another lo": lambda given: replace(given, inputs=(given.inputs[0] + 1, IDS)),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_the_policy_does_not_ask_is_seen(name: str, tmp_path: Path) -> None:
    """By the clear inputs that the page takes from the policy: the proofs hold for others."""
    with asking(ASKED[name]), window(tmp_path / "scene") as one:
        asked(one)
        lied = order(exported(one, tmp_path / "lied"))
    assert bad(reports([lied])[0]) == {"proofs": NO_PROOF}


class Fewer:
    """Selects K - 1 ids, and says in C_v that they are K."""

    def __init__(self, real: Engine) -> None:
        self._real = real

    def answer(self, key: int, w: Any, wanted: Asked) -> Any:
        return self._real.answer(key, w, fewer(wanted))

    def hidden(self, key: int, w: Any, wanted: Asked) -> Hidden:
        true = self._real.hidden(key, w, fewer(wanted))
        *others, total = true.shared
        assert total == IDS - 1
        return Hidden(len(true), true.__getitem__, (*others, IDS))


def fewer(wanted: Asked) -> Asked:
    lo, ids = wanted.inputs
    return replace(wanted, inputs=(lo, ids - 1))


def unlooked(patched: pytest.MonkeyPatch) -> None:
    """The provider does not look at its own openings."""
    patched.setattr(proofs, "verify_committed", lambda *_: None)


def test_a_list_that_is_too_short_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the opening of the sum of all C_n alone: with openings taken away, the page lets it pass."""
    unlooked(monkeypatch)
    with window(tmp_path / "scene", engine=Fewer) as one:
        asked(one)
        lied = exported(one, tmp_path / "lied")
    assert bad(reports([order(lied)])[0]) == {"openings": OPENING}
    assert reports([order(lied)], OPENING)[0]["state"] == "good"


def test_a_component_outside_its_bases_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C_h holds a part of what C_n lacks; pairing checks see no difference."""
    commit = CommittedBases.commit

    def moved(self: CommittedBases, group: Any, *given: Any) -> bytes:
        made = commit(self, group, *given)
        base = self.own[-1].over[0].bases[:POINT_BYTES]
        points = [made[at : at + POINT_BYTES] for at in range(0, len(made), POINT_BYTES)]
        points[HINTS] = group.msm(points[HINTS] + base, field.pack([1, 1]))
        points[COUNT] = group.msm(points[COUNT] + base, field.pack([1, -1]))
        return b"".join(points)

    monkeypatch.setattr(CommittedBases, "commit", moved)
    unlooked(monkeypatch)
    with window(tmp_path / "scene") as one:
        asked(one)
        lied = exported(one, tmp_path / "lied")
    assert bad(reports([order(lied)])[0]) == {"openings": OPENING}
    assert reports([order(lied)], OPENING)[0]["state"] == "good"


# --- policies --------------------------------------------------------------------------------------------------------


def committing(patched: pytest.MonkeyPatch, **changes: Any) -> None:
    """The provider commits to another policy than its file has, whether it could answer by it or not."""
    patched.setattr(Provider, "require_answerable", lambda *_: None)
    patched.setattr(scene, "coined_policy", lambda *given, **named: replace(real_policy(*given, **named), **changes))


real_policy = scene.coined_policy
CLAIM, LIST = "decoys bound nothing under the policy's claim", "a list of the policy's class has 1 to "
DRAWS = "without decoys no return is bounded"
SCORES = "decoys compare scores as they are: hi is lo + 1 and gain 1"
#: Changes, how the page's refusal begins, and how it goes on.
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"claim": "every-list", "hidden": 0, "gate": True}, CLAIM, ", which is every-list"),
    ({"ids": 0}, LIST, "48 ids, not 0"),
    ({"ids": 49}, LIST, "48 ids, not 49"),
    ({"gain": 2}, SCORES, ""),
    ({"hi": 16000}, SCORES, ""),
    ({"decoy_rate": 0, "table_digest": DECOYS.table(0).digest()}, DRAWS, ", and the policy's claim is until-delivered"),
]


@pytest.mark.parametrize(("changes", "words", "more"), WRONG, ids=[str(changes) for changes, *_ in WRONG])
def test_a_policy_that_is_none_of_decoys_is_seen(
    changes: dict[str, Any], words: str, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committing(monkeypatch, **changes)
    with window(tmp_path / "scene") as one:
        one.end_window()
        published = exported(one, tmp_path / "lied")
    said = published.check()
    assert (list(said.bad), said.whose) == (["verifying key"], ["log"]), said.lines
    assert said.bad["verifying key"] == words + more
    assert reports([order(published)], words)[0]["state"] == "good"


def test_noise_under_until_delivered_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "noise bounds nothing under the policy's claim"
    own = {"class_name": TINY.name, "class_digest": class_digest(TINY), "table_digest": TINY.table.digest()}
    committing(monkeypatch, **own, ids=TINY.K, decoy_rate=0)
    with window(tmp_path / "scene") as one:
        one.end_window()
        published = exported(one, tmp_path / "lied")
    said = published.check()
    assert (said.bad, said.whose) == ({"verifying key": f"{words}, which is until-delivered"}, ["log"]), said.lines
    assert words not in str(reports([order(published)], words)[0])


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "another rate": ({"decoy_rate": 26921}, "the policy's table of draws is not the one of its rate in this build"),
    "another digest": (
        {"table_digest": bytes(32)},
        "the policy's table of draws is not the one of its rate in this build",
    ),
    "no draws": ({"decoy_rate": 0}, "the policy's table of draws is not the one of its rate in this build"),
    "an absurd rate": (
        {"decoy_rate": 2**32 - 1},
        "4294967295 / 2^16 draws on average are out of range: the class has room for 20",
    ),
    "more draws than the class has": ({"decoy_rate": 20 << 16}, "up to 73 draws, and the class has room for 20"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_a_table_of_draws_that_is_not_of_its_rate_is_not_known(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another build may know it, as the auditor says: nothing is good that rests on it."""
    changes, match = UNKNOWN[case]
    committing(monkeypatch, **changes)
    with window(tmp_path / "scene") as one:
        one.end_window()
        said = exported(one, tmp_path / "lied").check()
    assert (said.state, said.bad) == ("open", {})
    assert said.of("open")["verifying key"] == match


def test_the_page_makes_the_kernels_tables() -> None:
    """Of every width of ids, of rates that are whole and that are not."""
    asked_for = [(L, 1 + 7919 * L * L * k % (40 << RATE_BITS)) for L in range(1, 25) for k in (1, 5)]
    asked_for += [(6, 1), (6, 20 << RATE_BITS), (13, 33 << RATE_BITS), (16, 400 << RATE_BITS)]
    program = (
        f"const {{ internals: n, hex }} = require({json.dumps(str(ROOT / 'ledger' / 'web' / 'verify.js'))});"
        f"const digest = ([L, rate]) => hex(n.tableDigest(n.drawTable(L, rate)));"
        f"console.log({json.dumps(asked_for)}.map(digest).join('\\n'));"
    )
    assert NODE is not None
    done = subprocess.run([NODE, "-e", program], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.split() == [build_table(L, rate).digest().hex() for L, rate in asked_for]
