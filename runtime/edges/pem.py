# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificate files, checked for all that the TLS stacks behind them want: gRPC's BoringSSL and Python's OpenSSL.

Both are asked for the same, the stricter of the two: what one of them refuses at a connection is refused here, at the
start, with its reason.  SPEC G.7.14.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.edges.filesystem import why

if TYPE_CHECKING:
    from cryptography import x509

MAX_PEM_BYTES = 1 << 20
RSA_BITS = (2048, 8192)  #: OpenSSL refuses shorter keys, BoringSSL longer ones
OWN_KINDS = "P-256, P-384, or RSA of 2048 to 8192 bits"  #: that both stacks show in a handshake
AUTHORITY_KINDS = "P-256, P-384, P-521, Ed25519, or RSA of 2048 to 8192 bits"  #: with which both check a certificate

DIGESTS = ("sha224", "sha256", "sha384", "sha512")  #: under which both check a signature

_OWN_CURVES = ("secp256r1", "secp384r1")
_AUTHORITY_CURVES = (*_OWN_CURVES, "secp521r1")

_RSA_PSS = "1.2.840.113549.1.1.10"

_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]+-----")

#: A mark of UTF-8 or UTF-16 at the beginning of a file.
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def own_files(certificate: Path, key: Path, *, server: bool) -> tuple[bytes, bytes]:
    """(key, certificates) as gRPC takes them: they belong together, are valid now, and both TLS stacks can use them.

    Args:
        server: callers look for its name in the certificate.

    Raises:
        ConfigurationError: a file is missing, malformed, expired, of a kind that a stack cannot use, or of another key.
    """
    chain, private = _pem(certificate), _pem(key)
    try:
        loaded = load_pem_private_key(private, None)
    except TypeError:
        raise ConfigurationError(f"{key} is locked with a password: store it without, readable by its owner") from None
    except Exception:  # cryptography: ValueError, or UnsupportedAlgorithm for kinds that it has no name for
        raise ConfigurationError(f"{key} is not a private key in PEM without a password") from None
    found = _certificates(chain, certificate)
    own = _spki(loaded.public_key())
    places = [at for at, one in enumerate(found) if _spki(one.public_key()) == own]
    if not places:
        raise ConfigurationError(f"{key} is not the key of the certificate {certificate}")
    if places[0]:
        raise ConfigurationError(
            f"{key} is the key of certificate {places[0] + 1} in {certificate}: put that one first, then those above it"
        )
    if trouble := key_trouble(loaded.public_key(), own=True):
        raise ConfigurationError(f"{key} is {trouble}: make one of {OWN_KINDS}")
    if trouble := _not_now(found[0]) or _unfit(found[0], server):
        raise ConfigurationError(f"the certificate {certificate} {trouble}")
    if server and not _names(found[0]):
        raise ConfigurationError(
            f"the certificate {certificate} has no alternative name (subjectAltName), and callers look nowhere else: "
            "have one made that names each host or IP address by which this server is called"
        )
    _check_chain(found, certificate)
    return private, chain


def authority_file(path: Path) -> bytes:
    """Certificates of authorities as gRPC takes them.

    Raises:
        ConfigurationError: missing, malformed, or none of them is valid now and of a kind that both stacks can check.
    """
    data = _pem(path)
    troubles = []
    for one in _certificates(data, path):
        trouble = _not_now(one)
        if not trouble and (kind := key_trouble(_public(one, path), own=False)):
            trouble = f"has {kind}: make one of {AUTHORITY_KINDS}"
        if not trouble:
            return data
        troubles.append(trouble)
    raise ConfigurationError(f"the certificate {path} {troubles[0]}")


def expiry(path: Path, *, authorities: bool = False) -> tuple[datetime, list[str]]:
    """Until when the first certificate of a file is valid, and for which names; of authorities the one that lasts
    longest, since one of them is enough.  Raises ConfigurationError."""
    found = _certificates(_pem(path), path)
    one = max(found, key=lambda one: one.not_valid_after_utc) if authorities else found[0]
    return one.not_valid_after_utc, _names(one)


