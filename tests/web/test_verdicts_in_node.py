# SPDX-License-Identifier: GPL-3.0-or-later
"""Signed verdicts as the page reads them: it takes what the Python reader takes, and refuses the rest.  SPEC D.18."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.errors import AuditError
from ragseal.verifier.outcome import Verdict
from ragseal.verifier.signed import envelope
from ragseal.verifier.signed.statement import _MEMBERS, PAYLOAD_TYPE, read_verdict
from tests.simulator import World, asked
from tests.verifier import test_claimed as of_claims
from tests.verifier.test_signed_verdict import KEY, LOG, PUBLIC, honest, payload, resigned, signed
from tests.web.published import NODE

SCRIPT = Path(__file__).with_name("verdicts.mjs")
OTHERS = ("PASS", 1, 1.5, True, None, [], {}, "NO VERDICT of another")  #: what may stand in a member's place

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]
_ = honest  # a fixture


def by_node(cases: Sequence[bytes]) -> list[dict[str, str]]:
    assert NODE is not None
    lines = "".join(base64.b64encode(data).decode() + "\n" for data in cases)
    command = [NODE, str(SCRIPT), PUBLIC.hex()]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


def agree(cases: dict[str, bytes]) -> list[str]:
    """Names of what both take; fails where one takes what the other refuses."""
    taken = []
    for (name, data), said in zip(cases.items(), by_node(list(cases.values())), strict=True):
        try:
            line: str | None = read_verdict(data, PUBLIC).line
        except AuditError:
            line = None
        assert said.get("ok") == line, f"{name}: {said}"
        if line is not None:
            taken.append(name)
    return taken


def changed(data: bytes, path: Sequence[Any], value: Any) -> bytes:
    """Another value in one place of the statement, under the auditor's signature."""

    def change(statement: Any) -> None:
        for step in path[:-1]:
            statement = statement[step]
        statement[path[-1]] = value

    return resigned(data, change)


def test_verdicts_of_every_kind_are_taken(honest: tuple[bytes, bytes]) -> None:
    world = World.honest()
    world.made_by = "provider"
    cases = {
        "PASS": honest[0],
        "FAIL": signed(asked(sign_as="mallory").audit())[0],
        "NO VERDICT": signed(world.audit())[0],
        "nothing found": signed(Verdict(origin=LOG.name))[0],
        "SAMPLED-PASS": resigned(
            honest[0], lambda s: s["predicate"].update(verdict="SAMPLED-PASS", line=f"SAMPLED-{s['predicate']['line']}")
        ),
    }
    assert agree(cases) == list(cases)


def test_a_member_more_or_less_or_of_another_type(honest: tuple[bytes, bytes]) -> None:
    data, cases = honest[0], {}
    for name in _MEMBERS:
        cases[f"without {name}"] = resigned(data, lambda s, name=name: s["predicate"].pop(name) and None)
        for other in OTHERS:
            cases[f"{name} {other!r}"] = changed(data, ["predicate", name], other)
    cases["one more"] = changed(data, ["predicate", "more"], 1)
    cases["__proto__"] = changed(data, ["predicate", "__proto__"], {})
    taken = agree(cases)
    assert "epsilonOfTheLog None" in taken  # as it was
    assert not [name for name in taken if name.startswith(("epsilon ", "coalition", "queries", "delta", "periodFrom"))]
    assert not [name for name in taken if name.startswith(("without", "one", "__proto__", "log", "line"))]


def test_a_pass_that_leaves_something_open() -> None:
    """Every way that the Python reader refuses, of a PASS that names windows outside of its period."""
    data = signed(of_claims.lists())[0]
    cases = {"as it was": data}
    for name, change in of_claims.REFUSED.items():
        cases[name] = resigned(data, change)
    assert agree(cases) == ["as it was"]


def test_claims_of_every_kind_are_taken() -> None:
    made = {"until-delivered": of_claims.until_delivered(2), "answers": of_claims.answers()}
    assert agree({name: signed(verdict)[0] for name, verdict in made.items()}) == list(made)


def test_a_statement_of_another_form(honest: tuple[bytes, bytes]) -> None:
    data, statement = honest[0], payload(honest[0])
    log, (manifest, root) = statement["predicate"]["log"], statement["subject"]
    places: dict[tuple[Any, ...], Sequence[Any]] = {
        ("more",): [1],
        ("_type",): ["https://in-toto.io/Statement/v0.1"],
        ("predicateType",): ["https://slsa.dev/verification_summary/v1", None],
        ("predicate",): [None, [], {}],
        ("subject",): [
            None, [], [{}], [manifest], [root], [root, manifest], [{**root, "name": "log"}, manifest],
            [manifest, root, {"name": "manifest of window w9", "digest": {"sha256": "00" * 32}}],
            [manifest, {**root, "digest": {"sha256": "00" * 32}}], [manifest, {**root, "digest": "00"}],
            [{**manifest, "name": root["name"]}, root], [root, {**manifest, "name": root["name"]}],
        ],
        ("predicate", "verdict"): ["FAIL", "SAMPLED-PASS", "FINE"],
        ("predicate", "window"): ["w2", None],
        ("predicate", "log"): [
            {**log, "origin": "other.example/log"}, {**log, "checkpoint": 7}, {**log, "checkpoint": None},
            {"origin": log["origin"], "key": log["key"]}, {**log, "key": None}, {**log, "key": " " + log["key"]},
            {**log, "key": log["key"] + "\n"}, {**log, "checkpoint": log["checkpoint"] + "x"}, {**log, "more": 1},
        ],
    }  # fmt: skip
    cases = {f"{at} {value!r}": changed(data, at, value) for at, values in places.items() for value in values}
    taken = agree(cases)
    assert len(taken) == 6, taken


def line(data: bytes, **changes: Any) -> bytes:
    return json.dumps({**json.loads(data), **changes}).encode()


def test_an_envelope_of_another_form(honest: tuple[bytes, bytes]) -> None:
    data, found = honest[0], json.loads(honest[0])
    (own,) = found["signatures"]
    stranger = {"keyid": "00" * 32, "sig": "AA=="}
    urlsafe = found["payload"].translate(str.maketrans("+/", "-_"))
    lists: list[Any] = [
        [], {}, None, [None], [{}], [{"sig": 1}], [{"sig": "!"}, own], [own] * 64, [own] * 65, [stranger, own],
        [{**own, "keyid": {"toString": 0}}], [{**own, "keyid": None}], [{"sig": own["sig"]}], [stranger] * 64,
    ]  # fmt: skip
    cases = {f"signatures {at}": line(data, signatures=value) for at, value in enumerate(lists)}
    cases |= {
        "url-safe": line(data, payload=urlsafe),
        "a blank in it": line(data, payload=found["payload"][:8] + " " + found["payload"][8:]),
        "without padding": line(data, payload=found["payload"].rstrip("=")),
        "a number": line(data, payload=7),
        "another type": line(data, payloadType="text/plain"),
        "one more": line(data, more=1),
        "byte order mark": b"\xef\xbb\xbf" + data,
        "not UTF-8": data.replace(b"payloadType", b"payload\xff"),
        "empty": b"",
        "a list": b"[" + data + b"]",
        "many braces": b"{" * 10_000,
        "NaN": envelope.seal(PAYLOAD_TYPE, b'{"_type": NaN}', KEY),
        "no JSON": envelope.seal(PAYLOAD_TYPE, b"x" * 32, KEY),
    }
    taken = agree(cases)
    assert {"url-safe", "one more", "signatures 7", "signatures 9", "signatures 10", "signatures 12"} <= set(taken)
