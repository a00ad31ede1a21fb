# SPDX-License-Identifier: GPL-3.0-or-later
"""What each stored result was measured with, and whether that is today's code.

``python -m bench.measured`` writes the table of bench/README.md that says so; ``--check`` changes nothing and ends with
status 1 where the table is not today's, as lint wants it.

:func:`stamp` puts two digests into a result when it is stored.  ``code`` is over the sources that the figures depend on
(bench/measured.toml), without comments, docstrings and error texts.  ``classes`` has, of each circuit class that was
measured, the digest of the statement that it proves.  A result with other digests than today's is not wrong: the page
says that it is of older code.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import ragseal
from ragseal.circuits.circuit import class_digest, load_classes

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "bench" / "README.md"
BEGIN, END = "<!-- begin measured -->", "<!-- end measured -->"
DIGITS = 16  #: of a digest, in hex

DEPENDS = ROOT / "bench" / "measured.toml"


@dataclass(frozen=True, slots=True)
class Result:
    """A stored result: how to make it again, what its figures depend on, and which classes it is about."""

    command: str
    sources: tuple[str, ...]  #: globs below the root
    classes: tuple[str, ...] = ()


def results() -> dict[str, Result]:
    """What bench/measured.toml says, by name of the result."""
    said = tomllib.loads(DEPENDS.read_text(encoding="utf-8"))

    def globs(named: list[str]) -> Iterator[str]:
        for one in named:
            yield from said["group"][one[1:]] if one.startswith("@") else [one]

    return {
        name: Result(row["command"], tuple(globs(row["sources"])), tuple(row.get("classes", ())))
        for name, row in said["result"].items()
    }


@cache
def plain(name: str, source: bytes) -> bytes:
    """A source without what changes no figure: comments, and of Python docstrings and error texts."""
    text = source.decode()
    if name.endswith(".py"):
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value = ast.Constant(None)
            elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                node.exc = node.exc.func
        return ast.unparse(tree).encode()
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text)).encode()


def code_digest(sources: Iterable[str], root: Path = ROOT) -> str:
    """Over all files that match, in order of their names.

    Raises:
        LookupError: a glob matches no file.
    """
    chosen: set[Path] = set()
    for pattern in sources:
        found = list(root.glob(pattern))
        if not found:
            raise LookupError(f"bench/measured.toml: no file matches {pattern}")
        chosen |= set(found)
    digest = hashlib.sha256()
    for path in sorted(chosen):
        own = hashlib.sha256(plain(path.name, path.read_bytes())).digest()
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + own)
    return digest.hexdigest()[:DIGITS]


def code_of(name: str) -> str:
    """The digest of all that a result depends on: no cell of other code is taken for one of today's."""
    return code_digest(results()[name].sources)


def today(name: str) -> dict[str, Any]:
    """What a result that is measured now is stamped with.

    Raises:
        LookupError: nothing says what the result depends on.
    """
    if name not in (depends := results()):
        raise LookupError(f"bench/measured.toml does not say what {name}.json depends on: add a table for it")
    row, known = depends[name], load_classes()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "version": ragseal.__version__,
        "code": code_of(name),
        "classes": {cls: class_digest(known[cls]).hex()[:DIGITS] for cls in row.classes if cls in known},
    }


def stamp(path: Path, found: Mapping[str, Any]) -> dict[str, Any]:
    """A result with what it was measured with, if it is one of those that are kept."""
    if path.parent != RESULTS:
        return dict(found)
    return {**found, "measured": today(path.stem)}


def state(stored: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """One cell of the table: whether the figures are of today's code and circuits."""
    gone = [cls for cls in stored["classes"] if cls not in now["classes"]]
    changed = [cls for cls, digest in now["classes"].items() if stored["classes"].get(cls) != digest]
    older = [] if stored["code"] == now["code"] else ["code"]
    older += [f"class {cls} (gone)" for cls in gone] + [f"class {cls}" for cls in changed]
    return f"older: {', '.join(older)}" if older else "today's"


def table() -> str:
    """One row a stored result.

    Raises:
        LookupError: a result without a stamp, one without a row in bench/measured.toml, or a row without a result.
    """
    stored, depends = {path.stem: path for path in sorted(RESULTS.glob("*.json"))}, results()
    if missing := sorted(set(depends) - set(stored)):
        raise LookupError(f"bench/measured.toml names what is not in bench/results: {', '.join(missing)}")
    lines = ["| result | command | measured | version | code and circuits |", "|---|---|---|---|---|"]
    for name, path in stored.items():
        now = today(name)
        stamped = json.loads(path.read_text(encoding="utf-8")).get("measured")
        if stamped is None:
            raise LookupError(f"{path.name} does not say what it was measured with: measure it again")
        said = state(stamped, now)
        when = f"{stamped['date']} | {stamped['version']}"
        lines.append(f"| [{name}](results/{name}.json) | `{depends[name].command}` | {when} | {said} |")
    return "\n".join(lines)


def page(text: str, rows: str) -> str:
    """The page with its table replaced.

    Raises:
        LookupError: it has no place for one.
    """
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise LookupError(f"bench/README.md has no place between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{rows}\n\n{END}{after}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="change nothing; status 1 where the page is not today's")
    checking = options.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    try:
        made = page(text, table())
    except LookupError as error:
        sys.exit(str(error))
    if checking and made != text:
        sys.exit("bench/README.md does not say which figures are of older code: run python -m bench.measured")
    if not checking:
        PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
