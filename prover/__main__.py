# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider``: make a provider, put documents, register accounts, commit a window, serve it, close it."""

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
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.embedder import load_embedder
from ragseal.generators import EXTRACTIVE, named_generator
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.policy import Policy
from ragseal.ledger.vocabulary import read_vocabulary
from ragseal.prover import assembly, remote, service
from ragseal.prover.account_commands import accounts
from ragseal.prover.administration import operations
from ragseal.prover.administration.access import administration
from ragseal.prover.auditor_commands import auditors
from ragseal.prover.backup_commands import backup, restore
from ragseal.prover.change_command import change
from ragseal.prover.commitment import consent
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.commitment.policy_file import policy_bytes
from ragseal.prover.document_commands import documents
from ragseal.prover.key_commands import fetch_keys, release_key
from ragseal.prover.log_commands import log as log_group
from ragseal.prover.options import STATE, auditor_seats, hexadecimal
from ragseal.prover.planning import defaults
from ragseal.prover.planning.calibrate import calibrate
from ragseal.prover.planning.plan import plan
from ragseal.prover.planning.public_score_ranges import public_window
from ragseal.prover.proof_commands import proofs as proofs_group
from ragseal.prover.provider import Provider
from ragseal.prover.rollover import Schedule, seconds_of
from ragseal.prover.serving import ServeOptions
from ragseal.prover.storage import fsck
from ragseal.prover.storage.retirement import set_retain
from ragseal.prover.storage.state import Settings, State, create
from ragseal.prover.storage.vocabularies import keep_vocabulary
from ragseal.prover.worker_commands import worker
from ragseal.prover.workers.opening import FORMS, default_engine, prove_by
from ragseal.runtime.settings import Configured, logs_for_people, only_checked, read_again
from ragseal.runtime.stopping import ignore_hangups
from ragseal.runtime.terminal import (
    CONTEXT,
    JSON,
    Teaching,
    client_tls,
    named_bars,
    nothing_told,
    server_tls,
    tell_result,
    version,
)
from ragseal.runtime.tls import ClientTls, ServerTls
from ragseal.runtime.tokenbucket import Rate
from ragseal.runtime.tracing import exporting

TICK = 0.1  #: seconds: which answers leave at multiples of unless the operator says otherwise

log = logging.getLogger("ragseal.provider")


@click.group(cls=Teaching, context_settings=CONTEXT)
@version("ragseal-provider")
def main() -> None:
    """Serve private retrieval that an auditor can check.

    \b
    A provider's first window, from nothing:
      ragseal-provider init --origin example.org/rag
      ragseal-provider documents put --tenant acme --corpus beir:./scifact
      ragseal-provider accounts add alice --tenant acme --key HEX    (the client prints its key)
      ragseal-provider fetch-keys --verifier localhost:7801          (the auditor makes the keys)
      ragseal-provider policy > policy.toml                          (edit: this is the guarantee)
      ragseal-provider commit --policy policy.toml --window w1       (says what it gives and costs, and may ask)
      ragseal-provider serve --listen 127.0.0.1:7800                 (opens once the auditor has taken part)
      ragseal-provider close                                         (then the auditor audits)
    """


# --- commands --------------------------------------------------------------------------------------------------------


@main.command()
@STATE
@click.option("--origin", required=True, help="Name of the ledger, such as example.org/rag; part of every checkpoint.")
@click.option(
    "--class",
    "class_name",
    default="ranked-small-one-50",
    show_default=True,
    help="Circuit class: capacity, K, noise law.",
)
@click.option("--embedder", default="minilm", show_default=True,
              help='Of documents and queries: "minilm", "sentence-transformers:NAME" or '
              '"declared:PROVIDER/MODEL@DIMENSION", which is asked over the network.')  # fmt: skip
@JSON
def init(directory: Path, origin: str, class_name: str, embedder: str, as_json: bool) -> None:
    """Make a provider: state folder, signing keys, an empty ledger.

    Prints the two public keys that clients and auditors pin: the provider's and the ledger's.
    """
    assembly.circuit_class(class_name)
    load_embedder(embedder)
    create(
        directory, Settings(origin, class_name, embedder), Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    )
    with State(directory) as state:
        found = operations.identity(state)
    tell_result(
        as_json, found, f"made {directory}\nprovider key  {found['provider_key']}\nledger key    {found['ledger_key']}"
    )


main.add_command(change)
main.add_command(documents)
main.add_command(accounts)
main.add_command(auditors)
main.add_command(log_group)
main.add_command(fetch_keys)
main.add_command(proofs_group)


@main.command()
@STATE
def policy(directory: Path) -> None:
    """Print a policy file to start from.

    It gives useful answers, and says what they cost.
    """
    settings = Settings.load(directory / "provider.toml")
    cls = assembly.circuit_class(settings.class_name)
    embedder = load_embedder(settings.embedder, threads=1)
    public = public_window(embedder.identity().digest())
    click.echo(defaults.policy_text(cls, embedder.dimension, settings.embedder, public), nl=False)


@main.command()
@STATE
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@JSON
def vocabulary(directory: Path, file: Path, as_json: bool) -> None:
    """Take in the keywords of answers from FILE, one a line, and print the root that a policy names.

    They must come of public data: the vocabulary is everybody's, and no document of a tenant may have a say in it.
    """
    with State(directory) as state:
        made = read_vocabulary(file, assembly.circuit_class(state.settings.class_name).N)
        keep_vocabulary(state, made)
    tell_result(
        as_json,
        {"vocabulary": made.root.hex(), "words": len(made.words), "slots": made.capacity},
        f'{len(made.words)} keywords of {made.capacity} slots; in the policy: vocabulary = "{made.root.hex()}"',
    )


