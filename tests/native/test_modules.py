# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of native/src import downwards only: no two of them need each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "native" / "src"


def modules(folder: Path) -> dict[str, str]:
    """Text by module: ``simd::fq`` of simd/fq.rs, ``simd`` of simd/mod.rs; without lib.rs, tests and comments."""
    found = {}
    for path in folder.rglob("*.rs"):
        name = "::".join(path.relative_to(folder).with_suffix("").parts).removesuffix("::mod")
        text = path.read_text().partition("#[cfg(test)]\nmod tests")[0]
        found[name] = re.sub(r"(?m)//.*$", "", text)
    return {name: text for name, text in found.items() if name not in ("lib", "vectors")}


def paths(text: str) -> Iterator[str]:
    """The paths that a text begins at the crate or at the module above, with braces resolved."""
    for found in re.finditer(r"\b(crate|super)(?=::)((?:::\w+)*)(?:::(\{[^;]*?\}))?(?=[^\w:])", text):
        head = found[1] + found[2]
        yield head
        if found[3]:
            yield from (f"{head}::{name}" for name in re.findall(r"\w+(?:::\w+)*", found[3]))


def imports(folder: Path) -> dict[str, set[str]]:
    """Module -> the modules that it names.  A folder's mod.rs and what is below it are apart; what is in it is not."""
    texts = modules(folder)
    graph: dict[str, set[str]] = {name: set() for name in texts}
    for name, text in texts.items():
        above = name.rpartition("::")[0]
        for path in paths(text):
            start, _, rest = path.partition("::")
            steps = [*(above.split("::") if start == "super" and above else []), *rest.split("::")]
            known = ("::".join(steps[:length]) for length in range(len(steps), 0, -1))
            target = next((one for one in known if one in texts), None)
            if target and target != name and not name.startswith(f"{target}::"):
                graph[name].add(target)
    return graph


def test_no_two_files_need_each_other() -> None:
    graph = imports(SOURCE)
    assert len(graph) > 40
    assert graph["poseidon"] >= {"poseidon_constants", "inner_product"}
    assert graph["simd::points"] >= {"point", "simd::vector"}
    list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("use crate::b::B;\n", "use crate::{a::A, c};\n"),
        ("fn f() { crate::b::f() }\n", "fn f() { super::a::f() }\n"),
        ("use crate::{\n    b::{B, C},\n};\n", "use crate::a;\n"),
    ],
)
def test_a_circle_is_found(one: str, other: str, tmp_path: Path) -> None:
    (tmp_path / "a.rs").write_text(one)
    (tmp_path / "b.rs").write_text(other)
    (tmp_path / "c.rs").write_text("// crate::a::A\n")
    with pytest.raises(CycleError):
        list(TopologicalSorter(imports(tmp_path)).static_order())
    (tmp_path / "b.rs").write_text("use crate::c;\n")
    assert list(TopologicalSorter(imports(tmp_path)).static_order()) == ["c", "b", "a"]
