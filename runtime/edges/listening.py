# SPDX-License-Identifier: GPL-3.0-or-later
"""Listening on an address, and why that fails."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.cause import Cause
from ragseal.runtime.edges.filesystem import cause_of
from ragseal.runtime.edges.network import name_cause

LOW_PORTS = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
SECONDS = 1.0  #: for a look whether somebody takes connections


def listen(address: Address, backlog: int = 128) -> socket.socket:
    """A socket that listens.

    Raises:
        ConfigurationError: it cannot; says what was looked at.
    """
    try:
        return _bound(address, backlog)
    except OSError as error:
        raise cannot_listen(address, error) from None


def cannot_listen(address: Address, error: OSError | None, tls: bool = False) -> ConfigurationError:
    """The error of a listener that could not be had.

    Args:
        error: the system's; None where the library keeps it to itself, which is then asked for once more.
        tls: whether it was to show TLS files.
    """
    return ConfigurationError(f"cannot listen on {address}: {listening_cause(address, error, tls)}")


def listening_cause(address: Address, error: OSError | None, tls: bool = False) -> Cause:
    """Why nothing listens there."""
    error = error or trial(address)
    if error is None:
        if tls:
            said = "address and port are free, so it is the TLS files that gRPC does not take"
            return Cause(said, "see certificate and key with `doctor`, or `openssl x509 -text`")
        return Cause("it was refused, and is free now", "try again")
    if isinstance(error, socket.gaierror):
        return name_cause(error, address.host)
    if error.errno == errno.EADDRINUSE:
        return _taken(address)
    if error.errno == errno.EADDRNOTAVAIL:
        return Cause(f"no network interface of this machine has the address {address.host}",
                     "listen on one that `ip address` lists, on 127.0.0.1, or on 0.0.0.0 for all")  # fmt: skip
    if error.errno in (errno.EACCES, errno.EPERM) and not address.path:
        return _not_ours(address, error)
    if error.errno == errno.EAFNOSUPPORT:
        return Cause("this machine does not speak that kind of address", "use an address of IPv4")
    return cause_of(error, address.path or None)


def trial(address: Address) -> OSError | None:
    """What the system says to a listener there, which is gone again; None where it takes one."""
    try:
        _bound(address, 1).close()
        if address.path:
            os.unlink(address.path)
    except OSError as error:
        return error
    return None


def in_the_clear(address: Address, verb: str = "serve") -> ConfigurationError:
    """The error of an address of other machines that has no TLS; ``verb``: "serve" or "connect to"."""
    return ConfigurationError(
        f"will not {verb} {address} in the clear: give TLS files, use a loopback address, or say "
        + ("--listen-plain" if verb == "serve" else "--plain")
    )


def _taken(address: Address) -> Cause:
    if address.path:
        return Cause(f"the file {address.path} is there already", "end the program that listens there, or remove it")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    try:
        socket.create_connection((host, address.port), SECONDS).close()
    except OSError:
        said = "the port is taken, though nobody takes connections there: a program is just ending, or only holds it"
        return Cause(said, "try again in a minute, or choose another port")
    return Cause("the port is taken: a program takes connections there", "end that one, or choose another port")


def _not_ours(address: Address, error: OSError) -> Cause:
    try:
        first = int(LOW_PORTS.read_text("ascii"))
    except (OSError, ValueError):
        first = 1024
    if 0 < address.port < first:
        return Cause(f"ports below {first} are the administrator's on this machine", "choose a higher port")
    return Cause(
        f"this machine's rules forbid it ({os.strerror(error.errno or 0)})", "see what its sandbox or firewall allows"
    )


def _bound(address: Address, backlog: int) -> socket.socket:
    if address.path:
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(address.path)
            listener.listen(backlog)
        except BaseException:
            listener.close()
            raise
        return listener
    socket.getaddrinfo(address.host, address.port, address.family, socket.SOCK_STREAM)  # its own error for names
    return socket.create_server((address.host, address.port), family=address.family, backlog=backlog)
