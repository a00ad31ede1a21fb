# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier trust``: keys that others made, a ceremony's or the provider's.  SPEC A.9."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.printable import printable
from ragseal.runtime.terminal import JSON, tell_result, telling
from ragseal.verifier.base.builds import find_shape
from ragseal.verifier.base.named_key import named_key
from ragseal.verifier.ceremony.by_hand import CACHE
from ragseal.verifier.ceremony.trusting import take_keys
from ragseal.verifier.cli.ceremony_commands import PUBLISHED, party_values
from ragseal.verifier.evidence.evidence import PROVIDER, of_auditor
from ragseal.verifier.folder.state import State

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def register(main: click.Group, state_option: Callable[..., Any]) -> None:
    """Add the command to ``ragseal-verifier``."""

    @main.command(short_help="Rely on keys that others made")
    @state_option
    @click.option("--ceremony", type=click.Path(path_type=Path, file_okay=False), help="A ceremony's folder: its keys.")
    @click.option("--powers", type=_FILE, help="With --ceremony: powers of tau, your own copy of the .ptau file.")
    @PUBLISHED
    @click.option(
        "--knows",
        multiple=True,
        metavar="[NAME=]KEY",
        help="With --ceremony: a party whom you trust, by the public key that it gave you; may be repeated.",
    )
    @click.option("--beacon", help="With --ceremony: the beacon that must end it, in hexadecimal digits.")
    @CACHE
    @click.option(
        "--class",
        "class_name",
        help="With --file: the key's class, a size of the estimate's such as estimate-112, or thinning-2304.",
    )
    @click.option(
        "--file",
        "source",
        type=click.Path(path_type=Path, exists=True),
        help="A key that another auditor or the provider made: a .zkey, a key folder, or a verifying_key.bin.",
    )
    @click.option("--key-digest", help="With --file: the key's digest, 64 hexadecimal digits.")
    @click.option(
        "--made-by", type=click.Choice([PROVIDER]), help="With --file: no audit under such a key has a verdict."
    )
    @click.option(
        "--of-auditor",
        "of",
        metavar="KEY",
        help="With --file: the auditor that made it, by its public key.  It can forge proofs, so verdicts name it.",
    )
    @JSON
    def trust(
        directory: Path,
        ceremony: Path | None,
        powers: Path | None,
        published: str | None,
        knows: Sequence[str],
        beacon: str | None,
        cache: Path,
        class_name: str | None,
        source: Path | None,
        key_digest: str | None,
        made_by: str | None,
        of: str | None,
        as_json: bool,
    ) -> None:
        """Configure keys that others made: a ceremony's, once all of it is checked, another auditor's, a provider's.

        Of a ceremony you must know one party, by its key; your own contribution counts.
        Only configured keys are ever used: a manifest cannot bring its own.
        """
        state = State(directory)
        if (ceremony is None) == (source is None):
            raise ConfigurationError("give either --ceremony, a ceremony's folder, or --file, a key that somebody made")
        if ceremony is not None:
            if powers is None or class_name or key_digest or made_by or of:
                raise ConfigurationError("--ceremony goes with --powers, --powers-hash, --knows and --beacon only")
            _ceremony(state, ceremony, powers, published, knows, beacon, cache, as_json)
            return
        if source is None or class_name is None or key_digest is None or (made_by is None) == (of is None):
            raise ConfigurationError(
                f"--file goes with --class, --key-digest and either --of-auditor or --made-by {PROVIDER}"
            )
        if powers or published or knows or beacon:
            raise ConfigurationError("--powers, --powers-hash, --knows and --beacon go with --ceremony")
        maker = PROVIDER if of is None else of_auditor(named_key(of, "--of-auditor"))
        _file(state, source, class_name, key_digest, maker, as_json)


def _ceremony(
    state: State,
    ceremony: Path,
    powers: Path,
    published: str | None,
    knows: Sequence[str],
    beacon: str | None,
    cache: Path,
    as_json: bool,
) -> None:
    with telling("compiling") as tell:
        taken = take_keys(state, ceremony, powers, published, knows, beacon, cache, tell)
    ended = taken.checked.beacon
    values = {
        "ceremony": taken.checked.description.digest.hex(), "made_by": "ceremony", "beacon": ended,
        "keys": [{"key_digest": line.key_digest, "class": line.class_name, "path": line.path} for line in taken.lines],
        "known": [{"known_as": name, **party_values(one)} for name, one in taken.known],
        "rounds": len(taken.checked.parties), "powers_blake2b": taken.checked.powers_file,
    }  # fmt: skip
    lines = [f"key {line.key_digest} of class {line.class_name} is configured" for line in taken.lines]
    lines += [
        f"trusted for round {one.number:04}: {printable(name)[:200]}, {(one.key or b'').hex()}"
        for name, one in taken.known
    ]
    lines += [
        f"the beacon {ended}" + ("" if beacon else ": compare it with its source, or give --beacon"),
        f"powers as published, BLAKE2b-512 {taken.checked.powers_file}",
        "one of those named must have forgotten the secret, and one party of the powers' own ceremony too",
    ]
    tell_result(as_json, values, "\n".join(lines))


def _file(state: State, source: Path, class_name: str, key_digest: str, maker: str, as_json: bool) -> None:
    cls, digest = find_shape(class_name)
    try:
        expected = bytes.fromhex(key_digest)
    except ValueError:
        raise ConfigurationError("--key-digest: 64 hexadecimal digits are expected") from None
    line = state.import_key(source, cls, digest, expected, maker)
    means = "audits under it end in NO VERDICT" if maker == PROVIDER else "verdicts under it name that auditor"
    tell_result(
        as_json,
        {"key_digest": line.key_digest, "class": class_name, "made_by": maker, "path": line.path},
        f"key {line.key_digest} of class {class_name} is configured, made by {maker}; {means}",
    )
