# SPDX-License-Identifier: GPL-3.0-or-later
"""Why two programs do not agree on TLS: from the stack's own code, and from the certificate of the other side."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ragseal.kernel.printable import printable
from ragseal.runtime.edges.cause import Cause

if TYPE_CHECKING:
    from cryptography import x509

MOST_NAMES = 5  #: of a certificate that are shown

BY_OPTION = "name the authority with --ca FILE (the certificate itself, if it is self-signed)"
BY_SYSTEM = "have this machine trust the authority, or name its file in SSL_CERT_FILE"

#: OpenSSL's codes of a certificate that is refused.
_TOO_EARLY, _TOO_LATE = 9, 10
_UNTRUSTED = (2, 18, 19, 20, 21, 24)
_OTHER_NAME = (62, 64)
_WEAK = (66, 67, 68)

_CLEAR = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL",
          "INVALID_ALERT", "BAD_RECORD_TYPE")  # fmt: skip
_WANTS_ONE = ("CERTIFICATE_REQUIRED", "PEER_DID_NOT_RETURN_A_CERTIFICATE")
_REFUSES_OURS = ("BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED",
                 "UNSUPPORTED_CERTIFICATE", "ACCESS_DENIED", "DECRYPT_ERROR")  # fmt: skip
_VERSIONS = ("UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE", "VERSION_TOO_LOW")
_NOTHING_IN_COMMON = ("HANDSHAKE_FAILURE", "NO_SHARED_CIPHER", "NO_SUITABLE", "INSUFFICIENT_SECURITY")


def tls_cause(
    error: ssl.SSLError, host: str, shown: x509.Certificate | None, *, own: bool, trust: str = BY_OPTION
) -> Cause:
    """Why a handshake with ``host`` failed.

    Args:
        shown: the certificate of the other side, where it could be seen.
        own: whether a certificate of this side was there to be shown.
        trust: how to name an authority.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _refused_certificate(error, host, shown, trust)
    reason = error.reason or ""

    def one_of(names: tuple[str, ...]) -> bool:
        return any(name in reason for name in names)

    if one_of(_CLEAR):
        return Cause("it answers in the clear, and was called with TLS", "give it TLS files, or say --plain here")
    if one_of(_WANTS_ONE):
        return closed_after_handshake(True, own)
    if "ALERT" in reason and one_of(_REFUSES_OURS):
        said = f"it refuses this side's certificate ({reason.lower().replace('_', ' ')})"
        return Cause(
            said if own else f"it ends the handshake ({reason.lower().replace('_', ' ')})",
            "give one of the authority that it names with --tls-clients: --cert FILE, --cert-key FILE",
        )
    if one_of(_VERSIONS):
        return Cause("it speaks no version of TLS that this side takes (1.2 and 1.3)", "update the older side")
    if one_of(_NOTHING_IN_COMMON):
        return Cause(
            "the two sides have no cipher or kind of key in common",
            "give the server a key of P-256, P-384, or RSA with 2048 bits or more",
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Cause("it closes the connection during the handshake", "see its log, and whether it speaks TLS at all")
    return Cause(f"the handshake failed ({reason.lower().replace('_', ' ') or error})", "see the server's log")


def closed_after_handshake(asked: bool, own: bool) -> Cause:
    """Why a server ends a connection whose handshake went well for this side.

    Args:
        asked: it wanted a certificate.
        own: this side had one to show.
    """
    if asked and not own:
        return Cause("it lets in only callers with a certificate", "give yours with --cert FILE and --cert-key FILE")
    if asked:
        return Cause(
            "it refuses this side's certificate: it asked for one, and closed the connection when it had it",
            "give one of the authority that it names with --tls-clients, which is valid now",
        )
    return Cause("it closes the connection right after the handshake", "see its log")


def _refused_certificate(
    error: ssl.SSLCertVerificationError, host: str, shown: x509.Certificate | None, trust: str
) -> Cause:
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    code = error.verify_code
    if code == _TOO_LATE:
        when = "" if shown is None else f" at {shown.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        return Cause(f"its certificate, or one of its chain, expired{when}; the clock here says {now}",
                     "have it renewed, or set the clock")  # fmt: skip
    if code == _TOO_EARLY:
        when = "" if shown is None else f" before {shown.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        return Cause(f"its certificate is not valid{when}, and the clock here says {now}", "see which clock is wrong")
    if code in _UNTRUSTED:
        of = "" if shown is None else f" (issued by {_called(shown.issuer)})"
        return Cause(f"its certificate{of} is of no authority trusted here", trust)
    if code in _OTHER_NAME:
        names = [] if shown is None else names_of(shown)
        listed = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
        return Cause(
            f"its certificate is for {listed or 'other names'} and not for {host}",
            "call it by one of its names, or have one made with this name or IP address among its alternative names",
        )
    if code in _WEAK:
        return Cause(f"its certificate or authority is too weak ({error.verify_message})",
                     "have one made with P-256, P-384, or RSA of 2048 bits or more, and SHA-256")  # fmt: skip
    return Cause(f"its certificate is refused ({error.verify_message})", "see the certificate, and that of --ca")


def names_of(certificate: x509.Certificate) -> list[str]:
    """The names and IP addresses that a certificate is for."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    found = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    return [printable(name[:100]) for name in found]


def shown_by(place: tuple[str, int], host: str, seconds: float) -> x509.Certificate | None:
    """The certificate that a server shows, whatever it is worth; None where it shows none in time."""
    from cryptography import x509

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(place, seconds) as raw,
            context.wrap_socket(raw, server_hostname=host) as wrapped,
        ):
            data = wrapped.getpeercert(binary_form=True)
        return None if data is None else x509.load_der_x509_certificate(data)
    except (OSError, ValueError):
        return None


def _called(name: x509.Name) -> str:
    return printable(name.rfc4514_string()[:100]) or "nobody"
