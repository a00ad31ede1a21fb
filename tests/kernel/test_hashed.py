# SPDX-License-Identifier: GPL-3.0-or-later
"""Every shared hash and commitment of SPEC A to C against the same computed apart (tests/apart.py).

Prover and verifier call one function for each of these, so a forgotten part would be forgotten on both sides and no
run of the two would tell.  The parts listed here are those of the specification; what the messages hold comes from an
honest window of the verifier's tests.
"""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import replace
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.kernel import (
    attestation,
    beacon,
    certificate,
    commitment,
    field,
    folding,
    link_list,
    mechanism,
    opening,
    proofs,
    signature,
    statement,
    transcript,
)
from ragseal.kernel.attestation import Prepare, Record
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconSeal,
)
from ragseal.kernel.bn254 import PurePythonGroup
from ragseal.kernel.certificate import BlockProof, Scope, make_block
from ragseal.kernel.classes import Asked
from ragseal.kernel.commitment import (
    IndexFile,
    ScoreBases,
)
from ragseal.kernel.decoys.law import elements_of
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AttestationError, ProofError
from ragseal.kernel.estimate import reach_of
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.link_list import LinkList, Listing, TenantLinks
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.opening import Opening
from ragseal.kernel.proofs import BatchItem, ProofEntry, Statement
from ragseal.kernel.slot_text import Metadata, MetadataPair, Number, SlotText
from ragseal.kernel.squarednorm import SquaredNorm
from ragseal.kernel.statements import stated_of
from ragseal.kernel.verdict import AuditVerdict, log_digest
from ragseal.ledger.merkle import MerkleTree
from tests import apart
from tests.apart import be, canonical, element, h, wide
from tests.classes import DECOYS
from tests.simulator import CLS, World
from tests.simulator.claims import claimed

R = apart.ORDER
GROUPS = {"native where it is installed": default_group(), "plain": PurePythonGroup()}
POINTS = [apart.generator(b"hashed", j) for j in range(24)]
RNG = random.Random(15)


@cache
def world() -> World:
    """An honest window."""
    return World.honest()


def records() -> list[Record]:
    return [message for message in world().messages if isinstance(message, Record)]


def digest(name: str) -> bytes:
    """A 32-byte value of its own."""
    return h("test", name.encode())


# --- G ---------------------------------------------------------------------------------------------------------------


def test_tagged_hashes_by_hand() -> None:
    """G.2 with the bytes written out."""
    data = b"\x0cragseal/v1/t" + bytes(7) + b"\x02ab" + bytes(8) + bytes(7) + b"\x01c"
    assert transcript.tagged_hash("t", b"ab", b"", b"c") == hashlib.sha256(data).digest() == h("t", b"ab", b"", b"c")
    assert transcript.tagged_element("t", b"ab") == element("t", b"ab") == int.from_bytes(h("t", b"ab")[:31], "big")
    assert transcript.nonzero_element("t", b"ab") == element("t", b"ab")
    assert transcript.challenge("t", b"ab", b"c") == wide("t", b"ab", b"c")
    assert element("t", b"ab") < 1 << 248
    assert wide("t", b"ab", b"c") >> 248, "a challenge has the field's whole length"


def test_every_message_by_its_codecs() -> None:
    """G.1: each entry of a log, the answers and the deliveries, byte by byte."""
    one = world()
    messages: list[Message] = [*one.messages, *one.answers, *one.files.values(), one.estimator.signed()]
    messages += [one.batch(one.digest, [0, 1]), one.estimator.batch("north", [[0, 1, 2]])]
    for message in messages:
        assert message.encode() == canonical(message), type(message).__name__


def test_signatures_by_purpose() -> None:
    """G.4."""
    key = Ed25519PrivateKey.from_private_bytes(digest("key"))
    assert signature.sign(key, "some purpose", b"body") == key.sign(h("sign/some purpose", b"body"))
    signature.verify(signature.public_bytes(key), "some purpose", b"body", key.sign(h("sign/some purpose", b"body")))


