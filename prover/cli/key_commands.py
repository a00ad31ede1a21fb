# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider fetch-keys`` and ``release-key``: the proving keys that an auditor made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ragseal.circuits.circuit import KEY_FIELDS, class_digest
from ragseal.groth16.powers import PowersFile
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.cli.options import STATE, hexadecimal
from ragseal.prover.keys.keyring import KeyRing
from ragseal.prover.provider import assembly
from ragseal.prover.storage import stopped_keys
from ragseal.prover.storage.state import State
from ragseal.prover.wire import remote
from ragseal.runtime.terminal import (
    JSON,
    client_tls,
    progress_bars,
    tell_result,
)
from ragseal.runtime.tls import ClientTls
from ragseal.runtime.waiting import WAIT, patiently


@click.command("fetch-keys", short_help="Get and check the auditor's proving keys")
@STATE
@click.option("--verifier", required=True, help="host:port of the auditor's service.")
@click.option("--class", "class_name", help="Circuit class; must be this provider's (default).")
@click.option("--digest", help="Only this key, 64 hexadecimal digits.")
@click.option(
    "--powers",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The .ptau file that the auditor made its keys of (`keygen --powers`): every point is checked against it.",
)
@WAIT
@client_tls
@JSON
def fetch_keys(
    directory: Path,
    verifier: str,
    class_name: str | None,
    digest: str | None,
    powers: Path | None,
    wait: float,
    tls: ClientTls,
    as_json: bool,
) -> None:
    """Get the auditor's proving keys; check and keep them.

    One is for attestations, one for the coalition estimate, and, where the class has coins, one for those.
    Anyone who makes keys can forge proofs under them, so the auditor makes its own; this provider checks the rules that
    protect its secrets.  Without --powers the points of a key stay unchecked: its maker may have made it so that a
    proof fails where its guess at a score is right, which tells it so, once.
    """
    wanted = None if digest is None else hexadecimal(digest, 32, "--digest")
    with State(directory) as state, progress_bars() as bars:
        if class_name not in (None, state.settings.class_name):
            raise ConfigurationError(f"this provider has the class {state.settings.class_name!r}, not {class_name!r}")
        cls = assembly.circuit_class(state.settings.class_name)
        first_phase = None if powers is None else PowersFile(powers)

        def tell(text: str) -> None:
            bars.console.print(text, markup=False, soft_wrap=True)

        ring = assembly.open_keys(state, cls, tell)
        size = assembly.fitting_estimate(cls)
        rings: list[tuple[str, KeyRing[Any, Any]]] = [
            ("of the coalition estimate", one) for one in assembly.open_estimate_keys(state, tell) if one.cls == size
        ]
        if not cls.noisy:
            rings.append(("of the coins", assembly.open_thinning_keys(state, cls, tell)))
        task = bars.add_task("fetching the key", total=None)

        def moved(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total)

        fetched = patiently(
            lambda: remote.fetch_key(verifier, tls, cls, class_digest(cls), wanted, ring, moved, first_phase),
            wait,
            tell,
        )
        got = [(f"of class {cls.name}", fetched.paths)]
        state.remember_auditor(fetched.paths.digest, fetched.auditor_key)
        for whose, other in rings:
            bars.update(task, description=f"fetching the key {whose}", completed=0, total=None)
            built = class_digest(other.cls)
            found = remote.fetch_key(verifier, tls, other.cls, built, None, other, moved, first_phase)
            got.append((whose, found.paths))
    values = {
        "class": cls.name, "zkey": str(fetched.paths.zkey),
        **{name: paths.digest.hex() for name, (_, paths) in zip(KEY_FIELDS, got, strict=False)},
        "auditor_key": fetched.auditor_key.hex(), "points_checked": powers is not None,
    }  # fmt: skip
    tell_result(
        as_json,
        values,
        "".join(f"key {paths.digest.hex()} {whose} is in {paths.directory}\n" for whose, paths in got)
        + (
            "their points are NOT CHECKED: their maker may have made them so that a proof fails where a "
            "guess at a score is right (SPEC A.9.6); keys of public powers can be checked with --powers\n"
            if powers is None
            else f"every point of theirs is the one that the circuits and {powers} give\n"
        )
        + f"auditor {fetched.auditor_key.hex()}: windows committed under this key name it, and give it their proofs "
        "and links; compare it with the one that the auditor told you",
    )


@click.command("release-key", short_help="Allow a stopped proving key again")
@STATE
@click.argument("digest")
@JSON
def release_key(directory: Path, digest: str, as_json: bool) -> None:
    """Prove again under a key (64 hexadecimal digits) that a failed proof stopped.

    A full disk, a damaged file or a key that was crafted to learn from it can make a proof fail: find out which, first.
    """
    key_digest = hexadecimal(digest, 32, "DIGEST")
    with State(directory) as state:
        if stopped_keys.stopped(state, key_digest) is None:
            raise ConfigurationError("no proof under this key has failed: there is nothing to release")
        stopped_keys.release(state, key_digest)
    tell_result(as_json, {"released": digest}, f"key {digest} may be used again")
