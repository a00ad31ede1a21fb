# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal-observer: follow a provider's public ledger, cosign it, show it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError
from ragseal.ledger.auditors import NamedAuditors, is_claim
from ragseal.ledger.beacon_command import beacon
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.entries import describe
from ragseal.ledger.learning import keep_turns, learn
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.ledger.named_log import named_log
from ragseal.ledger.note import COSIGNATURE, NoteSigner, check_name
from ragseal.ledger.observer import AlarmError, Observer, Step
from ragseal.ledger.options import (
    Peer,
    clock,
    interval_option,
    json_option,
    open_witness,
    peer_options,
    plain_errors,
    progress_lines,
    signer_of,
    state_option,
    witness_policy_option,
)
from ragseal.ledger.page import Site
from ragseal.ledger.policy import Policy
from ragseal.ledger.probe.command import plant, probe
from ragseal.ledger.public_files import PublicFiles
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.tiles import TileFolder
from ragseal.ledger.witness_command import witness
from ragseal.runtime.doctor_command import doctor_command
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.face import counted
from ragseal.runtime.hosts import refusal
from ragseal.runtime.http_server import HttpServer, Request, Response
from ragseal.runtime.keyfile import save_key
from ragseal.runtime.logs import log_to_stderr
from ragseal.runtime.terminal import CONTEXT, Teaching, version


@click.group(cls=Teaching, context_settings=CONTEXT)
@version("ragseal-observer")
def main() -> None:
    """Watch a provider's public ledger.

    Anyone can be an observer. An observer checks that the ledger only ever grows and that the entries are those under
    the provider's signature, cosigns what it checked (so that no account can be shown another history), and raises an
    alarm with evidence otherwise.

    \b
    Start like this:
      ragseal-observer keygen --name observer.example
      ragseal-observer follow --provider 127.0.0.1:7800 --log-key KEY --once
      ragseal-observer page   --provider 127.0.0.1:7800 --log-key KEY --http 8080

    KEY is the log's public key as its provider publishes it (name+id+base64). Do not take it from the
    provider's server. Exit status: 0 all well, 1 something failed, 2 wrong usage, 3 alarm.
    """


@main.command(short_help="Make this observer's key")
@plain_errors
@click.option("--name", required=True, help="Name of this observer: a domain or path of yours, without spaces or plus.")
@state_option
@json_option
def keygen(name: str, state: Path, as_json: bool) -> None:
    """Make this observer's key (once).

    Prints the public key. Give it to everybody who is to rely on your cosignatures.
    """
    check_name(name)
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make {state}: {why(error, state)}") from None
    key = Ed25519PrivateKey.generate()
    signer = NoteSigner(name, key, COSIGNATURE)
    if (state / "key.pem").exists():
        known = signer_of(state).verifier.vkey()  # shown once, and perhaps not seen
        raise ConfigurationError(
            f"{state / 'key.pem'} exists, a key is never overwritten: choose another --state. Its public key is {known}"
        )
    try:
        write_durably(state / "name", f"{name}\n".encode())  # before the key, which is made once
    except OSError as error:
        raise ConfigurationError(f"cannot write {state / 'name'}: {why(error, state / 'name')}") from None
    save_key(state / "key.pem", key)
    raw = key.public_key().public_bytes_raw().hex()
    if as_json:
        values = {"name": name, "vkey": signer.verifier.vkey(), "beacon_key": raw, "key_file": str(state / "key.pem")}
        click.echo(json.dumps(values))
    else:
        click.echo(f"Key written to {state / 'key.pem'}. Public key of this observer:\n{signer.verifier.vkey()}")
        click.echo(f"The same for a provider's beacon (`ragseal-provider serve --observer NAME=KEY`):\n{raw}")


@main.command(short_help="Verify the ledger and cosign it")
@plain_errors
@peer_options
@state_option
@click.option("--once", is_flag=True, help="Look once and stop.")
@interval_option
@witness_policy_option
@json_option
def follow(peer: Peer, state: Path, once: bool, interval: float, witness_policy: Path | None, as_json: bool) -> None:
    """Verify the ledger, cosign it, and go on watching.

    Every look checks the log's signature, that it continues what was seen before, and hashes every new entry. After an
    alarm nothing is cosigned until you have moved the evidence folder away.
    """

    log_to_stderr()
    policy = None if witness_policy is None else Policy.load(witness_policy).of(peer.log)

    async def run() -> None:
        async with peer.connect() as remote:
            with open_witness(state) as witness:
                observer = Observer(remote, peer.log, state, witness, time.time, policy)
                while True:
                    await look(observer, as_json, once)
                    if once:
                        return
                    await asyncio.sleep(interval)

    asyncio.run(run())


