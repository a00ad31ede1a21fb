# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier verdict``: what somebody does with a verdict that was handed on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.terminal import JSON, tell_result
from ragseal.verifier.audit_command import EXIT_FAIL, EXIT_NO_VERDICT
from ragseal.verifier.named_key import named_key
from ragseal.verifier.outcome import FAIL, NO_VERDICT
from ragseal.verifier.signed.envelope import MAX_BYTES
from ragseal.verifier.signed.statement import SignedVerdict, read_verdict
from ragseal.verifier.state import State

_STATUS = {FAIL: EXIT_FAIL, NO_VERDICT: EXIT_NO_VERDICT}
FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


def register(main: click.Group, state_option: Callable[..., Any]) -> None:
    """Add the group to ``ragseal-verifier``."""

    @main.group()
    def verdict() -> None:
        """Verdicts that auditors sign and others hand on: verdict.intoto.jsonl, which `audit` writes."""

    @verdict.command()
    @click.argument("file", type=FILE)
    @click.option(
        "--auditor",
        required=True,
        help="The auditor's public key, hexadecimal or a PEM file: from the auditor, not from who hands it on.",
    )
    @click.option("--report", type=FILE, help="report.json that came with it: must be the one that was signed with.")
    @JSON
    def verify(file: Path, auditor: str, report: Path | None, as_json: bool) -> None:
        """Check a signed verdict; needs neither the provider nor a network, nor an auditor's folder.

        The last line is the verdict's own.  Its numbers are the auditor's word: whoever wants to see for themselves
        audits, with keys of their own.

        \b
        Exit status  0  signed by this auditor: PASS or SAMPLED-PASS
                     3  signed by this auditor: FAIL
                     4  signed by this auditor: NO VERDICT
                     1  not this auditor's verdict, changed, or not its report
        """
        found = read_verdict(_read(file), named_key(auditor, "--auditor"), None if report is None else _read(report))
        if as_json:
            click.echo(json.dumps({"auditor": found.auditor.hex(), "subjects": found.subjects, **found.predicate}))
        else:
            _tell(found, report is not None)
        sys.exit(_STATUS.get(found.verdict, 0))

    @verdict.command()
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


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None


def _tell(found: SignedVerdict, with_report: bool) -> None:
    """What was signed, for people; what others named may hold line breaks, and must add no line of its own."""

    def say(text: str) -> None:
        click.echo(" ".join(text.split()), err=True)

    said = found.predicate
    say(f"signed by auditor {found.auditor.hex()}, {said['issued']}")
    for name, digest in found.subjects.items():
        say(f"about {name}: {digest}")
    say(f"the report beside it is {'the one that was signed with' if with_report else 'not looked at (--report)'}")
    say(f"claim: {said['claim']}")
    for text in said["doesNotSay"]:
        say(f"the verdict does not say: {text}")
    click.echo(" ".join(found.line.split()))
