# SPDX-License-Identifier: GPL-3.0-or-later
"""`commit` says first what is not as it was in the window before, and shortly what an auditor will certify."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.kernel import signature
from ragseal.kernel.beacon import Seat
from ragseal.kernel.commitment import Manifest
from ragseal.kernel.errors import CommitmentError
from ragseal.prover import __main__ as program
from ragseal.prover.commitment import registry
from ragseal.prover.commitment.agreed import Agreed
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving import committing, ending
from ragseal.prover.serving.committing import Told, commit
from ragseal.prover.serving.ending import Ending
from ragseal.prover.serving.news import news
from tests.simulator import World
from tests.simulator.provider import (
    NOW,
    SHAPE,
    TRIGRAMS,
    Clock,
    account_key,
    coined_policy,
    embed_with,
    make_policy,
    newest,
    open_provider,
    open_window,
    serving_on,
    window_on,
)
from tests.simulator.rolling import COINED, POLICY

pytestmark = pytest.mark.slow


def manifest() -> Manifest:
    world = World()
    world.enter_manifest("w1")
    return world.manifest


def policy_with(**changes: Any) -> Callable[[Manifest], Manifest]:
    return lambda one: replace(one, policy=replace(one.policy, **changes))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: replace(one, window="w2", window_key=b"k" * 32, c_seed=5, beacon_commitment=b"c" * 32), []),
        (lambda one: replace(one, tenants=(*one.tenants, replace(one.tenants[0], tenant="Acme"))), ["new tenant Acme"]),
        (lambda one: replace(one, tenants=one.tenants[:1]), ["tenant south is not in it any more"]),
        (lambda one: replace(one, accounts=one.accounts + 1), [r"accounts: \d+, \d+ before"]),
        (lambda one: replace(one, auditors=(*one.auditors, Seat("auditor-acme", b"a" * 32))),
         ["new auditor auditor-acme"]),
        (lambda one: replace(one, auditors=(replace(one.auditors[0], public_key=b"a" * 32),)),
         ["auditor auditor has another key: 6161"]),
        (lambda one: replace(one, key_digest=b"a" * 32), ["another proving key: 6161"]),
        (lambda one: replace(one, embedder=b"a" * 32), ["another embedder"]),
        (lambda one: replace(one, provider_key=b"a" * 32), ["another provider's key"]),
        (policy_with(n_max=9), ["policy: n_max is 9, 3 before"]),
        (policy_with(gate=False), ["policy: gate is no, yes before"]),
        (policy_with(hi=16129), ["policy: upper end of the score window is 1, [0-9.]+ before"]),
        (policy_with(hidden=64), [r"policy: share of documents that are hidden is 25.0%, 0.0% before"]),
        (policy_with(version_every=900), ["policy: version_every is 900 s, 0 s before"]),
        (policy_with(period_start=1_800_000_060), ["policy: beginning of the budget period is 2027-01-15 08:01 UTC"]),
        (lambda one: policy_with(closes=one.policy.closes + 60)(one), ["policy: duration is 3660 s, 3600 s before"]),
        (lambda one: policy_with(opens=one.policy.opens + 60, closes=one.policy.closes + 60)(one), []),
    ],
)  # fmt: skip
def test_what_is_not_as_it_was_is_one_line(change: Callable[[Manifest], Manifest], said: list[str]) -> None:
    before = manifest()
    found = news(before, change(before))
    assert len(found) == len(said), found
    for line, expected in zip(found, said, strict=True):
        assert re.match(expected, line), line


def test_the_first_window_names_everything() -> None:
    [line] = news(None, manifest())
    assert "claim every-list" in line
    assert "2 tenants (north, south)" in line
    assert "auditors auditor" in line


def committed(provider: Provider, name: str, n_max: int = 6) -> Told:
    policy = POLICY.format(n_max=n_max) + f"opens = {NOW}\n"
    return commit(provider, policy.encode(), name, math.inf)


def test_commit_prints_what_is_new_first_and_no_paragraph(tmp_path: Path) -> None:
    """Eight paragraphs, the same in every window, stood before the one line that was about this one."""
    provider = open_provider(tmp_path / "p")
    first = committed(provider, "w1")
    assert first.text.startswith("it is the first window: claim every-list")
    assert any("comes back in" in one for one in first.values["explanation"])
    assert "comes back in" not in first.text
    texts = [Document("n1", "acme report number 3 about topic 8"), Document("n2", "nobody else has this")]
    apply(provider.state, "Acme", map(Put, texts), embed_with(TRIGRAMS), secrets.token_bytes, SHAPE)
    second = committed(provider, "w2", n_max=5)
    lines = second.text.splitlines()
    assert lines[:2] == ["new tenant Acme", "policy: n_max is 5, 6 before"]
    assert re.fullmatch(r"policy: epsilon_account is \d+\.\d+, \d+\.\d+ before", lines[2])
    assert second.values["news"][0] == "new tenant Acme"
    assert "tenants Acme and acme hold" in second.text
    third = committed(provider, "w3", n_max=5).text
    assert "new tenant" not in third
    assert "hold" not in third, "said when it was new"
    assert "window w3 is committed, for " in third
    assert len(third.splitlines()) <= 5, third
    provider.close()


def test_nothing_new_is_said_so_and_the_paragraphs_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = open_provider(tmp_path / "p")
    committed(provider, "w1")
    monkeypatch.setattr(type(provider.journal.history), "following", property(lambda _: None))  # w1 has opened
    told = committed(provider, "w2")
    assert told.text.startswith("nothing is new: tenants, accounts, auditors, keys and policy are those of window w1\n")
    assert registry.accounts(provider.state)
    provider.close()

    class There:
        def __enter__(self) -> There:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def commit(self, *_: object) -> Told:
            return told

    monkeypatch.setattr(program, "administration", lambda _: There())
    (tmp_path / "policy.toml").write_text("")
    command = ["commit", "--state", str(tmp_path), "--policy", str(tmp_path / "policy.toml"), "--window", "w2"]
    short, whole = CliRunner().invoke(program.main, command), CliRunner().invoke(program.main, [*command, "--explain"])
    assert short.stdout == told.text + "\n"
    assert whole.stdout.splitlines() == [*told.text.splitlines(), *told.values["explanation"]]


# What comes between consent and commitment: nothing is committed that costs more than what was agreed to.


def new_account(provider: Provider, name: str, tenant: str) -> None:
    key = signature.public_bytes(account_key(name))
    registry.add_accounts(provider.state, [registry.Registration(name, tenant, key)])


def test_an_account_that_comes_meanwhile_is_not_committed_to(tmp_path: Path) -> None:
    """Its queries count for delta, so an auditor would fail the window that advertises what fewer accounts come to."""
    provider = open_provider(tmp_path / "p", coins=True)
    agreed = Agreed(len(registry.accounts(provider.state)), b"")
    new_account(provider, "late", "acme")
    with pytest.raises(CommitmentError, match=r"accounts came: \d+ may ask, where \d+ were counted"):
        provider.commit(coined_policy(), "w1", agreed=agreed)
    assert not provider.journal.history.windows
    provider.commit(coined_policy(), "w1", agreed=replace(agreed, accounts=agreed.accounts + 1))
    provider.close()


def test_coins_that_were_not_counted_are_not_thrown(tmp_path: Path) -> None:
    """Nor documents placed afresh for them."""
    provider = open_provider(tmp_path / "p", coins=True)
    accounts = len(registry.accounts(provider.state))
    placed = provider.state.rows("SELECT * FROM documents ORDER BY 1, 2")
    with pytest.raises(CommitmentError, match="changed which coins it takes"):
        provider.commit(coined_policy(), "w1", agreed=Agreed(accounts, b"w" * 32))
    assert provider.state.rows("SELECT * FROM documents ORDER BY 1, 2") == placed
    assert not provider.journal.history.windows
    provider.close()


def comes(what: Callable[[Provider], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something come once a proposal is made."""
    real = committing.propose

    def proposed(provider: Provider, *given: Any) -> committing.Proposal:
        found = real(provider, *given)
        what(provider)
        return found

    monkeypatch.setattr(committing, "propose", proposed)


