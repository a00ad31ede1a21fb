# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is given what, with bytes from the public ledger and a signature of one's own.  SPEC G.8.

The table stands in the specification and is read from there: every cell is tried on a live provider, and a call that
the services offer and the table does not name fails the test.  The callers hold all that is public; their keys set them
apart.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.attestation import AnswerAsk, Prepare, Record, SealedAnswer, open_answer
from ragseal.kernel.commitment import AccountAsk
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
    CommitmentError,
    ConfigurationError,
    LedgerError,
    PolicyError,
    TransportError,
)
from ragseal.kernel.inquiry import BlocksAsk, LinksAsk, ProofsAsk, RegistryAsk
from ragseal.kernel.sealing import public_of, unseal
from ragseal.kernel.thinning import ThinnedFile
from ragseal.kernel.verdict import AuditVerdict, log_digest
from ragseal.prover.storage import place
from ragseal.prover.storage.window_keys import load_window_key
from ragseal.runtime.rpc import open_channel
from ragseal.runtime.statuses import error_of
from ragseal.v1 import admin_pb2, admin_pb2_grpc, ledger_pb2, ledger_pb2_grpc, provider_pb2, provider_pb2_grpc
from tests.simulator import provider as scene
from tests.simulator.claims import claimed
from tests.simulator.keys import ESTIMATE, keys_of
from tests.simulator.live import Live, live
from tests.specification import specification

pytestmark = pytest.mark.slow

CALLERS = (
    "anybody",
    "the account itself",
    "another account",
    "the window's auditor",
    "P",
)
SERVICES = (provider_pb2.DESCRIPTOR, ledger_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR)
OPERATOR = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods_by_name  #: on the socket, nowhere else
NAMES = (b"alice", b"bob", b"carol")


def table() -> dict[str, dict[str, bool]]:
    """SPEC's table: call -> caller -> whether it is given anything."""
    text = specification()
    head = re.search(r"^ *\| call \|(.+)\|$", text, re.M)
    assert head is not None, "SPEC G.8 has no table"
    callers = [cell.strip() for cell in head[1].split("|")][:-1]
    assert tuple(callers) == CALLERS
    rows = {}
    for line in text[head.end() :].splitlines()[2:]:
        if not line.strip().startswith("|"):
            break
        call, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        assert set(cells[: len(CALLERS)]) <= {"yes", "no"}, line
        rows[call] = {caller: cell == "yes" for caller, cell in zip(CALLERS, cells, strict=False)}
    return rows


TABLE = table()


@dataclass
class Stage:
    """A closed window of a live provider in which alice, bob and carol have asked, and everybody's keys."""

    live: Live
    records: list[Record]

    @property
    def manifest(self) -> bytes:
        return bytes(self.live.window.digest)

    def key(self, caller: str) -> Ed25519PrivateKey:
        return {
            "anybody": Ed25519PrivateKey.from_private_bytes(b"x" * 32),
            "the account itself": scene.account_key("alice"),
            "another account": scene.account_key("bob"),
            "the window's auditor": scene.AUDITOR_KEY,
            "P": self.live.provider.state.key,
        }[caller]

    def record_of(self, name: str) -> Record:
        """The first record of an account, as everybody finds it in the ledger."""
        pseudonym = scene.pseudonym_of(self.live.provider.state, self.manifest, name)
        return next(one for one in self.records if one.signed.request.account == pseudonym)

    def send(self, call: str, request: Any, operator: bool = False) -> bytes:
        """Call the provider on a channel of its own, or as its operator; all that comes back, as bytes."""

        async def run() -> bytes:
            with place.address(self.live.folder / "provider") as socket:
                return await self._send(call, request, socket if operator else self.live.address)

        return asyncio.run(run())

    async def _send(self, call: str, request: Any, address: str) -> bytes:
        async with open_channel(address) as channel:
            ledger = call in ledger_pb2.DESCRIPTOR.services_by_name["LedgerService"].methods_by_name
            stubs = ledger_pb2_grpc.LedgerServiceStub if ledger else provider_pb2_grpc.ProviderServiceStub
            stub = (admin_pb2_grpc.AdminServiceStub if call in OPERATOR else stubs)(channel)
            answer = getattr(stub, call)(request, timeout=120)
            try:
                if hasattr(answer, "__aiter__"):
                    return b"".join([getattr(one, "data", b"") or one.SerializeToString() async for one in answer])
                return bytes((await answer).SerializeToString())
            except grpc.RpcError as error:
                raise error_of(error, "P") from None


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with live(tmp_path_factory.mktemp("stage"), coins=True, gain=60) as made:
        for name in ("alice", "bob", "carol", "alice"):
            with made.client(name=name) as client:
                client.ask(f"{name} asks about report number 5")
        state = made.provider.state
        proof = signature.sign(state.key, "close", made.window.digest)
        made.call(made.server.serving.close_window(made.window.digest, proof))
        journal = made.provider.journal
        yield Stage(made, [Record.decode(journal.data(index)) for index in made.window.records])


