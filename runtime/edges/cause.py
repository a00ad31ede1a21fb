# SPDX-License-Identifier: GPL-3.0-or-later
"""What a probe found: for an error's sentence, and for a line of ``doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What is known after a look."""

    OK = "ok"
    WRONG = "wrong"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something failed."""

    said: str  #: what was looked at, and what was seen there
    way: str = ""  #: how to go on, as a command to the reader

    def __str__(self) -> str:
        return f"{self.said}: {self.way}" if self.way else self.said


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of ``doctor``."""

    probe: str  #: what was looked at, such as "disk"
    state: State
    said: str
    way: str = ""

    @classmethod
    def ok(cls, probe: str, said: str) -> Finding:
        return cls(probe, State.OK, said)

    @classmethod
    def wrong(cls, probe: str, cause: Cause) -> Finding:
        return cls(probe, State.WRONG, cause.said, cause.way)

    @classmethod
    def unchecked(cls, probe: str, said: str, way: str = "") -> Finding:
        return cls(probe, State.UNCHECKED, said, way)

    def values(self) -> dict[str, str]:
        """For JSON."""
        return {"probe": self.probe, "state": self.state.value, "found": self.said, "way_out": self.way}
