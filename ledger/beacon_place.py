# SPDX-License-Identifier: GPL-3.0-or-later
"""An observer's place in the beacons of a provider's windows: commit to a nonce, open it, remember.  SPEC A.8.

With one honest observer in the last seal nobody knows what a window draws before that one opens, the provider and its
auditors together included.  Behind it they can pick only by leaving out observers of their own (SPEC A.8.7).
Only entries that an :class:`~ragseal.ledger.observer.Observer` has hashed to a signed root are looked at.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragseal.kernel import signature
from ragseal.kernel.beacon import (
    MAX_PARTICIPANTS,
    OBSERVER,
    PROVIDER,
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    beacon_commitment,
    is_observer,
)
from ragseal.kernel.commitment import SignedManifest, WindowOpen
from ragseal.kernel.encoding import Message, peek_tag
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, LedgerError
from ragseal.kernel.signature import SigningKey
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why

KINDS: dict[str, type[Message]] = {
    kind.TAG: kind for kind in (SignedManifest, BeaconCommit, BeaconSeal, BeaconOpening, WindowOpen)
}
NONCES = 64  #: windows whose nonces are remembered
MOST_ENTRIES = 4 * MAX_PARTICIPANTS  #: of one beacon: a commitment and an opening each, and seals


class Stage(enum.Enum):
    """How far the observer's part in the newest window is."""

    NOTHING = "no window to take part in"
    COMMITTED = "committed to a nonce, waiting for the seal and the provider's nonce"
    OPENED = "opened the nonce"
    LEFT_OUT = "the beacon was sealed without this observer"
    TAKEN = "this observer's name is taken by another key, or the nonce that it committed to is lost"
    LATE = "the window's time to open is over"


