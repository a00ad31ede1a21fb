# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier verdict``: what somebody does with a verdict that was handed on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.named_log import named_log
from ragseal.ledger.note import NoteVerifier
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.face import counted
from ragseal.runtime.terminal import JSON, client_tls, tell_result
from ragseal.runtime.tls import ClientTls
from ragseal.verifier.base.named_key import named_key
from ragseal.verifier.cli import verdict_log_commands as log_commands
from ragseal.verifier.cli.audit_command import EXIT_FAIL, EXIT_NO_VERDICT
from ragseal.verifier.evidence.remote import RemoteEvidence
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import FAIL, NO_VERDICT
from ragseal.verifier.report.document import JSON_NAME, PAGE_NAME
from ragseal.verifier.signed.envelope import MAX_BYTES
from ragseal.verifier.signed.log import check_entered, verdict_for_the_ledger
from ragseal.verifier.signed.oscal import assessment_results
from ragseal.verifier.signed.statement import REPORTS, SignedVerdict, read_verdict

_STATUS = {FAIL: EXIT_FAIL, NO_VERDICT: EXIT_NO_VERDICT}
FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


def register(main: click.Group, state_option: Callable[..., Any], provider_option: Callable[..., Any]) -> None:
    """Add the group to ``ragseal-verifier``."""

    @main.group(short_help="Check and hand on signed verdicts")
    def verdict() -> None:
        """Verdicts that auditors sign and others hand on: verdict.intoto.jsonl, which `audit` writes."""

    @verdict.command(short_help="Check a signed verdict")
    @click.argument("file", type=FILE)
    @click.option(
        "--auditor",
        required=True,
        help="The auditor's public key, hexadecimal or a PEM file: from the auditor, not from the verdict's bearer.",
    )
    @click.option("--report", type=FILE, help="report.json that came with it.  [default: the one beside FILE, if any]")
    @click.option("--page", type=FILE, help="report.html that came with it.  [default: the one beside FILE, if any]")
    @click.option("--proof", type=FILE, help="verdict.tlog-proof that came with it: it must be in its auditor's log.")
    @click.option("--log", "log_key", help="That log's key, from the auditor.  [default: the one in the verdict]")
    @click.option("--all", "everything", is_flag=True, help="Print all that the verdict does not say, too.")
    @JSON
    def verify(
        file: Path, auditor: str, report: Path | None, page: Path | None, proof: Path | None, log_key: str | None,
        everything: bool, as_json: bool,
    ) -> None:  # fmt: skip
        """Check a signed verdict; needs neither the provider nor a network, nor an auditor's folder.

        The signature covers report.json and report.html by their digests. Either is checked where it is given or lies
        beside FILE.

        The last line is the verdict's own.  Its numbers are the auditor's word: a reader who wants to see for
        themselves audits, with keys of their own.

        \b
        Exit status  0  signed by this auditor: PASS or SAMPLED-PASS
                     3  signed by this auditor: FAIL
                     4  signed by this auditor: NO VERDICT
                     1  not this auditor's verdict, changed, not its report or page, or not in its log
        """
        if log_key is not None and proof is None:
            raise click.UsageError("--log needs --proof: verdict.tlog-proof, which `audit` writes beside the verdict")
        data = _read(file)
        reports = _reports(file, {JSON_NAME: report, PAGE_NAME: page})
        found = read_verdict(data, named_key(auditor, "--auditor"), reports)
        log = None if log_key is None else named_log(log_key)
        entered = None if proof is None else check_entered(data, found, _read(proof), log)
        if as_json:
            about = {
                "auditor": found.auditor.hex(), "subjects": found.subjects, "entered": entered is not None,
                "checked_files": sorted(reports),
            }  # fmt: skip
            click.echo(json.dumps({**about, **found.predicate}))
        else:
            _tell(found, sorted(reports), entered, everything)
        sys.exit(_STATUS.get(found.verdict, 0))

    @verdict.command(short_help="Show the key that signs verdicts")
    @state_option
    @click.option("--pem", is_flag=True, help="As a PEM file has it, for other tools.")
    @JSON
    def key(directory: Path, pem: bool, as_json: bool) -> None:
        """Show the public key that this auditor's verdicts are signed with."""
        public = State(directory).public_key
        text = Ed25519PublicKey.from_public_bytes(public).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        tell_result(
            as_json, {"public_key": public.hex(), "pem": text.decode()}, text.decode().strip() if pem else public.hex()
        )

    @verdict.command(short_help="Write a verdict as an OSCAL document")
    @click.argument("file", type=FILE)
    @click.option("--auditor", required=True, help="The auditor's public key, as of `verdict verify`.")
    @click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Where to write it; else to stdout.")
    def oscal(file: Path, auditor: str, out: Path | None) -> None:
        """Write a signed verdict as OSCAL assessment results, for programs of governance and compliance.

        One observation a step, one finding a failure. The same verdict gives the same bytes.
        """
        data = _read(file)
        made = assessment_results(data, read_verdict(data, named_key(auditor, "--auditor")))
        if out is None:
            click.echo(made.decode(), nl=False)
            return
        try:
            write_durably(out, made)
        except OSError as error:
            raise ConfigurationError(f"cannot write {out}: {why(error, out)}") from None

    @verdict.command(short_help="Hand a verdict to its provider's ledger")
    @click.argument("file", type=FILE)
    @state_option
    @provider_option
    @client_tls
    @JSON
    def submit(file: Path, directory: Path, provider: str, tls: ClientTls, as_json: bool) -> None:
        """Hand a verdict of this auditor to its provider, for the ledger that was audited.

        The ledger then says so to accounts and observers, as this auditor's claim: its word, what it claims with all
        numbers, and its digest, not the verdict itself. A provider may refuse; this auditor's own log has the verdict
        all the same.
        """
        state = State(directory)
        data = _read(file)
        made = verdict_for_the_ledger(data, read_verdict(data, state.public_key), state.identity)
        with closing(RemoteEvidence(provider, tls)) as link:
            link.submit_verdict(made.encode())
        tell_result(as_json, {"submitted": made.digest.hex()}, f"{provider} has it: {made.says()}")

    log_commands.register(verdict, state_option)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None


