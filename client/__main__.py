# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-client``: make an account's key, ask, and keep receipts that an auditor can use."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragseal.client import excerpts
from ragseal.client.account import KEY_FILE, AccountKey, AccountState, read_name, turned
from ragseal.client.folder import need
from ragseal.client.gateway.commands import gateway, mcp
from ragseal.client.options import STATE, Where, connected, connection, key_of
from ragseal.client.receipts import check_file, export, kept, nothing_kept
from ragseal.client.showing import show, show_kept
from ragseal.client.window import hidden_share, windows_of
from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.kernel.printable import printable
from ragseal.ledger.named_log import named_log
from ragseal.ledger.note import NoteVerifier
from ragseal.runtime.doctor_command import doctor_command
from ragseal.runtime.face import counted
from ragseal.runtime.terminal import CONTEXT, JSON, Teaching, tell_result, version
from ragseal.runtime.waiting import WAIT, patiently

if TYPE_CHECKING:
    from ragseal.client.result import Owed, Result


@click.group(cls=Teaching, context_settings=CONTEXT)
@version("ragseal-client")
def main() -> None:
    """Ask a provider privately and keep proof of what it answered.

    \b
    An account's first question, from nothing:
      ragseal-client keygen --account alice
      ragseal-client register-line --tenant acme       (hand the line to the provider; holds from its next window on)
      ragseal-client ask "How do I parse JSON?" --provider localhost:7800 --log-key 'example.org/rag+...'
      ragseal-client receipts list
      ragseal-client receipts export --out for-auditor (then: ragseal-verifier audit --receipts for-auditor)

    Every answer is checked before it is shown: the slots against the ledger's commitment, each text against the index
    committed before the window opened, the receipt's signature, and the record's place in the ledger. What does not
    hold is refused, and everything sent and received is saved under evidence/ in the account's folder. A request that
    was signed but not answered is repeated, byte for byte, by the next "ask" or by "resume".
    """


@main.command(short_help="Make this account's folder and key")
@STATE
@click.option("--account", required=True, help="The account's name: printable ASCII without spaces.")
@JSON
def keygen(directory: Path, account: str, as_json: bool) -> None:
    """Make this account's folder with a new Ed25519 key."""
    key = AccountState.create(directory, account)
    tell_result(
        as_json,
        {"account": account, "public_key": key.public.hex(), "state": str(directory)},
        f"account {account}\npublic key {key.public.hex()}\nkept in {directory}: back it up, it cannot be made again",
    )


@main.command("register-line", short_help="Print what the provider registers")
@STATE
@click.option("--tenant", required=True, help="Whose documents this account may search.")
@JSON
def register_line(directory: Path, tenant: str, as_json: bool) -> None:
    """Print what the provider needs to register this account: name, tenant, public key."""
    name = read_name(directory)
    key = AccountKey.load(directory / KEY_FILE).public.hex()
    tell_result(
        as_json,
        {"account": name, "tenant": tenant, "public_key": key},
        shlex.join(["ragseal-provider", "accounts", "add", name, "--tenant", tenant, "--key", key]),
    )


@main.command(short_help="Ask one question")
@click.argument("text")
@click.option("--answer", "wants_answer", is_flag=True, help="An answer in words, of a window of the claim answers; "
              "its documents stay with the provider.")  # fmt: skip
@click.option("--top", type=click.IntRange(min=0), default=excerpts.TOP, show_default=True, metavar="N",
              help="Print the N best texts whole, and where the others begin; --json prints all.")  # fmt: skip
@WAIT
@connection
def ask(text: str, wants_answer: bool, top: int, wait: float, as_json: bool, where: Where) -> None:
    """Ask one question; print ids, texts and metadata, best first, after every check."""
    if not text.strip():
        raise ConfigurationError("there is no question in this text, and asking would cost one of your queries")
    fetched: Sequence[Result] = ()
    try:
        with connected(where) as client:
            try:
                result = patiently(
                    lambda: client.ask(text, answer=wants_answer), wait, lambda said: click.echo(said, err=True)
                )
            finally:
                fetched = client.fetched
    except AuditError:
        _tell_fetched(fetched)
        with suppress(AuditError):  # what was met first is told
            _tell_owed(where.directory, "a query of window {} is signed and may be paid; its answer is owed")
        raise
    # before anything else can fail: it is paid
    show(result, as_json, hidden_share(where.directory, result.record.signed.request.window), top, fetched)
    _tell_fetched(fetched)
    for window in result.unanswered:
        click.echo(
            f"window {window} ended on this question, so it was asked again in the next one; the provider says that "
            "the first one was not recorded and cost nothing: `ragseal-client resume` asks for its answer",
            err=True,
        )
    try:
        _tell_owed(where.directory, "an answer of window {} is owed from before", result.unanswered)
    except AuditError as error:  # of another window: this answer is there
        click.echo(f"whether answers of other windows are owed is not known: {error}", err=True)


