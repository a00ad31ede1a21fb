# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificate files: what a TLS stack cannot use is refused at the start, by gRPC's and the HTTP edges alike.

Each kind of key is shown in a real handshake of both stacks: what the check takes works, what it refuses fails in one.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID as _OID
from cryptography.x509.oid import NameOID

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime import health, rpc
from ragseal.runtime.edges import pem
from ragseal.runtime.http_server import server_context
from ragseal.runtime.tls import ServerTls, channel_credentials, server_credentials
from tests.runtime.certificates import Authority

USABLE: dict[str, Callable[[], Any]] = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "RSA 2048": lambda: rsa.generate_private_key(65537, 2048),
    "RSA 3072": lambda: rsa.generate_private_key(65537, 3072),
}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "P-224": (lambda: ec.generate_private_key(ec.SECP224R1()), "curve secp224r1"),
    "P-521": (lambda: ec.generate_private_key(ec.SECP521R1()), "curve secp521r1"),
    "secp256k1": (lambda: ec.generate_private_key(ec.SECP256K1()), "curve secp256k1"),
    "brainpool": (lambda: ec.generate_private_key(ec.BrainpoolP256R1()), "curve brainpoolP256r1"),
    "Ed25519": (Ed25519PrivateKey.generate, "Ed25519"),
    "Ed448": (Ed448PrivateKey.generate, "Ed448"),
    "DSA": (lambda: dsa.generate_private_key(2048), "DSA"),
    "RSA 1024": (lambda: rsa.generate_private_key(65537, 1024), "1024 bits, which is too short"),
}


