# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes between consent and commitment: nothing is committed that costs more than what was agreed to."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel import signature
from ragseal.kernel.errors import CommitmentError
from ragseal.prover.commitment import registry
from ragseal.prover.commitment.agreed import Agreed
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving import committing
from tests.simulator.provider import NOW, account_key, coined_policy, open_provider, serving_on
from tests.simulator.rolling import COINED, POLICY


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
        policy, other = ((one.format(n_max=6) + f"opens = {NOW}\n").encode() for one in (COINED, POLICY))
        async with serving_on(open_provider(tmp_path / "p", coins=True)) as serving:
            comes(lambda made: new_account(made, "late", "acme"), monkeypatch)
            with pytest.raises(CommitmentError, match="accounts came"):
                await committing.commit_while_serving(serving, policy, "w1", math.inf)
            assert not serving.journal.history.windows
            monkeypatch.undo()
            comes(lambda made: new_account(made, "later", "acme"), monkeypatch)
            await committing.commit_while_serving(serving, other, "w1", math.inf)  # epsilon knows no number of accounts

    asyncio.run(run())