def test_what_is_signed() -> None:
    """The messages that carry a signature, with the purposes that a verifier has to expect."""
    one = world()
    for message in one.messages:
        match type(message).__name__:
            case "SignedManifest":
                manifest = message.manifest  # type: ignore[attr-defined]
                one.provider.public_key().verify(message.signature, h("sign/manifest", canonical(manifest)))  # type: ignore[attr-defined]
            case "BeaconSeal":
                assert isinstance(message, BeaconSeal)
                body = h("beacon-seal-body", message.manifest, *(owner.encode() for owner in message.owners))
                one.window_key.public_key().verify(message.signature, h("sign/beacon-seal", body))
            case "BeaconCommit":
                assert isinstance(message, BeaconCommit)
                parts = (message.manifest, message.owner.encode(), message.public_key, message.commitment)
                assert message.body() == h("beacon-commit-body", *parts)
                signature.verify(
                    message.public_key, "beacon-commit", h("beacon-commit-body", *parts), message.signature
                )
    for answer in one.answers:
        one.window_key.public_key().verify(answer.receipt.signature, h("sign/receipt", canonical(answer.receipt.body)))
    links = one.estimator.signed()
    one.window_key.public_key().verify(links.signature, h("sign/links", canonical(links.body)))


def test_an_auditors_verdict_is_signed_whole() -> None:
    """D.20: window, log, auditor, envelope, word and claim."""
    key = Ed25519PrivateKey.from_private_bytes(digest("auditor"))
    public = signature.public_bytes(key)
    log = log_digest("log+1+AQ==")
    made = AuditVerdict(digest("m"), log, public, digest("e"), "PASS", (claimed("3.5"),), bytes(64)).signed(key)
    assert made.log == hashlib.sha256(b"log+1+AQ==").digest()
    body = h("audit-verdict-body", digest("m"), made.log, public, digest("e"), b"PASS", canonical(claimed("3.5")))
    key.public_key().verify(made.signature, h("sign/audit-verdict", body))
    made.verify()
    for changed in ("manifest", "log", "digest"):
        with pytest.raises(AttestationError):
            replace(made, **{changed: digest("another")}).verify()
    for words in ({"outcome": "SAMPLED-PASS"}, {"claimed": (claimed("0.1"),)}, {"outcome": "FAIL", "claimed": ()}):
        with pytest.raises(AttestationError):
            replace(made, **words).verify()


# --- A ---------------------------------------------------------------------------------------------------------------


def test_digests_of_commitments() -> None:
    manifest = world().manifest
    assert manifest.digest() == h("manifest", canonical(manifest))
    for index in manifest.tenants:
        assert index.digest() == h("index-version", canonical(index))
        file = world().files[index.tenant]
        assert index.columns_digest == file.columns_digest() == h("columns", file.columns)
        assert index.opening_digest == file.opening_digest() == h("columns-opening", canonical(file.opening))


def test_beacon() -> None:
    """A.8: the manifest's digest, then owner and nonce of each in the seal's order."""
    openings = [("provider", digest("a")), ("observer-1", digest("b")), ("auditor", digest("c"))]
    parts = [part for owner, nonce in openings for part in (owner.encode(), nonce)]
    assert beacon.beacon_value(digest("manifest"), openings) == element("beacon", digest("manifest"), *parts)
    assert beacon.beacon_commitment("auditor", digest("c")) == h("beacon-nonce", b"auditor", digest("c"))
    assert beacon.seal_digest(digest("manifest"), openings) == h("beacon-sealed", digest("manifest"), *parts)


def test_columns() -> None:
    """A.3: chi hashes key digest and all C_j."""
    columns = b"".join(POINTS[:4])
    assert commitment.columns_context(digest("key"), columns) == h("columns-context", digest("key"), columns)
    chi = wide("opening/columns/chi", h("columns-context", digest("key"), columns))
    assert commitment.columns_batching_challenge(digest("key"), columns) == chi


