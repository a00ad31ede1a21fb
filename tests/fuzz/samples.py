# SPDX-License-Identifier: GPL-3.0-or-later
"""Valid values of every canonical message, built from its codecs: nothing has to be written for a new message.

Where fields must fit each other (``validate``) :data:`FITTED` says how; a message that needs it and has none is named
by the tests.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import ragseal
from ragseal.client.window import Exchange
from ragseal.embedder.interface import QUANTISATION, UNIT, DeclaredIdentity, EmbedderIdentity
from ragseal.kernel import encoding, signature, slot_text
from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.beacon import AUDITOR, AUDITOR_NAMED, Seat
from ragseal.kernel.claims import FORMS, LADDER, below
from ragseal.kernel.commitment import CoinCommitment, Manifest
from ragseal.kernel.encoding import Message
from ragseal.kernel.enrolment import Enrolment
from ragseal.kernel.errors import AuditError
from ragseal.kernel.params import MAX_SHARDS, R
from ragseal.kernel.policy import (
    ANSWERS,
    EVERY_LIST,
    FORMULAS,
    GUARDS,
    NO_DELTA,
    NO_FORMULA,
    NO_NUMBER,
    NO_RHO,
    NO_VOCABULARY,
    OFF,
    RATIONAL,
    Policy,
)
from ragseal.kernel.proofs import ProofEntry
from ragseal.kernel.rotation import MAX_TURNS, Rotation
from ragseal.kernel.sealing import public_of
from ragseal.kernel.verdict import (
    ANY,
    NONE,
    NOT_KNOWN,
    OUTCOMES,
    PASSED,
    WORD_OF_THE_PROVIDER,
    AuditVerdict,
    Claimed,
    VerdictEntry,
)
from ragseal.kernel.versions import IndexUpdate, UpdatedIndex
from ragseal.prover.workers.interface import PROOF_BYTES, Work, WorkResult

SKIPPED = ("ragseal.v1", "ragseal.embedder.")  #: generated code, and what needs a model (its message is imported)


def message_kinds() -> list[type[Message]]:
    """Every message class of the product, found by importing all of it."""
    for module in pkgutil.walk_packages(ragseal.__path__, "ragseal."):
        if not module.name.startswith(SKIPPED) and not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                if "ragseal" in str(error.name):
                    raise  # anything else is an adapter for a library that is not installed
    return sorted(set(_below(Message)), key=lambda kind: (kind.TAG, kind.__name__))


def _below(kind: type[Message]) -> Iterator[type[Message]]:
    for child in kind.__subclasses__():
        yield from _below(child)
        # a dataclass with slots leaves a second class of the same name behind: the module's own is the one in use
        used = getattr(sys.modules.get(child.__module__), child.__name__, None) is child
        if used and "TAG" in child.__dict__ and child.__module__.startswith("ragseal."):
            yield child


def value(codec: Any, rng: random.Random) -> Any:
    """A value that this codec writes."""
    if codec is RATIONAL:
        return str(Fraction(rng.randrange(1, 50), rng.randrange(50, 99)))
    match codec:
        case encoding.Int(width, negative):
            bits = rng.choice([0, 1, 8, 8 * width - negative])
            drawn = rng.getrandbits(bits) if bits else 0
            return -drawn if negative and rng.random() < 0.5 else drawn
        case encoding.Flag():
            return rng.random() < 0.5
        case encoding.Fixed(size):
            return rng.randbytes(size)
        case encoding.Blob(limit):
            return rng.randbytes(rng.choice([0, 1, 32, 64, min(limit, 96)]) % (limit + 1))
        case encoding.Text(limit, plain):
            alphabet = "abcXYZ019./-_" if plain else "abc ä€\n\U0001f600"
            text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(int(plain), 9)))
            return text[: max(limit // 4, 1)]
        case slot_text.Characters(least):
            return "".join(rng.choice("abc ä€\n\U0001f600") for _ in range(least + rng.randrange(8)))
        case slot_text.MetadataValue():
            number = rng.choice([rng.randbytes(8), bytes(8), b"\x7f\xef" + b"\xff" * 6, b"\x80" + bytes(6) + b"\x01"])
            return rng.choice(["", "text", True, False, slot_text.Number(number)])
        case encoding.PublicKey():
            return signature.public_bytes(Ed25519PrivateKey.from_private_bytes(rng.randbytes(32)))
        case encoding.Element():
            return rng.choice([0, 1, R - 1, rng.randrange(R)])
        case encoding.Points(limit):
            return rng.randbytes(64 * rng.randrange(1, min(limit, 4) + 1))
        case encoding.Elements(limit):
            return tuple(rng.randrange(R) for _ in range(rng.randrange(1, min(limit, 4) + 1)))
        case encoding.Many(item, limit):
            return tuple(value(item, rng) for _ in range(rng.choice([0, 1, 2, 3]) % (limit + 1)))
        case encoding.Nested(kind):
            return sample(kind, rng)
    raise AssertionError(f"no sample for the codec {codec!r}: add it here")


def sample(kind: type[Message], rng: random.Random) -> Any:
    """A message of this kind that its own decoder accepts."""
    for _ in range(400):
        names = [one.name for one in fields(kind)]
        made = kind(**{name: value(codec, rng) for name, codec in zip(names, kind.CODECS, strict=True)})
        fit = FITTED.get(kind)
        made = fit(made, rng) if fit else made
        try:
            kind.decode(made.encode())
        except AuditError:
            continue
        return made
    raise AssertionError(f"no valid {kind.__name__} in 400 attempts: add it to FITTED in tests/fuzz/samples.py")


def _policy(made: Policy, rng: random.Random) -> Policy:
    opens = rng.randrange(1 << 32)
    claim = rng.choice(tuple(FORMS))
    form, answers = FORMS[claim], claim == ANSWERS
    coined, nothing = form.coin, not form.private
    lo = 0 if answers else rng.randrange(100)
    guard = OFF if answers or nothing else rng.choice(GUARDS)
    return replace(
        made,
        claim=claim,
        hidden=1 + rng.randrange(255) if coined else 0,
        gate=not nothing and (form.counted or made.gate),
        delta=(NO_NUMBER if nothing else NO_DELTA) if form.plain else made.delta,
        epsilon_account=NO_NUMBER if nothing else made.epsilon_account,
        decoy_rate=0 if form.plain else made.decoy_rate,
        lo=lo,
        hi=lo + 1 + rng.randrange(100),
        gain=1 + rng.randrange(9),
        n_max=1 + rng.randrange(9),
        k_max=1 if nothing else 1 + rng.randrange(9),
        dimension=1 + rng.randrange(99),
        chunks_max=1,
        unit="slot",
        period_start=opens,
        opens=opens,
        closes=opens + 60,
        version_every=60 * rng.choice([0, 1 + answers, 15, 1440]),
        guard=guard,
        guard_rho=NO_RHO if guard == OFF else f"1/{2 + rng.randrange(99)}",
        guard_formula=NO_FORMULA if guard == OFF else rng.choice(FORMULAS),
        vocabulary=rng.randbytes(32) if answers else NO_VOCABULARY,
        words_max=1 + rng.randrange(9) if answers else 0,
        participations=1 + rng.randrange(9) if answers else 0,
        similarity=1 + rng.randrange(9999) if answers else 0,
        shards=rng.choice((1, 2, MAX_SHARDS)),
        answered_by=1 + rng.randrange(60) if answers else 0,
    )


def _manifest(made: Manifest, rng: random.Random) -> Manifest:
    tenants = [replace(sample(type_of_tenant(made), rng), dimension=made.policy.dimension) for _ in range(2)]
    lower = rng.choice(("", *below(made.policy.claim)))
    named = [replace(one, tenant=name, claim=of) for one, name, of in zip(tenants, "ab", ("", lower), strict=True)]
    coins = (sample(CoinCommitment, rng),) if made.policy.coined else ()
    seats = (sample(Seat, rng), *([sample(Seat, rng)] if rng.random() < 0.5 else []))
    return replace(made, tenants=tuple(named), coins=coins, auditors=seats)


def _seat(made: Seat, rng: random.Random) -> Seat:
    return replace(made, owner=rng.choice([AUDITOR, AUDITOR_NAMED + made.owner]))


def type_of_tenant(made: Manifest) -> type[Message]:
    """The class of a manifest's tenants."""
    at = [f.name for f in fields(made)].index("tenants")
    kind: type[Message] = made.CODECS[at].item.kind  # type: ignore[attr-defined]
    return kind


