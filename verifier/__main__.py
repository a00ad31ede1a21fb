# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier``: make an auditor, its keys, take part in beacons, audit, show messages."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rich.console import Console
from rich.status import Status

from ragseal.circuits.build import DEFAULT_CACHE, build
from ragseal.circuits.estimate import build_estimate, estimate_digest, fitting
from ragseal.groth16.keys import make_keys
from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.terminal import (
    CONTEXT,
    JSON,
    Teaching,
    client_tls,
    log_to_stderr,
    server_tls,
    state_folder,
    stderr_console,
    version,
)
from ragseal.ledger.tls import ClientTls, ServerTls
from ragseal.verifier import claim, probe, service, show
from ragseal.verifier.beacon import Stage
from ragseal.verifier.blocks import SAMPLE_BLOCKS, Effort
from ragseal.verifier.conduct import Target, class_build, conduct, find_shape, read_receipts
from ragseal.verifier.epsilon import upward
from ragseal.verifier.evidence import AUDITOR, CEREMONY, PROVIDER
from ragseal.verifier.report import JSON_NAME, PAGE_NAME
from ragseal.verifier.sample import Sample
from ragseal.verifier.state import State, find_class
from ragseal.verifier.verification import FAILED, OK, PASS, SAMPLED_PASS, Verdict

EXIT_NO_PASS = 3  #: FAIL or UNSAFE; 1 is an error without a verdict, 2 a wrong command line

_MARKS = {OK: "[green]ok[/]", FAILED: "[red]FAILED[/]"}

STATE = state_folder("RAGSEAL_VERIFIER_STATE", "auditor", "Folder with everything this auditor keeps")
PROVIDER_OPTION = click.option(
    "--provider", default="127.0.0.1:7800", show_default=True, help="host:port where the provider serves."
)
LOG_KEY = click.option(
    "--log-key",
    required=True,
    help="The log's public key as the provider printed it (name+id+base64), or a file with it. "
    "Get it from somebody you trust: it is what the whole audit hangs on.",
)


@click.group(cls=Teaching, context_settings=CONTEXT)
@version("ragseal-verifier")
def main() -> None:
    """Audit private retrieval without seeing index, queries or noise.

    \b
    An auditor's first verdict, from nothing:
      ragseal-verifier init
      ragseal-verifier keygen --class base            (keys that you made are sound for you)
      ragseal-verifier serve --provider localhost:7800 --log-key KEY
                                                      (gives the provider the keys; takes part in its beacons)
      ... the provider runs a window and closes it ...
      ragseal-verifier audit --provider localhost:7800 --log-key KEY --out report

    \b
    PASS          every record is proven; epsilon bounds what a coalition of k_max accounts learns
    SAMPLED-PASS  only a sample was proven, see beta and confidence
    UNSAFE        under keys that the provider made: nothing binds it
    FAIL          names the step of the checklist and carries the evidence
    """


# --- output ----------------------------------------------------------------------------------------------------------


def _tell(as_json: bool, values: dict[str, Any], line: str) -> None:
    click.echo(json.dumps(values) if as_json else line)


def _console() -> Console:
    return stderr_console()


@contextmanager
def _status(text: str) -> Iterator[Status]:
    with _console().status(text) as status:
        yield status


def _log_key(text: str) -> NoteVerifier:
    path = Path(text)
    try:
        if "+" not in text and path.is_file():
            text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"cannot read a log key from {path}") from None
    return NoteVerifier.from_vkey(text)


def _target(provider: str, log_key: str, tls: ClientTls) -> Target:
    return Target(provider, _log_key(log_key), tls)


# --- setting up ------------------------------------------------------------------------------------------------------


@main.command()
@STATE
@JSON
def init(directory: Path, as_json: bool) -> None:
    """Make an auditor: a folder with an identity for beacons.

    Prints the public key; a provider may pin it so that nobody else takes the auditor's part.
    """
    state = State.create(directory, Ed25519PrivateKey.generate())
    key = state.public_key.hex()
    _tell(as_json, {"state": str(directory), "public_key": key}, f"made {directory}\nauditor key  {key}")


