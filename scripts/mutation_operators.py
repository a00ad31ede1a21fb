# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutants of one source file: every way in which one small part of it could be wrong.

A mutant is a changed syntax tree, never a changed file.  Left alone are docstrings, annotations, decorators, what is
raised (its words are for people) and f-strings.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

#: Calls that hash or sign: each of their arguments, and each entry of the lists made for them, is left out once.
HASHES = {
    "tagged_hash", "tagged_element", "nonzero_element", "challenge", "batching_challenge", "sha256", "sha512", "update",
    "sign", "verify", "new", "derived_scalar", "advance",
}  # fmt: skip

#: An order moves by one; an equality turns.  (The opposite of an order is what a turned condition tries.)
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
REPLACED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.Pow: ast.Mult,
}
RENAMED = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """One change: where, what it was and what it is."""

    line: int
    scope: str  #: class and function
    was: str
    becomes: str
    number: int  #: of several alike in one scope
    check: bool  #: a check, a call or a hashed part is at stake, not only a number
    tree: Callable[[], ast.Module]

    @property
    def key(self) -> str:
        """What names the mutant, whatever line it stands on."""
        again = f" ({self.number})" if self.number > 1 else ""
        return f"{self.scope}: {self.was} -> {self.becomes}{again}"


Place = tuple[ast.AST, str, int | None]  #: parent, field, index in a list


def _text(node: ast.AST) -> str:
    words = " ".join(ast.unparse(node).split())
    return words if len(words) <= 90 else f"{words[:60]} .. {words[-25:]}"


def _noop(node: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Pass(), node)


def _like(node: ast.expr, text: str) -> ast.expr:
    return ast.copy_location(ast.parse(text, mode="eval").body, node)


