# SPDX-License-Identifier: GPL-3.0-or-later
"""VDF, the format that vector-io exports many engines to: a folder with VDF_META.json and Parquet files.

    vdf:export-folder?index=docs&text=text&metadata=source

Index and namespace may be left out where there is one.  Files are looked up inside the folder only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.prover.commitment.corpus_files import inside
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.parquet import ParquetSource, parquet_files
from ragseal.prover.sources.spec import Columns, columns_of, need_driver, split
from ragseal.runtime import texts
from ragseal.runtime.json_text import parse_object

FORM = "vdf:FOLDER?index=NAME&namespace=NAME&id=COLUMN&text=COLUMN&vector=COLUMN&metadata=COLUMN,..."
META = "VDF_META.json"
META_BYTES = 16 << 20


def open_at(location: str, vectors: bool, notes: Notes) -> ParquetSource:
    """As :func:`ragseal.prover.sources.opening.open_source`."""
    known = ("index", "namespace", "id", "text", "title", "vector", "metadata")
    place, options = split(location, known, FORM)
    need_driver("pyarrow", "sources-parquet")
    folder = Path(place).absolute()
    meta = _meta(folder)
    index, part = _part(folder, meta, options.get("index"), options.get("namespace"))
    data = part.get("data_path")
    if not isinstance(data, str) or not data:
        raise EncodingError(f"{folder / META}: index {index!r} names no data_path")
    path = inside(folder, data)
    for file in (found := parquet_files(path, notes)):
        inside(folder, str(file.relative_to(folder)))
    own = meta.get("id_column")
    vector = part.get("vector_columns")
    default = vector[0] if isinstance(vector, list) and vector and isinstance(vector[0], str) else "vector"
    columns = columns_of(options, vectors, Columns(id=own if isinstance(own, str) and own else "id"), default)
    identity = f"vdf:{folder}?index={index}&namespace={part.get('namespace') or ''}&{columns.told()}"
    return ParquetSource(found, columns, identity, notes)


def _meta(folder: Path) -> dict[str, Any]:
    path = inside(folder, META)
    meta = parse_object(texts.read_text(path, str(path), most=META_BYTES, error=EncodingError), str(path))
    if not isinstance(meta.get("indexes"), dict) or not meta["indexes"]:
        raise EncodingError(f"{path} names no indexes")
    return meta


def _part(folder: Path, meta: dict[str, Any], index: str | None, namespace: str | None) -> tuple[str, dict[str, Any]]:
    """The namespace that is meant of the index that is meant."""
    found = meta["indexes"]
    if index is None and len(found) > 1:
        raise ConfigurationError(f"{folder} holds {', '.join(list(found)[:20])}: say which with index=...")
    name = next(iter(found)) if index is None else index
    if name not in found:
        raise ConfigurationError(f"{folder} holds no index {name!r}, but {', '.join(list(found)[:20])}")
    parts = [part for part in found[name] if isinstance(part, dict)] if isinstance(found[name], list) else []
    if namespace is not None:
        parts = [part for part in parts if (part.get("namespace") or "") == namespace]
    if len(parts) != 1:
        raise ConfigurationError(
            f"index {name!r} of {folder} has {len(parts)} namespaces that fit: say which with namespace=..."
        )
    return name, parts[0]
