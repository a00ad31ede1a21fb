# SPDX-License-Identifier: GPL-3.0-or-later
"""Who proves, as ``serve --prove`` names it: this process, processes of this machine, or workers on other machines."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ragseal.backends.native import available
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.workers.interface import HERE, Workers
from ragseal.prover.workers.local import LocalWorkers
from ragseal.runtime.edges.address import Address
from ragseal.runtime.keyfile import load_shared

FORMS = f'"{HERE}", "local:COUNT", "postgres://USER@HOST/DB" or "ray://HOST:PORT"'
MOST_LOCAL = 64
_POSTGRES = ("postgres://", "postgresql://")
_RAY = "ray://"


def need_driver() -> None:
    """Raises ConfigurationError that names the extra: there is no driver of PostgreSQL."""
    if importlib.util.find_spec("psycopg") is None:
        raise ConfigurationError("this takes the package psycopg: pip install 'ragseal[workers-postgres]'")


def need_ray(address: str) -> None:
    """An address of a cluster that only its owner reaches.  SPEC B.12.7.

    Raises:
        ConfigurationError: no such address, no Ray here, or a channel to another machine that authenticates nobody.
    """
    try:
        place = Address.parse(address.removeprefix(_RAY), unix=False)
    except ConfigurationError as error:
        form = '--prove takes a Ray cluster as "ray://HOST:PORT", of its Ray Client server (10001)'
        raise ConfigurationError(f"{form}: {error}") from None
    if importlib.util.find_spec("ray") is None:
        raise ConfigurationError("this takes the package ray: pip install 'ragseal[workers-ray]'")
    if not place.loopback and os.environ.get("RAY_USE_TLS") != "1":
        raise ConfigurationError(
            "anyone who reaches a Ray cluster runs programs on it: set RAY_USE_TLS=1 with RAY_TLS_SERVER_CERT, "
            "RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT here and on every node (docs/how-to/workers.md), or reach it by a "
            "tunnel that ends at 127.0.0.1"
        )


def default_engine() -> str:
    """One process beside the provider; without the native module, the provider itself."""
    return "local:1" if available() and os.environ.get("RAGSEAL_BACKEND") != "snarkjs" else HERE


@dataclass(frozen=True)
class ProveBy:
    """Who proves; :func:`prove_by` checks it."""

    engine: str = HERE
    key: bytes = b""  #: that workers on other machines share

    def __repr__(self) -> str:
        return "ProveBy(...)"  # a URI may hold a password

    def open(self, keys: Path, provider: bytes, copy: bool = False) -> Workers | None:
        """
        Args:
            keys: the folder of proving keys.
            provider: its public key.
            copy: a read-only copy, which leaves alone what the provider itself has under way.

        Returns:
            None where this process proves.

        Raises:
            ConfigurationError: no native module, or a URI that is none.
        """
        if self.engine == HERE:
            return None
        if self.engine.startswith(_POSTGRES):
            from ragseal.prover.workers.postgres import PostgresWorkers
            from ragseal.prover.workers.sealed_rows import RowKey

            return PostgresWorkers(self.engine, RowKey(self.key), provider, cleans=not copy)
        if self.engine.startswith(_RAY):
            from ragseal.prover.workers.ray_engine import RayWorkers
            from ragseal.prover.workers.sealed_rows import RowKey

            return RayWorkers(self.engine, RowKey(self.key))
        return LocalWorkers(int(self.engine.partition(":")[2]), keys)


def prove_by(engine: str, key_file: Path | None) -> ProveBy:
    """What ``--prove`` and ``--worker-key`` say.

    Raises:
        ConfigurationError: no such engine, no key file for workers on other machines or one for others, or no driver.
    """
    ray = engine.startswith(_RAY)
    others = ray or engine.startswith(_POSTGRES)
    local = re.fullmatch(r"local:([0-9]{1,3})", engine)
    if not others and engine != HERE and (local is None or not 1 <= int(local[1]) <= MOST_LOCAL):
        said = f"{engine.partition('://')[0]}://..." if "://" in engine else engine  # the rest may hold a password
        raise ConfigurationError(f"--prove takes {FORMS} (at most {MOST_LOCAL} processes), not {said[:40]!r}")
    if others != (key_file is not None):
        raise ConfigurationError(
            "--prove postgres://... or ray://... and --worker-key go together: assignments are encrypted with a key "
            "that provider and workers share, which `ragseal-provider worker key FILE` makes"
        )
    if not others or key_file is None:
        return ProveBy(engine)
    if ray:
        need_ray(engine)
        return ProveBy(engine, load_shared(key_file))
    need_driver()
    from ragseal.prover.base.postgres_uri import secrets_of
    from ragseal.prover.workers.rows import FORM

    secrets_of(engine, FORM)
    return ProveBy(engine, load_shared(key_file))
