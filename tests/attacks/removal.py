# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to take exactly one check away from running code.

:class:`Check` puts something else where a function is looked up.  :class:`Guard` is for a check that is one statement
of a function: it compiles that function again without the ``raise`` (or return, or call) whose source holds a text, and
puts it wherever ragseal's modules hold the original.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

_SOURCE = "source_after_removal"  #: of a function that a guard was taken from: another may follow


class Removable(Protocol):
    """A check that can be taken away."""

    def remove(self, patch: pytest.MonkeyPatch) -> None: ...


def nothing(*_: Any, **__: Any) -> None:
    """A check that holds of anything."""


async def no_wait(*_: Any, **__: Any) -> None:
    """As :func:`nothing`, for a check that is awaited."""


@dataclass(frozen=True)
class Check:
    """Where a check is looked up, and what stands for it once it is gone."""

    module: Any
    name: str
    instead: Callable[..., Any] = nothing

    def remove(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(self.module, self.name, self.instead)


class _Cut(ast.NodeTransformer):
    """Replaces the statements that raise, return or call, and whose source holds a text, by ``pass``."""

    def __init__(self, text: str) -> None:
        self.text, self.cut = text, 0

    def _visit(self, node: ast.stmt) -> ast.stmt:
        if self.text not in ast.unparse(node):
            return node
        self.cut += 1
        return ast.copy_location(ast.Pass(), node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        return self._visit(node)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        return self._visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        return self._visit(node)


@dataclass(frozen=True)
class Guard:
    """The one statement of ``owner.name`` whose source holds ``text``; ``owner`` is a module or a class."""

    owner: Any
    name: str
    text: str

    def remove(self, patch: pytest.MonkeyPatch) -> None:
        original = getattr(self.owner, self.name)
        function = inspect.unwrap(getattr(original, "__func__", original))
        earlier = getattr(function, _SOURCE, None)
        source = earlier or textwrap.dedent(inspect.getsource(function))
        tree, cut = ast.parse(source), _Cut(self.text)
        tree = ast.fix_missing_locations(cut.visit(tree))
        assert cut.cut == 1 or (cut.cut == 0 and earlier), f"{self.name} has {cut.cut} statements with {self.text!r}"
        made: dict[str, Any] = {}
        exec(compile(tree, f"<{self.name} without {self.text!r}>", "exec"), function.__globals__, made)
        setattr(inspect.unwrap(getattr(made[self.name], "__func__", made[self.name])), _SOURCE, ast.unparse(tree))
        if inspect.isclass(self.owner):
            patch.setattr(self.owner, self.name, made[self.name])
            return
        for module in [m for name, m in sys.modules.items() if name.startswith("ragseal.")]:
            if module.__dict__.get(self.name) is original:
                patch.setattr(module, self.name, made[self.name])


@dataclass(frozen=True)
class Both:
    """One rule that is enforced in several places."""

    parts: tuple[Removable, ...]

    def remove(self, patch: pytest.MonkeyPatch) -> None:
        for part in self.parts:
            part.remove(patch)
