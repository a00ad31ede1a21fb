# SPDX-License-Identifier: GPL-3.0-or-later
"""Where circom, circomlib and snarkjs lie: the npm packages that package-lock.json pins."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

HERE = Path(__file__).resolve().parent
VARIABLE = "RAGSEAL_NODE_MODULES"  #: a node_modules folder


def user_cache() -> Path:
    """The user's cache folder: "ragseal" in XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    # a relative XDG_CACHE_HOME counts as none, says the XDG base directory specification
    return Path(base if base and os.path.isabs(base) else os.path.expanduser("~/.cache")) / "ragseal"


def node_modules(here: Path = HERE) -> Path:
    """RAGSEAL_NODE_MODULES, else the checkout's circuits/node_modules, else the user's; it need not exist."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    ours = here / "node_modules"
    return ours if ours.is_dir() else user_cache() / "node_modules"


def way_out(here: Path = HERE) -> str:
    """What brings the packages, from whatever folder it is run: into a checkout, or beside an installed ragseal."""
    named = os.environ.get(VARIABLE)
    if named:
        return f"{VARIABLE} names {named}, which lacks it: leave that variable out, or install the packages there"
    if (here.parent / "Makefile").is_file():
        return f"run npm ci --prefix {shlex.quote(str(here))}"
    files = f"{shlex.quote(str(here))}/package*.json"
    target = shlex.quote(str(user_cache()))
    return (
        f"run mkdir -p {target} && cp {files} {target} && npm ci --prefix {target}, "
        f"or name a node_modules folder that has them in {VARIABLE}"
    )
