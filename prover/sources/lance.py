# SPDX-License-Identifier: GPL-3.0-or-later
"""LanceDB: a table at one of its versions.

    lancedb:/data/lance?table=chunks&id=id&text=text&vector=vector&metadata=source

A snapshot is of one version, whatever is written meanwhile.  Its number is the mark: a table that still has it is not
read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.arrow import Unreadable, require_once, rows_of
from ragseal.prover.sources.interface import Item, Refused
from ragseal.prover.sources.reading import driver_errors, refused, take_row
from ragseal.prover.sources.spec import Columns, columns_of, need, need_driver, require_no_password, split

FORM = "lancedb:FOLDER?table=NAME&id=COLUMN&text=COLUMN&vector=COLUMN&metadata=COLUMN,..."
FETCH = 256


def open_at(location: str, vectors: bool, notes: Notes) -> LanceSource:
    """As :func:`ragseal.prover.sources.opening.open_source`."""
    place, options = split(location, ("table", "id", "text", "title", "vector", "metadata"), FORM)
    require_no_password(place, "LanceDB takes those of its storage from the environment")
    need_driver("lancedb", "sources-lancedb")
    if "://" not in place:
        if not Path(place).is_dir():  # the library would make one
            raise ConfigurationError(f"{place} is not a folder")
        place = str(Path(place).absolute())
    columns = columns_of(options, vectors, Columns(), "vector")
    return LanceSource(place, need("table", options, FORM), columns, notes)


class LanceSource:
    """A table.

    Raises:
        ConfigurationError: no such table or column.
        TransportError: it cannot be opened.
    """

    def __init__(self, place: str, table: str, columns: Columns, notes: Notes) -> None:
        import lancedb

        with driver_errors("LanceDB"):
            self._database = lancedb.connect(place)
            try:
                self._table = self._database.open_table(table)
            except (ValueError, FileNotFoundError):
                raise ConfigurationError(f"{place} holds no table {table!r}") from None
            known = self._table.schema.names
        self._columns, self._notes = columns, notes
        self._tops = [name if name in known else name.partition(".")[0] for name in columns.names()]
        missing = [name for name in self._tops if name not in known]
        if missing:
            raise ConfigurationError(f"table {table!r} has no column {missing[0]!r}; it has {', '.join(known[:20])}")
        require_once(known, f"table {table!r}")
        self._rest = [name for name in known if name not in self._tops]
        self._name = table
        self._identity = f"lancedb:{place}?table={table}&{columns.told()}"

    def identity(self) -> str:
        return self._identity

    def version(self) -> str:
        with driver_errors("LanceDB"):
            self._table.checkout_latest()
            return self._mark()

    def snapshot(self) -> tuple[Iterator[Item | Refused], str]:
        self._notes.begin(self._columns.metadata)
        with driver_errors("LanceDB"):
            self._table.checkout_latest()
            mark = self._mark()
            self._table.checkout(self._table.version)
        return self._read(), mark

    def _mark(self) -> str:
        """Number and time: a table that was dropped and made anew counts from 1 again."""
        number = self._table.version
        times: list[Any] = [v["timestamp"] for v in self._table.list_versions() if v["version"] == number]
        return f"{number} {times[0].isoformat() if times else ''}"

    def _read(self) -> Iterator[Item | Refused]:
        with driver_errors("LanceDB"):
            batches = self._table.search().select(list(dict.fromkeys(self._tops))).to_batches(batch_size=FETCH)
            number = 0
            for batch in batches:
                for row in rows_of(batch):
                    number += 1
                    where = f"row {number} of table {self._name!r}"
                    if isinstance(row, Unreadable):
                        yield refused(row.rest, self._columns, row.error(where))
                    else:
                        yield take_row(row, self._columns, where, self._notes, also=self._rest)

    def close(self) -> None:
        pass
