# SPDX-License-Identifier: GPL-3.0-or-later
"""A probe's accounts ask by the account's own program, which checks every answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragseal.kernel.attestation import Answer
from ragseal.kernel.commitment import Manifest, SignedManifest
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.options import Peer
from ragseal.ledger.probe.plant import Plant
from ragseal.ledger.probe.statement import ProbeAnswer


@dataclass(frozen=True, slots=True)
class Seen:
    """The window of an account, as the account accepted it."""

    manifest: Manifest
    tenant: str  #: of the account
    answered: int  #: how many answers it has there


@dataclass(frozen=True, slots=True)
class Account:
    """An account that asks for the probe: its folder, where the provider is, and who embeds."""

    folder: Path
    peer: Peer
    embedder: str

    def look(self) -> Seen:
        """The window of now; nothing is asked.  Raises ConfigurationError: what the account's program says."""
        (found,) = self._run("look", *self._provider())
        manifest = SignedManifest.decode(bytes.fromhex(found["manifest"])).manifest
        return Seen(manifest, found["tenant"], found["answered"])

    def ask(self, query: str, times: int) -> Iterator[dict[str, Any]]:
        """Answers, each with ``slots`` and the ``texts`` in them.  Raises ConfigurationError: the program stopped."""
        done = 0
        for answer in self._run("ask", query, "--times", str(times), "--embedder", self.embedder, *self._provider()):
            done += 1
            yield answer
        if done != times:
            raise ConfigurationError(f"account {self.folder} stopped after {done} of {times} answers")

    def shown(self) -> tuple[Seen, list[ProbeAnswer]]:
        """All that the account has in its newest window.  Raises ConfigurationError: it has nothing, or not all."""
        first, *rest = self._run("show")
        manifest = SignedManifest.decode(bytes.fromhex(first["manifest"])).manifest
        answers = [
            ProbeAnswer(bytes.fromhex(one["salt"]), one["query"], Answer.decode(bytes.fromhex(one["answer"])))
            for one in rest
        ]
        return Seen(manifest, first["tenant"], len(answers)), answers

    def _provider(self) -> list[str]:
        tls = self.peer.tls
        named = (("--ca", tls.authority), ("--cert", tls.certificate), ("--cert-key", tls.key))
        files = [word for name, value in named if value for word in (name, str(value))]
        plain = ["--plain"] if tls.plain else []
        return ["--provider", self.peer.provider, "--log-key", self.peer.log.vkey(), *files, *plain]

    def _run(self, command: str, *words: str) -> Iterator[dict[str, Any]]:
        """Lines of the account's program.  Raises ConfigurationError: it failed; the message is its own."""
        whole = [sys.executable, "-m", "ragseal.client.repeat", command, *words, "--state", str(self.folder)]
        with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                for line in process.stdout:
                    yield json.loads(line)
                said = process.stderr.read().strip()[-1000:]
                failed = process.wait() != 0
            finally:
                process.terminate()
        if failed:
            raise ConfigurationError(f"account {self.folder} stopped: {said}")


def planted_slot(answers: Sequence[dict[str, Any]], text: str) -> int | None:
    """The slot that a text came from; None if it never came."""
    for answer in answers:
        for slot, found in zip(answer["slots"], answer["texts"], strict=True):
            if found == text:
                return int(slot)
    return None


def locate(plant: Plant, most: int, account: Account) -> None:
    """Ask for the replacement by its own text, at most ``most`` times, until an answer shows its slot.

    Against the canary it scores nothing, so the slot comes back without a flag: only its number tells that it did.

    Raises:
        ConfigurationError: it never came; says how to go on.
    """
    for _ in range(most):
        if planted_slot(list(account.ask(plant.replacement, 1)), plant.replacement) is not None:
            return
    raise ConfigurationError(
        f"{most} questions for the replacement did not bring it, so its slot is not known: give another --outside "
        "account"
    )


def shares(queries: int, accounts: int) -> list[int]:
    """How many of ``queries`` each of so many accounts asks."""
    return [queries // accounts + (i < queries % accounts) for i in range(accounts)]


def ask_all(query: str, queries: int, accounts: Sequence[Account], moved: Callable[[], None]) -> list[dict[str, Any]]:
    """``queries`` answers, shared out among accounts."""
    answers = []
    for account, times in zip(accounts, shares(queries, len(accounts)), strict=True):
        for answer in account.ask(query, times) if times else ():
            answers.append(answer)
            moved()
    return answers
