# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m ragseal.circuits``: list, build, measure and search circuit classes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click

from ragseal.circuits import search as shapes
from ragseal.circuits import stats as statistics
from ragseal.circuits.build import DEFAULT_CACHE, build
from ragseal.circuits.circuit import Shape, class_digest, load_classes, thinning_classes
from ragseal.circuits.shipped import NAMES, TABLE, ship
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.params import GEOMETRIC, NOISE_LAWS
from ragseal.runtime.terminal import CONTEXT, Teaching


def _chosen(names: Iterable[str]) -> list[AttestationClass]:
    classes = load_classes()
    unknown = sorted(set(names) - set(classes))
    if unknown:
        raise ConfigurationError(f"no circuit class {', '.join(unknown)}; there are {', '.join(classes)}")
    return [classes[name] for name in names] or list(classes.values())


@click.group(cls=Teaching, context_settings=CONTEXT)
def main() -> None:
    """Circuit classes: their parameters, their builds and what they cost."""


@main.command("list")
def list_() -> None:
    """Print every class: slots N of a shard, shards S, other sizes, rows by formula, digest that policies name."""
    for cls in _chosen([]):
        rows = shapes.count_rows(cls)
        click.echo(
            f"{cls.name:21} {cls.law:12} N={cls.N:<6} S={cls.S:<2} {cls.sizes:34} rows={rows.rows:<7} "
            f"domain=2^{rows.domain.bit_length() - 1} "
            f"{class_digest(cls).hex()[:16]}"
        )


@main.command("build")
@click.argument("names", nargs=-1)
@click.option(
    "--cache", type=click.Path(path_type=Path), default=DEFAULT_CACHE, show_default=True, help="Build folder."
)
def build_(names: tuple[str, ...], cache: Path) -> None:
    """Compile the named classes (default: all); what is built already is found again."""
    for cls in _chosen(names):
        built = build(cls, cache, click.echo)
        click.echo(f"{cls.name}: {built.constraints} constraints, {built.public} public inputs, {built.folder}")


@main.command("stats", help=f"Compile the named classes (default: all) and update stats.csv.\n\n{statistics.__doc__}")
@click.argument("names", nargs=-1)
@click.option(
    "--cache", type=click.Path(path_type=Path), default=DEFAULT_CACHE, show_default=True, help="Build folder."
)
@click.option("--check", is_flag=True, help="Write nothing; fail if a line would change.")
def stats_(names: tuple[str, ...], cache: Path, check: bool) -> None:
    known = statistics.read()
    fresh = {cls.name: statistics.measured(build(cls, cache, click.echo)) for cls in _chosen(names)}
    changed = sorted(name for name, row in fresh.items() if known.get(name) != row)
    if check and changed:
        raise ConfigurationError(
            f"stats.csv is not current for {', '.join(changed)}: run python -m ragseal.circuits stats"
        )
    known.update(fresh)
    known.update({name: statistics.line(size) for name, size in CLASSES.items()})  # a formula that tests check
    sizes = thinning_classes()
    names = *load_classes(), *CLASSES, *sizes
    known.update({name: statistics.line(size) for name, size in sizes.items()})
    text = statistics.render(known[name] for name in names if name in known)
    if not check:
        statistics.STATS_FILE.write_text(text, encoding="utf-8")
    click.echo(text, nl=False)


@main.command("ship")
@click.option(
    "--cache", type=click.Path(path_type=Path), default=DEFAULT_CACHE, show_default=True, help="Build folder."
)
def ship_(cache: Path) -> None:
    """Compile what comes with the package, and pack it."""
    known: dict[str, Shape] = {**load_classes(), **CLASSES, **thinning_classes()}
    lines = []
    for name in NAMES:
        built = build(known[name], cache, click.echo, complete=True)
        about = json.loads((built.folder / "class.json").read_text(encoding="utf-8"))
        said = {"content": built.folder.name.rpartition("-")[2], "compiler": about["compiler"]}
        lines.append(ship(name, built.r1cs, said))
    TABLE.write_text("# Written by `python -m ragseal.circuits ship`.\n\n" + "\n".join(lines), encoding="utf-8")


@main.command("search")
@click.option("--law", type=click.Choice(NOISE_LAWS), default=GEOMETRIC, show_default=True)
@click.option("-K", "k", type=int, default=10, show_default=True, help="Slots returned.")
@click.option("-m", "m", type=int, default=11, show_default=True, help="Coarse bits a slot.")
@click.option("-q", "q", type=int, help="Slots a coarse element; default: as many as fit.")
@click.option("-c", "c", type=int, default=12, show_default=True, help="Bits of a range-checked chunk.")
@click.option("-S", "shards", type=int, default=60, show_default=True, help="Shards of an index at most.")
@click.option("-N", "capacity", type=int, help="Capacity, rounded up to a multiple of q.")
@click.option("--domain", type=int, help="Instead of a capacity: exponent of the domain to fill.")
@click.option("--name", default="new", show_default=True)
def search_(
    law: str,
    k: int,
    m: int,
    q: int | None,
    c: int,
    shards: int,
    capacity: int | None,
    domain: int | None,
    name: str,
) -> None:
    """Find the fewest places R, with what proves it, and print a table for the parameter file."""
    per = q or shapes.largest_q(m, c)
    if (capacity is None) == (domain is None):
        raise ConfigurationError("search needs either -N or --domain")
    if capacity is not None:
        cls = shapes.complete_noise(name, law, -(-capacity // per) * per, k, m, per, c, shards)
    else:
        assert domain is not None
        cls = shapes.fill_noise(name, law, k, m, c, shards, 1 << domain)
    values = cls.to_mapping()
    click.echo(f"[{values.pop('name')}]")
    for key, value in values.items():
        click.echo(f"{key} = {value}" if isinstance(value, int) else f'{key} = "{value}"')
    rows = shapes.count_rows(cls)
    click.echo(
        f"# {rows.rows} rows of 2^{rows.domain.bit_length() - 1}, {rows.scaling / cls.N:.3f} a slot and "
        f"{rows.rows - rows.scaling} fixed"
    )


if __name__ == "__main__":
    main()
