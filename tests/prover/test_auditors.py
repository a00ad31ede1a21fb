# SPDX-License-Identifier: GPL-3.0-or-later
"""Several auditors of a live provider: seats in the beacon, an admitted one, and what each is given."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.kernel import signature
from ragseal.kernel.beacon import Seat
from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.prover.__main__ import main
from ragseal.prover.cli.options import auditor_seats
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.storage import admitted
from ragseal.prover.storage.window import Stage as WindowStage
from ragseal.prover.wire.service import Listening, Server
from ragseal.verifier.audit.participant import Participant, Stage
from ragseal.verifier.evidence.evidence import Auditor, Undecided, of_auditor
from ragseal.verifier.evidence.remote import RemoteEvidence
from ragseal.verifier.folder.state import State
from tests.simulator import provider as scene
from tests.simulator.auditing import configured
from tests.simulator.live import Live

pytestmark = pytest.mark.slow

FIRST, SECOND, LATE = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (11, 12, 13))
SEATS = tuple(Seat(owner, signature.public_bytes(key)) for owner, key in (("auditor", FIRST), ("auditor-acme", SECOND)))


class Firm:
    """An auditor with a folder, which takes part over gRPC."""

    def __init__(self, made: Live, key: Ed25519PrivateKey, name: str) -> None:
        self.made, self.key = made, key
        self.state = State.create(made.folder / name, key)

    def advance(self) -> Stage:
        with RemoteEvidence(self.made.address) as link:
            part = Participant(
                link, _Configured(self.state.directory, self), self.made.log, {}, {}, default_group(),
                random.SystemRandom().randbytes, lambda: int(self.made.clock.now),
            )  # fmt: skip
            return part.advance()[0]

    def auditor(self, **more: object) -> Auditor:
        own = {"nonces": self.state.nonces(), "released": self.state.released()}
        return configured(self.made.log, self.key, **{"cls": self.made.kind.cls, **own, **more})


def too_late(firm: Firm) -> Stage:
    """The provider refuses before a published tree shows the seal; an auditor asks again, as its server does."""
    for _ in range(500):
        with suppress(Undecided):
            return firm.advance()
    raise AssertionError("no published tree shows the seal")


class _Configured(State):
    """The firm's folder, with the simulator's keys in place of key files."""

    def __init__(self, directory: Path, firm: Firm) -> None:
        super().__init__(directory)
        self._firm = firm

    def auditor(self, *_: object, **__: object) -> Auditor:
        return replace(self._firm.auditor(), remembered=self.remembered(self._firm.made.log))


class Audited(Live):
    """A window of two auditors, committed and served."""

    wait = 60.0  #: seconds for which its beacon waits

    def start(self) -> None:
        async def begin() -> Server:
            options = ServeOptions(False, 0.0, BeaconRules(participants=2, wait=self.wait))
            server = Server(self.provider, options, Listening("127.0.0.1:0"))
            await server.start()
            return server

        self.server = self.call(begin())
        self.address = self.server.address
        self.window = scene.newest(self.server.serving)


@pytest.fixture(params=[False, True], ids=["every-list", "until-delivered"])
def two(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Audited]:
    made = Audited(tmp_path, coins=request.param, opened=False, seats=SEATS)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider waits for nobody for long."""
    monkeypatch.setattr(Audited, "wait", 0.5)


def queried(made: Live) -> None:
    for name, query in (("alice", "report about topic 3"), ("bob", "memo about topic 1")):
        with made.client(name=name) as client:
            client.ask(query)
    made.clock.now += 600
    made.end_window()


def until(made: Live, stage: WindowStage) -> None:
    async def wait() -> None:
        async with asyncio.timeout(60):
            while made.window.stage is not stage:
                await asyncio.sleep(0.01)

    made.call(wait())


def test_two_firms_open_one_window_and_each_audits_it(two: Audited) -> None:
    first, second = Firm(two, FIRST, "first"), Firm(two, SECOND, "second")
    assert first.advance() is second.advance() is Stage.COMMITTED
    until(two, WindowStage.SEALED)
    assert two.window.seal is not None
    assert two.window.seal.owners == ("provider", "auditor", "auditor-acme")
    while second.advance() is not Stage.OPENED:  # the provider opens its own nonce first
        pass
    assert two.window.stage is WindowStage.SEALED, "it waits for the other auditor"
    assert first.advance() is Stage.OPENED
    until(two, WindowStage.OPEN)
    queried(two)
    lines = [two.audited(firm.auditor()).line() for firm in (first, second)]
    assert lines[0] == lines[1]
    assert lines[0].startswith("PASS "), lines
    assert " beacon=" not in lines[0]