def test_a_commit_rests_on_what_was_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = open_provider(tmp_path / "p", coins=True)
    policy = (COINED.format(n_max=6) + f"opens = {NOW}\n").encode()
    comes(lambda made: new_account(made, "late", "acme"), monkeypatch)
    with pytest.raises(CommitmentError, match="accounts came"):
        committing.commit(provider, policy, "w1", math.inf)
    monkeypatch.undo()
    committing.commit(provider, policy, "w1", math.inf)
    provider.close()


def test_a_serving_provider_commits_to_what_was_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        policy = (COINED.format(n_max=6) + f"opens = {NOW}\n").encode()
        async with serving_on(open_provider(tmp_path / "p", coins=True)) as serving:
            comes(lambda made: new_account(made, "late", "acme"), monkeypatch)
            with pytest.raises(CommitmentError, match="accounts came"):
                await committing.commit_while_serving(serving, policy, "w1", math.inf)
            assert not serving.journal.history.windows
            monkeypatch.undo()
            await committing.commit_while_serving(serving, policy, "w1", math.inf)
        policy = (POLICY.format(n_max=6) + f"opens = {NOW}\n").encode()
        async with serving_on(open_provider(tmp_path / "q")) as serving:
            comes(lambda made: new_account(made, "later", "acme"), monkeypatch)
            await committing.commit_while_serving(serving, policy, "w1", math.inf)  # which count in no epsilon

    asyncio.run(run())


