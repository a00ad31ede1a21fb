# SPDX-License-Identifier: GPL-3.0-or-later
"""Write into spec/ what kernel and vectors know better than a person: fields, reference code, examples, constants.

A file of spec/ holds pairs of marks, and what stands between them is made anew:

    <!-- generated: messages record --> ... <!-- end -->      these canonical messages, field by field
    <!-- generated: digests --> ... <!-- end -->              the hash that names a message
    <!-- generated: constants --> ... <!-- end -->            values that two implementations agree in
    <!-- generated: code kernel/coin.py coins --> ...         functions of the reference, without their docstrings
    <!-- generated: case poseidon/3-inputs --> ...           a case of vectors/: input and what comes out
    <!-- generated: inputs noise --> ... <!-- end -->         sizes and public inputs of a circuit
    <!-- generated: bytes beacon-commit --> ...               one message from vectors/, cut at its fields

With --check fail where a committed file is not what this gives, or a message stands in no table or in two.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from ragseal.kernel import beacon, coin, folding, inquiry, params, poseidon
from ragseal.kernel.attestation import COARSE_TIME, MAX_OPENINGS_BYTES
from ragseal.kernel.commitment import MAX_ACCOUNTS, MAX_AUDITORS
from ragseal.kernel.encoding import (
    NAME,
    Blob,
    Codec,
    Element,
    Elements,
    Fixed,
    Flag,
    Int,
    Many,
    Message,
    Nested,
    Points,
    PublicKey,
    Text,
)
from ragseal.kernel.estimate import MAX_LINKS
from ragseal.kernel.params import MAX_TENANTS
from ragseal.kernel.policy import MAX_DIMENSION, RATIONAL
from ragseal.kernel.proofs import PROOF_BYTES
from ragseal.kernel.rotation import MAX_OVERLAP, MAX_TURNS
from ragseal.kernel.slot_text import Characters, MetadataValue

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "spec"
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]
from layout import tables  # noqa: E402
from web_messages import all_kinds  # noqa: E402

from vectors.source.book import FILES  # noqa: E402
from vectors.source.messages import split  # noqa: E402
from vectors.source.operations import DIGESTS  # noqa: E402

MARKS = re.compile(r"(?ms)^<!-- generated: ([^\n]*?) -->\n.*?^<!-- end -->$")
GONE = "\0"  #: a line that is left out
WIDTH = 64  #: hexadecimal digits in a line of an example


def form(codec: Codec) -> str:
    """A codec in the words of G.1.2."""
    if codec == NAME:
        return "name"
    if codec == RATIONAL:
        return "rational"
    match codec:
        case Int(width, negative):
            return f"{'i' if negative else 'u'}{8 * width}"
        case Flag():
            return "flag"
        case Fixed(size):
            return f"bytes[{size}]"
        case Blob(limit):
            return f"blob[{limit}]"
        case Text(limit, False):
            return f"text[{limit}]"
        case Characters(least, most):
            return f"characters[{least}..{most}]"
        case MetadataValue():
            return "metadata value"
        case Element():
            return "element"
        case PublicKey():
            return "key"
        case Points(limit):
            return f"points[{limit}]"
        case Elements(limit):
            return f"elements[{limit}]"
        case Many(item, limit):
            return f"list[{limit}] of {form(item)}"
        case Nested():
            return f"`{codec.kind.TAG}`"
    raise SystemExit(f"spec: a codec {type(codec).__name__} is new: say here, and in G.1.2, what it is called")


def _class(kind: type[Message]) -> tuple[ast.ClassDef, list[str]]:
    path = ROOT / (kind.__module__.removeprefix("ragseal.").replace(".", "/") + ".py")
    source = path.read_text("utf-8")
    found = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef) and n.name == kind.__name__)
    return found, source.split("\n")


def comments(kind: type[Message]) -> dict[str, str]:
    """What the kernel says of each field: its ``#:`` comment, behind it or above it."""
    node, lines = _class(kind)
    out = {}
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            assert item.end_lineno is not None
            behind = lines[item.end_lineno - 1].partition("#:")[2].strip()
            above: list[str] = []
            at = item.lineno - 2
            while lines[at].strip().startswith("#:"):
                above.insert(0, lines[at].strip()[2:].strip())
                at -= 1
            out[item.target.id] = " ".join([*above, behind]).strip().replace("|", "\\|")
    return out


def _plain(text: str) -> str:
    """A docstring or comment as a sentence of the specification."""
    text = re.sub(r"\.\s+(?:SPEC )?([A-Z]\.\d[\w., ]*)\.$", r" (\1).", " ".join(text.split()))
    return text.replace("SPEC ", "").replace("``", "`")


