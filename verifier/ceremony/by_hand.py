# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier ceremony``, the steps one by one: powers of tau, and what snarkjs is given by hand.  SPEC A.9."""

from __future__ import annotations

from pathlib import Path

import click

from ragseal.backends.native import native, native_errors
from ragseal.circuits.build import DEFAULT_CACHE, compiled
from ragseal.circuits.circuit import circuit_of, shapes_of
from ragseal.circuits.independence import check_independent
from ragseal.circuits.r1cs import read_r1cs
from ragseal.groth16.coefficients import check_coefficients
from ragseal.groth16.powers import PowersFile
from ragseal.groth16.resection import hide_inputs, show_inputs
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.terminal import JSON, tell_result, telling
from ragseal.verifier.base.builds import class_build, find_class, find_shape

CLASS = click.option(
    "--class",
    "class_name",
    required=True,
    help="Circuit class, a size of the estimate's such as estimate-112, or thinning-2304.",
)
CACHE = click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_CACHE,
    show_default=True,
    help="Where compiled circuits are kept.",
)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_TARGET = click.Path(path_type=Path, dir_okay=False)


@click.command("powers", short_help="Make powers of tau alone")
@click.option("--class", "class_name", required=True, help="Circuit class that the powers must serve, such as base.")
@CACHE
@click.argument("target", type=_TARGET)
@JSON
def powers_(class_name: str, cache: Path, target: Path, as_json: bool) -> None:
    """Make powers of tau alone, where no public ceremony's will do.

    tau comes from the operating system and is forgotten: keys of them are sound for the one who ran this, and a
    provider that gets the file can check every point.  For the estimate's and the coins' circuit they suffice as well.
    """
    cls, _ = find_class(class_build(), class_name)
    with telling(f"class {class_name}: compiling") as tell:
        domain = 0
        for shape in shapes_of(cls):
            tell(f"{shape.name}: compiling")
            domain = max(domain, read_r1cs(compiled(shape, cache, tell)).domain(circuit_of(shape).kept))
        power = domain.bit_length() - 1
        tell(f"making powers for 2^{power} rows")
        with native_errors():
            native.make_powers(str(target), power)
    tell_result(
        as_json,
        {"class": class_name, "powers": str(target), "power": power},
        f"{target}: powers for 2^{power} rows; give the file to the provider with the keys that you make of it",
    )


@click.command(short_help="Write the circuit for snarkjs")
@CLASS
@CACHE
@click.argument("target", type=_TARGET)
@JSON
def circuit(class_name: str, cache: Path, target: Path, as_json: bool) -> None:
    """Write the circuit that `snarkjs groth16 setup` is given.

    Its hidden inputs are declared private: so they get no row of their own.
    """
    cls, _ = find_shape(class_name)
    with telling(f"{class_name}: compiling") as tell:
        r1cs = compiled(cls, cache, tell)
    hide_inputs(r1cs, circuit_of(cls).kept, target)
    tell_result(
        as_json,
        {"class": class_name, "r1cs": str(target)},
        f"{target}: now `snarkjs groth16 setup {target} POWERS.ptau SETUP.zkey`, then `ceremony begin --setup "
        "SETUP.zkey`",
    )


@click.command(short_help="Write the first party's key")
@CLASS
@CACHE
@click.option("--setup", type=_FILE, help="What snarkjs made of the circuit that `circuit` wrote.")
@click.option("--powers", type=_FILE, help="Instead: powers, prepared for phase 2. The same key, without snarkjs.")
@click.argument("target", type=_TARGET)
@JSON
def begin(class_name: str, cache: Path, setup: Path | None, powers: Path | None, target: Path, as_json: bool) -> None:
    """Write the key that the first party contributes to.

    It is a function of circuit and powers: anybody makes it again, with snarkjs or without, and compares.
    """
    cls, _ = find_shape(class_name)
    about = circuit_of(cls)
    if (setup is None) == (powers is None):
        raise ConfigurationError("give either --setup, a key of snarkjs, or --powers")
    if setup is not None:
        show_inputs(setup, about.public, target)
    elif powers is not None:
        with telling(f"{class_name}: compiling") as tell:
            own = read_r1cs(compiled(cls, cache, tell))
            tell(f"{class_name}: making the key")
            PowersFile(powers).initial_key(own, about.kept, target)
    tell_result(
        as_json,
        {"class": class_name, "zkey": str(target)},
        f"{target}: it proves anything until somebody contributes with `snarkjs zkey contribute`",
    )


@click.command(short_help="Check that a key is this circuit's")
@CLASS
@CACHE
@click.option("--powers", type=_FILE, required=True, help="The .ptau file that the ceremony began with.")
@click.argument("zkey", type=_FILE)
@JSON
def check(class_name: str, cache: Path, powers: Path, zkey: Path, as_json: bool) -> None:
    """Check that a key is this circuit's, over these powers: every coefficient and every point.

    Who contributed is not looked at: `snarkjs zkvi BEGIN.zkey POWERS.ptau KEY.zkey` lists them.  `verify` does both,
    of a ceremony's folder.
    """
    cls, _ = find_shape(class_name)
    about = circuit_of(cls)
    with telling(f"{class_name}: compiling") as tell:
        own = read_r1cs(compiled(cls, cache, tell))
        tell(f"{class_name}: checking the key")
        check_independent(own, about.kept, about.relations)
        with native_errors():
            digest = native.ProvingKey.load(str(zkey)).verifying_key().digest().hex()
        check_coefficients(zkey, own, about.kept)
        PowersFile(powers).check_key(zkey, own, about.kept)
    tell_result(
        as_json,
        {"class": class_name, "key_digest": digest, "points_checked": True},
        f"key {digest} is of class {class_name}: every point is the one that the circuit and {powers} give",
    )
