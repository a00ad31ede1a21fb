# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what circuits and Rust have of a circuit's public inputs: their names, order and lengths, and derived sizes.

The kernel's :class:`~ragseal.kernel.statement.InputTable` of a circuit says names, order and shapes, and the properties
of its class say the derived sizes: each is one expression, which is written here in the other language.  Of
circuits/NAME.circom that is the part from the first derived size up to the secrets; native/src/NAME/layout.rs is whole.
SPEC's tables come from the same expressions (scripts/spec.py).  With --check fail where a committed file differs.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from constants import NAMES as CONSTANTS  # noqa: E402
from constants import value  # noqa: E402

from ragseal.kernel import noise_statement  # noqa: E402
from ragseal.kernel.noise_class import NoiseClass  # noqa: E402
from ragseal.kernel.statement import Input, InputTable, Size  # noqa: E402

SECRETS = "    signal input s_hi;"  #: the first line of a circuit behind its public inputs
LICENCE = "// SPDX-License-Identifier: GPL-3.0-or-later"


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def sentence(text: str) -> str:
    """With a capital, unless it begins with a symbol."""
    return (text[0].upper() + text[1:] if text[1:2].isalpha() else text) + "."


@dataclass(frozen=True)
class Described:
    """A circuit's table, and the class whose properties say its derived sizes."""

    noun: str
    table: InputTable
    kind: type

    @cached_property
    def names(self) -> dict[str, str]:
        """Attribute of the class, or constant of its module -> name in the circuit."""
        return {size.attribute: size.name for size in (*self.table.given, *self.table.derived)}

    def constant(self, name: str) -> int:
        """A constant of the module of the class, or of a class that it inherits from."""
        modules = (inspect.getmodule(kind) for kind in self.kind.__mro__)
        return int(next(getattr(module, name) for module in modules if hasattr(module, name)))

    def agreed(self, name: str) -> int:
        """The same, where the circuits have no other constant of that name."""
        found = self.constant(name)
        if name in CONSTANTS and value(name) != found:
            raise SystemExit(f"layout: {name} is {found}, but {value(name)} in the circuits")
        return found

    def expression(self, size: Size) -> ast.expr:
        """A derived size by given ones, derived ones and constants."""
        if size.attribute.isupper():
            return ast.Constant(self.constant(size.attribute))
        return self._returned(size.attribute, {})

    def _returned(self, attribute: str, bound: dict[str, ast.expr]) -> ast.expr:
        """What a property or method of the class returns, which is all that it does."""
        found = inspect.getattr_static(self.kind, attribute)
        function = getattr(found, "fget", None) or getattr(found, "func", None) or found
        node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(node, ast.FunctionDef)
        last = node.body[-1]
        if not isinstance(last, ast.Return) or last.value is None or len(node.body) > 2:
            raise SystemExit(f"layout: {self.kind.__name__}.{attribute} is more than one expression")
        return self._inlined(last.value, bound)

    def _inlined(self, node: ast.expr, bound: dict[str, ast.expr]) -> ast.expr:
        match node:
            case ast.Constant():
                return node
            case ast.Name(id=name):
                return bound.get(name) or ast.Name(self.names.get(name, name))
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return ast.Name(self.names[name]) if name in self.names else self._returned(name, {})
            case ast.UnaryOp(op=op, operand=operand):
                return ast.UnaryOp(op, self._inlined(operand, bound))
            case ast.BinOp(left=left, op=op, right=right):
                return ast.BinOp(self._inlined(left, bound), op, self._inlined(right, bound))
            case ast.Call(func=ast.Name(id="max"), args=[ast.Constant(value=0), other]):
                return ast.Call(ast.Name("max"), [ast.Constant(0), self._inlined(other, bound)], [])
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=arguments):
                function = inspect.getattr_static(self.kind, name)
                own = list(inspect.signature(function).parameters)[1:]
                given = [self._inlined(argument, bound) for argument in arguments]
                return self._returned(name, dict(zip(own, given, strict=True)))
        raise SystemExit(f"layout: {ast.unparse(node)} is no sum, product or quotient that a circuit can have")


CIRCUITS = (Described("noise", noise_statement.TABLE, NoiseClass),)