def message(kind: type[Message]) -> str:
    """One message: what it is, and its fields in order."""
    said = comments(kind)
    about = (ast.get_docstring(_class(kind)[0]) or "").split("\n\n")[0]
    missing = [field.name for field in fields(kind) if not said.get(field.name)]  # type: ignore[arg-type]
    if missing or not about:
        raise SystemExit(f"spec: {kind.__name__} says nothing of {', '.join(missing) or 'itself'}: add `#:` comments")
    every = list(zip(fields(kind), kind.CODECS, strict=True))  # type: ignore[arg-type]
    rows = [
        f"| `{field.name}` | {form(codec)}{', version 2' if at >= len(every) - kind.LATER else ''} | "
        f"{_plain(said[field.name])} |"
        for at, (field, codec) in enumerate(every)
    ]
    head = textwrap.fill(f"**`{kind.TAG}`** {_plain(about)}", 120, break_on_hyphens=False)
    return "\n".join([head, "", "| field | form | meaning |", "|---|---|---|", *rows])


def messages(*tags: str) -> str:
    kinds = {kind.TAG: kind for kind in all_kinds()}
    if unknown := sorted(set(tags) - set(kinds)):
        raise SystemExit(f"spec: no message is called {', '.join(unknown)}")
    return "\n\n".join(message(kinds[tag]) for tag in tags)


def digests() -> str:
    """The tag of the hash that names a message, wherever a message has one."""
    rows = [f'| `{tag}` | H("{label}", message) |' for tag, (label, _) in sorted(DIGESTS.items())]
    return "\n".join(["| message | digest |", "|---|---|", *rows])


def _shortened(source: str, node: ast.FunctionDef) -> str:
    """A function without docstrings and comments' marks for tools; what it raises is ``refuse``."""
    lines = source.split("\n")
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef) and ast.get_docstring(inner) is not None:
            for number in range(inner.body[0].lineno, inner.body[0].end_lineno + 1):  # type: ignore[operator]
                lines[number - 1] = GONE
        if isinstance(inner, ast.Raise):
            lines[inner.lineno - 1] = " " * inner.col_offset + "refuse"
            for number in range(inner.lineno + 1, inner.end_lineno + 1):  # type: ignore[operator]
                lines[number - 1] = GONE
    body = [line[node.col_offset :] for line in lines[node.lineno - 1 : node.end_lineno] if line != GONE]
    return "\n".join(re.sub(r"  # (?:type|fmt|noqa)\b.*", "", line) for line in body)


def code(path: str, *names: str) -> str:
    """Functions of a file of the reference, a method as Class.method."""
    source = (ROOT / path).read_text("utf-8")
    out = []
    for name in names:
        inside: ast.AST = ast.parse(source)
        for part in name.split("."):
            kinds = (ast.FunctionDef, ast.ClassDef)
            found = [n for n in ast.iter_child_nodes(inside) if isinstance(n, kinds) and n.name == part]
            if not found:
                raise SystemExit(f"spec: {path} has no {name}")
            inside = found[-1]
        assert isinstance(inside, ast.FunctionDef)
        out.append(_shortened(source, inside))
    return f"`{path}`:\n\n```python\n" + "\n\n\n".join(out) + "\n```"


@cache
def cases(file: str) -> list[dict[str, Any]]:
    """The cases of one file of vectors/."""
    found: list[dict[str, Any]] = json.loads((ROOT / "vectors" / f"{file}.json").read_text("utf-8"))["cases"]
    return found


def case(name: str) -> str:
    """One case of vectors/, without its name: what goes in and what comes out."""
    noun = name.partition("/")[0]
    file = next((file for file, nouns in FILES.items() if noun in nouns), None)
    found = next((one for one in cases(file) if one["name"] == name), None) if file else None
    if found is None:
        raise SystemExit(f"spec: vectors have no case {name}")
    said = {key: found[key] for key in ("input", "expected")}
    text = json.dumps(said, indent=1, ensure_ascii=False)
    text = re.sub(r"[0-9a-f]{200,}", lambda m: f"{m[0][:64]}... ({len(m[0]) // 2} bytes)", text)
    return f"Case {name} of `vectors/{file}.json`:\n\n```json\n{text}\n```"


@cache
def accepted() -> dict[str, bytes]:
    """Tag -> the bytes of a message that vectors/messages.json accepts."""
    valid = [case["input"] for case in cases("messages") if case["name"].endswith("/valid")]
    return {one["tag"]: bytes.fromhex(one["bytes"]) for one in valid}


def shown(tag: str) -> str:
    """A message from vectors/, cut at its fields, in hexadecimal."""
    kind = next(kind for kind in all_kinds() if tag == kind.TAG)
    (_, _, head), *parts = split(kind.decode(accepted()[tag]))
    cut = [("length of the tag, tag", head[:-2]), ("version", head[-2:]), *((name, own) for name, _, own in parts)]
    out = []
    for name, part in cut:
        digits = part.hex()
        lines = [digits[at : at + WIDTH] for at in range(0, len(digits), WIDTH)] or [""]
        out += [f"{lines[0]:<{WIDTH}}  {name}", *lines[1:]]
    text = "\n".join(map(str.rstrip, out))
    return f"Case messages/{tag}/valid of `vectors/messages.json`:\n\n```text\n{text}\n```"


