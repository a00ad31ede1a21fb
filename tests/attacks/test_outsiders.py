# SPDX-License-Identifier: GPL-3.0-or-later
"""Nobody but the provider can make the provider fail.

The property: whatever an account hands in, whatever a stranger between provider and auditor makes of bytes that nobody
signed, and whatever the auditor itself has lost, mistyped or set wrong, an honest window ends in PASS or NO VERDICT and
never in FAIL.  The companion: lies that the provider signed do end in FAIL.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragseal.kernel import signature
from ragseal.kernel.attestation import Answer, Receipt, TextOpening
from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.errors import AuditError, BudgetError, TransportError
from ragseal.kernel.inquiry import Delivery, Refusal
from ragseal.kernel.link_list import SignedLinks
from ragseal.kernel.noise_class import with_noise
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.note import NoteSigner
from ragseal.verifier.audit import verification
from ragseal.verifier.audit.audit import read_receipts
from ragseal.verifier.evidence.evidence import Auditor, ReceiptFile, read_receipt
from ragseal.verifier.steps.sample import Sample
from tests.simulator import GROUP, NOW, ORIGIN, SimulatedEvidence, World, key_of, policy, resign
from tests.simulator.entries import signed_manifest

pytestmark = pytest.mark.slow

EXAMPLES = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck), database=None)


@cache
def honest() -> World:
    """One world for all examples: nothing here changes it."""
    world = World.honest()
    world.remember()
    return world


def outcome(
    evidence: SimulatedEvidence | None = None, auditor: Auditor | None = None, now: int = NOW, **options: Any
) -> verification.Verdict:
    """The audit of the honest window, under whatever was done to it; never a FAIL."""
    world = honest()
    around = verification.Environment(GROUP, now, lambda: 0.0, random.Random(7).randbytes)
    verdict = verification.audit(evidence or SimulatedEvidence(world), auditor or world.auditor(), around, **options)
    assert verdict.verdict in ("PASS", "SAMPLED-PASS", "NO VERDICT"), verdict.line()
    if verdict.obstacle is not None:
        assert verdict.obstacle.way_out
    return verdict


def test_the_window_is_honest() -> None:
    assert outcome(receipts=honest().receipts()).verdict == "PASS"


# --- bytes that were changed -----------------------------------------------------------------------------------------


@st.composite
def spoiled(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A way to change bytes: flipped, cut, extended, replaced."""
    kind = draw(st.sampled_from(["flip", "cut", "extend", "replace", "empty", "swap"]))
    where, bit = draw(st.floats(0, 1, exclude_max=True)), draw(st.integers(0, 7))
    more = draw(st.binary(min_size=1, max_size=40))

    def change(data: bytes) -> bytes:
        at = int(where * len(data))
        if kind == "flip" and data:
            return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        if kind == "swap" and len(data) > 1:
            return data[at:] + data[:at]
        return {"cut": data[:at], "extend": data + more, "replace": more}.get(kind, b"")

    return change


# --- accounts --------------------------------------------------------------------------------------------------------


def _file(data: bytes) -> ReceiptFile | None:
    try:
        return read_receipt("handed-in", data)
    except AuditError:
        return None


@EXAMPLES
@given(number=st.integers(0, 6), change=spoiled(), whole=st.booleans())
def test_changed_receipt_files(number: int, change: Callable[[bytes], bytes], whole: bool) -> None:
    """Any byte of a receipt or an answer; and a file that no longer decodes is not even read."""
    answer = honest().answers[number]
    file = _file(change(answer.encode() if whole else answer.receipt.encode()))
    if file is not None:
        outcome(receipts=[*honest().receipts(), file])


def _parts(answer: Answer, draw: st.DrawFn) -> ReceiptFile:
    """Parts of an account's answers put together anew: everything that decodes."""
    others = honest().answers
    one, two, three = (others[draw(st.integers(0, len(others) - 1))] for _ in range(3))
    slots = list(three.openings.slots)
    slot = draw(st.integers(0, len(slots) - 1))
    content = slots[slot].content
    forged = None if content is None else replace(content, id="forged")
    said = draw(st.sampled_from([content, forged, SlotText("id", "forged", NO_METADATA), None]))
    texts = () if said is None else (TextOpening(said, bytes(32), draw(st.sampled_from([(), slots[0].texts[0].path]))),)
    slots[slot] = replace(slots[slot], flag=draw(st.booleans()), texts=texts)
    openings = replace(three.openings, slots=tuple(slots), t_salt=draw(st.sampled_from([three.openings.t_salt, 5])))
    body = replace(
        answer.receipt.body,
        seq=draw(st.sampled_from([answer.receipt.body.seq, 0, 99])),
        index=draw(st.sampled_from([answer.receipt.body.index, 0, 1 << 40])),
        openings_digest=draw(st.sampled_from([answer.receipt.body.openings_digest, openings.digest()])),
    )
    thief = key_of(draw(st.sampled_from(["thief", "alice", "auditor", "observer"])))
    signed = draw(
        st.sampled_from([answer.receipt.signature, bytes(64), signature.sign(thief, "receipt", body.encode())])
    )
    path = draw(st.sampled_from([answer.receipt.path, (), one.receipt.path, two.receipt.path[::-1]]))
    receipt = Receipt(body, signed, path)
    shown = Answer(one.record, openings, receipt) if draw(st.booleans()) else None
    return ReceiptFile("handed-in", receipt, shown)


