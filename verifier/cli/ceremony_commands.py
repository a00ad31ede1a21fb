# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier ceremony``: keys that several parties make in a folder that goes from hand to hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ragseal.circuits.circuit import shapes_of
from ragseal.groth16.contributions import read_chain
from ragseal.kernel.errors import AuditError
from ragseal.kernel.printable import printable
from ragseal.runtime.terminal import JSON, tell_result, telling
from ragseal.verifier.base.builds import class_build, find_class
from ragseal.verifier.ceremony import by_hand
from ragseal.verifier.ceremony.attestation import signer
from ragseal.verifier.ceremony.by_hand import CACHE
from ragseal.verifier.ceremony.checking import Checked, Checker, Party, beacon_text
from ragseal.verifier.ceremony.contributing import Step, add_round, begin
from ragseal.verifier.ceremony.folder import SUFFIX, Folder
from ragseal.verifier.folder.state import State

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
POWERS = click.option("--powers", type=_FILE, required=True, help="Powers of tau: your own copy of the .ptau file.")
PUBLISHED = click.option(
    "--powers-hash", "published", help="BLAKE2b-512 of that file as its ceremony published it (b2sum prints it)."
)
NOT_PUBLISHED = "nobody compared the powers with a published hash (--powers-hash)"


def register(main: click.Group, state_option: Callable[..., Any]) -> None:
    """Add the group to ``ragseal-verifier``."""

    @main.group(short_help="Make keys with several parties")
    def ceremony() -> None:
        """Keys that several parties make: one honest party among them is enough.

        \b
        somebody     new DIR --class NAME --powers FILE.ptau     then hands DIR on, as it is
        each party   contribute DIR --name NAME --powers FILE.ptau
        somebody     finish DIR --beacon HEX --iterations N --powers FILE.ptau
        everybody    verify DIR --powers FILE.ptau;  trust --ceremony DIR takes the keys
        """

    ceremony.add_command(new)

    @ceremony.command(short_help="Check what came, and contribute")
    @state_option
    @_FOLDER
    @click.option("--name", required=True, help="Who you are, as everybody will read it; up to 64 bytes.")
    @POWERS
    @PUBLISHED
    @CACHE
    @JSON
    def contribute(
        directory: Path, folder: Path, name: str, powers: Path, published: str | None, cache: Path, as_json: bool
    ) -> None:
        """Check what you were handed, multiply a secret of yours into every key, and sign what you did.

        The secret comes from the operating system, lives in one process and ends with it.  The folder has one more
        round then, or nothing new.  Signs with this auditor's identity: give its public key (`verdict key`) to
        everybody who should trust you.
        """
        _round(State(directory), folder, Step.contribution(name), powers, published, cache, as_json)

    @ceremony.command(short_help="Apply the public beacon, the last round")
    @state_option
    @_FOLDER
    @click.option("--beacon", required=True, help="Public randomness that nobody knew before, in hexadecimal digits.")
    @click.option("--iterations", type=int, default=10, show_default=True, help="N: 2^N hashes are made of it.")
    @POWERS
    @CACHE
    @JSON
    def finish(
        directory: Path, folder: Path, beacon: str, iterations: int, powers: Path, cache: Path, as_json: bool
    ) -> None:
        """Apply the public beacon: the last round, after which nothing can follow.

        It has no secret, and counts as nobody's contribution; it keeps the last party from choosing the key.
        """
        _round(State(directory), folder, Step.ending(beacon, iterations), powers, None, cache, as_json)

    for command in (verify, show, by_hand.powers_, by_hand.circuit, by_hand.begin, by_hand.check):
        ceremony.add_command(command)


@click.command(short_help="Make a ceremony's folder")
@_FOLDER
@click.option(
    "--class", "class_name", required=True, help="Circuit class that windows name, such as noise-small-two-50."
)
@click.option("--circuit", "only", help="Only this circuit: the class itself, an estimate-... or a thinning-... of it.")
@click.option("--powers", type=_FILE, required=True, help="Powers of tau, a .ptau file prepared for phase 2.")
@PUBLISHED
@CACHE
@JSON
def new(
    folder: Path, class_name: str, only: str | None, powers: Path, published: str | None, cache: Path, as_json: bool
) -> None:
    """Make a ceremony's folder, with the key that it begins with of each circuit that a window needs.

    These keys prove anything until somebody has contributed.
    """
    cls, _ = find_class(class_build(), class_name)
    names = [shape.name for shape in shapes_of(cls)]
    if only is not None:
        if only not in names:
            raise click.UsageError(f"--circuit: class {class_name} has the circuits {', '.join(names)}")
        names = [only]
    with telling(f"class {class_name}: compiling") as tell:
        made = begin(folder, names, powers, published, cache, tell)
    values = {
        "folder": str(folder), "ceremony": made.digest.hex(), "circuits": names, "powers": made.powers,
        "powers_blake2b": made.powers_file, "powers_published": published is not None,
    }  # fmt: skip
    tell_result(
        as_json,
        values,
        f"{folder}: ceremony {made.digest.hex()} of {', '.join(names)}\nupon powers with BLAKE2b-512 {made.powers_file}"
        f"{'' if published else chr(10) + NOT_PUBLISHED}\nnow `ceremony contribute {folder} --name ... --powers "
        f"{powers}`, then hand the folder on",
    )


