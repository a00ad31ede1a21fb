# SPDX-License-Identifier: GPL-3.0-or-later
"""A window whose indices are three shards, as the page's checks see it: honest files hold, others do not.

The window and its proofs are real.  What a record's proofs say together: tests/groth16/test_noise_shards.py.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.backends.mechanism import NativeNoiseEngine
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel import field, proofs
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.committed import CommittedBases
from ragseal.kernel.emptied import EmptiedFile
from ragseal.kernel.proofs import PROOF_BYTES, ProofBatch
from ragseal.kernel.thinning import ThinnedFile
from ragseal.ledger.proof_files import columns_path
from ragseal.prover.attestation import statements
from ragseal.prover.commitment.window_secrets import thinned_index, window_index
from ragseal.prover.serving import publishing
from tests.classes import DECOYS, TINY
from tests.simulator import World, policy
from tests.simulator import provider as scene
from tests.simulator.answered import QUESTION, AnsweringLive
from tests.simulator.live import Live, live
from tests.simulator.provider import Asker
from tests.simulator.ticking import ticking
from tests.web.published import NODE, Published, export_log
from tests.web.second_reader import reports
from tests.web.test_coins_in_node import Log
from tests.web.test_window_in_node import other_link, other_opening_of, other_response, with_entry, with_opening

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]
SHARDS = 3
HINTS = 2 * POINT_BYTES  #: of a shard: C_h and C_1
OPENING = "an opening of hidden inputs or of an embedding does not hold"


def over_shards(folder: Path, make: Callable[..., Any] = live, coins: bool = False, **options: Any) -> Any:
    """A live window over three shards with an account in each of two tenants; ``make``: what it is opened by."""
    kind, count = scene.Kind(scene.kind_of(coins).cls, SHARDS), 150 if coins else 300
    texts = {
        "texts": lambda tenant: scene.documents(tenant, count),
        "tenants": {"acme": ["alice"], "globex": ["carol"]},
    }
    return make(folder, kind=kind, coins=coins, gain=20, n_max=4, k_max=1, **texts, **options)


def exported(window: Live, folder: Path) -> Published:
    """All public files of the window."""
    publishing.export(window.provider, window.server.serving.proofs, folder, "", lambda *_: None)
    log: Any = log_of(window)
    export_log(log, folder)
    return Published(folder, window.log_key)


def log_of(window: Live) -> Log:
    ledger = window.provider.ledger
    return Log(window.provider.state.log_signer, [ledger.entry(at) for at in range(ledger.size)])


def order(published: Published, **changed: bytes) -> str:
    """What Node reads: the files, with ``changed`` in place of the first that each name is the folder of."""
    files = {str(one.relative_to(published.folder)): one for one in published.folder.rglob("*") if one.is_file()}
    data = {path: base64.b64encode(one.read_bytes()).decode() for path, one in files.items()}
    for name, value in changed.items():
        data[next(path for path in data if path.startswith(f"{name}/"))] = base64.b64encode(value).decode()
    return json.dumps({"files": data, "logKey": published.key, "window": ""})


def bad(report: dict[str, Any]) -> dict[str, str]:
    assert "error" not in report, report
    return {line["step"]: line["text"] for line in report["lines"] if line["state"] == "bad"}


# --- without coins ---------------------------------------------------------------------------------------------------


@dataclass
class Scene:
    honest: Published
    lied: Published  #: one shard is proven with another threshold
    batch: ProofBatch  #: the honest one


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("shards")
    with over_shards(folder / "scene") as window:
        with window.client() as client:
            client.ask("acme report number 1")
        window.end_window()
        honest = exported(window, folder / "honest")
        with window.provider.state.transaction() as db:
            db.execute("DELETE FROM proofs")
            db.execute("DELETE FROM kept_deliveries")
        window.server.serving.proofs._delivered.clear()
        with pytest.MonkeyPatch.context() as patched:
            another_threshold(window, patched)
            lied = exported(window, folder / "lied")
    return Scene(honest, lied, ProofBatch.decode(honest.only("proofs/*/0.bin").read_bytes()))


def another_threshold(window: Live, patched: pytest.MonkeyPatch) -> None:
    """One shard is proven for (v*, i* + 1), and its C_h holds what C_v lacks: pairing checks see no difference.

    The shard is one in which the slot i* + 1 does not lie, so that all else is as it was and the proof exists.
    """
    group, bases = window.provider.backends.group, window.provider.backends.keys.newest().committed
    slot_base = bases.shared.over[0].bases[POINT_BYTES : 2 * POINT_BYTES]
    at = {"shard": 0, "lied": 0}
    hints: Any = NativeNoiseEngine.hints
    commit, assign = CommittedBases.commit, statements.assign_attestation

    def lied_hints(self: NativeNoiseEngine, *query: Any) -> bytes:
        *others, (shard, shards), answer = query
        at["shard"], at["lied"] = shard, 0 if (answer.threshold_slot + 1) // TINY.N else 1
        if shard == at["lied"]:
            answer = replace(answer, threshold_slot=answer.threshold_slot + 1)
        return hints(self, *others, (shard, shards), answer)

    def lied_commit(self: CommittedBases, *given: Any) -> bytes:
        own = commit(self, *given)
        if at["shard"] != at["lied"]:
            return own
        return group.msm(own[:POINT_BYTES] + slot_base, field.pack([1, 1])) + own[POINT_BYTES:]

    def lied_assign(*given: Any, **named: Any) -> Any:
        v, slot = named["shared"]
        return assign(*given, **{**named, "shared": (v, slot + (at["shard"] == at["lied"]))})

    patched.setattr(NativeNoiseEngine, "hints", lied_hints)
    patched.setattr(CommittedBases, "commit", lied_commit)
    patched.setattr(statements, "assign_attestation", lied_assign)
    patched.setattr(proofs, "verify_committed", lambda *_: None)  # the provider's own look


def test_an_honest_window_holds(made: Scene) -> None:
    said = made.honest.check()
    assert (said.state, said.proven) == ("good", 1), said.lines
    assert f"of each of {SHARDS} shards" in said.of("good")["proofs"]


def test_another_threshold_in_one_shard_is_seen(made: Scene) -> None:
    """By the opening of hints alone: with that taken away, the page lets it pass."""
    assert bad(reports([order(made.lied)])[0]) == {"openings": OPENING}
    assert reports([order(made.lied)], OPENING)[0]["state"] == "good"


def proof_of(batch: ProofBatch, *shards: int) -> ProofBatch:
    """The record's proofs are those of these shards."""
    proof = batch.entries[0].proof
    return with_entry(batch, 0, proof=b"".join(proof[PROOF_BYTES * at : PROOF_BYTES * (at + 1)] for at in shards))