class BeaconPlace:
    """What an observer knows of the newest window's beacon, and what it has to say next.

    Its memory is one file beside the observer's.  A nonce is kept before its commitment is sent, and is opened once the
    provider's seal names this observer and the provider has opened: from then on nobody can choose the beacon in this
    log.  Whether others are shown the same log is for a witness policy to say.
    """

    def __init__(
        self, path: Path, name: str, key: SigningKey, random: Callable[[int], bytes], now: Callable[[], float]
    ) -> None:
        """
        Args:
            path: of the memory.
            name: what the provider's operator calls this observer (`serve --observer NAME=KEY`).

        Raises:
            ConfigurationError: the name is none, or the memory is damaged or of another name.
        """
        self._path, self._key, self._random, self._now = path, key, random, now
        self.owner = OBSERVER + name
        if not is_observer(self.owner):
            raise ConfigurationError("an observer needs a name in the beacon: --as NAME")
        self.size = 0  #: entries of the log that were looked at
        self._entries: list[bytes] = []  #: the newest window's, from its manifest on
        self._nonces: dict[str, str] = {}  #: hexadecimal, by the manifest's digest
        if path.exists():
            self._load()

    # --- what is in the log ---

    @staticmethod
    def wants(entry: bytes) -> bool:
        """Whether an entry is about a beacon."""
        try:
            return peek_tag(entry) in KINDS
        except (AuditError, UnicodeError):
            return False

    @staticmethod
    def joined(known: list[bytes], entry: bytes) -> list[bytes]:
        """What is kept of ``known`` and the entry behind it: the newest window's, and one more than a beacon can have.

        Too many are no reason to stop here: a provider could hold its observers up with them in every later window.
        """
        if peek_tag(entry) == SignedManifest.TAG:
            return [entry]
        return known if len(known) > MOST_ENTRIES else [*known, entry]

    def take(self, begin: int, entries: Sequence[bytes], size: int) -> None:
        """Look at what :meth:`wants` chose of entries [begin, size), which are the log's.

        Raises:
            LedgerError: the memory cannot be written.
        """
        known = self._entries if begin else []
        for entry in entries:
            known = self.joined(known, entry)
        if (known, size) != (self._entries, self.size):
            self._keep(size, known, self._nonces)

    # --- what to say ---

    def due(self) -> tuple[Stage, str, BeaconCommit | BeaconOpening | None]:
        """How far this observer's part is, the window's name, and what is to be entered in the log now, if anything.

        A message that was entered before is given again until the log shows it; entering it twice is harmless.

        Raises:
            EncodingError, AttestationError: what the provider entered is none of this protocol's.
            LedgerError: the nonce cannot be kept, or there are more entries than a beacon can have.
        """
        if len(self._entries) > MOST_ENTRIES:
            raise LedgerError(f"the newest window has more than {MOST_ENTRIES} entries about its beacon")
        messages = [KINDS[peek_tag(entry)].decode(entry) for entry in self._entries]
        if not messages or not isinstance(messages[0], SignedManifest):
            return Stage.NOTHING, "", None
        signed = messages[0]
        signed.verify()
        manifest, digest, name = signed.manifest, signed.manifest.digest(), signed.manifest.window
        of_window = [one for one in messages[1:] if getattr(one, "manifest", b"") == digest]
        commits = {one.owner: one for one in of_window if isinstance(one, BeaconCommit)}
        openings = {one.owner: one.nonce for one in of_window if isinstance(one, BeaconOpening)}
        seals = [one for one in of_window if isinstance(one, BeaconSeal)]
        nonce = self._nonces.get(digest.hex())
        own = commits.get(self.owner)
        if own is None:
            if seals or any(isinstance(one, WindowOpen) for one in of_window):
                return Stage.LEFT_OUT, name, None
            if manifest.policy.opens_by <= self._now():
                return Stage.LATE, name, None
            return Stage.COMMITTED, name, self._commit(digest)
        if nonce is None or own.commitment != beacon_commitment(self.owner, bytes.fromhex(nonce)):
            return Stage.TAKEN, name, None
        if self.owner in openings:
            return Stage.OPENED, name, None
        if not seals or PROVIDER not in openings:
            return Stage.COMMITTED, name, None
        signature.verify(manifest.window_key, "beacon-seal", seals[-1].body(), seals[-1].signature)
        if beacon_commitment(PROVIDER, openings[PROVIDER]) != manifest.beacon_commitment:
            raise LedgerError(f"window {name}: the provider opened a nonce that it had not committed to")
        if self.owner not in seals[-1].owners:
            return Stage.LEFT_OUT, name, None
        return Stage.COMMITTED, name, BeaconOpening(digest, self.owner, bytes.fromhex(nonce))

    def _commit(self, digest: bytes) -> BeaconCommit:
        if digest.hex() not in self._nonces:
            kept = list(self._nonces.items())[1 - NONCES :]
            self._keep(self.size, self._entries, dict([*kept, (digest.hex(), self._random(32).hex())]))
        commitment = beacon_commitment(self.owner, bytes.fromhex(self._nonces[digest.hex()]))
        public = signature.public_bytes(self._key)
        unsigned = BeaconCommit(digest, self.owner, public, commitment, bytes(64))
        return replace(unsigned, signature=signature.sign(self._key, "beacon-commit", unsigned.body()))

    # --- memory ---

    def _load(self) -> None:
        try:
            found: dict[str, Any] = json.loads(self._path.read_text("utf-8"))
            owner, self.size, self._nonces = found["owner"], int(found["size"]), dict(found["nonces"])
            self._entries = [bytes.fromhex(entry) for entry in found["entries"]]
            sound = all(len(bytes.fromhex(nonce)) == 32 for nonce in self._nonces.values()) and self.size >= 0
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, EncodingError) as error:
            raise ConfigurationError(
                f"{self._path} is damaged ({error}), and a nonce that was committed to may be lost with it: move it "
                "away to take part in the next window"
            ) from None
        if not sound:
            raise ConfigurationError(f"{self._path} is damaged: move it away to take part in the next window")
        if owner != self.owner:
            raise ConfigurationError(
                f"{self._path} is of {owner}: take part --as {owner.removeprefix(OBSERVER)}, or use another --state"
            )

    def _keep(self, size: int, entries: list[bytes], nonces: dict[str, str]) -> None:
        """Nothing is known here that is not kept: after a full disk a nonce would be committed to and lost."""
        values = {
            "owner": self.owner,
            "size": size,
            "entries": [entry.hex() for entry in entries],
            "nonces": nonces,
        }
        try:
            write_durably(self._path, json.dumps(values, indent=1).encode(), mode=0o600)
        except OSError as error:
            raise LedgerError(f"cannot write {self._path}: {why(error, self._path)}") from None
        self.size, self._entries, self._nonces = size, entries, nonces
