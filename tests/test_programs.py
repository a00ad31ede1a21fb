# SPDX-License-Identifier: GPL-3.0-or-later
"""The four commands as they are installed: their version, and Ctrl-C while they are still loading."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ragseal import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def start(name: str, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """What an installed command runs: the import of its entry point, then the call."""
    module, _, function = SCRIPTS[name].partition(":")
    code = f"import sys\n{before}\nfrom {module} import {function}\nsys.argv[0] = {name!r}\nsys.exit({function}())"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)


def test_there_are_four() -> None:
    assert sorted(SCRIPTS) == ["ragseal-client", "ragseal-observer", "ragseal-provider", "ragseal-verifier"]


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_each_tells_its_version(name: str) -> None:
    done = start(name, "--version")
    assert (done.returncode, done.stdout) == (0, f"{name} {__version__}\n"), done.stderr


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_ctrl_c_while_it_loads_is_no_traceback(name: str) -> None:
    """The signal arrives in the middle of an import: of the first module that takes long to load."""
    before = (
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background job would ignore it
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())"
    )
    done = start(name, "--version", before=before)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")
