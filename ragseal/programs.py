# SPDX-License-Identifier: GPL-3.0-or-later
"""What the installed commands start: each program's ``main``, loaded where a Ctrl-C ends it without a traceback.

Loading takes half a second, in which Python itself would answer Ctrl-C with the line of whatever import it was in.
"""

from __future__ import annotations

import gc
import importlib
import sys

from ragseal.runtime.streams import guarded

#: The part of each installed command.
PROGRAMS = {
    "ragseal": "demo",
    "ragseal-provider": "prover",
    "ragseal-verifier": "verifier",
    "ragseal-observer": "ledger",
    "ragseal-client": "client",
}
INTERRUPTED = 130  #: exit status after Ctrl-C, as shells have it
EXTRAS = {"prover": "provider", "verifier": "verifier", "demo": "provider,verifier,embedder"}  #: extras of the distribution by part


def _start(part: str) -> None:
    with guarded():
        _run(part)


def _run(part: str) -> None:
    try:
        main = importlib.import_module(f"ragseal.{part}.__main__").main
        gc.freeze()  # what is loaded lives until the end: no collection, nor the last one, walks through it
        main()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "ragseal":
            raise
        extra = f"[{EXTRAS[part]}]" if part in EXTRAS else ""
        sys.exit(f"the Python package of module {error.name} is not installed: pip install 'ragseal{extra}'")


def trial() -> None:
    """``ragseal``."""
    _start("demo")


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
