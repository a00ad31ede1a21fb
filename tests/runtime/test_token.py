# SPDX-License-Identifier: GPL-3.0-or-later
"""Signing keys in a PKCS#11 token, a real one: SoftHSM (Debian's package softhsm2).  SPEC A.1.4, G.16."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.kernel import signature
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.prover.__main__ import main
from ragseal.prover.storage.state import State
from ragseal.runtime import token_key
from ragseal.runtime.keyfile import load_key, save_key
from ragseal.runtime.token_key import PIN_VARIABLE, TokenKey, load_token_key
from tests.classes import TINY
from tests.simulator import provider as scene

pkcs11 = pytest.importorskip("pkcs11", reason="python-pkcs11 is not installed: pip install 'ragseal[pkcs11]'")
PIN = "4711-secret"
LIBRARIES = [
    path
    for path in (
        "/usr/lib/softhsm/libsofthsm2.so",
        "/usr/lib64/pkcs11/libsofthsm2.so",
        "/usr/local/lib/softhsm/libsofthsm2.so",
    )
    if Path(path).exists()
]

pytestmark = pytest.mark.skipif(
    not LIBRARIES or shutil.which("softhsm2-util") is None, reason="SoftHSM is not there: apt-get install softhsm2"
)


def uri(name: str, pin: Path | None = None, token: str = "ragseal") -> str:
    source = "" if pin is None else f"&pin-source=file:{pin}"
    return f"pkcs11:token={token};object={name}?module-path={LIBRARIES[0]}{source}"


@pytest.fixture(scope="module")
def hsm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A token with the Ed25519 keys "provider" and "log", and an RSA key; the file with its PIN."""
    folder = tmp_path_factory.mktemp("hsm")
    (folder / "tokens").mkdir()
    (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder / 'tokens'}\nlog.level = ERROR\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTHSM2_CONF", str(folder / "softhsm2.conf"))
        made = ["softhsm2-util", "--init-token", "--free", "--label", "ragseal", "--pin", PIN, "--so-pin", "so-secret"]
        subprocess.run(made, check=True, capture_output=True)
        library: Any = pkcs11.lib(LIBRARIES[0])
        library.reinitialize()
        with library.get_token(token_label="ragseal").open(user_pin=PIN, rw=True) as session:
            for name in ("provider", "log", "log-2"):
                parameters = {pkcs11.Attribute.EC_PARAMS: b"\x13\x0cedwards25519"}
                domain = session.create_domain_parameters(pkcs11.KeyType.EC_EDWARDS, parameters, local=True)
                domain.generate_keypair(
                    mechanism=pkcs11.Mechanism.EC_EDWARDS_KEY_PAIR_GEN, store=True, label=name, id=name.encode()
                )
            session.generate_keypair(pkcs11.KeyType.RSA, 2048, store=True, label="rsa")
        pin = folder / "pin"
        pin.write_text(PIN + "\n")
        yield pin
        token_key._token.cache_clear()
        token_key._Token.open.clear()