@main.command()
@STATE
@click.option("--class", "class_name", required=True, help="Circuit class, such as base; `classes` lists them.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_CACHE,
    show_default=True,
    help="Where compiled circuits are kept.",
)
@JSON
def keygen(directory: Path, class_name: str, cache: Path, as_json: bool) -> None:
    """Make proving and verifying keys for a circuit class and for the coalition estimate, once.

    Whoever makes keys can forge proofs under them, so keys that you made are sound for you and for those who trust you.
    Compiles the circuit first if that was not done yet (about half a minute for the largest class).
    """
    state = State(directory)
    cls, digest = find_class(class_build(), class_name)
    begun = time.monotonic()
    with _status(f"class {class_name}: compiling") as status:
        built = build(cls, cache, lambda text: status.update(text))
        paths = make_keys(built.r1cs, cls, digest, state.directory / "keys", lambda text: status.update(text))
        size = fitting(class_name)
        status.update(f"{size.name}: compiling")
        blocks = build_estimate(size, cache, lambda text: status.update(text))
        also = make_keys(
            blocks.r1cs, size, estimate_digest(size), state.directory / "keys", lambda text: status.update(text)
        )
    state.add_key(state.line_of(paths, cls, digest, AUDITOR))
    state.add_key(state.line_of(also, size, estimate_digest(size), AUDITOR))
    seconds = time.monotonic() - begun
    values = {
        "class": class_name, "key_digest": paths.digest.hex(), "path": str(paths.directory), "seconds": seconds,
        "estimate_key_digest": also.digest.hex(),
    }  # fmt: skip
    _tell(
        as_json,
        values,
        f"key {paths.digest.hex()}\nof class {class_name}, in {paths.directory}\n"
        f"key {also.digest.hex()}\nof the coalition estimate, in {also.directory}; made in {seconds:.1f} s",
    )


@main.command()
@STATE
@click.option(
    "--class",
    "class_name",
    required=True,
    help="Circuit class that the key is of, or a size of the estimate's such as estimate-112.",
)
@click.option(
    "--file",
    "source",
    required=True,
    type=click.Path(path_type=Path, exists=True),
    help="A .zkey, a key folder, or a verifying_key.bin.",
)
@click.option("--key-digest", required=True, help="The digest that you checked, 64 hexadecimal digits.")
@click.option(
    "--made-by",
    required=True,
    type=click.Choice([CEREMONY, PROVIDER]),
    help="ceremony: you checked circuit, phase 1 and a contribution that you trust.  provider: verdicts are UNSAFE.",
)
@JSON
def trust(directory: Path, class_name: str, source: Path, key_digest: str, made_by: str, as_json: bool) -> None:
    """Configure a verifying key that somebody else made.

    Only configured keys are ever used: a manifest cannot bring its own.
    """
    state = State(directory)
    cls, digest = find_shape(class_name)
    try:
        expected = bytes.fromhex(key_digest)
    except ValueError:
        raise ConfigurationError("--key-digest: 64 hexadecimal digits are expected") from None
    line = state.import_key(source, cls, digest, expected, made_by)
    note = "; verdicts under it are UNSAFE" if made_by == PROVIDER else ""
    _tell(
        as_json,
        {"key_digest": line.key_digest, "class": class_name, "made_by": made_by, "path": line.path},
        f"key {line.key_digest} of class {class_name} is configured, made by {made_by}{note}",
    )


@main.command()
@STATE
@JSON
def keys(directory: Path, as_json: bool) -> None:
    """List the configured keys."""
    lines = State(directory).key_lines()
    values = [{"key_digest": k.key_digest, "class": k.class_name, "made_by": k.made_by, "path": k.path} for k in lines]
    text = "\n".join(f"{k.key_digest}  {k.class_name}  made by {k.made_by}" for k in lines)
    _tell(as_json, {"keys": values}, text or "no keys yet: `keygen --class NAME` makes one")


