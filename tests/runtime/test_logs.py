# SPDX-License-Identifier: GPL-3.0-or-later
"""A log for machines: one object a line, whatever was logged, and nothing that an unforeseen error quotes."""

from __future__ import annotations

import json
import logging
import re
import sys

from ragseal.runtime.logs import DEEPEST, JsonFormatter


def record_of(message: str, *arguments: object, failed: bool = False) -> logging.LogRecord:
    trouble = sys.exc_info() if failed else None
    return logging.LogRecord("ragseal.x", logging.WARNING, __file__, 1, message, arguments, trouble)


def test_a_record_is_one_line_whatever_it_says() -> None:
    line = JsonFormatter().format(record_of("two\nlines \x1b[2J \u202e %s", "é"))
    assert line.isascii()
    assert line.isprintable()
    values = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", values.pop("time"))  # seconds: no finer than the plain log
    assert values == {"level": "warning", "logger": "ragseal.x", "message": "two\nlines \x1b[2J \u202e é"}


def test_an_error_is_told_by_type_and_place_never_by_its_words() -> None:
    def deep(left: int) -> None:
        if left:
            return deep(left - 1)
        raise KeyError("a secret query")

    try:
        try:
            deep(50)
        except KeyError as error:
            raise ValueError("alice's key") from error
    except ValueError:
        line = JsonFormatter().format(record_of("a call failed", failed=True))
    assert "secret" not in line
    assert "alice" not in line
    found = json.loads(line)["exception"]
    assert found["type"] == "ValueError"
    assert len(found["at"]) <= DEEPEST
    assert re.fullmatch(r"runtime/test_logs\.py:\d+ test_an_error_is_told_by_type_and_place_never_by_its_words",
                        found["at"][-1])  # fmt: skip
