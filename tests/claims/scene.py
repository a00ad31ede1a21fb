# SPDX-License-Identifier: GPL-3.0-or-later
"""Budget periods of every claim, and step 11 of an audit of them.

Nothing is proven here: a period is a log of manifests, openings, records and closings, and step 11 reads no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel import signature
from ragseal.kernel.attestation import NO_RECEIPT, ON_DEMAND, Record, Request, SignedRequest
from ragseal.kernel.beacon import BeaconOpening, BeaconSeal, Seat
from ragseal.kernel.claims import form_of
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import CoinCommitment, Manifest, SignedManifest, TenantIndex, WindowClose, WindowOpen
from ragseal.kernel.encoding import Message
from ragseal.kernel.policy import ANSWERS, EVERY_LIST, EXACT, UNSEEN, UNTIL_DELIVERED, Policy
from ragseal.kernel.sealing import public_of
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.prover.storage.window import Window as ProverWindow
from ragseal.verifier.evidence.evidence import Auditor
from ragseal.verifier.outcome.outcome import PASS, Verdict
from ragseal.verifier.steps import epsilon
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.period import period
from ragseal.verifier.steps.receipts import Tally

OPENS, HOUR = 1_800_000_000, 3600
ORIGIN = "test.example/log"
PLAIN, DECOYS = "noise-tiny-two", "decoys-tiny"
OTHER = {EVERY_LIST: "noise-small-two-50", UNTIL_DELIVERED: "decoys-4k", ANSWERS: "noise-small-two-50"}  #: by claim


def key_of(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


@cache
def classes() -> Mapping[str, tuple[AttestationClass, bytes]]:
    known = load_classes()
    return {name: (known[name], class_digest(known[name])) for name in (PLAIN, DECOYS, *OTHER.values())}


def policy(claim: str, number: int, **changes: Any) -> Policy:
    """The policy of the window that opens ``number`` hours after the first."""
    name = changes.pop("class_name", DECOYS if claim == UNTIL_DELIVERED else PLAIN)
    rate = changes.setdefault("decoy_rate", 1 << 16) if claim == UNTIL_DELIVERED else 0
    cls, digest = classes()[name]
    values: dict[str, Any] = {
        "class_name": name, "class_digest": digest, "table_digest": cls.tables(rate)[0].digest(), "dimension": 384,
        "claim": claim, "hidden": 0, "lo": 4800, "hi": 5600, "gain": 64, "n_max": 3, "k_max": 2, "delta": "1/1000000",
        "epsilon_account": "60", "theta": "9/10", "tau": 100, "gate": claim == EVERY_LIST, "unit": "slot",
        "chunks_max": 1, "period_start": OPENS, "opens": OPENS + number * HOUR, "closes": OPENS + (number + 1) * HOUR,
        "ids": cls.most_ids(1),
    }  # fmt: skip
    if claim == UNTIL_DELIVERED:
        values |= {"hidden": 13, "hi": 4801, "gain": 1, "ids": 8}
    if claim == ANSWERS:
        values |= {
            "lo": 0, "hi": 6, "gain": 12, "vocabulary": b"\x01" * 32, "words_max": 2, "participations": 2,
            "similarity": 1, "answered_by": 30,
        }  # fmt: skip
    return Policy(**{**values, **changes})


@dataclass
class Log:
    """A log of windows, as its provider writes it."""

    messages: list[Message] = field(default_factory=list)
    provider: list[ProverWindow] = field(default_factory=list)
    last: bytes = b""

    def window(
        self, rules: Policy, records: int = 0, *, opened: bool = True, carries: bytes | None = None, accounts: int = 5
    ) -> bytes:
        """One window more: opened and closed after ten minutes, or given up once its coins were known."""
        number = (rules.opens - OPENS) // HOUR
        coins = ()
        if rules.hidden:
            coins = (CoinCommitment(number + 1, bytes(32), () if carries is None else (carries,)),)
        provider, own = key_of("provider"), key_of("auditor")
        manifest = Manifest(
            origin=ORIGIN, log=bytes(32), window=f"w{number}", policy=rules, embedder=bytes(32), key_digest=bytes(32),
            tenants=(TenantIndex("north", 384, bytes(32), bytes(32), bytes(32)),), c_seed=number + 1,
            registry_root=bytes(32), accounts=accounts, provider_key=signature.public_bytes(provider),
            window_key=signature.public_bytes(provider), beacon_commitment=bytes(32),
            auditors=(Seat("auditor", signature.public_bytes(own)),), coins=coins,
        )  # fmt: skip
        signed = SignedManifest(manifest, signature.sign(provider, "manifest", manifest.encode()))
        digest, start = manifest.digest(), rules.opens
        kept = ProverWindow(signed, digest, len(self.messages), beacon=1, opened_at=start, time=start)
        self.messages.append(signed)
        self.provider.append(kept)
        self.last = digest
        if not opened:
            seal = BeaconSeal(digest, ("provider", "auditor"), bytes(64))
            nonces = [BeaconOpening(digest, owner, bytes(32)) for owner in seal.owners]
            self.messages += [seal, *nonces]
            kept.beacon, kept.seal, kept.openings = None, seal, {one.owner: one.nonce for one in nonces}
            return digest
        self.messages.append(WindowOpen(digest, 1, start))
        for seq in range(records):
            request = Request(
                ORIGIN, manifest.window, digest, f"account-{seq % 2}", 1 + seq // 2, bytes(16), bytes(32), bytes(64),
                bytes(32), True, bytes(16), NO_RECEIPT, public_of(b"s" * 32),
            )  # fmt: skip
            self.messages.append(
                Record(digest, seq, SignedRequest(request, bytes(64)), bytes(64), (1,), start + 60, ON_DEMAND)
            )
        close = WindowClose(digest, records, start + 600)
        self.messages.append(close)
        kept.close = close
        return digest


def every_list() -> Log:
    """Three windows of one period behind one that it leaves out, one of them of another class; one later."""
    log = Log()
    log.window(policy(EVERY_LIST, 0))
    for number, changes in enumerate(({"k_max": 4}, {"class_name": OTHER[EVERY_LIST]}, {"gain": 32}), 1):
        log.window(policy(EVERY_LIST, number, period_start=OPENS + HOUR, **changes), records=4)
    log.window(policy(EVERY_LIST, 4, period_start=OPENS + HOUR))
    return log


def long_period() -> Log:
    """More windows than an odometer has rows."""
    log = Log()
    for number in range(15):
        log.window(policy(EVERY_LIST, number, gain=8, n_max=1))
    return log


def in_parts() -> Log:
    log = Log()
    log.window(policy(EVERY_LIST, 0, chunks_max=3, gain=8))
    return log


def until_delivered() -> Log:
    """Coins that were thrown and given up, thrown, carried on; one window left out, one later."""
    log = Log()
    log.window(policy(UNTIL_DELIVERED, 0))
    begins = OPENS + HOUR
    log.window(policy(UNTIL_DELIVERED, 1, period_start=begins), opened=False)
    thrown = log.window(policy(UNTIL_DELIVERED, 2, period_start=begins, decoy_rate=1 << 15), records=6)
    log.window(policy(UNTIL_DELIVERED, 3, period_start=begins, version_every=600), records=2, carries=thrown)
    log.window(policy(UNTIL_DELIVERED, 4, period_start=begins, decoy_rate=3 << 14))
    return log


def coins_of_decoys() -> Log:
    """Two windows of other draws, ids and shards, which are accounted together."""
    log = Log()
    for number, (rate, ids, shards) in enumerate(((1 << 16, 8, 1), (1 << 15, 5, 2))):
        changes = {"decoy_rate": rate, "ids": ids, "shards": shards, "chunks_max": 2}
        log.window(policy(UNTIL_DELIVERED, number, **changes), records=2 * number)
    return log


def coins_alone() -> Log:
    """One window, and as much as nothing rests on anybody's word."""
    log = Log()
    log.window(policy(UNTIL_DELIVERED, 0, hidden=40), records=2)
    return log