@main.command()
@JSON
def classes(as_json: bool) -> None:
    """List the circuit classes of this installation."""
    found = class_build()
    values = {name: {"digest": digest.hex(), **cls.to_mapping()} for name, (cls, digest) in found.items()}
    text = "\n".join(
        f"{name:10} {cls.N:6} slots, returns {cls.K:3}, {cls.law:9} noise  {digest.hex()[:16]}"
        for name, (cls, digest) in found.items()
    )
    _tell(as_json, values, text)


# --- windows ---------------------------------------------------------------------------------------------------------


@main.command()
@STATE
@PROVIDER_OPTION
@LOG_KEY
@client_tls
@click.option(
    "--wait", type=click.FloatRange(min=0), default=300.0, show_default=True, help="Seconds to wait for the others."
)
@JSON
def beacon(directory: Path, provider: str, log_key: str, tls: ClientTls, wait: float, as_json: bool) -> None:
    """Take part in the beacon of the provider's newest window, once.

    Checks the manifest in the log, commits to a nonce, waits for the seal and the other openings, opens last.
    `serve` does this by itself for every window.
    """
    target = _target(provider, log_key, tls)
    state = State(directory)
    end = time.monotonic() + wait
    with _status("looking at the log") as status, target.connect() as link:
        part = service.participant(state, target, link)
        while True:
            stage, window = part.advance()
            if stage is Stage.OPENED:
                break
            if stage is Stage.LEFT_OUT:
                raise ConfigurationError(
                    f"window {window!r} was opened without this auditor: it cannot be audited here"
                )
            if time.monotonic() > end:
                raise TransportError(
                    f"window {window!r}: {stage.value}; run `beacon` again, it goes on where it stopped"
                )
            status.update(f"window {window}: {stage.value}")
            time.sleep(service.POLL)
    _tell(as_json, {"window": window, "stage": "opened"}, f"window {window}: the beacon is complete")


@main.command()
@STATE
@click.option("--listen", default="127.0.0.1:7801", show_default=True, help="host:port; port 0 takes a free one.")
@click.option("--provider", "providers", multiple=True, help="host:port of a provider to work with; may be repeated.")
@click.option("--log-key", "log_keys", multiple=True, help="Its log's public key, one for every --provider, in order.")
@client_tls
@server_tls
@JSON
def serve(
    directory: Path,
    listen: str,
    providers: Sequence[str],
    log_keys: Sequence[str],
    tls: ClientTls,
    own: ServerTls,
    as_json: bool,
) -> None:
    """Hand out proving keys, take part in the beacons of the given providers, audit them on request.

    Without TLS it listens on loopback only (or with --listen-plain).  The client options are for the providers' side.
    Ends on Ctrl-C or SIGTERM.
    """
    log_to_stderr()
    if len(providers) != len(log_keys):
        raise ConfigurationError("give one --log-key for every --provider, in the same order")
    targets = {p: _target(p, k, tls) for p, k in zip(providers, log_keys, strict=True)}

    def ready(address: str) -> None:
        _tell(as_json, {"listening": address}, f"listening on {address}")
        sys.stdout.flush()

    asyncio.run(service.run(State(directory), targets, listen, own, ready))


