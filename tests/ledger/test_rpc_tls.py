# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS of every edge: the right authority gets through, a wrong one or a missing client certificate does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.ledger import rpc
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.service import LedgerServicer


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.key = generate_private_key(SECP256R1())
        self.path = self._issue(name, self.key, authority=True)[0]

    def certificate(self, name: str) -> tuple[Path, Path]:
        """Files of a certificate for 127.0.0.1 and of its key."""
        return self._issue(name, generate_private_key(SECP256R1()), authority=False)

    def _issue(self, name: str, key: EllipticCurvePrivateKey, authority: bool) -> tuple[Path, Path]:
        def called(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(called(name))
            .issuer_name(called(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
            .sign(self.key, SHA256())
        )
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
        paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return paths


@pytest.mark.asyncio
async def test_mutual_tls(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    signer = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
    server = rpc.new_server()
    with Log.create(tmp_path / "ledger", signer) as log:
        LedgerServicer(log, CosignatureBook(tmp_path / "ledger", log)).mount(server)
        port = rpc.bind(server, "127.0.0.1:0", rpc.server_credentials(*ours.certificate("server"), ours.path))
        await server.start()

        async def fetch(credentials: object) -> bytes:
            channel = rpc.open_channel(f"127.0.0.1:{port}", credentials)
            try:
                return await RemoteLedger(channel, timeout=5).checkpoint()
            finally:
                await channel.close()

        assert await fetch(rpc.channel_credentials(ours.path, *ours.certificate("client"))) == log.checkpoint()
        for wrong in (
            rpc.channel_credentials(ours.path),
            rpc.channel_credentials(ours.path, *theirs.certificate("stranger")),
            rpc.channel_credentials(theirs.path, *ours.certificate("misled")),
            None,
        ):
            with pytest.raises(TransportError):
                await fetch(wrong)
        await server.stop(0)


def test_files_are_checked(tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    actions: tuple[Callable[[], object], ...] = (
        lambda: rpc.server_credentials(tmp_path / "missing", tmp_path / "missing"),
        lambda: rpc.server_credentials(tmp_path / "junk", tmp_path / "junk"),
        lambda: rpc.channel_credentials(tmp_path / "missing"),
        lambda: rpc.channel_credentials(None, tmp_path / "junk", None),
    )
    for action in actions:
        with pytest.raises(ConfigurationError):
            action()
