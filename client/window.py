# SPDX-License-Identifier: GPL-3.0-or-later
"""What an account keeps of one window: manifest, the pending signed request, answered queries.

The counter and the acknowledgement of the next request follow from the answers kept, so there is no second number that
could disagree with them.  ``pending`` holds a request from before it is sent until its answer is checked and kept:
after a crash exactly the same bytes are sent again, since two signed requests with one counter would let a provider
choose between two noises.  ``refused`` beside it: its window is over and the provider says that it has no record of the
request, so nobody asks again of its own accord.  The request stays: it is what the account could show if the provider
lied, and it alone opens the answer, should one come after all.  An answer without an exchange was fetched by its
number: another copy of the folder asked.  ``00000001.superseded`` is a signed request whose number that copy had used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ragseal.client.folder import intact, need, read, text, write
from ragseal.kernel.attestation import NO_RECEIPT, Answer, Prepare, Prepared, SignedRequest
from ragseal.kernel.commitment import Account, Manifest, SignedManifest, WindowOpen
from ragseal.kernel.encoding import SIGNATURE, Codec, Fixed, Message, Nested
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.kernel.params import COIN_BITS
from ragseal.kernel.policy import Policy
from ragseal.kernel.sealing import SEAL_KEY_BYTES, public_of
from ragseal.kernel.versions import IndexUpdate
from ragseal.runtime.durable import sync_directory
from ragseal.runtime.edges.filesystem import why

WINDOWS = "windows"  #: folder of an account that has one folder a window


@dataclass(frozen=True, slots=True)
class Exchange(Message):
    """Everything of one query up to the signed request: what is sent again, and what opens the receipt's request."""

    TAG: ClassVar[str] = "exchange"
    CODECS: ClassVar[Sequence[Codec]] = (
        Nested(Prepare), SIGNATURE, Nested(Prepared), Nested(SignedRequest), Fixed(SEAL_KEY_BYTES),
    )  # fmt: skip

    prepare: Prepare
    prepare_signature: bytes
    prepared: Prepared
    signed: SignedRequest
    seal_secret: bytes  #: private half of the request's key: opens the answer, and is never sent

    def __repr__(self) -> str:
        return "Exchange(...)"

    def validate(self) -> None:
        request = self.signed.request
        if not self.prepare.request_id == self.prepared.request_id == request.request_id:
            raise EncodingError("exchange: its messages belong to different requests")
        if request.query_digest != self.prepare.query_digest() or request.manifest != self.prepare.manifest:
            raise EncodingError("exchange: the signed request is for another query or window")
        if public_of(self.seal_secret) != request.seal_key:
            raise EncodingError("exchange: the kept secret does not open answers to the signed request")


