# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server lets strangers take of what it has only so much of: descriptors, connections, places and memory."""

from __future__ import annotations

import resource
from dataclasses import dataclass

SPARE_DESCRIPTORS = 256  #: that connections leave to the program's own files, pipes and connections


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one server."""

    calls: int = 2048  #: under way, of everybody
    calls_of_one: int = 256  #: under way, of one machine
    read: float = 30.0  #: seconds that a call waits for its next message
    send: float = 30.0  #: seconds until an answer is read, and
    slowest: int = 32 << 10  #: one more for so many of its bytes
    unread: int = 128 << 20  #: bytes of answers that nobody has read yet, of everybody
    unread_of_one: int = 16 << 20  #: the same of one machine
    small: int = 16 << 10  #: bytes of an answer that is not counted: there are only so many places for them
    connections: int = 16_384  #: at most; fewer where there are not so many descriptors
    handshake: float = 20.0  #: seconds that a new connection has to get as far as a first call
    idle: float = 60.0  #: seconds that a connection without calls stays

    @property
    def streams(self) -> int:
        """Calls of one machine beyond which it loses its busiest connection: those beyond its places are refused."""
        return 2 * self.calls_of_one

    def options(self, descriptors: int) -> list[tuple[str, int]]:
        """For gRPC, in a program that may have so many descriptors.

        A caller whose connection was closed for being idle gets a new one with its next call.
        """
        return [
            ("grpc.max_concurrent_streams", self.streams),  # of one connection
            ("grpc.max_allowed_incoming_connections", max(64, min(self.connections, descriptors - SPARE_DESCRIPTORS))),
            ("grpc.server_handshake_timeout_ms", int(self.handshake * 1000)),
            ("grpc.max_connection_idle_ms", int(self.idle * 1000)),
            ("grpc.keepalive_time_ms", 60_000),  # where a machine has gone without a word, its calls end too
            ("grpc.keepalive_timeout_ms", 30_000),
        ]


DEFAULT = Limits()


def raise_descriptors() -> int:
    """Let this program have as many descriptors as the system allows it; gives how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
