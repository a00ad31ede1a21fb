# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider log``: what its operator does to the log itself.  SPEC G.6.13."""

from __future__ import annotations

from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.rotation import MAX_OVERLAP
from ragseal.ledger.turns import LogKey
from ragseal.prover.cli.options import STATE
from ragseal.prover.storage.rollback import refuse_rollback
from ragseal.prover.storage.state import State
from ragseal.runtime.terminal import JSON, Teaching, tell_result
from ragseal.runtime.token_key import FORM, load_token_key

OVERLAP = 1024  #: entries; so that who follows by old software, or as a witness, has time to learn the new key


@click.group(cls=Teaching, short_help="Turn the key that signs the log")
def log() -> None:
    """The log's signing key."""


@log.command(short_help="Sign the log with a new key from now on")
@STATE
@click.option("--overlap", type=click.IntRange(0, MAX_OVERLAP), default=OVERLAP, show_default=True,
              help="For so many entries more every note is signed by the old key as well.")  # fmt: skip
@click.option("--token", metavar="URI", help=f"The new key is one of an HSM: {FORM} (default: made here, in a file).")
@JSON
def rotate(directory: Path, overlap: int, token: str | None, as_json: bool) -> None:
    """Sign the log with a new key from now on; the provider must not be serving.

    The log keeps its name, which is its first key's: nothing that accounts, auditors or observers were given changes.
    They follow by themselves.  Witnesses that are no observers are told the new key by their operators before the
    overlap ends, in the place of the old one: with both, they go on cosigning for a thief of the old key.

    The old key is removed at the first start behind the overlap; where it may have been stolen, give --overlap 0.
    """
    new = Ed25519PrivateKey.generate() if token is None else load_token_key(token)
    with State(directory) as state, state.open_ledger() as ledger:
        refuse_rollback(state, ledger)
        ledger.watch(state.remember_checkpoint)
        state.rotate_log_key(ledger, overlap, new)
        found = LogKey.of(ledger.verifier)
    turn = found.turns[-1]
    values = {
        "ledger_key": found.vkey(), "signing_key": found.newest.vkey(), "turn": turn.number, "index": turn.index,
        "until": turn.until,
    }  # fmt: skip
    tell_result(
        as_json, values,
        f"entry {turn.index} of {found.name} turns its key. It is still called by its first key, which accounts and "
        f"auditors go on pinning:\n{found.vkey()}\nIt is signed by\n{found.newest.vkey()}\nUp to {turn.until} entries "
        "the old key signs as well. Witnesses that do not follow the log need the new key before that, in the place of "
        "the old one: one that keeps both goes on believing a thief of the old key",
    )  # fmt: skip
