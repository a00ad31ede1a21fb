# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in a thread of its own, for looks that may hang longer than anybody waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """As asyncio.to_thread, in a thread of its own that nobody has to wait for when the program ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if not done.done():
            done.set_exception(error) if error is not None else done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        trouble: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            trouble = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, result, trouble)

    threading.Thread(target=run, name="look", daemon=True).start()
    return await done
