# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider backup`` and ``restore``: a provider's folder, as of one checkpoint."""

from __future__ import annotations

from pathlib import Path

import click

from ragseal.prover.cli.access import administration
from ragseal.prover.cli.options import STATE
from ragseal.prover.fsck import restore as copies
from ragseal.prover.provider.backends import Environment
from ragseal.runtime import texts
from ragseal.runtime.terminal import JSON, named_bars, tell_result

MAX_NOTE = 1 << 16


@click.command(short_help="Copy everything the provider keeps")
@STATE
@click.option("--to", "folder", type=click.Path(path_type=Path), required=True, help="A folder that is not there yet.")
@click.option("--keys", type=click.Path(path_type=Path, dir_okay=False),
              help="Encrypt the copy, and write its keys to this file, in the place of an older one.")  # fmt: skip
@click.option("--serving", is_flag=True,
              help="Only of a provider that serves: one that starts is never kept from its folder.")  # fmt: skip
@JSON
def backup(directory: Path, folder: Path, keys: Path | None, serving: bool, as_json: bool) -> None:
    """Copy everything this provider keeps, as of one checkpoint of its log; it may be serving meanwhile.

    The copy is as secret as the provider's own folder, and has its signing keys.  With --keys those, texts, matrices,
    queries and seeds are encrypted, and the newest keys file opens all copies, without what was purged before it was
    written.
    """
    with administration(directory, serving) as admin, named_bars() as progress:
        told = admin.backup(folder.absolute(), progress, None if keys is None else keys.absolute())
    tell_result(as_json, told.values, told.text)


@click.command(short_help="Put a backup in the place of a lost folder")
@STATE
@click.option("--from", "folder", type=click.Path(path_type=Path, exists=True, file_okay=False), required=True,
              help="The folder that `backup` made.")  # fmt: skip
@click.option("--checkpoint", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="The newest signed note of this log that anybody has: an older copy does not go on.")  # fmt: skip
@click.option("--remains", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="What is left of the provider's own folder, moved away: it is given up for good.")  # fmt: skip
@click.option("--nothing-newer", is_flag=True, help="Nothing left the provider after the copy was made.")
@click.option("--read-only", is_flag=True, help="Only to show, prove and answer again what the copy has.")
@click.option("--keys", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="The newest keys file, of a copy that was made with --keys.")  # fmt: skip
@JSON
def restore(
    directory: Path,
    folder: Path,
    checkpoint: Path | None,
    remains: Path | None,
    nothing_newer: bool,
    read_only: bool,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Put a backup back, unless the log may have gone on since; says what is lost."""
    note = None if checkpoint is None else read_note(checkpoint)
    known = copies.Known(note, remains, nothing_newer, read_only)
    told = copies.restore(folder, directory.absolute(), known, int(Environment().clock()), keys)
    tell_result(as_json, told.values, told.text)


def read_note(path: Path) -> bytes:
    """A signed checkpoint, without what an editor may have put into the file.  ConfigurationError: unreadable."""
    what = f"the checkpoint {path}"
    return texts.octets_of(texts.read_bytes(path, what, most=MAX_NOTE), what)
