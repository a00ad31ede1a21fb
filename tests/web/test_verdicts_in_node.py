# SPDX-License-Identifier: GPL-3.0-or-later
"""Signed verdicts as the page reads them: it takes what the Python reader takes, and refuses the rest.  SPEC D.18."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragseal.accounting.rounding import upward
from ragseal.kernel.errors import AttestationError, AuditError
from ragseal.kernel.policy import EXACT, UNSEEN, UNTIL_DELIVERED
from ragseal.kernel.verdict import word
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.signed import envelope
from ragseal.verifier.signed.statement import _MEMBERS, PAYLOAD_TYPE, read_verdict
from ragseal.verifier.steps.sample import Sample, confidence_of
from tests.attacks.test_mixed_claims import mixed
from tests.simulator import World, asked
from tests.verifier import test_claimed as of_claims
from tests.verifier.test_signed_verdict import KEY, LOG, OF_A_FAIL, PUBLIC, honest, payload, resigned, signed, told
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
        "SAMPLED-PASS": signed(World.honest().audit(sample=Sample(2)))[0],
    }
    assert agree(cases) == list(cases)


def test_what_a_sample_shows() -> None:
    """Confidences in every form, and more claimed than so few records can show: both readers say the same."""
    sample = signed(World.honest().audit(sample=Sample(3, confidence_of("1-2^-20"))))[0]

    def case(confidence: str, shown: str | None = None, bad: float = 4, proven: int = 3) -> bytes:
        beta = math.nextafter(bad / 7, math.inf)
        line = f"proven={proven} beta={upward(beta)} confidence={shown or confidence}"
        return resigned(sample, told(line, confidence=confidence, beta=beta, proven=proven))

    good = {
        "as it is": sample,
        **{text: case(text) for text in ("0.99", "0.5", "0.999999", "0.9999999975", "1-2^-20", "1-10^-9", "1-2^-256")},
        "of 0.3.0": case("99/100", "0.99"),
        "another form": case("1-1e-6", "0.999999"),
        "less": case("1-2^-20", bad=5),
        "just enough": case("0.5", bad=1, proven=4),
        "nothing": case("1-2^-20", bad=7, proven=0),
    }
    bad = {
        "a smaller share": case("1-2^-20", bad=3),
        "fewer records": case("1-2^-20", proven=2),
        "not its shortest form": case("0.990"),
        "another in the line": case("0.99", "0.999"),
        "one": case("1"),
        "above 2^-256": case("1-2^-257"),
        "sure": case("sure"),
        "minus": case("0.99", bad=-1),
        "more than all": case("0.99", bad=4, proven=8),
        "so many": changed(sample, ["predicate", "records"], 1 << 60),
        "none": changed(sample, ["predicate", "confidence"], None),
    }
    assert agree(good | bad) == list(good)


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


@pytest.mark.parametrize("claim", [EXACT, UNSEEN])
def test_verdicts_of_several_claims(claim: str) -> None:
    """A page that takes a tenant of one claim for one of another shows a promise that nobody made."""
    data = signed(mixed(claim).audit())[0]
    said = payload(data)["predicate"]
    weak, strong = said["tenants"]
    cases = {"as it was": data}
    members: dict[str, Any] = {
        "in another order": [strong, weak],
        "of one claim": [weak],
        "of none": [],
        "of a claim twice": [weak, {**weak, "tenants": ["south"]}],
        "a tenant twice": [weak, {**strong, "tenants": ["north"]}],
        "no tenant": [weak, {**strong, "tenants": []}],
        "tenants out of order": [weak, {**strong, "tenants": ["south", "east"]}],
        "a tenant more": [weak, {**strong, "tenants": ["east", "south"]}],
        "another tenant": [{**weak, "tenants": ["no rth"]}, strong],
        "no text": [{**weak, "tenants": [1]}, strong],
        "another weakest": [{**weak, "providersWord": ["embeddings"]}, strong],
        "a member more": [{**weak, "more": 1}, strong],
        "a member less": [weak, {name: strong[name] for name in strong if name != "delta"}],
        "a number of what has none": [{**weak, "delta": 1}, strong],
        "a name for a number": [weak, {**strong, "epsilon": "small", "unseen": "small"}],
        "no object": [weak, "strong"],
        "null": None,
        "text": "north",
    }
    cases |= {name: changed(data, ["predicate", "tenants"], value) for name, value in members.items()}
    cases["left out"] = resigned(data, lambda s: s["predicate"].pop("tenants"))
    for name, old, new in (
        ("without the field", f" tenants={claim}:north,{UNTIL_DELIVERED}:south", ""),
        ("with another claim", f"{UNTIL_DELIVERED}:south", f"{claim}:south"),
        ("with a tenant less", f",{UNTIL_DELIVERED}:south", ""),
    ):
        cases[name] = changed(data, ["predicate", "line"], said["line"].replace(old, new))
    cases["words of one claim"] = changed(data, ["predicate", "claim"], said["claim"].partition(" For south")[0])
    fail = signed(asked(sign_as="mallory").audit())[0]
    cases["a FAIL with tenants"] = resigned(fail, lambda s: s["predicate"].update(tenants=[weak, strong]))
    assert agree(cases) == ["as it was"]


BOUNDS = (
    '"inf"', '"abc"', '"2"', '"0x2"', '""', '" "', '"unknown"', '"Infinity"', "-0.0", "-1", "-0", "true", "1e23", "1.0",
    "2", "0", "0.5e0", "1e-7", "99999.95", "999999.5", "5e-324", "1.7976931348623157e308", "0.00012345678", "9.9999e-5",
)  # fmt: skip


def test_bounds_are_written_in_one_way(honest: tuple[bytes, bytes]) -> None:
    """A page that takes 1.75162 for 1.75161, or 0x2 for 2, shows a line that another reader refuses."""
    data, said = honest[0], payload(honest[0])["predicate"]
    right = f"epsilon_audit={upward(said['epsilon'])} "
    wrong = ("1.75162", "1.751610", "1.75160", "01.75161", "1.75161e0", "+1.75161", "1.75161,", "0x2", "")
    cases = {"as it was": data}
    for text in wrong:
        line = said["line"].replace(right, f"epsilon_audit={text} ")
        cases[text] = changed(data, ["predicate", "line"], line)
    assert agree(cases) == ["as it was"]
    cases, marked = {}, json.dumps({**payload(data), "predicate": {**said, "epsilon": 123456789}})
    for value in BOUNDS:
        for text in {upward(float(value)) if value[0] in "-0123456789" else "inf", value.strip('"'), "0"}:
            stated = marked.replace("123456789", value).replace(right, f"epsilon_audit={text} ")
            cases[f"{value} as {text}"] = envelope.seal(PAYLOAD_TYPE, stated.encode(), KEY)
    taken = agree(cases)
    assert {'"inf" as inf', "1e23 as 1e+23", "0.00012345678 as 0.000124"} <= set(taken)
    assert [name for name in taken if name[0] in "-t"] == ["-0 as 0"]  # a whole number has no sign of 0


def test_the_page_rounds_bounds_as_every_program_does() -> None:
    rng = random.Random(5)
    doubles = [struct.unpack(">d", rng.randbytes(8))[0] for _ in range(4000)]
    doubles += [rng.uniform(0, 40) for _ in range(4000)] + [10 ** rng.uniform(-8, 8) for _ in range(4000)]
    doubles += [float(f"{rng.randrange(10 ** rng.randrange(1, 8))}e{rng.randrange(-9, 9)}") for _ in range(4000)]
    doubles = [abs(one) for one in (*doubles, sys.float_info.max) if one == one]
    script = (
        "const { internals } = require(process.argv[1]);"
        "const all = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "console.log(JSON.stringify(all.map(internals.upward)));"
    )
    assert NODE is not None
    command = [NODE, "-e", script, str(SCRIPT.parents[2] / "ledger" / "web" / "verify.js")]
    done = subprocess.run(command, input=json.dumps(doubles), capture_output=True, text=True, check=True, timeout=120)
    said = json.loads(done.stdout)
    assert [(a, b) for a, b in zip(doubles, said, strict=True) if upward(a) != b] == []


MINUTES = (
    "2026-02-29T00:00Z", "2028-02-29T00:00Z", "2026-13-01T00:00Z", "2026-01-01T24:00Z", "2026-01-01T00:60Z",
    "1969-12-31T23:59Z", "1970-01-01T00:00Z", "9999-12-31T23:59Z", "0000-01-01T00:00Z", "2026-01-01T00:00+00:00",
    "2026-1-01T00:00Z", "2026-01-01T00:00z", " 2026-01-01T00:00Z", "2026-01-01 00:00Z",
)  # fmt: skip


def test_a_period_begins_with_a_minute_of_the_calendar(honest: tuple[bytes, bytes]) -> None:
    said = payload(honest[0])["predicate"]
    cases = {}
    for text in MINUTES:
        line = said["line"].replace(said["periodFrom"], text)
        cases[text] = resigned(
            honest[0], lambda s, new=(text, line): s["predicate"].update(periodFrom=new[0], line=new[1])
        )
    assert agree(cases) == ["2028-02-29T00:00Z", "1970-01-01T00:00Z", "9999-12-31T23:59Z"]


WINDOWS = (
    "w 1",
    "w=1",
    "(w1)",
    "w'1*!",
    "a/b:c+d~e_f",
    "Fenster-\u00fc",
    "\u202e1w",
    "%41",
    "w1@00000000",
    "\U0001f600",
)


def test_names_of_windows_stand_in_lines_in_one_way(honest: tuple[bytes, bytes]) -> None:
    said = payload(honest[0])["predicate"]

    def named(window: str, shown: str) -> bytes:
        def change(statement: Any) -> None:
            statement["predicate"].update(window=window, line=said["line"].replace(" window=w1@", f" window={shown}@"))
            for one in statement["subject"]:
                one["name"] = one["name"].replace("manifest of window w1", f"manifest of window {window}")

        return resigned(honest[0], change)

    right = {f"{window} as one word": named(window, word(window)) for window in WINDOWS}
    other = {f"{window} as it is": named(window, window) for window in WINDOWS if window != "a/b:c+d~e_f"}
    assert agree({**right, **other}) == list(right)


def test_claims_of_every_kind_are_taken() -> None:
    made = {
        "until-delivered": of_claims.until_delivered(2), "answers": of_claims.answers(),
        "unseen": of_claims.unseen(), "exact": of_claims.exact(),
    }  # fmt: skip
    good = {name: signed(verdict)[0] for name, verdict in made.items()}
    delivered = good["until-delivered"]
    bad = {
        "another unseen": changed(delivered, ["predicate", "unseen"], 6.0),
        "no unseen": changed(delivered, ["predicate", "unseen"], None),
        "no return": changed(delivered, ["predicate", "return"], None),
        "a return of answers": changed(good["answers"], ["predicate", "return"], 1.0),
        "an unseen of answers": changed(good["answers"], ["predicate", "unseen"], 1.0),
        "an epsilon of unseen": changed(good["unseen"], ["predicate", "epsilon"], 3.0),
        "a return of unseen": changed(good["unseen"], ["predicate", "return"], 6.0),
        "a delta of unseen": changed(good["unseen"], ["predicate", "delta"], 1e-6),
        "an epsilon of exact": changed(good["exact"], ["predicate", "epsilon"], 0.0),
        "a delta of exact": changed(good["exact"], ["predicate", "delta"], 0.0),
        "no epsilon of exact": changed(good["exact"], ["predicate", "epsilon"], None),
        "a coalition of exact": changed(good["exact"], ["predicate", "coalition"], "any"),
        "queries of exact": changed(good["exact"], ["predicate", "queries"], "any"),
        "an unseen of exact": changed(good["exact"], ["predicate", "unseen"], 0.0),
        "a return of exact": changed(good["exact"], ["predicate", "return"], 0.0),
        "a period of exact": changed(good["exact"], ["predicate", "periodFrom"], "2026-11-27T00:00Z"),
        "windows left out of exact": changed(good["exact"], ["predicate", "leftOut"], 0),
        "a word of exact": changed(good["exact"], ["predicate", "providersWord"], ["late"]),
    }
    assert agree({**good, **bad}) == list(good)


def test_a_fail_that_contradicts_itself() -> None:
    data = signed(asked(sign_as="mallory").audit())[0]
    bad = {name: resigned(data, change) for name, (change, _) in OF_A_FAIL.items()}
    assert agree({"as it was": data, **bad}) == ["as it was"]


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
        ("predicate", "reports"): [
            {}, {"report.json": {"sha256": "00"}}, {"report.json": {"sha256": "00"}, "report.html": "00"},
            {name: {"sha256": "00", "sha512": "00"} for name in ("report.json", "report.html")},
            {name: {"sha256": "00"} for name in ("report.json", "report.html", "report.pdf")},
        ],
        ("predicate", "log"): [
            {**log, "origin": "other.example/log"}, {**log, "checkpoint": 7}, {**log, "checkpoint": None},
            {"origin": log["origin"], "key": log["key"]}, {**log, "key": None}, {**log, "key": " " + log["key"]},
            {**log, "key": log["key"] + "\n"}, {**log, "checkpoint": log["checkpoint"] + "x"}, {**log, "more": 1},
        ],
    }  # fmt: skip
    cases = {f"{at} {value!r}": changed(data, at, value) for at, values in places.items() for value in values}
    taken = agree(cases)
    assert len(taken) == 2, taken  # another order of subjects, and a member more in the log


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (["predicate", "window"], "w2", "is about the manifest of another window than it names"),
        (["predicate", "window"], None, "is about the manifest of another window than it names"),
        (["subject", 0, "name"], "manifest of window w9", "is about the manifest of another window than it names"),
        (["predicate", "line"], "FAIL epsilon_audit=1", "and its line contradict each other"),
        (["predicate", "log", "origin"], "other.example", "log and its key have different names"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(
    honest: tuple[bytes, bytes], path: list[Any], value: Any, why: str
) -> None:
    """The auditor's own signature holds over all of them."""
    data = changed(honest[0], path, value)
    with pytest.raises(AttestationError, match=why):
        read_verdict(data, PUBLIC)
    (said,) = by_node([data])
    assert why in said["error"]


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