def _asked(stage: Stage, caller: str, ask: Any) -> Any:
    return provider_pb2.AskRequest(canonical=ask.encode(), signature=ask.sign(stage.key(caller)))


def _prepare(stage: Stage, caller: str) -> Any:
    request = stage.record_of("alice").signed.request
    message = Prepare(stage.manifest, request.account, bytes(16), bytes(32), "what did alice ask?", b"").encode()
    return provider_pb2.PrepareRequest(
        canonical=message, signature=signature.sign(stage.key(caller), "prepare", message)
    )


def _retrieve(stage: Stage, caller: str) -> Any:
    signed = stage.record_of("alice").signed.encode()
    return provider_pb2.RetrieveRequest(
        canonical=signed, signature=signature.sign(stage.key(caller), "retrieve", signed)
    )


def _paid(stage: Stage, caller: str) -> Any:
    """Retrieve by the number of alice's first request."""
    account = stage.record_of("alice").signed.request.account
    ask = AnswerAsk(stage.manifest, account, 1, public_of(b"k" * 32)).encode()
    return provider_pb2.RetrieveRequest(canonical=ask, signature=signature.sign(stage.key(caller), "retrieve", ask))


def _account(stage: Stage, caller: str) -> Any:
    ask = AccountAsk(stage.manifest, "alice").encode()
    return provider_pb2.GetAccountRequest(canonical=ask, signature=signature.sign(stage.key(caller), "account", ask))


def _close(stage: Stage, caller: str) -> Any:
    proof = signature.sign(stage.key(caller), "close", stage.manifest)
    return provider_pb2.CloseWindowRequest(manifest=stage.manifest, signature=proof)


def _verdict(stage: Stage, caller: str) -> Any:
    named = stage.live.window.manifest.auditors[0].public_key
    made = AuditVerdict(
        stage.manifest,
        log_digest(stage.live.log_key),
        named,
        secrets.token_bytes(32),
        "PASS",
        (claimed("3"),),
        bytes(64),
    )
    return provider_pb2.SubmitVerdictRequest(canonical=made.signed(stage.key(caller)).encode())


def _commit(stage: Stage, caller: str) -> Any:
    key = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
    return provider_pb2.CommitBeaconRequest(
        canonical=scene.Participant("observer-x", stage.manifest, key).commit().encode()
    )


def _open(stage: Stage, caller: str) -> Any:
    opening = scene.Participant("observer-x", stage.manifest, stage.key(caller), b"o" * 32).open()
    return provider_pb2.OpenBeaconRequest(canonical=opening.encode())


def _now(stage: Stage) -> int:
    return int(stage.live.clock())