def _metadata(made: slot_text.Metadata, rng: random.Random) -> slot_text.Metadata:
    by_key = {pair.key: pair for pair in made.pairs}
    return replace(made, pairs=tuple(by_key[key] for key in sorted(by_key)))


def _record(made: Record, rng: random.Random) -> Record:
    request = replace(made.signed.request, manifest=made.manifest)
    time = COARSE_TIME * rng.randrange(1 << 40)
    return replace(made, signed=replace(made.signed, request=request), time=time, proof_mode=rng.randrange(2))


def _update(made: IndexUpdate, rng: random.Random) -> IndexUpdate:
    proofs = (rng.randbytes(32),) * rng.randrange(2)
    lines = tuple(replace(sample(UpdatedIndex, rng), tenant=name, proof_digests=proofs) for name in ("a", "b"))
    return replace(made, number=1 + rng.randrange(9), tenants=lines)


def _identity(made: EmbedderIdentity, rng: random.Random) -> EmbedderIdentity:
    return replace(made, quantisation=QUANTISATION, dimension=rng.randrange(1, 999), max_tokens=512)


def _exchange(made: Exchange, rng: random.Random) -> Exchange:
    request = replace(
        made.signed.request,
        request_id=made.prepare.request_id,
        query_digest=made.prepare.query_digest(),
        manifest=made.prepare.manifest,
    )
    prepared = replace(made.prepared, request_id=made.prepare.request_id)
    request = replace(request, seal_key=public_of(made.seal_secret))
    return replace(made, prepared=prepared, signed=replace(made.signed, request=request))