@pytest.mark.parametrize("group", GROUPS)
def test_columns_open_under_their_own_key_only(group: str) -> None:
    """An opening made under one key's digest is refused under another's, though every base is the same."""
    bases, count = ScoreBases(b"".join(POINTS[:6]), POINTS[6]), 2
    rows, blinders = [[RNG.randrange(-9, 10) for _ in range(count)] for _ in range(6)], [5, 6]
    columns = b"".join(apart.total(bases.y + bases.b, [*(row[j] for row in rows), blinders[j]]) for j in range(count))

    def made(key: bytes) -> IndexFile:
        chi = wide("opening/columns/chi", h("columns-context", key, columns))
        witness = [sum(x * chi**j for j, x in enumerate(row)) for row in [*rows, blinders]]
        nonces = b"".join(be(RNG.randrange(R)) for _ in witness)
        packed = b"".join(map(be, witness))
        return IndexFile(columns, commitment.prove_columns(GROUPS[group], bases, key, columns, packed, nonces))

    commitment.verify_columns(GROUPS[group], bases, digest("key"), count, made(digest("key")))
    with pytest.raises(ProofError, match="opening does not hold"):
        commitment.verify_columns(GROUPS[group], bases, digest("other"), count, made(digest("key")))


def test_texts_and_registry() -> None:
    """A.4 and A.7."""
    salt = digest("salt")
    pairs = MetadataPair("n", Number(b"\x3f\xf0" + bytes(6))), MetadataPair("s", "v"), MetadataPair("t", True)
    content = SlotText("d1", "text", Metadata(pairs))
    of_pair = b"\x0dmetadata-pair\x00\x01\x00\x00\x00\x01"
    written = (
        b"\x09slot-text\x00\x01\x00\x00\x00\x02d1\x00\x00\x00\x04text\x08metadata\x00\x01\x00\x00\x00\x03"
        + of_pair + b"n\x02\x3f\xf0\x00\x00\x00\x00\x00\x00"
        + of_pair + b"s\x00\x00\x00\x00\x01v"
        + of_pair + b"t\x01\x01"
    )  # fmt: skip
    assert commitment.text_leaf(salt, 258, content) == h("slot-text", salt, b"\x00\x00\x01\x02", b"\x01", written)
    assert commitment.text_leaf(salt, 258, None) == h("slot-text", salt, b"\x00\x00\x01\x02", b"\x00", b"")
    leaves = [canonical(account) for account in world().registry]
    assert commitment.registry_leaves(world().registry) == leaves
    assert world().manifest.registry_root == apart.root(leaves)
    for count in (0, 1, 2, 3, 5, 8, 13):
        entries = [digest(str(i)) for i in range(count)]
        assert MerkleTree(entries).root() == apart.root(entries)


@pytest.mark.parametrize("group", GROUPS)
def test_generators_and_embedding_commitment(group: str) -> None:
    """C_e = sum_j e_j H_j + r H_d over generators of a domain of their own."""
    bases = commitment.generators(GROUPS[group], 5)
    assert bases == b"".join(apart.generator(b"ragseal/v1/embedding-generators", j) for j in range(6))
    e, r = [3, -127, 0, 127, -1], R - 2
    assert commitment.embedding_commitment(GROUPS[group], bases, e, r) == apart.total(bases, [*e, r])


@pytest.mark.parametrize("group", GROUPS)
def test_score_commitments(group: str) -> None:
    """B.3 and B.5: C_y = sum_j e_j C_j + rho B, C_w = gain (C_y - lo sum_i Y_i), and the blinder of C_w."""
    e, rho, columns = [3, -127, 127], RNG.randrange(R), b"".join(POINTS[:3])
    bases = ScoreBases(b"".join(POINTS[3:6]), POINTS[6])
    c_y = apart.total(columns + bases.b, [*e, rho])
    assert attestation.score_commitment(GROUPS[group], columns, bases, e, rho) == c_y
    policy = world().manifest.policy
    sum_y = apart.total(bases.y, [1, 1, 1])
    c_w = apart.total(c_y + bases.y, [policy.gain, *[-policy.gain * policy.lo] * 3])
    assert proofs.shifted_scores(GROUPS[group], [c_y, c_y], sum_y, policy, CLS) == [c_w, c_w]
    total = policy.gain * (3 * 11 - 127 * 12 + 127 * 13 + rho) % R
    assert proofs.total_blinder(policy.gain, e, [11, 12, 13], rho) == total


