# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is at the other end of a connection, as gRPC names it, and how to be rid of them."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Collection
from urllib.parse import unquote

DESCRIPTORS = "/proc/self/fd"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_of(peer: str) -> Address | None:
    """The address of a peer ("ipv4:host:port", "ipv6:[host]:port"); None where it is none, as on a Unix socket."""
    found = _place(peer)
    return None if found is None else found[0]


def machine_of(peer: str) -> str:
    """Who calls, for limits: an IPv4 address, the /64 of an IPv6 one (one host has all of it), or what gRPC says."""
    address = address_of(peer)
    if address is None:
        return unquote(peer)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def end_connections(peers: Collection[str]) -> int:
    """Close the TCP connections of these peers, with all of their calls; how many were found.  Blocks for milliseconds.

    gRPC lets a Python server end neither a call whose answer is not read nor its connection, and keeps the answer in
    memory meanwhile.  So the sockets are looked for among this program's descriptors and shut down: gRPC then sees a
    caller that has gone.  Linux only; elsewhere, and on a Unix socket, nothing is found.
    """
    wanted = {place for place in map(_place, peers) if place is not None}
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(DESCRIPTORS)
    ended = 0
    for name in names:
        # a duplicate: the number itself may stand for another connection by the time that it is shut down
        with contextlib.suppress(OSError), _held(os.dup(int(name))) as held:
            if _remote(held) in wanted:
                held.shutdown(socket.SHUT_RDWR)
                ended += 1
    return ended


def _held(descriptor: int) -> socket.socket:
    """Of whatever it is: what is no TCP socket has no address to compare, and is closed as well."""
    return socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)


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
