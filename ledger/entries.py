# SPDX-License-Identifier: GPL-3.0-or-later
"""Ledger entries for people: decoded as far as this program knows their type, else type tag, length and hash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from ragseal.kernel import attestation, beacon, commitment, proofs, rotation, verdict, versions
from ragseal.kernel.encoding import Message, peek_tag
from ragseal.kernel.errors import AuditError
from ragseal.ledger.auditors import NamedAuditors
from ragseal.ledger.merkle import leaf_hash

_SHOWN_ITEMS = 8
_SHOWN_BYTES = 64
_MODULES = (beacon, commitment, attestation, proofs, versions, verdict, rotation)  # whose messages are decoded


def describe(entry: bytes, auditors: NamedAuditors | None = None) -> dict[str, Any]:
    """A JSON-ready view: ``type``, ``bytes``, ``leaf_hash`` (hexadecimal) and, if it decodes, ``fields``.

    Of an auditor's verdict, and of a turn of the log's key, also ``says``, one sentence, if its signatures hold; with
    ``auditors``, who have read the log up to a checkpoint, it says whether the window's manifest names that auditor.

    Never raises for strange entries: what is in a log may be anything.
    """
    view: dict[str, Any] = {"type": "unknown", "bytes": len(entry), "leaf_hash": leaf_hash(entry).hex()}
    try:
        view["type"] = peek_tag(entry)
        kind = _kinds().get(view["type"])
        if kind is not None:
            message = kind.decode(entry)
            view["fields"] = _plain(message)
            if isinstance(message, verdict.AuditVerdict):
                message.verify()
                view["says"] = message.says() if auditors is None else message.says(auditors.whose(message))
            if isinstance(message, rotation.Rotation):
                message.verify()
                view["says"] = message.says()
    except (AuditError, UnicodeError) as error:
        view["problem"] = str(error)
    return view


def _kinds() -> dict[str, type[Message]]:
    return {kind.TAG: kind for kind in _subclasses(Message) if kind.__module__ in {m.__name__ for m in _MODULES}}


def _subclasses(kind: type[Message]) -> Iterator[type[Message]]:
    for child in kind.__subclasses__():
        yield from _subclasses(child)
        if "TAG" in child.__dict__:
            yield child


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, bytes):
        short = value[:_SHOWN_BYTES].hex()
        return short if len(value) <= _SHOWN_BYTES else f"{short}... ({len(value)} bytes)"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 53:
        return str(value)  # beyond what JSON readers keep exactly
    if isinstance(value, tuple):
        shown = [_plain(item) for item in value[:_SHOWN_ITEMS]]
        return shown if len(value) <= _SHOWN_ITEMS else [*shown, f"... ({len(value)} in all)"]
    return value
