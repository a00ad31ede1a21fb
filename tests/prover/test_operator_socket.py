# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose the operator's socket is: its own user's and nobody else's, and nothing that somebody put in its place."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.prover.__main__ import main
from ragseal.prover.cli import access
from ragseal.prover.cli.access import administration
from ragseal.prover.storage import place
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Stage
from ragseal.runtime.rpc import open_channel
from ragseal.runtime.statuses import error_of
from ragseal.v1 import admin_pb2, admin_pb2_grpc
from tests.attacks.checks import without
from tests.attacks.removal import Guard
from tests.simulator import provider as scene
from tests.simulator.live import Live, folder_of, live, run

pytestmark = pytest.mark.slow


def test_the_socket_is_its_user_s_alone_and_goes_with_the_provider(serving: Live) -> None:
    path = folder_of(serving) / place.SOCKET
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(folder_of(serving).stat().st_mode) == 0o700
    serving.stop()
    assert not path.exists()
    with administration(folder_of(serving)) as local:
        assert local.list_accounts().values["accounts"]
    serving.restart_after_stop()


def test_a_socket_that_a_crash_left_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path) as made:
        made.stop()
        left = socket.socket(socket.AF_UNIX)
        monkeypatch.chdir(folder_of(made))
        left.bind(place.SOCKET)
        left.close()
        with administration(folder_of(made)) as local:  # nobody listens, so the lock counts
            assert local.list_accounts().values["accounts"]
        made.restart_after_stop()
        assert run(made, "accounts list")["accounts"]


