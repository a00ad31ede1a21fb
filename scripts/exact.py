# SPDX-License-Identifier: GPL-3.0-or-later
"""What provider, auditor and account compute alike, bit for bit, has no floats, clock, chance or files: the kernel.

    .venv/bin/python scripts/exact.py [folder]

A line that has to look like a float and is exact says why: ``# exact: <reason>``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INTEGER_MATH = {"comb", "gcd", "isqrt", "lcm", "perm", "prod", "factorial"}
IMPURE = {
    "asyncio", "datetime", "io", "os", "pathlib", "random", "secrets", "socket", "sqlite3", "subprocess", "sys",
    "tempfile", "threading", "time",
}  # fmt: skip
EXACT = "# exact:"


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Line and reason of whatever is not exact or not pure."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        why = _fault(node)
        if why and EXACT not in lines[node.lineno - 1]:  # type: ignore[attr-defined]
            yield node.lineno, why  # type: ignore[attr-defined]


def _fault(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=float() | complex()):
            return "a float"
        case ast.Name(id="float" | "complex"):
            return "a float"
        case ast.Attribute(attr=name) if "float" in name:
            return "a float"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return "a true division"
        case ast.Attribute(value=ast.Name(id="math"), attr=name) if name not in INTEGER_MATH:
            return f"math.{name} computes with floats"
        case ast.ImportFrom(module="math", names=names) if any(one.name not in INTEGER_MATH for one in names):
            return "a function of math that computes with floats"
        case ast.Import(names=names) if any(one.name.split(".")[0] in IMPURE for one in names):
            return "an import that is not pure"
        case ast.ImportFrom(module=str() as module) if module.split(".")[0] in IMPURE:
            return "an import that is not pure"
    return ""


def main() -> None:
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "kernel"
    found = []
    for path in sorted(folder.rglob("*.py")):
        found += [f"{path}:{line}: {why}" for line, why in sorted(faults(path.read_text()))]
    sys.exit("\n".join(found) or None)


if __name__ == "__main__":
    main()