def hints_of(batch: ProofBatch, *shards: int) -> ProofBatch:
    own = batch.entries[0].committed
    return with_entry(batch, 0, committed=b"".join(own[HINTS * at : HINTS * (at + 1)] for at in shards))


#: A change of the batch, the step that sees it, and a part of what it says.
FORGERIES: dict[str, tuple[Callable[[ProofBatch], ProofBatch], str, str]] = {
    "a shard's proof left out": (lambda b: proof_of(b, 0, 1), "proofs", "over 3 shards has as many proofs, not 2"),
    "a shard left out": (lambda b: hints_of(proof_of(b, 0, 1), 0, 1), "proofs", "has as many proofs, not 2"),
    "a shard's proof twice": (lambda b: proof_of(b, 0, 1, 1), "proofs", "of record 0 for shard 2 does not hold"),
    "shards in another order": (
        lambda b: hints_of(proof_of(b, 1, 0, 2), 1, 0, 2), "proofs", "of record 0 for shard 0 does not hold",
    ),
    "a proof more": (lambda b: proof_of(b, 0, 1, 2, 2), "proofs", "as many proofs, not 4"),
    "a shard's hints left out": (lambda b: hints_of(b, 0, 1), "proofs", "hidden inputs each, not 4 in all"),
    "another threshold": (
        lambda b: with_entry(b, 0, c_v=b.entries[0].committed[:POINT_BYTES]), "proofs", "for shard 0 does not hold",
    ),
    "no opening of thresholds": (
        lambda b: with_opening(b, 1), "proofs", "the batch has 1 openings, where hints, thresholds are due",
    ),
    "another opening of hints": (lambda b: other_opening_of(b, 0), "openings", OPENING),
    "another opening of thresholds": (lambda b: other_opening_of(b, 1), "openings", OPENING),
    "another link": (other_link, "openings", OPENING),
}  # fmt: skip


def test_what_is_no_proof_of_all_shards_is_seen(made: Scene) -> None:
    orders = [order(made.honest, proofs=forge(made.batch).encode()) for forge, *_ in FORGERIES.values()]
    for (name, (_, step, match)), report in zip(FORGERIES.items(), reports(orders), strict=True):
        assert list(bad(report)) == [step], f"{name}: {report['lines']}"
        assert match in bad(report)[step], name


@pytest.mark.parametrize(
    ("name", "words"),
    [("another opening of hints", OPENING), ("another opening of thresholds", OPENING)],
)
def test_nothing_else_sees_a_threshold_that_is_not_opened(name: str, words: str, made: Scene) -> None:
    forged = order(made.honest, proofs=FORGERIES[name][0](made.batch).encode())
    assert reports([forged], words)[0]["state"] == "good"


# --- policies --------------------------------------------------------------------------------------------------------


ANSWERS = {"claim": "answers", "lo": 0, "vocabulary": bytes(31) + b"v", "words_max": 1, "participations": 1}
ANSWERS |= {"answered_by": 30}


