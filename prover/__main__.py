# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider``: make a provider, put documents, register accounts, commit a window, serve it, close it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits.circuit import class_digest
from ragseal.embedder import load_embedder
from ragseal.kernel import signature
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.note import NoteVerifier
from ragseal.prover import assembly, remote, service, spending
from ragseal.prover.account_commands import accounts
from ragseal.prover.commitment import consent, index, registry
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.commitment.policy_file import Binding, load_policy
from ragseal.prover.document_commands import documents
from ragseal.prover.key_commands import fetch_keys, release_key
from ragseal.prover.options import STATE, hexadecimal
from ragseal.prover.planning import defaults
from ragseal.prover.planning.calibrate import calibrate
from ragseal.prover.planning.plan import plan
from ragseal.prover.planning.public_score_ranges import public_window
from ragseal.prover.provider import Provider, ServeOptions
from ragseal.prover.storage import fsck, window_secrets
from ragseal.prover.storage.state import Settings, State, create
from ragseal.runtime.terminal import (
    CONTEXT,
    JSON,
    Teaching,
    client_tls,
    log_to_stderr,
    named_bars,
    progress_bars,
    server_tls,
    tell_result,
    version,
)
from ragseal.runtime.tls import ClientTls, ServerTls


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
      ragseal-provider close --provider localhost:7800               (then the auditor audits)
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
        found = _identity(state)
    tell_result(
        as_json, found, f"made {directory}\nprovider key  {found['provider_key']}\nledger key    {found['ledger_key']}"
    )


def _identity(state: State) -> dict[str, Any]:
    return {
        "state": str(state.directory),
        "origin": state.settings.origin,
        "class": state.settings.class_name,
        "embedder": state.settings.embedder,
        "provider_key": signature.public_bytes(state.key).hex(),
        "ledger_key": state.log_signer.verifier.vkey(),
    }


main.add_command(documents)
main.add_command(accounts)
main.add_command(fetch_keys)


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
@click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=True,
    help="policy.toml; `ragseal-provider policy` prints one to start from.",
)  # fmt: skip
@click.option("--window", required=True, help="A name that was never used before.")
@click.option("--auditor-key", help="The auditor's beacon key (64 hexadecimal digits); by default that of the auditor "
              "who made the proving key.")  # fmt: skip
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
    auditor_key: str | None,
    agreed: float | None,
    new_coins: bool,
    as_json: bool,
) -> None:
    """Phase A: commit to a window before it opens.

    Every index, the seed, the policy and the accounts are committed to, and the manifest enters the ledger.
    """
    started = time.monotonic()
    named = None if auditor_key is None else hexadecimal(auditor_key, 32, "--auditor-key")
    with _running(directory) as provider, progress_bars() as bars:
        cls = assembly.circuit_class(provider.state.settings.class_name)
        before = provider.journal.history.newest
        binding = Binding(
            cls,
            class_digest(cls),
            provider.backends.embedder.dimension,
            int(provider.environment.clock()),
            None if before is None else before.manifest.policy.period_start,
        )
        task = bars.add_task("checking the policy", total=None)
        accounts = len(registry.accounts(provider.state))
        rules = load_policy(policy_file, binding, partial(assembly.advertised_epsilon, accounts=accounts))
        assembly.check_promises(rules, cls, accounts)
        known = list(provider.journal.history.windows.values())
        first = None if new_coins else provider.carried(rules, named)
        coins = b"" if first is None else first.digest
        spent = spending.spending(known, assembly.circuit_class, rules, accounts, coins)
        terms = consent.terms(rules, cls, spent)
        consent.require(terms, agreed, spent.get("error"))
        entry = provider.commit(rules, window, lambda text: bars.update(task, description=text), named, new_coins)
        made = provider.journal.history.named(window)
        shared = window_secrets.shared_documents(provider.state, made.digest)
    values = {
        "window": window,
        "manifest": made.digest.hex(),
        "ledger_index": entry.index,
        "auditor_key": made.manifest.auditor_key.hex(),
        "carries_on_coins_of": None if first is None else first.manifest.window,
        "shared_documents": [{"tenants": [one, other], "documents": count} for one, other, count in shared],
        **terms,
        "budget": spent,
        "seconds": round(time.monotonic() - started, 2),
    }
    tell_result(
        as_json,
        values,
        f"window {window} is committed, manifest {made.digest.hex()}\n"
        + ("" if first is None else f"it carries on the coins of window {first.manifest.window}\n")
        + "".join(f"{line}\n" for line in (*spending.lines(spent), *consent.lines(terms, rules, cls)))
        + "".join(
            f"tenants {one} and {other} hold {count} of the same documents: epsilon bounds each index by itself, so "
            "accounts of both that work together learn about these documents twice as much\n"
            for one, other, count in shared
        )
        + "now `serve` it",
    )


