# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a request names a server of this machine as its host.

A web page may let its own name lead to 127.0.0.1 (DNS rebinding), and its visitor's browser then hands it whatever is
served there to everybody.  The browser still says by which name it calls: so a server that is for its own machine goes
by addresses, ``localhost`` and the names that it was told, and by no other.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from http import HTTPStatus

from ragseal.runtime.http_server import Request, Response

LOCALHOST = "localhost"


def is_own(host: str, names: Collection[str] = ()) -> bool:
    """Whether a Host header is an address, localhost or one of these names (lower case), with any port.

    Empty as well: no browser leaves it out.
    """
    name = host.strip().lower()
    bare, colon, port = name.rpartition(":")
    if colon and port.isascii() and port.isdigit():
        name = bare
    if name in ("", LOCALHOST) or name in names:
        return True
    try:
        ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True


def refusal(request: Request, names: Collection[str] = ()) -> Response | None:
    """The answer to a request that calls the server by another name; None where it does not."""
    if is_own(request.headers.get("host", ""), names):
        return None
    text = b"this server does not go by that name: call it by its address (a page behind a proxy takes --host NAME)\n"
    return Response(HTTPStatus.MISDIRECTED_REQUEST, text)