async def by_grpc(certificate: Path, key: Path, authority: Path) -> bool:
    """Whether gRPC's stack shows it, without any check of ours."""
    server = rpc.new_server()
    health.Health("x").mount(server)
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    try:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    except RuntimeError:
        return False
    await server.start()
    try:
        trusted = grpc.ssl_channel_credentials(authority.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", trusted) as channel:
            await channel.unary_unary("/x/Y")(b"", timeout=10)
    except grpc.aio.AioRpcError as error:
        return error.code() == grpc.StatusCode.UNIMPLEMENTED  # it came through
    finally:
        await server.stop(0)
    return True


def by_http(certificate: Path, key: Path, authority: Path) -> bool:
    """The same of Python's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError:
        return False
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with context.wrap_socket(connection, server_side=True) as wrapped:
                    wrapped.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        trusted = ssl.create_default_context(cafile=str(authority))
        try:
            with socket.create_connection(listener.getsockname(), 10) as raw:
                trusted.wrap_socket(raw, server_hostname="127.0.0.1").close()
        except ssl.SSLError:
            return False
        finally:
            thread.join(20)
    return True


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", USABLE)
async def test_what_the_check_takes_works_with_both_stacks(kind: str, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    certificate, key = ours.certificate("server", key=USABLE[kind]())
    server_credentials(certificate, key, ours.path)
    channel_credentials(ours.path, certificate, key)
    assert server_context(ServerTls(certificate, key)) is not None
    assert await by_grpc(certificate, key, ours.path)
    assert by_http(certificate, key, ours.path)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", REFUSED)
async def test_a_key_that_a_stack_cannot_use_is_refused_at_the_start(kind: str, tmp_path: Path) -> None:
    make, words = REFUSED[kind]
    ours = Authority(tmp_path, "ours")
    certificate, key = ours.certificate("server", key=make())
    for start in (
        lambda: server_credentials(certificate, key),
        lambda: channel_credentials(ours.path, certificate, key),
        lambda: server_context(ServerTls(certificate, key)),
    ):
        with pytest.raises(ConfigurationError, match=f"{key} is .*{words}.*: make one of P-256, P-384, or RSA"):
            start()
    assert not (await by_grpc(certificate, key, ours.path) and by_http(certificate, key, ours.path))


@pytest.mark.parametrize("kind", ["P-521", "Ed25519", "P-384", "RSA 2048"])
def test_an_authority_may_have_keys_that_only_check(kind: str, tmp_path: Path) -> None:
    make = USABLE[kind] if kind in USABLE else REFUSED[kind][0]
    ours = Authority(tmp_path, "ours", make())
    channel_credentials(ours.path)
    server_credentials(*ours.certificate("server"), ours.path)


@pytest.mark.parametrize("kind", ["secp256k1", "Ed448", "RSA 1024", "brainpool", "P-224"])
def test_an_authority_that_no_stack_can_check_is_refused(kind: str, tmp_path: Path) -> None:
    make, words = REFUSED[kind]
    ours = Authority(tmp_path, "ours", make())
    with pytest.raises(ConfigurationError, match=f"{ours.path} has .*{words}.*: make one of"):
        channel_credentials(ours.path)
    with pytest.raises(ConfigurationError, match=words):
        server_credentials(*Authority(tmp_path, "other").certificate("server"), ours.path)


def test_one_good_authority_among_others_is_enough(tmp_path: Path) -> None:
    good, old = Authority(tmp_path, "good"), Authority(tmp_path, "old", Ed448PrivateKey.generate())
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(old.path.read_bytes() + good.path.read_bytes())
    channel_credentials(bundle)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
def test_a_byte_order_mark_is_named(mark: bytes, tmp_path: Path) -> None:
    """gRPC finds nothing behind it, and used to be told of as a taken port."""
    ours = Authority(tmp_path, "ours")
    certificate, key = ours.certificate("server")
    for marked in (certificate, key, ours.path):
        before = marked.read_bytes()
        marked.write_bytes(mark + before)
        with pytest.raises(ConfigurationError, match=f"{marked} begins with a byte order mark"):
            server_credentials(certificate, key, ours.path)
        marked.write_bytes(b"  " + before)
        with pytest.raises(ConfigurationError, match="something stands beside -----BEGIN"):
            server_credentials(certificate, key, ours.path)
        marked.write_bytes(b"Bag Attributes\r\n" + before.replace(b"\n", b"\r\n"))
        server_credentials(certificate, key, ours.path)
        marked.write_bytes(before)


TORN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "carriage returns": (lambda good: good.replace(b"\n", b"\r"), r"carriage returns alone.*tr '\\r' '\\n'"),
    "one line": (lambda good: good.replace(b"\n", b" "), "beside -----BEGIN"),
    "escaped": (lambda good: good.replace(b"\n", rb"\n"), "beside -----BEGIN"),
    "cut off": (lambda good: good[:150], "has no end: the file is cut off"),
    "one more, cut off": (lambda good: good + good[:150], "has no end: the file is cut off"),
    "one more before it, cut off": (lambda good: good[:150] + b"\n" + good, "has no end on a line of its own"),
    "a zero byte before it": (lambda good: b"\0\n" + good, "a zero byte"),
    "a mark in a joined file": (lambda good: good + b"\xef\xbb\xbf" + good, "beside -----BEGIN"),
}


@pytest.mark.parametrize("kind", TORN)
def test_what_a_stack_would_not_find_is_refused(kind: str, tmp_path: Path) -> None:
    """Of each kind cryptography, gRPC or Python takes the file, and another one takes nothing of it, or a part."""
    tear, words = TORN[kind]
    ours = Authority(tmp_path, "ours")
    certificate, key = ours.certificate("server")
    for file in (certificate, key, ours.path):
        before = file.read_bytes()
        file.write_bytes(tear(before))
        with pytest.raises(ConfigurationError, match=words):
            server_credentials(certificate, key, ours.path)
        file.write_bytes(before)
    server_credentials(certificate, key, ours.path)


@pytest.mark.parametrize("blanks", [b"  \n", b"\r\n"], ids=["blanks", "Windows"])
def test_line_ends_and_headers_that_both_stacks_read(blanks: bytes, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    certificate, key = ours.certificate("server")
    for file in (certificate, key, ours.path):
        file.write_bytes("Zertifikat für uns\n".encode() + file.read_bytes().replace(b"\n", blanks))
    server_credentials(certificate, key, ours.path)
    ssl.create_default_context(cafile=ours.path)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)


def test_nobody_waits_for_a_pipe_or_reads_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(ConfigurationError, match=r"is a pipe or a device: .*name a file"):
            channel_credentials(path)


def test_what_no_authority_issued_is_refused(tmp_path: Path) -> None:
    """A certificate for servers stands where an authority's belongs; every caller would refuse it."""
    ours = Authority(tmp_path, "ours")
    between, key = ours.certificate("between")
    below = Authority.__new__(Authority)
    below.folder, below.name = tmp_path, "between"
    below.key = load_pem_private_key(key.read_bytes(), None)
    certificate, own = below.certificate("server")
    certificate.write_bytes(certificate.read_bytes() + between.read_bytes())
    with pytest.raises(ConfigurationError, match=r"certificate 2 in .* is not an authority's"):
        server_credentials(certificate, own)


def test_a_certificate_that_does_not_say_that_it_is_an_authority_s_is_none(tmp_path: Path) -> None:
    """Only one of version 1 could not say it."""
    ours = Authority(tmp_path, "ours")
    named, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "between")]), datetime.now(UTC)
    key = USABLE["P-256"]()
    silent = x509.CertificateBuilder(
        x509.load_pem_x509_certificate(ours.path.read_bytes()).subject, named, key.public_key(), 7,
        now - timedelta(hours=1), now + timedelta(hours=1),
    ).sign(ours.key, SHA256())  # fmt: skip
    below = Authority.__new__(Authority)
    below.folder, below.name, below.key = tmp_path, "between", key
    certificate, own = below.certificate("server")
    certificate.write_bytes(certificate.read_bytes() + silent.public_bytes(Encoding.PEM))
    with pytest.raises(ConfigurationError, match=r"certificate 2 in .* is not an authority's"):
        server_credentials(certificate, own)


def test_a_certificate_without_alternative_names_is_no_server_s(tmp_path: Path) -> None:
    """gRPC would look at the subject and Python at nothing: they would not agree on who it is."""
    ours = Authority(tmp_path, "ours")
    files = ours.certificate("server", named=False)
    with pytest.raises(ConfigurationError, match="has no alternative name"):
        server_credentials(*files)
    channel_credentials(ours.path, *files)  # a caller needs none


