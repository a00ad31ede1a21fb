# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of powers of tau through the command lines: made by an auditor, fetched with the file and without it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from ragseal.groth16.resection import hide_inputs
from ragseal.kernel.errors import ProofError
from tests.classes import TINY
from tests.runtime.test_tls_commands import Scene, Served, run

pytestmark = pytest.mark.slow

pytest.importorskip("ragseal_native")

SLOW = 500.0  #: seconds


def told(part: str, *arguments: object) -> dict[str, object]:
    finished = run(part, *arguments, "--json", seconds=SLOW)
    assert finished.returncode == 0, finished.stderr
    found: dict[str, object] = json.loads(finished.stdout)
    return found


@dataclass(frozen=True)
class Made:
    folder: Path
    powers: Path
    keys: dict[str, object]  #: what keygen told


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("powers")
    powers = folder / "own.ptau"
    assert told("verifier", "ceremony", "powers", "--class", TINY.name, powers)["power"] == 14
    run("verifier", "init", "--state", folder / "v")
    keys = told("verifier", "keygen", "--state", folder / "v", "--class", TINY.name, "--powers", powers)
    run("prover", "init", "--state", folder / "p", "--class", TINY.name, "--origin", "powers.example/log")
    return Made(folder, powers, keys)


@pytest.mark.long
def test_a_provider_checks_every_point_or_says_that_it_did_not(made: Made) -> None:
    scene = Scene(made.folder, None, None)  # type: ignore[arg-type]  # no certificates
    other = made.folder / "other.ptau"
    told("verifier", "ceremony", "powers", "--class", TINY.name, other)
    with Served(scene, "verifier", "--state", made.folder / "v", "--listen", "127.0.0.1:0") as at:
        fetch = ("fetch-keys", "--state", made.folder / "p", "--verifier", at)
        refused = run("prover", *fetch, "--powers", other, seconds=SLOW)
        assert refused.returncode == 1
        assert "alpha and beta are not those of these powers" in refused.stderr
        assert not list((made.folder / "p").rglob("verifying_key.bin")), "nothing of it was kept"
        refused = run("prover", *fetch, "--powers", __file__, seconds=SLOW)
        assert refused.returncode == 1
        assert "not a ptau file" in refused.stderr
        checked = told("prover", *fetch, "--powers", made.powers)
        assert checked["points_checked"] is True
        assert checked["key_digest"] == made.keys["key_digest"]
        assert checked["estimate_key_digest"] == made.keys["estimate_key_digest"]
        assert checked["thinning_key_digest"] == made.keys["thinning_key_digest"]
        unchecked = run("prover", *fetch, seconds=SLOW)
        assert unchecked.returncode == 0, unchecked.stderr
        assert "NOT CHECKED" in unchecked.stdout
        assert "--powers" in unchecked.stdout


def test_keygen_says_who_can_check_its_keys(made: Made) -> None:
    again = run(
        "verifier", "keygen", "--state", made.folder / "v", "--class", TINY.name, "--powers", made.powers, seconds=SLOW
    )
    assert str(made.keys["key_digest"]) in again.stdout, "the same powers make no second key"
    assert "fetch-keys --powers" in again.stdout
    run("verifier", "init", "--state", made.folder / "alone")
    alone = run("verifier", "keygen", "--state", made.folder / "alone", "--class", TINY.name, seconds=SLOW)
    assert "no provider can check their points" in alone.stdout


def test_a_ceremonys_key_is_checked_on_the_command_line(made: Made, tmp_path: Path) -> None:
    """The smallest of the three circuits; what snarkjs does in between is in tests/native/test_ceremony.py."""
    about = ("--class", "estimate-6")
    told("verifier", "ceremony", "circuit", *about, tmp_path / "circuit.r1cs")
    refused = run("verifier", "ceremony", "circuit", *about, tmp_path / "no" / "circuit.r1cs")
    assert refused.returncode == 1
    assert "cannot write" in refused.stderr
    with pytest.raises(ProofError, match="are to stay"):
        hide_inputs(tmp_path / "circuit.r1cs", 53, tmp_path / "no.r1cs")  # its hidden inputs are private now
    begin = tmp_path / "begin.zkey"
    told("verifier", "ceremony", "begin", *about, "--powers", made.powers, begin)
    for given in ((), ("--powers", made.powers, "--setup", begin)):
        refused = run("verifier", "ceremony", "begin", *about, *given, tmp_path / "no.zkey")
        assert refused.returncode == 1
        assert "give either --setup" in refused.stderr
    check = ("verifier", "ceremony", "check", *about, "--powers", made.powers)
    refused = run(*check, begin)
    assert refused.returncode == 1
    assert "gamma equals delta" in refused.stderr
    key = next((made.folder / "v" / "keys").glob("estimate-6-*/proving_key.zkey"))
    assert told(*check, key)["key_digest"] == made.keys["estimate_key_digest"]