#: Ways to write a number, and whether it is a whole one to a reader; None: it is no number at all.
NUMBERS: dict[str, bool | None] = {
    "3": True, "0": True, "-0": True, "-3": True, "9007199254740993": True, "1" * 32: True,
    "1" * 33: None, "1" * 5000: None,
    "3.0": False, "3e0": False, "3E+0": False, "30e-1": False, "-0.0": False, "1e400": None, "-1e400": None,
    "03": None, "+3": None, "3.": None, ".3": None, "0x3": None, "3n": None, "1_000": None, "NaN": None,
    "Infinity": None, "-": None, "3e": None, "": None, "0." + "0" * 31: None, "\u0663": None,
}  # fmt: skip


@pytest.mark.parametrize("member", ["records", "proven"])
def test_numbers_are_of_the_kind_that_they_are_written_in(honest: tuple[bytes, bytes], member: str) -> None:
    """JSON.parse takes 3.0 for the whole number 3, and reads 2^53 + 1 as 2^53."""
    marked = payload(changed(honest[0], ["predicate", member], 123456789))
    text = json.dumps(marked)
    cases = {n: envelope.seal(PAYLOAD_TYPE, text.replace("123456789", n).encode(), KEY) for n in NUMBERS}
    assert agree(cases) == [n for n, is_whole in NUMBERS.items() if is_whole]