def key_trouble(public: object, own: bool) -> str:
    """Why the TLS stacks cannot use a key, with its kind; empty where they can.

    Args:
        own: it is shown in handshakes; otherwise it is an authority's, which only checks certificates.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(public, rsa.RSAPublicKey):
        least, most = RSA_BITS
        if not least <= public.key_size <= most:
            which = "too short" if public.key_size < least else "too long"
            return f"an RSA key of {public.key_size} bits, which is {which} for TLS"
        return ""
    if isinstance(public, ec.EllipticCurvePublicKey):
        curve = public.curve.name
        if curve in (_OWN_CURVES if own else _AUTHORITY_CURVES):
            return ""
        return f"a key on the curve {curve}, which gRPC's TLS does not take"
    if isinstance(public, ed25519.Ed25519PublicKey):
        return "an Ed25519 key, with which gRPC's TLS agrees on no handshake" if own else ""
    kind = type(public).__name__.removesuffix("PublicKey").lstrip("_")
    return f"a key of kind {kind}, which gRPC's TLS does not take"


# --- one file --------------------------------------------------------------------------------------------------------


def _check_chain(found: list[x509.Certificate], path: Path) -> None:
    """Each certificate after the first has issued the one before it.  Raises ConfigurationError."""
    from cryptography.exceptions import InvalidSignature

    for number, (one, above) in enumerate(pairwise(found), start=1):
        try:
            one.verify_directly_issued_by(above)
        except (ValueError, TypeError, InvalidSignature):
            raise ConfigurationError(
                f"certificate {number + 1} in {path} did not issue certificate {number}: the order is own certificate, "
                "then the authority that issued it, then the one above"
            ) from None
        if above != one and not _may_issue(above):
            raise ConfigurationError(
                f"certificate {number + 1} in {path} is not an authority's (basicConstraints has no CA:TRUE), so "
                f"callers refuse what it issued: have certificate {number} issued by an authority"
            )
        if trouble := key_trouble(above.public_key(), own=False):
            raise ConfigurationError(
                f"certificate {number + 1} in {path} has {trouble}: its authority needs one of {AUTHORITY_KINDS}"
            )


def _may_issue(certificate: x509.Certificate) -> bool:
    """Of version 1 there are old roots, which cannot say it."""
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return certificate.version is x509.Version.v1


def _certificates(data: bytes, path: Path) -> list[x509.Certificate]:
    """All of a file, at least one."""
    from cryptography import x509  # here: most commands open no certificate, and need not wait for it

    try:
        found = x509.load_pem_x509_certificates(data)
    except ValueError:
        found = []
    if not found:
        raise ConfigurationError(f"{path} holds no certificate in PEM")
    return found


def _public(certificate: x509.Certificate, path: Path) -> object:
    try:
        return certificate.public_key()
    except Exception:  # cryptography: UnsupportedAlgorithm, ValueError
        raise ConfigurationError(
            f"the certificate {path} has a key of an unknown kind: make one of {AUTHORITY_KINDS}"
        ) from None


def _not_now(certificate: x509.Certificate) -> str:
    now = datetime.now(UTC)
    clock = f"the clock here says {now:%Y-%m-%d %H:%M}"
    if now > certificate.not_valid_after_utc:
        return f"expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC ({clock}): have it renewed"
    if now < certificate.not_valid_before_utc:
        start = certificate.not_valid_before_utc
        return f"is valid from {start:%Y-%m-%d %H:%M} UTC on, and {clock}: see which clock is wrong"
    return ""


def _unfit(certificate: x509.Certificate, server: bool) -> str:
    """Why the other side's stack would refuse a certificate whatever its key is; empty where it would not."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    if certificate.public_key_algorithm_oid.dotted_string == _RSA_PSS:
        return "has a key for RSASSA-PSS alone, which gRPC's TLS does not take: make a plain RSA key"
    digest = certificate.signature_hash_algorithm
    if digest is not None and digest.name not in DIGESTS:
        return f"is signed with {digest.name.upper()}, which TLS does not take: have it signed with SHA-256"
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
        if not usage.digital_signature:
            return "may not sign (keyUsage has no digitalSignature), as a handshake does: have one made that may"
    except x509.ExtensionNotFound:
        pass
    try:
        purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return ""
    wanted = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
    if wanted in purposes or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in purposes:
        return ""
    side = "servers (serverAuth)" if server else "callers (clientAuth)"
    return f"is for other purposes than {side}: have one made for that"


def _names(certificate: x509.Certificate) -> list[str]:
    from ragseal.runtime.edges.tls_failures import names_of

    return names_of(certificate)


def _spki(public: object) -> bytes:
    make: Callable[..., bytes] = public.public_bytes  # type: ignore[attr-defined]
    return make(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _pem(path: Path) -> bytes:
    """A file's bytes, in which a TLS stack finds all that stands there.  Raises ConfigurationError."""
    data = _bytes(path)
    if data.startswith(_MARKS):
        raise ConfigurationError(
            f"{path} begins with a byte order mark, behind which TLS finds nothing: save it as UTF-8 without one"
        )
    if len(data) > MAX_PEM_BYTES or b"-----BEGIN " not in data:
        raise ConfigurationError(f"{path} is not a PEM file")
    if trouble := _torn(data):
        raise ConfigurationError(f"in {path} {trouble}")
    return data


def _bytes(path: Path) -> bytes:
    """At most one more than a PEM file has.  Never waits: a pipe would be empty when the files are read again."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigurationError(
                    f"{path} is a pipe or a device: TLS files are read again when they are renewed, so name a file"
                )
            return file.read(MAX_PEM_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None


def _torn(data: bytes) -> str:
    """What keeps a TLS stack from finding a part of a file; empty where each finds all of them.

    BoringSSL stops in silence at what OpenSSL refuses, and cryptography reads more than both.
    """
    if b"\0" in data:
        return "stands a zero byte, behind which TLS finds nothing: write the file again"
    if b"\r" in data.rstrip(b"\r\n") and b"\n" not in data.rstrip(b"\r\n"):
        return "lines end in carriage returns alone, of which TLS makes one: convert it, `tr '\\r' '\\n' < FILE > NEW`"
    begun = b""
    for line in (one.rstrip() for one in data.split(b"\n")):
        if begun:
            if line == begun.replace(b"BEGIN", b"END", 1):
                begun = b""
            elif b"-----" in line:
                return f"{begun.decode()} has no end on a line of its own: the file is cut off, or its lines are joined"
        elif b"-----BEGIN " in line:
            if not _BEGIN.fullmatch(line):
                return "something stands beside -----BEGIN on its line: give that a line of its own, without blanks"
            begun = line
    return f"{begun.decode()} has no end: the file is cut off" if begun else ""
