# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates for the tests of TLS, made on the spot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.key = generate_private_key(SECP256R1())
        self.path = self._issue(name, self.key, authority=True)[0]

    def certificate(self, name: str, *hosts: str, expires: float = 3600) -> tuple[Path, Path]:
        """Files of a certificate for addresses, or 127.0.0.1, and of its key; ``expires``: seconds from now."""
        return self._issue(name, generate_private_key(SECP256R1()), False, hosts or ("127.0.0.1",), expires)

    def _issue(
        self,
        name: str,
        key: EllipticCurvePrivateKey,
        authority: bool,
        hosts: tuple[str, ...] = ("127.0.0.1",),
        expires: float = 3600,
    ) -> tuple[Path, Path]:
        def called(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(called(name))
            .issuer_name(called(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=2))
            .not_valid_after(now + timedelta(seconds=expires))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address(one)) for one in hosts]), critical=False
            )
            .sign(self.key, SHA256())
        )
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
        paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return paths