REQUESTS: dict[str, Callable[[Stage, str], Any]] = {
    "GetManifest": lambda s, c: provider_pb2.GetManifestRequest(),
    "GetIndex": lambda s, c: provider_pb2.GetIndexRequest(manifest=s.manifest, tenant="acme"),
    "GetThinnedIndex": lambda s, c: provider_pb2.GetIndexRequest(manifest=s.manifest, tenant="acme"),
    "CommitBeacon": _commit,
    "OpenBeacon": _open,
    "GetRecords": lambda s, c: provider_pb2.GetRecordsRequest(manifest=s.manifest, start=0, count=10),
    "GetCheckpoint": lambda s, c: ledger_pb2.GetCheckpointRequest(),
    "GetEntries": lambda s, c: ledger_pb2.GetEntriesRequest(start=0, count=50),
    "GetInclusionProof": lambda s, c: ledger_pb2.GetInclusionProofRequest(index=0, size=5),
    "GetConsistencyProof": lambda s, c: ledger_pb2.GetConsistencyProofRequest(old_size=2, new_size=5),
    "GetRotations": lambda s, c: ledger_pb2.GetRotationsRequest(),
    "AddCosignature": lambda s, c: ledger_pb2.AddCosignatureRequest(size=1, witness="w", signature="s"),
    "GetCosignatures": lambda s, c: ledger_pb2.GetCosignaturesRequest(start=0, count=5),
    "GetAccount": _account,
    "Prepare": _prepare,
    "Retrieve": _retrieve,
    "GetRegistry": lambda s, c: _asked(s, c, RegistryAsk(s.manifest, _now(s), secrets.token_bytes(16))),
    "GetProofs": lambda s, c: _asked(s, c, ProofsAsk(s.manifest, _now(s), secrets.token_bytes(16), (0,))),
    "GetEstimate": lambda s, c: _asked(s, c, LinksAsk(s.manifest, _now(s), secrets.token_bytes(16))),
    "GetEstimateProofs": lambda s, c: _asked(
        s, c, BlocksAsk(s.manifest, _now(s), secrets.token_bytes(16), keys_of(ESTIMATE).digest, "acme", ((0, 1),))
    ),
    "SubmitVerdict": _verdict,
    "CloseWindow": _close,
    "GetStatus": lambda s, c: admin_pb2.GetStatusRequest(),
    "AddAccounts": lambda s, c: admin_pb2.AddAccountsRequest(
        accounts=[admin_pb2.AccountLine(name="zoe", tenant="acme", public_key=key_bytes("zoe"))]
    ),
    "RemoveAccount": lambda s, c: admin_pb2.RemoveAccountRequest(name="nobody"),
    "ListAccounts": lambda s, c: admin_pb2.ListAccountsRequest(),
    "AdmitAuditor": lambda s, c: admin_pb2.AdmitAuditorRequest(name="late", public_key=key_bytes("late")),
    "RemoveAuditor": lambda s, c: admin_pb2.RemoveAuditorRequest(name="nobody"),
    "ListAuditors": lambda s, c: admin_pb2.ListAuditorsRequest(),
    "PutDocuments": lambda s, c: iter(
        [admin_pb2.PutDocumentsRequest(tenant="acme", lines=b'{"id": "n", "text": "new", "metadata": {}}\n')]
    ),
    "DeleteDocuments": lambda s, c: admin_pb2.DeleteDocumentsRequest(tenant="acme", ids=["n"]),
    "EraseDocument": lambda s, c: admin_pb2.EraseDocumentRequest(tenant="acme", id="never there", reason="art. 17"),
    "ListErasures": lambda s, c: admin_pb2.ListErasuresRequest(),
    "ListDocuments": lambda s, c: admin_pb2.ListDocumentsRequest(tenant="acme"),
    "SyncDocuments": lambda s, c: admin_pb2.SyncDocumentsRequest(
        tenant="acme", source=f"jsonl:{_corpus(s)}", vectors="embed", keep_missing=True
    ),
    "CommitWindow": lambda s, c: admin_pb2.CommitWindowRequest(policy=b"", window="w2"),
    "EndWindow": lambda s, c: admin_pb2.EndWindowRequest(),
    "RetireWindow": lambda s, c: admin_pb2.RetireWindowRequest(window="w1"),
    "ExportProofs": lambda s, c: admin_pb2.ExportProofsRequest(folder=str(s.live.folder / "published")),
    "Backup": lambda s, c: admin_pb2.BackupRequest(folder=str(s.live.folder / f"backup-{secrets.token_hex(4)}")),
}


def _corpus(s: Stage) -> Path:
    path = Path(s.live.folder) / "source.jsonl"
    path.write_text('{"id": "n", "text": "new"}\n')
    return path


def key_bytes(name: str) -> bytes:
    return signature.public_bytes(scene.account_key(name))


#: Calls that are open to everybody and refuse these very bytes for what they say, not for who sends them.
REFUSED_FOR_THEIR_CONTENT = {
    "DeleteDocuments": (CommitmentError, "has no document"),
    "EraseDocument": (CommitmentError, "has no document"),
    "RetireWindow": (ConfigurationError, "is kept until"),
    "CommitBeacon": (CommitmentError, "sealed"),
    "AddCosignature": (AuditError, "verifier key"),
    "Prepare": (AttestationError, "is closed"),
    "RemoveAccount": (CommitmentError, "no account"),
    "RemoveAuditor": (ConfigurationError, "no auditor 'nobody' is admitted"),
    "CommitWindow": (PolicyError, "is missing"),
    "EndWindow": (CommitmentError, "no window is open"),
}


def test_every_call_of_the_services_has_its_row() -> None:
    offered = {m.name for file in SERVICES for service in file.services_by_name.values() for m in service.methods}
    assert offered == set(TABLE) == set(REQUESTS)


