# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker as a process of the provider's own: ``python -m ragseal.prover.workers.process DESCRIPTOR KEYS``.

It is another program from its first instruction on, so it has no lock, socket or secret of the provider's but the end
of a socket that only the two of them hold.  It reads keys, writes nothing, and ends when the provider does.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from ragseal.kernel.errors import TransportError
from ragseal.prover.workers.interface import MAX_INPUTS, Work
from ragseal.prover.workers.making import NICEST, ProvingKeys
from ragseal.runtime.terminal import keep_no_core

HEADER = 4  #: bytes of a frame's length
MAX_FRAME = MAX_INPUTS + 1024


def send(channel: socket.socket, data: bytes) -> None:
    """One frame.  Raises OSError."""
    channel.sendall(len(data).to_bytes(HEADER, "big") + data)


def receive(channel: socket.socket) -> bytes | None:
    """The next frame; None once the other end is closed.

    Raises:
        TransportError: a frame that is cut off, or too long.
        OSError: also TimeoutError, where the socket has one.
    """
    head = _take(channel, HEADER)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME:
        raise TransportError(f"a frame of {size} bytes, where {MAX_FRAME} is the most")
    return _take(channel, size)


def _take(channel: socket.socket, size: int) -> bytes | None:
    out = bytearray()
    while len(out) < size:
        piece = channel.recv(min(size - len(out), 1 << 20))
        if not piece:
            return None
        out += piece
    return bytes(out)


def main() -> None:
    channel, keys = socket.socket(fileno=int(sys.argv[1])), ProvingKeys(Path(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the provider's, which then closes the socket
    os.nice(NICEST)
    keep_no_core()
    name = f"local-{os.getpid()}"
    while (data := receive(channel)) is not None:
        made = keys.prove(Work.decode(data), name)
        try:
            send(channel, made.encode())
        except BrokenPipeError:
            break


if __name__ == "__main__":
    main()