@main.command()
@STATE
@PROVIDER_OPTION
@LOG_KEY
@client_tls
@click.option("--window", default="", help="Default: the newest that was opened.")
@click.option("--sample", type=click.IntRange(min=1), help="Ask for proofs of so many records only: SAMPLED-PASS.")
@click.option(
    "--estimate-blocks",
    type=click.IntRange(min=1),
    default=SAMPLE_BLOCKS,
    show_default=True,
    help="Random sets of records to ask for where a tenant has too many for a full certificate of the estimate.",
)
@click.option(
    "--period-from",
    type=click.IntRange(min=0),
    help="Count every window that ended after this (seconds since 1970), even if the policy's period began later.",
)
@click.option(
    "--receipts",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with .receipt and .answer files of accounts: none may contradict the log.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("report"),
    show_default=True,
    help="Where report.json and report.html go.",
)
@JSON
def audit(
    directory: Path,
    provider: str,
    log_key: str,
    tls: ClientTls,
    window: str,
    sample: int | None,
    receipts: Path | None,
    estimate_blocks: int,
    period_from: int | None,
    out: Path,
    as_json: bool,
) -> None:
    """Check a closed window step by step and issue the verdict.

    The last line is the verdict.  Exit status 0: PASS or SAMPLED-PASS; 3: UNSAFE or FAIL; 1: no verdict.
    """
    target = _target(provider, log_key, tls)
    state = State(directory)
    given = read_receipts(receipts) if receipts else []
    with _status("reading the log") as status:
        around = service.surroundings(lambda number, title: status.update(f"step {number}: {title}"))
        verdict, values = conduct(
            state,
            target,
            around,
            window=window,
            sample=Sample(sample) if sample else None,
            receipts=given,
            effort=Effort(sampled=estimate_blocks),
            since=period_from,
            out=out,
        )
    _print(verdict, out)
    click.echo(json.dumps(values) if as_json else verdict.line())
    if verdict.verdict not in (PASS, SAMPLED_PASS):
        sys.exit(EXIT_NO_PASS)


def _print(verdict: Verdict, out: Path) -> None:
    """The checklist and the numbers, for people; the verdict's line follows on its own."""
    console = _console()
    for step in sorted(verdict.steps, key=lambda step: step.number):
        mark = _MARKS.get(step.status, f"[dim]{step.status}[/]")
        console.print(f"{step.number:3}  {step.title:16} {mark}  [dim]{step.seconds:.2f} s[/]")
        if step.message:
            console.print(f"     {step.message}", markup=False)
    for tally in verdict.tallies:
        console.print(
            f"tenant {tally.tenant}: {tally.total} records, {tally.checked} checked, {tally.unchecked} unchecked, "
            f"{tally.acknowledged} acknowledged",
            markup=False,
        )
    if verdict.estimation is not None:
        found = verdict.estimation
        console.print(
            f"estimate: {found.c} of at most {found.k_max} accounts ask as one ({', '.join(found.members) or 'none'}), "
            f"certificate {found.certificate}",
            markup=False,
        )
    budget = verdict.budget
    if budget is not None and verdict.failure is None:
        console.print(
            f"epsilon {upward(budget.epsilon)} is claimed for the {budget.checked} checked records"
            + (
                f"; for the {budget.unchecked} unchecked ones it holds only if the provider's embeddings do not depend "
                "on the index"
                if budget.unchecked
                else ""
            )
        )
        console.print(f"one account alone: epsilon {upward(budget.epsilon_account)}, {budget.advertised} advertised")
        console.print(
            f"accountant: {budget.report.accountant}; {budget.queries} queries of {budget.report.k_max} accounts in "
            f"{len(budget.windows)} windows of the period",
            markup=False,
        )
        if budget.period.left_out:
            whole = budget.whole_log if isinstance(budget.whole_log, str) else upward(budget.whole_log or math.inf)
            console.print(
                f"not counted: {len(budget.period.left_out)} windows that ended before the period began; "
                f"epsilon with them: {whole}",
                markup=False,
            )
        console.print(f"claim: {claim.CLAIM}")
        console.print("the verdict does not say: " + " ".join(claim.DOES_NOT_SAY))
    console.print(f"{out / JSON_NAME}, {out / PAGE_NAME}", markup=False)


probe.register(main, PROVIDER_OPTION, LOG_KEY, _target)


@main.command("show")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
def show_message(file: Path) -> None:
    """Decode a canonical message (manifest, record, receipt, proof batch, ...) and print it as JSON.

    FILE holds the message's bytes or their hexadecimal digits; - reads standard input.
    """
    if str(file) == "-":
        data = sys.stdin.buffer.read(show.MAX_BYTES + 1)
    else:
        try:
            with file.open("rb") as stream:
                data = stream.read(show.MAX_BYTES + 1)
        except OSError as error:
            raise ConfigurationError(f"cannot read {file}: {error.strerror}") from None
    values = show.decode(data)
    click.echo(json.dumps(values, indent=1))


if __name__ == "__main__":
    main(prog_name="ragseal-verifier")