@main.command()
@STATE
@click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=True,
    help="policy.toml; `ragseal-provider policy` prints one to start from.",
)  # fmt: skip
@click.option("--window", required=True, help="A name that was never used before.")
@click.option("--auditor", "seats", multiple=True, metavar="[NAME=]KEY", help="An auditor of the window, and its "
              "beacon key in hexadecimal. Repeatable; by default the auditor who made the proving key.")  # fmt: skip
@click.option(
    "--yes-epsilon-is", "agreed", type=float, metavar="N",
    help=f"Commit although epsilon is above {consent.ASK_ABOVE} over the budget period; N is at least that epsilon.",
)  # fmt: skip
@click.option("--new-coins", is_flag=True, help="Throw coins anew, which costs unseen once more; by default a window "
              "carries on those of its budget period.")  # fmt: skip
@JSON
def commit(
    directory: Path,
    policy_file: Path,
    window: str,
    seats: tuple[str, ...],
    agreed: float | None,
    new_coins: bool,
    as_json: bool,
) -> None:
    """Phase A: commit to a window before it opens.

    Every index, the seed, the policy and the accounts are committed to, and the manifest enters the ledger.  A provider
    that serves draws the window's beacon while the open one goes on, and opens it when that one is closed.
    """
    named = auditor_seats(seats)
    with administration(directory) as admin, named_bars() as progress:
        told = admin.commit(policy_bytes(policy_file), window, agreed, named, progress, new_coins)
    tell_result(as_json, told.values, told.text)


@main.command(cls=Configured, prefix="RAGSEAL_PROVIDER")
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
              "run`.")  # fmt: skip
@click.option("--worker-key", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="With --prove postgres://...: the key that this provider and its workers share.")  # fmt: skip
@click.option("--tick", type=click.FloatRange(min=0.0, max=60.0), default=TICK, show_default=True,
              help="Answers leave at multiples of this many seconds, so that their time says little.")  # fmt: skip
@click.option("--generator", default=EXTRACTIVE, show_default=True, metavar="NAME", help="What answers in words are "
              'written by: "extractive", or chat:MODEL@URL, which is asked over the network.')  # fmt: skip
@click.option("--generator-key", metavar="VARIABLE", help="The environment variable with that model's key.")
@click.option("--observer", "observers", multiple=True, metavar="NAME=KEY",
              help="A beacon participant that has a place kept free, and its key in hexadecimal. "
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
        witnesses=[NoteVerifier.from_vkey(vkey) for vkey in witnesses],
        verdicts=verdicts,
        witness_policy=None if witness_policy is None else Policy.load(witness_policy),
        witness_every=witness_every,
        account_rate=Rate.optional(account_rate),
        peer_rate=Rate.optional(peer_rate),
        prove_by=prove_by(engine or default_engine(), worker_key),
    )
    own.credentials()  # says now what is wrong with the files
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
        if generator != EXTRACTIVE and tick <= TICK:
            log.warning(
                "a served model takes longer for every document that takes part, and answers leave each %g s: how many "
                "take part shows in how long an answer takes; give --tick that covers the slowest", tick,
            )  # fmt: skip
        provider.write_with(named_generator(generator, provider.backends.embedder, generator_key, quotes=False))
        if retain is not None:
            set_retain(provider.state, int(seconds_of(retain)), secrets.token_bytes(32))
        with named_bars() if logs_for_people() else nothing_told() as progress:
            fsck.check_start(provider, progress)
        its_own = ServerTls(plain=True) if metrics_plain else own
        options = service.Listening(listen, own, reflection, public, metrics, its_own)
        asyncio.run(service.run(provider, replace(serve_options, spans=spans), options, ready, schedule, rates))


@main.command()
@STATE
@click.option("--provider", "address", help="host:port where it serves; default: this folder's own.")
@click.option("--window", default="", help="Default: the open one.")
@client_tls
@JSON
def close(directory: Path, address: str | None, window: str, tls: ClientTls, as_json: bool) -> None:
    """Close the open window: no query follows in it, the audit may begin.  The next one opens if it is ready."""
    if address is None:
        with administration(directory) as admin:
            told = admin.close(window)
        return tell_result(as_json, told.values, told.text)
    closed = remote.close_window(address, tls, assembly.signing_key(directory), window)
    tell_result(
        as_json,
        {"window": closed.window, "ledger_index": closed.ledger_index, "records": closed.records},
        f"window {closed.window} is closed with {closed.records} records",
    )


@main.command()
@STATE
@click.argument("window")
@click.option("--yes", "agreed", is_flag=True, help="Although it was not kept as long as `serve --retain` says.")
@click.option("--unproven", is_flag=True, help="Although not all that an audit asks for can be made.")
@JSON
def retire(directory: Path, window: str, agreed: bool, unproven: bool, as_json: bool) -> None:
    """Purge the texts, queries and secrets of a closed WINDOW; receipts, columns and proofs stay.

    First everything is made and kept that a full audit asks for.  `serve` does this by itself once a window was kept
    long enough.
    """
    with administration(directory) as admin, named_bars() as progress:
        told = admin.retire(window, agreed, unproven, progress)
    tell_result(as_json, told.values, told.text)


@main.command()
@STATE
@JSON
def status(directory: Path, as_json: bool) -> None:
    """What this provider holds, and what its windows cost so far."""
    with administration(directory) as admin:
        told = admin.status()
    tell_result(as_json, told.values, told.text)


main.add_command(worker)
main.add_command(backup)
main.add_command(restore)
for command in (release_key, plan, calibrate, fsck.fsck):
    main.add_command(command)


# --- helpers of the commands -----------------------------------------------------------------------------------------


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


if __name__ == "__main__":
    main()
