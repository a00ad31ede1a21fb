# SPDX-License-Identifier: GPL-3.0-or-later
"""Which account asks whom, in plain values: what a pipeline's file may say, and what a Client is made from.

An account's folder is opened at the first question and once in a process, whatever many retrievers stand on it: they
ask one after another, as the account's receipts want it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ragseal.client.client import Client
from ragseal.client.retries import Retries
from ragseal.client.settings import Calls, Trust
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.tls import ClientTls


@dataclass(frozen=True, slots=True)
class Account:
    """As the options of ``ragseal-client ask``.  Holds paths and public keys, and of no private key more than its path:
    it may be written into a pipeline's file."""

    folder: str  #: as ``ragseal-client keygen`` made it; the account's key stays there
    provider: str  #: host:port
    log_key: str | None = None  #: the log's verifier key; pinned in the folder at first use
    embedder: str | None = "minilm"  #: None: the provider embeds, documents have no scores, records say unchecked
    ledger: str | None = None  #: host:port; by default the provider's
    provider_key: str | None = None  #: 64 hexadecimal digits
    auditor_key: str | None = None  #: 64 hexadecimal digits; only windows that name this auditor are used
    witness_policy: str | None = None  #: a file; only windows are used that a quorum of its witnesses was shown
    tls_ca: str | None = None  #: PEM files, as the options --tls-ca, --tls-cert and --tls-key
    tls_cert: str | None = None
    tls_key: str | None = None
    plain: bool = False  #: in the clear, wherever the provider is
    timeout: float = 60.0  #: seconds for a call
    attempts: int = 1  #: calls in all, where the provider is out of reach; the same signed bytes go out again

    def __post_init__(self) -> None:
        """Raises ConfigurationError: a value of another type, a key that is none, or no attempts."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Path):
                object.__setattr__(self, field.name, str(value))
            elif not _fits(value, str(field.type)):
                raise ConfigurationError(f"an account's {field.name} is {field.type}, not {value!r}")
        for name in ("folder", "provider"):
            if not getattr(self, name):
                raise ConfigurationError(f"an account needs its {name}")
        _key("provider_key", self.provider_key)
        _key("auditor_key", self.auditor_key)
        self.retries()

    @classmethod
    def of(cls, given: object) -> Account:
        """From what :meth:`to_dict` gave.

        Raises:
            ConfigurationError: no mapping, or with other members; also as the class itself.
        """
        if isinstance(given, Account):
            return given
        if not isinstance(given, Mapping):
            raise ConfigurationError(
                f"expected an Account, a Client, an AsyncClient or a Pool, not {type(given).__name__}"
            )
        known = [field.name for field in fields(cls)]
        if strange := [str(name)[:40] for name in given if name not in known]:
            raise ConfigurationError(f"an account has no {strange[0]!r}: known are {', '.join(known)}")
        if missing := [name for name in ("folder", "provider") if name not in given]:
            raise ConfigurationError(f"an account needs its {missing[0]}")
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """What differs from the defaults, in plain values."""
        return {f.name: value for f in fields(self) if (value := asdict(self)[f.name]) != f.default}

    def retries(self) -> Retries:
        return Retries(attempts=self.attempts)

    def client(self) -> Client:
        """A client of its own; of a folder there can be one at a time.  Raises as Client."""
        return Client(
            self.provider,
            self.folder,
            self.log_key,
            self.embedder,
            ledger=self.ledger,
            trust=Trust(
                provider_key=_key("provider_key", self.provider_key),
                auditor_key=_key("auditor_key", self.auditor_key),
                witness_policy=_path(self.witness_policy),
            ),
            calls=Calls(
                ClientTls(_path(self.tls_ca), _path(self.tls_cert), _path(self.tls_key), self.plain), self.timeout
            ),
        )


def _fits(value: object, kind: str) -> bool:
    """Whether a value is of a field's type, as it is written above."""
    if kind == "bool" or isinstance(value, bool):
        return kind == "bool" and isinstance(value, bool)
    if kind == "float":
        return isinstance(value, int | float) and 0 < value < float("inf")
    if kind == "int":
        return isinstance(value, int)
    return isinstance(value, str) or (value is None and kind.endswith("None"))


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _key(name: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ConfigurationError(f"an account's {name} has 64 hexadecimal digits")
    return key


@dataclass(frozen=True, slots=True)
class _Open:
    account: Account
    client: Client


_opened: dict[Path, _Open] = {}  #: by folder
_opening = threading.Lock()


def standing(account: Account) -> Client | None:
    """The open client of an account; None where there is none yet.  Never waits."""
    found = _opened.get(Path(account.folder).absolute())
    return found.client if found is not None and found.account == account else None


def opened(account: Account) -> Client:
    """The client of an account's folder, opened where nothing in this process has yet.  May take seconds: it loads the
    embedder.

    Raises:
        ConfigurationError: the folder is open here with other settings.  Also as Client.
        LedgerError: another process uses the folder.
    """
    folder = Path(account.folder).absolute()
    with _opening:
        found = _opened.get(folder)
        if found is None:
            found = _opened[folder] = _Open(account, account.client())
        if found.account != account:
            raise ConfigurationError(
                f"{account.folder} is open in this program with other settings: give every retriever of a folder the "
                "same Account, or close the first"
            )
        return found.client


def close(account: Account) -> None:
    """Close the account's client, after the question under way; the next question opens it again."""
    with _opening:
        found = _opened.get(Path(account.folder).absolute())
        if found is not None and found.account == account:
            del _opened[Path(account.folder).absolute()]
            found.client.close()