def terms(node: ast.expr, sign: int = 1) -> list[tuple[int, ast.expr]]:
    """A sum's terms with their signs, in order."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return terms(node.left, sign) + terms(node.right, -sign if isinstance(node.op, ast.Sub) else sign)
    return [(sign, node)]


class Language:
    """How an expression is written.  This one is SPEC's."""

    def __init__(self, described: Described) -> None:
        self.described = described

    def name(self, name: str) -> str:
        return name if name in self.described.names.values() else str(self.described.constant(name))

    def floor(self, over: ast.expr, by: ast.expr) -> str:
        return f"floor({self.factor(over)} / {self.factor(by)})"

    def ceil(self, over: ast.expr, by: ast.expr) -> str:
        return f"ceil({self.factor(over)} / {self.factor(by)})"

    def clamped(self, over: ast.expr, by: ast.expr) -> str:
        """The quotient, or 0 where that is below 0."""
        return f"max(0, {self.floor(over, by)})"

    def factor(self, node: ast.expr) -> str:
        return f"({self.show(node)})" if len(terms(node)) > 1 else self.show(node)

    def show(self, node: ast.expr) -> str:
        match node:
            case ast.Constant():
                return ast.unparse(node)
            case ast.Name(id=name):
                return self.name(name)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return f"{self.factor(left)} * {self.factor(right)}"
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                return self.floor(left, right)
            case ast.UnaryOp(
                op=ast.USub(), operand=ast.BinOp(left=ast.UnaryOp(ast.USub(), over), op=ast.FloorDiv(), right=by)
            ):
                return self.ceil(over, by)
            case ast.Call(args=[_, ast.BinOp(left=over, op=ast.FloorDiv(), right=by)]):
                return self.clamped(over, by)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                first, *others = terms(node)
                return self.factor(first[1]) + "".join(f" {'+' if s > 0 else '-'} {self.factor(x)}" for s, x in others)
        raise SystemExit(f"layout: {ast.unparse(node)} is no sum, product or quotient that a circuit can have")


class Circom(Language):
    """Templates have variables for given and derived sizes; constants are functions (scripts/constants.py)."""

    def name(self, name: str) -> str:
        if name in self.described.names.values():
            return name
        number = self.described.agreed(name)
        return f"{name}()" if name in CONSTANTS else str(number)

    def floor(self, over: ast.expr, by: ast.expr) -> str:
        return f"{self.factor(over)} \\ {self.factor(by)}"

    def ceil(self, over: ast.expr, by: ast.expr) -> str:
        return f"({self.show(over)} + {self.show(by)} - 1) \\ {self.factor(by)}"

    def declared(self, size: Size) -> list[str]:
        found = self.described.expression(size)
        if isinstance(found, ast.Constant):
            return [f"    var {size.name} = {ast.unparse(found)};  // {size.meaning}"]
        if isinstance(found, ast.Call):
            quotient = found.args[1]
            assert isinstance(quotient, ast.BinOp)
            spare = "spare" + size.name.removeprefix("fill")
            return [
                f"    var {size.name} = 0;",
                f"    var {spare} = {self.show(quotient.left)};",
                f"    if ({spare} > 0) {{ {size.name} = {spare} \\ {self.factor(quotient.right)}; }}",
            ]
        return [f"    var {size.name} = {self.show(found)};"]

    def part(self) -> str:
        """From the first derived size to the last public input."""
        table = self.described.table
        groups = [[*table.clear, Input("blind", "", "")], [Input("w", "N", "")], table.hints]
        groups += [[one for one in table.behind if one.shape], [one for one in table.behind if not one.shape]]
        sizes = [line for size in table.derived for line in self.declared(size)]
        signals = [
            [f"    signal input {one.name}{''.join(f'[{length}]' for length in one.lengths)};" for one in group]
            for group in groups
            if group
        ]
        return "".join("\n".join(lines) + "\n\n" for lines in [sizes, *signals])