@main.command()
@STATE
@click.option("--listen", default="127.0.0.1:7800", show_default=True, help="host:port; port 0 takes a free one.")
@click.option("--participants", type=click.IntRange(1, 63), default=1, show_default=True,
              help="Beacon participants to wait for, the auditor included.")  # fmt: skip
@click.option("--beacon-wait", type=click.FloatRange(min=0.1), default=60.0, show_default=True,
              help="Seconds after which the beacon goes on without those who are missing.")  # fmt: skip
@click.option("--proofs", type=click.Choice(["eager", "on-demand"]), default="eager", show_default=True,
              help="Prove in the background, or when an audit asks.")  # fmt: skip
@click.option("--tick", type=click.FloatRange(min=0.0, max=60.0), default=0.1, show_default=True,
              help="Answers leave at multiples of this many seconds, so that their time says little.")  # fmt: skip
@click.option("--observer", "observers", multiple=True, metavar="NAME=KEY",
              help="A beacon participant that has a place kept free, and its key in hexadecimal. "
              "Repeatable.")  # fmt: skip
@click.option("--witness", "witnesses", multiple=True, metavar="VKEY",
              help="An observer's public key: strangers cannot displace its cosignatures. Repeatable.")  # fmt: skip
@server_tls
@click.option("--reflection", is_flag=True, help="Let clients list the services (off in production).")
@JSON
def serve(
    directory: Path,
    listen: str,
    participants: int,
    beacon_wait: float,
    proofs: str,
    tick: float,
    observers: tuple[str, ...],
    witnesses: tuple[str, ...],
    own: ServerTls,
    reflection: bool,
    as_json: bool,
) -> None:
    """Run the newest window: beacon, queries, proofs.  Ends cleanly on Ctrl-C or SIGTERM, and goes on where it stopped.

    Without TLS it listens on loopback only (or with --listen-plain).
    """
    log_to_stderr()
    rules = BeaconRules(participants, beacon_wait, _observers(observers))
    serve_options = ServeOptions(
        proofs == "eager", tick, rules, witnesses=[NoteVerifier.from_vkey(vkey) for vkey in witnesses]
    )

    def ready(address: str) -> None:
        tell_result(as_json, {"listening": address}, f"listening on {address}")
        sys.stdout.flush()

    with _running(directory) as provider:
        with named_bars() as progress:
            fsck.check_start(provider, progress)
        options = service.Listening(listen, own, reflection)
        asyncio.run(service.run(provider, serve_options, options, ready))


@main.command()
@STATE
@click.option("--provider", "address", default="127.0.0.1:7800", show_default=True, help="host:port where it serves.")
@click.option("--window", default="", help="Default: the newest.")
@client_tls
@JSON
def close(directory: Path, address: str, window: str, tls: ClientTls, as_json: bool) -> None:
    """Close a window of the running provider: no query follows, the audit may begin."""
    key = assembly.signing_key(directory)
    closed = remote.close_window(address, tls, key, window)
    tell_result(
        as_json,
        {"window": closed.window, "ledger_index": closed.ledger_index, "records": closed.records},
        f"window {closed.window} is closed with {closed.records} records",
    )


@main.command()
@STATE
@JSON
def status(directory: Path, as_json: bool) -> None:
    """What this provider holds.  It must not be serving; one that serves is asked by GetManifest."""
    with _running(directory) as provider:
        proven = {
            digest: provider.state.row("SELECT COUNT(*) FROM proofs WHERE manifest = ?", (digest,))
            for digest in provider.journal.history.windows
        }
        values: dict[str, Any] = {
            **_identity(provider.state),
            "ledger_size": provider.ledger.size,
            "tenants": dict(index.tenants(provider.state)),
            "accounts": len(registry.accounts(provider.state)),
            "windows": [
                {
                    "window": w.manifest.window,
                    "manifest": w.digest.hex(),
                    "stage": w.stage.name.lower(),
                    "records": len(w.records),
                    "proven": int((proven[w.digest] or (0,))[0]),
                }
                for w in provider.journal.history.windows.values()
            ],
            "budget": spending.spending(provider.journal.history.windows.values(), assembly.circuit_class),
        }
    lines = [f"{key:13} {value}" for key, value in values.items() if key not in ("windows", "budget")]
    for w in values["windows"]:
        lines.append(f"window {w['window']}: {w['stage']}, {w['records']} records, {w['proven']} proven")
    lines += spending.lines(values["budget"])
    tell_result(as_json, values, "\n".join(lines))


for command in (release_key, plan, calibrate, fsck.fsck):
    main.add_command(command)


# --- helpers of the commands -----------------------------------------------------------------------------------------


class _running:
    """A provider with all its backends, closed at the end of the block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> Provider:
        state = State(self._directory)
        try:
            self._provider = Provider(state, assembly.assemble(state, lambda text: click.echo(text, err=True)))
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
