# SPDX-License-Identifier: GPL-3.0-or-later
"""What an examination of a state folder looked at and found."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ragseal.kernel.errors import AuditError

MAX_FINDINGS = 100  #: that are listed; a lost database has one a record


@dataclass
class Report:
    """What was looked at, what is wrong, and what is merely worth knowing."""

    checked: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, what: str, number: int = 1) -> None:
        self.checked[what] = self.checked.get(what, 0) + number

    def found(self, problem: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(problem)
        else:
            self.count("further problems")

    @contextlib.contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """Whatever goes wrong in the block is a finding; the examination goes on."""
        try:
            yield
        except AuditError as error:
            self.found(f"{where}: {error}")
        except (OSError, sqlite3.Error) as error:
            self.found(f"{where}: cannot be read ({error})")

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": not self.findings,
            "findings": self.findings,
            "notes": self.notes,
            "checked": self.checked,
            "seconds": round(self.seconds, 2),
        }
