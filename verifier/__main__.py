# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier``: make an auditor, its keys, take part in beacons, audit, show messages."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits.build import DEFAULT_CACHE, compiled
from ragseal.circuits.circuit import KEY_FIELDS, class_digest, shapes_of
from ragseal.circuits.sizes import USUAL
from ragseal.groth16.keys import make_keys
from ragseal.groth16.powers import PowersFile
from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.ledger.named_log import named_log
from ragseal.runtime.doctor_command import doctor_command
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.settings import Configured, only_checked
from ragseal.runtime.stopping import ignore_hangups
from ragseal.runtime.terminal import (
    CONTEXT,
    JSON,
    Teaching,
    client_tls,
    server_tls,
    state_folder,
    tell_result,
    telling,
    version,
)
from ragseal.runtime.tls import ClientTls, ServerTls
from ragseal.verifier.audit.audit import Target
from ragseal.verifier.audit.participant import Stage
from ragseal.verifier.base.builds import class_build, find_class
from ragseal.verifier.cli import audit_command, trust_command
from ragseal.verifier.cli import ceremony_commands as ceremony_commands
from ragseal.verifier.cli import verdict_commands as verdict_commands
from ragseal.verifier.evidence.evidence import AUDITOR, UNKNOWN
from ragseal.verifier.folder.key_entries import KeyEntry
from ragseal.verifier.folder.state import State
from ragseal.verifier.report import show
from ragseal.verifier.service import service

STATE = state_folder("RAGSEAL_VERIFIER_STATE", "auditor", "Folder with everything this auditor keeps")
PROVIDER_OPTION = click.option(
    "--provider", default="127.0.0.1:7800", show_default=True, help="host:port where the provider serves."
)
LOG_KEY = click.option(
    "--log-key",
    required=True,
    help="The log's public key as the provider printed it (name+id+base64), or a file with it. "
    "Get it from somebody you trust: the whole audit rests on it.",
)


@click.group(cls=Teaching, context_settings=CONTEXT)
@version("ragseal-verifier")
def main() -> None:
    """Audit private retrieval without seeing index, queries or noise.

    \b
    An auditor's first verdict, from nothing:
      ragseal-verifier init
      ragseal-verifier keygen                         (keys that you made are sound for you)
      ragseal-verifier serve --provider localhost:7800 --log-key KEY
                                                      (gives the provider the keys; takes part in its beacons)
      ... the provider runs a window and closes it ...
      ragseal-verifier audit --provider localhost:7800 --log-key KEY --out report

    \b
    PASS          every record is proven, and the claim in its line holds; of claim exact nothing is private
    SAMPLED-PASS  only a sample was proven, see beta and confidence
    FAIL          something that the provider signed does not hold: names the step and carries the evidence
    NO VERDICT    everything else: a peer that is away, bytes that anybody could have made, keys that bind nobody,
                  the auditor's own files, clock or build; says what would lead to a verdict
    """


def _target(provider: str, log_key: str, tls: ClientTls) -> Target:
    return Target(provider, named_log(log_key), tls)


# --- setting up ------------------------------------------------------------------------------------------------------


@main.command(short_help="Make an auditor's folder and key")
@STATE
@JSON
def init(directory: Path, as_json: bool) -> None:
    """Make an auditor: a folder with an identity for beacons.

    Prints the public key; a provider may pin it so that nobody else takes the auditor's part.
    """
    state = State.create(directory, Ed25519PrivateKey.generate())
    key = state.public_key.hex()
    tell_result(as_json, {"state": str(directory), "public_key": key}, f"made {directory}\nauditor key  {key}")


@main.command(short_help="Make keys for a circuit class")
@STATE
@click.option("--class", "class_name", default=USUAL, show_default=True,
              help="The provider's circuit class, which its `status` shows; `classes` lists them.")  # fmt: skip
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_CACHE,
    show_default=True,
    help="Where compiled circuits are kept.",
)
@click.option(
    "--powers",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Public powers of tau, a .ptau file prepared for phase 2: a provider that has it can check every point.",
)
@JSON
def keygen(directory: Path, class_name: str, cache: Path, powers: Path | None, as_json: bool) -> None:
    """Make proving and verifying keys for a circuit class, once.

    Keys for the coalition estimate are made with them, and keys for the coins where the class has coins.
    The maker of keys can forge proofs under them, so keys that you made are sound for you and for those who trust
    you. Without --powers nobody else can tell whether their points are those of the circuit: a provider that fears
    for its secrets asks for keys of public powers.
    A circuit that does not come compiled is compiled first (about half a minute for the largest class).
    """
    state = State(directory)
    cls, _ = find_class(class_build(), class_name)
    begun = time.monotonic()
    first_phase = None if powers is None else PowersFile(powers)
    shapes = shapes_of(cls)
    with telling(f"class {class_name}: preparing its circuit") as tell:
        made = []
        for shape in shapes:
            tell(f"{shape.name}: preparing its circuit")
            r1cs = compiled(shape, cache, tell)
            made.append(make_keys(r1cs, shape, class_digest(shape), state.directory / "keys", tell, first_phase))
    for shape, one in zip(shapes, made, strict=True):
        state.add_key(state.line_of(one, shape, class_digest(shape), AUDITOR))
    seconds = time.monotonic() - begun
    purposes = (f"class {class_name}", "the coalition estimate", "the coins")
    values = {
        "class": class_name, "path": str(made[0].directory), "seconds": seconds,
        **{name: one.digest.hex() for name, one in zip(KEY_FIELDS, made, strict=False)},
        "powers": None if powers is None else str(powers),
    }  # fmt: skip
    tell_result(
        as_json,
        values,
        "\n".join(f"key {m.digest.hex()}\nof {w}, in {m.directory}" for w, m in zip(purposes, made, strict=False))
        + f"; ready in {seconds:.1f} s\n"
        + (
            "one party made both phases: no provider can check their points (--powers makes keys that one can)"
            if powers is None
            else f"of the powers in {powers}: a provider checks them with `fetch-keys --powers` and the same file"
        ),
    )