@pytest.fixture
def with_pin(hsm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(PIN_VARIABLE, PIN)
    return hsm


def test_a_token_signs_and_a_file_names_its_key(hsm: Path, tmp_path: Path) -> None:
    key = load_token_key(uri("provider", hsm))
    made = signature.sign(key, "manifest", b"body")
    signature.verify(signature.public_bytes(key), "manifest", b"body", made)
    assert signature.sign(key, "manifest", b"body") == made, "the note of a size is the same bytes whenever it is made"
    file = tmp_path / "provider.pem"
    save_key(file, key)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == uri("provider", hsm) + "\n"
    again = load_key(file)
    assert isinstance(again, TokenKey)
    assert (again.uri, again.public_key()) == (key.uri, key.public_key())
    by_id = load_token_key(f"pkcs11:token=ragseal;id=provider?module-path={LIBRARIES[0]}&pin-source={hsm}")
    assert by_id.public_key() == key.public_key() != load_token_key(uri("log", hsm)).public_key()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pkcs11:object=provider?module-path=x", "a key in a token is named pkcs11:token="),
        ("pkcs11:token=a;object=b", "a key in a token is named"),
        ("pkcs11:token=a?module-path=x", "a key in a token is named"),
        ("token=a;object=b?module-path=x", "a key in a token is named"),
        ("pkcs11:token=a;object=b?module-path=x&pin-value=1", "a PIN does not stand in a URI"),
        ("pkcs11:token=a;object=b;slot-id=1?module-path=x", "'slot-id' is not an attribute"),
        ("pkcs11:token=a;token=c;object=b?module-path=x", "'token' is not an attribute"),
        ("pkcs11:token=a;object=b?module-path=/no/such.so", "the PKCS#11 library /no/such.so cannot be used"),
        ("TOKEN=other", "token"),
        ("KEY=nobody", "not one Ed25519 key of that name"),
        ("KEY=rsa", "not one Ed25519 key of that name"),
    ],
)
def test_a_uri_that_names_no_such_key_is_refused(with_pin: Path, text: str, said: str) -> None:
    if text.startswith("TOKEN="):
        text = uri("provider", token=text[6:])
    if text.startswith("KEY="):
        text = uri(text[4:])
    with pytest.raises(ConfigurationError, match=said):
        load_token_key(text)