@pytest.mark.parametrize("call", sorted(TABLE))
def test_who_gets_what(stage: Stage, call: str) -> None:
    for caller in CALLERS:
        request = REQUESTS[call](stage, caller)
        operator = call in OPERATOR and caller == "P"
        if call in OPERATOR and not operator:  # none of them: who may enter the folder is P
            assert not TABLE[call][caller]
            with pytest.raises(TransportError, match=r"does not offer this call|Internal error from Core"):
                stage.send(call, request)
        elif not TABLE[call][caller]:
            with pytest.raises(AttestationError, match=r"signature|no account of this name and key"):
                stage.send(call, request)
        elif call in REFUSED_FOR_THEIR_CONTENT:
            kind, why = REFUSED_FOR_THEIR_CONTENT[call]
            with pytest.raises(kind, match=why):
                stage.send(call, request, operator)
        else:
            assert stage.send(call, request, operator) or call in ("GetCosignatures", "GetRotations", "SubmitVerdict")


def test_what_everybody_gets_names_nobody_and_holds_no_text(stage: Stage) -> None:
    for call in sorted(call for call, row in TABLE.items() if row["anybody"]):
        if call in REFUSED_FOR_THEIR_CONTENT:
            continue
        data = stage.send(call, REQUESTS[call](stage, "anybody"))
        for secret in (*NAMES, b"report number"):
            assert secret not in data, f"{call} shows {secret!r}"


def test_a_thinned_index_is_shown_once_the_log_names_it(tmp_path: Path) -> None:
    """And of a window without a coin never; what is shown is the log's, whole, for every tenant and no other."""
    with live(tmp_path / "coined", coins=True) as made:
        stage = Stage(made, [])
        for one in made.window.thinning.tenants:
            request = provider_pb2.GetIndexRequest(manifest=stage.manifest, tenant=one.tenant)
            assert ThinnedFile.decode(stage.send("GetThinnedIndex", request)).entry(one.tenant) == one
        for manifest, tenant in ((stage.manifest, "nobody"), (bytes(32), "acme")):
            with pytest.raises(CommitmentError, match=r"no index of tenant|no window"):
                stage.send("GetThinnedIndex", provider_pb2.GetIndexRequest(manifest=manifest, tenant=tenant))
        made.window.thinning = None  # as it stood before the entry, when the file was on disk already
        with pytest.raises(CommitmentError, match="not thinned"):
            stage.send("GetThinnedIndex", provider_pb2.GetIndexRequest(manifest=stage.manifest, tenant="acme"))
    with live(tmp_path / "every-list") as made:
        stage = Stage(made, [])
        with pytest.raises(CommitmentError, match="not thinned"):
            stage.send("GetThinnedIndex", provider_pb2.GetIndexRequest(manifest=stage.manifest, tenant="acme"))


def test_a_paid_answer_is_for_who_may_retrieve_it(stage: Stage) -> None:
    for caller in CALLERS:
        if TABLE["Retrieve"][caller]:
            sealed = SealedAnswer.decode(
                provider_pb2.RetrieveResponse.FromString(stage.send("Retrieve", _paid(stage, caller))).canonical
            )
            assert sealed.record == stage.record_of("alice")
            continue
        with pytest.raises(AttestationError, match="retrieve signature"):
            stage.send("Retrieve", _paid(stage, caller))


# --- the ledger is no password ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["alice", "carol"])
def test_the_ledgers_bytes_fetch_no_answer(stage: Stage, name: str) -> None:
    """What was shown for two tenants, also after the window was closed: a bare channel and the public record."""
    signed = stage.record_of(name).signed
    for proof in (b"", bytes(64), signed.signature):
        with pytest.raises(AttestationError, match="retrieve signature"):
            stage.send("Retrieve", provider_pb2.RetrieveRequest(canonical=signed.encode(), signature=proof))


def test_a_stolen_retrieval_opens_nothing(stage: Stage) -> None:
    """Whoever has the second signature as well, from the wire or from the provider, still lacks the key of the seal."""
    data = stage.send("Retrieve", _retrieve(stage, "the account itself"))
    sealed = SealedAnswer.decode(provider_pb2.RetrieveResponse.FromString(data).canonical)
    assert b"report number" not in data
    window_key = load_window_key(stage.live.provider.state, stage.manifest).private_bytes_raw()
    for private in (b"x" * 32, bytes(range(32)), window_key):
        with pytest.raises(AttestationError, match="does not open"):
            open_answer(sealed, private)
    kept = stage.live.account("alice") / "windows" / stage.manifest.hex() / "00000001.exchange"
    secret = kept.read_bytes()[-32:]
    assert public_of(secret) == sealed.record.signed.request.seal_key
    assert b"report number" in unseal(secret, *_sealed_with(sealed))