def test_a_command_asks_the_socket_first_and_takes_no_lock_where_a_provider_serves(
    serving: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it might hold the folder in the moment in which a provider starts."""

    def taken(*_: object) -> None:
        pytest.fail("the folder's lock was tried")

    monkeypatch.setattr(access, "State", taken)
    assert run(serving, "accounts list")["accounts"]


def test_a_copy_that_is_asked_for_by_the_clock_never_takes_the_folder(tmp_path: Path) -> None:
    """A provider that starts has no socket yet, and would find its folder in use."""
    command = ["backup", "--state", str(tmp_path / "provider"), "--to", str(tmp_path / "copy")]
    with live(tmp_path) as made:
        made.stop()
        made.provider.close()
        refused = CliRunner().invoke(main, [*command, "--serving"])
        assert refused.exit_code == 1
        assert "no provider serves in" in refused.output
        assert not (tmp_path / "copy").exists()
        made.restart_after_stop()
        assert CliRunner().invoke(main, [*command, "--serving"]).exit_code == 0
        assert (tmp_path / "copy").is_dir()


def _file(path: Path) -> None:
    path.write_bytes(b"")


def _link(path: Path) -> None:
    path.symlink_to("/tmp/elsewhere.sock")


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("plant", [_file, _link, _folder])
def test_what_somebody_put_in_the_socket_s_place_is_refused(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    """Neither does a provider remove it, nor does a command talk to it."""
    with live(tmp_path) as made:
        made.stop()
        path = folder_of(made) / place.SOCKET
        plant(path)
        with pytest.raises(ConfigurationError, match="no provider made it"):
            made.restart_after_stop()
        assert os.path.lexists(path)
        made.provider.close()
        held = State(folder_of(made))
        with pytest.raises(ConfigurationError, match="no provider made it"), administration(folder_of(made)):
            pass
        held.close()
        with contextlib.suppress(IsADirectoryError):
            path.unlink()
        if path.exists():
            path.rmdir()
        made.restart_after_stop()


def test_nothing_is_served_in_a_folder_that_others_may_enter(tmp_path: Path) -> None:
    """Between its making and its mode a socket has only the folder to protect it."""
    with live(tmp_path) as made:
        made.stop()
        os.chmod(folder_of(made), 0o755)
        with pytest.raises(ConfigurationError, match="open to others"):
            made.restart_after_stop()
        assert not (folder_of(made) / place.SOCKET).exists()
        os.chmod(folder_of(made), 0o700)
        made.provider.close()
        made.restart_after_stop()


OWNER = Guard(place, "found", "no provider made it")
MODE = Guard(place, "_require_private", "open to others")


def test_another_user_s_socket_or_folder_is_refused(serving: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = folder_of(serving)
    os.chmod(directory, 0o750)
    with pytest.raises(ConfigurationError, match="open to others"):
        place.found(directory)
    with without(MODE):
        assert place.found(directory)
    os.chmod(directory, 0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ConfigurationError, match="not a socket of this user"):
        place.found(directory)


def test_a_folder_that_is_held_by_a_process_that_does_not_serve(tmp_path: Path) -> None:
    with scene.new_state(tmp_path / "p") as state:
        with pytest.raises(LedgerError, match="in use by another process"), administration(tmp_path / "p"):
            pass
        assert state.rows("SELECT 1") == [(1,)]


def test_strangers_cannot_call_it(serving: Live) -> None:
    """On the port that everybody reaches there is no such service: nobody else commits, closes or copies."""

    async def called(stub: Any, method: str, request: Any) -> None:
        try:
            answer = getattr(stub, method)(request, timeout=10)
            if hasattr(answer, "__aiter__"):
                async for _ in answer:
                    pass
            else:
                await answer
        except grpc.RpcError as error:
            raise error_of(error, "P") from None

    async def attempt() -> None:
        async with open_channel(serving.address) as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)  # type: ignore[no-untyped-call]
            for method, request in (
                ("GetStatus", admin_pb2.GetStatusRequest()),
                ("EndWindow", admin_pb2.EndWindowRequest()),
                ("RemoveAccount", admin_pb2.RemoveAccountRequest(name="alice")),
                ("AddAccounts", admin_pb2.AddAccountsRequest()),
                ("ListAccounts", admin_pb2.ListAccountsRequest()),
                ("AdmitAuditor", admin_pb2.AdmitAuditorRequest(name="late", public_key=bytes(32))),
                ("RemoveAuditor", admin_pb2.RemoveAuditorRequest(name="late")),
                ("ListAuditors", admin_pb2.ListAuditorsRequest()),
                ("CommitWindow", admin_pb2.CommitWindowRequest(window="w2")),
                ("Backup", admin_pb2.BackupRequest(folder=str(serving.folder / "stolen"))),
                ("ExportProofs", admin_pb2.ExportProofsRequest(folder=str(serving.folder / "stolen"))),
                ("PutDocuments", iter([admin_pb2.PutDocumentsRequest(tenant="acme")])),
                ("DeleteDocuments", admin_pb2.DeleteDocumentsRequest(tenant="acme", ids=["acme-1"])),
                ("EraseDocument", admin_pb2.EraseDocumentRequest(tenant="acme", id="acme-1", reason="art. 17")),
                ("ListErasures", admin_pb2.ListErasuresRequest()),
                ("RetireWindow", admin_pb2.RetireWindowRequest(window="w1", agreed=True)),
                ("ListDocuments", admin_pb2.ListDocumentsRequest(tenant="acme")),
                ("SyncDocuments", admin_pb2.SyncDocumentsRequest(tenant="acme", source="jsonl:/x", vectors="embed")),
            ):
                with pytest.raises(AuditError, match=r"does not offer this call|Internal error from Core"):
                    await called(stub, method, request)

    asyncio.run(attempt())
    assert serving.window.stage is Stage.OPEN
    assert not (serving.folder / "stolen").exists()
    methods = set(admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods_by_name)
    assert methods == {
        "GetStatus", "EndWindow", "RemoveAccount", "AddAccounts", "ListAccounts", "CommitWindow", "Backup",
        "PutDocuments", "DeleteDocuments", "ListDocuments", "SyncDocuments",
        "EraseDocument", "ListErasures", "RetireWindow", "AdmitAuditor", "RemoveAuditor", "ListAuditors",
        "ExportProofs",
    }  # fmt: skip
