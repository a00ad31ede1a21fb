# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates for the tests of TLS, made on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority in a folder; ``key``: a private key of another kind than P-256."""

    def __init__(self, folder: Path, name: str, key: Any = None) -> None:
        self.folder, self.name = folder, name
        self.key = key or generate_private_key(SECP256R1())
        self.path = self._issue(name, self.key, authority=True)[0]

    def certificate(
        self, name: str, *hosts: str, expires: float = 3600, begins: float = -7200, key: Any = None, named: bool = True,
        extensions: Sequence[x509.ExtensionType] = (),
    ) -> tuple[Path, Path]:  # fmt: skip
        """Files of a certificate for addresses or names, or 127.0.0.1, and of its key.

        Args:
            expires, begins: seconds from now.
            key: a private key of another kind than P-256.
            named: whether it has alternative names at all.
            extensions: further ones.
        """
        own = key or generate_private_key(SECP256R1())
        return self._issue(name, own, False, hosts or ("127.0.0.1",) if named else (), expires, begins, extensions)

    def _issue(
        self,
        name: str,
        key: Any,
        authority: bool,
        hosts: tuple[str, ...] = ("127.0.0.1",),
        expires: float = 3600,
        begins: float = -7200,
        extensions: Sequence[x509.ExtensionType] = (),
    ) -> tuple[Path, Path]:
        def called(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(called(name))
            .issuer_name(called(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(seconds=begins))
            .not_valid_after(now + timedelta(seconds=expires))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_name(one) for one in hosts]), critical=False)
        for one in extensions:
            builder = builder.add_extension(one, critical=True)
        digest = None if isinstance(self.key, Ed25519PrivateKey | Ed448PrivateKey) else SHA256()
        certificate = builder.sign(self.key, digest)
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
        paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return paths


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
