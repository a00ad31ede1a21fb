# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that a person may edit is read by one reader, and as editors, spreadsheets and shells leave it."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ragseal.circuits.circuit import class_file, load_classes
from ragseal.client.gateway.commands import KEY_FILE, KEY_VARIABLE, gateway_key
from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.ledger.named_log import named_log
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.policy import Policy as WitnessPolicy
from ragseal.ledger.vocabulary import read_vocabulary
from ragseal.prover.cli.account_commands import read_accounts
from ragseal.prover.cli.backup_commands import read_note
from ragseal.prover.commitment.corpora import (
    read_beir,
    read_beir_qrels,
    read_beir_queries,
    read_csv,
    read_jsonl,
    read_text_folder,
)
from ragseal.prover.commitment.policy_file import policy_bytes, policy_values
from ragseal.prover.planning.calibration_queries import read_queries
from ragseal.prover.sources.opening import open_source
from ragseal.prover.storage.state import Settings
from ragseal.runtime.keyfile import load_shared
from ragseal.runtime.settings import Configured
from ragseal.runtime.terminal import Teaching
from ragseal.runtime.token_key import _pin
from ragseal.verifier.base.named_key import named_key

ROOT = Path(__file__).resolve().parent.parent
VKEY = NoteVerifier("example.org/rag", Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw())
PEM = (
    Ed25519PrivateKey.from_private_bytes(bytes(32))
    .public_key()
    .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
)
JSONL = b'{"id": "1", "text": "one"}\n{"id": "2", "text": "tw\xc3\xb6"}\n'


@dataclass(frozen=True)
class Reader:
    """One reader: the file's name in a folder of its own, what it holds, and what is read of it."""

    name: str
    good: bytes
    read: Callable[[Path], Any]
    octets: bool = False  #: its names need not be UTF-8
    content: bool = False  #: line ends are content


def served(path: Path) -> Any:
    found: dict[str, Any] = {}

    @click.group(cls=Teaching)
    def main() -> None: ...

    @main.command(cls=Configured, prefix="RAGSEAL_TEST")
    @click.option("--listen")
    @click.option("--tick", type=float)
    def serve(**values: Any) -> None:
        found.update(values)

    done = CliRunner().invoke(main, ["serve", "--config", str(path)])
    if done.exit_code:
        raise ConfigurationError(done.output)
    return found


def vdf(path: Path) -> Any:
    source = open_source(f"vdf:{path.parent}")
    return source.identity()


def witnessed(path: Path) -> Any:
    return WitnessPolicy.load(path)


READERS = {
    "jsonl": Reader("a.jsonl", JSONL, lambda path: list(read_jsonl(path))),
    "csv": Reader("a.csv", b'"title","id","text"\n"T","1","on\xc3\xa9"\n', lambda path: list(read_csv(path))),
    "beir": Reader(
        "corpus.jsonl", b'{"_id": "1", "text": "one"}\n{"_id": "2", "text": "two"}\n',
        lambda path: list(read_beir(path.parent)),
    ),
    "beir queries": Reader(
        "queries.jsonl", b'{"_id": "q", "text": "one"}\n', lambda path: read_beir_queries(path.parent)
    ),
    "judgements": Reader(
        "qrels/test.tsv", b"query-id\tcorpus-id\tscore\nq\t1\t1\n", lambda path: read_beir_qrels(path.parent.parent)
    ),
    "text folder": Reader("a.txt", b"a text\nof two lin\xc3\xa9s\n", lambda path: list(read_text_folder(path.parent)),
                          content=True),
    "queries": Reader("q.txt", b"one question\nanother question\n", lambda path: read_queries(f"lines:{path}")),
    "paraphrases": Reader(
        "p.tsv", b"one\tthe same\ntwo\tits like\n", lambda path: read_queries(f"lines:{_two(path)}", path)
    ),
    "policy": Reader("policy.toml", b'class = "a"\nlo = 0.3\n', lambda path: policy_values(policy_bytes(path))),
    "accounts": Reader(
        "accounts.toml", f'[alice]\ntenant = "acme"\nkey = "{"ab" * 32}"\n'.encode(), read_accounts
    ),
    "serve.toml": Reader("serve.toml", b'listen = "a:1"\ntick = 2\n', served),
    "provider.toml": Reader(
        "provider.toml", b'origin = "a"\nclass_name = "b"\nembedder = "c"\nshards = 1\n', Settings.load
    ),
    "noise_classes.toml": Reader("r.toml", class_file(NoiseClass).read_bytes(), lambda path: load_classes(path)),
    "log key": Reader("log.vkey", VKEY.vkey().encode() + b"\n", lambda path: named_log(str(path))),
    "auditor's key": Reader("auditor.pem", PEM, lambda path: named_key(str(path), "--auditor")),
    "PIN": Reader("pin", b"1234\n", lambda path: _pin(f"file:{path}")),
    "shared key": Reader("worker.key", b"0" * 64 + b"\n", load_shared),
    "gateway key": Reader(KEY_FILE, b"from-a-vault-of-secrets\n", lambda path: gateway_key(path.parent)),
    "witness policy": Reader("witnesses", b"# policy\nquorum none\n", witnessed, octets=True),
    "checkpoint": Reader("note", b"example.org/rag\n9\nAAAA\n\n", read_note, octets=True),
    "vocabulary": Reader("words.txt", b"alpha\nbeta\n", lambda path: read_vocabulary(path, 8).words),
}  # fmt: skip


