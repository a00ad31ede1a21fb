# SPDX-License-Identifier: GPL-3.0-or-later
"""Parquet: a file, or all *.parquet files of a folder, by name.

    parquet:chunks.parquet?id=id&text=text&vector=vector&metadata=source,title

A row group is decompressed at a time; one that says it is larger than a limit is refused before it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.prover.commitment.corpora import DEFAULT_LIMITS
from ragseal.prover.commitment.corpus_files import require_file
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.arrow import Unreadable, require_once, rows_of
from ragseal.prover.sources.interface import Item, Refused
from ragseal.prover.sources.reading import driver_errors, refused, take_row
from ragseal.prover.sources.spec import Columns, columns_of, need_driver, split
from ragseal.runtime.edges.filesystem import why

FORM = "parquet:FILE|FOLDER?id=COLUMN&text=COLUMN&vector=COLUMN&metadata=COLUMN,..."
FETCH = 256
GROUP_BYTES = 4 << 30  #: of a row group's columns that are read, decompressed


def open_at(location: str, vectors: bool, notes: Notes) -> ParquetSource:
    """As :func:`ragseal.prover.sources.opening.open_source`."""
    place, options = split(location, ("id", "text", "title", "vector", "metadata"), FORM)
    need_driver("pyarrow", "sources-parquet")
    columns = columns_of(options, vectors, Columns(), "vector")
    path = Path(place).absolute()
    return ParquetSource(parquet_files(path, notes), columns, f"parquet:{path}?{columns.told()}", notes)


def parquet_files(path: Path, notes: Notes) -> list[Path]:
    """A file itself, or those of a folder; links in it are skipped and noted.  ConfigurationError: there is none."""
    if not path.is_dir():
        return [path]
    found = []
    try:
        beside = sorted(path.iterdir())
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    for one in beside:
        if one.suffix != ".parquet" or one.is_dir():
            notes.passed_over(one.name + ("/" if one.is_dir() else ""))
        elif one.is_symlink():
            notes.skipped(one.name)
        elif one.is_file():
            found.append(one)
    if not found:
        raise ConfigurationError(f"{path} holds no .parquet files")
    return found


class ParquetSource:
    """Files with the same columns, as one table."""

    def __init__(self, files: list[Path], columns: Columns, identity: str, notes: Notes) -> None:
        self._files, self._columns, self._identity, self._notes = files, columns, identity, notes

    def identity(self) -> str:
        return self._identity

    def snapshot(self) -> tuple[Iterator[Item | Refused], str]:
        for path in self._files:
            require_file(path, DEFAULT_LIMITS)
        self._notes.begin(self._columns.metadata)
        return self._read(), ""

    def _read(self) -> Iterator[Item | Refused]:
        for path in self._files:
            with driver_errors(str(path)):
                yield from self._rows(path)

    def _rows(self, path: Path) -> Iterator[Item | Refused]:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            with parquet.ParquetFile(path, pre_buffer=False) as file:
                names, rest = self._named(path, file)
                number = 0
                for batch in file.iter_batches(FETCH, columns=names, use_threads=False):
                    for row in rows_of(batch):
                        number += 1
                        where = f"{path}, row {number}"
                        if isinstance(row, Unreadable):
                            yield refused(row.rest, self._columns, row.error(where))
                        else:
                            yield take_row(row, self._columns, where, self._notes, also=rest)
        except (FileNotFoundError, PermissionError) as error:
            raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise EncodingError(f"{path} is not a Parquet file that can be read: {str(error)[:200]}") from None

    def _named(self, path: Path, file: Any) -> tuple[list[str], list[str]]:
        """The top columns to read, after a look at what they would take, and those that are left."""
        known = file.schema_arrow.names
        require_once(known, str(path))
        names = [name if name in known else name.partition(".")[0] for name in self._columns.names()]
        missing = [name for name in names if name not in known]
        if missing:
            raise ConfigurationError(f"{path} has no column {missing[0]!r}; it has {', '.join(known[:20])}")
        for group in range(file.metadata.num_row_groups):
            told = file.metadata.row_group(group)
            chunks = [told.column(at) for at in range(told.num_columns)]
            size = sum(one.total_uncompressed_size for one in chunks if one.path_in_schema.partition(".")[0] in names)
            if size > GROUP_BYTES:
                raise EncodingError(
                    f"{path}: row group {group} takes {size} bytes, at most {GROUP_BYTES}; write smaller ones"
                )
        return list(dict.fromkeys(names)), [name for name in known if name not in names]

    def close(self) -> None:
        pass