@main.command(short_help="Fetch answers that are still owed")
@click.option("--again", is_flag=True, help="Ask for answers that were given up, too.")
@click.option("--window", default="", metavar="NAME", help="Of this window too, which an older copy need not know.")
@connection
def resume(again: bool, window: str, as_json: bool, where: Where) -> None:
    """Fetch and print answers that are still owed, in every window.

    Those that were paid for and are not here belong to them: the folder may be an older copy, or a second one may have
    asked. The provider gives them until it retires the window, without their questions, which it does not keep.

    Ends with status 1 if a request stays without an answer.
    A request that the provider refuses after the end of its window is given up: the provider has no record of it, or
    says so. Ask the question again in a later window; the signed request is kept.
    """
    with connected(where) as client:
        found = client.resume(again=again, window=window)
    for result in found.results:
        show(result, as_json, hidden_share(where.directory, result.record.signed.request.window))
    for owed in found.owed:
        _show_owed(owed, as_json)
    if not found.results and not found.owed and not as_json:
        click.echo("no answer is owed; `ragseal-client receipts show` prints those that came")
    if found.given_up:
        click.echo(f"given up before: {found.given_up}; `resume --again` asks for these answers too", err=True)
    if found.owed:
        sys.exit(1)


def _tell_owed(directory: Path, text: str, told: Sequence[str] = ()) -> None:
    """Say of each window with a request that has no answer yet how to get it; of those in ``told`` it was said."""
    for one in windows_of(directory):
        if one.owes and one.manifest.window not in told:
            click.echo(f"{text.format(one.manifest.window)}: `ragseal-client resume` fetches it", err=True)


def _tell_fetched(found: Sequence[Result]) -> None:
    """Say which answers came because this folder lacked them."""
    windows: dict[str, list[int]] = {}
    for one in found:
        request = one.record.signed.request
        windows.setdefault(request.window, []).append(request.ctr)
    for window, numbers in windows.items():
        first, last = numbers[0], numbers[-1]
        which = f"query {first}" if first == last else f"queries {first} to {last}"
        click.echo(
            f"{counted(len(numbers), 'answer')} that this folder lacked came: {which} of window {window}. The folder "
            "is an older copy, or a second one has asked. "
            f"`ragseal-client receipts show {window} {first}` prints {'it' if first == last else 'the first'}",
            err=True,
        )


def _show_owed(owed: Owed, as_json: bool) -> None:
    """A request without an answer: what there is to know, and what there is to do."""
    reason = printable(str(owed.reason))
    facts = {
        "window": owed.window, "ctr": owed.ctr, "refused": reason, "given_up": owed.given_up, "kept": str(owed.folder),
    }  # fmt: skip
    which = f"window {owed.window}" + (f", query {owed.ctr}" if owed.ctr else "")
    text = f"{which}: no answer ({reason})"
    if owed.trouble is not None:
        facts["trouble"] = printable(str(owed.trouble))
        text += f"\n-- this could not be kept, so that the next `resume` asks again: {facts['trouble']}"
    if owed.given_up:
        text += (
            "\n-- its window is over: ask again, which costs a query of the present window; what is signed and kept of "
            f"it stays in {owed.folder}, and `resume --again` asks for its answer once more"
        )
    if as_json:
        tell_result(True, facts, text)
    else:
        click.echo(text, err=True)


@main.group(cls=Teaching, short_help="List, show, check and export receipts")
def receipts() -> None:
    """Receipts of answered queries."""


@receipts.command("list", short_help="List every receipt, oldest first")
@STATE
@JSON
def list_receipts(directory: Path, as_json: bool) -> None:
    """Every receipt of this account, oldest first."""
    read_name(directory)
    found = [
        {
            "window": one.window.manifest.window,
            "ctr": one.ctr,
            "seq": one.answer.receipt.body.seq,
            "ledger_index": one.answer.receipt.body.index,
            "time": one.answer.record.time,
            "checked": one.answer.record.signed.request.checked,
            "claim": one.window.rules.claim,
            "digest": one.answer.receipt.digest().hex(),
        }
        for one in kept(directory)
    ]
    lines = [
        f"{item['window']} query {item['ctr']}: ledger entry {item['ledger_index']}, "
        f"{'checked' if item['checked'] else 'unchecked'}, claim {item['claim']}, receipt {item['digest']}"
        for item in found
    ]
    if lines:
        lines.append("-- `ragseal-client receipts show WINDOW NUMBER` prints the answer to a query again")
    tell_result(as_json, {"receipts": found}, "\n".join(lines) or nothing_kept(directory))


