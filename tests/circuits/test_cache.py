# SPDX-License-Identifier: GPL-3.0-or-later
"""Where compiled circuits lie: with the user, not in whatever folder a program was started in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragseal.circuits.build import default_cache


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, "/home/u/.cache/ragseal/circuits"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/ragseal/circuits"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/u/.cache/ragseal/circuits"),
        ({"XDG_CACHE_HOME": "/c", "RAGSEAL_CACHE": "/r"}, "/r/circuits"),
        ({"XDG_CACHE_HOME": "/c", "RAGSEAL_CACHE": "/r", "RAGSEAL_BUILD": "b"}, "b"),
    ],
)
def test_the_folder_follows_the_user(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str) -> None:
    for name in ("XDG_CACHE_HOME", "RAGSEAL_CACHE", "RAGSEAL_BUILD"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/u", **environment}.items():
        monkeypatch.setenv(name, value)
    assert default_cache() == Path(folder)