def _round(
    state: State, path: Path, step: Step, powers: Path, published: str | None, cache: Path, as_json: bool
) -> None:
    folder = Folder(path)
    folder.rounds()
    with telling("compiling") as tell:
        checker = Checker(folder, powers, published, cache, tell)
        number, hashes = add_round(folder, step, state.identity, checker, tell)
    values = {
        "folder": str(path), "round": number, "name": step.name, "beacon": step.beacon or None,
        "contributions": hashes, "key": state.public_key.hex(),
    }  # fmt: skip
    lines = [f"{name}  contribution {value}" for name, value in hashes.items()]
    lines += [f"round {number:04}, signed by {state.public_key.hex()}"]
    lines += [
        "publish these hashes; `ceremony verify` and `trust --ceremony` take the folder"
        if step.beacon
        else "publish these hashes and your key, and hand the folder on; your secret is gone"
    ]
    tell_result(as_json, values, "\n".join(lines))


@click.command(short_help="Check a whole ceremony")
@_FOLDER
@POWERS
@PUBLISHED
@CACHE
@JSON
def verify(folder: Path, powers: Path, published: str | None, cache: Path, as_json: bool) -> None:
    """Check a ceremony from the circuits' sources and the powers on, and say who took part.

    Circuits are compiled here, the first keys made again, every point and coefficient of every later key compared,
    every contribution's hash, proof of knowledge and signature checked, and the beacon computed again.
    Names are what their keys' owners signed, or, where nobody signed, what anybody could have written.
    """
    found = check_folder(folder, powers, published, cache)
    values = {
        "ceremony": found.description.digest.hex(), "keys": dict(found.keys), "finished": bool(found.beacon),
        "powers_blake2b": found.powers_file, "powers_published": published is not None, "checked": True,
        "parties": [party_values(one) for one in found.parties],
    }  # fmt: skip
    lines = [party_line(one) for one in found.parties]
    lines += [f"{name}  key {digest}" for name, digest in found.keys.items()]
    lines += [f"powers with BLAKE2b-512 {found.powers_file}"]
    lines += [] if published else [NOT_PUBLISHED]
    lines += [
        "all of it holds; `trust --ceremony` takes the keys, if you know who one of the parties is"
        if found.beacon
        else "all of it holds so far: it is not finished, no beacon ends it"
    ]
    tell_result(as_json, values, "\n".join(lines))


def check_folder(path: Path, powers: Path, published: str | None, cache: Path) -> Checked:
    """Check a ceremony's folder.  Raises as :class:`Checker` and its ``check`` do."""
    folder = Folder(path)
    folder.rounds()
    with telling("compiling") as tell:
        checker = Checker(folder, powers, published, cache, tell)
        with checker.scratch() as at:
            return checker.check(at)


def party_values(one: Party) -> dict[str, object]:
    """A party as JSON carries it."""
    return {
        "round": one.number, "name": one.name, "beacon": one.beacon or None,
        "key": None if one.key is None else one.key.hex(), "contributions": dict(one.hashes),
    }  # fmt: skip


def party_line(one: Party) -> str:
    """A party in one line, whatever its name holds."""
    who = f"signed by {one.key.hex()}" if one.key is not None else "not signed: anybody may have written the name"
    what = f"the beacon {one.beacon}" if one.beacon else "contribution"
    return f"round {one.number:04}  {printable(one.name)[:200] or '(no name)'}: {what}; {who}"


@click.command(short_help="Print what a ceremony's folder says")
@_FOLDER
@JSON
def show(folder: Path, as_json: bool) -> None:
    """Print what a ceremony's folder says of itself.  Nothing is checked: `verify` does that."""
    found = Folder(folder)
    last, description = found.rounds(), found.description
    rounds = []
    for number in range(1, last + 1):
        try:
            data = found.attestation(number)
            key = None if data is None else signer(data).hex()
        except AuditError as error:
            key = f"unreadable: {printable(str(error))[:200]}"
        rounds.append({"round": number, "names": [], "beacon": None, "says_signed_by": key})
    for listed in description.circuits if last else ():
        chain = read_chain(found.path / f"{last:04}" / (listed.name + SUFFIX))
        for one, entry in zip(chain.contributions, rounds, strict=False):
            names = entry["names"]
            assert isinstance(names, list)
            names += [one.name] if one.name not in names else []
            entry["beacon"] = entry["beacon"] or beacon_text(one) or None
    values = {
        "ceremony": description.digest.hex(), "circuits": [one.name for one in description.circuits],
        "powers": description.powers, "powers_blake2b": description.powers_file, "rounds": rounds, "checked": False,
    }  # fmt: skip
    lines = [f"ceremony {description.digest.hex()} of {', '.join(one.name for one in description.circuits)}"]
    lines += [f"upon powers with BLAKE2b-512 {description.powers_file}"]
    for entry in rounds:
        names = entry["names"]
        assert isinstance(names, list)
        said = printable(" / ".join(names))[:200] or "(no name)"
        what = f"the beacon {entry['beacon']}" if entry["beacon"] else "contribution"
        lines.append(
            f"round {entry['round']:04}  {said}: {what}; names the key {entry['says_signed_by'] or 'of nobody'}"
        )
    lines.append("nothing of this was checked: `ceremony verify` does that")
    tell_result(as_json, values, "\n".join(lines))