@EXAMPLES
@given(data=st.data())
def test_receipts_put_together_from_others(data: st.DataObject) -> None:
    """Whatever signature an account can make, and whatever parts it has seen."""
    answer = honest().answers[data.draw(st.integers(0, 6))]
    file = data.draw(st.composite(lambda draw: _parts(answer, draw))())
    assert outcome(receipts=[*honest().receipts(), file]).verdict == "PASS"


def test_files_of_accounts_that_are_no_receipts_are_listed(tmp_path: Path) -> None:
    (tmp_path / "alice").mkdir()
    (tmp_path / "alice" / "1.receipt").write_bytes(honest().answers[0].receipt.encode())
    for name, data in (("2.receipt", b"nonsense"), ("3.answer", b""), ("4.receipt", honest().manifest.encode())):
        (tmp_path / "alice" / name).write_bytes(data)
    (tmp_path / "alice" / "5.receipt").symlink_to(tmp_path / "alice" / "1.receipt")
    receipts, aside = read_receipts(tmp_path)
    assert [one.name for one in receipts] == ["alice/1.receipt", "alice/5.receipt"]
    assert [one.file for one in aside] == ["alice/2.receipt", "alice/3.answer", "alice/4.receipt"]
    assert outcome(receipts=receipts).verdict == "PASS"


# --- a stranger between provider and auditor -------------------------------------------------------------------------


class Between(SimulatedEvidence):
    """Changes one kind of what is delivered."""

    def __init__(self, call: str, change: Callable[[bytes], bytes], world: World | None = None) -> None:
        super().__init__(world or honest())
        self.call, self.change = call, change

    def checkpoint(self) -> bytes:
        return self._through("checkpoint", super().checkpoint())

    def entries(self, start: int, stop: int) -> list[bytes]:
        return [
            self._through("entries", entry) if number == (stop - start) // 2 else entry
            for number, entry in enumerate(super().entries(start, stop))
        ]

    def manifest(self, window: str) -> bytes:
        return self._through("manifest", super().manifest(window))

    def index_file(self, manifest: bytes, tenant: str) -> bytes:
        return self._through("index_file", super().index_file(manifest, tenant))

    def thinned_file(self, manifest: bytes, tenant: str) -> bytes:
        return self._through("thinned_file", super().thinned_file(manifest, tenant))

    def version_file(self, manifest: bytes, number: int, tenant: str) -> bytes:
        return self._through("version_file", super().version_file(manifest, number, tenant))

    def deliver(self, ask: Any, proof: bytes) -> bytes:
        return self._through(type(ask).__name__, super().deliver(ask, proof))

    def _through(self, call: str, data: bytes) -> bytes:
        return self.change(data) if call == self.call else data


ASKED = ["RegistryAsk", "ProofsAsk", "LinksAsk", "BlocksAsk"]
CALLS = ["checkpoint", "entries", "manifest", "index_file", *ASKED]


@EXAMPLES
@given(call=st.sampled_from(CALLS), change=spoiled())
def test_changed_deliveries(call: str, change: Callable[[bytes], bytes]) -> None:
    outcome(Between(call, change))


@pytest.mark.parametrize("call", ASKED)
def test_deliveries_and_refusals_of_strangers_and_of_other_asks(call: str) -> None:
    """Signed by somebody, or by the provider for another ask: a replay is not an answer."""
    world, thief = honest(), key_of("thief")
    kept: list[bytes] = []
    recorder = Between(call, lambda data: (kept.append(data), data)[1])
    around = verification.Environment(GROUP, NOW, lambda: 0.0, random.Random(99).randbytes)
    assert verification.audit(recorder, world.auditor(), around).verdict == "PASS"
    payload = Delivery.decode(kept[0]).payload
    for data in (
        kept[0],  # of an earlier audit
        Delivery.sign(thief, Delivery.decode(kept[0]).ask, payload).encode(),
        Refusal.sign(thief, Delivery.decode(kept[0]).ask, "no").encode(),
        Delivery.sign(world.auditor_key, bytes(32), payload).encode(),
    ):
        assert outcome(Between(call, lambda _, data=data: data)).verdict == "NO VERDICT"  # type: ignore[misc]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", [TransportError("away"), BudgetError("busy"), AuditError("whatever")])
