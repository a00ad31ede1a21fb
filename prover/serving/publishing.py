# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs of a closed window as files for everybody, with the keys and columns that they are about.  SPEC G.15.

A batch of proofs holds commitments, Groth16 proofs and openings, all zero-knowledge, beside what the log has already:
a record's number and digest, and the tenant whose index its request names.  What an auditor alone is given is in none
of it: names, keys and tenants of accounts, links, blocks.
"""

from __future__ import annotations

from pathlib import Path

from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.proofs import ASKED_TOGETHER
from ragseal.ledger.proof_files import batch_path, columns_path, key_path, write_files
from ragseal.prover.attestation.proofs import Proofs
from ragseal.prover.commitment.window_secrets import thinned_index, window_index
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.committing import Told
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.progress import Progress


def export(provider: Provider, proofs: Proofs, folder: Path, name: str, progress: Progress) -> Told:
    """Write the files of a window; nothing is written before all of them are made.  Blocks, for hours perhaps.

    Args:
        name: of the window; empty: the newest that was closed.

    Raises:
        CommitmentError: no such window, or not all of it is public yet.
        AttestationError, ProofError: a record cannot be proven.
        ConfigurationError: a key is not there, or the disk refuses.
    """
    window = _closed(provider, name)
    files = {**_keys(provider, window), **_columns(provider, window), **_batches(proofs, window, progress)}
    write_files(folder, files)
    values = {
        "folder": str(folder),
        "window": window.manifest.window,
        "manifest": window.digest.hex(),
        "records": len(window.records),
        "files": sorted(files),
    }
    text = (
        f"the proofs of {len(window.records)} records of window {window.manifest.window} are in {folder}: put the "
        "log's tiles beside them (`ragseal-observer export --tiles`), and any web server offers both"
    )
    return Told(values, text)


def _closed(provider: Provider, name: str) -> Window:
    history = provider.journal.history
    if name:
        window = history.named(name)
    else:
        closed = [one for one in history.windows.values() if one.stage is Stage.CLOSED]
        if not closed:
            raise CommitmentError("no window is closed: its proofs are published once it is")
        window = closed[-1]
    name = window.manifest.window
    if window.stage is not Stage.CLOSED:
        raise CommitmentError(f"window {name!r} is not closed: its proofs are published once it is")
    if provider.journal.published_records(window) < len(window.records):
        raise CommitmentError(f"not all records of window {name!r} are public yet: try again in a minute")
    return window


def _keys(provider: Provider, window: Window) -> dict[str, bytes]:
    """Verifying keys: of attestations, and of thinning where the claim has a coin."""
    digest = window.manifest.key_digest
    found = {key_path(digest): provider.backends.keys.view(digest).vk.to_bytes()}
    for coin in window.manifest.coins:
        found[key_path(coin.key_digest)] = provider.coins.keys().view(coin.key_digest).vk.to_bytes()
    return found


def _columns(provider: Provider, window: Window) -> dict[str, bytes]:
    """Every version's columns, as GetIndex and GetThinnedIndex show them."""
    state, digest, found = provider.state, window.digest, dict[str, bytes]()
    for index in window.manifest.tenants:
        found[columns_path(index.columns_digest)] = window_index(state, digest, index.tenant)
    for thinned in () if window.thinning is None else window.thinning.tenants:
        found[columns_path(thinned.columns_digest)] = thinned_index(state, digest, thinned.tenant)
    for _, update in window.updates:
        for line in update.tenants:
            found[columns_path(line.columns_digest)] = window_index(state, digest, line.tenant, update.number)
    return found


def _batches(proofs: Proofs, window: Window, progress: Progress) -> dict[str, bytes]:
    """The batches that a full audit asks for.  They are kept, so that exporting again gives the same bytes."""
    found, count = dict[str, bytes](), len(window.records)
    for first in range(0, count, ASKED_TOGETHER):
        part = range(first, min(first + ASKED_TOGETHER, count))

        def tell(done: int = first) -> None:
            progress(f"proving records of window {window.manifest.window}", done, count)

        tell()
        found[batch_path(window.digest, first)] = proofs.batch(window.digest, part, tell, always=True)
    return found
