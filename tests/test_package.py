# SPDX-License-Identifier: GPL-3.0-or-later
"""The package as a whole: one version, parts that have one name each, extras that hold what their programs import."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ragseal import __version__
from scripts import release

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PARTS = sorted(path.name for path in (ROOT / "ragseal").iterdir() if path.is_symlink() and path.name != "v1")


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=120
    )


def test_there_is_one_version() -> None:
    """ragseal/__init__.py has it; what cannot read it there says the same (`make release` writes it everywhere)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "ragseal.__version__"}
    assert set(release.versions(ROOT)) == {__version__}
    assert "version" not in tomllib.loads((ROOT / "native" / "pyproject.toml").read_text())["project"]
    assert re.findall(r"^## \[([0-9.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == __version__


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_no_second_name(part: str) -> None:
    """From the checkout's root `import kernel` would find the folder, and its errors would be other errors."""
    done = python(f"import {part}")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(f"ImportError: import ragseal.{part}, not {part}")


@pytest.mark.parametrize(
    ("module", "program", "extra"), [("pymerkle", "provider", "[provider]"), ("grpc", "observer", "")]
)
def test_a_program_without_its_extra_says_which(module: str, program: str, extra: str) -> None:
    call = f"sys.argv[0] = 'ragseal-{program}'\nfrom ragseal.programs import {program}\n{program}()"
    done = python(f"import sys\nsys.modules['{module}'] = None\n{call}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"the Python package of module {module}")
    assert done.stderr.endswith(f"is not installed: pip install 'ragseal{extra}'\n")


def test_an_account_and_an_observer_load_nothing_of_the_extras() -> None:
    names = ("pymerkle", "grpc_health.v1", "grpc_reflection.v1alpha")
    for part in ("client", "client.client", "client.remote", "ledger"):
        module = f"ragseal.{part}" + ("" if "." in part else ".__main__")
        done = python(f"import sys, {module}\nprint([n for n in {names!r} if n in sys.modules])")
        assert done.stdout == "[]\n", (part, done.stdout, done.stderr)
