# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-observer plant`` and ``probe``.  What computes is imported where it is used: other commands need none."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.options import Peer, peer_options, plain_errors, signer_of, state_option
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.face import counted
from ragseal.runtime.keyfile import load_key
from ragseal.runtime.terminal import JSON

EXIT_VIOLATION = 3
STATEMENT = "probe.statement"

_FOLDER = click.Path(path_type=Path, file_okay=False)
_EXISTING = click.Path(path_type=Path, file_okay=False, exists=True)


@click.command(short_help="Make a planted pair of documents")
@plain_errors
@click.option("--out", type=_FOLDER, default=Path("probe"), show_default=True, help="Where the pair goes.")
@JSON
def plant(out: Path, as_json: bool) -> None:
    """Make a planted pair of documents for `probe`.

    There is one for each of two tenants of a test window.

    \b
    Then, with the provider's operator (who knows that this is a test):
      ragseal-client keygen --state inside --account probe-in      and the same for "outside", probe-out
      ragseal-provider documents put --tenant probe-in --corpus jsonl:probe/in.jsonl
      ragseal-provider documents put --tenant probe-out --corpus jsonl:probe/out.jsonl
      ragseal-provider accounts add probe-in --tenant probe-in --key ...       and probe-out
      a window is committed and opened as ever; then `ragseal-observer probe`
    """
    from ragseal.ledger.probe.plant import PLANT, make_plant

    made = make_plant(secrets.choice, out)
    text = f"planted pair in {out}: in.jsonl for one tenant, out.jsonl for another, {PLANT} for `probe`"
    click.echo(json.dumps(asdict(made)) if as_json else text)


@click.command(short_help="Ask canary queries, and state what came")
@plain_errors
@peer_options
@state_option
@click.option("--account", "accounts", type=_EXISTING, multiple=True,
              help="An account's folder, without a planted pair (repeat).")  # fmt: skip
@click.option("--question", metavar="TEXT", help="With --account: what is asked.")
@click.option("--plant", "planted", type=_FOLDER, default=Path("probe"), show_default=True,
              help="With --inside and --outside: from `plant`.")  # fmt: skip
@click.option("--inside", type=_EXISTING, multiple=True, help="Account of the canary's tenant (repeat).")
@click.option("--outside", type=_EXISTING, multiple=True, help="Account of the replacement's (repeat).")
@click.option("--queries", type=click.IntRange(min=0), default=50, show_default=True,
              help="In all, or in each of two tenants. 0: ask nothing, state what the accounts have.")  # fmt: skip
@click.option("--group", type=click.IntRange(min=1), default=1, show_default=True, help="Queries of one trial.")
@click.option("--embedder", default="minilm", show_default=True, help='"none": the provider embeds.')
@click.option("--confidence", type=click.FloatRange(0.5, 1, min_open=True, max_open=True), default=0.999,
              show_default=True, help="Of each of the three limits that can accuse.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path(STATEMENT), show_default=True,
              help="Where the signed statement goes.")  # fmt: skip
@JSON
def probe(
    peer: Peer, state: Path, accounts: Sequence[Path], question: str | None, planted: Path, inside: Sequence[Path],
    outside: Sequence[Path], queries: int, group: int, embedder: str, confidence: float, out: Path, as_json: bool,
) -> None:  # fmt: skip
    """Ask canary queries with accounts of yours, and state under your key what came.

    The account's own program checks every answer; each answer's record must stand in the log. The statement holds all
    answers of these accounts in the window, texts included, so that an auditor counts again
    (`ragseal-verifier audit --probes`). Use accounts that ask nothing else.

    With a planted pair, accounts of two tenants that differ in one slot ask the same question over and over. Measured
    above certified is a violation (exit status 3); below honest is over-noise.
    """
    from ragseal.ledger.probe.canary import VIOLATION
    from ragseal.ledger.probe.plant import read_plant
    from ragseal.ledger.probe.running import Probe, for_people

    signer_of(state)  # before a query is spent
    key = load_key(state / "key.pem")
    if bool(accounts) == bool(inside or outside) or bool(inside) != bool(outside):
        raise click.UsageError("give --account, or --inside and --outside with a planted pair")
    if accounts and queries and not question:
        raise click.UsageError("--account goes with --question TEXT")
    pair = None if accounts else read_plant(planted)
    whole = Probe(peer, [accounts] if accounts else [inside, outside], pair, question or "", embedder)
    if queries:
        whole.ask(queries, group)
    stated = whole.state(key)
    try:
        write_durably(out, stated.statement.encode())
    except OSError as error:
        raise ConfigurationError(f"cannot write the statement {out}: {why(error, out)}") from None
    manifest, answers = stated.manifest, len(stated.statement.answers)
    if pair is None:
        said = {"window": manifest.window, "manifest": manifest.digest().hex(), "answers": answers}
        text = f"window {manifest.window}: {counted(answers, 'answer')}, each checked and in the log"
    else:
        said = whole.compared(stated, group, confidence)
        text = for_people(said)
    click.echo(json.dumps({**said, "statement": str(out)}) if as_json else text)
    if not as_json:
        click.echo(f"signed statement, for `ragseal-verifier audit --probes`: {out}", err=True)
    if said.get("verdict") == VIOLATION:
        sys.exit(EXIT_VIOLATION)
