# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier verdict log``: the auditor's own log of verdicts, shown, exported and served."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.printable import printable
from ragseal.kernel.rotation import MAX_OVERLAP, Rotation
from ragseal.kernel.verdict import VerdictEntry, found
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.named_log import named_log
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.published import PublicLog
from ragseal.ledger.service import LedgerServicer
from ragseal.ledger.tiles import TileFolder
from ragseal.runtime import health
from ragseal.runtime.certificates import Certificates, renewing
from ragseal.runtime.durable import DirectoryLock, write_durably
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.face import counted, when
from ragseal.runtime.rpc import bind, new_server
from ragseal.runtime.settings import Configured, only_checked
from ragseal.runtime.stopping import asked_to_stop, ignore_hangups
from ragseal.runtime.terminal import JSON, server_tls, tell_result
from ragseal.runtime.tls import ServerTls
from ragseal.verifier.folder.state import State
from ragseal.verifier.report.document import plain
from ragseal.verifier.signed.log import FOLDER, VerdictLog, proof_in, turns_of, verdict_in, verdicts_of

SERVICE = "ragseal.v1.LedgerService"
PATIENCE = 5.0  #: seconds that a reader waits for an audit that appends; it is shown the log as it was otherwise
OVERLAP = 32  #: entries; a log of verdicts grows slowly, and the old key lies on the disk until its overlap is over
_GRACE = 2.0
OUT = click.Path(path_type=Path, dir_okay=False)


def register(group: click.Group, state_option: Callable[..., Any]) -> None:
    """Add the group to ``ragseal-verifier verdict``."""

    @group.group(short_help="Serve and show the log of verdicts")
    def log() -> None:
        """The auditor's own log of verdicts: none is handed out before it stands there, so none can be taken back.

        Give out its key beside your own. A follower of the log (`ragseal-observer follow`) keeps you to it.
        """

    @log.command(short_help="Show the log's public key")
    @state_option
    @JSON
    def key(directory: Path, as_json: bool) -> None:
        """Show the log's public key."""
        found = _log(directory).verifier()
        values = {"vkey": found.vkey(), "signing_key": found.keys[-1].vkey()}
        tell_result(as_json, values, found.vkey())

    @log.command(short_help="Sign the log with a new key from now on")
    @state_option
    @click.option("--overlap", type=click.IntRange(0, MAX_OVERLAP), default=OVERLAP, show_default=True,
                  help="For so many entries more every note is signed by the old key as well.")  # fmt: skip
    @JSON
    def rotate(directory: Path, overlap: int, as_json: bool) -> None:
        """Sign the log with a new key from now on; audits and `verdict log serve` go on meanwhile.

        The log keeps its name, which is its first key's: nothing that readers of verdicts or observers were given
        changes. Observers follow by themselves, and verdicts name the turns before them. Witnesses that are no
        observers are told the new key by their operators before the overlap ends, in the place of the old one: with
        both, they go on cosigning for a thief of the old key.

        The old key is removed with the first verdict behind the overlap; where it may have been stolen, give
        --overlap 0.
        """
        turned = _log(directory).rotate(overlap)
        turn = turned.turns[-1]
        values = {
            "log_key": turned.vkey(), "signing_key": turned.newest.vkey(), "turn": turn.number, "index": turn.index,
            "until": turn.until,
        }  # fmt: skip
        tell_result(
            as_json, values,
            f"entry {turn.index} of {turned.name} turns its key. It is still called by its first key, which readers go "
            f"on pinning:\n{turned.vkey()}\nIt is signed by\n{turned.newest.vkey()}\nUp to {turn.until} entries the "
            "old key signs as well. Witnesses that do not follow the log need the new key before that, in the place of "
            "the old one: one that keeps both goes on believing a thief of the old key",
        )  # fmt: skip

    @log.command(short_help="List the entries, oldest first")
    @state_option
    @click.argument("index", type=click.IntRange(min=0), required=False)
    @click.option("--out", type=OUT, help="Write the signed verdict of entry INDEX to this file.")
    @click.option(
        "--proof",
        type=OUT,
        help="Write the proof that entry INDEX is in the log now, or was up to the next turn of its key (.tlog-proof).",
    )
    @JSON
    def show(directory: Path, index: int | None, out: Path | None, proof: Path | None, as_json: bool) -> None:
        """List the entries, oldest first, after hashing every one of them again; with INDEX one of them.

        Most are verdicts; an entry may turn the log's key (`rotate`).
        """
        if index is None and (out or proof):
            raise click.UsageError("--out and --proof are about one entry: name its number")
        kept = _log(directory)
        kept.shared.verifier()
        copy = kept.copy()  # hashed to its signed root; everything below is of this one reading
        found: dict[int, VerdictEntry | Rotation] = {**verdicts_of(copy), **turns_of(copy)}
        if index is not None and (index not in found or out or proof):
            verdict_in(copy, index)
        for number in sorted(found) if index is None else [index]:
            entry = found[number]
            click.echo(json.dumps({"index": number, **_plain(entry)}) if as_json else _line(number, entry))
        if index is not None:
            _write(out, lambda: kept.envelope_of(verdict_in(copy, index)))
            _write(proof, proof_in(copy, index).to_text)

    @log.command(short_help="Write the log as static files")
    @state_option
    @click.option(
        "--tiles",
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        help="Folder for the files: new, or of an earlier export.",
    )
    @JSON
    def export(directory: Path, tiles: Path, as_json: bool) -> None:
        """Write the log as static files, in the format of C2SP tlog-tiles, for any web server."""
        kept = _log(directory)
        folder = TileFolder(tiles, kept.verifier())
        try:
            point = asyncio.run(folder.update(kept.source()))
        finally:
            folder.close()
        values = {"origin": point.origin, "size": point.size, "root": point.root.hex()}
        tell_result(as_json, values, f"{point.origin}: {counted(point.size, 'entry', 'entries')} in {tiles}")

    @log.command(cls=Configured, prefix="RAGSEAL_VERDICTS", short_help="Serve the log to everybody")
    @state_option
    @click.option("--listen", default="127.0.0.1:7802", show_default=True, help="host:port; port 0 takes a free one.")
    @click.option("--witness", "keys", multiple=True, metavar="KEY", help="Key of a witness to keep a seat for.")
    @server_tls
    @JSON
    def serve(directory: Path, listen: str, keys: tuple[str, ...], own: ServerTls, as_json: bool) -> None:
        """Serve the log to everybody, as a provider serves its ledger: observers follow it and cosign it.

        Entries are served, the signed verdicts are not. Audits go on meanwhile, and appear as they are issued.
        Ends on Ctrl-C or SIGTERM; SIGHUP takes renewed certificate files at once.
        """
        ignore_hangups()
        named = [named_log(one, "the witness key") for one in keys]
        if only_checked(as_json):
            return

        def ready(address: str) -> None:
            tell_result(as_json, {"listening": address}, f"listening on {address}")
            sys.stdout.flush()

        asyncio.run(run(_log(directory), directory, named, listen, own, ready))


