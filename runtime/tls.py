# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS of every gRPC edge, from certificate files.  Encrypted by default wherever the other side is not this machine.

Server:   ServerTls(certificate, key, clients).credentials()   clients: the authority that callers need
Client:   ClientTls(authority, certificate, key).credentials("rag.example:7800")

On loopback the default is plain.  Elsewhere a caller without files trusts the system's authorities, a server without
files does not listen, and only ``plain`` turns encryption off.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.pem import authority_file, own_files


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
            ConfigurationError: no address, or a file that is missing, no certificate, expired, of a kind that TLS
                cannot use, or contradicts another option.
        """
        files = (self.authority, self.certificate, self.key)
        if self.plain:
            if any(files):
                raise ConfigurationError("--plain and certificates contradict each other: leave one out")
            return None
        return channel_credentials(*files) if self.encrypts(target) else None

    def encrypts(self, target: str) -> bool:
        """Whether calls to an address are encrypted: those to this machine only with files.

        Raises:
            ConfigurationError: no address.
        """
        files = (self.authority, self.certificate, self.key)
        return not self.plain and (any(files) or not Address.parse(target).loopback)


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
        authority = None if self.clients is None else authority_file(self.clients)
        own = own_files(self.certificate, self.key, server=True)
        return grpc.ssl_server_certificate_configuration([own], authority)


BY_DEFAULT = ClientTls()  #: plain on loopback, the system's authorities elsewhere
LOOPBACK_ONLY = ServerTls()


def server_credentials(certificate: Path, key: Path, client_authority: Path | None = None) -> grpc.ServerCredentials:
    """TLS for a server from PEM files; with ``client_authority`` only clients with its certificates get in.

    Raises:
        ConfigurationError: a file is missing, malformed or expired, or the key belongs to another certificate.
    """
    authority = authority_file(client_authority) if client_authority else None
    own = own_files(certificate, key, server=True)
    return grpc.ssl_server_credentials([own], authority, require_client_auth=authority is not None)


def channel_credentials(
    authority: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> grpc.ChannelCredentials:
    """TLS for a client: the authority to trust (default: the system's) and, for mutual TLS, an own certificate.

    Raises:
        ConfigurationError: a file is missing, malformed or expired, or a certificate without its key.
    """
    if (certificate is None) != (key is None):
        raise ConfigurationError("mutual TLS takes both a certificate and its key")
    own = own_files(certificate, key, server=False) if key and certificate else (None, None)
    return grpc.ssl_channel_credentials(authority_file(authority) if authority else None, *own)
