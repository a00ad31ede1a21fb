# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator is told and asked when a window is closed or retired.  All of it blocks."""

from __future__ import annotations

from ragseal.kernel.errors import AuditError, CommitmentError, ConfigurationError
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.committing import Told
from ragseal.prover.serving.retiring import Retiring
from ragseal.prover.storage.window import Window
from ragseal.runtime.face import counted
from ragseal.runtime.progress import Progress


def retired(window: Window, swept: bool) -> Told:
    """What is said of a window that was retired."""
    name = window.manifest.window
    text = f"window {name} is retired: its texts, queries and secrets are purged, its receipts and proofs stay"
    if not swept:
        text = f"window {name} is retired; what it kept is purged once the copy that is being made is done"
    return Told({"window": name, "purged": swept}, text)


def prove_for_audits(retiring: Retiring, window: Window, unproven: bool, progress: Progress) -> None:
    """All that a full audit asks for.  ConfigurationError: it cannot be made, and nobody said ``unproven``."""
    try:
        retiring.prove(window, progress)
    except AuditError as error:
        if not unproven:
            raise ConfigurationError(
                f"not all that an audit of window {window.manifest.window!r} asks for can be made ({error}): nothing "
                "was purged. --unproven retires it all the same, and no audit of it ends in a verdict then"
            ) from None


def closed(provider: Provider, name: str, index_of_entry: int) -> Told:
    """What is said of a window that was closed."""
    window = provider.journal.history.named(name)
    opened = provider.journal.history.open
    values = {
        "window": name,
        "ledger_index": index_of_entry,
        "records": len(window.records),
        "opened": None if opened is None else opened.manifest.window,
    }
    text = f"window {name} is closed with {counted(len(window.records), 'record')}"
    return Told(values, text if opened is None else f"{text}; window {opened.manifest.window} is open")


def name_to_close(provider: Provider, name: str) -> str:
    """The window that is meant: the open one without a name.  CommitmentError: there is none, or it is not open."""
    opened = provider.journal.history.open
    if name:
        window = provider.journal.history.named(name)
        if window is not opened:
            raise CommitmentError(f"window {name!r} is not open, so there is nothing to close")
        return name
    if opened is None:
        raise CommitmentError("no window is open, so there is nothing to close")
    return opened.manifest.window
