# SPDX-License-Identifier: GPL-3.0-or-later
"""A log as C2SP tlog-tiles have it: a folder of files that any static web server offers, and any such tool reads.

Source: c2sp.org/tlog-tiles.  A tile is up to 256 hashes of one level side by side, level L those of perfect subtrees of
256^L leaves; a bundle is the up to 256 entries below one tile of level 0, each with its length in two bytes.  Files of
256 never change; what the log's end leaves over has its width in its name.

:class:`TileFolder` fetches a log, hashes every entry again, and puts a file in its place only once the log's signed
root follows from all of them; the checkpoint goes last, so at every moment it is covered by what stands there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ragseal.kernel.errors import ConfigurationError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint, SignedCheckpoint, open_checkpoint, recall
from ragseal.ledger.learning import keep_turns, learn, load_turns, refuse_unknown_turn
from ragseal.ledger.merkle import HASH_SIZE, Frontier, leaf_hash, node_hash
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.observer import PAGE, Progress
from ragseal.ledger.witness import UnprovenError
from ragseal.runtime.durable import DirectoryLock, write_durably
from ragseal.runtime.edges.filesystem import why

WIDTH = 256  #: hashes of a full tile
LEVELS = 8  #: sizes are below 2^63
_SIZES, _STAGING, _CHECKPOINT = ".sizes.json", ".staging", "checkpoint"
TURNS = ".turns"  #: of the log's key, as they were found


def tile_path(level: int | str, number: int, width: int = WIDTH) -> str:
    """Where a tile lies, or with level "entries" a bundle: ``tile/0/x001/x234/067``, with ``.p/8`` if it is partial."""
    groups = [f"{number % 1000:03}"]
    while number := number // 1000:
        groups.insert(0, f"x{number % 1000:03}")
    return f"tile/{level}/{'/'.join(groups)}{'' if width == WIDTH else f'.p/{width}'}"


def bundle(entries: Sequence[bytes]) -> bytes:
    """Entries as one file.  EncodingError: one has more than 65,535 bytes."""
    try:
        return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)
    except OverflowError:
        raise EncodingError("a bundle's entries have at most 65535 bytes") from None


def partial_paths(size: int) -> set[str]:
    """The partial files of a log of so many entries."""
    found = {tile_path(level, size >> 8 * (level + 1), width) for level, width in _widths(size) if width}
    if size % WIDTH:
        found.add(tile_path("entries", size // WIDTH, size % WIDTH))
    return found


def _widths(size: int) -> Iterator[tuple[int, int]]:
    """Of every level, how many hashes are in no full tile."""
    for level in range(LEVELS):
        yield level, (size >> 8 * level) % WIDTH


def perfect_root(hashes: Sequence[bytes]) -> bytes:
    """The root above a power of two of hashes, such as a full tile's."""
    level = list(hashes)
    while len(level) > 1:
        level = [node_hash(level[i], level[i + 1]) for i in range(0, len(level), 2)]
    return level[0]