@pytest.mark.parametrize(
    ("name", "changes", "match"),
    [
        (DECOYS.name, {"shards": 4}, "the policy has 4 shards, its class is for at most 3"),
        (TINY.name, {**ANSWERS, "similarity": 1, "shards": 2}, "counts keywords in one shard, the policy has 2"),
    ],
)
def test_a_policy_whose_class_is_not_for_its_shards_is_seen(
    name: str, changes: dict[str, Any], match: str, tmp_path: Path
) -> None:
    world = World()
    named = {"class_name": name, "class_digest": class_digest(load_classes()[name])}
    world.commit(policy_=policy(**named, **changes))
    world.close()
    export_log(world, tmp_path)
    said = Published(tmp_path, world.signer.verifier.vkey()).check()
    assert (list(said.bad), said.whose) == (["verifying key"], ["log"]), said.lines
    assert match in said.bad["verifying key"]


# --- with coins ------------------------------------------------------------------------------------------------------


def test_coins_of_every_shard_are_checked(tmp_path: Path) -> None:
    """A thinning and a later version hold; not one of fewer shards, of swapped ones, or with another link."""
    with over_shards(tmp_path / "scene", ticking, coins=True) as window:
        window.tick()
        window.end_window()
        files = exported(window, tmp_path / "public")
        said = files.check()
        assert said.state == "good", said.lines
        thinning, (_, update) = window.window.thinning, window.window.updates[-1]
        state, digest = window.provider.state, window.window.digest
        line, later = thinning.tenants[0], update.tenants[0]
        thinned = ThinnedFile.decode(thinned_index(state, digest, line.tenant))
        emptied = EmptiedFile.decode(window_index(state, digest, later.tenant, update.number))
        for entry, own, name in (
            (thinning, thinned, lambda file: file.entry(line.tenant)),
            (update, emptied, lambda file: file.entry(later.tenant, later.text_root)),
        ):
            columns = columns_path(name(own).columns_digest)
            for forged, match in otherwise(own):
                log: Any = log_of(window)
                tenants = (name(forged), *entry.tenants[1:])
                log.all[log.all.index(entry.encode())] = replace(entry, tenants=tenants).encode()
                export_log(log, files.folder)
                (files.folder / columns).write_bytes(forged.encode())
                found = files.check().bad
                assert list(found) == ["columns"]
                assert match in found["columns"]
            (files.folder / columns).write_bytes(own.encode())


def otherwise(own: Any) -> list[tuple[Any, str]]:
    """A file of a tenant's shards as it should not be, and what the page says of it."""
    first, second, third = own.shards
    return [
        (replace(own, shards=shards), match)
        for shards, match in (
            ((first, second), "speaks of 2 shards, the window's indices have 3"),
            ((second, first, third), "the proof that hidden slots are empty does not hold"),
            *(
                ((first, second, replace(third, shown=shown)), "a proof of opening does not hold")
                for shown in (
                    replace(third.shown, slots=other_response(third.shown.slots)),
                    replace(third.shown, hints=other_response(third.shown.hints)),
                )
            ),
        )
    ]


# A window of answers, as the browser's checks see it: histograms open over the score bases. SPEC B.7.8, G.15.


def publish(made: AnsweringLive, folder: Path) -> None:
    """All that the page reads, once the window has ended."""
    made.end_window()
    ledger = made.provider.ledger
    log = Log(made.provider.state.log_signer, [ledger.entry(at) for at in range(ledger.size)])
    publishing.export(made.provider, made.server.serving.proofs, folder, "", lambda *_: None)
    export_log(log, folder)  # type: ignore[arg-type]


def test_histograms_hold_and_only_with_their_own_opening(tmp_path: Path) -> None:
    made = AnsweringLive(tmp_path / "scene")
    try:
        with made.client() as client:
            client.ask(QUESTION, answer=True)
        publish(made, tmp_path / "public")
    finally:
        made.end()
    files = Published(tmp_path / "public", made.log_key)
    said = files.check()
    assert (said.state, said.proven) == ("good", 1), said.lines
    batch = files.only("proofs/*/0.bin")
    kept = ProofBatch.decode(batch.read_bytes())
    (link,) = kept.links
    batch.write_bytes(replace(kept, links=(replace(link, opening=other_response(link.opening)),)).encode())
    assert list(files.check().bad) == ["openings"]


def test_a_version_that_came_while_an_answer_was_written(tmp_path: Path) -> None:
    """Its record names the oldest of three: between admission and record one version may come (SPEC A.14.9.2)."""
    made = AnsweringLive(tmp_path / "scene", version_every=120)
    try:
        serving, window, timer = made.server.serving, made.window, made.instants.timer
        made.clock.now += 120
        made.call(serving.ticks.step())
        pause = timer.pause

        async def paused(seconds: float) -> None:
            if made.generator.asked and len(window.updates) == 2:
                made.clock.now += 120
                await serving.ticks.step()
            await pause(seconds)

        async def ask() -> None:
            alice = Asker("alice", serving)
            message = alice.message(QUESTION)
            older = window.updates[0][1].index_digest("acme")
            await alice.retrieve(alice.request(message, await alice.prepare(message), index_digest=older))

        object.__setattr__(timer, "pause", paused)
        made.call(ask())
        assert [len(window.updates), len(window.records)] == [3, 1]
        publish(made, tmp_path / "public")
    finally:
        made.end()
    said = Published(tmp_path / "public", made.log_key).check()
    assert (said.state, said.proven) == ("good", 1), said.lines
