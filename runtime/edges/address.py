# SPDX-License-Identifier: GPL-3.0-or-later
"""The one parser of addresses: ``host:port``, ``[IPv6]:port``, ``unix:path``.

What is judged here is what is used: the text that libraries get is made from the same parts as
:attr:`Address.loopback`, so none of them reads another address out of it than the check did.  SPEC G.7.13.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import quote

from ragseal.kernel.errors import ConfigurationError

LONGEST = 300  #: characters of an address: a name has 253, and a Unix socket's path fewer
LONGEST_PATH = 107  #: bytes of a Unix socket's path (sun_path)

Refuse = Callable[[str], ConfigurationError]

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")  #: as a last label it makes a name an IPv4 address to some resolvers
_ZONE = "an address with a zone (%) is of one machine's link: use an address of another kind, or a name"
_FORM = "expected host:port, such as 127.0.0.1:7800, or [::1]:7800"


@dataclass(frozen=True, slots=True)
class Address:
    """One address.  ``str()`` gives the text back, in its one form."""

    host: str  #: lower case, an IPv6 address without brackets; empty for a Unix socket
    port: int  #: 0: any free one, where it is listened on
    path: str = ""  #: of a Unix socket

    @classmethod
    def parse(cls, text: str, *, listening: bool = False, unix: bool = True) -> Address:
        """Take an address apart.

        Args:
            listening: it is one to listen on, where port 0 and the addresses of a whole machine have a meaning.
            unix: whether the caller knows what to do with a Unix socket.

        Raises:
            ConfigurationError: it has another form; says what is wrong with it.
        """

        def refuse(why: str) -> ConfigurationError:
            return ConfigurationError(f"{text[:LONGEST]!r} is not an address: {why}")

        if text != text.strip() or not text.isprintable():
            raise refuse("it holds a blank or a control character at its beginning or end")
        if text.lower().startswith(("unix:", "unix-abstract:")):
            if not unix:
                raise refuse(f"a Unix socket cannot be used here; {_FORM}")
            return cls("", 0, _socket_path(text, refuse))
        if len(text) > LONGEST:
            raise refuse(f"it has more than {LONGEST} characters")
        if "://" in text:
            scheme, _, rest = text.partition("://")
            place = rest.partition("/")[0]
            raise refuse(f"leave out {scheme}://, and write {place if ':' in place else 'host:port'}")
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            raise refuse(f"it has no port; {_FORM}")
        if "/" in port or "?" in port or "#" in port:
            raise refuse("leave out what follows the port")
        if not host:
            raise refuse(f"it has no host; {_FORM}")
        if not host.startswith("[") and (bare := _as_ipv6(host) or _as_ipv6(text)):
            if "%" in bare:
                raise refuse(_ZONE)
            raise refuse(f"an IPv6 address stands in brackets, such as [{bare}]:7800")
        if not host.startswith("[") and ":" in host:
            raise refuse(f"there is one colon, between host and port; {_FORM}")
        if not port.isascii() or not port.isdigit() or str(int(port)) != port or int(port) > 65535:
            raise refuse(f"the port {port[:20]!r} is not a number from {0 if listening else 1} to 65535")
        if int(port) == 0 and not listening:
            raise refuse("port 0 stands for any free port, and can only be listened on; name the port that it took")
        found = cls(_host(host, refuse), int(port))
        if not listening and _of_all(found.host):
            own = "[::1]" if found.host == "::" else "127.0.0.1"
            raise refuse(
                f"it stands for every address of a machine, and can only be listened on; this machine is {own}:{port}"
            )
        return found

    @classmethod
    def of_url(cls, host: str, port: int) -> Address:
        """The address that a URL names, by the parts that urlsplit finds.  Raises ConfigurationError: as parse."""
        return cls.parse(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    @property
    def loopback(self) -> bool:
        """Whether it never leaves this machine."""
        return bool(self.path) or is_loopback(self.host)

    @property
    def target(self) -> str:
        """As gRPC takes it: a path is part of a URI there, in which a percent sign stands for something else."""
        return f"unix:{quote(self.path)}" if self.path else str(self)

    @property
    def family(self) -> socket.AddressFamily:
        """Of a socket that listens there."""
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    def at(self, port: int) -> Address:
        """The same host with the port that was taken; a Unix socket has none."""
        return self if self.path else replace(self, port=port)

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback; names other than localhost are not resolved."""
    host = host.lower()
    if host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback  # ::ffff:127.0.0.1 leads to 127.0.0.1


def _of_all(host: str) -> bool:
    """Whether a host stands for every address of a machine, in IPv4, in IPv6, or as IPv4 within IPv6."""
    return host in ("0.0.0.0", "::", "::ffff:0:0")


def _as_ipv6(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        return ""


def _host(text: str, refuse: Refuse) -> str:
    if text.startswith("["):
        bare = text[1:-1] if text.endswith("]") else ""
        if "%" in bare and _as_ipv6(bare):
            raise refuse(_ZONE)
        if not _as_ipv6(bare):
            raise refuse(f"what stands in brackets is an IPv6 address without a zone, such as [::1]; {_FORM}")
        return _as_ipv6(bare)
    name = text.lower()
    try:
        return str(ipaddress.IPv4Address(name))
    except ValueError:
        pass
    if "@" in name:
        raise refuse("leave out the user: it is host:port alone")
    if name.endswith("."):
        raise refuse("leave out the dot at the end of the name")
    if not name.isascii():
        raise refuse("write the name in its form for the name service, which begins with xn--")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        raise refuse("an IPv4 address is four numbers from 0 to 255 without leading zeros, such as 127.0.0.1")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise refuse(f"{text[:60]!r} is no host name; {_FORM}")
    return name


def _socket_path(text: str, refuse: Refuse) -> str:
    kind, _, path = text.partition(":")
    if kind.lower() != "unix":
        raise refuse("abstract sockets have no owner: name a path, unix:/path/to/socket")
    path = path.removeprefix("//") if path.startswith("///") else path
    if not path or path.startswith("//") or "\0" in path:
        raise refuse("expected unix:/path/to/socket")
    if len(path.encode()) > LONGEST_PATH:
        raise refuse(f"the path of a Unix socket has at most {LONGEST_PATH} bytes, and this one {len(path.encode())}")
    return path