def test_poseidon_commitments() -> None:
    """A.5, M.6 and the commitment to T, against a Poseidon of this test's own."""
    # circomlib's own vector (test/poseidoncircuit.js): the permutation written out here is Poseidon
    assert apart.poseidon(1, 2) == 7853200120776062878684798364095072458815029376092732009249414926327459813530
    seed, beacon, ctx, salt = (RNG.getrandbits(128), RNG.getrandbits(128)), *(RNG.randrange(R) for _ in range(3))
    assert statement.seed_commitment(seed) == apart.poseidon(1, *seed)
    key = apart.poseidon(2, *seed, beacon, ctx)
    assert mechanism.noise_key(seed, beacon, ctx) == key
    for tag, count, shard in ((3, CLS.N // CLS.q, 0), (4, 20, 0), (3, 33, 5)):
        blocks = range(-(-count // 16))
        drawn = [x for block in blocks for x in apart.permuted([0, key, block + tag * 2**32, shard] + [0] * 13)[1:17]]
        assert wide_elements(key, tag, count, shard) == drawn[:count]
    returned = [statement.Returned(slot, slot % 3 > 0) for slot in sorted(RNG.sample(range(CLS.N), CLS.K))]
    t = [2 * slot + (slot % 3 > 0) for slot in (one.slot for one in returned)]
    width = (CLS.S * CLS.N - 1).bit_length() + 1
    per = 248 // width
    parts = [sum(x << (width * at) for at, x in enumerate(t[j : j + per])) for j in range(0, CLS.K, per)]
    assert stated_of(CLS).lists(salt, returned, 3) == (apart.poseidon(5, salt, *parts),)
    assert statement.pack_returned(CLS, [statement.unpacked(x) for x in range(100)]) == [
        sum(i << (width * at) for at, i in enumerate(range(j, min(j + per, 100)))) for j in range(0, 100, per)
    ]


# --- B ---------------------------------------------------------------------------------------------------------------


def test_digests_of_requests_and_answers() -> None:
    for record in records():
        request = record.signed.request
        assert request.digest() == h("request", canonical(request))
        assert request.ctx() == element("ctx", canonical(request))
        assert record.digest() == h("record", canonical(record))
    for answer in world().answers:
        assert answer.openings.digest() == h("openings", canonical(answer.openings))
        assert answer.receipt.digest() == h("receipt", canonical(answer.receipt))


def test_query_digest() -> None:
    made = Prepare.__new__(Prepare)  # of its fields h_q reads two
    object.__setattr__(made, "salt", digest("salt"))
    object.__setattr__(made, "query", "Größe?")
    assert Prepare.query_digest(made) == h("query", digest("salt"), "Größe?".encode())


STATEMENT = Statement(1, 2, 3, Asked((4,)), (R - 5,))
CLEAR = b"".join(map(be, (1, 2, 3, 4, R - 5)))  #: B.5, in its order


def test_alpha_and_beta() -> None:
    """B.5: key digest, record digest, clear inputs, C_w and the commitments."""
    parts = (digest("key"), digest("record"), CLEAR, POINTS[0], POINTS[1])
    stated = STATEMENT.clear(R - 5, ())
    made = proofs.challenges(digest("key"), digest("record"), stated, POINTS[0], POINTS[1])
    assert made == [element("alpha", *parts), element("beta", *parts)]
    assert stated == STATEMENT.common() == [1, 2, 3, 4, R - 5]
    of_decoys = Statement(1, 2, 3, Asked((4, 5), (8, 9)), (6, 7))
    assert of_decoys.clear(7, (1,)) == [1, 2, 3, 4, 5, 7, 1, 8, 9]
    assert of_decoys.common() == [1, 2, 3, 4, 5, 6, 7]  # the table is the policy's


def items() -> list[BatchItem]:
    """Two records of the window, and proofs of nothing."""
    return [
        BatchItem(
            record=record,
            record_digest=digest(f"record {at}"),
            tenant="north",
            statement=Statement(1, 2, 3 + at, Asked((4,)), (5,)),
            c_w=POINTS[2 * at],
            entry=ProofEntry(
                at, digest(f"record {at}"), POINTS[2 * at + 1], digest(f"proof {at}") * 8, POINTS[20 + at]
            ),
        )
        for at, record in enumerate(records()[:2])
    ]


def test_chi_of_a_batch() -> None:
    """B.7: chi hashes every statement, commitment and Groth16 proof of the batch."""
    parts = [digest("key"), digest("manifest")]
    for at, item in enumerate(items()):
        clear = b"".join(map(be, (1, 2, 3 + at, 4, 5)))
        c_e, c_y = item.record.signed.request.c_e, item.record.c_y
        parts += [digest(f"record {at}"), clear, c_e, c_y]
        parts += [POINTS[2 * at], POINTS[2 * at + 1], POINTS[20 + at], digest(f"proof {at}") * 8]
    context = proofs.batch_context(digest("key"), digest("manifest"), items())
    assert context == h("batch", *parts)
    assert opening.batching_challenge("hints", context) == wide("opening/hints/chi", context)
    index = digest("index version")
    assert proofs.link_context(context, "north", index) == h("link", context, b"north", index)
    assert opening.batching_challenge("link", index) == wide("opening/link/chi", index)
    assert proofs.shard_weight(index) == wide("opening/link/shards", index)


def test_chi_of_a_batch_of_shards() -> None:
    """The commitment to what shards share stands between those of shards and the proofs."""
    (item, *_) = items()
    entry = ProofEntry(0, item.record_digest, b"".join(POINTS[:4]), b"p" * 512, POINTS[5])
    made = replace(item, c_w=POINTS[2] + POINTS[3], entry=entry)
    request, clear = item.record.signed.request, b"".join(map(be, (1, 2, 3, 4, 5)))
    own = [item.record_digest, clear, request.c_e, item.record.c_y, made.c_w, entry.committed, POINTS[5], entry.proof]
    assert proofs.batch_context(digest("key"), digest("manifest"), [made]) == h(
        "batch", digest("key"), digest("manifest"), *own
    )


def test_a_link_over_shards_adds_them_up() -> None:
    """sum_s psi^s of columns and of C_y, point by point; C_e as it is."""
    group, here = default_group(), digest("link")
    psi = proofs.shard_weight(here)
    made = [replace(item, record=replace(item.record, c_y=POINTS[0] + POINTS[1] + POINTS[2])) for item in items()]
    columns = b"".join(POINTS[:6])  # two columns of each of three shards
    left, right = proofs.link_relations(b"".join(POINTS[6:9]), columns, POINTS[9], here, made)
    weights = field.pack([1, psi, psi * psi % R])
    want = b"".join(group.msm(POINTS[j] + POINTS[2 + j] + POINTS[4 + j], weights) for j in range(2))
    assert (left.bases, right.bases) == (b"".join(POINTS[6:9]), columns + POINTS[9])
    assert right.slots == ((0, 2), (0, 2), (0, 2), (3, 4))  # e of every shard; rho, behind r
    assert right.spread(group, 4) == want + bytes(64) + POINTS[9]
    assert right.commitments == (b"".join(POINTS[:3]),) * 2
    twice = group.msm(b"".join(POINTS[:3]), field.pack([3 * x % R for x in (1, psi, psi * psi)]))
    assert opening._combined(group, [right], 2) == [twice]
    for wrong in (columns[:-64], columns[:-128], columns + columns[:128]):
        with pytest.raises(ProofError, match="another number of C_y"):
            proofs.link_relations(b"".join(POINTS[6:9]), wrong, POINTS[9], here, made)


def test_relations_of_commitments() -> None:
    """B.5, B.7: of noise C_h and C_1 with one witness, whose bounds are every fourth hint, and C_v; no other bases."""
    stated = stated_of(CLS)
    each = zip(stated.layout.names, map(math.prod, stated.layout.shapes), strict=True)
    names = [name for name, count in each for _ in range(count)]
    of = dict[str, list[int]]()
    for at, name in enumerate(names):
        of.setdefault(name, []).append(at)

    def points(at: int, count: int) -> bytes:
        return b"".join(be(k, 64) for k in range(at, at + count))

    bases = stated.bases(points, default_group())
    (hints,), thresholds = bases.own, bases.shared
    (b,), size = of["blind"], stated.layout.size
    before, behind = of["w"][-1] + 1, of["scaledBound"][0]
    assert (hints.name, hints.size, behind - before) == ("hints", size + 2, size)
    assert [one.bases for one in hints.over] == [
        points(before, size) + points(b, 1), points(behind, CLS.N) + points(b, 1)
    ]  # fmt: skip
    picked = [[k for start, end in one.entries for k in range(start, end)] for one in hints.over]
    assert picked == [[*range(size + 1)], [*(4 * i + 2 for i in range(CLS.N)), size + 1]]
    assert [names[before + k] for k in picked[1][:-1]] == ["slot"] * CLS.N
    (threshold,) = thresholds.over
    assert (thresholds.name, threshold.entries) == ("thresholds", ((0, 3),))
    assert threshold.bases == points(of["threshold"][0], 1) + points(of["thresholdSlot"][0], 1) + points(b, 1)
    assert stated.scales(7) == (1, 1, 7, 1)
    records = [[(POINTS[0], POINTS[1]), (POINTS[2], POINTS[3])], [(POINTS[4], POINTS[5])]]
    (_, own), (_, last) = bases.relations(records, POINTS[6:8])
    assert [one.commitments for one in own] == [tuple(POINTS[0:6:2]), tuple(POINTS[1:6:2])]
    assert [one.commitments for one in last] == [tuple(POINTS[6:8])]


def test_draws_and_lists_of_decoys() -> None:
    """B.6: outputs of the permutation under the shard's number; a list's length, shard and ids in a chain of hashes."""
    key, salt = RNG.randrange(R), RNG.randrange(R)
    states = ([0, key, block + 9 * 2**32, 2] + [0] * 13 for block in range(2))
    drawn = [x for state in states for x in apart.permuted(state)[1:17]]
    long = replace(DECOYS, N=2000, draws=300, room=900)
    assert elements_of(long, key, 2) == tuple(drawn[: long.elements])
    stated, width = stated_of(long), 12
    own = [sorted(RNG.sample(range(2000), count)) for count in (900, 0, 7)]
    returned = [statement.Returned(2000 * shard + slot, slot % 3 > 0) for shard, one in enumerate(own) for slot in one]
    expected = []
    for shard, one in enumerate(own):
        ids = [2 * slot + (slot % 3 > 0) for slot in one] + [0] * (900 - len(one))
        parts = [sum(x << (width * at) for at, x in enumerate(ids[j : j + 20])) for j in range(0, 900, 20)]
        state = apart.poseidon(10, salt, len(one) + shard * 2**32, *parts[:13])
        for j in range(13, 45, 14):
            state = apart.poseidon(10, state, *parts[j : j + 14])
        expected.append(state)
    assert list(stated.lists(salt, returned, 3)) == expected


def test_challenges_of_an_opening() -> None:
    """B.7: c and every u hash all that came before."""
    combined, announced = [POINTS[0], POINTS[1]], [POINTS[2], POINTS[3]]
    parts = (digest("context"), (45).to_bytes(4, "big"), b"".join(combined), b"".join(announced))
    first = h("opening/test/announced", *parts)
    assert opening._transcript("test", digest("context"), 45, combined, announced) == (
        first,
        wide("opening/test", first),
    )
    after = h("opening/test/fold", first, b"".join(POINTS[4:8]))
    assert folding.advance("test", first, POINTS[4:8]) == (after, element("opening/test/u", after))
    assert opening.batching_challenge("test", digest("context")) == wide("opening/test/chi", digest("context"))
    assert opening.powers(7, 5) == [1, 7, 49, 343, 2401]


def test_relations() -> None:
    """What each opening says of which points: bases, the witness entries they take, and the commitments."""
    made, b = items(), POINTS[9]
    left, right = proofs.link_relations(b"".join(POINTS[:4]), b"".join(POINTS[4:7]), b, b"here", made)
    assert (left.bases, right.bases) == (b"".join(POINTS[:4]), b"".join(POINTS[4:7]) + b)
    assert (left.slots, right.slots) == (((0, 4),), ((0, 3), (4, 5)))  # e and r; e and rho
    assert left.commitments == tuple(item.record.signed.request.c_e for item in made)
    assert right.commitments == tuple(item.record.c_y for item in made)


# --- C ---------------------------------------------------------------------------------------------------------------


def scope() -> Scope:
    policy = world().manifest.policy
    return Scope(
        CLASSES["estimate-6"], digest("key"), digest("manifest"), digest("links"), "north", policy, reach_of([0] * 4, 4)
    )


def test_links() -> None:
    one = TenantLinks("north", 5, link_list.records_digest([digest("a"), digest("b")]), True, bytes(3) + b"\x01" * 5)
    assert one.records_digest == h("estimate-records", digest("a"), digest("b"))
    body = LinkList(digest("manifest"), (one,))
    assert body.digest() == h("link-list", canonical(body))
    assert link_list.pack_links([(1, 258)]) == b"\x00\x00\x00\x01\x00\x00\x01\x02"


def test_challenges_of_a_block() -> None:
    """C.4: r_a hash key digest, manifest, signed list, tenant, policy, ranks, all C_e and C_G."""
    block = make_block(scope(), (0, 2, 3), POINTS[:4], Listing())
    parts = (digest("key"), digest("manifest"), digest("links"), b"north", canonical(scope().policy))
    ranks = b"".join(rank.to_bytes(4, "big") for rank in (0, 2, 3))
    expected = h("estimate-block", *parts, ranks, POINTS[0] + POINTS[2] + POINTS[3], POINTS[5])
    assert certificate.block_digest(scope(), block, POINTS[5]) == expected
    r = [element("estimate-challenge", expected, at.to_bytes(4, "big")) for at in range(3)]
    assert certificate.block_challenges(scope(), block, expected) == [*r, 0, 0, 0]
    assert certificate.norm_context(expected) == h("estimate-norm", expected)


@pytest.mark.parametrize("group", GROUPS)
def test_statement_of_a_block(group: str) -> None:
    """C.5: P = sum_a r_a C_e,a."""
    block = make_block(scope(), (0, 2, 3), POINTS[:4], Listing())
    r = [RNG.randrange(1 << 248) for _ in range(3)]
    made = certificate.norm_statement(
        GROUPS[group], b"".join(POINTS[8:12]), POINTS[12], POINTS[13], block, [*r, 0, 0, 0], POINTS[14]
    )
    assert made.vector == apart.total(POINTS[0] + POINTS[2] + POINTS[3], r)
    assert (made.generators, made.scalar_base, made.blinder_base) == (b"".join(POINTS[8:12]), POINTS[12], POINTS[13])
    assert made.square == POINTS[14]


def test_chi_of_blocks() -> None:
    """C.6: chi hashes every statement, commitment and proof of the delivery."""
    norm = SquaredNorm(POINTS[0], POINTS[1], POINTS[2], bytes(64), 7)
    blocks = [BlockProof(POINTS[3 + at], POINTS[5 + at], norm, digest(str(at)) * 8) for at in range(2)]
    digests = [digest("first"), digest("second")]
    expected = h("estimate-batch", digests[0], canonical(blocks[0]), digests[1], canonical(blocks[1]))
    assert certificate.batch_context(digests, blocks) == expected
    assert certificate.batch_fold(expected) == wide("opening/estimate/chi", expected)
    relation = certificate.batch_relation(b"".join(POINTS[:3]), POINTS[9], [block.c_g for block in blocks])
    assert (relation.bases, relation.slots) == (b"".join(POINTS[:3]) + POINTS[9], ((0, 4),))
    assert relation.commitments == (POINTS[3], POINTS[4])


def test_opening_message() -> None:
    """The largest message of a proof, field by field."""
    made = Opening((POINTS[0],), (POINTS[1], POINTS[2]), (1, R - 1))
    assert made.encode() == canonical(made)
