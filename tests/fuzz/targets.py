# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything of this product that reads bytes from somebody else, as functions of bytes.

A target either raises an AuditError, or returns the bytes that what it read is written as; for canonical formats these
are the bytes that it was given, for the others (TOML, JSONL, key files) there is no one form and it returns None.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.native import native, native_errors
from ragseal.circuits.circuit import load_classes
from ragseal.client.account import AccountKey, read_name
from ragseal.client.attestation import decode_embedding as client_embedding
from ragseal.client.attestation import encode_embedding
from ragseal.groth16.verifying_key import VerifyingKey
from ragseal.kernel import encoding
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AuditError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.entries import describe
from ragseal.ledger.note import COSIGNATURE, Note, NoteSignature, NoteSigner, NoteVerifier
from ragseal.ledger.policy import Policy
from ragseal.ledger.tile_site import Tile
from ragseal.ledger.tiles import tile_path
from ragseal.ledger.witness import Witness
from ragseal.ledger.witness_http import AddCheckpoint, WitnessSite
from ragseal.prover.commitment import corpora
from ragseal.prover.commitment.policy_file import Binding, load_policy
from ragseal.prover.storage.state import Settings
from ragseal.runtime import http_server
from ragseal.runtime.keyfile import load_key, save_key
from ragseal.runtime.tls import channel_credentials
from ragseal.verifier.evidence.evidence import read_receipt
from ragseal.verifier.folder.state import IDENTITY, State
from ragseal.verifier.report import show
from tests.classes import TINY
from tests.fuzz.samples import message_kinds, sample

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
_ANY = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x03")
WITNESS = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x02"), COSIGNATURE)


@dataclass(frozen=True)
class Target:
    """A reader; ``seeds`` are real encodings that it accepts."""

    name: str
    read: Callable[[bytes], bytes | None]
    seeds: Callable[[], list[bytes]]
    slow: bool = False  #: touches the disk: fewer examples


@contextmanager
def _file(data: bytes, name: str = "file", mode: int = 0o600) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode)
        path.write_bytes(data)
        yield path
    finally:
        shutil.rmtree(folder)