@receipts.command("show", short_help="Print the answer to an earlier query")
@click.argument("window")
@click.argument("number", type=click.IntRange(min=1))
@STATE
@JSON
def show_receipt(window: str, number: int, directory: Path, as_json: bool) -> None:
    """Print the answer to query NUMBER of WINDOW again, as this account keeps it.

    `receipts list` names windows and queries. Nobody is asked, no query is spent, and the texts are in the order of
    their slots: to rank them takes the embedder.
    """
    read_name(directory)
    found = [one for one in kept(directory, window) if one.ctr == number]
    if not found:
        raise ConfigurationError(
            f"no answer to query {number} of window {window!r} is kept here: see `ragseal-client receipts list`, and "
            "`ragseal-client resume` for answers that are owed"
        )
    for one in found:
        show_kept(one, as_json)


@receipts.command("export", short_help="Write receipts for an auditor")
@STATE
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder to write into.")
@click.option("--window", help="Only this window's receipts.")
@JSON
def export_receipts(directory: Path, out: Path, window: str | None, as_json: bool) -> None:
    """Write receipts for an auditor: no query, text or slot is in them."""
    read_name(directory)
    chosen = kept(directory, window)
    if not chosen:
        wanted = "there are no such receipts: see `ragseal-client receipts list`"
        raise ConfigurationError(wanted if window is not None else nothing_kept(directory))
    paths = [str(export(one, out)) for one in chosen]
    tell_result(as_json, {"files": paths}, f"{counted(len(paths), 'receipt')} in {out}")


@receipts.command("check", short_help="Check a receipt without a connection")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--record", type=click.Path(path_type=Path), help="The ledger entry; by default beside the receipt.")
@click.option("--manifest", type=click.Path(path_type=Path), help="The window's manifest; by default beside it.")
@click.option(
    "--log-key", metavar="NAME+ID+BASE64", help="The log's verifier key; by default the one pinned in --state."
)
@click.option("--provider-key", metavar="HEX", help="The provider's key; by default the one pinned, if any.")
@STATE
@JSON
def check(
    file: Path,
    record: Path | None,
    manifest: Path | None,
    log_key: str | None,
    provider_key: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Check a receipt without asking anyone.

    Checked are signatures, digests, and the record's place in the ledger.
    """
    log, provider = _pins(file, directory, log_key, provider_key)
    record = file.with_suffix(".record") if record is None else record
    done = check_file(file, record, _manifest_of(file) if manifest is None else manifest, log, provider)
    body = done.receipt.body
    facts = {
        "window": done.manifest.manifest.window,
        "account": done.record.signed.request.account,
        "ctr": done.record.signed.request.ctr,
        "seq": body.seq,
        "ledger_index": body.index,
        "log": done.checkpoint.origin,
        "log_size": done.checkpoint.size,
        "provider_key": done.manifest.manifest.provider_key.hex(),
        "provider_key_pinned": provider is not None,
    }
    by = "the expected provider" if provider is not None else "a provider key that nobody vouched for (--provider-key)"
    tell_result(
        as_json,
        facts,
        f"the receipt holds: query {facts['ctr']} of {facts['account']} is entry {body.index} of {facts['log']} "
        f"(size {facts['log_size']}), signed by {by}",
    )


def _pins(
    file: Path, directory: Path, log_key: str | None, provider_key: str | None
) -> tuple[NoteVerifier, bytes | None]:
    """Keys to trust: as given, else as pinned in the account's folder, which is read without its lock."""
    folder = file.parent  # exported receipts have the turns of their log's key beside them
    if log_key is None and (directory / "log.vkey").exists():
        log_key, folder = need(directory / "log.vkey").decode("utf-8", "replace").strip(), directory
    if log_key is None:
        raise ConfigurationError("give --log-key, or --state with an account that has pinned one")
    if provider_key is None and (directory / "provider.pub").exists():
        provider_key = need(directory / "provider.pub").decode("utf-8", "replace").strip()
    log = turned(named_log(log_key), folder)
    return log, None if provider_key is None else key_of(provider_key)


def _manifest_of(file: Path) -> Path:
    """The manifest beside an exported receipt (one, or the one whose name begins the receipt's), or a kept answer."""
    own = file.with_name("manifest")
    if own.exists():
        return own
    beside = [path for path in file.parent.glob("*.manifest") if file.name.startswith(f"{path.stem}-")]
    if not beside:
        raise ConfigurationError(f"there is no manifest beside {file}: give --manifest")
    return max(beside, key=lambda path: len(path.stem))


main.add_command(gateway)
main.add_command(mcp)
main.add_command(doctor_command(STATE, "directory", "--provider", serves=True))

if __name__ == "__main__":
    gc.freeze()  # what is loaded lives until the end: no collection, nor the last one, walks through it
    main()