async def look(observer: Observer, as_json: bool, strict: bool) -> None:
    """One look, reported; with ``strict`` what fails is raised, otherwise only alarms are."""
    try:
        step = await observer.step(progress_lines("hashed", "entries"))
    except AlarmError as error:
        if as_json:
            click.echo(json.dumps({"alarm": str(error), "evidence": str(error.folder)}))
        raise
    except AuditError as error:
        if strict:
            raise
        click.echo(f"{clock()} not checked: {error}", err=True)
        if not isinstance(error, TransportError):
            click.echo("  (no contradiction is proven by that; nothing was cosigned)", err=True)
        return
    click.echo(json.dumps(asdict(step)) if as_json else in_words(step))


def in_words(step: Step) -> str:
    """One line about a look."""
    growth = "first contact" if step.first_contact else f"{step.new_entries} new since the last look"
    delivery = "cosignature delivered" if step.delivered else f"cosignature NOT delivered: {step.delivery}"
    size = counted(step.size, "entry", "entries")
    return f"{clock()} {step.origin}: consistent, {size} ({growth}), all hashed; {delivery}"


@main.command(short_help="Show entries that are proven to be there")
@plain_errors
@peer_options
@click.argument("index", type=click.IntRange(min=0), required=False)
@click.option("--start", type=click.IntRange(min=0), help="First entry (default: the last ones).")
@click.option("--count", type=click.IntRange(min=1), default=10, show_default=True, help="How many entries.")
@json_option
def show(peer: Peer, index: int | None, start: int | None, count: int, as_json: bool) -> None:
    """Show entries, each with its inclusion in the signed ledger checked.

    With INDEX one entry (counted from 0), otherwise --count entries from --start, otherwise the last ones.
    """

    async def run() -> None:
        async with peer.connect() as remote:
            note = await remote.checkpoint()
            point = open_checkpoint(note, await learn(remote, note, peer.log)).checkpoint
            first, many = (index, 1) if index is not None else (start, count)
            if first is None:
                first = max(0, point.size - many)
            if not as_json:
                held = counted(point.size, "entry", "entries")
                click.echo(f"{point.origin}: {held}, root {point.root.hex()}, signature good")
            tell = progress_lines("checked", "entries")
            end, at = min(first + many, point.size), first
            auditors = NamedAuditors(peer.log)
            if index is not None and at >= end:
                raise ConfigurationError(f"there is no entry {index}: the log has {point.size}")
            while at < end:
                for entry in await remote.entries(at, end - at):
                    path = await remote.inclusion(at, point.size)
                    verify_inclusion(leaf_hash(entry), at, point.size, path, point.root)
                    if is_claim(entry):
                        await auditors.read(remote, point)
                    view = {"index": at, **describe(entry, auditors)}
                    click.echo(json.dumps(view) if as_json else entry_lines(view))
                    at += 1
                    tell(at - first, end - first)

    asyncio.run(run())


def entry_lines(view: dict[str, Any]) -> str:
    """One entry for the terminal; its fields below it."""
    lines = [f"{view['index']:>8}  {view['type']}  {view['bytes']} bytes  {view['leaf_hash']}  included"]
    if "says" in view:
        lines.append(f"          {view['says']}")
    lines += [f"          {name} = {json.dumps(value)}" for name, value in view.get("fields", {}).items()]
    if "problem" in view:
        lines.append(f"          not decoded: {json.dumps(view['problem'])}")
    return "\n".join(lines)


@main.command(short_help="Serve a web page of the ledger")
@plain_errors
@peer_options
@state_option
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Write the page to this folder and stop.")
@click.option("--http", "port", type=click.IntRange(0, 65535), help="Serve it on this port of 127.0.0.1 and follow.")
@click.option("--host", "hosts", multiple=True, metavar="NAME",
              help="With --http: a name by which a proxy in front is called (repeat); others are refused.")  # fmt: skip
@click.option("--files", type=click.Path(path_type=Path, file_okay=False),
              help="With --http: folder of tiles, kept up to date here, and proofs (`ragseal-provider proofs export`), "
                   "served beside the page.  [default: public, in the state folder]")  # fmt: skip
