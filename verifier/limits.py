# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may ask the auditor's service for audits, how often, and what is kept of them: each costs minutes to hours."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ragseal.kernel.errors import BudgetError, ConfigurationError
from ragseal.ledger.tls import is_loopback

REPORTS_KEPT = 64  #: newest reports of requested audits that stay on disk
REPORTS_DAYS = 90  #: and how long
CALLERS = 1024  #: callers whose calls are remembered; the one who was quiet longest goes first


def caller_of(context: Any) -> str:
    """Who calls, for limits: the machine, without its port."""
    peer = unquote(str(context.peer()))
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer


def check_caller(context: Any) -> None:
    """Audits are for this machine and for callers with a certificate of the authority that --tls-clients names.

    Raises:
        ConfigurationError: neither.
    """
    caller = caller_of(context)
    if not caller.startswith(("ipv4:", "ipv6:")) or is_loopback(caller[5:]):
        return
    auth: Mapping[str, Any] = context.auth_context()
    if auth.get("x509_common_name") or auth.get("x509_subject_alternative_name"):
        return
    raise ConfigurationError(
        "audits are asked for from the auditor's own machine, or with a client certificate: see --tls-clients of serve"
    )


class Limiter:
    """So many calls of one caller in a time, counted as a bucket that fills steadily."""

    def __init__(self, calls: int, seconds: float) -> None:
        self._calls, self._rate = calls, calls / seconds
        self._level: dict[str, tuple[float, float]] = {}  # caller -> (calls left, at)

    def take(self, caller: str, now: float) -> None:
        """One call of ``caller`` at ``now`` (seconds, monotone).

        Raises:
            BudgetError: too many; says when to come again.
        """
        left, at = self._level.pop(caller, (float(self._calls), now))
        left = min(float(self._calls), left + (now - at) * self._rate)
        while len(self._level) >= CALLERS:
            self._level.pop(next(iter(self._level)))
        self._level[caller] = (left if left < 1 else left - 1, now)
        if left < 1:
            raise BudgetError(f"too many calls: ask again in {(1 - left) / self._rate:.0f} s")


def prune(reports: Path, now: float, kept: int = REPORTS_KEPT, days: float = REPORTS_DAYS) -> None:
    """Remove the oldest reports until ``kept`` are left, none of them older than ``days``; ``now``: since 1970."""
    with contextlib.suppress(OSError):
        found = [(path.stat().st_mtime, path) for path in reports.iterdir() if path.is_dir()]
        for number, (at, path) in enumerate(sorted(found, reverse=True)):
            if number >= kept or now - at > days * 86_400:
                shutil.rmtree(path, ignore_errors=True)