def _verdict(made: Any, rng: random.Random) -> Any:
    outcome = rng.choice(OUTCOMES)
    if outcome not in PASSED:
        return replace(made, outcome=outcome, claimed=())
    if rng.random() < 0.5:
        return replace(made, outcome=outcome, claimed=(_of_claim(rng.choice(tuple(FORMS)), rng),))
    several = [replace(_of_claim(claim, rng), tenants=(f"of-{claim}",)) for claim in LADDER]
    return replace(made, outcome=outcome, claimed=tuple(several[rng.randrange(2) :]))


def _claimed(made: Any, rng: random.Random) -> Claimed:
    return replace(_of_claim(rng.choice(tuple(FORMS)), rng), tenants=rng.choice(((), ("a",), ("a", "b"))))


def _of_claim(claim: str, rng: random.Random) -> Claimed:
    form, counted, left_out = FORMS[claim], claim == EVERY_LIST, rng.choice((0, 3))
    if not form.private:
        return Claimed(claim, NONE, "", NONE, NONE, NONE, 0, 0, "", rng.choice(((), ("embeddings",))))
    return Claimed(
        claim=claim,
        epsilon=rng.choice(["0", "85.7712", "1e-09", "1.23457e+08", "inf"]),
        returned="inf" if form.plain else "5.96317" if form.returned else "",
        delta="0" if form.plain else "1e-06",
        coalition="2" if counted else ANY,
        queries=str(1 + rng.randrange(1 << 40)) if counted else ANY,
        period_from=60 * rng.randrange(1 << 32),
        left_out=left_out,
        epsilon_log=rng.choice((NOT_KNOWN, "inf", "99.5")) if left_out else "",
        word=tuple(name for name in WORD_OF_THE_PROVIDER if rng.random() < 0.3),
    )


_RESULTS: list[dict[str, Any]] = [
    {"proof": bytes(range(PROOF_BYTES)), "failure": ""},
    {"proof": b"", "failure": "the witness does not satisfy the circuit"},
]


def _rotation(made: Rotation, rng: random.Random) -> Rotation:
    index = rng.randrange(1 << 40)
    return replace(made, number=1 + rng.randrange(MAX_TURNS), index=index, until=index + 1 + rng.randrange(9))


FITTED: dict[type[Message], Callable[[Any, random.Random], Any]] = {
    Policy: _policy,
    Manifest: _manifest,
    Seat: _seat,
    slot_text.Metadata: _metadata,
    Record: _record,
    EmbedderIdentity: _identity,
    IndexUpdate: _update,
    ProofEntry: lambda made, rng: replace(made, proof=rng.randbytes(PROOF_BYTES * rng.randrange(1, 4))),
    Enrolment: lambda made, rng: replace(made, until=rng.choice((0, made.since + 1)) if made.since < 9 else 0),
    DeclaredIdentity: lambda made, rng: replace(
        made, normalisation=UNIT, quantisation=QUANTISATION, dimension=rng.randrange(1, 999)
    ),
    Exchange: _exchange,
    Work: lambda made, rng: replace(made, inputs=bytes(rng.randrange(256) for _ in range(32 * rng.randrange(1, 4)))),
    WorkResult: lambda made, rng: replace(made, **rng.choice(_RESULTS)),
    AuditVerdict: _verdict,
    VerdictEntry: _verdict,
    Claimed: _claimed,
    Rotation: _rotation,
}
