# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider serve``: from its options to a running provider."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import click

from ragseal.generators import EXTRACTIVE, named_generator
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.named_log import named_log
from ragseal.ledger.policy import Policy
from ragseal.prover.cli.options import STATE, auditor_seats, hexadecimal
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.fsck.fsck import check_start
from ragseal.prover.planning import consent
from ragseal.prover.provider import assembly
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.rollover import Schedule, seconds_of
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.storage.retirement import set_retain
from ragseal.prover.storage.state import State
from ragseal.prover.wire import service
from ragseal.prover.workers.opening import FORMS, default_engine, prove_by
from ragseal.runtime.edges.address import Address
from ragseal.runtime.settings import Configured, logs_for_people, only_checked, read_again
from ragseal.runtime.stopping import ignore_hangups
from ragseal.runtime.terminal import JSON, named_bars, nothing_told, server_tls, tell_result
from ragseal.runtime.tls import ServerTls
from ragseal.runtime.tokenbucket import Rate
from ragseal.runtime.tracing import exporting

TICK = 0.1  #: seconds: which answers leave at multiples of unless the operator says otherwise

log = logging.getLogger("ragseal.provider")


#: Headings of the help.
SECTIONS = {
    "Addresses and TLS": ("state", "listen", "tls-cert", "tls-key", "tls-clients", "listen-plain", "public"),
    "Windows": ("next", "every", "name", "yes-epsilon-is", "auditor", "retain", "retire-on-pass", "verdicts"),
    "Beacon and witnesses": (
        "participants", "beacon-wait", "observer", "witness", "witness-policy", "witness-every",
    ),
    "Proofs": ("proofs", "prove", "worker-key"),
    "Answers": ("tick", "generator", "generator-key", "generator-alone", "account-rate", "peer-rate"),
    "What an operator sees": ("metrics", "metrics-plain", "traces", "reflection", "json", "log-format"),
    "Settings": ("config", "check-config", "help"),
}  # fmt: skip


@click.command(
    cls=Configured, prefix="RAGSEAL_PROVIDER", sections=SECTIONS, short_help="Serve windows: beacon, answers, proofs"
)
@STATE
@click.option("--listen", default="127.0.0.1:7800", show_default=True, help="host:port; port 0 takes a free one.")
@click.option("--participants", type=click.IntRange(1, 63), default=1, show_default=True,
              help="Beacon participants to wait for, auditors included.")  # fmt: skip
@click.option("--beacon-wait", type=click.FloatRange(min=0.1), default=60.0, show_default=True,
              help="Seconds after which the beacon goes on without those who are missing.")  # fmt: skip
@click.option("--proofs", type=click.Choice(["eager", "on-demand"]), default="eager", show_default=True,
              help="Prove in the background, or when an audit asks.")  # fmt: skip
@click.option("--prove", "engine", metavar="BY", help=f"Who makes proofs: {FORMS}. Default: local:1, a process of the "
              "lowest priority; here without the native module. Behind a database they are `ragseal-provider worker "
              "run`, on a Ray cluster actors, one a node.")  # fmt: skip
@click.option("--worker-key", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="With --prove postgres://... or ray://...: the key that provider and workers share.")  # fmt: skip
@click.option("--tick", type=click.FloatRange(min=0.0, max=60.0), default=TICK, show_default=True,
              help="Answers leave at multiples of this many seconds, so that their time says little.")  # fmt: skip
@click.option("--generator", default=EXTRACTIVE, show_default=True, metavar="NAME", help="What answers in words are "
              'written by: "extractive", or chat:MODEL@URL, which is asked over the network.')  # fmt: skip
@click.option("--generator-key", metavar="VARIABLE", help="The environment variable with that model's key.")
@click.option("--generator-alone", metavar="NAME", help="A second chat:MODEL@URL, with the same key, for what is asked "
              "without documents: those of other requests cannot hold it up.")  # fmt: skip