@pytest.mark.usefixtures("hurried")
def test_a_window_goes_on_without_the_firm_that_is_away(two: Audited) -> None:
    first, second = Firm(two, FIRST, "first"), Firm(two, SECOND, "second")
    assert first.advance() is Stage.COMMITTED
    until(two, WindowStage.SEALED)
    assert too_late(second) is Stage.LEFT_OUT
    while first.advance() is not Stage.OPENED:
        pass
    until(two, WindowStage.OPEN)
    queried(two)
    assert two.audited(first.auditor()).verdict == "PASS"
    alone = two.audited(second.auditor())
    assert alone.line().startswith("NO VERDICT step=5 beacon: neither this auditor nor one"), alone.line()
    relying = two.audited(second.auditor(relies_on=SEATS[0].public_key))
    assert relying.line().startswith("PASS "), relying.line()
    assert " beacon=auditor " in relying.line()


@pytest.mark.usefixtures("hurried")
def test_an_auditor_that_comes_later_is_admitted_by_its_key(two: Audited) -> None:
    first = Firm(two, FIRST, "first")
    first.advance()
    until(two, WindowStage.SEALED)
    while first.advance() is not Stage.OPENED:
        pass
    until(two, WindowStage.OPEN)
    queried(two)
    first_firm = SEATS[0].public_key
    late = configured(two.log, LATE, made_by=of_auditor(first_firm), relies_on=first_firm, cls=two.kind.cls)
    refused = two.audited(late)
    assert "only an auditor of this window is given this" in refused.line(), refused.line()
    assert refused.verdict == "NO VERDICT"
    folder, key = str(two.folder / "provider"), signature.public_bytes(LATE).hex()
    run = CliRunner()
    done = run.invoke(main, ["auditors", "admit", "third", "--state", folder, "--key", key, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["key"] == key
    verdict = two.audited(late)
    assert verdict.line().startswith("PASS "), verdict.line()
    assert f" keys=auditor:{SEATS[0].public_key.hex()[:16]} " in verdict.line()
    assert " beacon=auditor " in verdict.line()
    listed = run.invoke(main, ["auditors", "list", "--state", folder])
    assert f"third  {key}  since " in listed.output
    assert run.invoke(main, ["auditors", "remove", "third", "--state", folder]).exit_code == 0
    assert two.audited(late).verdict == "NO VERDICT"
    again = run.invoke(main, ["auditors", "remove", "third", "--state", folder])
    assert again.exit_code == 1
    assert "no auditor 'third' is admitted" in again.output


@pytest.mark.usefixtures("hurried")
def test_a_client_insists_on_an_auditor_that_had_a_part(two: Audited) -> None:
    first = Firm(two, FIRST, "first")
    first.advance()
    until(two, WindowStage.SEALED)
    while first.advance() is not Stage.OPENED:
        pass
    until(two, WindowStage.OPEN)
    with two.client(auditor_key=SEATS[0].public_key) as client:
        assert client.ask("report about topic 3").checked
    with (
        two.client(name="bob", auditor_key=SEATS[1].public_key) as client,
        pytest.raises(CommitmentError, match="the auditor that this account wants had no part"),
    ):
        client.ask("report about topic 3")


def test_how_auditors_are_named_on_the_command_line() -> None:
    one, other = (seat.public_key.hex() for seat in SEATS)
    assert auditor_seats([one, f"acme={other}"]) == SEATS
    assert auditor_seats([]) == ()
    for options, match in (
        ([one, other], "another name for each"),
        ([one, f"acme={one}"], "one key twice"),
        ([f"={one}"], "another name for each"),
        ([f"acme={one[:10]}"], "--auditor acme takes 64 hexadecimal digits"),
    ):
        with pytest.raises(ConfigurationError, match=match):
            auditor_seats(options)


def test_admitted_auditors_are_few_and_each_is_one(tmp_path: Path) -> None:
    with scene.new_state(tmp_path / "p") as state:
        keys = [signature.public_bytes(Ed25519PrivateKey.generate()) for _ in range(admitted.MOST + 1)]
        for number, key in enumerate(keys[: admitted.MOST]):
            made = admitted.admit(state, f"firm {number}", key, scene.NOW)
            assert admitted.admit(state, f"firm {number}", key, scene.NOW + 5) == made, "again changes nothing"
        with pytest.raises(ConfigurationError, match="16 auditors are admitted"):
            admitted.admit(state, "one more", keys[-1], scene.NOW)
        for name, key in (("firm 0", keys[-1]), ("other", keys[0])):
            with pytest.raises(ConfigurationError, match="is admitted with the key"):
                admitted.admit(state, name, key, scene.NOW)
        for name in ("", "a\nb", "x" * 101):
            with pytest.raises(ConfigurationError, match="1 to 100 printable"):
                admitted.admit(state, name, keys[-1], scene.NOW)
        assert len(admitted.admitted(state)) == admitted.MOST
