# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider's window from the first query to the audit, with debug logging, for ``test_secrets``.

``python -m tests.attacks.secrets_scene FOLDER [LEAK ...]`` leaves in FOLDER: the states of all roles, ``secrets.json``
(what must appear nowhere, by name, in hexadecimal), ``wire-public.bin`` (all that auditor and observer got or sent),
``wire-account.bin``, ``errors.txt`` and ``report/``.  A LEAK is a fault put in on purpose, to see that it is found.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ragseal.backends.group import default_group
from ragseal.client.window import windows_of
from ragseal.kernel.errors import AuditError, ProofError
from ragseal.kernel.inquiry import LinksAsk, ProofsAsk
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import Observer
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.witness import Witness
from ragseal.prover.attestation import answer_secrets, answering, proofs
from ragseal.prover.attestation.retrieval import QuerySecrets
from ragseal.prover.commitment import index
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.index import slot_salt
from ragseal.runtime.metadata import committed
from ragseal.runtime.rpc import open_channel
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.audit.verification import audit
from ragseal.verifier.evidence.remote import RemoteEvidence
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document
from ragseal.verifier.signed.entering import reports_of
from tests.attacks.machine import machine
from tests.attacks.proxy import Proxy
from tests.simulator import key_of
from tests.simulator import live as _live
from tests.simulator import provider as scene

QUERIES = ("canary-query-7f3a about the merger of 1997", "canary-query-b1c2 who signed", "canary-query-e94d budget")
log = logging.getLogger("ragseal.provider")


def _documents(tenant: str, count: int = 40) -> list[Document]:
    rng = random.Random(tenant)
    return [
        Document(
            f"canary-id-{tenant}-{rng.randbytes(9).hex()}",
            f"canary-text-{tenant}-{rng.randbytes(9).hex()} nr {i}",
            committed({f"canary-key-{rng.randbytes(9).hex()}": f"canary-value-{rng.randbytes(9).hex()}"}),
        )
        for i in range(count)
    ]


def _private(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())


def _number(value: int) -> bytes:
    return value.to_bytes(32, "big")


def secrets(live: _live.Live, answers: list[Any]) -> dict[str, dict[str, str]]:
    """What nobody may see ("all"), and what only the account that asked may see ("account")."""
    provider = live.provider
    kept = provider.window_secrets(live.window.digest)
    shared = {slot.content for answer in answers for slot in answer.openings.slots}
    opened = {text.salt for answer in answers for slot in answer.openings.slots for text in slot.texts}
    everyone: dict[str, bytes] = {
        "seed": kept.seed,
        "seed, high limb": kept.seed[:16],
        "seed, low limb": kept.seed[16:],
        "blinding secret": kept.blinding,
        "provider's key": _private(provider.state.key),
        "log's key": _private(provider.state.log_signer.private_key),
    }
    account: dict[str, bytes] = {}
    for name in ("alice", "bob", "carol"):
        everyone[f"{name}'s key"] = _private(scene.account_key(name))
    for tenant, version in kept.versions.items():
        for j, blinder in enumerate(version.blinders):
            everyone[f"beta_{j} of {tenant}"] = _number(blinder)
        for slot in range(machine().cls.N):
            salt, text = slot_salt(version.secret, slot), version.texts.get(slot)
            (account if salt in opened else everyone)[f"salt {slot} of {tenant}"] = salt
            if text is not None:
                known = account if text in shared else everyone
                known[f"id {slot} of {tenant}"] = text.id.encode()
                known[f"text {slot} of {tenant}"] = text.text.encode()
                for pair in text.metadata.pairs:
                    known[f"key {slot} of {tenant}"] = pair.key.encode()
                    known[f"value {slot} of {tenant}"] = str(pair.value).encode()
    for seq, row in enumerate(provider.state.rows("SELECT secrets FROM queries", ())):
        found = QuerySecrets.decode(row[0])
        everyone[f"rho of query {seq}"] = _number(found.rho)
        everyone[f"rho' of query {seq}"] = _number(found.rho_hint)
        account[f"r of query {seq}"] = _number(found.blinder)
        account[f"salt of T of query {seq}"] = _number(found.t_salt)
        account[f"e of query {seq}"] = found.embedding
    for number, query in enumerate(QUERIES):
        account[f"query {number}"] = query.encode()
    for name in ("alice", "carol"):
        for window in windows_of(live.account(name)):
            for ctr in range(1, window.answered + 1):
                everyone[f"seal {ctr} of {name}"] = window.exchange(ctr).seal_secret
    return {
        "all": {name: value.hex() for name, value in everyone.items()},
        "account": {name: value.hex() for name, value in account.items()},
    }