def test_an_absent_or_busy_peer(call: str, error: AuditError) -> None:
    def fails(data: bytes) -> bytes:
        raise error

    verdict = outcome(Between(call, fails))
    if call != "manifest" or isinstance(error, TransportError):
        assert verdict.verdict == "NO VERDICT"


@EXAMPLES
@given(
    size=st.integers(0, 16),
    remembered=st.integers(0, 16),
    receipts=st.booleans(),
    withheld=st.sampled_from([None, *CALLS[1:]]),
)
def test_old_signed_notes_shown_again(size: int, remembered: int, receipts: bool, withheld: str | None) -> None:
    """Every note that this log ever signed is true and a stranger may have kept it: stale is not forked.

    Nor is anything else wrong with an honest log that is shown only so far, with calls that nobody answers.
    """

    class Old(Between):
        def checkpoint(self) -> bytes:
            return _note(size)

    known = open_checkpoint(_note(remembered), honest().signer.verifier)
    verdict = outcome(
        Old(withheld or "", _silence),
        replace(honest().auditor(), remembered=known),
        receipts=honest().receipts() if receipts else (),
    )
    assert (verdict.verdict == "PASS") == (size == 16 and withheld is None)


def _silence(data: bytes) -> bytes:
    raise TransportError("no answer")


@cache
def _note(size: int) -> bytes:
    """What the log signed when it had so many entries."""
    world = World()
    world.messages = honest().messages[:size]
    return world.checkpoint()


# --- the auditor's own mistakes --------------------------------------------------------------------------------------


def _other_list(signed: bytes) -> bytes:
    """A list that the provider signed for an earlier window: its file was restored under this one's name."""
    links = SignedLinks.decode(signed)
    body = replace(links.body, manifest=b"e" * 32)
    return SignedLinks(body, signature.sign(key_of("window"), "links", body.encode())).encode()


def _unsigned_list(signed: bytes) -> bytes:
    """A list of this window with a link less, that nobody but the auditor's own disk can have made."""
    links = SignedLinks.decode(signed)
    body = replace(links.body, tenants=links.body.tenants[:-1])
    return SignedLinks(body, links.signature).encode()


