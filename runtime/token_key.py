# SPDX-License-Identifier: GPL-3.0-or-later
"""Ed25519 keys in a PKCS#11 token (an HSM, a smart card), named by a URI as RFC 7512 has it.

    pkcs11:token=ragseal;object=provider?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/run/pin

``token`` or ``serial`` says which token, ``object`` or ``id`` which key of it, ``module-path`` the vendor's library.
The PIN is in the file that ``pin-source`` names, or in the environment (RAGSEAL_PKCS11_PIN), never in the URI: a URI
stands in a key file, which is copied with the folder.  The token signs (CKM_EDDSA); the key never leaves it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ragseal.kernel.errors import ConfigurationError, UnavailableError
from ragseal.runtime import texts

SCHEME = "pkcs11:"
PIN_VARIABLE = "RAGSEAL_PKCS11_PIN"
FORM = f"{SCHEME}token=TOKEN;object=KEY?module-path=LIBRARY&pin-source=file:FILE"
_PATH, _QUERY = {"token", "serial", "object", "id"}, {"module-path", "pin-source"}
_KEY_BYTES = 32

T = TypeVar("T")


@dataclass(frozen=True)
class TokenKey:
    """A private key that a token has.  As :class:`ragseal.kernel.signature.SigningKey`."""

    uri: str
    _token: _Token = field(repr=False, compare=False)
    _selector: dict[str, Any] = field(repr=False, compare=False)
    _public: bytes = field(repr=False, compare=False)

    def sign(self, data: bytes, /) -> bytes:
        """The token's signature, which is checked before anybody sees it.

        Raises:
            ConfigurationError: the token is away, refuses, or signs with another key.
        """
        signature = self._token.do(self.uri, lambda session: _sign(session, self._selector, data))
        try:
            self.public_key().verify(signature, data)
        except InvalidSignature:
            raise ConfigurationError(
                f"{self.uri}: the token's signature does not hold: is it another key now?"
            ) from None
        return signature

    def public_key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self._public)


class _Token:
    """One token, logged in once for all of its keys.  Whoever uses any token waits for the others."""

    mutex: ClassVar[threading.Lock] = threading.Lock()
    open: ClassVar[list[_Token]] = []  #: those that have a session

    def __init__(self, module: str, wanted: dict[str, Any], pin: Callable[[], str]) -> None:
        self._module, self._wanted, self._pin = module, wanted, pin
        self._session: Any = None
        self._refused: str | None = None  #: a PIN that the token did not take

    def do(self, uri: str, work: Callable[[Any], T]) -> T:
        """What ``work`` makes with a session; tried once more in a new one, since a token may have been away.

        Raises:
            ConfigurationError: it is not there, or refuses.
        """
        import pkcs11

        with self.mutex:
            for again in (True, False):
                try:
                    return work(self._session or self._opened(pkcs11))
                except (pkcs11.NoSuchKey, pkcs11.MultipleObjectsReturned) as error:
                    raise ConfigurationError(
                        f"{uri}: not one Ed25519 key of that name with both halves is in the token: {_said(error)}"
                    ) from None
                except (pkcs11.PKCS11Error, RuntimeError, OSError) as error:
                    if not again or self._refused is not None:
                        raise ConfigurationError(f"{uri}: {_said(error)}") from None
                    self._start_anew(pkcs11)
            raise AssertionError

    def _opened(self, pkcs11: Any) -> Any:
        """A new session.  Tokens lock themselves after a few wrong PINs, so one that was refused is not tried again."""
        pin = self._pin()
        if pin == self._refused:
            raise ConfigurationError("the token refused this PIN before: it is not tried again until it is another one")
        token, self._refused = self._library(pkcs11).get_token(**self._wanted), None
        try:
            self._session = token.open(user_pin=pin)
        except (pkcs11.PinIncorrect, pkcs11.PinLenRange, pkcs11.PinInvalid, pkcs11.PinLocked):
            self._refused = pin
            raise
        self.open.append(self)
        return self._session

    def _start_anew(self, pkcs11: Any) -> None:
        """A library sees a token that was plugged in since only when it is started again, which ends every session."""
        for one in [one for one in self.open if one._module == self._module]:
            one._session = None
            self.open.remove(one)
        self._library(pkcs11).reinitialize()

    def _library(self, pkcs11: Any) -> Any:
        try:
            return pkcs11.lib(self._module)
        except (pkcs11.PKCS11Error, RuntimeError, OSError) as error:
            raise UnavailableError(f"the PKCS#11 library {self._module} cannot be used: {_said(error)}") from None


def load_token_key(uri: str) -> TokenKey:
    """The key that a URI names.

    Raises:
        ConfigurationError: not such a URI, no driver, library, token, PIN or key, or a key of another kind.
    """
    module, wanted, selector, source = _parse(uri)
    if importlib.util.find_spec("pkcs11") is None:
        raise UnavailableError("a key in a token takes the package python-pkcs11: pip install 'ragseal[pkcs11]'")
    token = _token(module, tuple(sorted(wanted.items())), source)
    public = token.do(uri, lambda session: _public_bytes(session, selector))
    made = TokenKey(uri, token, selector, public)
    made.sign(b"ragseal: is this key there?")
    return made


@lru_cache(maxsize=16)
def _token(module: str, wanted: tuple[tuple[str, Any], ...], source: str) -> _Token:
    return _Token(module, dict(wanted), lambda: _pin(source))


def _parse(uri: str) -> tuple[str, dict[str, Any], dict[str, Any], str]:
    """Library, token, key and source of the PIN.  ConfigurationError: not a URI of that form."""
    path, _, query = uri.removeprefix(SCHEME).partition("?")
    said = _attributes(path, ";", _PATH) if uri.startswith(SCHEME) else {}
    asked = _attributes(query, "&", _QUERY)
    if not ({"token", "serial"} & set(said) and {"object", "id"} & set(said) and "module-path" in asked):
        raise ConfigurationError(f"a key in a token is named {FORM}, with serial= for token= and id= for object= too")
    wanted: dict[str, Any] = {}
    selector: dict[str, Any] = {}
    if "token" in said:
        wanted["token_label"] = said["token"]
    if "serial" in said:
        wanted["token_serial"] = said["serial"].encode()
    if "object" in said:
        selector["label"] = said["object"]
    if "id" in said:
        selector["id"] = said["id"].encode("latin-1")
    return asked["module-path"], wanted, selector, asked.get("pin-source", "")


def _attributes(text: str, separator: str, known: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, text.split(separator)):
        name, equals, value = part.partition("=")
        if name == "pin-value":
            raise ConfigurationError("a PIN does not stand in a URI: name its file by pin-source=file:FILE")
        if not equals or name not in known or name in found:
            raise ConfigurationError(f"{name!r} is not an attribute of a key's URI here: it has the form {FORM}")
        found[name] = unquote(value, "latin-1" if name == "id" else "utf-8")
    return found


def _pin(source: str) -> str:
    """From the file, else from the environment.  ConfigurationError: neither has one."""
    if source:
        path = Path(re.sub("^file:(//)?", "", source))
        return texts.read_line(path, f"the file of the PIN, {path}")  # what is wrong with it must cost no try
    found = os.environ.get(PIN_VARIABLE)
    if not found:
        raise ConfigurationError(f"the token wants a PIN: put it into {PIN_VARIABLE}, or name its file by pin-source=")
    return texts.line_of(found, f"the PIN in {PIN_VARIABLE}")


def _sign(session: Any, selector: dict[str, Any], data: bytes) -> bytes:
    from pkcs11 import KeyType, Mechanism, ObjectClass

    key = session.get_key(object_class=ObjectClass.PRIVATE_KEY, key_type=KeyType.EC_EDWARDS, **selector)
    return bytes(key.sign(data, mechanism=Mechanism.EDDSA))


def _public_bytes(session: Any, selector: dict[str, Any]) -> bytes:
    """The public half: an EC_POINT of 32 bytes, in an OCTET STRING as PKCS#11 2.40 wraps it, or bare as 3.0 may."""
    from pkcs11 import Attribute, KeyType, ObjectClass

    key = session.get_key(object_class=ObjectClass.PUBLIC_KEY, key_type=KeyType.EC_EDWARDS, **selector)
    point = bytes(key[Attribute.EC_POINT])
    if len(point) == _KEY_BYTES + 2 and point[:2] == bytes((4, _KEY_BYTES)):
        point = point[2:]
    if len(point) != _KEY_BYTES:
        raise ConfigurationError("the token holds a different kind of key: an Ed25519 key is needed")
    return point


def _said(error: Exception) -> str:
    """A driver's words, or the name of what it raises where it has none."""
    return str(error) or re.sub(r"(?<!^)(?=[A-Z])", " ", type(error).__name__).lower()