trust_command.register(main, STATE)


@main.command(short_help="List the configured keys")
@STATE
@JSON
def keys(directory: Path, as_json: bool) -> None:
    """List the configured keys."""
    state = State(directory)
    lines = state.key_entries()
    own = state.public_key
    values = [
        {
            "key_digest": k.key_digest,
            "class": k.class_name,
            "made_by": k.maker(own),
            "path": k.path,
            "participants": k.participants,
        }
        for k in lines
    ]
    text = "\n".join(f"{k.key_digest}  {k.class_name}  made by {_maker(k, own)}" for k in lines)
    tell_result(as_json, {"keys": values}, text or "no keys yet: `keygen --class NAME` makes one")


@main.command(short_help="List the circuit classes")
@JSON
def classes(as_json: bool) -> None:
    """List the circuit classes of this installation."""
    found = class_build()
    values = {name: {"digest": digest.hex(), **cls.to_mapping()} for name, (cls, digest) in found.items()}
    text = "\n".join(
        f"{name:21} {cls.N:6} slots, up to {cls.S:2} shards, {cls.law:12} {digest.hex()[:16]}"
        for name, (cls, digest) in found.items()
    )
    tell_result(as_json, values, text)


def _maker(line: KeyEntry, own: bytes) -> str:
    maker = line.maker(own)
    if maker == UNKNOWN:
        return f"{maker}: this folder did not sign that it is {line.made_by}; keygen or trust writes the line anew"
    return ", ".join([maker, *line.participants])


# --- windows ---------------------------------------------------------------------------------------------------------


@main.command(short_help="Take part in a window's beacon")
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
    with telling("looking at the log") as tell, target.connect() as link:
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
            tell(f"window {window}: {stage.value}")
            time.sleep(service.POLL)
    tell_result(as_json, {"window": window, "stage": "opened"}, f"window {window}: the beacon is complete")


@main.command(cls=Configured, prefix="RAGSEAL_VERIFIER", short_help="Serve keys and audits to providers")
@STATE
@click.option("--listen", default="127.0.0.1:7801", show_default=True, help="host:port; port 0 takes a free one.")
@click.option("--provider", "providers", multiple=True, help="host:port of a provider to work with; may be repeated.")
@click.option("--log-key", "log_keys", multiple=True, help="Its log's public key, one for every --provider, in order.")
@click.option("--receipts", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Folder of receipts and turns that accounts handed in; each audit reads it.")  # fmt: skip
@audit_command.detect_options
@client_tls
@server_tls
@click.option("--reflection", is_flag=True, help="Let clients list the services (off in production).")
@JSON
def serve(
    directory: Path,
    listen: str,
    providers: Sequence[str],
    log_keys: Sequence[str],
    receipts: Path | None,
    detect: str | None,
    confidence: str | None,
    tls: ClientTls,
    own: ServerTls,
    reflection: bool,
    as_json: bool,
) -> None:
    """Serve providers: hand out keys, take part in beacons, audit.

    Beacons are those of the given providers; audits are made on request: of every record, with --detect of a sample
    where the request names no size.
    Without TLS it listens on loopback only (or with --listen-plain).  The client options are for the providers' side.
    Ends on Ctrl-C or SIGTERM; SIGHUP takes renewed certificate files at once.
    """
    ignore_hangups()
    if len(providers) != len(log_keys):
        raise ConfigurationError("give one --log-key for every --provider, in the same order")
    Address.parse(listen, listening=True)
    for provider in providers:
        Address.parse(provider)
    targets = {p: _target(p, k, tls) for p, k in zip(providers, log_keys, strict=True)}
    sample = audit_command.sample_of(None, detect, confidence)
    if only_checked(as_json):
        return

    def ready(address: str) -> None:
        tell_result(as_json, {"listening": address}, f"listening on {address}")
        sys.stdout.flush()

    asyncio.run(service.run(State(directory), targets, listen, own, ready, reflection, receipts, sample))


audit_command.register(main, (STATE, PROVIDER_OPTION, LOG_KEY), _target)
ceremony_commands.register(main, STATE)
verdict_commands.register(main, STATE, PROVIDER_OPTION)
main.add_command(doctor_command(STATE, "directory", "--provider", serves=True))


@main.command("show", short_help="Print a canonical message as JSON")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
def show_message(file: Path) -> None:
    """Print a canonical message as JSON.

    A manifest, record, receipt, proof batch and so on.
    FILE holds the message's bytes or their hexadecimal digits; - reads standard input.
    """
    if str(file) == "-":
        data = sys.stdin.buffer.read(show.MAX_BYTES + 1)
    else:
        try:
            with file.open("rb") as stream:
                data = stream.read(show.MAX_BYTES + 1)
        except OSError as error:
            raise ConfigurationError(f"cannot read {file}: {why(error, file)}") from None
    values = show.decode(data)
    click.echo(json.dumps(values, indent=1))


if __name__ == "__main__":
    gc.freeze()  # what is loaded lives until the end: no collection, nor the last one, walks through it
    main(prog_name="ragseal-verifier")
