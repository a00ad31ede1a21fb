# SPDX-License-Identifier: GPL-3.0-or-later
"""accounts.toml, as people write it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.cli.account_commands import read_accounts
from ragseal.prover.commitment.registry import Registration

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
