# SPDX-License-Identifier: GPL-3.0-or-later
"""Which members or columns of a corpus become a document's metadata: those that are named, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.slot_text import MAX_KEY, MAX_PAIRS, NO_METADATA, Metadata
from ragseal.runtime.metadata import committed

NESTED = "metadata"  #: an object of a JSON line in which names are looked for first, as BEIR has it
RESERVED = "ragseal"  #: the key under which a framework's retriever says where an answer was recorded


def field_names(text: str | None) -> tuple[str, ...]:
    """The names of an option such as "source,title,url"; none for None.

    Raises:
        ConfigurationError: as :func:`check_names`.
    """
    names = () if text is None else tuple(name.strip() for name in text.split(","))
    check_names(names)
    return names


def check_names(names: Sequence[str]) -> None:
    """Raises ConfigurationError: names that no metadata can have, for whatever document."""
    if len(names) > MAX_PAIRS:
        raise ConfigurationError(f"{len(names)} metadata fields are named, a document carries at most {MAX_PAIRS}")
    for name in names:
        if not 1 <= len(name) <= MAX_KEY:
            raise ConfigurationError(f"the metadata field {name[:80]!r} has {len(name)} characters, not 1 to {MAX_KEY}")
        if name == RESERVED:
            raise ConfigurationError(
                f"{RESERVED!r} cannot be a name for metadata: retrievers put the window and record of an answer there"
            )
        if names.count(name) > 1:
            raise ConfigurationError(f"the metadata field {name!r} is named twice")


def taken(value: Mapping[str, Any], names: Sequence[str], where: str) -> Metadata:
    """The named members of a line as metadata; null, and what the line does not have, is left out.

    Raises:
        EncodingError: a value that is a list or an object, too long, or a number that no double holds.
    """
    if not names:
        return NO_METADATA
    found = {name: member for name in names if (member := _member(value, name)) is not None}
    try:
        return committed(found)
    except EncodingError as error:
        raise EncodingError(f"{where}: {error}") from None


def unread(value: Mapping[str, Any], read: Sequence[str | None], names: Sequence[str]) -> list[str]:
    """What of a line is neither read nor metadata; members of its ``metadata`` by their path.

    A member with another value than the one of its name in ``metadata`` is not taken: it is called so.
    """
    inner = value.get(NESTED)
    nested = inner if names and isinstance(inner, dict) else None
    rest = [name for name in value if name not in (*read, *names)]
    if nested is None:
        return rest
    if NESTED in rest:
        rest.remove(NESTED)
        rest += [f"{NESTED}.{name}" for name in nested if name not in names]
    for name in names:
        one, other = nested.get(name), value.get(name)
        if None not in (one, other) and one != other and name not in read:
            rest.append(f"{name} beside {NESTED}.{name}")
    return rest


def _member(value: Mapping[str, Any], name: str) -> Any:
    inner = value.get(NESTED)
    if isinstance(inner, dict) and inner.get(name) is not None:
        return inner[name]
    return value.get(name)
