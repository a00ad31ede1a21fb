# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS of every gRPC edge, from certificate files.  Encrypted by default wherever the other side is not this machine.

Server:   ServerTls(certificate, key, clients).credentials()   clients: the authority that callers need
Client:   ClientTls(authority, certificate, key).credentials("rag.example:7800")

On loopback the default is plain.  Elsewhere a caller without files trusts the system's authorities, a server without
files does not listen, and only ``plain`` turns encryption off.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from ragseal.kernel.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography import x509

MAX_PEM_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What a caller knows: whom to trust, and its own certificate for servers that ask for one."""

    authority: Path | None = None  #: PEM; None: the system's authorities
    certificate: Path | None = None
    key: Path | None = None
    plain: bool = False  #: in the clear, wherever the other side is

    def credentials(self, target: str) -> grpc.ChannelCredentials | None:
        """For :func:`ragseal.runtime.rpc.open_channel`; None for a connection in the clear.

        Raises:
            ConfigurationError: a file that is missing, no certificate, expired, or contradicts another option.
        """
        files = (self.authority, self.certificate, self.key)
        if self.plain:
            if any(files):
                raise ConfigurationError("--plain and certificates contradict each other: leave one out")
            return None
        if not any(files) and is_local(target):
            return None
        return channel_credentials(*files)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a server shows, and whom it lets in."""

    certificate: Path | None = None
    key: Path | None = None
    clients: Path | None = None  #: PEM; only callers with a certificate of this authority get in
    plain: bool = False  #: in the clear, wherever it listens

    def credentials(self) -> grpc.ServerCredentials | None:
        """For :func:`ragseal.runtime.rpc.bind`; None for a server in the clear.

        Raises:
            ConfigurationError: as :meth:`configuration`.
        """
        self.configuration()
        if self.certificate is None or self.key is None:
            return None
        return server_credentials(self.certificate, self.key, self.clients)

    def configuration(self) -> grpc.ServerCertificateConfiguration | None:
        """What is shown and who is let in, as the files are now; None for a server in the clear.

        Raises:
            ConfigurationError: a file that is missing, no certificate, expired, or contradicts another option.
        """
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("TLS takes both --tls-cert and --tls-key")
        if self.certificate is None or self.key is None:
            if self.clients is not None:
                raise ConfigurationError("--tls-clients needs a server with TLS: give --tls-cert and --tls-key")
            return None
        if self.plain:
            raise ConfigurationError("--plain and certificates contradict each other: leave one out")
        authority = None if self.clients is None else _authority(self.clients)
        return grpc.ssl_server_certificate_configuration([_own(self.certificate, self.key)], authority)


BY_DEFAULT = ClientTls()  #: plain on loopback, the system's authorities elsewhere
LOOPBACK_ONLY = ServerTls()


def server_credentials(certificate: Path, key: Path, client_authority: Path | None = None) -> grpc.ServerCredentials:
    """TLS for a server from PEM files; with ``client_authority`` only clients with its certificates get in.

    Raises:
        ConfigurationError: a file is missing, malformed or expired, or the key belongs to another certificate.
    """
    authority = _authority(client_authority) if client_authority else None
    return grpc.ssl_server_credentials([_own(certificate, key)], authority, require_client_auth=authority is not None)


def channel_credentials(
    authority: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> grpc.ChannelCredentials:
    """TLS for a client: the authority to trust (default: the system's) and, for mutual TLS, an own certificate.

    Raises:
        ConfigurationError: a file is missing, malformed or expired, or a certificate without its key.
    """
    if (certificate is None) != (key is None):
        raise ConfigurationError("mutual TLS takes both a certificate and its key")
    own = _own(certificate, key) if key and certificate else (None, None)
    return grpc.ssl_channel_credentials(_authority(authority) if authority else None, *own)


# --- files -----------------------------------------------------------------------------------------------------------


def _own(certificate: Path, key: Path) -> tuple[bytes, bytes]:
    """(key, certificates) as gRPC takes them: they belong together and are valid now."""
    chain, private = _pem(certificate), _pem(key)
    try:
        loaded = load_pem_private_key(private, None)
    except (ValueError, TypeError):
        raise ConfigurationError(f"{key} is not a private key in PEM without a password") from None
    first = _certificates(chain, certificate)[0]

    def spki(public: object) -> object:
        return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]

    if spki(loaded.public_key()) != spki(first.public_key()):
        raise ConfigurationError(f"{key} is not the key of the certificate {certificate}")
    return private, chain


def _authority(path: Path) -> bytes:
    data = _pem(path)
    _certificates(data, path)
    return data


def _certificates(data: bytes, path: Path) -> list[x509.Certificate]:
    """All of a file, the first one valid now."""
    from cryptography import x509  # here: most commands open no certificate, and need not wait for it

    try:
        found = x509.load_pem_x509_certificates(data)
    except ValueError:
        raise ConfigurationError(f"{path} holds no certificate in PEM") from None
    now = datetime.now(UTC)
    if now > found[0].not_valid_after_utc:
        raise ConfigurationError(f"the certificate {path} expired at {found[0].not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    if now < found[0].not_valid_before_utc:
        raise ConfigurationError(
            f"the certificate {path} is valid from {found[0].not_valid_before_utc:%Y-%m-%d %H:%M} UTC on: see the clock"
        )
    return found


def _pem(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PEM_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_PEM_BYTES or b"-----BEGIN " not in data:
        raise ConfigurationError(f"{path} is not a PEM file")
    return data


# --- addresses -------------------------------------------------------------------------------------------------------


def is_local(address: str) -> bool:
    """Whether ``host:port`` or ``unix:...`` never leaves this machine."""
    return address.startswith("unix:") or is_loopback(address.rpartition(":")[0])


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback; names other than localhost are not resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