def test_without_its_pin_a_token_signs_nothing(hsm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token_key._token.cache_clear()
    token_key._Token.open.clear()
    pkcs11.lib(LIBRARIES[0]).reinitialize()
    monkeypatch.delenv(PIN_VARIABLE, raising=False)
    with pytest.raises(ConfigurationError, match=f"put it into {PIN_VARIABLE}"):
        load_token_key(uri("provider"))
    with pytest.raises(ConfigurationError, match="cannot read the file of the PIN"):
        load_token_key(uri("provider", tmp_path / "none"))
    wrong = tmp_path / "wrong"
    wrong.write_text("0000")
    with pytest.raises(ConfigurationError, match="pin incorrect") as refused:
        load_token_key(uri("provider", wrong))
    assert "0000" not in str(refused.value)
    assert load_token_key(uri("provider", hsm)).uri


class Counting:
    """The library, and how often a session was asked for."""

    def __init__(self, real: Any) -> None:
        self.real, self.asked = real, 0

    def get_token(self, **wanted: Any) -> Counting:
        self.token = self.real.get_token(**wanted)
        return self

    def open(self, **given: Any) -> Any:
        self.asked += 1
        return self.token.open(**given)

    def reinitialize(self) -> None:
        self.real.reinitialize()


def test_a_wrong_pin_is_tried_once(hsm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens lock themselves after three wrong ones or so, and a provider asks for a signature whenever it answers."""
    token_key._token.cache_clear()
    pkcs11.lib(LIBRARIES[0]).reinitialize()
    library = Counting(pkcs11.lib(LIBRARIES[0]))
    monkeypatch.setattr(token_key._Token, "_library", lambda *_: library)
    pin = tmp_path / "pin"
    pin.write_text("0000")
    for said in ("pin incorrect", "not tried again", "not tried again"):
        with pytest.raises(ConfigurationError, match=said):
            load_token_key(uri("provider", pin))
    assert library.asked == 1
    pin.write_text(PIN)
    assert load_token_key(uri("provider", pin)).sign(b"body"), "another PIN is tried"
    pkcs11.lib(LIBRARIES[0]).reinitialize()  # every session has ended
    pin.write_text("1111")
    key = load_token_key(uri("log", hsm))
    for said in ("pin incorrect", "not tried again"):
        with pytest.raises(ConfigurationError, match=said):
            load_token_key(uri("provider", pin))
    assert key.sign(b"body"), "and the file of another key's PIN is another one's"


def test_many_threads_sign_at_one_time(hsm: Path) -> None:
    keys = [load_token_key(uri(name, hsm)) for name in ("provider", "log")]
    wrong: list[object] = []

    def sign(at: int) -> None:
        key, body = keys[at % 2], b"body %d" % at
        try:
            key.public_key().verify(key.sign(body), body)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=sign, args=(at,)) for at in range(40)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert not wrong


def test_a_token_that_was_away_signs_again(hsm: Path) -> None:
    key, tokens = load_token_key(uri("provider", hsm)), hsm.parent / "tokens"
    before = key.sign(b"body")
    pkcs11.lib(LIBRARIES[0]).reinitialize()  # every session has ended
    assert key.sign(b"body") == before
    os.rename(tokens, hsm.parent / "unplugged")
    tokens.mkdir()
    pkcs11.lib(LIBRARIES[0]).reinitialize()
    try:
        with pytest.raises(ConfigurationError, match=r"^pkcs11:token=ragseal;object=provider"):
            key.sign(b"body")
    finally:
        tokens.rmdir()
        os.rename(hsm.parent / "unplugged", tokens)
    assert key.sign(b"body") == before


def test_a_token_that_signs_with_another_key_is_noticed(hsm: Path) -> None:
    key, other = (load_token_key(uri(name, hsm)) for name in ("provider", "log"))
    exchanged = TokenKey(key.uri, key._token, other._selector, key._public)
    with pytest.raises(ConfigurationError, match="is it another key now"):
        exchanged.sign(b"body")


def test_a_provider_is_made_with_keys_of_a_token_and_its_log_turns_to_another(hsm: Path, tmp_path: Path) -> None:
    state = tmp_path / "provider"

    def run(*words: str) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(state)])
        assert done.exit_code == 0, done.output
        return done.output

    tokens = ("--provider-token", uri("provider", hsm), "--log-token", uri("log", hsm))
    said = run("init", "--origin", "example.org/rag", "--class", TINY.name, *tokens)
    assert signature.public_bytes(load_token_key(uri("provider", hsm))).hex() in said
    run("log", "rotate", "--overlap", "0", "--token", uri("log-2", hsm))
    with State(state) as opened, opened.open_ledger() as ledger:
        newest = opened.log_signer.verifier.public_key
        assert newest == signature.public_bytes(load_token_key(uri("log-2", hsm)))
        assert open_checkpoint(ledger.checkpoint(), ledger.verifier).checkpoint.size == 1
    held = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
    assert PIN.encode() not in held
    assert b"PRIVATE KEY" not in held


@pytest.mark.slow
def test_the_providers_key_signs_once_a_window_and_the_logs_key_once_a_group(
    hsm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many questions there are; and a token that is away holds up no answer but by the log's key."""
    asked: list[str] = []
    sign = TokenKey.sign

    def counted(self: TokenKey, data: bytes, /) -> bytes:
        asked.append(self.uri)
        return sign(self, data)

    provider_uri, log_uri = uri("provider", hsm), uri("log", hsm)
    state = scene.new_state(tmp_path / "provider", signers=(load_token_key(provider_uri), load_token_key(log_uri)))
    monkeypatch.setattr(TokenKey, "sign", counted)

    async def run() -> None:
        provider = scene.open_provider(tmp_path / "provider", state=state)
        asked.clear()
        provider.commit(scene.make_policy(), "w1")
        assert asked.count(provider_uri) == 1
        async with scene.serving_on(provider) as serving:
            await scene.open_window(serving)
            before = asked.count(log_uri)
            askers = [scene.Asker(name, serving) for name in ("alice", "bob", "carol")]
            for turn in range(3):
                await asyncio.gather(*(one.ask(f"report about topic {turn}") for one in askers))
            assert asked.count(provider_uri) == 1
            assert 3 <= asked.count(log_uri) - before <= 18, "a checkpoint a group, and it is checked once"

    asyncio.run(run())