MISTAKES: dict[str, Callable[[Auditor], Auditor]] = {
    "another log's key": lambda a: replace(a, log_key=NoteSigner("other.example/log", key_of("log")).verifier),
    "another key of that name": lambda a: replace(a, log_key=NoteSigner(ORIGIN, key_of("thief")).verifier),
    "another identity": lambda a: replace(a, identity=signature.public_bytes(key_of("somebody"))),
    "identity that signs as another": lambda a: replace(a, sign=lambda ask: ask.sign(key_of("somebody"))),
    "no nonces": lambda a: replace(a, nonces={}),
    "other nonces": lambda a: replace(a, nonces={name: bytes(32) for name in a.nonces}),
    "nothing released": lambda a: replace(a, released={}),
    "released for others": lambda a: replace(a, released=dict.fromkeys(a.released, bytes(32))),
    "nonces drawn in the future": lambda a: replace(a, drawn=dict.fromkeys(a.nonces, NOW + 10**9)),
    "no keys": lambda a: replace(a, keys={}),
    "keys of another class": lambda a: replace(
        a, keys={name: replace(key, class_digest=bytes(32)) for name, key in a.keys.items()}
    ),
    "keys of the provider": lambda a: replace(
        a, keys={name: replace(key, made_by="provider") for name, key in a.keys.items()}
    ),
    "keys of nobody": lambda a: replace(
        a, keys={name: replace(key, made_by="unknown") for name, key in a.keys.items()}
    ),
    "no key of the estimate": lambda a: replace(a, estimates=()),
    "another key of the estimate": lambda a: replace(a, estimates=[replace(e, digest=bytes(32)) for e in a.estimates]),
    "no classes": lambda a: replace(a, classes={}),
    "another build of the class": lambda a: replace(
        a, classes={name: (cls, bytes(32)) for name, (cls, _) in a.classes.items()}
    ),
    "a class with another bound": lambda a: replace(
        a,
        classes={
            name: (replace(with_noise(cls), a=2 * with_noise(cls).a) if cls.scaled else cls, digest)
            for name, (cls, digest) in a.classes.items()
        },
    ),
    "the whole time": lambda a: replace(a, since=0),
    "a period in the future": lambda a: replace(a, since=1 << 40),
    "damaged first links": lambda a: replace(a, first_links=lambda manifest, signed: b"damaged"),
    "first links that nobody signed": lambda a: replace(a, first_links=lambda manifest, signed: _unsigned_list(signed)),
    "first links of another window": lambda a: replace(a, first_links=lambda manifest, signed: _other_list(signed)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_the_auditor(mistake: str) -> None:
    verdict = outcome(auditor=MISTAKES[mistake](honest().auditor()))
    if mistake not in ("the whole time", "a period in the future", "identity that signs as another"):
        assert verdict.verdict == "NO VERDICT", verdict.line()


@EXAMPLES
@given(
    chosen=st.lists(st.sampled_from(sorted(MISTAKES)), max_size=4),
    now=st.sampled_from([0, NOW - 10**6, NOW - 3000, NOW, NOW + 10**9]),
    window=st.sampled_from(["", "w1", "w2", "W1"]),
    sample=st.sampled_from([None, Sample(1), Sample(99)]),
    withheld=st.sampled_from([None, *CALLS]),
    receipts=st.booleans(),
)
def test_mistakes_together(
    chosen: list[str], now: int, window: str, sample: Sample | None, withheld: str | None, receipts: bool
) -> None:
    """Also with calls that nobody answers: what is checked all the same holds of an honest window."""
    auditor = honest().auditor()
    for name in chosen:
        auditor = MISTAKES[name](auditor)
    evidence = Between(withheld or "", _silence)
    outcome(evidence, auditor, now, window=window, sample=sample, receipts=honest().receipts() if receipts else ())


@pytest.mark.parametrize("stage", ["committed", "open"])
def test_too_early(stage: str) -> None:
    world = World()
    world.enter_manifest()
    if stage == "open":
        world.enter_beacon()
        world.queries()
    for window in ("", "w1"):
        assert world.audit(window=window).verdict == "NO VERDICT"


def test_what_accounts_do_is_not_the_providers_doing() -> None:
    """Three honest users of one FAQ ask alike: this epsilon does not cover them, and nobody lied."""
    world = World()
    world.commit(policy_=policy(k_max=1))
    for account in ("alice", "bob"):
        world.ask(account, e=[90, 90, 0, 0])
    world.close()
    verdict = world.audit()
    assert verdict.line().startswith("NO VERDICT step=9 estimate: 2 accounts ask as one"), verdict.line()


# --- the companion: lies that were signed ----------------------------------------------------------------------------


def _forked() -> verification.Verdict:
    world = World.honest()
    world.remember()
    world.messages[-1] = WindowClose(world.digest, 7, world.messages[-1].time - 60)  # type: ignore[attr-defined]
    return world.audit()


def _two_manifests() -> verification.Verdict:
    world = World.honest()
    other = replace(world.manifest, policy=policy(gain=2))
    world.shown_manifest = signed_manifest(other, world.provider).encode()
    return world.audit()


def _unproven() -> verification.Verdict:
    world = World.honest()
    world.tamper_entry = lambda entry: replace(entry, proof=b"\x01" * 256)
    return world.audit()


def _withheld() -> verification.Verdict:
    world = World.honest()

    class Withholding(SimulatedEvidence):
        def deliver(self, ask: Any, proof: bytes) -> bytes:
            if type(ask).__name__ == "ProofsAsk":
                return Refusal.sign(world.window_key, ask.digest(), "not today").encode()
            return super().deliver(ask, proof)

    around = verification.Environment(GROUP, NOW, lambda: 0.0, random.Random(7).randbytes)
    return verification.audit(Withholding(world), world.auditor(), around)


def _broken_promise() -> verification.Verdict:
    world = World.honest()
    files = world.receipts()
    body = replace(files[0].receipt.body, record_digest=bytes(32))
    return world.audit(receipts=[replace(files[0], receipt=resign(world, files[0].receipt, body), answer=None)])


def _record_dropped() -> verification.Verdict:
    world = World.honest()
    del world.messages[9]
    return world.audit()


def _advertised() -> verification.Verdict:
    return World.honest(policy_=policy(epsilon_account="1/2")).audit()


LIES = {
    1: _forked,
    2: _two_manifests,
    6: _record_dropped,
    7: _broken_promise,
    8: _unproven,
    11: _advertised,
}


@pytest.mark.parametrize("step", LIES)
def test_signed_lies_fail(step: int) -> None:
    """More of them: every @attack of tests/verifier, every ``refused`` of this folder."""
    assert LIES[step]().line().startswith(f"FAIL step={step} ")


def test_withholding_under_signature_fails() -> None:
    assert "withheld" in _withheld().line()
    assert _withheld().verdict == "FAIL"
