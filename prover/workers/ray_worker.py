# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker as a Ray actor: one a node, which finds keys on its node's disk and alone opens what it is given.

Where they are its node says, in the environment that ``ray start`` had there: whoever reaches the cluster can so have
no other file read.  What Ray carries, keeps, spills or logs of a call is sealed; names and trouble are not.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from ragseal.backends.native import available
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.prover.workers.interface import WorkResult
from ragseal.prover.workers.making import NICEST, ProvingKeys
from ragseal.prover.workers.sealed_rows import RowKey
from ragseal.runtime.keyfile import load_shared
from ragseal.runtime.terminal import keep_no_core

KEY_FILE = "RAGSEAL_WORKER_KEY"  #: in a node's environment: the file of the key that provider and workers share
KEYS = "RAGSEAL_WORKER_KEYS"  #: and the folder of proving keys
REFUSED = b""  #: instead of a result: this assignment opens nowhere here


class RayWorker:
    """One worker; one call at a time.  Never raises: an error that Ray carries shows what it was raised over."""

    def __init__(self, name: str) -> None:
        """``name``: never used before; a provider drops workers by it."""
        os.nice(NICEST)
        keep_no_core()
        self._name = name
        self._held: tuple[RowKey, ProvingKeys] | None = None

    def ready(self) -> bytes:
        """JSON: queue; keys, the folders that assignments name; trouble, why this node cannot prove, or empty."""
        try:  # again each time: what was missing may be there now
            self._held = self._held or of_this_node()
            key, keys = self._held
            told = {"queue": key.queue, "keys": keys.held(), "trouble": ""}
        except AuditError as error:
            told = {"queue": "", "keys": [], "trouble": str(error)}
        return json.dumps(told).encode()

    def prove(self, row: bytes, sealed: bytes) -> bytes:
        """A sealed result for a sealed assignment, or REFUSED."""
        if self._held is None:
            return REFUSED
        key, keys = self._held
        try:
            work = key.open_work(row, sealed)
        except EncodingError:
            return REFUSED
        try:
            made = keys.prove(work, self._name)
        except Exception as error:  # its text and its frames hold what the seal is for
            made = WorkResult(self._name, b"", f"a fault of the worker's: {type(error).__name__}")
        return key.seal_result(row, made, secrets.token_bytes)


def of_this_node() -> tuple[RowKey, ProvingKeys]:
    """What the node's environment names.

    Raises:
        ConfigurationError: it names nothing, or what others may read or nobody can; or no native module.
    """
    if not available():
        raise ConfigurationError("a worker needs the native module: `pip install ./native`")
    file, folder = os.environ.get(KEY_FILE), os.environ.get(KEYS)
    if not file or not folder:
        raise ConfigurationError(f"{KEY_FILE} and {KEYS} are not both in the environment that `ray start` had here")
    keys = ProvingKeys(Path(folder))
    keys.held()
    return RowKey(load_shared(Path(file))), keys
