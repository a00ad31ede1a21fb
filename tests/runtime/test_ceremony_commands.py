# SPDX-License-Identifier: GPL-3.0-or-later
"""A ceremony of a class by command lines: two parties, an auditor that knows one of them, a provider, an audit."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.backends.mechanism import open_engine
from ragseal.circuits.build import build
from ragseal.circuits.circuit import HERE, class_digest
from ragseal.groth16.provers import open_backend
from ragseal.kernel.statement import seed_commitment
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document, page
from tests.classes import TINY
from tests.runtime.test_powers_commands import SLOW, told
from tests.runtime.test_tls_commands import Scene, Served, run
from tests.simulator import CLS, Tenant, policy
from tests.verifier.ceremony_scene import NEEDED
from tests.verifier.test_real_key import SEED, ProvenWorld, Real
from tests.web.published import NODE, publish

pytestmark = [pytest.mark.slow, NEEDED]

pytest.importorskip("ragseal_native")
pytest.importorskip("py_ecc")


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


@pytest.mark.long
def test_a_ceremonys_keys_from_the_first_party_to_the_provider(tmp_path: Path) -> None:
    powers, folder = tmp_path / "own.ptau", tmp_path / "ceremony"
    told("verifier", "ceremony", "powers", "--class", TINY.name, powers)
    published = hashlib.blake2b(powers.read_bytes()).hexdigest()
    of = ("--powers", powers, "--powers-hash", published)
    for name in ("alice", "carol", "v"):
        run("verifier", "init", "--state", tmp_path / name)
    made = told("verifier", "ceremony", "new", folder, "--class", TINY.name, *of)
    assert made["circuits"] == [TINY.name, "estimate-6", "thinning-126"]
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
    assert [(key["made_by"], key["participants"]) for key in listed] == [("ceremony", said)] * 3  # type: ignore[attr-defined]
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
