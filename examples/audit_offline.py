# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit once over the network, keep every byte, and run the whole checklist again from the file, offline.

    python -m examples.audit_offline keep   evidence.jsonl --log-key VKEY --provider 127.0.0.1:7800 --state auditor
    python -m examples.audit_offline replay evidence.jsonl --log-key VKEY --state auditor

A second person with the auditor's keys gets the same verdict from the file alone, and may read or change the checks
meanwhile.  A checklist depends on nothing but its evidence, the auditor's folder, the clock and its own randomness, so
those are what is kept.  Asks are answered once and name their moment: what was delivered fits no other audit.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ragseal.ledger.note import NoteVerifier
from ragseal.verifier.audit.audit import Target
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.audit.verification import audit
from ragseal.verifier.base.builds import class_build, estimate_build
from ragseal.verifier.evidence.evidence import ASK_AGAIN, Auditor, Evidence, Undecided
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.service.service import environment

CALLS = (
    "checkpoint",
    "entries",
    "manifest",
    "index_file",
    "thinned_file",
    "version_file",
    "deliver",
)  #: of :class:`ragseal.verifier.evidence.evidence.Evidence`


class Kept:
    """Evidence, clock and randomness of an audit: ``take`` makes one thing of a kind and writes it down."""

    def __init__(self, take: Callable[[str, Callable[[], Any]], Any], evidence: Evidence | None = None) -> None:
        for name in CALLS:
            setattr(self, name, self._call(take, name, evidence))
        self._evidence = evidence

    @staticmethod
    def _call(take: Callable[[str, Callable[[], Any]], Any], name: str, evidence: Evidence | None) -> Any:
        return lambda *arguments: take(name, lambda: getattr(evidence, name)(*arguments))

    def patiently(self, once: Callable[[], Any]) -> Any:
        return once() if self._evidence is None else self._evidence.patiently(once)


def run(take: Callable[[str, Callable[[], Any]], Any], evidence: Evidence | None, auditor: Auditor) -> Verdict:
    """The checklist, with all that comes from outside through ``take``."""
    here = environment()
    around = Environment(
        here.group,
        take("now", lambda: here.now),
        lambda: float(take("clock", lambda: here.clock())),
        lambda size: bytes(take("random", lambda: here.random(size))),
    )
    return audit(Kept(take, evidence), auditor, around)  # type: ignore[arg-type]


def keep(evidence: Evidence, auditor: Auditor, file: Path) -> Verdict:
    """Audit, and write down what came from outside, in order."""
    with file.open("w", encoding="utf-8") as out:

        def take(kind: str, make: Callable[[], Any]) -> Any:
            value = make()
            out.write(json.dumps([kind, value], default=bytes.hex) + "\n")
            return value

        return run(take, evidence, auditor)


def replay(file: Path, auditor: Auditor) -> Verdict:
    """Audit from such a file.

    Raises:
        Undecided: it was cut off, or kept by an audit that took a shorter course.
    """
    kept: dict[str, deque[Any]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        kind, value = json.loads(line)
        kept.setdefault(kind, deque()).append(value)

    def take(kind: str, make: Callable[[], Any]) -> Any:
        if not kept.get(kind):
            raise Undecided(f"the file has no more of {kind}, which this audit wants", ASK_AGAIN)
        value = kept[kind].popleft()
        if isinstance(value, list):
            return [bytes.fromhex(item) for item in value]
        return bytes.fromhex(value) if isinstance(value, str) else value

    return run(take, None, auditor)


@click.command()
@click.argument("what", type=click.Choice(["keep", "replay"]))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--state", type=click.Path(path_type=Path), default=Path("auditor"), show_default=True)
@click.option("--log-key", required=True)
@click.option("--provider", default="127.0.0.1:7800", show_default=True)
def main(what: str, file: Path, state: Path, log_key: str, provider: str) -> None:
    key = NoteVerifier.from_vkey(log_key)
    auditor = State(state).auditor(key, class_build(), estimate_build())
    if what == "replay":
        verdict = replay(file, auditor)
    else:
        with Target(provider, key).connect() as evidence:
            verdict = keep(evidence, auditor, file)
    print(verdict.line())


if __name__ == "__main__":
    main()