#: What two implementations agree in: how it is called, its value, the clause that uses it.
CONSTANTS: Sequence[tuple[str, object, str]] = (
    ("protocol version", params.PROTOCOL_VERSION, "G.1"),
    ("r, order of BN254's groups", params.R, "G.3"),
    ("p, order of its base field", params.P, "G.9"),
    ("Poseidon: S-box, full rounds", f"x^5, {poseidon.FULL_ROUNDS}", "G.11"),
    ("Poseidon: partial rounds of widths 2 to 17", ", ".join(map(str, poseidon.PARTIAL_ROUNDS)), "G.11"),
    ("Poseidon tag of C_seed, key, coarse bits", f"{params.TAG_SEED}, {params.TAG_KEY}, {params.TAG_COARSE}", "M.6"),
    ("Poseidon tag of fine bits, T", f"{params.TAG_FINE}, {params.TAG_PLACES}", "M.6, B.6.5"),
    (
        "Poseidon tag of C_coin, coins' key, coins",
        f"{params.TAG_COIN_SEED}, {params.TAG_COIN_KEY}, {params.TAG_COINS}",
        "A.11",
    ),
    ("outputs of a width-17 permutation that are used", params.ELEMENTS_PER_BLOCK, "M.6"),
    ("bits of an element of T", params.PACKED_BITS, "B.6.5"),
    ("bits of a coin; coins an element", f"{params.COIN_BITS}; {coin.COINS_PER_ELEMENT}", "A.11.2"),
    ("shards of an index", params.MAX_SHARDS, "A.15"),
    ("dimension", MAX_DIMENSION, "A.6"),
    ("entries that folding leaves a relation", folding.SHORTEST, "B.7.3"),
    ("bytes of a Groth16 proof", PROOF_BYTES, "B.5"),
    ("coarse time", f"{COARSE_TIME} s", "B.3"),
    ("openings of an answer", f"{MAX_OPENINGS_BYTES} bytes", "B.4.9"),
    ("age of an ask", f"{inquiry.ASK_SECONDS} s", "G.8.2"),
    ("links of a window", MAX_LINKS, "C.3"),
    ("participants of a beacon; auditors of a window", f"{beacon.MAX_PARTICIPANTS}; {MAX_AUDITORS}", "A.8"),
    ("tenants, accounts of a window", f"{MAX_TENANTS}, {MAX_ACCOUNTS}", "A.1, A.7"),
    ("turns of a log's key; longest overlap", f"{MAX_TURNS}; {MAX_OVERLAP} sizes", "G.6.13"),
)


def constants() -> str:
    return "\n".join(["| what | value | clause |", "|---|---|---|", *(f"| {n} | {v} | {c} |" for n, v, c in CONSTANTS)])


MAKERS: dict[str, Callable[..., str]] = {
    "messages": messages,
    "digests": digests,
    "constants": constants,
    "code": code,
    "case": case,
    "inputs": tables,
    "bytes": shown,
}


def filled(text: str) -> str:
    """A file with all its marked places made anew."""

    def one(found: re.Match[str]) -> str:
        what, *words = found[1].split()
        if what not in MAKERS:
            raise SystemExit(f"spec: nothing is called {what!r}; known are {', '.join(MAKERS)}")
        return f"<!-- generated: {found[1]} -->\n{MAKERS[what](*words)}\n<!-- end -->"

    return MARKS.sub(one, text)


def tabled(texts: Iterable[str]) -> list[str]:
    """Tags of the messages that have a table, as often as they have one."""
    marks = (found[1].split() for text in texts for found in MARKS.finditer(text))
    return [tag for what, *tags in marks if what == "messages" for tag in tags]


def main() -> None:
    paths = sorted(SPEC.glob("*.md"))
    old = [path.read_text("utf-8") for path in paths]
    known, there = [kind.TAG for kind in all_kinds()], tabled(old)
    if wrong := [tag for tag in known if there.count(tag) != 1]:
        raise SystemExit(f"spec: these messages have no table, or two: {', '.join(wrong)}")
    fresh = [filled(text) for text in old]
    stale = [path for path, was, new in zip(paths, old, fresh, strict=True) if was != new]
    if "--check" in sys.argv:
        if stale:
            sys.exit(f"{', '.join(path.name for path in stale)} of spec/: not current, run scripts/spec.py")
        return
    for path, new in zip(paths, fresh, strict=True):
        path.write_text(new, "utf-8")
    print(f"spec: {len(stale)} files changed")


if __name__ == "__main__":
    main()