@dataclass(slots=True)
class _Growing:
    """The end of a log as tiles: of every level the hashes that no full tile has yet."""

    size: int = 0
    open: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(LEVELS)])
    entries: list[bytes] = field(default_factory=list)

    def frontier(self) -> Frontier:
        roots: list[bytes] = []
        for hashes in reversed(self.open):
            level = Frontier()
            for node in hashes:
                level.add(node)
            roots += level.roots
        return Frontier(self.size, roots)

    def add(self, entry: bytes) -> Iterator[tuple[str, bytes]]:
        """Append one entry; yields the files that became full with it."""
        number = self.size // WIDTH
        self.size += 1
        self.entries.append(entry)
        if len(self.entries) == WIDTH:
            yield tile_path("entries", number), bundle(self.entries)
            self.entries.clear()
        node = leaf_hash(entry)
        for level, hashes in enumerate(self.open):
            hashes.append(node)
            if len(hashes) < WIDTH:
                return
            yield tile_path(level, (self.size >> 8 * (level + 1)) - 1), b"".join(hashes)
            node = perfect_root(hashes)
            hashes.clear()

    def rest(self) -> Iterator[tuple[str, bytes]]:
        """The partial files."""
        if self.entries:
            yield tile_path("entries", self.size // WIDTH, len(self.entries)), bundle(self.entries)
        for level, hashes in enumerate(self.open):
            if hashes:
                yield tile_path(level, self.size >> 8 * (level + 1), len(hashes)), b"".join(hashes)


class TileSource(Protocol):
    """Where a log is read from: :class:`ragseal.ledger.remote.RemoteLedger`, or a copy."""

    async def rotations(self) -> list[bytes]: ...

    async def checkpoint(self) -> bytes: ...

    async def cosigned(self) -> bytes | None: ...

    async def entries(self, start: int, count: int) -> list[bytes]: ...


class TileFolder:
    """A folder with one log's tiles, of one program at a time; :meth:`update` brings it up to the log.

    Raises:
        ConfigurationError: the folder cannot be made.
        LedgerError: another program updates it.
    """

    def __init__(self, directory: Path, log: NoteVerifier) -> None:
        self._directory, self._log = directory, load_turns(directory / TURNS, log)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot make {directory}: {why(error, directory)}") from None
        self._lock = DirectoryLock(directory, f"the tiles in {directory}")

    def close(self) -> None:
        self._lock.release()

    def known(self) -> SignedCheckpoint | None:
        """What the folder's checkpoint says; None before the first update.

        Raises:
            ConfigurationError: unreadable, or of another log.
        """
        path = self._directory / _CHECKPOINT
        try:
            return recall(path.read_bytes(), self._log)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
        except (EncodingError, LedgerError) as error:
            raise ConfigurationError(f"{path} is damaged, or another log's ({error}): export to a new folder") from None

    async def update(self, remote: TileSource, cosigned: bool = False, progress: Progress | None = None) -> Checkpoint:
        """Fetch what is new, and put it in place once the log's signature covers it.

        Args:
            cosigned: up to the newest size that a named witness cosigned, whose note has the witness's line.

        Raises:
            UnprovenError: entries that do not give the signed root, or do not continue what stands here; an old note.
            LedgerError: a note that is not the log's, or no cosigned one where one is wanted.
            ConfigurationError: the disk refuses, or what stands here is damaged.
            TransportError: the log cannot be reached.
        """
        note = await remote.cosigned() if cosigned else await remote.checkpoint()
        if note is None:
            raise LedgerError(f"no named witness has cosigned {self._log.name} yet: export without --cosigned")
        found = await learn(remote, note, self._log)
        newer, older = open_checkpoint(note, found).checkpoint, self.known()
        before = older.checkpoint if older else None
        if before is not None and newer.size < before.size:
            raise UnprovenError(f"{newer.origin} shows {newer.size} entries, {before.size} stand here: ask again")
        with self._staged() as staging:
            growing = self._resume(before.size if before else 0)
            while growing.size < newer.size:
                for entry in await remote.entries(growing.size, min(PAGE, newer.size - growing.size)):
                    refuse_unknown_turn(found, growing.size, entry)
                    self._write(staging, growing.add(entry))
                    if before is not None and growing.size == before.size:
                        self._check(growing, before)
                if progress is not None:
                    progress(growing.size, newer.size)
            self._check(growing, newer)
            if len(found.keys) > len(self._log.keys):  # it continues what stands here
                keep_turns(self._directory / TURNS, found, 0o644)
                self._log = found
            self._write(staging, growing.rest())
            self._place(staging, newer.size, note)
        return newer

    def _check(self, growing: _Growing, point: Checkpoint) -> None:
        if growing.frontier().root() != point.root:
            raise UnprovenError(
                f"the entries up to {point.size} do not give the root that {point.origin} signed: ask again; if that "
                "does not help, export to a new folder, and follow the log with `ragseal-observer follow`"
            )

    def _resume(self, size: int) -> _Growing:
        """The end of the log that stands here, as of its last full bundle: the rest is fetched, and hashed, again."""
        whole = size - size % WIDTH
        growing = _Growing(whole)
        for level, width in _widths(whole):
            if width and level:
                path = self._directory / tile_path(level, whole >> 8 * (level + 1), width)
                try:
                    data = path.read_bytes()
                except OSError as error:
                    raise ConfigurationError(f"cannot read {path} ({why(error)}): export to a new folder") from None
                if len(data) != width * HASH_SIZE:
                    raise ConfigurationError(f"{path} is damaged: export to a new folder")
                growing.open[level] = [data[i : i + HASH_SIZE] for i in range(0, len(data), HASH_SIZE)]
        return growing

    # --- files ---

    @contextmanager
    def _staged(self) -> Iterator[Path]:
        """A folder for files that nothing covers yet."""
        staging = self._directory / _STAGING
        try:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            yield staging
        except OSError as error:
            raise ConfigurationError(f"cannot write below {self._directory}: {why(error, self._directory)}") from None
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    @staticmethod
    def _write(staging: Path, files: Iterator[tuple[str, bytes]]) -> None:
        for name, data in files:
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def _place(self, staging: Path, size: int, note: bytes) -> None:
        """Files first, then the checkpoint, then away with partial ones that neither it nor the last one needs."""
        for path in sorted(staging.rglob("*")):
            if path.is_file():
                target = self._directory / path.relative_to(staging)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
        write_durably(self._directory / _CHECKPOINT, note)
        sizes = self._sizes()
        kept = [*sizes[-1:], size] if sizes[-1:] != [size] else sizes[-2:]
        for old in set(sizes) - set(kept):
            for name in partial_paths(old) - {one for other in kept for one in partial_paths(other)}:
                (self._directory / name).unlink(missing_ok=True)
        write_durably(self._directory / _SIZES, json.dumps(kept).encode())

    def _sizes(self) -> list[int]:
        """The last two sizes that stood here; none if nobody knows."""
        try:
            found = json.loads((self._directory / _SIZES).read_bytes())
        except (OSError, ValueError, RecursionError):
            return []
        return found if isinstance(found, list) and all(type(one) is int and one >= 0 for one in found) else []
