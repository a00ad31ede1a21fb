# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a name has no address, or an address takes no connection: errno by errno."""

from __future__ import annotations

import errno
import socket

from ragseal.runtime.edges.cause import Cause
from ragseal.runtime.edges.filesystem import cause_of

_UNKNOWN = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


def network_cause(error: OSError, host: str, port: int, seconds: float | None = None) -> Cause:
    """Why no connection to ``host`` and ``port`` came about, or why it ended.

    Args:
        host: the name that was looked up, or the IP address that was tried.
        seconds: how long was waited, for what ended by that.
    """
    if isinstance(error, socket.gaierror):
        return name_cause(error, host)
    if isinstance(error, TimeoutError) and error.errno is None:
        waited = "" if seconds is None else f" within {seconds:g} s"
        return Cause(f"{host} gives no answer on port {port}{waited}", _FIREWALL)
    found = _CAUSES.get(error.errno or 0)
    if found is None:
        return cause_of(error)
    said, way = found
    return Cause(f"{said.format(host=host, port=port)} ({error.strerror})", way)


def name_cause(error: socket.gaierror, name: str) -> Cause:
    """Why a look-up gave no address."""
    if error.errno in _UNKNOWN:
        return Cause(f"the name service knows no address of {name}", "check its spelling, or give an IP address")
    if error.errno == socket.EAI_AGAIN:
        return Cause(f"the name service gives no answer for {name}", "check /etc/resolv.conf and the network")
    return Cause(f"looking up {name} failed ({error.strerror})", "check its spelling, or give an IP address")


_FIREWALL = "see whether that machine is up, and whether a firewall between drops packets"
_ROUTE = "check this machine's network and routes, or use another address"

_CAUSES = {
    errno.ECONNREFUSED: (
        "nothing listens on port {port} of {host}",
        "start the program there, or give the address that it printed",
    ),
    errno.ETIMEDOUT: ("{host} gives no answer on port {port}", _FIREWALL),
    errno.EHOSTUNREACH: ("no way leads to {host}", "see whether that machine is up; " + _ROUTE),
    errno.EHOSTDOWN: ("{host} is down", "start that machine"),
    errno.ENETUNREACH: ("this machine has no route to the network of {host}", _ROUTE),
    errno.ENETDOWN: ("this machine's network is down", _ROUTE),
    errno.ECONNRESET: (
        "{host} took the connection on port {port} and broke it off",
        "see its log, and whether this is the program's port; try again",
    ),
    errno.ECONNABORTED: ("the connection to port {port} of {host} was broken off here", "try again"),
    errno.EPIPE: ("{host} closed the connection on port {port}", "see its log; try again"),
    errno.EADDRNOTAVAIL: (
        "this machine has no address or free port from which to call {host}",
        "see its network interfaces, and how many connections are open",
    ),
    errno.EAFNOSUPPORT: ("this machine does not speak the kind of address that {host} is", "use an address of IPv4"),
    errno.EACCES: (
        "this machine's rules forbid connections to {host}",
        "see its firewall, and what its sandbox allows",
    ),
    errno.EPERM: ("this machine's rules forbid connections to {host}", "see its firewall, and what its sandbox allows"),
    errno.EINVAL: ("{host} cannot be called from here", "give an address with a route to it"),
}
