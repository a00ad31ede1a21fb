# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is at the other end of a connection, as gRPC names it, and how to be rid of them."""

from __future__ import annotations

import ipaddress
import os
import resource
import socket
from collections.abc import Collection, Iterable
from functools import lru_cache
from urllib.parse import unquote

DESCRIPTORS = "/proc/self/fd"
MOST = 1 << 20  #: numbers that are tried where descriptors cannot be listed

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_of(peer: str) -> Address | None:
    """The address of a peer ("ipv4:host:port", "ipv6:[host]:port"); None where it is none, as on a Unix socket."""
    found = _place(peer)
    return None if found is None else found[0]


@lru_cache(maxsize=1024)
def machine_of(peer: str) -> str:
    """Who calls, for limits: an IPv4 address, the /64 of an IPv6 one (one host has all of it), or what gRPC says."""
    address = address_of(peer)
    if address is None:
        return unquote(peer)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def end_connections(peers: Collection[str]) -> int:
    """Close the TCP connections of these peers, with all of their calls; how many were found.

    Blocks for milliseconds; where no descriptor is free, for about 5 us for each number that there may be.

    gRPC lets a Python server end neither a call whose answer is not read nor its connection, and keeps the answer in
    memory meanwhile.  So the sockets are looked for among this program's descriptors and shut down: gRPC then sees a
    caller that has gone.  On a Unix socket nothing is found.

    No descriptor is duplicated, and none is closed: where a process closes any descriptor of a database's file, the
    system drops all of its locks on that file, and another process may destroy it.  So a number that stands for a new
    connection by the time that its peer was compared costs that connection's caller another attempt, and no more.
    """
    wanted = {place for place in map(_place, peers) if place is not None}
    return sum(_shut_down(number, wanted) for number in _descriptors())


def _descriptors() -> Iterable[int]:
    """Of this program.  To list them takes a free one; where there is none, every number may be one."""
    try:
        return [int(name) for name in os.listdir(DESCRIPTORS)]
    except OSError:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return range(MOST if soft == resource.RLIM_INFINITY else min(soft, MOST))


def _shut_down(descriptor: int, wanted: Collection[tuple[Address, int]]) -> bool:
    """Whether it was a connection with one of these."""
    try:
        seen = socket.socket(fileno=descriptor)  # the same descriptor, for as long as it takes; OSError: no socket
    except OSError:
        return False
    try:
        if _remote(seen) not in wanted:
            return False
        seen.shutdown(socket.SHUT_RDWR)
        return True
    except OSError:  # not connected, or closed by now
        return False
    finally:
        seen.detach()  # it is gRPC's, who closes it


def _remote(held: socket.socket) -> tuple[Address, int] | None:
    found = held.getpeername()
    try:
        return (_plain(str(found[0])), int(found[1])) if isinstance(found, tuple) else None
    except ValueError:
        return None


def _place(peer: str) -> tuple[Address, int] | None:
    kind, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    try:
        return _plain(host.removeprefix("[").removesuffix("]")), int(port)
    except ValueError:
        return None


def _plain(host: str) -> Address:
    """An address without its scope; an IPv4 one that is written as IPv6 is itself.  Raises ValueError."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