# The end of a window's time is told before it comes and when it comes, once each.


def test_the_operator_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ragseal.provider")
    clock = Clock()

    def said() -> list[str]:
        found = [record.getMessage() for record in caplog.records if "window w1 end" in record.getMessage()]
        caplog.clear()
        return found

    async def run() -> None:
        provider = open_provider(tmp_path / "p", clock)
        provider.commit(make_policy(), "w1")
        look = Ending(provider.journal.history, clock).look
        async with serving_on(provider) as serving:
            window = provider.journal.history.named("w1")
            closes = window.manifest.policy.closes
            late = Ending(provider.journal.history, clock)
            clock.now = window.closes - 500
            early = len(caplog.records)
            late.look()
            assert "window w1 is not open yet, and may not open after" in caplog.records[early].getMessage()
            assert not said(), "nothing ends"
            clock.now = closes + 1
            late.look()
            assert "before it was open: commit a new one" in said()[0]
            clock.now = NOW
            await open_window(serving)
            for left, words in (
                (3601, None), (3600, "in 60 minutes"), (3000, None), (600, "in 10 minutes"), (1, None), (0, None),
                (-1, "accounts get no more answers; close it"), (-9, None),
            ):  # fmt: skip
                clock.now = closes - left
                look()
                found = said()
                assert len(found) == (0 if words is None else 1), (left, found)
                assert words is None or words in found[0]
            clock.now = NOW
            await serving.close_window(window.digest, signature.sign(provider.state.key, "close", window.digest))
            clock.now = closes + 1
            Ending(provider.journal.history, clock).look()
            assert not said()

    asyncio.run(run())


def test_a_serving_provider_looks(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "POLL_SECONDS", 0.02)
    caplog.set_level(logging.WARNING, "ragseal.provider")
    clock = Clock()

    async def run() -> None:
        async with window_on(tmp_path / "p", clock) as serving:
            window = newest(serving)
            clock.now = window.manifest.policy.closes - 60
            async with asyncio.timeout(10):
                while "window w1 ends in 1 minute," not in caplog.text:
                    await asyncio.sleep(0.02)

    asyncio.run(run())
