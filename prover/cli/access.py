# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider's folder for a command: its lock where nobody serves, the process that serves otherwise."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import click

from ragseal.embedder import Embedder, load_embedder
from ragseal.kernel.beacon import Seat
from ragseal.kernel.errors import MismatchError, TransportError
from ragseal.prover.administration import accounts, auditors, backup, documents, erasures, lasting, status, windows
from ragseal.prover.administration.documents import Reading
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.provider import assembly
from ragseal.prover.provider.backends import Environment
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving import committing, publishing
from ragseal.prover.serving.committing import Told
from ragseal.prover.serving.retiring import Retiring
from ragseal.prover.storage import place
from ragseal.prover.storage.rollback import refuse_rollback
from ragseal.prover.storage.state import State
from ragseal.prover.wire.operator_remote import Remote
from ragseal.runtime.progress import Progress


class Administration(Protocol):
    """What an operator does.  Every method raises the AuditErrors of what it does."""

    def status(self) -> Told: ...

    def add_accounts(self, new: Sequence[Registration]) -> Told: ...

    def remove_account(self, name: str) -> Told: ...

    def list_accounts(self) -> Told: ...

    def admit_auditor(self, name: str, public_key: bytes) -> Told: ...

    def remove_auditor(self, name: str) -> Told: ...

    def list_auditors(self) -> Told: ...

    def put_documents(
        self, tenant: str, found: Iterable[Document], progress: Progress, strict: bool = False
    ) -> Told: ...

    def delete_documents(self, tenant: str, names: Sequence[str]) -> Told: ...

    def erase_document(self, tenant: str, name: str, reason: str) -> Told: ...

    def list_erasures(self, tenant: str, name: str) -> Told: ...

    def list_documents(self, tenant: str) -> Told: ...

    def sync_documents(self, reading: Reading, progress: Progress, stop: threading.Event) -> Told: ...

    def commit(
        self,
        policy: bytes,
        window: str,
        agreed: float | None,
        seats: Sequence[Seat],
        progress: Progress,
        new_coins: bool = False,
    ) -> Told: ...

    def close(self, window: str) -> Told: ...

    def retire(self, window: str, agreed: bool, unproven: bool, progress: Progress) -> Told: ...

    def export_proofs(self, folder: Path, window: str, progress: Progress) -> Told: ...

    def backup(self, folder: Path, progress: Progress, keys: Path | None = None) -> Told: ...


