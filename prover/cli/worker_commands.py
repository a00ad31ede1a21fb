# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider worker``: processes on other machines that make a provider's proofs."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from pathlib import Path

import click

from ragseal.backends.native import available
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.workers.making import NICEST, ProvingKeys
from ragseal.prover.workers.opening import need_driver
from ragseal.runtime.keyfile import load_shared, save_shared
from ragseal.runtime.logs import log_to_stderr
from ragseal.runtime.terminal import JSON, Teaching, tell_result

NAME_BYTES = 8  #: of chance in a worker's name


@click.group(cls=Teaching, short_help="Make proofs on other machines")
def worker() -> None:
    """Make a provider's proofs on other machines.

    A worker sees what noise hides: its machine is the provider's, as the provider's own is.
    """


@worker.command(short_help="Make the key shared with workers")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@JSON
def key(file: Path, as_json: bool) -> None:
    """Make the key that a provider and its workers share, in FILE (0600).

    Copy it to every worker's machine by a way that nobody reads: anyone who has it and the database reads assignments.
    """
    save_shared(file, secrets.token_bytes(32))
    tell_result(as_json, {"key_file": str(file)}, f"made {file}: copy it to each worker's machine, mode 0600")


@worker.command(short_help="Prove what lies in a database")
@click.argument("database")
@click.option("--key", "key_file", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE",
              help="The key that this worker and its provider share (`worker key`).")  # fmt: skip
@click.option("--keys", "keys_folder", type=click.Path(path_type=Path, exists=True, file_okay=False), required=True,
              help="Proving keys on this machine: a copy of `keys` in the provider's state folder.")  # fmt: skip
def run(database: str, key_file: Path, keys_folder: Path) -> None:
    """Prove what providers put into DATABASE (postgres://USER@HOST/DB), until Ctrl-C or SIGTERM.

    An assignment holds the seed's limbs, noise and scores of a query. It comes encrypted, stays in this process's
    memory, and is on no disk. Run one worker per machine: a proof takes every core, at the lowest priority.
    """
    need_driver()
    if not available():
        raise ConfigurationError("a worker needs the native module: run `make setup`, or `pip install ./native`")
    from ragseal.prover.workers.postgres_worker import PostgresWorker
    from ragseal.prover.workers.sealed_rows import RowKey

    log_to_stderr()
    shared, stop = RowKey(load_shared(key_file)), threading.Event()
    name = f"{_host()}-{secrets.token_hex(NAME_BYTES)}"
    made = PostgresWorker(database, shared, ProvingKeys(keys_folder, lambda text: click.echo(text, err=True)), name)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    os.nice(NICEST)
    click.echo(f"worker {name} of queue {shared.queue}", err=True)
    try:
        made.run(stop)
    finally:
        made.close()


def _host() -> str:
    """This machine's name, as far as a worker's name takes it."""
    return "".join(c for c in socket.gethostname() if c.isascii() and (c.isalnum() or c in ".-"))[:64] or "worker"
