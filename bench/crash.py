# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at random moments of a provider and an observer, with accounts asking all the while.

``python -m bench.crash --rounds 1000`` is the nightly run, the tests run 8 rounds of the same code, and 30.  A round
starts the provider, lets accounts ask, and kills it at a random moment, in some rounds while it is still starting.  The
observer lives through several rounds and is killed at moments of its own.  After every start:

- every acknowledged entry is there with the same bytes, under a root that never changed;
- no request id has two records, seq and ctr have no gap;
- every note that was ever signed, in receipts or polled while the provider ran, is of one history;
- a request that was cut off is finished, and an answer that was given is given again with the same bytes;
- the observer remembers, has cosigned nothing but that history, and raises no alarm.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from bench.asker import Asker, open_window, provider_stub, retrieve
from bench.book import Book, require
from bench.classes import QUICK
from bench.experiment import machine, save
from bench.process import Process, child_environment
from bench.scene import QUERIES, ROOT, TableEmbedder, account_key, account_names, make_state, table_path
from ragseal.demo.processes import command, free_port
from ragseal.embedder import quantise
from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.errors import AttestationError, AuditError, TransportError
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.note import COSIGNATURE, NoteSignature, NoteSigner, NoteVerifier
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.witness import Witness, state_name
from ragseal.prover.fsck import fsck
from ragseal.prover.storage.state import Settings
from ragseal.runtime.keyfile import load_key
from ragseal.runtime.rpc import open_channel

RESULT = ROOT / "bench" / "results" / "crash.json"
ACCOUNTS, N_MAX = 8, 1_000_000
ROUNDS_A_STATE = 100  #: then a fresh ledger: replaying a long one at every start would be most of the work
EARLY = 0.15  #: share of rounds in which the provider is killed before it is ready
LIFE = 0.8  #: seconds that a provider lives at most once it is ready
OBSERVER_KILLED = 0.4  #: share of rounds in which the observer is killed


@dataclass
class Tally:
    """What happened, so that a run that tested nothing is seen to have tested nothing."""

    rounds: int = 0
    killed_while_starting: int = 0
    observer_kills: int = 0
    acknowledged: int = 0  #: answers that accounts got
    cut_off: int = 0  #: requests signed, and unanswered when the provider was killed
    cut_off_recorded: int = 0  #: of those: the record was in the ledger
    given_again: int = 0  #: answers asked for once more: the same bytes
    notes: int = 0  #: signed notes held against the book
    cosignatures: int = 0
    entries: int = 0
    seconds: float = 0.0
    start_seconds: list[float] = field(default_factory=list)


