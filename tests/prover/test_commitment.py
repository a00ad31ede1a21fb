# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A: commitments that hold, and manifests that may follow."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from pathlib import Path

import numpy as np
import pytest

from ragseal.backends.group import default_group
from ragseal.groth16.keys import KeyPaths, KeyView, load_key
from ragseal.kernel import commitment as kernel
from ragseal.kernel import field, signature, statement
from ragseal.kernel.beacon import Seat
from ragseal.kernel.commitment import (
    SignedManifest,
    WindowClose,
)
from ragseal.kernel.errors import AttestationError, CommitmentError, ConfigurationError, ProofError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import R
from ragseal.prover.commitment import manifest, registry, window_secrets
from ragseal.prover.commitment.columns import combine_columns, commit_columns, make_version
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.commitment.new_period import require_no_window
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.committing import split_said
from ragseal.runtime import metadata
from tests.simulator.provider import (
    AUDITOR,
    NOW,
    SHAPE,
    Clock,
    TrigramEmbedder,
    account_key,
    embed_with,
    make_policy,
    new_state,
    open_provider,
    open_window,
    serving_on,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def view(tiny: NoiseClass, keys: KeyPaths) -> KeyView:
    return load_key(keys.directory, tiny)


# --- columns ---------------------------------------------------------------------------------------------------------


def test_columns_are_the_stated_commitments(view: KeyView) -> None:
    rng = np.random.default_rng(1)
    matrix = rng.integers(-127, 128, size=(view.cls.N, 3), dtype=np.int8)
    matrix[5] = 0
    blinders = [1, 0, R - 1]
    columns = commit_columns(default_group(), view.scores, matrix, blinders)
    points = view.scores.y + view.scores.b
    for j, beta in enumerate(blinders):
        expected = default_group().msm(points, field.pack([*(int(x) for x in matrix[:, j]), beta]))
        assert columns[64 * j : 64 * j + 64] == expected
    chi = 12345
    folded = field.unpack(combine_columns(matrix, chi))
    assert folded == [sum(pow(chi, j, R) * int(x) for j, x in enumerate(row)) % R for row in matrix]
    with pytest.raises(CommitmentError, match="bases"):
        commit_columns(default_group(), view.scores, matrix[:-1], blinders)


def test_a_version_verifies_and_two_of_one_index_share_nothing(view: KeyView) -> None:
    matrix = np.ones((view.cls.N, 3), dtype=np.int8)
    first, second = (make_version(default_group(), view, "t", matrix, {0: "x"}, secrets.token_bytes) for _ in range(2))
    for version in (first, second):
        kernel.verify_columns(default_group(), view.scores, view.digest, 3, version.public)
    assert not set(first.blinders) & set(second.blinders)
    assert len(set(first.blinders)) == 3
    assert first.public.columns != second.public.columns
    assert first.committed.text_root != second.committed.text_root
    swapped = dataclasses.replace(first.public, opening=second.public.opening)
    with pytest.raises(ProofError):
        kernel.verify_columns(default_group(), view.scores, view.digest, 3, swapped)


# --- manifests -------------------------------------------------------------------------------------------------------


def test_a_committed_window_is_what_its_manifest_says(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p")
    provider.commit(make_policy(), "w1")
    window = provider.journal.history.named("w1")
    window.signed.verify()
    manifest, held = window.manifest, provider.window_secrets(window.digest)
    assert manifest.c_seed == statement.seed_commitment(field.limbs(held.seed))
    assert [t.tenant for t in manifest.tenants] == ["acme", "globex"]
    assert manifest.accounts == 3
    for tenant in manifest.tenants:
        public = held.versions[tenant.tenant].public
        assert public.columns_digest() == tenant.columns_digest
        assert public.opening_digest() == tenant.opening_digest
    assert provider.ledger.entry(0) == window.signed.encode()
    provider.close()


def test_names_and_overlaps_are_refused(tmp_path: Path) -> None:
    clock = Clock()

    async def run() -> None:
        provider = open_provider(tmp_path / "p", clock)
        provider.commit(make_policy(), "w1")
        with pytest.raises(CommitmentError, match="opened twice"):
            provider.commit(make_policy(), "w1")
        async with serving_on(provider) as serving:
            window = await open_window(serving)
            clock.now = NOW + 600
            proof = signature.sign(provider.state.key, "close", window.digest)
            await serving.close_window(window.digest, proof)
            with pytest.raises(CommitmentError, match="do not overlap"):
                provider.commit(make_policy(opens=NOW + 540), "w2")
            assert provider.ledger.size == len(await asyncio.to_thread(_entries, provider))
            provider.commit(make_policy(opens=NOW + 600), "w2")
            assert provider.journal.history.named("").manifest.window == "w2"

    asyncio.run(run())


def _entries(provider: Provider) -> list[bytes]:
    return provider.ledger.entries(0, provider.ledger.size)


def test_a_repeated_seed_or_nonce_is_refused(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p")
    provider.commit(make_policy(), "w1")
    first = provider.journal.history.named("w1").manifest
    for change, text in (({}, "seed"), ({"c_seed": 5}, "nonce")):
        again = dataclasses.replace(first, window="w2", **change)  # type: ignore[arg-type]
        signed = manifest.sign_manifest(provider.state.key, again)
        with pytest.raises(CommitmentError, match=text):
            provider.journal.append_now(lambda signed=signed: signed)  # type: ignore[misc]
    same = dataclasses.replace(first, c_seed=5, beacon_commitment=bytes(32))
    renamed = manifest.sign_manifest(provider.state.key, same)
    with pytest.raises(CommitmentError, match="opened twice"):
        provider.journal.append_now(lambda: renamed)
    forged = SignedManifest(dataclasses.replace(first, window="w3", c_seed=5), bytes(64))
    with pytest.raises(AttestationError, match="signature"):
        provider.journal.append_now(lambda: forged)
    assert provider.ledger.size == 1
    provider.close()


def test_documents_of_two_tenants_are_said(tmp_path: Path, tiny: NoiseClass) -> None:
    """The guarantee is about one slot of one index: whoever asks in both learns twice."""
    provider = open_provider(tmp_path / "p")
    both = [Document("in both", "acme report number 3 about topic 8"), Document("new", "nobody else has this")]
    embed = embed_with(TrigramEmbedder())
    apply(provider.state, "globex", map(Put, both), embed, secrets.token_bytes, SHAPE)
    provider.commit(make_policy(), "w1")
    digest = provider.journal.history.named("w1").digest
    assert window_secrets.shared_documents(provider.state, digest) == [("acme", "globex", 1)]
    provider.close()


def test_documents_that_were_split_are_said(tmp_path: Path) -> None:
    """Epsilon is about as many slots as the policy says: whoever commits hears of documents that fill more."""
    provider = open_provider(tmp_path / "p")
    parts = [Document(f"book#{i}", f"chapter {i} of a book") for i in (1, 2, 3)]
    other = [Document("leaflet#1", "a page"), Document("C#", "a language"), Document("#7", "a number")]
    embed = embed_with(TrigramEmbedder())
    apply(provider.state, "globex", map(Put, [*parts, *other]), embed, secrets.token_bytes, SHAPE)
    provider.commit(make_policy(), "w1")
    digest = provider.journal.history.named("w1").digest
    assert window_secrets.split_documents(provider.state, digest, 1) == [("globex", 1, 3)]
    assert window_secrets.split_documents(provider.state, digest, 2) == [("globex", 1, 3)]
    assert window_secrets.split_documents(provider.state, digest, 3) == []
    assert split_said(window_secrets.split_documents(provider.state, digest, 1), 1) == [
        "tenant globex has 1 documents whose ids say that they are split (NAME#1, NAME#2, ...), into up to 3 parts: "
        "epsilon is about one part of each. chunks_max = 3 in the policy says it about each of them whole, and is that "
        "much larger"
    ]
    provider.close()


def test_documents_are_placed_afresh_only_where_no_window_can_still_answer(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p")
    history = provider.journal.history
    require_no_window(history, NOW)
    provider.commit(make_policy(), "w1")
    closes = history.named("w1").manifest.policy.closes
    for now in (NOW, closes):
        with pytest.raises(CommitmentError, match="'w1' is committed"):
            require_no_window(history, now)
    require_no_window(history, closes + 1)  # it was never opened, and now it cannot be
    history.named("w1").beacon = 1
    with pytest.raises(CommitmentError, match="'w1' is open"):
        require_no_window(history, closes + 1)
    history.named("w1").close = WindowClose(bytes(32), 0, closes)
    require_no_window(history, NOW)
    provider.close()


def test_an_interrupted_commit_is_made_anew(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p")
    backends = provider.backends
    tools = manifest.CommitmentTools(backends.group, backends.keys.newest(), None, secrets.token_bytes)
    embedder = backends.embedder.identity().digest()
    terms = manifest.WindowTerms("w1", make_policy(), embedder, [Seat("auditor", AUDITOR)])
    made = manifest.prepare_window(provider.state, provider.state, tools, terms)
    window_secrets.store_window(provider.state, made)  # and then the power went
    provider.commit(make_policy(), "w1")
    assert len(provider.state.rows("SELECT manifest FROM windows")) == 1
    digest = provider.journal.history.named("w1").digest
    assert digest != made.signed.manifest.digest()
    provider.window_secrets(digest)
    provider.close()


PAGE = metadata.committed({"page": 2})


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE windows SET seed = x'" + "00" * 32 + "'",
        "UPDATE windows SET nonce = x'" + "00" * 32 + "'",
        "UPDATE version_texts SET text = 'other' WHERE slot = (SELECT MIN(slot) FROM version_texts)",
        "UPDATE version_texts SET document = 'x' WHERE slot = (SELECT MIN(slot) FROM version_texts)",
        f"UPDATE version_texts SET metadata = x'{PAGE.encode().hex()}' WHERE document = 'acme-0'",
        "UPDATE versions SET secret = x'" + "00" * 32 + "' WHERE tenant = 'acme'",
        "DELETE FROM window_accounts WHERE name = 'bob'",
        "DELETE FROM versions WHERE tenant = 'globex'",
    ],
)
def test_secrets_that_are_not_the_manifests_are_refused(tmp_path: Path, damage: str) -> None:
    provider = open_provider(tmp_path / "p")
    provider.commit(make_policy(), "w1")
    digest = provider.journal.history.named("w1").digest
    with provider.state.transaction() as db:
        db.execute(damage)
    with pytest.raises(CommitmentError, match="not those its manifest"):
        provider.window_secrets(digest)
    provider.close()


def test_a_window_needs_documents_accounts_and_a_key(tmp_path: Path, keys: KeyPaths) -> None:
    state = new_state(tmp_path / "p")
    registry.add_accounts(
        state, [registry.Registration("dave", "nowhere", signature.public_bytes(account_key("dave")))]
    )
    state.close()
    provider = open_provider(tmp_path / "p")
    with pytest.raises(CommitmentError, match="nowhere"):
        provider.commit(make_policy(), "w1")
    with provider.state.transaction() as db:
        db.execute("DELETE FROM accounts")
    with pytest.raises(CommitmentError, match="accounts add"):
        provider.commit(make_policy(), "w1")
    provider.backends.keys.folder(keys.digest).unlink()
    with pytest.raises(ConfigurationError, match="fetch-keys"):
        provider.commit(make_policy(), "w1")
    assert provider.ledger.size == 0
    provider.close()


def test_accounts_have_their_own_names_and_keys(tmp_path: Path) -> None:
    state = new_state(tmp_path / "p")
    alice = signature.public_bytes(account_key("alice"))
    good = registry.Registration("dave", "acme", signature.public_bytes(account_key("dave")))
    assert (
        registry.add_accounts(state, [registry.Registration("alice", "acme", alice)]) == 0
    )  # the same again is no change
    for account in (
        registry.Registration("alice", "acme", signature.public_bytes(account_key("x"))),
        registry.Registration("alice", "globex", alice),
        registry.Registration("other", "acme", alice),
        registry.Registration("has space", "acme", signature.public_bytes(account_key("x"))),
        registry.Registration("short", "acme", b"k"),
    ):
        with pytest.raises(CommitmentError):
            registry.add_accounts(state, [good, account])
    assert [a.name for a in registry.accounts(state)] == ["alice", "bob", "carol"]
    state.close()