class Local:
    """A folder whose lock this process holds."""

    def __init__(self, state: State) -> None:
        self._state = state

    @contextmanager
    def _provider(self) -> Iterator[Provider]:
        """The provider on this folder, its state left open at the end."""
        tools = assembly.assemble(self._state, lambda text: click.echo(text, err=True))
        provider = Provider(self._state, tools)
        try:
            yield provider
        finally:
            provider.ledger.close()

    def status(self) -> Told:
        with self._provider() as provider:
            return status.status(provider)

    def add_accounts(self, new: Sequence[Registration]) -> Told:
        return accounts.add(self._state, new)

    def remove_account(self, name: str) -> Told:
        return accounts.remove(self._state, name)

    def list_accounts(self) -> Told:
        return accounts.listed(self._state)

    def admit_auditor(self, name: str, public_key: bytes) -> Told:
        return auditors.admit(self._state, name, public_key, int(Environment().clock()))

    def remove_auditor(self, name: str) -> Told:
        return auditors.remove(self._state, name)

    def list_auditors(self) -> Told:
        return auditors.listed(self._state)

    def put_documents(self, tenant: str, found: Iterable[Document], progress: Progress, strict: bool = False) -> Told:
        with self._provider() as provider:
            told = documents.put(self._state, self._embedder(), tenant, found, progress, strict)
            return lasting.with_rest(provider, tenant, told)

    def delete_documents(self, tenant: str, names: Sequence[str]) -> Told:
        with self._provider() as provider:
            told = documents.delete(self._state, self._embedder(), tenant, names)
            return lasting.with_rest(provider, tenant, told, names)

    def erase_document(self, tenant: str, name: str, reason: str) -> Told:
        with self._provider() as provider:
            now = int(provider.environment.clock())
            told = erasures.erase(self._state, tenant, name, reason, now)
            retiring = _retiring(provider)
            if retiring.pending:
                retiring.sweep()
            return lasting.with_rest(provider, tenant, told, [name])

    def list_erasures(self, tenant: str, name: str) -> Told:
        with self._provider() as provider:
            return erasures.listed(provider, tenant, name)

    def list_documents(self, tenant: str) -> Told:
        with self._provider() as provider:
            return lasting.with_rest(provider, tenant, documents.listed(self._state, tenant))

    def sync_documents(self, reading: Reading, progress: Progress, stop: threading.Event) -> Told:
        with self._provider() as provider:
            told = documents.sync(self._state, self._embedder(), reading, progress, stop)
            return lasting.with_rest(provider, reading.tenant, told)

    def _embedder(self) -> Embedder:
        return load_embedder(self._state.settings.embedder)

    def commit(
        self,
        policy: bytes,
        window: str,
        agreed: float | None,
        seats: Sequence[Seat],
        progress: Progress,
        new_coins: bool = False,
    ) -> Told:
        with self._provider() as provider:
            say = lambda text: progress(text, 0, 0)  # noqa: E731
            return committing.commit(provider, policy, window, agreed, seats, say, new_coins)

    def close(self, window: str) -> Told:
        with self._provider() as provider:
            name = windows.name_to_close(provider, window)
            return windows.closed(provider, name, provider.end(provider.journal.history.named(name)).index)

    def retire(self, window: str, agreed: bool, unproven: bool, progress: Progress) -> Told:
        with self._provider() as provider:
            retiring = _retiring(provider)
            meant = retiring.named(window, agreed)
            windows.prove_for_audits(retiring, meant, unproven, progress)
            retiring.retire(meant)
            return windows.retired(meant, retiring.sweep())

    def export_proofs(self, folder: Path, window: str, progress: Progress) -> Told:
        with self._provider() as provider:
            return publishing.export(provider, provider.new_proofs(), folder, window, progress)

    def backup(self, folder: Path, progress: Progress, keys: Path | None = None) -> Told:
        with self._state.open_ledger() as ledger:
            refuse_rollback(self._state, ledger)  # or the copy would look sound
            with erasures.copying(self._state, folder, int(Environment().clock()), sealed=keys is not None):
                return backup.make(self._state, ledger, folder, progress, keys)


def _retiring(provider: Provider) -> Retiring:
    return Retiring(provider, provider.new_proofs(), provider.new_estimates())


@contextmanager
def administration(directory: Path, serving: bool = False) -> Iterator[Administration]:
    """The folder's provider, for the block.  Where one serves, its lock is not touched: it is asked first.

    Args:
        serving: only a provider that serves; the folder's lock is not taken, which would keep one from starting.

    Raises:
        ConfigurationError: no provider there, or something that is not its socket stands in that place.
        LedgerError: another process holds the folder that does not serve.
        TransportError: ``serving``, and none does.
    """
    with _served(directory) as remote:
        if remote is not None:
            yield remote
            return
    if serving:
        raise TransportError(
            f"no provider serves in {directory}: start it, or leave --serving out where none is to run"
        )
    with State(directory) as state:
        yield Local(state)


@contextmanager
def _served(directory: Path) -> Iterator[Remote | None]:
    """The process that serves; None where a crash has left its socket, or there is none."""
    if not place.found(directory):
        yield None
        return
    with Remote(directory) as remote:
        try:
            remote.list_accounts()
            answers = True
        except MismatchError:
            raise
        except TransportError:
            answers = False
        yield remote if answers else None
