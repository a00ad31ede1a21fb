# SPDX-License-Identifier: GPL-3.0-or-later
"""Standard input, output and error of every program, so that none of them stops a command half-way.  SPEC G.5.2.

A command prints after it has done something: made a key, spent a query, signed a verdict.  Where the print fails, the
deed stays done.  So bytes that standard output does not take are dropped, the person is told once, on standard error,
and the command goes on to its end; its exit status says that the output is not whole.  Standard error has nothing
behind it: what it does not take is dropped in silence.  A letter that the encoding does not have is written as an
escape, such as ``\\U0001f600``.

It works on the bytes beneath a stream, so it holds for click, rich, logging and ``print`` alike.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from ragseal.kernel.errors import ConfigurationError

NOT_WRITTEN = 74  #: exit status where standard output or input failed; EX_IOERR of sysexits.h
ESCAPES = "backslashreplace"


class InputError(ConfigurationError):
    """Standard input is closed, or cannot be read."""


class Decided(SystemExit):
    """An exit status that lost output does not change: an audit's, whose verdict is in its report all the same."""


def _adopt_closed() -> None:
    """Open /dev/null in the place of standard descriptors that this program was started without.

    The next file to be opened would get such a number, and what libraries print there would be written into it: gRPC's
    messages into a database.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            found = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            if found != number:
                os.dup2(found, number)
                os.close(found)


class _Beneath(io.RawIOBase):
    """The bytes of a standard stream; closing it leaves the stream open."""

    def __init__(self, stream: TextIO | None, name: str) -> None:
        """``stream``: None where the program was started without it."""
        buffer = getattr(stream, "buffer", None)
        self._bytes: Any = getattr(buffer, "raw", buffer)
        self.name = name

    def _open(self) -> Any:
        if self._bytes is None:
            raise OSError(errno.EBADF, "it is closed")
        return self._bytes

    def fileno(self) -> int:
        return int(self._open().fileno())

    def isatty(self) -> bool:
        return self._bytes is not None and bool(self._bytes.isatty())


class _Written(_Beneath):
    def __init__(self, stream: TextIO | None, name: str, lost: Callable[[OSError], None]) -> None:
        """``lost``: told the first time that bytes are not taken; those and all later ones are dropped."""
        super().__init__(stream, name)
        self._lost, self.failed = lost, False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = len(data)
        if self.failed:
            return size
        try:
            return self._now(data)
        except (OSError, ValueError) as error:  # ValueError: it was closed by somebody in this program
            self.failed = True
            self._lost(error if isinstance(error, OSError) else OSError(errno.EBADF, "it is closed"))
            return size

    def _now(self, data: Any) -> int:
        stream = self._open()
        while True:  # a pipe that somebody made non-blocking is waited for
            with contextlib.suppress(BlockingIOError):
                written = stream.write(data)
                if written is not None:
                    return int(written)
            select.select([], [stream], [])


class _Read(_Beneath):
    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        try:
            stream = self._open()
            while (found := stream.read(len(buffer))) is None:  # somebody made it non-blocking
                select.select([stream], [], [])
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(
                f"cannot read standard input ({why}): name a file, or give this program an input"
            ) from None
        buffer[: len(found)] = found
        return len(found)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Standard streams as this module has them, until the program ends.

    Raises:
        SystemExit: with NOT_WRITTEN, where a command that did all else could not write its output.
    """
    if isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), _Written):
        yield  # one command runs another
        return
    _adopt_closed()
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        _flush(stream)
    out = _Written(sys.stdout, "<stdout>", _told)
    sys.stdin = _text(io.BufferedReader(_Read(sys.stdin, "<stdin>")), sys.stdin, getattr(sys.stdin, "errors", None))
    sys.stderr = _text(io.BufferedWriter(_Written(sys.stderr, "<stderr>", _silent)), sys.stderr, ESCAPES)
    sys.stdout = _text(io.BufferedWriter(out), sys.stdout, ESCAPES)
    try:
        yield
    except Decided:
        raise
    except SystemExit as end:
        _flush(sys.stdout)
        if out.failed and not end.code:
            raise SystemExit(NOT_WRITTEN) from None
        raise
    finally:
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)
        sys.stdin, sys.stdout, sys.stderr = before


def _flush(stream: TextIO | None) -> None:
    with contextlib.suppress(OSError, ValueError):  # ValueError: a library has closed it
        if stream is not None:
            stream.flush()


def output_lost() -> bool:
    """Whether standard output has failed: for loops of which each round costs something that only its output is for."""
    beneath = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(beneath, _Written) and beneath.failed


def _text(buffer: Any, like: TextIO | None, errors: str | None) -> TextIO:
    """A text stream as ``like``, over other bytes."""
    encoding = getattr(like, "encoding", None) or "utf-8"
    at_once = like is None or getattr(like, "line_buffering", False) or getattr(like, "write_through", False)
    return io.TextIOWrapper(buffer, encoding, errors, line_buffering=at_once)


def _told(error: OSError) -> None:
    reason = error.strerror or str(error)
    print(f"standard output cannot be written ({reason}): the command goes on without it", file=sys.stderr)


def _silent(error: OSError) -> None:
    """Nobody is left to tell."""
