# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a step says its evidence."""

from __future__ import annotations

from collections.abc import Callable

Recorder = Callable[..., None]  #: takes evidence as keyword arguments


def quiet(**_: object) -> None:
    """For callers that keep no evidence."""


def of_claim(say: Recorder, claim: str) -> Recorder:
    """Names of evidence say which of a window's claims it is about."""
    return lambda **said: say(**{f"{name}[{claim}]": value for name, value in said.items()})
