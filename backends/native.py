# SPDX-License-Identifier: GPL-3.0-or-later
"""The native module, typed by its own stub; where it is not installed, an object whose every use says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from ragseal.kernel.errors import ProofError, UnavailableError

__all__ = ["available", "native", "native_errors", "slow_path_notice"]


class _Missing:
    """Stands in for the module: a caller without a slow path of its own fails with the way out."""

    def __getattr__(self, name: str) -> NoReturn:
        raise UnavailableError(
            "this needs the native module (making keys always does): run `make setup`, or `pip install ./native`"
        )


try:
    import ragseal_native as native
except ImportError:  # an accelerator: every caller has a slow path or says so
    native = _Missing()  # type: ignore[assignment]


def available() -> bool:
    """Whether the native module is installed."""
    return not isinstance(native, _Missing)


@contextmanager
def native_errors() -> Iterator[None]:
    """Turn the native module's refusals into ProofError."""
    if not available():
        yield
        return
    try:
        yield
    except native.NativeError as error:
        raise ProofError(str(error)) from None


def slow_path_notice() -> str | None:
    """What to tell an operator who runs without the native module; None with it."""
    if available():
        return None
    return (
        "The native module is not installed: this process takes the slow path, Python and snarkjs.  What comes out is "
        "the same; a proof takes many seconds, checking a key up to minutes.  `make setup` builds the module."
    )
