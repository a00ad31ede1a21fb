# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: teaching help, one-line refusals, JSON on request, exit statuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ragseal.kernel.attestation import Record
from ragseal.verifier.__main__ import main
from ragseal.verifier.cli.audit_command import EXIT_NO_VERDICT, notes
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import PASS, Neighbour, Verdict
from ragseal.verifier.report import summary
from ragseal.verifier.service import service
from ragseal.verifier.steps.receipts import SetAside
from tests.attacks.raw import RawCaller
from tests.classes import TINY
from tests.simulator import CLOSES, World, asked, pseudonym
from tests.verifier.test_report_pages import SPELLINGS
from tests.verifier.wire import provider

LOG_KEY = World().signer.verifier.vkey()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_help_teaches_every_command() -> None:
    top = run("--help")
    assert top.exit_code == 0
    assert "ragseal-verifier keygen    " in top.output
    for command in ("init", "keygen", "trust", "keys", "classes", "beacon", "serve", "audit", "show"):
        shown = run(command, "--help")
        assert shown.exit_code == 0, command
        assert len(shown.output) > 200, command


def test_init_and_keys(tmp_path: Path) -> None:
    folder = str(tmp_path / "auditor")
    made = json.loads(run("init", "--state", folder, "--json").stdout)
    assert made["public_key"] == State(Path(folder)).public_key.hex()
    again = run("init", "--state", folder)
    assert again.exit_code == 1
    assert again.output.startswith("Error: ")
    assert "is an auditor's folder already" in again.output.replace("\n", " ")
    assert "Traceback" not in again.output
    assert json.loads(run("keys", "--state", folder, "--json").stdout) == {"keys": []}


def test_classes_are_listed() -> None:
    assert json.loads(run("classes", "--json").stdout)[TINY.name]["N"] == 126