# --- leaks, put in on purpose ----------------------------------------------------------------------------------------


def leak_log() -> None:
    """A debug line with a blinder in decimal."""
    real = answer_secrets.answer_query

    def telling(*given: Any) -> Any:
        kept = real(*given)
        log.debug("answering with rho=%d", kept.rho)
        return kept

    answer_secrets.answer_query = telling


def leak_error() -> None:
    """A refusal that repeats the query."""
    real = answering.Attestation._prepare

    async def telling(self: Any, window: Any, account: Any, message: Any, canonical: bytes) -> bytes:
        try:
            return await real(self, window, account, message, canonical)
        except AuditError as error:
            raise type(error)(f"{error}: {message.query}") from None

    answering.Attestation._prepare = telling  # type: ignore[method-assign]


def leak_wire() -> None:
    """An opening whose first announcement is the seed of the window."""
    real = proofs.ProofBatch

    def telling(manifest: bytes, entries: Any, *openings: Any) -> Any:
        first = replace(entries[0], proof=(_LEAKED[0] * 8)[:256])
        return real(manifest, (first, *entries[1:]), *openings)

    proofs.ProofBatch = telling  # type: ignore[misc, assignment]


def leak_file() -> None:
    """A temporary file that is left behind."""
    import tempfile

    real = index.Version.open_text

    def telling(self: Any, slot: int) -> Any:
        found = real(self, slot)
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write(str(self.blinders[0]))
        return found

    index.Version.open_text = telling  # type: ignore[method-assign]


LEAKS: dict[str, Callable[[], None]] = {
    "log": leak_log,
    "error": leak_error,
    "wire": leak_wire,
    "file": leak_file,
}
_LEAKED: list[bytes] = []


# --- the scene -------------------------------------------------------------------------------------------------------


def play(folder: Path, leaks: list[str]) -> None:
    for name in leaks:
        LEAKS[name]()
    errors: list[str] = []

    def fails(action: Callable[[], Any]) -> None:
        try:
            action()
        except AuditError as error:
            errors.append(f"{type(error).__name__}: {error} {error!r}")
        else:
            errors.append("(no error)")

    scene.documents = _documents
    with _live.live(folder, n_max=2) as live:
        _LEAKED.append(live.provider.window_secrets(live.window.digest).seed)
        with Proxy(live.address) as accounts, Proxy(live.address) as public:
            answers = []
            with live.client(accounts.address, "alice") as client:
                for query in QUERIES[:2]:
                    client.ask(query)
                fails(lambda: client.ask(QUERIES[2]))  # above n_max
            with live.client(accounts.address, "carol") as client:
                client.ask(QUERIES[2])
            answers = _answers(live)
            _broken_requests(live, fails)
            _broken_provider(live, fails)
            verdict = _audited(live, public.address, folder, fails)
            asyncio.run(_observed(live, public.address, folder / "observer"))
            (folder / "wire-public.bin").write_bytes(b"".join(data for _, _, data in public.seen))
            (folder / "wire-account.bin").write_bytes(b"".join(data for _, _, data in accounts.seen))
        (folder / "secrets.json").write_text(json.dumps(secrets(live, answers)))
    (folder / "errors.txt").write_text("\n".join(errors))
    (folder / "verdict.txt").write_text(verdict.line())
    logging.getLogger("ragseal.scene").info("done: %s", verdict.line())


