# SPDX-License-Identifier: GPL-3.0-or-later
"""The same bytes, read by two implementations: equal fields, or both refuse.

decode.mjs was written from the specification's tables by hand, for Node.js.  What one of them accepts and the other
does not is a second meaning of bytes that are hashed and signed.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel import encoding
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AuditError
from ragseal.kernel.params import R
from ragseal.kernel.publickey import FIELD_PRIME
from ragseal.kernel.slot_text import Number
from tests.fuzz.corpus import kept
from tests.fuzz.mutation import mutated
from tests.fuzz.samples import message_kinds, sample
from tests.vectors.reading import FOLDER, all_cases

NODE = shutil.which("node")
#: Neither hashed nor signed nor sent to anybody else: files of one program, and what its processes tell each other.
PRIVATE = {"account-name", "exchange", "query-secrets", "work", "work-result"}
KINDS = [kind for kind in message_kinds() if kind.TAG not in PRIVATE]
_Y8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
SMALL_Y = [0, 1, FIELD_PRIME - 1, _Y8, FIELD_PRIME - _Y8]  #: of Ed25519's points of order 1, 2, 4 and 8
SMALL_U = [  #: of Curve25519's and its twist's (https://cr.yp.to/ecdh.html#validate)
    0, 1, FIELD_PRIME - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]  # fmt: skip
MUTATIONS = 150  #: of each message


def second(cases: Sequence[tuple[str, bytes]], script: str = "decode.mjs") -> list[dict[str, Any]]:
    """What the second decoder says of (tag, bytes) pairs, in one run."""
    assert NODE is not None
    lines = "".join(f"{tag} {data.hex()}\n" for tag, data in cases)
    command = [NODE, str(Path(__file__).with_name(script))]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=300)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases), done.stderr
    return answers


def first(kind: type[Message], data: bytes) -> Any:
    """What the kernel's decoder makes of it, in the same form; None if it refuses."""
    try:
        return _plain(kind.decode(data))
    except AuditError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return {"tag": value.TAG, "fields": [_plain(getattr(value, f.name)) for f in fields(value)]}  # type: ignore[arg-type]
    if isinstance(value, Number):
        return {"tag": "number", "fields": [value.bits.hex()]}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def compare(kind: type[Message], cases: Sequence[bytes]) -> tuple[int, int]:
    """(accepted, refused) by both; AssertionError where they differ, which names a seed of the corpus."""
    accepted = 0
    names = {data: name for name, data in kept(f"message-{kind.TAG}").items()}
    for data, theirs in zip(cases, second([(kind.TAG, data) for data in cases]), strict=True):
        ours = first(kind, data)
        where = f"{kind.TAG} {names.get(data, 'mutated')}: {data[:200].hex()}: {theirs.get('error')}"
        assert (ours is None) == ("error" in theirs), where
        assert ours == theirs.get("ok"), where
        accepted += ours is not None
    return accepted, len(cases) - accepted


def _edges(data: bytes, rng: random.Random) -> list[bytes]:
    """Changes where two readers are apt to differ: lengths, counts, flags, elements, signs, text."""
    out = []
    for at in range(len(data)):
        for width, numbers in ((1, (0, 1, 2, 0x7F, 0x80, 0xFF)), (4, (0, 1, 0xFFFFFFFF, 0x80000000))):
            out += [data[:at] + n.to_bytes(width, "big") + data[at + width :] for n in numbers]
        out += [data[:at] + n.to_bytes(32, "big") + data[at + 32 :] for n in (R, R - 1, 2**256 - 1) if at % 5 == 0]
    return rng.sample(out, min(len(out), 200))


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TAG)
def test_both_decoders_agree(kind: type[Message]) -> None:
    rng = random.Random(kind.TAG)
    pool = [sample(kind, rng).encode() for _ in range(6)]
    accepted, _ = compare(kind, pool)
    assert accepted == len(pool)
    corpus = kept(f"message-{kind.TAG}").values()
    assert corpus, f"no corpus: python -m tests.fuzz.grow message-{kind.TAG}"
    cases = [*corpus, *(mutated(rng.choice(pool), rng, rng.choice(pool)) for _ in range(MUTATIONS))]
    cases += _edges(min(pool, key=len), rng)
    accepted, refused = compare(kind, cases)
    assert accepted
    assert refused