class Watcher:
    """The observer's process, killed and started again on one folder."""

    def __init__(self, folder: Path, address: str, log: NoteVerifier) -> None:
        self.folder, self.address, self.log = folder, address, log
        self.popen: subprocess.Popen[bytes] | None = None
        self.seen = 0
        made = subprocess.run(
            command("ledger", "keygen", "--state", str(folder), "--name", "observer.example"),
            capture_output=True,
            cwd=ROOT,
            env=child_environment(),
        )
        require(made.returncode == 0, made.stderr.decode())

    def start(self) -> None:
        line = command("ledger", "follow", "--state", str(self.folder), "--provider", self.address)
        with open(self.folder.parent / "observer.log", "ab") as log:
            line += ["--log-key", self.log.vkey(), "--interval", "1"]
            self.popen = subprocess.Popen(line, stdout=log, stderr=log, cwd=ROOT, env=child_environment())

    def running(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def kill(self) -> None:
        if self.popen is not None:
            with contextlib.suppress(ProcessLookupError):
                self.popen.send_signal(signal.SIGKILL)
            self.popen.wait()

    def check(self, book: Book) -> None:
        """Its memory holds, never goes back, and is of the one history; it raised no alarm."""
        if self.popen is not None and self.popen.poll() not in (None, -signal.SIGKILL):
            text = (self.folder.parent / "observer.log").read_text(errors="replace")[-1500:]
            require(False, f"the observer ended with {self.popen.returncode}: {text}")
        name = (self.folder / "name").read_text().strip()
        signer = NoteSigner(name, load_key(self.folder / "key.pem"), COSIGNATURE)
        require(not list(self.folder.glob("alarm-*")), "the observer raised an alarm")
        if self.running():
            path = self.folder / state_name(self.log.name)
            if path.exists():
                note = path.read_bytes()
                book.check_note(note)
                self._not_back(open_checkpoint(note, self.log).checkpoint.size)
            return
        witness = Witness(self.folder, signer)
        try:
            seen = witness.remembered(self.log)
            if seen is not None:
                book.check_note(seen.note.encode())
                self._not_back(seen.checkpoint.size)
        finally:
            witness.close()

    def _not_back(self, size: int) -> None:
        require(size >= self.seen, f"the observer forgot: it remembered {self.seen} entries, now {size}")
        self.seen = size


class Run:
    """One state folder with its provider, observer and accounts."""

    def __init__(self, folder: Path, dice: random.Random, tally: Tally) -> None:
        self.dice, self.tally, self.state = dice, tally, folder / "state"
        make_state(self.state, QUICK, ACCOUNTS, N_MAX)
        origin = Settings.load(self.state / "provider.toml").origin
        log = NoteSigner(origin, load_key(self.state / "log.pem")).verifier
        self.book = Book(log)
        self.address = f"127.0.0.1:{free_port()}"
        self.watcher = Watcher(folder / "observer", self.address, log)
        embedder = TableEmbedder(table_path())
        self.vectors = [e.tobytes() for e in quantise(embedder.embed(QUERIES))]
        self.signed: SignedManifest | None = None
        self.askers: list[Asker] = []
        self.notes: list[bytes] = []
        self.checked: list[int] = []  #: how many answers of each asker are in the book
        self.start_seconds = 1.5

    # --- one round ---

    async def round(self, kill: bool = True) -> None:
        """Start, check, ask, kill.  Without ``kill`` every request is finished and the provider stops cleanly."""
        self.tally.rounds += 1
        early = kill and bool(self.askers) and self.dice.random() < EARLY
        if not self.watcher.running():
            self.watcher.start()
        began = time.monotonic()
        with Process(self.state, "--listen", self.address) as process:
            if early:
                await asyncio.sleep(self.dice.uniform(0, self.start_seconds))
                process.kill()
                self.tally.killed_while_starting += 1
                return
            await asyncio.to_thread(process.wait_until_ready)
            self.start_seconds = time.monotonic() - began
            self.tally.start_seconds.append(round(self.start_seconds, 3))
            channel = open_channel(self.address)
            try:
                await self._live(process, channel, kill)
            finally:
                await channel.close()

    async def _live(self, process: Process, channel: object, kill: bool) -> None:
        stub, remote = provider_stub(channel), RemoteLedger(channel)
        if not self.askers:
            self.signed = await open_window(stub)
            self.askers = [Asker(name, account_key(name), self.signed, 20.0) for name in account_names(ACCOUNTS)]
            self.checked = [0] * ACCOUNTS
            for asker in self.askers:
                await asker.introduce(stub)
        await self._check(remote, stub)
        ending = asyncio.Event()
        work = [asyncio.create_task(self._ask(asker, stub, ending, i)) for i, asker in enumerate(self.askers)]
        work.append(asyncio.create_task(self._poll(remote, ending)))
        life = self.dice.uniform(0.0, LIFE)
        observer_dies = self.dice.uniform(0.0, life) if kill and self.dice.random() < OBSERVER_KILLED else None
        if observer_dies is not None:
            await asyncio.sleep(observer_dies)
            self.watcher.kill()
            self.tally.observer_kills += 1
            life -= observer_dies
        await asyncio.sleep(life)
        if kill:
            process.kill()
        ending.set()
        await asyncio.gather(*work)
        if not kill:
            for asker in self.askers:
                if asker.signed is not None:
                    await self._finish(asker, stub)
            await self._check(remote, stub)
            await self.book.read_again(remote)
            await self._cosignatures(remote)
            require(process.stop() == 0, "the provider does not stop cleanly")

    async def _ask(self, asker: Asker, stub: object, ending: asyncio.Event, number: int) -> None:
        """Ask until the provider is gone; what is signed stays for the next round."""
        while not ending.is_set():
            which = (number + len(asker.kept)) % len(QUERIES)
            try:
                if asker.signed is not None:
                    await self._finish(asker, stub)
                else:
                    await asker.ask(stub, QUERIES[which], self.vectors[which])
            except TransportError:
                return

    async def _finish(self, asker: Asker, stub: object) -> None:
        try:
            await asker.finish(stub)
        except AttestationError as error:
            if "send Prepare first" not in str(error):
                raise
            await asker.prepare_again(stub)
            await asker.finish(stub)

    async def _poll(self, remote: RemoteLedger, ending: asyncio.Event) -> None:
        """Checkpoints as anybody may see them while entries come in."""
        while not ending.is_set():
            try:
                self.notes.append(await remote.checkpoint())
            except TransportError:
                return
            await asyncio.sleep(0.02)

    # --- what must hold ---

    async def _check(self, remote: RemoteLedger, stub: object) -> None:
        """After a start, before anything new is asked."""
        tally, book = self.tally, self.book
        before = sum(a.signed is not None for a in self.askers)
        await book.follow(remote)
        for note in self.notes:
            book.check_note(note)
        tally.notes += len(self.notes)
        self.notes.clear()
        places = {(r.signed.request.account, r.signed.request.ctr): r for r in book.records.values()}
        for at, asker in enumerate(self.askers):
            for kept in asker.kept[self.checked[at] :]:
                book.check_answer(kept)
                tally.acknowledged += 1
                tally.notes += 1
            self.checked[at] = len(asker.kept)
            recorded = (asker.pseudonym, len(asker.kept) + 1) in places
            require(not recorded or asker.signed is not None, f"{asker.name}: a record of no request")
            if asker.signed is not None:
                tally.cut_off += 1
                tally.cut_off_recorded += recorded
            if asker.kept:
                kept = self.dice.choice(asker.kept[-20:])
                again = await retrieve(stub, kept.sent, kept.proof)
                require(again == kept.received, f"{asker.name}: other bytes for a request that was answered")
                tally.given_again += 1
        require(before == sum(a.signed is not None for a in self.askers), "the harness lost a request")
        self.watcher.check(book)
        tally.entries = len(book.entries)

    async def _cosignatures(self, remote: RemoteLedger) -> None:
        """Every cosignature is over the one history."""
        at = 0
        while found := await remote.cosignatures(at, 100):
            for size, vkey, line in found:
                root = self.book.roots[size]
                text = Checkpoint(self.book.log.name, size, root).text()
                NoteVerifier.from_vkey(vkey).verify(text, NoteSignature.parse(line))
                self.tally.cosignatures += 1
            at += len(found)

    def fsck(self) -> None:
        """The folder that all those kills left is sound."""
        report = fsck.examine_folder(self.state, whole=True)
        require(not report.findings, f"fsck: {'; '.join(report.findings)}")
        require(report.checked["records"] == len(self.book.records), "fsck saw other records than the book")

    def close(self) -> None:
        self.watcher.kill()


def run(rounds: int, seed: int, folder: Path, show: bool = False) -> Tally:
    """All rounds; BookError, with the round in it, when something happened that must not."""
    dice, tally, began = random.Random(seed), Tally(), time.monotonic()

    async def some(number: int, count: int) -> None:
        one = Run(folder / f"run-{number}", dice, tally)
        try:
            for _ in range(count):
                await one.round()
                if show and tally.rounds % 10 == 0:
                    click.echo(f"  {tally.rounds} rounds, {tally.acknowledged} answers", err=True)
            await one.round(kill=False)
            one.fsck()
        finally:
            one.close()

    try:
        for number, first in enumerate(range(0, rounds, ROUNDS_A_STATE)):
            (folder / f"run-{number}").mkdir(parents=True)
            asyncio.run(some(number, min(ROUNDS_A_STATE, rounds - first)))
    except (AuditError, AssertionError) as error:
        raise type(error)(f"round {tally.rounds} of seed {seed}: {error}") from error
    tally.seconds = round(time.monotonic() - began, 1)
    return tally


@click.command()
@click.option("--rounds", default=1000, show_default=True)
@click.option("--seed", type=int, help="Of the random moments; default: a new one.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the folders here.")
def main(rounds: int, seed: int | None, keep: Path | None) -> None:
    """Kill provider and observer ROUNDS times and write bench/results/crash.json."""
    chosen = int.from_bytes(os.urandom(4), "big") if seed is None else seed
    click.echo(f"{rounds} rounds with seed {chosen}", err=True)
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tally = run(rounds, chosen, folder, show=True)
    found = {"machine": machine(), "seed": chosen, **asdict(tally)}
    save(RESULT, found)
    click.echo(json.dumps({k: v for k, v in found.items() if k not in ("machine", "start_seconds")}, indent=1))


if __name__ == "__main__":
    main()
