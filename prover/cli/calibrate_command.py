# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider calibrate``: theta for an embedder, by how alike unrelated questions and paraphrases are.

Theta is part of the public policy, so it may be computed from public queries (a benchmark's, documentation's) or from
queries whose owners were paid for them, as the score window may; never from tenants' private queries: what is chosen by
them and published tells about them.  :mod:`ragseal.prover.planning.false_alarms` says what is measured.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from ragseal.embedder import DEFAULT
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.planning.calibration_queries import embedded, read_queries
from ragseal.prover.planning.false_alarms import Window, least_queries, report
from ragseal.prover.planning.similarities import similarities
from ragseal.runtime.terminal import JSON, progress_bars

SHOWN = tuple(Fraction(i, 20) for i in range(6, 20))  #: thetas that the table shows


def _text(found: dict[str, Any]) -> str:
    """The report for people."""
    window, unrelated, related = found["window"], found["unrelated"], found["related"]
    marks = "  ".join(f"{float(q) * 100:g} %: {cosine:.3f}" for q, cosine in unrelated["quantiles"].items())
    lines = [
        f"{found['queries']} queries, {unrelated['pairs']} unrelated pairs; cosines at or below {marks}  "
        f"largest: {unrelated['largest']:.3f}",
        f"{related['pairs']} related pairs"
        + (f"; median cosine {related['quantiles']['0.5']:.3f}" if related["pairs"] else ": give --paraphrases FILE"),
        f"null model: {window['accounts']} accounts of {window['each']} queries, tau {window['tau']}: "
        f"{window['pairs']} pairs of accounts that do not collude",
        "",
        f"theta   a pair links   any false link   c > {found['k_max']}, measured   "
        f"{found['confidence']:.0%} interval   related pairs found",
    ]
    for rate in found["rates"]:
        if Fraction(rate["theta"]) in SHOWN or rate["theta"] == found["theta"]:
            share = "-" if rate["found"] is None else f"{rate['found']:.3f}"
            measured = "-" if rate["measured"] is None else f"{rate['measured']:.3f}"
            lines.append(
                f"{float(Fraction(rate['theta'])):5.2f}   {rate['pair_rate']:12.2e}   {rate['predicted']:14.3f}   "
                f"{measured:>15}   {rate['interval'][0]:.3f} to {rate['interval'][1]:.3f}   {share:>19}"
            )
    chosen = found["theta"]
    lines += [
        "",
        f'theta = "{chosen}"   # false alarms at most {found["target"]}, at {found["confidence"]:.0%} confidence'
        if chosen
        else "no theta reaches this: the interval ends above the target at every theta; more --draws make it narrower",
    ]
    return "\n".join(lines)


@click.command(short_help="Find theta for the coalition estimate")
@click.option(
    "--queries", required=True,
    help="beir:FOLDER, jsonl:FILE or lines:FILE: public queries, or queries whose owners were paid.",
)  # fmt: skip
@click.option(
    "--paraphrases",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Two texts per line, separated by a tab: a question and the same question in other words.",
)
@click.option("--embedder", default=DEFAULT, show_default=True, help="Whose theta it is.")
@click.option("--target", default="1/20", show_default=True, help="False alarms of an honest window at most.")
@click.option("--accounts", default=30, show_default=True, type=click.IntRange(min=2), help="Of the honest window.")
@click.option("--each", default=10, show_default=True, type=click.IntRange(min=1), help="Queries of an account in it.")
@click.option(
    "--tau",
    default=1000,
    show_default=True,
    type=click.IntRange(min=0),
    help="As in the policy; with tau_time: as many records as come within it, if more.",
)
@click.option("--k-max", default=2, show_default=True, type=click.IntRange(min=1), help="A false alarm is c > k_max.")
@click.option("--draws", default=1000, show_default=True, type=click.IntRange(min=1), help="Windows drawn.")
@click.option("--seed", default=1, show_default=True)
@JSON
def calibrate(
    queries: str, paraphrases: Path | None, embedder: str, target: str, accounts: int, each: int, tau: int, k_max: int,
    draws: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Find theta, the cosine from which on two queries count as linked, for an embedder.

    Theta is public, so give it public queries (a BEIR folder's), or queries whose owners were paid for them.  Never
    tenants' private queries: a published number that was chosen by them tells about them.
    """
    try:
        share = Fraction(target)
    except (ValueError, ZeroDivisionError):
        raise ConfigurationError(f"--target {target!r} is not a rate such as 1/20") from None
    if not 0 < share < 1:
        raise ConfigurationError("--target is a rate between 0 and 1, such as 1/20")
    texts = read_queries(queries, paraphrases)
    window = Window(accounts, each, tau)
    least = least_queries(window, share)
    if len(texts.texts) < least:
        raise ConfigurationError(
            f"{len(texts.texts)} queries show nothing about windows of {accounts} accounts with {each} queries each: "
            f"that takes at least {least}; give more queries, or a smaller window (--accounts, --each)"
        )
    with progress_bars() as bars:
        task = bars.add_task("embedding", total=len(texts.texts))
        rows = embedded(embedder, texts.texts, lambda done, total: bars.update(task, completed=done, total=total))
        task = bars.add_task("comparing", total=None)
        found = {
            "embedder": embedder,
            **report(similarities(rows, texts.related), window, k_max, share, draws, seed),
        }
    click.echo(json.dumps(found) if as_json else _text(found))