class _Finder:
    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.found: list[tuple[Place, ast.AST, str, str, str, bool]] = []
        self.scope: list[str] = []
        self.hashing = False

    # --- walking ---

    def walk(self, node: ast.AST) -> None:
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return  # of zip: a second line of defence where lengths were checked
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params") or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(value, list):
                for at, one in enumerate(value):
                    if isinstance(one, ast.AST):
                        self.visit(one, (node, name, at))
            elif isinstance(value, ast.AST):
                self.visit(value, (node, name, None))

    def visit(self, node: ast.AST, place: Place) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name in ("__repr__", "details"):
                return
            outer = self.hashing
            if not isinstance(node, ast.ClassDef):
                self.hashing = any(_called(one) in HASHES for one in ast.walk(node))
            self.scope.append(node.name)
            self.walk(node)
            self.scope.pop()
            self.hashing = outer
            return
        for new in self.changes(node):
            self.add(node, place, new)
        if isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom)):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        self.walk(node)

    def add(self, node: ast.AST, place: Place, new: ast.AST) -> None:
        becomes = "nothing" if isinstance(new, ast.Pass) else _text(new)
        check = not isinstance(node, (ast.Constant, ast.BinOp, ast.AugAssign, ast.UnaryOp))
        self.found.append((place, new, ".".join(self.scope) or "module", _text(node), becomes, check))

    # --- what may become of a node ---

    def changes(self, node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, ast.stmt):
            yield from self.statements(node)
        elif isinstance(node, ast.comprehension):
            for at in range(len(node.ifs)):
                new = copy.deepcopy(node)
                del new.ifs[at]
                yield new
        elif isinstance(node, ast.expr):
            yield from self.expressions(node)

    def statements(self, node: ast.stmt) -> Iterator[ast.AST]:
        match node:
            case ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
                yield _noop(node)
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield _noop(node)
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield _noop(node)
            case ast.If(test=test, body=[first, *_]) if not isinstance(first, ast.Raise):
                new = copy.deepcopy(node)
                new.test = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
                yield new
            case ast.While(test=test):
                new_while = copy.deepcopy(node)
                new_while.test = _like(test, "False")
                yield new_while
            case ast.For(iter=held):
                new_for = copy.deepcopy(node)
                new_for.iter = _like(held, "()")
                yield new_for

    def expressions(self, node: ast.expr) -> Iterator[ast.AST]:
        match node:
            case ast.Compare(ops=ops):
                for at, op in enumerate(ops):
                    new = copy.deepcopy(node)
                    new.ops[at] = COMPARED[type(op)]()
                    yield new
            case ast.BoolOp(op=op, values=values):
                for at in range(len(values)):
                    rest = [copy.deepcopy(one) for i, one in enumerate(values) if i != at]
                    yield rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(op, rest), node)
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                yield copy.deepcopy(operand)
            case ast.BinOp(op=ast.Mod(), left=left) if not isinstance(left, ast.Constant):
                yield copy.deepcopy(left)
            case ast.BinOp(op=op) if type(op) in REPLACED:
                new_bin = copy.deepcopy(node)
                new_bin.op = REPLACED[type(op)]()
                yield new_bin
            case ast.IfExp(test=test):
                new_if = copy.deepcopy(node)
                new_if.test = ast.copy_location(ast.UnaryOp(ast.Not(), copy.deepcopy(test)), test)
                yield new_if
            case ast.Constant(value=bool(value)):
                yield ast.copy_location(ast.Constant(not value), node)
            case ast.Constant(value=int(value)):
                yield ast.copy_location(ast.Constant(value + 1 if value != 1 else 0), node)
            case ast.Constant(value=bytes(value)) if value:
                yield ast.copy_location(ast.Constant(bytes([value[0] ^ 1]) + value[1:]), node)
            case ast.Constant(value=str(value)) if value in ("big", "little"):
                yield ast.copy_location(ast.Constant("little" if value == "big" else "big"), node)
            case ast.Call():
                yield from self.calls(node)
            case ast.Tuple(elts=elts) | ast.List(elts=elts) if self.hashing and isinstance(node.ctx, ast.Load):
                for at in range(len(elts)):
                    if len(elts) > 1:
                        new_list = copy.deepcopy(node)
                        del new_list.elts[at]
                        yield new_list

    def calls(self, node: ast.Call) -> Iterator[ast.AST]:
        name = _called(node)
        if isinstance(node.func, ast.Name) and name in RENAMED:
            new = copy.deepcopy(node)
            assert isinstance(new.func, ast.Name)
            new.func.id = RENAMED[name]
            yield new
        if name in HASHES:
            for at, argument in enumerate(node.args):
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    new = copy.deepcopy(node)
                    new.args[at] = ast.copy_location(ast.Constant(argument.value + "!"), argument)
                    yield new
                elif len(node.args) > 1:
                    new = copy.deepcopy(node)
                    del new.args[at]
                    yield new


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def mutants(source: str) -> list[Mutant]:
    """All mutants of a source text, by line."""
    tree = ast.parse(source)
    finder = _Finder(tree)
    finder.walk(tree)
    numbers: dict[tuple[str, str, str], int] = {}
    made = []
    for place, new, scope, was, becomes, check in finder.found:
        same = (scope, was, becomes)
        numbers[same] = numbers.get(same, 0) + 1
        parent, name, at = place
        old: Any = getattr(parent, name)
        line = getattr(old if at is None else old[at], "lineno", getattr(parent, "lineno", 0))
        made.append(
            Mutant(
                line=line,
                scope=scope,
                was=was,
                becomes=becomes,
                number=numbers[same],
                check=check,
                tree=_applied(tree, place, new),
            )
        )
    return made


def _applied(tree: ast.Module, place: Place, new: ast.AST) -> Callable[[], ast.Module]:
    parent, name, at = place

    def apply() -> ast.Module:
        """A copy of the tree in which the one node is another."""
        held = getattr(parent, name)
        if at is None:
            setattr(parent, name, new)
        else:
            before, held[at] = held[at], new
        try:
            return ast.fix_missing_locations(copy.deepcopy(tree))
        finally:
            if at is None:
                setattr(parent, name, held)
            else:
                held[at] = before

    return apply