def many_coins() -> Log:
    """More windows than an odometer has rows."""
    log = Log()
    for number in range(14):
        log.window(policy(UNTIL_DELIVERED, number), records=1)
    return log


def without_decoys(claim: str, number: int, **changes: Any) -> Policy:
    """A policy of a claim whose lists have neither noise nor decoys."""
    own: dict[str, Any] = {"class_name": DECOYS, "hi": 4801, "gain": 1, "ids": 8, "delta": "0"}
    if not form_of(claim).private:
        start = OPENS + number * HOUR
        own |= {"k_max": 1, "epsilon_account": "none", "delta": "none", "gate": False, "period_start": start}
    return policy(claim, number, **{**own, **changes})


def unseen() -> Log:
    """Coins that were thrown and given up, thrown again, carried on; one window left out, one later."""
    log = Log()
    log.window(without_decoys(UNSEEN, 0, hidden=13))
    begins = OPENS + HOUR
    log.window(without_decoys(UNSEEN, 1, hidden=13, period_start=begins), opened=False)
    thrown = log.window(without_decoys(UNSEEN, 2, hidden=13, period_start=begins, chunks_max=2), records=6)
    log.window(without_decoys(UNSEEN, 3, hidden=13, period_start=begins), records=2, carries=thrown)
    log.window(without_decoys(UNSEEN, 4, hidden=13, period_start=begins))
    return log


