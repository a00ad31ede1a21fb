# SPDX-License-Identifier: GPL-3.0-or-later
"""A slip in a tenant's name makes no tenant, and a tenant can go again."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.kernel import signature
from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.prover.__main__ import main
from ragseal.prover.cli.account_commands import read_accounts
from ragseal.prover.commitment import index, registry
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Delete, Put, apply
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.commitment.tenants import near, remove
from ragseal.prover.provider.backends import Environment
from ragseal.prover.serving.serving import ServeOptions, Serving
from tests.simulator.live import Live, live
from tests.simulator.provider import (
    SHAPE,
    TRIGRAMS,
    account_key,
    documents,
    embed_with,
    make_policy,
    new_state,
    open_provider,
    open_window,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("Acme", ["acme"]), ("acme ", ["acme"]), ("acne", ["acme"]), ("amce", ["acme"]), ("acmee", ["acme"]),
        ("ACME-", ["acme"]), ("\u0430cme", ["acme"]), ("g1obex-c0rp", ["globex-corp"]),
        ("globxe-corp", ["globex-corp"]), ("acrne", ["acme"]),
        ("acme", []), ("initech", []), ("a1", []), ("globe", []), ("acmes-rival", []),
        ("aace", []), ("initechs", ["initecks"]), ("initexxs", ["initecks"]), ("inxtxxs", []),
    ],
)  # fmt: skip
def test_near_names_are_found(name: str, alike: list[str]) -> None:
    assert near(name, ["acme", "globex-corp", "a2", "initecks"]) == alike


def run(made: Live, *arguments: str) -> Any:
    command, *rest = arguments
    return CliRunner().invoke(main, [*command.split(), "--state", str(made.folder / "provider"), *rest])


@pytest.mark.slow
def test_a_new_tenant_with_a_near_name_takes_a_yes(tmp_path: Path) -> None:
    corpus, accounts = tmp_path / "c.jsonl", tmp_path / "accounts.toml"
    corpus.write_text(json.dumps({"id": "1", "text": "one"}) + "\n")
    key = signature.public_bytes(account_key("dora")).hex()
    accounts.write_text(f'[dora]\ntenant = "acne"\nkey = "{key}"\n')
    with live(tmp_path) as made:
        before = index.tenants(made.provider.state)
        for name in ("ac me", "acm\u00e9", "acme\n", ""):  # --new-tenant would be refused, too
            refused = run(made, "documents put", "--corpus", f"jsonl:{corpus}", "--tenant", name)
            assert "must be printable ASCII without spaces" in " ".join(refused.output.split())
            assert "new" not in refused.output
        two = "".join(
            f'[{one}]\ntenant = "{whose}"\nkey = "{key}"\n' for one, whose in (("e", "umbra"), ("f", "umbre"))
        )
        accounts.with_name("two.toml").write_text(two)
        refused = run(made, "accounts load", str(accounts.with_name("two.toml")))
        assert "but 'umbra', which is new too: nothing was changed" in " ".join(refused.output.split())
        for command in (
            ("documents put", "--tenant", "Acme", "--corpus", f"jsonl:{corpus}"),
            ("documents sync", "--tenant", "Acme", "--source", f"jsonl:{corpus}"),
            ("accounts add", "dora", "--tenant", "acmee", "--key", key),
            ("accounts load", str(accounts)),
        ):
            refused = run(made, *command)
            assert refused.exit_code == 1, command
            assert "but 'acme': nothing was changed" in " ".join(refused.output.split())
        assert index.tenants(made.provider.state) == before
        assert len(registry.accounts(made.provider.state)) == 3
        put = ("documents put", "--corpus", f"jsonl:{corpus}", "--tenant")
        agreed = run(made, *put, "Acme", "--new-tenant")
        assert agreed.exit_code == 0, agreed.output
        assert "tenant Acme is new" in agreed.stderr
        assert "is new" not in run(made, *put, "Acme").output, "it is known now"
        assert "tenant initech is new" in run(made, *put, "initech").stderr, "said, not asked"
        listed = json.loads(run(made, "tenants list", "--json").stdout)["tenants"]
        assert {"tenant": "Acme", "documents": 1, "accounts": 0} in listed
        assert {"tenant": "acme", "documents": 40, "accounts": 2} in listed


@pytest.mark.slow
def test_a_tenant_goes_once_nothing_of_it_is_left(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p", state=new_state(tmp_path / "p", {"acme": ["alice"], "Acme": ["bob"]}))
    state, history, clock = provider.state, provider.journal.history, provider.environment.clock

    def refused(why: str) -> None:
        with pytest.raises(CommitmentError, match=why):
            remove(state, history, "Acme", clock())

    provider.commit(make_policy(), "w1")

    async def one_window() -> None:
        serving = Serving(provider, ServeOptions(False, 0.0, publish=0.0))
        await serving.start()
        window = await open_window(serving)
        refused("has 40 documents")
        with state.transaction() as db:
            db.execute("DELETE FROM documents WHERE tenant = 'Acme'")
        refused("has accounts .bob.")
        registry.remove_account(state, "bob")
        refused("window 'w1' has an index of tenant 'Acme'")
        for change in (Put(Document("1", "came later than the window")), Delete("1")):
            apply(state, "initech", [change], embed_with(TRIGRAMS), Environment().draw, SHAPE)
        remove(state, history, "initech", clock())  # of which no window knows
        await serving.turn(window)
        await serving.stop()

    asyncio.run(one_window())
    left = "SELECT (SELECT COUNT(*) FROM resting), (SELECT COUNT(*) FROM source_marks)"
    with state.transaction() as db:
        for name in ("Acme", "acme"):
            db.execute("INSERT INTO resting VALUES (?, ?, ?)", (name, b"gone", 3))
            db.execute("INSERT INTO source_marks VALUES (?, ?, ?)", (name, "jsonl:x", "7"))
    remove(state, history, "Acme", clock())
    assert state.row(left) == (1, 1), "of the other tenant"
    assert index.tenants(state) == [("acme", 40)]
    refused("there is no tenant")
    assert len(documents("acme")) == 40
    provider.close()


# accounts.toml, as people write it.


KEY = "ab" * 32


def read(folder: Path, text: str) -> list[Registration]:
    file = folder / "accounts.toml"
    file.write_text(text)
    return read_accounts(file)


def test_names_with_dots_stand_in_quotes(tmp_path: Path) -> None:
    found = read(tmp_path, f'["alice.smith"]\ntenant = "acme"\nkey = "{KEY}"\n')
    assert found == [Registration("alice.smith", "acme", bytes.fromhex(KEY))]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'[alice.smith]\ntenant = "a"\nkey = "{KEY}"\n', 'write ["alice.smith"]'),
        (f'[a.b.c]\ntenant = "a"\nkey = "{KEY}"\n', 'write ["a.b.c"]'),
        (f'[alice]\ntenant = "a"\nkey = "{KEY}"\nrole = "x"\n', "[alice] has the unknown key 'role'"),
        (f'[alice]\nkey = "{KEY}"\n', "[alice] has no tenant"),
        ('[alice]\ntenant = "a"\n', "[alice] has no key"),
        ('[alice]\ntenant = "a"\nkey = 7\n', "[alice]: key is a text in quotes, not 7"),
        ('[alice]\ntenant = 2026-01-02\nkey = ""\n', "tenant is a text in quotes, not 2026-01-02"),
        ('[alice]\ntenant = "a"\nkey = "ab"\n', "[alice]: key takes 64 hexadecimal digits"),
        ('alice = "acme"\n', "'alice' stands in no table. An account is [NAME]"),
        ("", "holds no account. An account is [NAME]"),
        ("[alice\n", "is not TOML"),
        (f"[alice@example.org]\nkey = {KEY!r}\n", 'stands in quotes, ["alice@example.org"]'),
        ("[alice]\nkey = " + "9" * 5000, "is not TOML: a whole number of more than 4300 digits. An account"),
    ],
)
def test_a_file_that_is_wrong_says_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"the accounts .*accounts\.toml.*{re.escape(said)}"):
        read(tmp_path, text)