@click.option("--witness", "keys", multiple=True, metavar="KEY", help="Public key of another witness (repeat).")
@interval_option
def page(
    peer: Peer,
    state: Path,
    out: Path | None,
    port: int | None,
    hosts: tuple[str, ...],
    files: Path | None,
    keys: tuple[str, ...],
    interval: float,
) -> None:
    """A web page that shows the ledger and verifies it again in the visitor's browser.

    With --out, static files for any web server (run it again to update). With --http, served here, as a whole public
    site: the log's tiles and the proofs of its windows lie beside the page, so a browser can check a window.
    """
    if (out is None) == (port is None):
        raise click.UsageError("give either --out FOLDER or --http PORT")
    if files is not None and port is None:
        raise click.UsageError("--files goes with --http: with --out, export tiles and proofs into that folder")
    if hosts and port is None:
        raise click.UsageError("--host goes with --http: what serves the folder of --out goes by its own names")
    names = frozenset(name.lower() for name in hosts)
    witnesses = [named_log(key, "the witness key") for key in keys]

    log_to_stderr()

    async def run() -> None:
        async with peer.connect() as remote:
            with open_witness(state) as witness:
                observer = Observer(remote, peer.log, state, witness, time.time)
                site = Site(observer, remote, peer.log, witnesses)
                try:
                    await look(observer, False, strict=True)
                except AlarmError as error:
                    if observer.remembered() is None:
                        raise
                    click.echo(f"ALARM: {error}\nThe page shows it.", err=True)
                if out is not None:
                    size = await site.write(out, progress_lines("fetched", "entries"))
                    click.echo(
                        f"Page with {counted(size, 'record')} written to {out}. Serve that folder with any web server."
                    )
                    return
                folder = files if files is not None else state / "public"
                tiles = TileFolder(folder, peer.log)
                try:
                    await renew(tiles, remote, observer)
                    public = PublicFiles(folder, site.handle)

                    async def answer(request: Request) -> Response:
                        return refusal(request, names) or await public.handle(request)

                    server = HttpServer(answer)
                    address = await server.start(f"127.0.0.1:{port or 0}")
                    click.echo(f"Serving http://{address}/ (Ctrl-C stops)")
                    while True:
                        await asyncio.sleep(interval)
                        with contextlib.suppress(AlarmError):  # the page shows it
                            await look(observer, False, strict=False)
                        await renew(tiles, remote, observer)
                finally:
                    tiles.close()

    asyncio.run(run())


async def renew(tiles: TileFolder, remote: RemoteLedger, observer: Observer) -> None:
    """Bring the tiles up to the log; what fails is said.  After an alarm they stay as they are."""
    if observer.alarm() is not None:
        return
    try:
        await tiles.update(remote)
    except AuditError as error:
        click.echo(f"{clock()} tiles not renewed: {error}", err=True)


@main.command(short_help="Write down which keys the log has had")
@plain_errors
@peer_options
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True,
              help="File for the turns; it is written where there are any.")  # fmt: skip
@json_option
def turns(peer: Peer, out: Path, as_json: bool) -> None:
    """Write down which keys the log has turned to, for a witness (`witness --turns`).

    Every entry is hashed to the newest note's root, and each turn checked: in its place, signed by both keys.
    """

    async def run() -> None:
        async with peer.connect() as remote:
            note = await remote.checkpoint()
            found = await learn(remote, note, peer.log)
            point = open_checkpoint(note, found).checkpoint
            if len(found.keys) > 1:
                keep_turns(out, found, 0o644)
            values = {"origin": point.origin, "turns": len(found.keys) - 1, "signing_key": found.keys[-1].vkey()}
            said = f"{point.origin}: {len(found.keys) - 1} turns of its key; it is signed by\n{found.keys[-1].vkey()}"
            click.echo(json.dumps(values) if as_json else said)

    asyncio.run(run())


@main.command(short_help="Write the ledger as static files")
@plain_errors
@peer_options
@click.option(
    "--tiles",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the files: new, or of an earlier export.",
)
@click.option("--cosigned", is_flag=True, help="Up to the newest size that a named witness cosigned, with its line.")
@click.option("--once/--follow", default=True, help="Export once, or go on.  [default: once]")
@interval_option
@json_option
def export(peer: Peer, tiles: Path, cosigned: bool, once: bool, interval: float, as_json: bool) -> None:
    """Write the ledger as static files, in the format of C2SP tlog-tiles.

    Any web server can offer the folder, and any tool for such logs reads it: checkpoint, tile/<level>/<number>,
    tile/entries/<number>. Every entry is hashed, and a file is put in place only once the log's signed root follows
    from all of them. Let `checkpoint` be asked for anew each time; full tiles never change.
    """
    log_to_stderr()

    async def run() -> None:
        async with peer.connect() as remote:
            folder = TileFolder(tiles, peer.log)
            try:
                while True:
                    try:
                        point = await folder.update(remote, cosigned, progress_lines("hashed", "entries"))
                    except AuditError as error:
                        if once:
                            raise
                        click.echo(f"{clock()} not exported: {error}", err=True)
                    else:
                        values = {"origin": point.origin, "size": point.size, "root": point.root.hex()}
                        said = f"{clock()} {point.origin}: {counted(point.size, 'entry', 'entries')} in {tiles}"
                        click.echo(json.dumps(values) if as_json else said)
                    if once:
                        return
                    await asyncio.sleep(interval)
            finally:
                folder.close()

    asyncio.run(run())


main.add_command(beacon)
main.add_command(witness)
main.add_command(plant)
main.add_command(probe)
main.add_command(doctor_command(state_option, "state", "--provider", serves=True))


if __name__ == "__main__":
    gc.freeze()  # what is loaded lives until the end: no collection, nor the last one, walks through it
    main()