def exact() -> Log:
    """Windows of another claim before it and after it, which it does not count."""
    log = Log()
    log.window(policy(UNTIL_DELIVERED, 0))
    log.window(without_decoys(EXACT, 1), records=3)
    log.window(policy(UNTIL_DELIVERED, 2, period_start=OPENS + 2 * HOUR), records=1)
    return log


def answers() -> Log:
    log = Log()
    log.window(policy(ANSWERS, 0))
    for number, changes in enumerate(({}, {"participations": 4, "words_max": 3}, {"gain": 8}), 1):
        log.window(policy(ANSWERS, number, period_start=OPENS + HOUR, **changes), records=4)
    log.window(policy(ANSWERS, 4, period_start=OPENS + HOUR))
    return log


def answers_in_parts() -> Log:
    log = Log()
    for number in range(14):
        log.window(policy(ANSWERS, number, chunks_max=2, gain=2), records=1)
    return log


#: By name: the log, and which of its windows is audited.
PERIODS: Mapping[str, tuple[Callable[[], Log], str]] = {
    "every-list": (every_list, "w3"),
    "every-list, a long period": (long_period, "w14"),
    "every-list, a document of three slots": (in_parts, "w0"),
    "until-delivered": (until_delivered, "w3"),
    "until-delivered, decoys": (coins_of_decoys, "w1"),
    "until-delivered, one window": (coins_alone, "w0"),
    "until-delivered, a long period": (many_coins, "w13"),
    "unseen": (unseen, "w3"),
    "exact": (exact, "w1"),
    "answers": (answers, "w3"),
    "answers, a document of two parts": (answers_in_parts, "w13"),
}


def _one(rules: Policy) -> Log:
    log = Log()
    log.window(rules)
    return log


def _mixed(*rules: Policy) -> Log:
    log = Log()
    for one in rules:
        log.window(one)
    return log