def _reports(file: Path, given: Mapping[str, Path | None]) -> dict[str, bytes]:
    """The reports that were given, else those that lie beside the verdict, by name."""
    found = {}
    for name, path in given.items():
        beside = file.parent / name
        if path is not None or beside.is_file():
            try:
                found[name] = (path or beside).read_bytes()
            except OSError as error:
                raise ConfigurationError(f"cannot read {path or beside}: {why(error, path or beside)}") from None
    return found


def _tell(found: SignedVerdict, checked: Sequence[str], entered: NoteVerifier | None, everything: bool) -> None:
    """What was signed, for people; what others named may hold line breaks, and must add no line of its own."""

    def say(text: str) -> None:
        click.echo(" ".join(text.split()), err=True)

    said = found.predicate
    say(f"signed by auditor {found.auditor.hex()}, {said['issued']}")
    for name, digest in found.subjects.items():
        say(f"about {name}: {digest}")
    for name in REPORTS:
        say(f"{name}: {'the one that was signed' if name in checked else 'not looked at, it does not lie beside'}")
    if entered is not None:
        say(f"in the auditor's log of verdicts {entered.vkey()}")
    elif said["verdictLog"] is None:
        say("in no log: its auditor could not write it down when it was issued")
    else:
        say(f"said to be in the log of verdicts {said['verdictLog']['key']}, not looked at (--proof)")
    if found.claims:  # below a FAIL or a NO VERDICT the claim would be read as one
        say(f"claim: {said['claim']}")
        limits = said["doesNotSay"]
        for text in limits if everything else ():
            say(f"the verdict does not say: {text}")
        if limits and not everything:
            say(f"what the verdict does not say: {counted(len(limits), 'exclusion')}, printed with --all")
    click.echo(" ".join(found.line.split()))
