# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of powers of tau through the command lines: made by an auditor, fetched with the file and without it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ragseal.backends.mechanism import open_engine
from ragseal.circuits.build import build
from ragseal.circuits.circuit import HERE, class_digest
from ragseal.groth16.provers import open_backend
from ragseal.groth16.resection import hide_inputs
from ragseal.kernel.errors import ProofError
from ragseal.kernel.statement import seed_commitment
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document, page
from tests.classes import TINY
from tests.runtime.test_tls_commands import Scene, Served, run
from tests.simulator import CLS, Tenant, policy
from tests.verifier.ceremony_scene import NEEDED
from tests.verifier.test_real_key import SEED, ProvenWorld, Real
from tests.web.published import NODE, publish

pytest.importorskip("ragseal_native")
pytest.importorskip("py_ecc")


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


@pytest.mark.slow
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
        assert "thinning_key_digest" not in {*checked, *made.keys}, "no claim of a class with noise has coins"
        unchecked = run("prover", *fetch, seconds=SLOW)
        assert unchecked.returncode == 0, unchecked.stderr
        assert "NOT CHECKED" in unchecked.stdout
        assert "--powers" in unchecked.stdout


@pytest.mark.slow
def test_keygen_says_who_can_check_its_keys(made: Made) -> None:
    again = run(
        "verifier", "keygen", "--state", made.folder / "v", "--class", TINY.name, "--powers", made.powers, seconds=SLOW
    )
    assert str(made.keys["key_digest"]) in again.stdout, "the same powers make no second key"
    assert "fetch-keys --powers" in again.stdout
    run("verifier", "init", "--state", made.folder / "alone")
    alone = run("verifier", "keygen", "--state", made.folder / "alone", "--class", TINY.name, seconds=SLOW)
    assert "no provider can check their points" in alone.stdout


@pytest.mark.slow
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


# A ceremony of a class by command lines: two parties, an auditor that knows one of them, a provider, an audit.


def audited(state: State, site: Path) -> Verdict:
    """A window proven under the key that an auditor took from the ceremony, audited with the keys of its folder.

    Its public files, in ``site``, hold for the page's checks as well.
    """
    [line] = [one for one in state.key_entries() if one.class_name == TINY.name]
    backend = open_backend(build(CLS), state.key_path(line), HERE / "node_modules")
    tenants = {name: Tenant.make(name, backend.key) for name in ("north", "south")}
    world, digest = ProvenWorld(Real(backend, open_engine(CLS), tenants)), class_digest(CLS)
    world.class_digest = digest
    world.commit(c_seed=seed_commitment(SEED), policy_=policy(class_digest=digest))
    for account in ("alice", "bob"):
        world.ask(account)
    world.close()
    if NODE is not None:
        said = publish(world, site).check()
        assert (said.state, said.proven) == ("good", 2), said.lines
        assert said.of("good")["verifying key"].startswith("the verifying key is the one that the manifest names")
    keys = state.configured({TINY.name: (CLS, digest)})
    return world.audit(auditor=replace(world.auditor(), keys=keys))


@pytest.mark.slow
@NEEDED
@pytest.mark.long
def test_a_ceremonys_keys_from_the_first_party_to_the_provider(tmp_path: Path) -> None:
    powers, folder = tmp_path / "own.ptau", tmp_path / "ceremony"
    told("verifier", "ceremony", "powers", "--class", TINY.name, powers)
    published = hashlib.blake2b(powers.read_bytes()).hexdigest()
    of = ("--powers", powers, "--powers-hash", published)
    for name in ("alice", "carol", "v"):
        run("verifier", "init", "--state", tmp_path / name)
    made = told("verifier", "ceremony", "new", folder, "--class", TINY.name, *of)
    assert made["circuits"] == [TINY.name, "estimate-6"]
    one = told("verifier", "ceremony", "contribute", folder, "--state", tmp_path / "alice", "--name", "alice", *of)
    trust = ("verifier", "trust", "--state", tmp_path / "v", "--ceremony", folder, *of)
    beacon = "ab" * 32
    told(
        "verifier", "ceremony", "finish", folder, "--state", tmp_path / "carol", "--beacon", beacon, "--powers", powers
    )
    knows = ("--knows", f"alice={one['key']}")
    refused = run(*trust, "--knows", "alice", seconds=SLOW)
    assert refused.returncode == 1
    assert "a name proves nothing" in " ".join(refused.stderr.split())
    taken = told(*trust, *knows, "--beacon", beacon)
    assert [key["class"] for key in taken["keys"]] == made["circuits"]  # type: ignore[attr-defined]
    listed = told("verifier", "keys", "--state", tmp_path / "v")["keys"]
    said = [f"alice ({str(one['key'])[:16]})"]
    assert [(key["made_by"], key["participants"]) for key in listed] == [("ceremony", said)] * 2  # type: ignore[attr-defined]
    kept = json.loads((tmp_path / "v" / "keys.json").read_text())[0]
    assert json.loads(kept["ceremony"])["powers"]["blake2b"] == published, "what it relied on"
    assert not list((tmp_path / "v" / "keys").glob("*.part"))
    verdict = audited(State(tmp_path / "v"), tmp_path / "site")
    assert verdict.verdict == "PASS", verdict.line()
    assert verdict.proven == 2
    assert " keys=ceremony " in verdict.line()
    assert list(verdict.participants) == said
    assert f"ceremony, {said[0]}" in page.render(document.build(verdict))

    run("prover", "init", "--state", tmp_path / "p", "--class", TINY.name, "--origin", "ceremony.example/log")
    scene = Scene(tmp_path, None, None)  # type: ignore[arg-type]  # no certificates
    with Served(scene, "verifier", "--state", tmp_path / "v", "--listen", "127.0.0.1:0") as at:
        fetched = told("prover", "fetch-keys", "--state", tmp_path / "p", "--verifier", at, "--powers", powers)
    assert fetched["points_checked"] is True
    assert fetched["key_digest"] == taken["keys"][0]["key_digest"]  # type: ignore[index]