def test_other_json_than_all_readers_read_alike(honest: tuple[bytes, bytes]) -> None:
    data, found = honest[0], json.loads(honest[0])
    text = json.dumps(payload(data))

    def stated(old: str, new: str) -> bytes:
        assert text.count(old) == 1, old
        return envelope.seal(PAYLOAD_TYPE, text.replace(old, new).encode("utf-8", "surrogatepass"), KEY)

    def enveloped(more: str) -> bytes:
        return json.dumps(found).encode()[:-1] + f", {more}}}".encode()

    good = {
        "blanks": stated('"mode": ', '\n\t\r "mode" \n:\t '),
        "a character by escapes": stated('"mode"', '"mo\\u0064e"'),
        "a pair of surrogates": stated('"doesNotSay": [', '"doesNotSay": ["\\ud83d\\ude00", '),
        "32 deep": enveloped(f'"more": {"[" * 32}{"]" * 32}'),
    }
    bad = {
        "a member twice": stated('"mode": ', '"mode": "other", "mode": '),
        "a member twice, once by escapes": stated('"mode": ', '"mo\\u0064e": "other", "mode": '),
        "a member of the log twice": stated('"origin": ', '"origin": "other", "origin": '),
        "a member of the statement twice": stated('"_type": ', '"_type": "other", "_type": '),
        "a member of the envelope twice": enveloped('"payload": "AA=="'),
        "a member of a signature twice": json.dumps(found).replace('"sig": ', '"sig": "AA==", "sig": ').encode(),
        "NaN in the envelope": enveloped('"more": NaN'),
        "half a character": stated('"steps": [', '"steps": ["\\ud800", '),
        "half a character in a name": enveloped('"\\udc00": 1'),
        "half a character in the checkpoint": stated('"checkpoint": "', '"checkpoint": "\\ud800'),
        "33 deep": enveloped(f'"more": {"[" * 33}{"]" * 33}'),
        "100,000 deep": enveloped(f'"more": {"[" * 100_000}{"]" * 100_000}'),
        "a comma at the end": enveloped('"more": [1,]'),
        "no comma": enveloped('"more": [1 2]'),
        "a control character": enveloped('"more": "\n"'),
        "another escape": enveloped('"more": "\\x41"'),
        "a string without end": enveloped('"more": "\\"'),
        "another blank": enveloped('\u00a0"more": 1'),
        "a comment": enveloped('/* */ "more": 1'),
        "something behind it": data + b"{}",
    }  # fmt: skip
    assert agree(good) == list(good)
    assert agree(bad) == []
