# SPDX-License-Identifier: GPL-3.0-or-later
"""A pytest plugin: what the auditor refuses of public files, the browser's checks refuse too.

Loaded (``-p tests.web.second_reader``) before tests/attacks, it follows every FAIL that they bring about: that world
is published as files, and Node has to say of them that something does not hold.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tests import simulator
from tests.attacks import world as attacks
from tests.web.published import Published, publish

COUNT = "RAGSEAL_SECOND_READER"  #: a file that what was seen is counted in
STEPS = {1, 2, 4, 5, 6, 8}  #: that speak of what is public
#: What no public file shows, by a part of the auditor's words.
AUDITORS_OWN = (
    "the request signature does not hold",
    "is not registered",
    "names an index other than that of tenant",
    "the registry",
    "receipt",
    "no tenant of the window has",  # of an account's registry line
    "released its nonce for another beacon",
    "different from the one in the log",  # what is shown beside it, to whoever asks
    "the log was forked",  # against what this auditor remembers
)

_refused = attacks.refused
_seen: list[str] = []


def refused(world: simulator.World, step: int, match: str, **options: Any) -> Any:
    """As in tests/attacks, and by the second reader."""
    verdict = _refused(world, step, match, **options)
    message = verdict.failure.message if verdict.failure else ""
    if step in STEPS and not any(known in message for known in AUDITORS_OWN) and "receipts" not in options:
        follow(world, step, message, options.get("window", ""))
    return verdict


def follow(world: simulator.World, step: int, message: str, window: str) -> None:
    real = hasattr(world.key, "vk")
    if step in (4, 8) and not real:
        return  # a key that stands for one: there is no file of it
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = publish(world, Path(folder)) if real else _log_alone(world, Path(folder))
        except KeyError:  # a record that the simulator cannot prove: it is the log that is wrong
            made = _log_alone(world, Path(folder))
        said = made.check(*(["--window", window] if window else []))
    assert said.bad, f"the auditor says {message!r}, the browser sees nothing: {said.lines}"
    _seen.append(f"{step}: {message[:100]} | {said.bad}")


def _log_alone(world: simulator.World, folder: Path) -> Published:
    from tests.web.published import export_log

    export_log(world, folder)
    return Published(folder, world.signer.verifier.vkey())


def pytest_configure() -> None:
    attacks.refused = refused


def pytest_sessionfinish() -> None:
    if COUNT in os.environ:
        Path(os.environ[COUNT]).write_text(json.dumps(_seen))
