# SPDX-License-Identifier: GPL-3.0-or-later
"""One mutant: its tests run in a child process that gets the changed module from memory; no file is touched."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

KILLED, TIMEOUT, SURVIVED = "killed", "timeout", "survived"


class _Loader(importlib.machinery.SourceFileLoader):
    code: CodeType

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class _Finder(importlib.abc.MetaPathFinder):
    """Hands out the changed module under its own name."""

    def __init__(self, name: str, code: CodeType) -> None:
        self.name, self.code, self.used = name, code, False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.code = self.code
        spec.loader = loader
        self.used = True
        return spec


class _First:
    """Remembers the first test that failed."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = f"import of {report.nodeid}"


def _child(module: str, code: CodeType | None, tests: Sequence[str], out: int) -> None:
    """Run the tests in this (forked) process, say the outcome, and end it."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    import pytest

    finder = _Finder(module, code) if code is not None else None
    if finder is not None:
        sys.meta_path.insert(0, finder)
    first = _First()
    status = 3
    try:
        for test in tests:  # one by one: most mutants end with the first file, and no other need be imported
            status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--tb=no", test], plugins=[first]))
            if status:
                break
        if finder is not None and not finder.used:
            status, first.name = 100, "the changed module was never imported"
    finally:
        os.write(out, json.dumps([status, first.name]).encode())
        os._exit(0)


def attempt(module: str, code: CodeType | None, tests: Sequence[str], limit: float) -> tuple[str, str, float]:
    """(killed, survived or timeout; the test that failed; seconds)."""
    begun = time.monotonic()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _child(module, code, tests, write)
    os.close(write)
    said = b""
    if select.select([read], [], [], limit)[0]:
        said = os.read(read, 1 << 16)
    os.close(read)
    for end in (os.killpg, os.kill):
        try:
            end(child, signal.SIGKILL)
            break
        except ProcessLookupError:
            continue
    os.waitpid(child, 0)
    seconds = time.monotonic() - begun
    if not said:
        return (TIMEOUT if seconds >= limit else KILLED), "the process ended", seconds
    status, name = json.loads(said)
    if status == 100:
        raise RuntimeError(f"{module}: {name}")
    return (SURVIVED if status == 0 else KILLED), name or f"status {status}", seconds
