# SPDX-License-Identifier: GPL-3.0-or-later
"""What the auditor refuses of public files, the browser's checks refuse too: every FAIL of the attacks, read twice.

While tests/attacks and tests/verifier run, the public files of every world that its audit refuses are kept in memory
(their conftest.py see to that).  At the end one Node process reads all of them, and has to say of each that something
does not hold.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragseal.kernel.policy import Policy
from ragseal.kernel.proofs import ASKED_TOGETHER
from ragseal.ledger.merkle import leaf_hash
from ragseal.ledger.proof_files import batch_path, columns_path, key_path
from ragseal.ledger.tiles import WIDTH, bundle, perfect_root, tile_path
from ragseal.verifier.outcome.outcome import Verdict
from tests import simulator
from tests.classes import CLASSES
from tests.web.published import NODE

PROGRAM = Path(__file__).with_suffix(".mjs")
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
    "may not ask over version",  # here and below: who has an account, of a live index
    "the accounts that may ask over version",
    "accounts of the window have one",
    "comes or leaves with a version",
    "the manifest holds no index of tenant",
    "needs comparisons up to",  # the policy's numbers beside the class: the page says that it does not look
    "overflows class",
    "need room for",
    "nothing would match",
    "do not fit the",
)


def tiles(entries: list[bytes]) -> dict[str, bytes]:
    """The tiles of a log of fewer than 65,536 entries, by path."""
    hashes, files = [leaf_hash(entry) for entry in entries], {}
    for first in range(0, len(entries), WIDTH):
        part, number = entries[first : first + WIDTH], first // WIDTH
        files[tile_path("entries", number, len(part))] = bundle(part)
        files[tile_path(0, number, len(part))] = b"".join(hashes[first : first + WIDTH])
    full = [perfect_root(hashes[at : at + WIDTH]) for at in range(0, len(entries) - WIDTH + 1, WIDTH)]
    return files | ({tile_path(1, 0, len(full)): b"".join(full)} if full else {})


def public_files(world: simulator.World, proofs: bool) -> dict[str, bytes]:
    """Tiles, and with ``proofs`` everything else that a provider publishes of the newest window, by path."""
    files = {**tiles(world.entries()), "checkpoint": world.checkpoint()}
    if not proofs:
        return files
    files[key_path(world.key.digest)] = world.key.vk.to_bytes()
    files |= {columns_path(one.columns_digest()): one.encode() for one in world.files.values()}
    seqs = [record.seq for record in world.records()]
    for first in range(0, len(seqs), ASKED_TOGETHER):
        batch = world.tamper_batch(world.batch(world.digest, seqs[first : first + ASKED_TOGETHER]))
        files[batch_path(world.digest, first)] = batch.encode()
    return files


def simulated(policy: Policy) -> dict[str, dict[str, str]]:
    """The class of a world without a circuit, for a page that shall take it for the one that it knows."""
    return {policy.class_name: {"classDigest": policy.class_digest.hex()}} if policy.class_name in CLASSES else {}


@dataclass
class SecondReader:
    """Keeps what was refused, and reads it once more."""

    orders: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)  #: what the auditor said of each

    def note(self, world: simulator.World, step: int, verdict: Verdict, options: dict[str, Any]) -> None:
        """An audit of ``world`` ended in FAIL at ``step``."""
        message = verdict.failure.message if verdict.failure else ""
        if step not in STEPS or any(known in message for known in AUDITORS_OWN) or "receipts" in options:
            return
        real = hasattr(world.key, "vk")
        if step in (4, 8) and not real:
            return  # a key that stands for one: there is no file of it
        if step == 5 and not real and getattr(world, "throw", world.digest) != world.digest:
            return  # the throw of carried coins is looked at with the thinning key, which is no file either
        try:
            files = public_files(world, step in (4, 8))
        except KeyError:  # a record that the simulator cannot prove: it is the log that is wrong
            files = public_files(world, False)
        order = {
            "files": {path: base64.b64encode(data).decode() for path, data in files.items()},
            "logKey": world.signer.verifier.vkey(),
            "window": options.get("window", ""),
            "classes": {} if real else simulated(world.manifest.policy),
        }
        self.orders.append(json.dumps(order))
        self.said.append(f"{step}: {message[:160]}")

    def unseen(self, without: str = "") -> list[str]:
        """What the auditor refused and the browser's checks did not, each with what they said of it.

        ``without``: the words of one refusal of the page, whose check is taken away.
        """
        if not self.orders:
            return []
        return [
            f"{said} | {report.get('error') or report['lines']}"
            for said, report in zip(self.said, reports(self.orders, without), strict=True)
            if "error" in report or all(line["state"] != "bad" for line in report["lines"])
        ]


def reports(orders: Sequence[str], without: str = "") -> list[dict[str, Any]]:
    """What the page's checks say of each order, in one Node process."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(PROGRAM), *([without] if without else [])],
        input="\n".join(orders) + "\n",
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(orders), done.stderr
    return found


@contextmanager
def reading(readers: list[Callable[[simulator.World, int, Verdict, dict[str, Any]], None]]) -> Iterator[None]:
    """Reads what is refused meanwhile a second time; AssertionError where the browser's checks let something pass."""
    if NODE is None:
        yield
        return
    reader = SecondReader()
    readers.append(reader.note)
    yield
    readers.remove(reader.note)
    unseen = reader.unseen()
    assert not unseen, "the auditor refuses what the browser's checks do not:\n" + "\n".join(unseen)
