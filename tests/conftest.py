# SPDX-License-Identifier: GPL-3.0-or-later
"""What every test shares: Python's own recursion limit, which py_ecc lifts when it is imported; ``--no-skips``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

os.environ.setdefault("RAGSEAL_BUILD", str(Path(__file__).resolve().parent.parent / "var" / "build"))

Report = TypeVar("Report", pytest.CollectReport, pytest.TestReport)
_LIMIT = sys.getrecursionlimit()
with contextlib.suppress(ImportError):
    import py_ecc.optimized_bn128  # noqa: F401 - its import changes the limit
sys.setrecursionlimit(_LIMIT)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails: everything needed must be there")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _no_skip(collector.config, report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _no_skip(item.config, report)


def _no_skip(config: pytest.Config, report: Report) -> Report:
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption("--no-skips"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which --no-skips forbids: {report.longrepr}"
    return report