class WindowState:
    """What an account keeps of one window."""

    def __init__(self, folder: Path) -> None:
        """Raises ConfigurationError: missing or damaged files."""
        self.folder = folder
        self.signed = intact(lambda: SignedManifest.decode(need(folder / "manifest")), str(folder / "manifest"))
        self.account = intact(lambda: Account.decode(need(folder / "account")), str(folder / "account"))
        self.digest = self.signed.manifest.digest()
        if self.digest.hex() != folder.name:
            raise ConfigurationError(f"{folder} is damaged: it holds another window's manifest")

    @property
    def manifest(self) -> Manifest:
        return self.signed.manifest

    @property
    def rules(self) -> Policy:
        """The policy that holds for this account's tenant: of its claim."""
        return self.manifest.rules(self.account.tenant)

    @property
    def opened(self) -> bool:
        """Whether this account has read the window's opening in the log."""
        return (self.folder / "opening").exists()

    @property
    def opened_at(self) -> int:
        """The ledger index of the entry that opened the window; -1 before it was found.

        Raises:
            ConfigurationError: a damaged file.
        """
        if not self.opened:
            return -1
        return intact(lambda: int.from_bytes(need(self.folder / "opening")[:8], "big"), str(self.folder / "opening"))

    @property
    def closes(self) -> int:
        """When the window is over, as far as is known: before its opening was found, until when it may open.

        Raises:
            ConfigurationError: a damaged file.
        """
        policy = self.manifest.policy
        return policy.ends(self.opening_time) if self.opened else policy.opens_by

    @property
    def opening_time(self) -> int:
        """When the window was opened, as its opening states.  ConfigurationError: not found yet, or a damaged file."""
        path = self.folder / "opening"
        return intact(lambda: WindowOpen.decode(need(path)[8:]), str(path)).time

    def remember_opening(self, entry: bytes, index: int) -> None:
        """Keep where the log opens the window, and by which entry, once it was found complete."""
        write(self.folder / "opening", index.to_bytes(8, "big") + entry)

    @property
    def witnessed(self) -> bytes | None:
        """The note by which a quorum of witnesses saw the opening, as it was kept; None before."""
        return read(self.folder / "witnessed")

    def remember_witnessed(self, note: bytes) -> None:
        """Keep such a note, once it was found to be of the log that this account knows."""
        write(self.folder / "witnessed", note)

    # --- versions of the index (SPEC A.12) ---

    def version(self, digest: bytes) -> IndexUpdate | None:
        """The update whose version this account has looked up under this digest.  ConfigurationError: damaged."""
        path = self.folder / f"{digest.hex()}.version"
        data = read(path)
        return None if data is None else intact(lambda: IndexUpdate.decode(data), str(path))

    def newest_version(self) -> IndexUpdate | None:
        """The newest update that this account has signed over.  ConfigurationError: a damaged file."""
        path = self.folder / "newest-version"
        data = read(path)
        return None if data is None else intact(lambda: IndexUpdate.decode(data), str(path))

    def remember_version(self, digest: bytes, update: IndexUpdate) -> None:
        """Keep a checked version, which is none older than the newest one."""
        if self.version(digest) is None:
            write(self.folder / f"{digest.hex()}.version", update.encode())
        if self.newest_version() != update:
            write(self.folder / "newest-version", update.encode())

    @property
    def answered(self) -> int:
        """How many queries of this account are answered: the last ctr used.  Raises ConfigurationError: a gap."""
        numbers = sorted(int(path.stem) for path in self.folder.glob("*.answer") if path.stem.isdigit())
        if numbers != list(range(1, len(numbers) + 1)):
            raise ConfigurationError(f"{self.folder} is damaged: answers are missing; restore the folder from a copy")
        return len(numbers)

    def answer(self, ctr: int) -> Answer:
        """The kept answer number ``ctr``.  Raises ConfigurationError: missing or damaged."""
        path = self.folder / f"{ctr:08d}.answer"
        answer = intact(lambda: Answer.decode(need(path)), str(path))
        if answer.record.signed.request.ctr != ctr or answer.record.manifest != self.digest:
            raise ConfigurationError(f"{path} is damaged: it holds another query's answer")
        return answer

    def exchange(self, ctr: int) -> Exchange:
        """Request number ``ctr`` with everything before it.  Raises ConfigurationError: missing or damaged."""
        path = self.folder / f"{ctr:08d}.exchange"
        return intact(lambda: Exchange.decode(need(path)), str(path))

    def last(self) -> Answer | None:
        """The newest answer."""
        count = self.answered
        return self.answer(count) if count else None

    def acknowledgement(self) -> bytes:
        """What the next request acknowledges: the last receipt's digest, or NO_RECEIPT."""
        last = self.last()
        return NO_RECEIPT if last is None else last.receipt.digest()

    def pending(self) -> Exchange | None:
        """The signed request without an answer, if any.

        Raises:
            ConfigurationError: a damaged file, or one that does not follow the answers kept.
        """
        path = self.folder / "pending"
        data = read(path)
        if data is None:
            return None
        exchange = intact(lambda: Exchange.decode(data), str(path))
        ctr, done = exchange.signed.request.ctr, self.answered
        if ctr == done and self.answer(done).record.signed == exchange.signed:
            self._retire(ctr)  # a crash came between keeping the answer and this
            return None
        if ctr != done + 1 or exchange.signed.request.manifest != self.digest:
            raise ConfigurationError(f"{path} is damaged: it does not follow the {done} answers kept")
        return exchange

    @property
    def owes(self) -> bool:
        """Whether the answer to a pending request is to be fetched."""
        data = read(self.folder / "pending")
        if data is None or self.given_up is not None:
            return False
        try:
            ctr = Exchange.decode(data).signed.request.ctr
        except AuditError:  # told where it is asked for
            return True
        return ctr == len(list(self.folder.glob("*.answer"))) + 1  # else it is kept, and its request not put away yet

    def begin(self, exchange: Exchange) -> None:
        """Keep a signed request durably, before it is sent.  Raises ConfigurationError: another one is pending."""
        if self.pending() is not None:
            raise ConfigurationError(f"{self.folder}: a signed request is pending, no second one may be signed")
        if exchange.signed.request.ctr != self.answered + 1:
            raise ConfigurationError(f"{self.folder}: the next request has ctr {self.answered + 1}")
        write(self.folder / "pending", exchange.encode())

    def give_up(self, reason: str) -> None:
        """Keep with the pending request why no answer to it is expected any more."""
        write(self.folder / "refused", reason.encode("utf-8", "replace"))

    @property
    def given_up(self) -> str | None:
        """Why no answer to the pending request is expected any more; None while one is."""
        data = read(self.folder / "refused")
        return None if data is None else text(data)

    def complete(self, answer: Answer) -> None:
        """Keep the checked answer of the pending request.  Raises ConfigurationError: there is none for it."""
        exchange = self.pending()
        if exchange is None or answer.record.signed != exchange.signed:
            raise ConfigurationError(f"{self.folder}: no request is pending for this answer")
        ctr = exchange.signed.request.ctr
        write(self.folder / f"{ctr:08d}.answer", answer.encode())
        self._retire(ctr)

    def keep(self, answer: Answer) -> None:
        """Keep the checked answer to the next number; this copy of the folder need not have signed its request.

        Another request that is pending under that number gets none any more: it is put away first.

        Raises:
            ConfigurationError: it is of another number or window, or the disk refuses.
        """
        pending, signed = self.pending(), answer.record.signed
        if pending is not None and pending.signed == signed:
            return self.complete(answer)
        ctr = signed.request.ctr
        if ctr != self.answered + 1 or answer.record.manifest != self.digest:
            raise ConfigurationError(f"{self.folder}: the next answer has number {self.answered + 1}")
        if pending is not None:
            self._retire(ctr, "superseded")
        write(self.folder / f"{ctr:08d}.answer", answer.encode())
        return None

    @property
    def settled(self) -> bool:
        """Whether the window was over when the provider said that no further record in it is this account's."""
        return (self.folder / "settled").exists()

    def settle(self) -> None:
        """Keep that nothing more can come of this window."""
        write(self.folder / "settled", b"")

    def _retire(self, ctr: int, kind: str = "exchange") -> None:
        try:
            (self.folder / "refused").unlink(missing_ok=True)  # it was answered after all
            os.replace(self.folder / "pending", self.folder / f"{ctr:08d}.{kind}")
            sync_directory(self.folder)
        except OSError as error:
            raise ConfigurationError(
                f"cannot write in {self.folder}: {why(error, self.folder)}; the answer is kept: "
                f"`ragseal-client receipts show {self.manifest.window} {ctr}` prints it"
            ) from None


def windows_of(directory: Path) -> list[WindowState]:
    """The windows in an account's folder, by opening time; reads only, needs no lock.

    Raises:
        ConfigurationError: a damaged file.
    """
    parent = directory / WINDOWS
    if not parent.is_dir():
        return []
    found = [WindowState(path) for path in sorted(parent.iterdir()) if (path / "manifest").exists()]
    return sorted(found, key=lambda w: (w.manifest.policy.opens, w.digest))


def hidden_share(directory: Path, window: str) -> float:
    """The share of documents that the coins of a window hide from an account; 0 of a claim without coins.

    Also 0 where the folder is damaged: an answer that is paid for is shown all the same.
    """
    with suppress(AuditError):
        for one in windows_of(directory):
            if one.manifest.window == window:
                return one.rules.hidden / (1 << COIN_BITS)
    return 0.0