@click.option("--observer", "observers", multiple=True, metavar="NAME=KEY",
              help="A beacon participant for which a seat is kept free, and its key in hexadecimal. "
              "Repeatable.")  # fmt: skip
@click.option("--witness", "witnesses", multiple=True, metavar="VKEY",
              help="An observer's public key: strangers cannot displace its cosignatures, nor add theirs to notes. "
              "Repeatable.")  # fmt: skip
@click.option("--witness-policy", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
              help="Submit checkpoints to the witnesses of this file (C2SP tlog-policy) that have a URL.")  # fmt: skip
@click.option("--witness-every", type=click.FloatRange(min=5.0), default=10.0, show_default=True,
              help="Seconds between two submissions.")  # fmt: skip
@click.option("--next", "next_policy", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Commit, draw and open windows of this policy one after the other, by itself.")  # fmt: skip
@click.option("--every", default="24h", show_default=True, help="With --next: from one opening to the next "
              "(30m, 24h, 7d).")  # fmt: skip
@click.option("--name", "pattern", default="w{n}", show_default=True,
              help="With --next: names of the windows; {n} is a number, %Y-%m-%d the day (UTC).")  # fmt: skip
@click.option("--yes-epsilon-is", "agreed", type=float, metavar="N",
              help="With --next: the largest epsilon over the budget period that is committed to "
              f"(default {consent.ASK_ABOVE}); above it no window follows.")  # fmt: skip
@click.option("--auditor", "seats", multiple=True, metavar="[NAME=]KEY", help="With --next: as of `commit`.")
@click.option("--retain", metavar="TIME", help="For how long a closed window keeps texts, queries and secrets "
              "(default 14d, at most 29d); remembered.")  # fmt: skip
@click.option("--retire-on-pass", is_flag=True, help="Keep a window no longer than a day once every auditor that it "
              "names has handed in that it passed.")  # fmt: skip
@click.option("--verdicts/--no-verdicts", default=True, show_default=True,
              help="Enter verdicts that a window's auditor hands in.")  # fmt: skip
@server_tls
@click.option("--public", metavar="HOST:PORT", help="Serve the public ledger over HTTP too, as C2SP tlog-tiles; with "
              "the same TLS files.")  # fmt: skip
@click.option("--account-rate", metavar="NUMBER/s|m|h", help="New queries of one account: 30/m is 30 at once and 30 a "
              "minute. Default: all that it may ask.")  # fmt: skip
@click.option("--peer-rate", metavar="NUMBER/s|m|h", help="Calls of one machine (an IPv6 /64 is one); not where a "
              "balancer hides addresses. Default: no such limit.")  # fmt: skip
@click.option("--metrics", metavar="HOST:PORT", help="Serve numbers for Prometheus, /livez and /readyz over HTTP, "
              "with the same TLS files.")  # fmt: skip
@click.option("--metrics-plain", is_flag=True, help="Those without TLS, even beyond loopback.")
@click.option("--traces", is_flag=True, help="Tell OpenTelemetry of answers, without content, once the public ledger "
              "shows their records; OTEL_EXPORTER_OTLP_... say where.")  # fmt: skip
@click.option("--reflection", is_flag=True, help="Let clients list the services (off in production).")
@JSON
def serve(
    directory: Path,
    listen: str,
    participants: int,
    beacon_wait: float,
    proofs: str,
    engine: str | None,
    worker_key: Path | None,
    tick: float,
    generator: str,
    generator_key: str | None,
    generator_alone: str | None,
    observers: tuple[str, ...],
    witnesses: tuple[str, ...],
    witness_policy: Path | None,
    witness_every: float,
    next_policy: Path | None,
    every: str,
    pattern: str,
    agreed: float | None,
    seats: tuple[str, ...],
    retain: str | None,
    retire_on_pass: bool,
    verdicts: bool,
    own: ServerTls,
    public: str | None,
    account_rate: str | None,
    peer_rate: str | None,
    metrics: str | None,
    metrics_plain: bool,
    traces: bool,
    reflection: bool,
    as_json: bool,
) -> None:
    """Run the windows: beacon, queries, proofs.  Ends cleanly on Ctrl-C or SIGTERM, and goes on where it stopped.

    Without TLS it listens on loopback only (or with --listen-plain).  Other commands on the same state folder talk to
    it through a socket in there.  --config takes all of this from a file; SIGHUP has it read again for the limits, and
    the certificates.
    """
    ignore_hangups()
    schedule = None
    if next_policy is not None:
        schedule = Schedule(next_policy, seconds_of(every), pattern, agreed, auditor_seats(seats))
        schedule.check()
    rules = BeaconRules(participants, beacon_wait, _observers(observers))
    serve_options = ServeOptions(
        proofs == "eager",
        tick,
        rules,
        witnesses=[named_log(vkey, "the witness key") for vkey in witnesses],
        verdicts=verdicts,
        witness_policy=None if witness_policy is None else Policy.load(witness_policy),
        witness_every=witness_every,
        account_rate=Rate.optional(account_rate),
        peer_rate=Rate.optional(peer_rate),
        prove_by=prove_by(engine or default_engine(), worker_key),
        retire_on_pass=retire_on_pass,
    )
    own.credentials()  # says now what is wrong with the files
    for address, unix in ((listen, True), (public, False), (metrics, False)):
        if address is not None:
            Address.parse(address, listening=True, unix=unix)
    if only_checked(as_json):
        return

    def ready(address: str, tiles: str) -> None:
        values = {"listening": address, **({"public": tiles} if tiles else {})}
        tell_result(as_json, values, f"listening on {address}" + (f", tiles on {tiles}" if tiles else ""))
        sys.stdout.flush()

    context = click.get_current_context()

    def rates() -> tuple[Rate | None, Rate | None]:
        found = read_again(context, ("account_rate", "peer_rate"))
        return Rate.optional(found["account_rate"]), Rate.optional(found["peer_rate"])

    with (
        exporting() if traces else nullcontext() as spans,
        _running(directory, _tell_people if logs_for_people() else log.info) as provider,
    ):
        provider.write_with(named_generator(generator, generator_key, alone=generator_alone, quotes=False))
        if retain is not None:
            set_retain(provider.state, int(seconds_of(retain)), secrets.token_bytes(32))
        with named_bars() if logs_for_people() else nothing_told() as progress:
            for what in check_start(provider, progress).unchecked:
                log.warning("not checked: %s", what)
        its_own = ServerTls(plain=True) if metrics_plain else own
        options = service.Listening(listen, own, reflection, public, metrics, its_own)
        asyncio.run(service.run(provider, replace(serve_options, spans=spans), options, ready, schedule, rates))


def _tell_people(text: str) -> None:
    click.echo(text, err=True)


class _running:
    """A provider with all its backends, closed at the end of the block."""

    def __init__(self, directory: Path, tell: Callable[[str], None]) -> None:
        self._directory, self._tell = directory, tell

    def __enter__(self) -> Provider:
        state = State(self._directory)
        try:
            self._provider = Provider(state, assembly.assemble(state, self._tell))
        except BaseException:
            state.close()
            raise
        return self._provider

    def __exit__(self, *_: object) -> None:
        self._provider.close()


def _observers(options: Sequence[str]) -> dict[str, bytes]:
    """NAME=KEY, as often as it is given; ConfigurationError: no such pair, or a name twice."""
    found: dict[str, bytes] = {}
    for option in options:
        name, equals, key = option.partition("=")
        if not name or not equals:
            raise ConfigurationError(f"--observer takes NAME=KEY, not {option!r}")
        if name in found:
            raise ConfigurationError(f"--observer names {name!r} twice")
        found[name] = hexadecimal(key, 32, f"--observer {name}")
    return found
