# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a step says its evidence."""

from __future__ import annotations

from collections.abc import Callable

Recorder = Callable[..., None]  #: takes evidence as keyword arguments


def quiet(**_: object) -> None:
    """For callers that keep no evidence."""
