# SPDX-License-Identifier: GPL-3.0-or-later
"""The build backend: setuptools, but a source distribution is the tree itself, the links in ragseal/ as links.

setuptools follows the links and would pack every part a second time below ragseal/, without spec/, native/, proto/
and tests/.  Wheels need no change: there the parts are folders below ragseal/, once.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

#: Folders that a tree without git may hold and that belong to no release.
MADE = {".git", ".venv", ".venv-extras", "var", "build", "dist", "node_modules", "target", "__pycache__"}


def tracked(root: Path) -> list[str]:
    """The release's files: what git tracks, or in an unpacked source distribution all that was not made there."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "-z"]
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode()
        return sorted(name for name in set(listed.split("\0")) if name and os.path.lexists(root / name))
    found = []
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [
            n for n in folders if n not in MADE and not n.endswith(("_cache", ".egg-info")) and n not in links
        ]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in [*files, *links]]
    return sorted(name for name in found if name != "PKG-INFO")


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """PEP 517.  What an earlier build left is removed first: setuptools would pack modules that are gone."""
    shutil.rmtree("build", ignore_errors=True)
    shutil.rmtree("ragseal.egg-info", ignore_errors=True)
    name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """PEP 517: ``ragseal-VERSION.tar.gz``."""
    root = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        about = Path(scratch) / build_meta.prepare_metadata_for_build_wheel(scratch, config_settings) / "METADATA"
        metadata = about.read_bytes()
    version = next(line for line in metadata.decode().splitlines() if line.startswith("Version: ")).split()[1]
    base = f"ragseal-{version}"
    with tarfile.open(Path(sdist_directory) / f"{base}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        head = tarfile.TarInfo(f"{base}/PKG-INFO")
        head.size = len(metadata)
        archive.addfile(head, io.BytesIO(metadata))
        for name in tracked(root):
            archive.add(root / name, f"{base}/{name}", recursive=False, filter=_plain)
    return f"{base}.tar.gz"


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
