# SPDX-License-Identifier: GPL-3.0-or-later
"""An adapter whose framework is not installed says which extra brings it."""

from __future__ import annotations

import importlib
import sys

import pytest

FRAMEWORKS = {
    "langchain": ("langchain_core", "langchain"),
    "llama_index": ("llama_index", "llama-index"),
    "haystack": ("haystack", "haystack"),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_missing_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, extra = FRAMEWORKS[name]
    for module in list(sys.modules):
        if module.split(".")[0] == package or module == f"ragseal.client.adapters.{name}":
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'ragseal\[{extra}\]'"):
        importlib.import_module(f"ragseal.client.adapters.{name}")