def _log(directory: Path) -> VerdictLog:
    return VerdictLog(directory, State(directory).public_key, PATIENCE)


def _plain(entry: VerdictEntry | Rotation) -> dict[str, Any]:
    if isinstance(entry, Rotation):
        return {"turn": entry.number, "old_key": entry.old_key.hex(), "new_key": entry.new_key.hex()}
    return {
        "outcome": entry.outcome,
        "claimed": [plain(one) for one in entry.claimed],
        "window": entry.window,
        "origin": entry.origin,
        "manifest": entry.manifest[0].hex() if entry.manifest else None,
        "log": entry.log.hex(),
        "time": entry.time,
        "digest": entry.digest.hex(),
    }


def _line(number: int, entry: VerdictEntry | Rotation) -> str:
    """One entry for the terminal; names of others cannot add a line or steer it."""
    if isinstance(entry, Rotation):
        return f"{number:6}  {entry.says()}"
    shown = printable(f"{entry.window or '(no window)'} of {entry.origin}")
    return f"{number:6}  {when(entry.time)}  {found(entry.outcome, entry.claimed)}  {shown}  {entry.digest.hex()}"


def _write(path: Path | None, data: Callable[[], bytes]) -> None:
    if path is not None:
        try:
            write_durably(path, data())
        except OSError as error:
            raise ConfigurationError(f"cannot write {path}: {why(error, path)}") from None


async def run(
    kept: VerdictLog,
    state: Path,
    witnesses: list[NoteVerifier],
    listen: str,
    own: ServerTls,
    ready: Callable[[str], None],
) -> None:
    """Serve the log until SIGINT or SIGTERM; renewed certificate files are taken meanwhile.

    Raises:
        ConfigurationError: the address is taken or not allowed.
        LedgerError: the log cannot be read, or another process serves it.
    """
    public = PublicLog(await asyncio.to_thread(kept.live), live=True)
    folder = state / FOLDER / "witnesses"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = DirectoryLock(folder, "the served log of verdicts")
    try:
        server = new_server()
        LedgerServicer(public, CosignatureBook(folder, public, witnesses)).mount(server)
        healthy = health.Health(SERVICE)
        healthy.mount(server)
        certificates = Certificates(own)
        port = bind(server, listen, certificates.credentials(), own.plain)
        stop = asked_to_stop()
        await server.start()
        healthy.say(True)
        async with renewing(certificates):
            ready(str(Address.parse(listen, listening=True).at(port)))
            await stop.wait()
        await server.stop(_GRACE)
    finally:
        lock.release()