#: Periods that no number follows for, and windows that promise too much.
REFUSALS: Mapping[str, tuple[Callable[[], Log], str]] = {
    "every-list, too much gain": (lambda: _one(policy(EVERY_LIST, 0, gain=4000)), "w0"),
    "every-list, delta used up": (lambda: _one(policy(EVERY_LIST, 0, delta="1/1" + 30 * "0")), "w0"),
    "every-list, advertised": (lambda: _one(policy(EVERY_LIST, 0, epsilon_account="1/10")), "w0"),
    "every-list beside answers": (lambda: _mixed(policy(ANSWERS, 0), policy(EVERY_LIST, 1)), "w1"),
    "every-list beside coins": (lambda: _mixed(policy(UNTIL_DELIVERED, 0), policy(EVERY_LIST, 1)), "w1"),
    "until-delivered, delta used up": (
        lambda: _one(policy(UNTIL_DELIVERED, 0, ids=24, delta="1/1" + 24 * "0")), "w0",
    ),
    "until-delivered, noise": (
        lambda: _one(policy(UNTIL_DELIVERED, 0, class_name=PLAIN, decoy_rate=0, ids=3)), "w0",
    ),
    "until-delivered, advertised": (lambda: _one(policy(UNTIL_DELIVERED, 0, epsilon_account="1/10")), "w0"),
    "until-delivered beside every-list": (lambda: _mixed(policy(EVERY_LIST, 0), policy(UNTIL_DELIVERED, 1)), "w1"),
    "until-delivered beside unseen": (
        lambda: _mixed(
            without_decoys(UNSEEN, 0, hidden=13),
            policy(UNTIL_DELIVERED, 1, class_name=DECOYS, decoy_rate=1 << 16, hi=4801, gain=1, ids=8),
        ),
        "w1",
    ),
    "unseen beside until-delivered": (
        lambda: _mixed(policy(UNTIL_DELIVERED, 0), without_decoys(UNSEEN, 1, hidden=13)), "w1",
    ),
    "unseen, advertised": (lambda: _one(without_decoys(UNSEEN, 0, hidden=13, epsilon_account="1/10")), "w0"),
    "answers, too much gain": (lambda: _one(policy(ANSWERS, 0, gain=100_000)), "w0"),
    "answers, delta used up": (lambda: _one(policy(ANSWERS, 0, delta="1/1" + 18 * "0")), "w0"),
    "answers, advertised": (lambda: _one(policy(ANSWERS, 0, epsilon_account="1/10")), "w0"),
    "answers beside every-list": (lambda: _mixed(policy(EVERY_LIST, 0), policy(ANSWERS, 1)), "w1"),
}  # fmt: skip


def view(log: Log) -> LogView:
    entries = tuple(message.encode() for message in log.messages)
    tree = MerkleTree(entries)
    signer = NoteSigner(ORIGIN, key_of("log"))
    note = Checkpoint(ORIGIN, len(entries), tree.root()).sign(signer)
    return LogView(open_checkpoint(note, signer.verifier), entries, tree, tuple(log.messages))


def auditor(**changes: Any) -> Auditor:
    own = Auditor(
        NoteSigner(ORIGIN, key_of("log")).verifier, classes(), {}, signature.public_bytes(key_of("auditor")), {}, {}, {}
    )
    return replace(own, **changes)


def eleventh(log: Log, name: str, own: Auditor, said: dict[str, Any], tallies: Sequence[Tally]) -> Verdict:
    """Step 11 as a verdict that passed everything else.  AuditError: it ends there."""
    seen = view(log)
    index, signed = next((i, m) for i, m in seen.manifests() if m.manifest.window == name)
    rules = signed.manifest.policy
    window = Window(index, signed, signed.manifest.digest(), classes()[rules.class_name][0])
    verdict = Verdict(
        auditor=own.identity, at=OPENS + 100 * HOUR, mode="full", keys="auditor", origin=ORIGIN,
        about=(name, window.digest), window=window, records=4, proven=4, tallies=tuple(tallies),
    )  # fmt: skip
    say = said.update
    span = period(seen, window, own)
    accounted = epsilon.check_period(seen, window, own, span, say)
    alone = epsilon.check_advertised(window, say=say)
    verdict.budget = epsilon.make_budget(seen, window, own, accounted, alone, tallies, say)
    verdict.verdict, verdict.log, verdict.log_size = PASS, seen.signed, seen.size
    return verdict
