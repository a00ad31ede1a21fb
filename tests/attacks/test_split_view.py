# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider with two logs under one key: witnesses cosign one of them, and who asks for them is shown no other.

SPEC G.6.9 to G.6.12, A.7.3, D.1.4.  Absent or spoiled cosignatures never end in FAIL: witnesses may be away, and
whoever stands in between can leave lines out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.errors import AuditError, TransportError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner
from ragseal.ledger.policy import Policy
from ragseal.ledger.published import PublicLog
from ragseal.ledger.submitting import Submitter
from ragseal.ledger.witness import Witness
from ragseal.ledger.witness_http import AddCheckpoint, WitnessSite
from ragseal.runtime.http_server import HttpServer, Request, Response
from ragseal.verifier.outcome.outcome import Verdict
from tests.attacks.checks import (
    AUDIT_TO_THE_CLOSE,
    CLIENT_TO_THE_OPENING,
    ONE_HISTORY_OF_AN_ACCOUNT,
    QUORUM,
    WITNESS_GROWTH,
    WITNESS_LINE,
    without,
)
from tests.client.conftest import Bench
from tests.simulator import World
from tests.simulator.world import ORIGIN

QUESTION = "bicycle repair"
SEEDS = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2)]
ONE, TWO = (NoteSigner(f"w{n}.example", seed, COSIGNATURE) for n, seed in enumerate(SEEDS, 1))
POLICY = Policy.parse(
    f"witness one {ONE.verifier.vkey()}\nwitness two {TWO.verifier.vkey()}\ngroup g all one two\nquorum g\n".encode()
)
LOG = NoteSigner("log.example/split", Ed25519PrivateKey.from_private_bytes(b"l" * 32))
TREE = MerkleTree([b"entry %d" % i for i in range(20)])
OTHER = MerkleTree([b"other %d" % i for i in range(20)])


def cosigned(note: bytes, *keys: NoteSigner) -> bytes:
    found = Note.parse(note)
    return found.with_signatures(key.sign(found.text, 1000) for key in keys).encode()


# --- the witness -----------------------------------------------------------------------------------------------------


def submitted(old: int, size: int, tree: MerkleTree, proof: MerkleTree | None = None) -> bytes:
    path = (proof or tree).consistency(old, size) if 0 < old < size else []
    return AddCheckpoint(old, tuple(path), Checkpoint(LOG.name, size, tree.root(size)).sign(LOG)).encode()


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (submitted(9, 9, OTHER), 409),  # the same size, another root
        (submitted(9, 12, OTHER), 422),  # another history, with a proof of its own
        (submitted(9, 12, OTHER, TREE), 422),  # with the proof of the cosigned one
        (submitted(9, 12, TREE)[:6] + b"\n" + submitted(0, 12, OTHER).partition(b"\n\n")[2], 422),  # with none
    ],
)
def test_a_witness_cosigns_no_second_history(tmp_path: Path, second: bytes, status: int) -> None:
    clock = iter(range(1000, 2000))
    site = WitnessSite(Witness(tmp_path, ONE), tmp_path, [LOG.verifier], lambda: next(clock))
    assert site.add_checkpoint(submitted(0, 9, TREE)).status == 200
    assert site.add_checkpoint(second).status == status
    with without(WITNESS_GROWTH):
        assert site.add_checkpoint(second).status == 200


def test_a_witness_does_not_go_back(tmp_path: Path) -> None:
    site = WitnessSite(Witness(tmp_path, ONE), tmp_path, [LOG.verifier], lambda: 1000)
    assert site.add_checkpoint(submitted(0, 9, TREE)).status == 200
    for old, size in ((0, 9), (0, 5), (5, 5), (5, 9), (9, 5)):
        assert site.add_checkpoint(submitted(old, size, TREE)).status in (400, 409)


# --- the log's side --------------------------------------------------------------------------------------------------


