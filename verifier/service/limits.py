# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may ask the auditor's service for audits, how often, and what is kept of them: each costs minutes to hours."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.peers import address_of

REPORTS_KEPT = 64  #: newest reports of requested audits that stay on disk
REPORTS_DAYS = 90  #: and how long


def check_caller(context: Any) -> None:
    """Audits are for this machine and for callers with a certificate of the authority that --tls-clients names.

    Raises:
        ConfigurationError: neither.
    """
    peer = str(context.peer())
    address = address_of(peer)
    if address.is_loopback if address is not None else not peer.startswith(("ipv4:", "ipv6:")):
        return
    auth: Mapping[str, Any] = context.auth_context()
    if auth.get("x509_common_name") or auth.get("x509_subject_alternative_name"):
        return
    raise ConfigurationError(
        "audits are asked for from the auditor's own machine, or with a client certificate: see --tls-clients of serve"
    )


def prune(reports: Path, now: float, kept: int = REPORTS_KEPT, days: float = REPORTS_DAYS) -> None:
    """Remove the oldest reports until ``kept`` are left, none of them older than ``days``; ``now``: since 1970."""
    with contextlib.suppress(OSError):
        found = [(path.stat().st_mtime, path) for path in reports.iterdir() if path.is_dir()]
        for number, (at, path) in enumerate(sorted(found, reverse=True)):
            if number >= kept or now - at > days * 86_400:
                shutil.rmtree(path, ignore_errors=True)
