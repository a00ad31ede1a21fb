# SPDX-License-Identifier: GPL-3.0-or-later
"""Pin the proofs of docs/proofs to the source that relies on them.  ``--check`` only says which pins are old.

A proof's front matter lists files and, of each, functions, classes or constants (``Class.method`` for a method) that
rely on it, and ends with a pin: SHA-256 over their syntax trees, without docstrings, comments and error texts.  When a
pin no longer fits, re-read the proof beside the new source, correct it, and only then run this.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROOFS = ROOT / "docs" / "proofs"

_FRONT = re.compile(r"\A---\nrelied on by:\n((?:  \S+\.py: .+\n)+)pin:[ ]?([0-9a-f]*)\n---\n")
_HOLDS_STATEMENTS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Plain(ast.NodeTransformer):
    """Docstrings and error texts out."""

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(error, None)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return ast.Pass()
        return self.generic_visit(node)


def _pinned(pin: str, front: re.Match[str]) -> str:
    return f"---\nrelied on by:\n{front[1]}pin: {pin}\n---\n"


def _named(tree: ast.AST, name: str) -> ast.AST | None:
    """The definition or assignment of a dotted name."""
    first, _, rest = name.partition(".")
    body: list[ast.AST] = getattr(tree, "body", [])
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if isinstance(node, _HOLDS_STATEMENTS) and node.name == first:
            return _named(node, rest) if rest else node
        if not rest and any(isinstance(target, ast.Name) and target.id == first for target in targets):
            return node
    return None


def relied_on(front: str) -> list[tuple[str, str]]:
    """(file, name) of everything that a front matter lists, in its order."""
    lines = [line.strip().partition(": ") for line in front.splitlines()]
    return [(file, name) for file, _, names in lines for name in names.split()]


def pin_of(front: str) -> str:
    """The pin that fits the source as it is.

    Raises:
        LookupError: a file or name is not there.
    """
    digest = hashlib.sha256()
    for file, name in relied_on(front):
        path = ROOT / file
        found = _named(ast.parse(path.read_text("utf-8")), name) if path.is_file() else None
        if found is None:
            raise LookupError(f"{file} has no {name}")
        digest.update(f"{file} {name}\n{ast.unparse(_Plain().visit(found))}\n".encode())
    return digest.hexdigest()


def parts(proof: str) -> tuple[str, str]:
    """(list of what relies on it, pin) of a proof.

    Raises:
        LookupError: the front matter is not of this form.
    """
    found = _FRONT.match(proof)
    if found is None:
        raise LookupError("it does not begin with the front matter that scripts/pin_proofs.py describes")
    return found[1], found[2]


def old() -> dict[str, str]:
    """The proofs whose pins do not fit -> why and what to do."""
    out = {}
    for path in sorted(PROOFS.glob("*.md")):
        try:
            front, pin = parts(path.read_text("utf-8"))
            if pin_of(front) == pin:
                continue
            why = "what relies on it has changed"
        except LookupError as error:
            why = str(error)
        out[path.name] = f"{why}: re-read the proof, then run scripts/pin_proofs.py"
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a pin is old")
    if parser.parse_args().check:
        found = old()
        for name, why in found.items():
            print(f"docs/proofs/{name}: {why}")
        sys.exit(1 if found else 0)
    for path in sorted(PROOFS.glob("*.md")):
        proof = path.read_text("utf-8")
        try:
            front, pin = parts(proof)
            new = pin_of(front)
        except LookupError as error:
            sys.exit(f"docs/proofs/{path.name}: {error}")
        if new != pin:
            path.write_text(_FRONT.sub(partial(_pinned, new), proof, count=1))
            print(f"docs/proofs/{path.name} pinned")


if __name__ == "__main__":
    main()
