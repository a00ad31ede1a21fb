# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers a second while documents change: ``python -m bench.changing`` writes bench/results/changing.json.

One real provider process whose index has a new version every minute, accounts that ask it all the while from a process
of their own, and an operator who puts changed documents through the administration socket, ten a second, in every other
phase.  A phase is a whole minute, so that each has one version to make.  Phases with and without changes take turns on
one provider, and what is told is their ratio: whatever else the machine does meets both.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from bench.asker import Kept
from bench.book import require
from bench.classes import SMALL
from bench.experiment import machine, save
from bench.load import Crowd, quantile, revision, run_accounts
from bench.scene import QUERIES, ROOT, TENANT
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.wire.operator_remote import Remote

RESULT = ROOT / "bench" / "results" / "changing.json"
EVERY = 60  #: seconds between two versions: the least that a policy takes
MARGIN = 30.0  #: seconds that accounts ask longer than phases take: a put may be late, and the first one is


@dataclass
class Phase:
    """A stretch of one run, in monotonic seconds."""

    changing: bool
    began: float
    ended: float = 0.0
    put: int = 0  #: documents
    puts_s: list[float] = field(default_factory=list)  #: how long each call took that put some


def put_for(state: Path, seconds: float, rate: float, documents: int, first: int) -> tuple[int, list[float]]:
    """Put changed documents, so many a second: each call takes those that are due by then.

    Returns:
        How many were put, and how long each call took.
    """
    began, took, put = time.monotonic(), list[float](), 0
    with Remote(state) as there:
        while (at := time.monotonic()) < began + seconds:
            due = int((at - began) * rate) + 1 - put
            if due < 1:
                time.sleep(1 / rate)
                continue
            numbers = range(first + put, first + put + due)
            texts = [(n % documents, QUERIES[(n // documents + n) % len(QUERIES)]) for n in numbers]
            there.put_documents(TENANT, [Document(f"report-{i}", text) for i, text in texts], lambda *_: None)
            took.append(time.monotonic() - at)
            put += due
    return put, took


def run_phases(state: Path, phases: list[Phase], rounds: int, seconds: float, rate: float, documents: int) -> None:
    """Fill in ``phases``: without and with changes in turns, each way first in every other round."""
    put, _ = put_for(state, 1.0, 1.0, documents, 0)  # the first one loads the embedder of documents
    for turn in range(rounds):
        for changing in (False, True) if turn % 2 == 0 else (True, False):
            phase = Phase(changing, time.monotonic())
            if changing:
                phase.put, phase.puts_s = put_for(state, seconds, rate, documents, put)
                put += phase.put
            time.sleep(max(0.0, phase.began + seconds - time.monotonic()))
            phase.ended = time.monotonic()
            phases.append(phase)


def told(phases: Sequence[Phase], kept: Sequence[Kept]) -> dict[str, Any]:
    """Of all phases of one kind together: answers a second, how long one took, and what was put."""
    seconds = sum(one.ended - one.began for one in phases)
    answered = sorted(k.ended - k.began for one in phases for k in kept if one.began <= k.ended < one.ended)
    puts = sorted(took for one in phases for took in one.puts_s)
    found: dict[str, Any] = {
        "answers_per_s": round(len(answered) / seconds, 2),
        "p50_s": round(quantile(answered, 0.5), 4),
        "p99_s": round(quantile(answered, 0.99), 4),
        "answers": len(answered),
        "seconds": round(seconds, 1),
    }
    if puts:
        found |= {
            "documents_put": sum(one.put for one in phases),
            "documents_put_per_s": round(sum(one.put for one in phases) / seconds, 2),
            "calls": len(puts),
            "call_p50_s": round(quantile(puts, 0.5), 4),
            "call_p99_s": round(quantile(puts, 0.99), 4),
        }
    return found


def measure(class_name: str, clients: int, documents: int, rounds: int, seconds: float, rate: float) -> dict[str, Any]:
    """Phases on a provider of its own."""
    phases: list[Phase] = []
    with tempfile.TemporaryDirectory() as folder:
        ran = run_accounts(
            Path(folder), class_name, Crowd(clients, 2 * rounds * seconds + MARGIN), documents=documents,
            version_every=EVERY,
            meanwhile=lambda state: run_phases(state, phases, rounds, seconds, rate, documents),
        )  # fmt: skip
    over = phases[-1].ended - ran.began - ran.seconds
    require(over <= 0, f"the phases ended {over:.0f} s after the accounts: documents are not taken as fast as that")
    quiet = told([one for one in phases if not one.changing], ran.kept)
    busy = told([one for one in phases if one.changing], ran.kept)
    return {
        "without_changes": quiet,
        "with_changes": busy,
        "with_per_without": {name: round(busy[name] / quiet[name], 3) for name in ("answers_per_s", "p50_s", "p99_s")},
        "provider_peak_kib": ran.peak_kib,
        "load_average_before": round(ran.load_before, 2),
        "record_book": ran.book,
    }


@click.command()
@click.option("--class", "class_name", default=SMALL, show_default=True)
@click.option("--clients", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--documents", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=2, show_default=True, help="Of two phases each.")
@click.option("--seconds", type=click.FloatRange(min=1), default=60.0, show_default=True, help="Of a phase.")
@click.option("--rate", type=click.FloatRange(min=0.01), default=10.0, show_default=True, help="Documents a second.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=RESULT, show_default=False)
def main(class_name: str, clients: int, documents: int, rounds: int, seconds: float, rate: float, out: Path) -> None:
    """Measure and write the result."""
    found = {
        "machine": machine(), "revision": revision(), "class": class_name, "clients": clients, "documents": documents,
        "version_every_s": EVERY, "changes_per_s_asked": rate, "niceness": os.nice(0),
        **measure(class_name, clients, documents, rounds, seconds, rate),
    }  # fmt: skip
    save(out, found)
    click.echo(json.dumps({name: value for name, value in found.items() if name != "machine"}, indent=1))


if __name__ == "__main__":
    main()
