# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a program that serves: lines for people, or one JSON object a line for machines that collect them.

An error that nobody foresaw may quote what it was computing on, a query or a text.  As JSON, which leaves the machine,
it is told by its type and by where it happened, never by its words.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from pathlib import PurePath
from types import TracebackType
from typing import Any

from ragseal.runtime.terminal import stderr_console

PLAIN, AS_JSON = "plain", "json"
FORMATS = (PLAIN, AS_JSON)
DEEPEST = 16  #: places of an error that are told, the innermost last


def log_to_stderr(form: str = PLAIN) -> None:
    """Logging of a program that serves: one line a message with date and time, UTC, as ISO 8601 has them.

    A terminal gets colours and lines that fit; a file gets each message whole, however long.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    formatter: logging.Formatter
    if form == AS_JSON:
        formatter = JsonFormatter()
    elif sys.stderr.isatty():
        from rich.logging import RichHandler

        handler = RichHandler(console=stderr_console(), show_path=False, log_time_format="[%Y-%m-%d %H:%M:%S]")
        formatter = logging.Formatter("%(message)s")
    else:
        formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class JsonFormatter(logging.Formatter):
    """A record as one object: time (UTC, seconds), level, logger, message; of an exception its type and its places."""

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            values["exception"] = {"type": kind.__name__, "at": _places(trace)}
        return json.dumps(values)


def _places(trace: TracebackType | None) -> list[str]:
    """File, line and function of an exception, without the source's words."""
    frames = traceback.extract_tb(trace)[-DEEPEST:]
    return [f"{'/'.join(PurePath(one.filename).parts[-2:])}:{one.lineno} {one.name}" for one in frames]
