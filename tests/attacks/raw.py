# SPDX-License-Identifier: GPL-3.0-or-later
"""A caller that speaks HTTP/2 frame by frame, and so does what no gRPC library would: it does not read."""

from __future__ import annotations

import socket
import struct


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _text(value: bytes) -> bytes:
    assert len(value) < 127
    return bytes([len(value)]) + value


class RawCaller:
    """One connection."""

    def __init__(
        self,
        port: int,
        source: str = "127.0.0.1",
        buffer: int | None = None,
        window: int = 65535,
        room: int = 1 << 20,  # calls are held back one by one
    ) -> None:
        """``buffer``: bytes that the system keeps unread; ``window``: of the answers of each call, ``room``: of all."""
        self._stream = -1
        self.socket = socket.socket()
        if buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.bind((source, 0))
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", port))
        more = _frame(8, 0, 0, struct.pack(">I", room))
        settings = _frame(4, 0, 0, struct.pack(">HI", 4, window))
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + _frame(4, 1, 0, b"") + more)

    def call(self, path: str, message: bytes = b"") -> None:
        """A whole call; OSError once the connection has ended, or takes nothing any more."""
        self._stream += 2
        fields = {
            b":method": b"POST", b":scheme": b"http", b":path": path.encode(), b":authority": b"x",
            b"te": b"trailers", b"content-type": b"application/grpc",
        }  # fmt: skip
        block = b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields.items())
        body = b"\x00" + struct.pack(">I", len(message)) + message
        self.socket.sendall(_frame(1, 4, self._stream, block) + _frame(0, 1, self._stream, body))

    def close(self) -> None:
        self.socket.close()
