# SPDX-License-Identifier: GPL-3.0-or-later
"""The vectors as they are written down: every case's answer comes from the operation it names."""

from __future__ import annotations

import json
from typing import Any

from ragseal.kernel.errors import AuditError
from vectors.source.operations import OPERATIONS
from vectors.source.values import shown

Json = dict[str, Any]

#: The file of each noun, by subject.
FILES = {
    "accounting": ("accounting",),
    "answers": ("sealing", "records", "receipts", "answers"),
    "audits": ("samples", "windows"),
    "commitments": ("registry", "texts", "query", "commitments", "index", "beacon"),
    "curve": ("points", "msm", "generators", "fold-points"),
    "estimate": ("links", "blocks", "block-batches"),
    "hashes": ("hashes", "poseidon", "challenges"),
    "log": ("merkle-roots", "inclusion", "consistency", "checkpoints", "growth", "proof-files"),
    "mechanism": ("noise-tables", "draw-tables", "noise", "select", "places"),
    "messages": ("messages",),
    "proofs": ("openings", "folding", "squared-norm", "shards", "verifying-keys", "groth16"),
    "signatures": ("keys", "signatures", "signed-messages", "asks", "retrieval"),
}  # fmt: skip
LONG = 6000  #: characters of an input that is not written again for what differs in little
MISMATCH = "Mismatch"  #: of a claimed output that the operation does not give


def pieces(inputs: dict[str, Any]) -> dict[str, Any]:
    """Inputs as JSON has them."""
    out: dict[str, Any] = shown(inputs)
    return out


def changes(old: Any, new: Any, at: str = "") -> Json:
    """Path -> value of what ``new`` has in another place than ``old``: names and indices, each behind a slash."""
    if old == new:
        return {}
    pairs: list[tuple[Any, Any, Any]]
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        pairs = [(name, old[name], new[name]) for name in old]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(i, *pair) for i, pair in enumerate(zip(old, new, strict=True))]
    else:
        return {at: new}
    return {path: value for name, a, b in pairs for path, value in changes(a, b, f"{at}/{name}").items()}


def changed(old: Any, change: Json) -> Any:
    """``old`` with ``change`` in it."""
    out = json.loads(json.dumps(old))
    for path, value in change.items():
        *way, last = path.split("/")[1:]
        here = out
        for step in way:
            here = here[int(step)] if isinstance(here, list) else here[step]
        here[int(last) if isinstance(here, list) else last] = value
    return out


class Book:
    """All vectors by ``noun/name``."""

    def __init__(self) -> None:
        self.cases: dict[str, dict[str, Any]] = {}

    def valid(self, path: str, operation: str, clause: str, comment: str, /, **inputs: Any) -> dict[str, Any]:
        """A vector whose operation gives an output, which is returned."""
        given = pieces(inputs)
        output = OPERATIONS[operation](given)
        self._add(path, {**_head(operation, clause, comment), "input": given, "expected": output})
        return output

    def refused(
        self, path: str, operation: str, clause: str, comment: str, error: str, text: str, /, **inputs: Any
    ) -> None:
        """A vector whose operation refuses its input, with this class of error and this in its text."""
        given = pieces(inputs)
        try:
            OPERATIONS[operation](given)
        except AuditError as raised:
            found = type(raised).__name__
            if found != error or text not in str(raised):
                raise AssertionError(f"{path}: refused with {found}: {raised}") from None
        else:
            raise AssertionError(f"{path}: this is not refused")
        failure = {"clause": clause, "error": error, "text": text}
        self._add(
            path, {**_head(operation, clause, comment), **self._stated(path, operation, given), "failure": failure}
        )

    def differing(self, path: str, base: str, clause: str, comment: str, error: str, text: str, given: Json) -> None:
        """A refusal that the caller has seen, as what differs from ``base``."""
        operation = self.cases[base]["operation"]
        change = changes(self.cases[base]["input"], given)
        failure = {"clause": clause, "error": error, "text": text}
        self._add(path, {**_head(operation, clause, comment), "base": base, "change": change, "failure": failure})

    def _stated(self, path: str, operation: str, given: Json) -> Json:
        """The input, or where it is long what differs from the valid one beside it."""
        base = f"{path.rsplit('/', 1)[0]}/valid"
        case = self.cases.get(base, {})
        if case.get("operation") == operation and len(json.dumps(given)) > LONG:
            change = changes(case["input"], given)
            if len(json.dumps(change)) < len(json.dumps(given)) / 2:
                return {"base": base, "change": change}
        return {"input": given}

    def wrong(
        self, path: str, operation: str, clause: str, comment: str, claimed: dict[str, Any], /, **inputs: Any
    ) -> None:
        """A vector with an output that the operation does not give: whoever computes it has to notice."""
        given, said = pieces(inputs), pieces(claimed)
        output = OPERATIONS[operation](given)
        if any(output[name] == value for name, value in said.items()):
            raise AssertionError(f"{path}: what is claimed is right")
        failure = {"clause": clause, "error": MISMATCH, "text": ", ".join(said)}
        case = {**_head(operation, clause, comment), "input": given, "claimed": said, "failure": failure}
        self._add(path, case)

    def given(self, path: str, case: dict[str, Any]) -> None:
        """A case that a second implementation made: tests compare it with what the operation gives."""
        self._add(path, case)

    def _add(self, path: str, case: dict[str, Any]) -> None:
        if path in self.cases:
            raise AssertionError(f"{path} is written twice")
        self.cases[path] = case

    def files(self) -> dict[str, str]:
        """Text of every file by its name: the cases of its nouns, each noun's in the order in which they were added."""
        nouns: dict[str, list[Json]] = {}
        for path, case in self.cases.items():
            nouns.setdefault(path.partition("/")[0], []).append({"name": path, **case})
        found = {name: [case for noun in own for case in nouns.pop(noun)] for name, own in FILES.items()}
        if nouns:
            raise AssertionError(f"FILES names no file for {', '.join(nouns)}")
        return {name: json.dumps({"cases": cases}, indent=1) + "\n" for name, cases in found.items()}


def _head(operation: str, clause: str, comment: str) -> dict[str, Any]:
    return {"operation": operation, "clause": clause, "comment": comment}