@pytest.mark.parametrize(
    "arguments",
    [
        ("keygen", "--class", "huge"),
        ("audit", "--log-key", "nonsense"),
        ("beacon", "--log-key", LOG_KEY, "--provider", "127.0.0.1:1"),
        ("serve", "--provider", "127.0.0.1:1"),
        ("serve", "--listen", "0.0.0.0:0"),
        ("trust", "--class", TINY.name, "--file", __file__, "--key-digest", "zz", "--made-by", "provider"),
        ("trust", "--class", TINY.name, "--file", __file__, "--key-digest", "ab" * 32, "--made-by", "provider"),
        ("trust",),
        ("trust", "--ceremony", ".", "--file", __file__),
        ("trust", "--ceremony", "."),
        ("trust", "--ceremony", ".", "--powers", __file__, "--key-digest", "ab" * 32),
        ("trust", "--ceremony", ".", "--powers", __file__, "--made-by", "provider"),
        ("trust", "--ceremony", ".", "--powers", __file__),
        ("trust", "--ceremony", ".", "--powers", __file__, "--powers-hash", "ab" * 64),
        ("trust", "--class", TINY.name, "--file", __file__, "--key-digest", "ab" * 32),
        (
            "trust",
            "--class",
            TINY.name,
            "--file",
            __file__,
            "--key-digest",
            "ab" * 32,
            "--made-by",
            "provider",
            "--knows",
            "x",
        ),
        ("show", __file__),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    run("init", "--state", str(tmp_path / "auditor"))
    state = () if arguments[0] == "show" else ("--state", str(tmp_path / "auditor"))
    result = run(*arguments, *state)
    assert result.exit_code == 1, result.output
    assert result.output.startswith("Error: ") or "\nError: " in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--sample", "9", "--detect", "0.01"), "give one"),
        (("--confidence", "0.99"), "give --detect SHARE or --sample SIZE"),
        (("--detect", "0.01", "--confidence", "99"), "write it as 0.99, 1-2^-20 or 1-1e-6"),
        (("--detect", "1 %"), "such as 0.01"),
    ],
)
def test_a_sample_that_is_asked_for_wrongly(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    run("init", "--state", str(tmp_path))
    result = run("audit", "--state", str(tmp_path), "--provider", "127.0.0.1:1", "--log-key", LOG_KEY, *options)
    assert result.exit_code == 1
    assert why in " ".join(result.output.split())


@pytest.mark.parametrize("maker", ["auditor", "ceremony"])
def test_keys_are_nobodys_own_and_no_ceremonys_on_somebodys_word(tmp_path: Path, maker: str) -> None:
    arguments = ("trust", "--class", TINY.name, "--file", __file__, "--key-digest", "ab" * 32, "--made-by", maker)
    result = run(*arguments, "--state", str(tmp_path))
    assert result.exit_code == 2


def test_audit_prints_the_verdict_last_and_tells_by_its_status(tmp_path: Path) -> None:
    world = World.honest()
    run("init", "--state", str(tmp_path / "auditor"))
    receipts = tmp_path / "receipts"
    receipts.mkdir()
    for i, answer in enumerate(world.answers):
        (receipts / f"{i}.receipt").write_bytes(answer.receipt.encode())
        (receipts / f"{i}.record").write_bytes(answer.record.encode())
    with provider(world) as (address, _):
        common = ("audit", "--state", str(tmp_path / "auditor"), "--provider", address, "--log-key", LOG_KEY)
        for extra in ((), ("--json",), ("--sample", "2"), ("--receipts", str(receipts))):
            result = run(*common, "--out", str(tmp_path / "report"), *extra)
            # The simulator's window has another auditor, which says nothing about the provider.
            assert result.exit_code == EXIT_NO_VERDICT, result.output
            last = result.stdout.rstrip().splitlines()[-1]
            line = json.loads(last)["line"] if extra == ("--json",) else last
            assert line.startswith("NO VERDICT step=2 manifest: ")
            assert line.endswith(" log=test.example/log")
            assert f"window=w1@{world.digest.hex()[:8]}" in line
        (receipts / "bad.receipt").write_bytes(b"nonsense")
        result = run(*common, "--receipts", str(receipts), "--out", str(tmp_path / "report"))
        assert (result.exit_code, "bad.receipt" in result.output) == (EXIT_NO_VERDICT, True), "set aside, not an end"
    values = json.loads((tmp_path / "report" / "report.json").read_bytes())
    assert values["verdict"] == "NO VERDICT"
    assert [one["file"] for one in values["set_aside"]] == ["bad.receipt"]


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1"])
def test_a_provider_that_is_not_there_leaves_a_report(tmp_path: Path, address: str) -> None:
    run("init", "--state", str(tmp_path / "auditor"))
    common = ("audit", "--state", str(tmp_path / "auditor"), "--log-key", LOG_KEY, "--patience", "0")
    result = run(*common, "--provider", address, "--out", str(tmp_path / "report"))
    assert result.exit_code == EXIT_NO_VERDICT, result.output
    assert result.stdout.startswith("NO VERDICT step="), result.output
    values = json.loads((tmp_path / "report" / "report.json").read_bytes())
    assert values["no_verdict"]["way_out"]


def printed(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch, *options: str) -> Any:
    """What `audit` prints of a window that is its own auditor's."""
    run("init", "--state", str(tmp_path / "auditor"))
    monkeypatch.setattr(State, "auditor", lambda *_, **__: world.auditor())
    real = service.environment
    monkeypatch.setattr(service, "environment", lambda progress: replace(real(progress), now=CLOSES + 600))
    with provider(world) as (address, _):
        common = ("audit", "--state", str(tmp_path / "auditor"), "--provider", address, "--log-key", LOG_KEY)
        return run(*common, "--out", str(tmp_path / "report"), *options)


@pytest.mark.parametrize("ends", ["PASS", "FAIL", "NO VERDICT"])
def test_audit_prints_the_checklist_three_sentences_and_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Eighty lines of the same prose each time hid the eleven that were about this window."""
    world = asked(sign_as="mallory") if ends == "FAIL" else World.honest()
    if ends == "NO VERDICT":
        world.messages.pop()
    result = printed(tmp_path, world, monkeypatch)
    values = json.loads((tmp_path / "report" / "report.json").read_bytes())
    assert result.stdout == values["line"] + "\n"
    assert result.stdout.startswith(ends)
    said = " ".join(result.stderr.split())
    for sentence in summary.in_three(values):
        assert " ".join(sentence.split()) in said
    assert re.findall(r"^ {1,2}(\d+)  \w", result.stderr, re.M) == list(map(str, range(1, 12)))
    assert not [note for note in values["does_not_say"] if note in said]
    assert values["claim"] not in said
    assert (f"{len(values['does_not_say'])} exclusions and all evidence" in said) == (ends == "PASS")
    assert str(tmp_path / "report" / "verdict.intoto.jsonl") in said, "no path is broken"
    assert not SPELLINGS.search(said)
    assert len(said) < 2400, "eleven steps, three sentences, and where the rest stands"


def test_audit_names_what_is_different_and_no_more_than_three_of_it() -> None:
    verdict = Verdict(verdict=PASS, neighbours=[Neighbour(f"w{at}", b"m", "not audited") for at in range(5)])
    verdict.set_aside = [SetAside(f"{at}.receipt", "no receipt") for at in range(4)]
    verdict.unkept = ["the disk is full"]
    assert notes(verdict, "too large") == [
        "set aside, no evidence of anything: 0.receipt, 1.receipt, 2.receipt, and 1 more",
        "without a PASS here: w0 (not audited), w1 (not audited), w2 (not audited), and 2 more",
        "not kept: the disk is full",
        "not enough: too large",
    ]
    assert notes(Verdict(verdict=PASS), "") == []


def test_show_decodes_messages(tmp_path: Path) -> None:
    world = World.honest()
    record = world.messages[world.at(Record)]
    for name, data in (("bytes", record.encode()), ("hex", record.encode().hex().encode() + b"\n")):
        (tmp_path / name).write_bytes(data)
        values = json.loads(run("show", str(tmp_path / name)).stdout)
        assert values["message"] == "record"
        assert values["signed"]["request"]["account"] == pseudonym("alice")
        assert len(values["digest"]) == 64
    for message in (*world.messages, *world.answers, *world.registry, world.files["north"]):
        (tmp_path / "any").write_bytes(message.encode())
        assert json.loads(run("show", str(tmp_path / "any")).stdout)["message"] == message.TAG
    (opened,) = next(slot.texts for slot in world.answers[0].openings.slots if slot.flag)
    (tmp_path / "text").write_bytes(opened.encode())
    content = json.loads(run("show", str(tmp_path / "text")).stdout)["content"]
    page, source = content["metadata"]["pairs"]
    assert (content["id"], content["text"]) == (opened.content.id, opened.content.text)
    assert (page["key"], page["value"]) == ("page", int(opened.content.id.partition("-")[2]))
    assert (source["key"], source["value"]) == ("source", content["id"].partition("-")[0])


@pytest.mark.slow
def test_serve_announces_itself_and_ends_on_sigterm(tmp_path: Path) -> None:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    run("init", "--state", str(tmp_path / "auditor"))
    # The provider is away: the auditor goes on serving keys and waits for it.
    command = [sys.executable, "-m", "ragseal.verifier", "serve", "--state", str(tmp_path / "auditor"), "--json"]
    command += ["--listen", "127.0.0.1:0", "--provider", "127.0.0.1:1", "--log-key", LOG_KEY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["listening"]
            with grpc.insecure_channel(address) as channel:
                stub = health_pb2_grpc.HealthStub(channel)
                request = health_pb2.HealthCheckRequest(service="ragseal.v1.VerifierService")
                assert stub.Check(request, timeout=20).status == health_pb2.HealthCheckResponse.SERVING
                with pytest.raises(grpc.RpcError) as refused:
                    next(stub.Watch(request, timeout=20))
                assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
            watching = RawCaller(int(address.rpartition(":")[2]), window=0)
            watching.call("/grpc.health.v1.Health/Watch")
            taken = run("serve", "--state", str(tmp_path / "auditor"), "--listen", address)
            assert (taken.exit_code, "port is taken" in taken.output) == (1, True)
            process.terminate()
            assert process.wait(20) == 0, "one caller who does not read keeps it from ending"
            watching.close()
        finally:
            process.kill()


@pytest.mark.slow
def test_runs_without_torch_faiss_and_embedder() -> None:
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        heavy = ('torch', 'faiss', 'ctranslate2', 'tokenizers', 'sentence_transformers')\n"
        "        if name.split('.')[0] in heavy or name.startswith('ragseal.embedder'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "from ragseal.verifier.__main__ import main\n"
        "main(['classes', '--json'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert TINY.name in done.stdout
