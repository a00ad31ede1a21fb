# SPDX-License-Identifier: GPL-3.0-or-later
"""Proxies of the environment: none for what stays on this machine or goes in the clear.

A variable such as http_proxy moves a connection to another machine after the program has judged it by its address.  So
channels to loopback and to Unix sockets, and all in the clear, go straight to their address.  Encrypted ones to other
machines may take a proxy, which then carries bytes that it cannot read; errors name it.  SPEC G.7.12.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.cause import Finding

#: That gRPC reads, in its order; and hosts for which it takes none.
VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")
EXCEPTIONS = ("no_grpc_proxy", "no_proxy")
#: That other libraries read.
ALL_VARIABLES = (*VARIABLES, "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

#: Options of a channel that takes no proxy at all, and of one that takes those by name alone: gRPC has a second kind,
#: GRPC_ADDRESS_HTTP_PROXY, which the first option leaves in force.  Here it has an address that gRPC can read (of an
#: empty one it says on standard error that it cannot), and no address that would go there.
NOT_BY_ADDRESS = (("grpc.address_http_proxy", "127.0.0.1:9"), ("grpc.address_http_proxy_enabled_addresses", ""))
DIRECT = (("grpc.enable_http_proxy", 0), *NOT_BY_ADDRESS)

_PASSWORD = re.compile(r"(?<=://)[^/]*@")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that the environment names."""

    variable: str
    url: str

    @property
    def taken(self) -> bool:
        """Whether gRPC takes it: of any other form than ``http://HOST:PORT`` it takes none, and says so to nobody."""
        scheme, _, rest = self.url.partition("://")
        return scheme.lower() == "http" and bool(rest.partition("/")[0])

    @property
    def place(self) -> tuple[str, int] | None:
        """Host and port; None where the URL has none."""
        try:
            found = urlsplit(self.url if "://" in self.url else f"http://{self.url}")
            return (found.hostname, found.port or 80) if found.hostname else None
        except ValueError:
            return None

    def __str__(self) -> str:
        shown = _PASSWORD.sub("***@", self.url if "://" in self.url else f"http://{self.url}")
        return f"the proxy {shown} of the environment ({self.variable})"


def proxy_for(address: Address, encrypted: bool) -> Proxy | None:
    """The proxy that a gRPC channel of this program takes to an address, if any."""
    if address.loopback or not encrypted:
        return None
    found = _named()
    if found is None or not found.taken:
        return None
    without = next((os.environ[name] for name in EXCEPTIONS if name in os.environ), "")
    if any(_covers(entry.strip().lower(), address.host) for entry in without.split(",") if entry.strip()):
        return None
    return found


def _named() -> Proxy | None:
    """What gRPC looks at: the first variable that is set.  An empty one hides those behind it."""
    variable = next((name for name in VARIABLES if name in os.environ), None)
    return Proxy(variable, os.environ[variable]) if variable is not None and os.environ[variable] else None


def options(address: Address, encrypted: bool) -> tuple[tuple[str, int | str], ...]:
    """Options of a gRPC channel to an address."""
    return NOT_BY_ADDRESS if encrypted and not address.loopback else DIRECT


def go_straight_to(host: str) -> None:
    """No library of this process, or of one that it starts, takes a proxy to a host from now on.

    For clients of databases, which read the environment and offer no option.
    """
    for name in ("no_proxy", "NO_PROXY", *(one for one in EXCEPTIONS if os.environ.get(one))):
        known = [entry for entry in os.environ.get(name, "").split(",") if entry.strip()]
        if host not in (entry.strip() for entry in known):
            os.environ[name] = ",".join([*known, host])


def go_straight_in_the_clear(url: str) -> None:
    """:func:`go_straight_to` the host of a URL that is not https, or that is this machine.

    Raises:
        ConfigurationError: it names a host or port in a form that another reader may take for something else.
    """
    try:
        found = urlsplit(url)
        host, port = found.hostname or "", found.port
    except ValueError:
        raise ConfigurationError(f"{_PASSWORD.sub('***@', url)[:100]!r} is not a URL with a host and a port") from None
    if not host:
        return
    address = Address.of_url(host, 1 if port is None else port)
    if found.scheme != "https" or address.loopback:
        go_straight_to(host)


def set_in_environment() -> list[Proxy]:
    """Every proxy that the environment names."""
    return [Proxy(name, os.environ[name]) for name in ALL_VARIABLES if os.environ.get(name)]


def proxies() -> Finding:
    """What the environment names, and for what this program takes it."""
    found = set_in_environment()
    if not found:
        return Finding.ok("proxy", "the environment names none")
    named = "; ".join(map(str, found))
    said = f"{named}: taken for encrypted channels to other machines only"
    first = _named()
    if first is not None and not first.taken:
        said += f"; {first.variable} is no http://HOST:PORT, so gRPC takes none"
    return Finding.ok("proxy", said)


def _covers(entry: str, host: str) -> bool:
    """As gRPC reads an exception: a name with all below it, or a range of addresses."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return f".{host}".endswith(f".{entry.removeprefix('.')}")
