# SPDX-License-Identifier: GPL-3.0-or-later
"""Source specifications: ``kind:location?option=value&...``, as the command line takes them.

Location and values are percent-decoded, so "?" in a file's name is %3F, "&" in a value %26 and "%" %25; "+" stays "+".
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from ragseal.kernel.errors import ConfigurationError

COLUMNS = ("id", "text", "title", "vector", "metadata")  #: options of every source that has rows with columns


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns, fields or members of a row are read.

    A name with dots leads into nested objects where the row has none of that very name.
    """

    id: str = "id"
    text: str = "text"
    title: str | None = None  #: joined in front of the text with a line break where it is there and not empty
    vector: str | None = None  #: None where vectors are not asked for
    metadata: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Every one of them, each once."""
        named = (self.id, self.text, self.title, self.vector, *self.metadata)
        return list(dict.fromkeys(name for name in named if name is not None))

    def told(self) -> str:
        """Of an identity: what would make other documents of the same rows."""
        parts = [f"id={self.id}", f"text={self.text}"]
        if self.title is not None:
            parts.append(f"title={self.title}")
        if self.metadata:
            parts.append(f"metadata={','.join(self.metadata)}")
        return "&".join(parts)


def split(location: str, known: Sequence[str], form: str) -> tuple[str, dict[str, str]]:
    """Location and options of what stands behind the kind.

    Raises:
        ConfigurationError: no location, an unknown option or one that occurs twice; shows ``form``, never a value.
    """
    place, mark, rest = location.partition("?")
    options: dict[str, str] = {}
    for pair in rest.split("&") if mark else ():
        name, equals, value = pair.partition("=")
        if not equals or name not in known:
            raise ConfigurationError(f"a source has no option {name[:40]!r}; the form is {form}")
        if name in options:
            raise ConfigurationError(f"a source names {name!r} twice; the form is {form}")
        options[name] = unquote(value)
    place = unquote(place)
    if not place or "\0" in place:
        raise ConfigurationError(f"a source of this kind needs a location; the form is {form}")
    return place, options


def columns_of(options: Mapping[str, str], vectors: bool, defaults: Columns, vector: str) -> Columns:
    """The columns that options name, and ``vector`` by default where vectors are asked for."""
    metadata = options.get("metadata")
    return Columns(
        id=options.get("id", defaults.id),
        text=options.get("text", defaults.text),
        title=options.get("title", defaults.title),
        vector=options.get("vector", vector) if vectors else None,
        metadata=tuple(name for name in metadata.split(",") if name) if metadata is not None else defaults.metadata,
    )


def need(option: str, options: Mapping[str, str], form: str) -> str:
    """An option that must be there; ConfigurationError shows the form."""
    value = options.get(option)
    if not value:
        raise ConfigurationError(f"a source of this kind needs {option}=...; the form is {form}")
    return value


def require_no_password(place: str, instead: str) -> None:
    """A place becomes part of an identity, which is stored, listed and logged.

    Raises:
        ConfigurationError: a URL with a user or password; does not show it.
    """
    _, scheme, rest = place.partition("://")
    if scheme and "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]:
        raise ConfigurationError(f"the source's URL holds a user or password, which others would see: {instead}")


def need_driver(module: str, extra: str, found: Callable[[str], object] = importlib.util.find_spec) -> None:
    """Raises ConfigurationError that names the extra, where a driver is not installed."""
    if found(module) is None:
        raise ConfigurationError(f"this source needs the package {module}: pip install 'ragseal[{extra}]'")
