# SPDX-License-Identifier: GPL-3.0-or-later
"""``proofs export``: what is public of a closed window, as files; nothing of it before, and nothing names anybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ragseal.kernel.commitment import IndexFile
from ragseal.kernel.errors import AuditError, CommitmentError, ConfigurationError, ProofError
from ragseal.kernel.proofs import ProofBatch
from ragseal.kernel.thinning import ThinnedFile
from ragseal.ledger.proof_files import batch_path, columns_path, key_path
from ragseal.prover.__main__ import main
from ragseal.prover.serving import publishing
from ragseal.prover.wire.operator_remote import Remote
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow

NAMES = (b"alice", b"carol", b"report about", b"topic")


def silent(*_: object) -> None:
    """Nobody waits."""


def ask(made: Live, *names: str) -> None:
    for name in names:
        with made.client(name=name) as client:
            client.ask("report about topic 5")


def close(made: Live) -> None:
    made.call(made.server.serving.turn(made.window))


def export(made: Live, folder: Path, window: str = "") -> None:
    publishing.export(made.provider, made.server.serving.proofs, folder, window, silent)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_everything_public_of_a_window_and_nothing_else(tmp_path: Path) -> None:
    """While the provider serves, through its socket; a second export changes no byte."""
    out = tmp_path / "public"
    with live(tmp_path / "scene", coins=True) as made:
        ask(made, "alice", "carol")
        close(made)
        with Remote(made.folder / "provider") as there:
            told = there.export_proofs(out, "w1", silent)
        manifest, digest = made.window.manifest, made.window.digest
        wanted = {key_path(manifest.key_digest), key_path(manifest.coin.key_digest), batch_path(digest, 0)}
        wanted |= {columns_path(one.columns_digest) for one in manifest.tenants}
        assert made.window.thinning is not None
        wanted |= {columns_path(one.columns_digest) for one in made.window.thinning.tenants}
        files = contents(out)
        assert set(files) == set(told.values["files"]) == wanted
        assert [e.seq for e in ProofBatch.decode(files[batch_path(digest, 0)]).entries] == [0, 1]
        for one in manifest.tenants:
            assert IndexFile.decode(files[columns_path(one.columns_digest)]).columns_digest() == one.columns_digest
        for line in made.window.thinning.tenants:
            assert ThinnedFile.decode(files[columns_path(line.columns_digest)]).entry(line.tenant) == line
        for data in files.values():
            assert not any(name in data for name in NAMES)  # no account, no question, no text
        export(made, out)
        assert contents(out) == files


def test_nothing_of_a_window_that_is_open_or_unknown(tmp_path: Path) -> None:
    with live(tmp_path / "scene") as made:
        ask(made, "alice")
        for window, why in (("", "no window is closed"), ("w1", "is not closed"), ("w9", "no window 'w9'")):
            with pytest.raises(CommitmentError, match=why):
                export(made, tmp_path / "public", window)
        assert not (tmp_path / "public").exists()


def test_nothing_before_all_records_are_public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log shows records on the coarse tick; proofs must not tell earlier that somebody asked."""
    with live(tmp_path / "scene") as made:
        ask(made, "alice")
        close(made)
        with monkeypatch.context() as patch:
            patch.setattr(made.provider.journal, "published_records", lambda window: 0)
            with pytest.raises(CommitmentError, match="not all records of window 'w1' are public yet"):
                export(made, tmp_path / "public")
        assert not (tmp_path / "public").exists()
        export(made, tmp_path / "public")


def test_nothing_is_written_if_one_record_cannot_be_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path / "scene") as made:
        ask(made, "alice", "carol")
        close(made)
        proofs = made.server.serving.proofs
        real = proofs.prove

        def prove(manifest: bytes, seq: int) -> object:
            if seq == 1:
                raise ProofError("the prover broke")
            return real(manifest, seq)

        with monkeypatch.context() as patch:
            patch.setattr(proofs, "prove", prove)
            with pytest.raises(AuditError, match="the prover broke"):
                export(made, tmp_path / "public")
        assert not (tmp_path / "public").exists()
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigurationError, match="cannot write below"):
            export(made, tmp_path / "file")


def test_the_command_where_there_is_no_provider(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["proofs", "export", str(tmp_path / "out"), "--state", str(tmp_path / "none")])
    assert done.exit_code != 0
    assert not (tmp_path / "out").exists()