def low(numbers: Sequence[int]) -> list[bytes]:
    """Numbers and their neighbours as 32 bytes, with and without the prime added, with and without the top bit."""
    near = {n + step for n in numbers for step in (-1, 0, 1)}
    wide = {n + more for n in near for more in (0, FIELD_PRIME) if 0 <= n + more < 2**255}
    return [(n | top << 255).to_bytes(32, "little") for n in sorted(wide) for top in (0, 1)]


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
@pytest.mark.parametrize(
    ("tag", "field", "numbers", "expected"),
    [
        ("account", "public_key", SMALL_Y, 16),
        ("beacon-commit", "public_key", SMALL_Y, 16),
        ("manifest", "provider_key", SMALL_Y, 16),
        ("auditor-seat", "public_key", SMALL_Y, 16),
        ("request", "seal_key", SMALL_U, 22),  # and every second form,
    ],
)
def test_keys_of_small_order_are_refused_by_both(tag: str, field: str, numbers: list[int], expected: int) -> None:
    """No mutation finds them: 2^-250 of all keys.  Their neighbours are keys like any other."""
    kind = next(kind for kind in KINDS if tag == kind.TAG)
    made = sample(kind, random.Random(tag))
    data, key = made.encode(), getattr(made, field)
    assert data.count(key) == 1
    accepted, refused = compare(kind, [data.replace(key, other) for other in low(numbers)])
    assert (accepted, refused) == (len(low(numbers)) - expected, expected)


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_a_provider_that_is_its_own_auditor_is_refused_by_both() -> None:
    kind = next(kind for kind in KINDS if kind.TAG == "manifest")
    made = sample(kind, random.Random(1))
    assert compare(kind, [made.encode().replace(made.auditors[0].public_key, made.provider_key)]) == (0, 1)


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_second_decoder_knows_every_message() -> None:
    """A new message that is hashed, signed or sent has to be written down a second time."""
    unknown = [tag for tag in (kind.TAG for kind in KINDS) if second([(tag, b"")])[0]["error"] == "unknown message"]
    assert not unknown


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_a_difference_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag of 2, an element of r, a wider integer, in one of the two readers only."""
    kind = next(kind for kind in KINDS if kind.TAG == "request")
    data = sample(kind, random.Random(1)).encode()
    flags = [data[:at] + b"\x02" + data[at + 1 :] for at in range(len(data))]
    compare(kind, flags)
    with monkeypatch.context() as patch:
        patch.setattr(encoding.Flag, "read", lambda self, reader: bool(reader.take(1)[0]))
        patch.setattr(encoding.Message, "decode", classmethod(lambda cls, given: cls.read(encoding.Reader(given))))
        with pytest.raises(AssertionError, match="a flag is 0 or 1"):
            compare(kind, flags)


# vectors/ by a second implementation, in another language: vectors.mjs gives each output and refuses each failure.


SCRIPT = Path(__file__).with_name("vectors.mjs")
#: What needs curve arithmetic, a noise table or the accountants: read by Python and Rust.
ELSEWHERE = {
    "added-up", "points", "msm", "generators", "fold-points", "fold", "unfold", "opening", "prove-opening",
    "squared-norm", "prove-squared-norm", "groth16", "verifying-key", "index-file", "embedding-commitment",
    "score-commitment", "record", "receipt", "openings", "block", "block-batch", "noise-table", "noise-masses",
    "check-noise-table", "row-noise", "slot-noise", "select", "select-noise", "select-decoys", "draw-table",
    "commitments", "epsilon", "audit", "full-blocks", "proof-file", "seal",
}  # fmt: skip


def read(folder: Path) -> dict[str, Any]:
    assert NODE is not None
    command = [NODE, str(SCRIPT), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_second_implementation_agrees() -> None:
    found = read(FOLDER)
    assert not found["wrong"]
    used = {case["operation"] for case in all_cases().values()}
    assert set(found["read"]) == used - ELSEWHERE, "write it down a second time, or say who reads it"
    for operation, counts in found["read"].items():
        own = [case for case in all_cases().values() if case["operation"] == operation]
        assert counts == [sum("expected" in case for case in own), sum("failure" in case for case in own)]


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
@pytest.mark.parametrize("path", ["inclusion/7-of-13", "beacon/value", "checkpoints/cosigned", "messages/record/valid",
                                  "signatures/valid", "sealing/opened", "noise/key", "samples/blocks"])  # fmt: skip
def test_a_wrong_vector_would_be_noticed(path: str, tmp_path: Path) -> None:
    """An output with another last letter; for what has none, an input."""
    case = dict(all_cases()[path])
    field = "expected" if case["expected"] else "input"
    where = case[field] = dict(case[field])
    name = next(name for name, value in where.items() if isinstance(value, str | list | dict))
    where[name] = _other(where[name])
    (tmp_path / "changed.json").write_text(json.dumps({"cases": [case]}))
    assert [one.split(":")[0] for one in read(tmp_path)["wrong"]] == [path]


def _other(value: Any) -> Any:
    if isinstance(value, dict):
        name = next(iter(value))
        return {**value, name: _other(value[name])}
    if isinstance(value, list):
        return [*value, value[-1]]
    return value[:-1] + ("0" if value[-1] != "0" else "1")