class Rust(Language):
    """Lengths are usize: a difference is of what is larger, or saturates."""

    def __init__(self, described: Described) -> None:
        super().__init__(described)
        self.constants: set[str] = set()  #: those of scripts/constants.py that were written
        table = described.table
        self.fields = {size.name: snake(size.name) for size in table.given}
        self.fields |= {size.name: size.attribute for size in table.derived if not size.attribute.isupper()}
        self.own: dict[str, int] = {}  #: constants of the class's module that were written
        self.aliases = {size.name: size.attribute for size in table.derived if size.attribute.isupper()}

    def name(self, name: str) -> str:
        if name in self.fields:
            return self.fields[name]
        name = self.aliases.get(name, name)
        number = self.described.agreed(name)
        if name in CONSTANTS:
            self.constants.add(name)
        else:
            self.own[name] = number
        return name

    def floor(self, over: ast.expr, by: ast.expr) -> str:
        return f"{self.factor(over)} / {self.factor(by)}"

    def ceil(self, over: ast.expr, by: ast.expr) -> str:
        return f"{self.factor(over)}.div_ceil({self.show(by)})"

    def clamped(self, over: ast.expr, by: ast.expr) -> str:
        first, *others = terms(over)
        less = " + ".join(self.factor(x) for _, x in others)
        return f"{self.factor(first[1])}.saturating_sub({less}) / {self.factor(by)}"

    def length(self, text: str) -> str:
        """One dimension of a table's shape."""
        power = re.fullmatch(r"2 \*\* (\w+)", text)
        if power:
            return f"(1 << {self.fields[power[1]]})"
        shown = re.sub(r"[A-Za-z]\w*", lambda found: self.name(found[0]), text)
        return f"({shown})" if " " in shown else shown

    def file(self) -> str:
        table, noun = self.described.table, self.described.noun
        derived = [size for size in table.derived if size.name in self.fields]
        lets = [f"let {self.fields[size.name]} = {self.show(self.described.expression(size))};" for size in derived]
        lengths = [" * ".join(map(self.length, one.lengths)) or "1" for one in table.hints]
        lengths = [re.sub(r"^\((.*)\)$", r"\1", text) if text.count("(") == 1 else text for text in lengths]
        given = [self.fields[size.name] for size in table.given]
        names = [one.name[0].upper() + one.name[1:] for one in table.hints]
        out = [
            LICENCE,
            f"//! Sizes and hints of one class; generated from kernel/{noun}_statement.py by scripts/layout.py.",
            "",
            "use crate::arrays::Name;",
            f"use crate::constants::{{{', '.join(sorted(self.constants))}}};",
            "",
            *(f"pub const {name}: usize = {value};" for name, value in self.own.items()),
            "",
            "/// What a class gives.",
            "pub struct Given {",
            *(f"    /// {one.name}: {one.meaning}.\n    pub {self.fields[one.name]}: usize," for one in table.given),
            "}",
            "",
            "/// What follows from it; not all of it is read here.",
            "#[allow(dead_code)]",
            "pub struct Sizes {",
            *(f"    /// {sentence(size.meaning)}\n    pub {size.attribute}: usize," for size in derived),
            "    /// Of every array of hints, in their order.",
            f"    pub lengths: [(Hint, usize); {len(names)}],",
            "}",
            "",
            "/// The arrays of the hint vector.",
            "#[derive(Clone, Copy, Debug, PartialEq)]",
            "pub enum Hint {",
            *(f"    /// {sentence(one.meaning)}\n    {name}," for name, one in
              zip(names, table.hints, strict=True)),
            "}",
            "",
            "impl Name for Hint {",
            "    fn index(self) -> usize {",
            "        self as usize",
            "    }",
            "}",
            "",
            "impl Given {",
            "    pub fn sizes(self) -> Sizes {",
            f"        let Given {{ {', '.join(given)} }} = self;",
            *(f"        {line}" for line in lets),
            "        Sizes {",
            *(f"            {size.attribute}," for size in derived),
            "            lengths: [",
            *(f"                (Hint::{name}, {text})," for name, text in zip(names, lengths, strict=True)),
            "            ],",
            "        }",
            "    }",
            "}",
            "",
        ]  # fmt: skip
        made = subprocess.run(
            ["rustfmt", "--edition", "2021", "--config-path", str(ROOT / "native")],
            input="\n".join(out), capture_output=True, text=True, check=True,
        )  # fmt: skip
        return made.stdout


def tables(noun: str, circuits: Sequence[Described] = CIRCUITS) -> str:
    """SPEC's tables of a circuit: its sizes, and its public inputs in their order."""
    described = next(one for one in circuits if one.noun == noun)
    table, language = described.table, Language(described)
    out = [
        f"What a class of `circuits/{noun}.circom` gives (no value stands there), and what follows from it:",
        *("", "| size | value | meaning |", "|---|---|---|"),
    ]
    out += [f"| `{size.name}` | | {size.meaning} |" for size in table.given]
    for size in table.derived:
        out.append(f"| `{size.name}` | `{language.show(described.expression(size))}` | {size.meaning} |")
    out += [
        *("", "Its public inputs in their order, arrays row by row; one of length 0 is left out:"),
        *("", "| public input | shape | meaning |", "|---|---|---|"),
    ]
    between = (Input("blind", "", "no constraint uses it"), Input("w", "N", "score of a slot; C_w holds them"))
    for one in (*table.clear, *between, *table.hints, *table.behind):
        shape = f"`{''.join(f'[{length}]' for length in one.lengths)}`".replace("2 ** ", "2^") if one.shape else ""
        out.append(f"| `{one.name}` | {shape} | {one.meaning} |")
    return "\n".join(out)


def circuit(described: Described) -> tuple[Path, str]:
    """The .circom file with its generated part made anew."""
    path = ROOT / "circuits" / f"{described.noun}.circom"
    text = path.read_text("utf-8")
    start, end = text.index(f"    var {described.table.derived[0].name} = "), text.index(SECRETS)
    return path, text[:start] + Circom(described).part() + text[end:]


def main() -> None:
    fresh = dict(circuit(one) for one in CIRCUITS)
    fresh |= {ROOT / "native" / "src" / one.noun / "layout.rs": Rust(one).file() for one in CIRCUITS}
    stale = [path for path, text in fresh.items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(fresh[path], "utf-8")
    elif stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"not what the kernel's tables of public inputs say, run python scripts/layout.py: {names}")


if __name__ == "__main__":
    main()
