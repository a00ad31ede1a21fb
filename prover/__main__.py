# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider``: make a provider, put documents, register accounts, commit a window, serve it, close it."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.embedder import load_embedder
from ragseal.kernel.claims import form_of
from ragseal.kernel.errors import AuditError
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED, require_shards
from ragseal.ledger.vocabulary import read_vocabulary
from ragseal.prover.administration.status import identity, unopened
from ragseal.prover.base.check_report import STATUSES
from ragseal.prover.cli.access import administration
from ragseal.prover.cli.account_commands import accounts
from ragseal.prover.cli.auditor_commands import auditors
from ragseal.prover.cli.backup_commands import backup, restore
from ragseal.prover.cli.calibrate_command import calibrate
from ragseal.prover.cli.change_command import change
from ragseal.prover.cli.document_commands import documents
from ragseal.prover.cli.fsck_command import fsck
from ragseal.prover.cli.key_commands import fetch_keys, release_key
from ragseal.prover.cli.log_commands import log as log_group
from ragseal.prover.cli.options import STATE, auditor_seats, sized
from ragseal.prover.cli.plan_command import plan
from ragseal.prover.cli.proof_commands import proofs as proofs_group
from ragseal.prover.cli.serve_command import serve
from ragseal.prover.cli.tenant_commands import tenants
from ragseal.prover.cli.worker_commands import worker
from ragseal.prover.commitment.policy_file import policy_bytes
from ragseal.prover.commitment.vocabularies import keep_vocabulary
from ragseal.prover.fsck.files_check import holds_anything
from ragseal.prover.planning import budgets, consent, defaults, lists, rungs
from ragseal.prover.planning.public_score_ranges import public_window
from ragseal.prover.provider import assembly
from ragseal.prover.storage.state import Settings, State, create
from ragseal.prover.wire import remote
from ragseal.runtime.doctor_command import doctor_command
from ragseal.runtime.face import counted
from ragseal.runtime.terminal import CONTEXT, JSON, Teaching, client_tls, named_bars, tell_result, telling, version
from ragseal.runtime.tls import ClientTls
from ragseal.runtime.token_key import FORM, load_token_key


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


@main.command(short_help="Make a provider's folder and keys")
@STATE
@click.option("--origin", required=True, help="Name of the ledger, such as example.org/rag; part of every checkpoint.")
@sized
@click.option("--embedder", default="minilm", show_default=True,
              help='Of documents and queries: "minilm", "sentence-transformers:NAME" or '
              '"declared:PROVIDER/MODEL@DIMENSION", which is asked over the network.')  # fmt: skip
@click.option("--provider-token", metavar="URI",
              help=f"The provider's key, which signs each window's manifest, is one of an HSM: {FORM}.")  # fmt: skip
@click.option("--log-token", metavar="URI", help="The log's key, which signs every checkpoint, is one of an HSM.")
@JSON
def init(
    directory: Path,
    origin: str,
    size: tuple[str, int],
    embedder: str,
    provider_token: str | None,
    log_token: str | None,
    as_json: bool,
) -> None:
    """Make a provider: state folder, signing keys, an empty ledger.

    Prints the two public keys that clients and auditors pin: the provider's and the ledger's.
    """
    keys = [Ed25519PrivateKey.generate() if uri is None else load_token_key(uri) for uri in (provider_token, log_token)]
    class_name, shards = size
    require_shards(assembly.circuit_class(class_name), shards)
    load_embedder(embedder)
    create(directory, Settings(origin, class_name, embedder, shards), *keys)
    with State(directory) as state:
        found = identity(state)
    tell_result(
        as_json, found, f"made {directory}\nprovider key  {found['provider_key']}\nledger key    {found['ledger_key']}"
    )


main.add_command(change)
main.add_command(documents)
main.add_command(tenants)
main.add_command(accounts)
main.add_command(auditors)
main.add_command(log_group)
main.add_command(fetch_keys)
main.add_command(proofs_group)


@main.command(short_help="Print a policy file to start from")
@STATE
@click.option(
    "--claim",
    type=click.Choice([UNTIL_DELIVERED, EVERY_LIST, *rungs.RUNGS]),
    default=UNTIL_DELIVERED,
    show_default=True,
    help="every-list is of a class with noise. unseen has coins and no decoys; exact has neither, and nothing is "
    "private.",
)
def policy(directory: Path, claim: str) -> None:
    """Print a policy file to start from.

    It gives useful answers, and says what they cost.
    """
    settings = Settings.load(directory / "provider.toml")
    cls = assembly.circuit_class(settings.class_name)
    embedder = load_embedder(settings.embedder, threads=1)
    public = public_window(embedder.identity().digest())
    if form_of(claim).counted:
        with telling("looking for the gain that the budget allows"):
            text = lists.policy_text(cls, embedder.dimension, settings.embedder, public, settings.shards)
        click.echo(text, nl=False)
        return
    if claim in rungs.RUNGS:
        click.echo(rungs.policy_text(claim, cls, budgets.UNSEEN, public), nl=False)
        return
    click.echo(defaults.policy_text(cls, embedder.dimension, settings.embedder, public, settings.shards), nl=False)


@main.command(short_help="Take in the keywords of answers")
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


@main.command(short_help="Commit to a window before it opens")
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
@click.option("--explain", is_flag=True, help="Say in full, too, what the policy gives and costs.")
@JSON
def commit(
    directory: Path,
    policy_file: Path,
    window: str,
    seats: tuple[str, ...],
    agreed: float | None,
    new_coins: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Phase A: commit to a window before it opens.

    Printed first is what is new against the window before: tenants, accounts, auditors, keys, values of the policy.

    Every index, the seed, the policy and the accounts are committed to, and the manifest enters the ledger.  A provider
    that serves draws the window's beacon while the open one goes on, and opens it when that one is closed.
    """
    named = auditor_seats(seats)
    with administration(directory) as admin, named_bars() as progress:
        told = admin.commit(policy_bytes(policy_file), window, agreed, named, progress, new_coins)
    more = told.values["explanation"] if explain else ()
    tell_result(as_json, told.values, "\n".join([told.text, *more]))


main.add_command(serve)


@main.command(short_help="Close the open window")
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
        f"window {closed.window} is closed with {counted(closed.records, 'record')}",
    )


@main.command(short_help="Purge the secrets of a closed window")
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


@main.command(short_help="Show what is wrong and what goes on")
@STATE
@click.option("--check", is_flag=True, help="End with 1 if something is wrong, and with 4 if that could not be seen.")
@JSON
def status(directory: Path, check: bool, as_json: bool) -> None:
    """What is wrong with this provider, what it holds, and what its windows cost so far.

    What is wrong stands first, in --json in the list `wrong`. Ends with 1 where the folder is too damaged to be
    opened, and with 4 where nobody can look: a process that does not serve uses it, or a tool is missing here.
    """
    try:
        with administration(directory) as admin:
            told = admin.status()
    except AuditError as error:
        if not holds_anything(directory):
            raise
        told, check = unopened(directory, error), True
    tell_result(as_json, told.values, told.text)
    sys.exit(STATUSES[told.values["outcome"]] if check else 0)


main.add_command(worker)
main.add_command(backup)
main.add_command(restore)
main.add_command(doctor_command(STATE, "directory", "--verifier", serves=True))
for command in (release_key, plan, calibrate, fsck):
    main.add_command(command)


if __name__ == "__main__":
    gc.freeze()  # what is loaded lives until the end: no collection, nor the last one, walks through it
    main()