def test_a_chain_is_in_order(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    certificate, key = ours.certificate("server")
    own, above, foreign = certificate.read_bytes(), ours.path.read_bytes(), theirs.path.read_bytes()
    certificate.write_bytes(own + above)
    server_credentials(certificate, key)
    certificate.write_bytes(above + own)
    with pytest.raises(ConfigurationError, match=r"is the key of certificate 2 in .*: put that one first"):
        server_credentials(certificate, key)
    certificate.write_bytes(own + foreign)
    with pytest.raises(ConfigurationError, match=r"certificate 2 in .* did not issue certificate 1"):
        server_credentials(certificate, key)
    certificate.write_bytes(foreign)
    with pytest.raises(ConfigurationError, match="is not the key of the certificate"):
        server_credentials(certificate, key)
    weak = Authority(tmp_path, "weak", Ed448PrivateKey.generate())
    certificate, key = weak.certificate("below-it")
    certificate.write_bytes(certificate.read_bytes() + weak.path.read_bytes())
    with pytest.raises(ConfigurationError, match=r"certificate 2 in .* has a key of kind Ed448"):
        server_credentials(certificate, key)


def usage(signs: bool) -> x509.KeyUsage:
    """Of a key that may encipher, and sign or not."""
    return x509.KeyUsage(
        digital_signature=signs, key_encipherment=True, content_commitment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def test_purposes_of_a_certificate(tmp_path: Path) -> None:
    """The other side's stack looks at them, and its error would say little."""
    ours = Authority(tmp_path, "ours")
    for_servers, for_callers = (x509.ExtendedKeyUsage([one]) for one in (_OID.SERVER_AUTH, _OID.CLIENT_AUTH))
    server = ours.certificate("server", extensions=[for_servers, usage(signs=True)])
    caller = ours.certificate("caller", extensions=[for_callers])
    server_credentials(*server)
    channel_credentials(ours.path, *caller)
    with pytest.raises(ConfigurationError, match=r"for other purposes than servers \(serverAuth\)"):
        server_credentials(*caller)
    with pytest.raises(ConfigurationError, match=r"for other purposes than callers \(clientAuth\)"):
        channel_credentials(ours.path, *server)
    with pytest.raises(ConfigurationError, match="may not sign"):
        server_credentials(*ours.certificate("mute", extensions=[usage(signs=False)]))
    both = ours.certificate("both", extensions=[x509.ExtendedKeyUsage([_OID.ANY_EXTENDED_KEY_USAGE])])
    server_credentials(*both)
    channel_credentials(ours.path, *both)


@pytest.mark.parametrize(("bits", "said"), [(2047, "too short"), (2048, ""), (8192, ""), (8193, "too long")])
def test_the_shortest_and_the_longest_rsa_key(bits: int, said: str) -> None:
    public = rsa.RSAPublicNumbers(65537, (1 << bits) - 1).public_key()
    for own in (True, False):
        assert said in pem.key_trouble(public, own)
        assert bool(said) == bool(pem.key_trouble(public, own))


def test_a_certificate_of_its_own_may_stand_there_twice(tmp_path: Path) -> None:
    """A caller that pins it needs no authority above it."""
    itself = Authority(tmp_path, "itself")
    certificate, key = itself.certificate("itself", key=itself.key)
    certificate.write_bytes(certificate.read_bytes() * 2)
    server_credentials(certificate, key)


def test_kinds_that_only_openssl_makes(tmp_path: Path) -> None:
    """A key for RSASSA-PSS alone, and a signature with SHA-1."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    request = ["openssl", "req", "-x509", "-nodes", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
    for name, options, words in (
        ("pss", ["-newkey", "rsa-pss", "-pkeyopt", "rsa_keygen_bits:2048"], "RSASSA-PSS alone"),
        ("old", ["-newkey", "rsa:2048", "-sha1"], "is signed with SHA1"),
    ):
        files = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        made = [*request, *options, "-out", str(files[0]), "-keyout", str(files[1])]
        subprocess.run(made, check=True, capture_output=True)
        with pytest.raises(ConfigurationError, match=words):
            server_credentials(*files)


def test_times_and_passwords(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    with pytest.raises(ConfigurationError, match=r"expired at .*the clock here says"):
        server_credentials(*ours.certificate("old", expires=-60))
    with pytest.raises(ConfigurationError, match=r"is valid from .* see which clock is wrong"):
        server_credentials(*ours.certificate("new", begins=3000))
    certificate, key = ours.certificate("locked", key=(made := USABLE["P-256"]()))
    key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    with pytest.raises(ConfigurationError, match="locked with a password"):
        server_credentials(certificate, key)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*No such file or directory \(of its path only"):
        channel_credentials(tmp_path / "a" / "b.pem")
    with pytest.raises(ConfigurationError, match="Is a directory"):
        channel_credentials(tmp_path)
    (tmp_path / "large.pem").write_bytes(b"-----BEGIN " + bytes(pem.MAX_PEM_BYTES))
    with pytest.raises(ConfigurationError, match="not a PEM file"):
        channel_credentials(tmp_path / "large.pem")
