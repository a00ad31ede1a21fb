# SPDX-License-Identifier: GPL-3.0-or-later
"""What the installed commands start: each program's ``main``, loaded where a Ctrl-C ends it without a traceback.

Loading takes half a second, in which Python itself would answer Ctrl-C with the line of whatever import it was in.
"""

from __future__ import annotations

import importlib
import sys

INTERRUPTED = 130  #: exit status after Ctrl-C, as shells have it


def _start(part: str) -> None:
    try:
        importlib.import_module(f"ragseal.{part}.__main__").main()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(INTERRUPTED)


def provider() -> None:
    """``ragseal-provider``."""
    _start("prover")


def verifier() -> None:
    """``ragseal-verifier``."""
    _start("verifier")


def observer() -> None:
    """``ragseal-observer``."""
    _start("ledger")


def client() -> None:
    """``ragseal-client``."""
    _start("client")