def _two(path: Path) -> Path:
    beside = path.with_name("lines")
    beside.write_bytes(b"red\ngreen\n")
    return beside


@pytest.fixture(params=READERS, ids=lambda name: name.replace(" ", "-"))
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    return READERS[request.param]


def written(reader: Reader, folder: Path, data: bytes) -> Path:
    path = folder / reader.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def test_a_mark_in_front_is_no_part_of_a_text(reader: Reader, tmp_path: Path) -> None:
    good = reader.read(written(reader, tmp_path, reader.good))
    assert reader.read(written(reader, tmp_path, codecs.BOM_UTF8 + reader.good)) == good


def test_lines_may_end_as_on_windows(reader: Reader, tmp_path: Path) -> None:
    good = reader.read(written(reader, tmp_path, reader.good))
    ended = reader.read(written(reader, tmp_path, reader.good.replace(b"\n", b"\r\n")))
    if reader.content:
        (one,) = ended
        ended = [type(one)(one.id, one.text.replace("\r\n", "\n"), one.metadata)]
    assert ended == good


@pytest.mark.parametrize("mark", [False, True], ids=["unmarked", "marked"])
@pytest.mark.parametrize("name", ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"])
def test_another_encoding_is_named_with_what_converts_it(reader: Reader, name: str, mark: bool, tmp_path: Path) -> None:
    text = reader.good.decode()
    data = (("\ufeff" if mark else "") + text).encode(name)
    with pytest.raises(AuditError, match=f"is {name}, not UTF-8: .*iconv -f {name[:6] if mark else name}"):
        reader.read(written(reader, tmp_path, data))


def test_a_byte_that_is_not_utf8_is_named_by_line_and_byte(reader: Reader, tmp_path: Path) -> None:
    line, byte = reader.good.count(b"\n", 0, -1) + 1, len(reader.good[:-1].rpartition(b"\n")[2]) + 1
    path = written(reader, tmp_path, reader.good.rstrip(b"\n") + b"\xe9\n")
    if reader.octets:
        return  # names of witnesses need not be UTF-8, and a note that is not what was signed does not verify
    with pytest.raises(AuditError) as caught:
        reader.read(path)
    assert re.search(rf"line {line}: not UTF-8 \(0xe9\) at byte {byte}\b", str(caught.value)), caught.value


def test_a_zero_byte_is_named(reader: Reader, tmp_path: Path) -> None:
    path = written(reader, tmp_path, reader.good.rstrip(b"\n") + b"\0\n")
    with pytest.raises(AuditError, match=r"line \d+: a zero byte"):
        reader.read(path)


def test_a_folder_in_a_files_place_is_named(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / reader.name
    path.mkdir(parents=True)
    with pytest.raises(AuditError):
        reader.read(path)


def test_a_key_may_have_blanks_and_no_device_is_read_for_one() -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw().hex()
    assert named_key(f" {key}\r\n", "--auditor").hex() == key
    with pytest.raises(ConfigurationError, match=r"--auditor takes 64 .*; the file /dev/zero is a device"):
        named_key("/dev/zero", "--auditor")


# --- nobody reads beside the reader ----------------------------------------------------------------------------------

PROGRAMS = ("circuits", "client", "embedder", "generators", "groth16", "ledger", "prover", "runtime", "verifier")
READER = "runtime/texts.py"

#: Files that only programs write, or that come with the package.
MACHINE_MADE = {
    "runtime/threads.py": "what /proc and the control group say of limits",
    "circuits/__main__.py": "what a build says of itself",
    "circuits/build.py": "package.json of npm, and what the build writes",
    "circuits/circuit.py": "package-lock.json of this package",
    "circuits/stats.py": "stats.csv, which a script writes",
    "embedder/conversion.py": "the checksum that the conversion wrote",
    "embedder/minilm.py": "the model's own files",
    "groth16/keys.py": "the index of a key folder",
    "groth16/snarkjs.py": "what snarkjs wrote",
    "ledger/beacon_place.py": "the nonces that the observer itself remembers",
    "ledger/observer.py": "what the observer itself remembers",
    "ledger/page.py": "the page's own files, and sizes.json of an export",
    "ledger/witness.py": "the alarm that the witness itself wrote",
    "runtime/edges/filesystem.py": "what the system says in /proc",
    "runtime/edges/listening.py": "what the system says in /proc",
    "runtime/edges/locks.py": "what the system says in /proc",
    "runtime/edges/mounts.py": "what the system says in /proc",
    "runtime/face.py": "the page's style sheet",
    "ledger/probe/plant.py": "the plant that the probe itself wrote",
    "verifier/folder/state.py": "nonces that the auditor itself wrote",
}


def opens_text(tree: ast.AST) -> list[int]:
    """Lines of a module that turn a file into text, or parse TOML."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [one.name for one in node.names] + [getattr(node, "module", None) or ""]
            found += [node.lineno] if "tomllib" in names else []
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [*node.args[:2], *(one.value for one in node.keywords if one.arg == "mode")]
        said = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        mode = next((one for one in said if re.fullmatch("[rwxab+t]{1,3}", one)), "r")
        named = any(k.arg == "encoding" for k in node.keywords)
        if (called == "read_text" and not _is_texts(node.func)) or (
            called == "open" and "b" not in mode and "r" in mode and (named or isinstance(node.func, ast.Name))
        ):
            found.append(node.lineno)
    return found


def _is_texts(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "texts"


def test_no_program_reads_text_beside_the_reader() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for folder in PROGRAMS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (lines := opens_text(ast.parse(path.read_text("utf-8"))))
    }
    beside = {name: lines for name, lines in found.items() if name not in MACHINE_MADE and name != READER}
    assert not beside, "read it through runtime/texts.py, or say in MACHINE_MADE why no person writes it"
    assert not set(MACHINE_MADE) - set(found), "these read no text any more: take them out of the list"


@pytest.mark.parametrize(
    "line",
    [
        'Path(a).read_text("utf-8")',
        "tables = path.read_text()",
        "open(path, encoding='utf-8')",
        "path.open(encoding='utf-8', newline='')",
        "import tomllib",
        "from tomllib import loads",
        "open(path)",
    ],
)
def test_what_reads_text_is_found(line: str) -> None:
    assert opens_text(ast.parse(line))


@pytest.mark.parametrize(
    "line", ['path.open("rb")', "texts.read_text(path, what)", "Log.open(folder)", "os.open(p, 0)"]
)
def test_what_reads_none_is_let_alone(line: str) -> None:
    assert not opens_text(ast.parse(line))