def _sealed_with(sealed: SealedAnswer) -> tuple[bytes, bytes]:
    from ragseal.kernel.attestation import _about

    return _about(sealed.record.digest()), sealed.sealed


def test_asking_again_brings_the_same_bytes(stage: Stage) -> None:
    request = _retrieve(stage, "the account itself")
    assert stage.send("Retrieve", request) == stage.send("Retrieve", request)


def test_an_ask_is_of_its_time_and_of_its_window(stage: Stage) -> None:
    for ask in (
        LinksAsk(stage.manifest, _now(stage) - 700, secrets.token_bytes(16)),
        LinksAsk(stage.manifest, _now(stage) + 700, secrets.token_bytes(16)),
    ):
        with pytest.raises(AttestationError, match="clock"):
            stage.send("GetEstimate", _asked(stage, "the window's auditor", ask))
    lost = LinksAsk(bytes(32), _now(stage), secrets.token_bytes(16))
    with pytest.raises(CommitmentError, match="no window"):
        stage.send("GetEstimate", _asked(stage, "the window's auditor", lost))
    unknown = BlocksAsk(stage.manifest, _now(stage), secrets.token_bytes(16), bytes(32), "acme", ((0, 1),))
    with pytest.raises(ConfigurationError, match="its operator finds in its log what"):
        stage.send("GetEstimateProofs", _asked(stage, "the window's auditor", unknown))


def test_strangers_do_not_stand_in_the_auditors_way(stage: Stage) -> None:
    """A hundred asks of strangers at once, as four were enough to fail a window: the auditor is served meanwhile."""

    async def run() -> None:
        async with open_channel(stage.live.address) as channel:
            stub = provider_pb2_grpc.ProviderServiceStub(channel)
            ask = ProofsAsk(stage.manifest, _now(stage), secrets.token_bytes(16), (0, 1, 2, 3))
            links = LinksAsk(stage.manifest, _now(stage), secrets.token_bytes(16))
            strangers = [stub.GetProofs(_asked(stage, "anybody", ask), timeout=120) for _ in range(100)]
            own = [
                stub.GetProofs(_asked(stage, "the window's auditor", ask), timeout=120),
                stub.GetEstimate(_asked(stage, "the window's auditor", links), timeout=120),
            ]
            for call in own:
                assert b"".join([chunk.data async for chunk in call])
            for call in strangers:
                with pytest.raises(grpc.RpcError):
                    [chunk async for chunk in call]

    asyncio.run(run())


def test_the_log_grows_on_the_coarse_tick_and_answers_do_not_wait(tmp_path: Path) -> None:
    """Nobody sees by polling when an account asks; the account's receipt is checked against a log not public yet."""
    with live(tmp_path, publish=3600.0) as made:
        while made.provider.journal.public.size < made.provider.ledger.size:
            time.sleep(0.01)  # the opening is shown as soon as it is durable
        before = made.provider.journal.public.size
        with made.client() as client:
            results = [client.ask("report number 5"), client.ask("report number 6")]
        assert [r.receipt.body.index for r in results] == [before, before + 1]
        stage = Stage(made, [])
        shown = provider_pb2.GetManifestResponse.FromString(
            stage.send("GetManifest", provider_pb2.GetManifestRequest())
        )
        assert shown.records == 0
        assert made.provider.journal.public.size == before
        assert (
            stage.send("GetRecords", provider_pb2.GetRecordsRequest(manifest=stage.manifest, start=0, count=5)) == b""
        )
        for call, request in (
            ("GetEntries", ledger_pb2.GetEntriesRequest(start=before, count=1)),
            ("GetInclusionProof", ledger_pb2.GetInclusionProofRequest(index=0, size=before + 1)),
            ("GetConsistencyProof", ledger_pb2.GetConsistencyProofRequest(old_size=1, new_size=before + 1)),
        ):
            with pytest.raises(LedgerError, match=str(before)):
                stage.send(call, request)
        # nor by naming sizes until one is not refused
        signed = results[0].record.signed.encode()
        proof = signature.sign(scene.account_key("alice"), "retrieve", signed)
        for size in (before + 2, before + 3, 1 << 40):
            answer = stage.send(
                "Retrieve", provider_pb2.RetrieveRequest(canonical=signed, signature=proof, known_size=size)
            )
            assert not provider_pb2.RetrieveResponse.FromString(answer).consistency
        made.call(
            made.server.serving.close_window(
                stage.manifest, signature.sign(made.provider.state.key, "close", stage.manifest)
            )
        )
        assert made.provider.journal.public.size == before + 3
