# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS of every edge: the right authority gets through, a wrong one or a missing client certificate does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.service import LedgerServicer
from ragseal.runtime import rpc, tls
from tests.runtime.certificates import Authority


@pytest.mark.asyncio
async def test_mutual_tls(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    signer = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
    server = rpc.new_server()
    with Log.create(tmp_path / "ledger", signer) as log:
        LedgerServicer(log, CosignatureBook(tmp_path / "ledger", log)).mount(server)
        port = rpc.bind(server, "127.0.0.1:0", tls.server_credentials(*ours.certificate("server"), ours.path))
        await server.start()

        async def fetch(credentials: object) -> bytes:
            channel = rpc.open_channel(f"127.0.0.1:{port}", credentials)
            try:
                return await RemoteLedger(channel, timeout=5).checkpoint()
            finally:
                await channel.close()

        assert await fetch(tls.channel_credentials(ours.path, *ours.certificate("client"))) == log.checkpoint()
        for wrong in (
            tls.channel_credentials(ours.path),
            tls.channel_credentials(ours.path, *theirs.certificate("stranger")),
            tls.channel_credentials(theirs.path, *ours.certificate("misled")),
            None,
        ):
            with pytest.raises(TransportError):
                await fetch(wrong)
        with pytest.raises(TransportError, match="--ca FILE"):  # the way out stands in the refusal
            await fetch(tls.channel_credentials(theirs.path, *ours.certificate("lost")))
        await server.stop(0)


def test_files_are_checked(tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    actions: tuple[Callable[[], object], ...] = (
        lambda: tls.server_credentials(tmp_path / "missing", tmp_path / "missing"),
        lambda: tls.server_credentials(tmp_path / "junk", tmp_path / "junk"),
        lambda: tls.channel_credentials(tmp_path / "missing"),
        lambda: tls.channel_credentials(None, tmp_path / "junk", None),
    )
    for action in actions:
        with pytest.raises(ConfigurationError):
            action()