def test_a_witness_can_put_nothing_but_its_own_line_into_the_book(tmp_path: Path) -> None:
    """It answers with a line of its key over another text: kept, every reader who names it would refuse the note."""
    log = Log.create(tmp_path / "l", LOG)
    log.append_now([lambda _: b"x"])
    forged = ONE.sign(Checkpoint(LOG.name, 1, TREE.root(1)).text(), 1000)

    async def answers(request: Request) -> Response:
        return Response(200, forged.line().encode())

    async def scene() -> None:
        server = HttpServer(answers, replace(HttpServer.__init__.__defaults__[0], body=1 << 16))
        url = await server.start("127.0.0.1:0")
        policy = Policy.parse(f"witness one {ONE.verifier.vkey()} http://{url}\nquorum one\n".encode())
        public = PublicLog(log)
        book = CosignatureBook(tmp_path / "l", public, policy=policy)
        submitter = Submitter(public, book, policy, 10, lambda: 1000)
        try:
            with pytest.raises(AuditError, match="does not verify"):
                await submitter.submit(submitter._peers[0], *public.published())
            assert book.page(0, 9) == []
            with without(WITNESS_LINE):
                await submitter.submit(submitter._peers[0], *public.published())
            assert len(book.page(0, 9)) == 1
        finally:
            await server.stop()
            log.close()

    asyncio.run(scene())


# --- the auditor -----------------------------------------------------------------------------------------------------


def audit(world: World) -> Verdict:
    return world.audit(auditor=replace(world.auditor(), witness_policy=POLICY))


def undecided(world: World, said: str) -> None:
    verdict = audit(world)
    assert (verdict.verdict, said in verdict.line()) == ("NO VERDICT", True), verdict.line()


def test_an_auditor_who_asks_for_witnesses_is_shown_their_log(world: World) -> None:
    """The provider made this log for the auditor alone, so that nobody cosigned it."""
    for keys in ((), (ONE,)):
        world.cosigned = cosigned(world.checkpoint(), *keys)
        undecided(world, "not the quorum")
        with without(QUORUM):
            assert audit(world).verdict == "PASS"
    world.cosigned = cosigned(world.checkpoint(), ONE, TWO)
    assert audit(world).verdict == "PASS"


def test_witnesses_have_to_have_seen_the_whole_window(world: World) -> None:
    """They cosigned a beginning, and the rest of the window is made for the auditor."""
    size = world.at(WindowClose)
    note = Checkpoint(ORIGIN, size, MerkleTree(world.entries()[:size]).root()).sign(world.signer)
    world.cosigned = cosigned(note, ONE, TWO)
    undecided(world, "the window ends with entry")
    with without(AUDIT_TO_THE_CLOSE):
        assert audit(world).verdict == "PASS"


def test_the_witnessed_log_is_the_audited_one(world: World) -> None:
    other = [b"another", *world.entries()[1:]]
    note = Checkpoint(ORIGIN, len(other), MerkleTree(other).root()).sign(world.signer)
    world.cosigned = cosigned(note, ONE, TWO)
    verdict = audit(world)
    assert verdict.failure is not None
    assert (verdict.verdict, verdict.failure.number, verdict.failure.forked) == ("FAIL", 1, True)


@pytest.fixture
def world() -> World:
    return World.honest()


# --- the account -----------------------------------------------------------------------------------------------------


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()
    made.provider.log.close()


def refused(bench: Bench, kind: type[AuditError], said: str) -> None:
    with pytest.raises(kind, match=said):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    assert "prepare" not in bench.provider.calls


def test_an_account_that_asks_for_witnesses_sends_nothing_under_a_window_of_its_own(bench: Bench) -> None:
    bench.provider.witnessed = cosigned(bench.provider.log.checkpoint(), ONE)
    refused(bench, TransportError, "not the quorum")
    with without(QUORUM):
        assert bench.client(witness_policy=POLICY).ask(QUESTION).checked


def test_witnesses_have_to_have_seen_the_opening(bench: Bench) -> None:
    before = bench.provider.log.checkpoint_at(bench.provider.log.size - 1)
    bench.provider.witnessed = cosigned(before, ONE, TWO)
    refused(bench, TransportError, "the window opens with entry")
    with without(CLIENT_TO_THE_OPENING):
        assert bench.client(witness_policy=POLICY).ask(QUESTION).checked


def test_the_witnessed_log_is_the_one_that_an_account_knows(bench: Bench) -> None:
    log = bench.provider.log
    other = [b"another", *log.entries(0, log.size)[1:]]
    note = Checkpoint(log.origin, log.size, MerkleTree(other).root()).sign(bench.provider.log_signer)
    bench.provider.witnessed = cosigned(note, ONE, TWO)
    refused(bench, AuditError, "contradicts the one this account remembers")
    with without(ONE_HISTORY_OF_AN_ACCOUNT):
        assert bench.client(witness_policy=POLICY).ask(QUESTION).checked