def _answers(live: _live.Live) -> list[Any]:
    from ragseal.client.receipts import kept

    return [one.answer for name in ("alice", "carol") for one in kept(live.account(name))]


def _broken_requests(live: _live.Live, fails: Callable[[Callable[[], Any]], None]) -> None:
    """What accounts can get wrong, on the way in."""
    serving = live.server.serving
    asker = scene.Asker("bob", serving)
    stranger = scene.Asker("mallory", serving)
    message = asker.message(QUERIES[0])
    fails(lambda: live.call(stranger.prepare(stranger.message(QUERIES[0]))))
    fails(lambda: live.call(serving.attestation.prepare(message.encode(), bytes(64))))
    fails(lambda: live.call(serving.attestation.prepare(message.encode()[:-3], bytes(64))))
    wild = replace(message, embedding=bytes([127] * scene.DIMENSION))
    fails(lambda: live.call(asker.prepare(wild)))
    prepared = live.call(asker.prepare(message))
    for change in (
        {"ctr": 9},
        {"c_e": bytes(64)},
        {"index_digest": bytes(32)},
        {"origin": "x"},
        {"last_receipt": b"\x01" * 32},
    ):
        signed = asker.request(message, prepared, **change)
        fails(lambda signed=signed: live.call(asker.retrieve(signed)))  # type: ignore[misc]


def _broken_provider(live: _live.Live, fails: Callable[[Callable[[], Any]], None]) -> None:
    """A failure inside, in the middle of an answer: what is logged of it?"""
    serving = live.server.serving
    asker = scene.Asker("bob", serving)
    real = answer_secrets.answer_query

    def failing(*given: Any) -> Any:
        kept = real(*given)
        raise RuntimeError(f"the disk is gone after {len(kept.places)} slots")

    message = asker.message(QUERIES[1])
    prepared = live.call(asker.prepare(message))
    signed = asker.request(message, prepared)
    answer_secrets.answer_query = failing
    try:
        with live.client(name="bob") as client:
            fails(lambda: client.ask(QUERIES[1]))
        try:
            live.call(asker.retrieve(signed))
        except Exception:
            log.exception("as an operator sees it")
    finally:
        answer_secrets.answer_query = real


def _audited(live: _live.Live, address: str, folder: Path, fails: Callable[[Callable[[], Any]], None]) -> Verdict:
    """The auditor over the recording proxy; a proof that fails first."""
    live.clock.now += 600
    fails(lambda: live.call(live.server.serving.close_window(live.window.digest, bytes(64))))
    live.end_window()
    auditor = live.auditor()
    around = Environment(default_group(), int(live.clock.now) + 60, lambda: 0.0, random.Random(1).randbytes)
    now = int(live.clock.now)

    def proofs_of(seq: int) -> bytes:
        ask = ProofsAsk(live.window.digest, now, bytes([seq]) * 16, (seq,))
        return evidence.deliver(ask, ask.sign(scene.AUDITOR_KEY))

    with RemoteEvidence(address) as evidence:
        fails(lambda: evidence.index_file(live.window.digest, "nobody"))
        fails(lambda: proofs_of(77))
        fails(lambda: evidence.deliver(LinksAsk(live.window.digest, now, bytes(16)), bytes(64)))
        fails(lambda: evidence.manifest("w9"))
        verdict = audit(evidence, auditor, around)
        try:
            proofs_of(0)
        except ProofError as error:
            log.error("%s", error)
    values = document.build(verdict)
    document.save(folder / "report", reports_of(values))
    return verdict


async def _observed(live: _live.Live, address: str, folder: Path) -> None:
    folder.mkdir()
    witness = Witness(folder, NoteSigner("watch.example", key_of("watch"), COSIGNATURE))
    try:
        async with open_channel(address) as channel:
            await Observer(RemoteLedger(channel, address), live.log, folder, witness, lambda: 1_800_001_000.0).step()
    finally:
        witness.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, format="%(name)s %(message)s")
    play(Path(sys.argv[1]), sys.argv[2:])