def _text(data: bytes) -> str:
    """As gRPC and files hand text on: only what is UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise encoding.EncodingError("not UTF-8") from None


# --- messages --------------------------------------------------------------------------------------------------------


def _message(kind: type[Message], data: bytes) -> bytes:
    return kind.decode(data).encode()


def _samples(kind: type[Message]) -> list[bytes]:
    return [sample(kind, random.Random(f"{kind.TAG} {i}")).encode() for i in range(4)]


def _messages() -> list[Target]:
    return [Target(f"message-{kind.TAG}", partial(_message, kind), partial(_samples, kind)) for kind in message_kinds()]


# --- the ledger's texts ----------------------------------------------------------------------------------------------


def _note(data: bytes) -> bytes:
    return Note.parse(data).encode()


def _checkpoint(data: bytes) -> bytes:
    return Checkpoint.parse(_text(data)).text().encode()


def _signed_checkpoint(data: bytes) -> bytes:
    return open_checkpoint(data, LOG.verifier, [WITNESS.verifier]).note.encode()


def _signature_line(data: bytes) -> bytes:
    return NoteSignature.parse(_text(data)).line().encode()


def _vkey(data: bytes) -> bytes:
    return NoteVerifier.from_vkey(_text(data)).vkey().encode()


@cache
def _noted() -> dict[str, bytes]:
    point = Checkpoint("log.example/w", 1234, bytes(range(32)))
    plain = point.sign(LOG)
    note = Note.parse(plain)
    both = note.with_signatures([WITNESS.sign(note.text, 1_800_000_000)])
    return {"text": point.text().encode(), "plain": plain, "both": both.encode()}


def _lines() -> list[bytes]:
    return [one.line().encode() for one in Note.parse(_noted()["both"]).signatures]


def _add_checkpoint(data: bytes) -> bytes:
    return AddCheckpoint.parse(data).encode()


def _submitted() -> list[bytes]:
    return [AddCheckpoint(1000, (bytes(32), bytes(range(32))), _noted()["both"]).encode()]


def _witness_answer(data: bytes) -> None:
    """Whatever is posted to a witness has one of the answers that C2SP has for it."""
    with _file(b"") as path:
        witness = Witness(path.parent, WITNESS)
        site = WitnessSite(witness, path.parent, [LOG.verifier], lambda: 1_800_000_000)
        answer = site.add_checkpoint(data)
        site.close()
        witness.close()
    assert answer.status in (200, 400, 403, 404, 409, 422), answer
    if answer.status == 400:
        raise encoding.EncodingError(answer.body.decode())
    if answer.status != 200:
        raise LedgerError(answer.body.decode())


def _witness_policy(data: bytes) -> None:
    Policy.parse(data).reached_by([WITNESS.verifier])


def _tile(data: bytes) -> bytes:
    tile = Tile.parse(_text(data))
    if tile is None:
        raise encoding.EncodingError("no tile")
    return f"/{tile_path('entries' if tile.level is None else tile.level, tile.number, tile.width)}".encode()


def _http_head(data: bytes) -> None:
    try:
        http_server._parse(data)
    except http_server._Refusal as error:
        raise encoding.EncodingError(str(error)) from None


# --- curve, keys, circuits -------------------------------------------------------------------------------------------


def _native_vkey(data: bytes) -> bytes:
    with native_errors():
        return bytes(native.VerifyingKey.from_bytes(data).to_bytes())


def _plain_vkey(data: bytes) -> bytes:
    with native_errors():
        return bytes(VerifyingKey.from_bytes(data).to_bytes())


def _container(load: Callable[[str], object], data: bytes) -> None:
    with _file(data) as path, native_errors():
        load(str(path))


@cache
def _square() -> dict[str, bytes]:
    """A circuit of one row, w1 = w2 * w2, with its key and a witness: real files of a few hundred bytes."""
    from tests.native.conftest import Circuit, be

    circuit = Circuit(wires=3, public=1, private=1, rows=[({2: 1}, {2: 1}, {1: 1})])
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        (folder / "c.r1cs").write_bytes(circuit.encode())
        native.setup(str(folder / "c.r1cs"), str(folder / "c.zkey"), entropy=bytes(range(32)))
        native.Witness.from_bytes(be(1) + be(9) + be(3)).to_wtns(str(folder / "c.wtns"))
        key = native.ProvingKey.load(str(folder / "c.zkey")).verifying_key()
        files = {name: (folder / f"c.{name}").read_bytes() for name in ("r1cs", "zkey", "wtns")}
        return {**files, "vkey": bytes(key.to_bytes()), "json": key.to_json().encode()}
    finally:
        shutil.rmtree(folder)


def _json_vkey(data: bytes) -> None:
    with native_errors():
        native.VerifyingKey.from_json(_text(data))


def _embedding(data: bytes) -> bytes:
    return encode_embedding(client_embedding(data))


# --- files of roles --------------------------------------------------------------------------------------------------


def _policy_file(data: bytes) -> None:
    binding = Binding(TINY, bytes(32), 24, 1_800_000_000)
    with _file(data, "policy.toml") as path:
        load_policy(path, binding, lambda *given, **named: 4.0)  # type: ignore[arg-type, return-value]


def _settings(data: bytes) -> None:
    with _file(data, "provider.toml") as path:
        Settings.load(path)


def _classes(data: bytes) -> None:
    with _file(data, "classes.toml") as path:
        load_classes(path)


def _jsonl(data: bytes) -> None:
    with _file(data, "corpus.jsonl") as path:
        for document in corpora.read_jsonl(path, fields=corpora.JsonFields(metadata=("url", "n", "title"))):
            document.content.check()


def _beir(name: str, read: Callable[[Path], Any], data: bytes) -> None:
    with _file(data, name) as path:
        folder = path.parents[len(Path(name).parts) - 1]
        for _ in read(folder):
            pass


def _receipt(data: bytes) -> bytes:
    file = read_receipt("some", data)
    return (file.answer or file.receipt).encode()


def _key_file(data: bytes) -> None:
    with _file(data, "key.pem") as path:
        load_key(path)


def _account_key(data: bytes) -> None:
    with _file(data, "key.pem") as path:
        AccountKey.load(path)


def _account_name(data: bytes) -> None:
    with _file(data, "account") as path:
        read_name(path.parent)


def _auditor_keys(data: bytes) -> None:
    with _file(data, "keys.json") as path:
        save_key(path.parent / IDENTITY, _ANY)
        State(path.parent).key_entries()


def _certificates(data: bytes) -> None:
    with _file(data, "ca.pem") as path:
        channel_credentials(path)


def _shown(data: bytes) -> None:
    show.decode(data)


def _described(data: bytes) -> None:
    assert json.dumps(describe(data))


@cache
def _key_pem() -> bytes:
    with _file(b"", "none") as path:
        save_key(path.parent / "key.pem", Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
        return (path.parent / "key.pem").read_bytes()


_POLICY = f"""class = "{TINY.name}"
claim = "every-list"
lo = 0.2
hi = 0.9
gain = 2
n_max = 6
k_max = 2
delta = "1/1000000"
""".encode()
_WITNESS_POLICY = f"""log {LOG.verifier.vkey()}
witness a {WITNESS.verifier.vkey()} https://a.example/
group g 1 a
quorum g
""".encode()
_KEY_LINE = {
    "class_name": TINY.name,
    "class_digest": "00" * 32,
    "key_digest": "11" * 32,
    "made_by": "auditor",
    "path": "k",
}


def targets() -> list[Target]:
    """All of them."""
    square = _square
    return [
        *_messages(),
        Target("note", _note, lambda: [_noted()["plain"], _noted()["both"]]),
        Target("checkpoint", _checkpoint, lambda: [_noted()["text"]]),
        Target("signed-checkpoint", _signed_checkpoint, lambda: [_noted()["plain"], _noted()["both"]]),
        Target("cosignature", _signature_line, _lines),
        Target("add-checkpoint", _add_checkpoint, _submitted),
        Target(
            "add-checkpoint-answer", _witness_answer, lambda: [AddCheckpoint(0, (), _noted()["plain"]).encode()], True
        ),
        Target("witness-policy", _witness_policy, lambda: [_WITNESS_POLICY]),
        Target("tile-path", _tile, lambda: [b"/tile/0/x001/x234/067", b"/tile/entries/000.p/9", b"/tile/63/999.p/255"]),
        Target("http-head", _http_head, lambda: [b"GET /checkpoint?x HTTP/1.1\r\nHost: a\r\nAccept: b, c\r\n\r\n"]),
        Target("vkey-text", _vkey, lambda: [LOG.verifier.vkey().encode(), WITNESS.verifier.vkey().encode()]),
        Target("verifying-key", _native_vkey, lambda: [square()["vkey"]]),
        Target("verifying-key-plain", _plain_vkey, lambda: [square()["vkey"]], slow=True),
        Target("verifying-key-json", _json_vkey, lambda: [square()["json"]]),
        Target("zkey", partial(_container, lambda p: native.ProvingKey.load(p)), lambda: [square()["zkey"]], True),
        Target("r1cs", partial(_container, lambda p: native.R1cs.load(p)), lambda: [square()["r1cs"]], True),
        Target("wtns", partial(_container, lambda p: native.Witness.from_wtns(p)), lambda: [square()["wtns"]], True),
        Target("embedding", _embedding, lambda: [b"\x7f\x81\x00\x01"]),
        Target("policy-toml", _policy_file, lambda: [_POLICY], slow=True),
        Target(
            "settings-toml",
            _settings,
            lambda: [
                Settings("a.example/b", TINY.name, "x").encode(),
                Settings("a.b/c", "wide", "x", 3).encode(),
            ],
            True,
        ),
        Target("classes-toml", _classes, _class_files, True),
        Target(
            "corpus-jsonl",
            _jsonl,
            lambda: [
                b'{"id": "1", "text": "one"}\n{"_id": "2", "text": "two"}\n',
                b'{"id": "1", "text": "one", "url": "u", "n": -1.5e3}\n{"_id": 2, "text": "two", "n": true}\n',
                b'{"id": "1", "text": "one", "metadata": {"url": null, "n": 7}}\n',
            ],
            True,
        ),
        Target(
            "beir-corpus",
            partial(_beir, "corpus.jsonl", partial(corpora.read_beir, metadata=("url",))),
            lambda: [b'{"_id": "1", "title": "t", "text": "one", "metadata": {"url": "u"}}\n'],
            True,
        ),
        Target(
            "beir-queries",
            partial(_beir, "queries.jsonl", corpora.read_beir_queries),
            lambda: [b'{"_id": "1", "text": "one"}\n'],
            True,
        ),
        Target(
            "beir-qrels",
            partial(_beir, "qrels/test.tsv", corpora.read_beir_qrels),
            lambda: [b"query-id\tcorpus-id\tscore\n1\t2\t1\n"],
            True,
        ),
        Target("receipt-file", _receipt, lambda: _samples(_kind("receipt")) + _samples(_kind("answer"))),
        Target("key-file", _key_file, lambda: [_key_pem()], True),
        Target("account-key", _account_key, lambda: [_key_pem()], True),
        Target("account-name", _account_name, lambda: [b"alice\n", b"bob"], True),
        Target("auditor-keys", _auditor_keys, lambda: [json.dumps([_KEY_LINE]).encode(), b"[]"], True),
        Target("certificate", _certificates, lambda: [_certificate()], True),
        Target(
            "shown", _shown, lambda: _samples(_kind("record")) + [x.hex().encode() for x in _samples(_kind("policy"))]
        ),
        Target("ledger-entry", _described, lambda: _samples(_kind("record")) + _samples(_kind("beacon-seal"))),
    ]


def _kind(tag: str) -> type[Message]:
    return next(kind for kind in message_kinds() if tag == kind.TAG)


def _class_files() -> list[bytes]:
    """The smallest class of each kind."""
    found = []
    for file, name in (("decoys_classes.toml", "[decoys-tiny]"), ("noise_classes.toml", "[noise-tiny-two]")):
        text = (Path(__file__).parents[2] / "circuits" / file).read_text()
        at = text.index(name)
        found.append(text[at : text.index("\n[", at)].encode())
    return found


@cache
def _certificate() -> bytes:
    from tests.runtime.certificates import Authority

    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        return Authority(folder, "ours").path.read_bytes()
    finally:
        shutil.rmtree(folder)


def outcome(target: Target, data: bytes) -> str:
    """What a target makes of bytes, in a form that two runs share.  AssertionError if it is not allowed to happen."""
    try:
        again = target.read(data)
    except AuditError as error:
        shape = re.sub(r"'[^']*'|\"[^\"]*\"|/\S+", "_", str(error))
        return f"{type(error).__name__}: {re.sub(r'[0-9]+', '#', shape)[:120]}"
    assert again is None or again == data, f"{target.name}: {len(data)} bytes are read and written as other ones"
    return "accepted"
