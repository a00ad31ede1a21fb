# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking up the addresses of names whose name service is not trusted to be quick.  SPEC G.6.12.

The system's look-up cannot be cancelled, and takes as long as the name's own service likes.  In a pool of threads a few
such names hold up every other one, so each name has a thread of its own while it is looked up, and never a second one.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future


class Names:
    """Looks names up; for any thread and any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, int], Future[list[str]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """The IP addresses of a host, in the system's order.

        Who cancels this gives up waiting.  The look-up goes on, and whoever asks for the same name meanwhile waits for
        that one.

        Raises:
            OSError: the name has none, or no thread can be had.
            ValueError: a name that no name service takes.
        """
        with self._lock:
            found = self._under_way.get((host, port))
            if found is None:
                found = Future()
                found.set_running_or_notify_cancel()  # from here on nobody's cancellation reaches it
                thread = threading.Thread(target=self._look_up, args=(host, port, found), name="names", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise OSError(f"no thread for looking up {host}: {error}") from None
                self._under_way[host, port] = found
        return await asyncio.wrap_future(found)

    def _look_up(self, host: str, port: int, found: Future[list[str]]) -> None:
        try:
            places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(place[4][0]) for place in places))
        except Exception as error:
            self._done(host, port)
            found.set_exception(error)
        else:
            self._done(host, port)
            found.set_result(addresses)

    def _done(self, host: str, port: int) -> None:
        with self._lock:
            del self._under_way[host, port]


NAMES = Names()  #: the look-ups of this process
