# SPDX-License-Identifier: GPL-3.0-or-later
"""What prover and verifier share, computed apart from SPEC's text (tests/apart.py) and held against vectors/.

Nothing here is the package's code: bytes of messages are taken apart by hand where a hash needs a part of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from py_ecc import optimized_bn128 as ecc

from tests import apart
from tests.apart import be, element, h, wide
from tests.vectors.reading import Json, all_cases, of

pytestmark = pytest.mark.slow

un = bytes.fromhex
R = apart.ORDER


def number(value: int) -> int | str:
    return value if value < 2**53 else str(value)


def beacon(given: Json) -> Json:
    parts = [part for owner, nonce in given["openings"] for part in (owner.encode(), un(nonce))]
    return {"beacon": number(element("beacon", un(given["manifest"]), *parts))}


def tagged(given: Json) -> Json:
    parts = [un(part) for part in given["parts"]]
    return {
        "digest": h(given["tag"], *parts).hex(),
        "element": number(element(given["tag"], *parts)),
        "challenge": number(wide(given["tag"], *parts)),
    }


def columns(given: Json) -> Json:
    context = h("columns-context", un(given["key_digest"]), un(given["columns"]))
    return {"context": context.hex(), "chi": number(wide("opening/columns/chi", context))}


def _clear(given: list[Any]) -> bytes:
    return b"".join(be(int(x)) for x in given)


def alpha_beta(given: Json) -> Json:
    digests = un(given["key_digest"]), un(given["record_digest"])
    parts = (*digests, _clear(given["clear"]), un(given["c_w"]), un(given["committed"]))
    return {"alpha": number(element("alpha", *parts)), "beta": number(element("beta", *parts))}


def batch(given: Json) -> Json:
    """A record is tag, version, manifest, seq, the signed request, counted points, elements, and 8 + 1 bytes."""
    parts = [un(given["key_digest"]), un(given["manifest"])]
    for item in given["items"]:
        data = un(item["record"])
        request = data[data.index(b"\x07request") :]
        c_e, behind = _c_e(request)
        c_y = _c_y(request[behind:])
        parts += [
            h("record", data),
            _clear(item["clear"]) + _lists(request[behind:]),
            c_e,
            c_y,
            un(item["c_w"]),
            un(item["committed"]),
            un(item["c_v"]),
            un(item["proof"]),
        ]
    context = h("batch", *parts)
    link = h("link", context, given["tenant"].encode(), un(given["index_digest"]))
    return {
        "context": context.hex(),
        "chi": [number(wide(f"opening/{use}/chi", context)) for use in given["uses"]],
        "link_context": link.hex(),
        "link_chi": number(wide("opening/link/chi", link)),
        "psi": number(wide("opening/link/shards", link)),
    }


def equations(given: Json) -> Json:
    """B.5 of every shard; a proof entry is tag, version, seq, digest, points and proofs behind a u16 and a u32, C_v."""
    data, cls, record = un(given["entry"]), given["class"], un(given["record"])
    at = 1 + len("proof-entry") + 2 + 8 + 32
    count, at = int.from_bytes(data[at : at + 2], "big"), at + 2
    points, at = data[at : at + 64 * count], at + 64 * count
    proofs, c_v = data[at + 4 : -64], data[-64:]
    request = record[record.index(b"\x07request") :]
    packed = _lists(request[_c_e(request)[1] :])
    lists = [int.from_bytes(packed[at : at + 32], "big") for at in range(0, len(packed), 32)]
    decoys = cls["law"] == "decoys"
    shards, width, out = len(proofs) // 256, 64 * (5 + cls["chunks"] if decoys else 2), []
    for shard in range(shards):
        committed = points[width * shard : width * (shard + 1)] + c_v
        behind = [lists[shard], shard, *given["table"]] if decoys else [*lists, shard, shards]
        clear = [int(x) for x in (*given["clear"], *behind)]
        c_w = un(given["c_w"])[64 * shard : 64 * (shard + 1)]
        parts = un(given["key_digest"]), h("record", record), _clear(clear), c_w, committed
        drawn = [element("alpha", *parts), element("beta", *parts)]
        proof = proofs[256 * shard : 256 * (shard + 1)].hex()
        whole = [number(x) for x in clear + drawn]
        out.append({"clear": whole, "c_w": c_w.hex(), "committed": committed.hex(), "proof": proof})
    return {"equations": out}


def added_up(given: Json) -> Json:
    points, shards, psi = un(given["points"]), given["shards"], int(given["psi"])
    width = len(points) // shards
    out = []
    for at in range(0, width, 64):
        column = b"".join(points[width * shard + at : width * shard + at + 64] for shard in range(shards))
        out.append(apart.total(column, [pow(psi, shard, R) for shard in range(shards)]))
    return {"points": b"".join(out).hex()}


def _c_y(rest: bytes) -> bytes:
    """A signature, the count of points, and these."""
    return rest[65 : 65 + 64 * rest[64]]


def _lists(rest: bytes) -> bytes:
    """Behind these the elements, before 8 + 1 bytes; several have a byte before them that no element begins with."""
    data = rest[65 + 64 * rest[64] : -9]
    return data[1:] if data[0] >= 0x80 else data


def _c_e(request: bytes) -> tuple[bytes, int]:
    """origin, window (texts), manifest (32), account (text), ctr (4), request id (16), h_q (32), then C_e.

    And where the request ends: index, flag, nonce, last receipt and seal key follow.
    """
    at = 1 + len(b"request") + 2
    for size in (None, None, 32, None, 4, 16, 32):
        at += int.from_bytes(request[at : at + 4], "big") + 4 if size is None else size
    return request[at : at + 64], at + 64 + 32 + 1 + 16 + 32 + 32


def opening(given: Json) -> Json:
    context = un(given["context"])
    sent = [b"".join(un(p) for p in given[name]) for name in ("combined", "announcements")]
    announced = h(f"opening/{given['use']}/announced", context, given["size"].to_bytes(4, "big"), *sent)
    chi, c = wide(f"opening/{given['use']}/chi", context), wide(f"opening/{given['use']}", announced)
    return {"chi": number(chi), "transcript": announced.hex(), "c": number(c)}


def fold_step(given: Json) -> Json:
    after = h(f"opening/{given['use']}/fold", un(given["transcript"]), b"".join(un(p) for p in given["points"]))
    return {"transcript": after.hex(), "u": number(element(f"opening/{given['use']}/u", after))}


def fold(given: Json) -> Json:
    """B.7 over py_ecc's points."""
    z = [int(given["z"][at : at + 64], 16) for at in range(0, len(given["z"]), 64)]
    bases = [[apart.point(un(one[at : at + 128])) for at in range(0, len(one), 128)] for one in given["bases"]]
    transcript, sent = un(given["transcript"]), []
    while len(z) > 8 * len(bases):
        half = (len(z) + 1) // 2
        left, right = z[:half], z[half:]
        round_ = [_sum(g[half:], left[: len(right)]) for g in bases] + [_sum(g[: len(right)], right) for g in bases]
        transcript = h(f"opening/{given['use']}/fold", transcript, b"".join(round_))
        u = element(f"opening/{given['use']}/u", transcript)
        sent += round_
        z = [(a + u * b) % R for a, b in zip(left, [*right, 0], strict=False)]
        bases = [_folded(g, half, u) for g in bases]
    return {"points": [p.hex() for p in sent], "final": b"".join(map(be, z)).hex()}


def _sum(points: list[Any], factors: list[int]) -> bytes:
    out = ecc.Z1
    for point, factor in zip(points, factors, strict=True):
        out = ecc.add(out, ecc.multiply(point, factor))
    return apart.packed(out)


def _folded(points: list[Any], half: int, u: int) -> list[Any]:
    right = [*points[half:], ecc.Z1]
    return [ecc.add(ecc.multiply(p, u), q) for p, q in zip(points[:half], right, strict=False)]


def row_noise(given: Json) -> Json:
    """M.6 by M.4's table, from the classes' parameters N, R, q and m alone; Q counts masses."""
    cls, key = given["class"], int(given["key"])
    n, r, q, m = (cls[name] for name in "NRqm")

    def drawn(tag: int, count: int) -> list[int]:
        states = [apart.permuted([0, key, block + tag * 2**32, *[0] * 14])[1:17] for block in range(-(-count // 16))]
        return [x for state in states for x in state][:count]

    elements = drawn(3, n // q)
    u = [x >> m * j & (1 << m) - 1 for x in elements for j in range(q)]
    masses = apart_masses(cls["law"])
    bounds = {one: _quantile(masses, (one + 1 << 112 - m) - 1) for one in set(u)}
    fine = [x >> (112 - m) * half & (1 << 112 - m) - 1 for x in drawn(4, r // 2) for half in range(2)]
    return {
        "elements": [number(x) for x in elements],
        "u": u,
        "bounds": [bounds[one] for one in u],
        "fine": [number(x) for x in fine],
    }


def apart_masses(law: str) -> list[int]:
    """p(-C) .. p(C): a constant of the protocol, which M.4's digest names."""
    text = all_cases()[f"noise-tables/{law}-masses"]["expected"]["half"]
    half = [int(text[at : at + 28], 16) for at in range(0, len(text), 28)]
    data = b"\x13ragseal.noise-table\x00\x01" + bytes([len(law)]) + law.encode() + b"\x00\x70"
    data += (len(half) - 1).to_bytes(4, "big") + un(text)
    stated = all_cases()[f"noise-tables/{law}"]["expected"]["digest"]
    assert hashlib.sha256(data).hexdigest() == stated
    below = half[:0:-1]
    if law == "gaussian-512":
        assert stated == all_cases()[f"accounting/table-{law}"]["expected"]["digest"]
    assert sum(below) + sum(half) == 1 << 112
    return [*below, *half]


def _quantile(masses: list[int], uniform: int) -> int:
    total = 0
    for at, mass in enumerate(masses):
        total += mass
        if uniform < total:
            return at - len(masses) // 2
    raise AssertionError("a uniform beyond 2^112")


def block(given: Json) -> Json:
    parts = [un(given[name]) for name in ("key_digest", "manifest", "links_digest")]
    ranks = b"".join(rank.to_bytes(4, "big") for rank in given["ranks"])
    points = b"".join(un(given["c_e"][rank]) for rank in given["ranks"])
    policy = un(given["policy"])
    digest = h("estimate-block", *parts, given["tenant"].encode(), policy, ranks, points, un(given["c_g"]))
    held = len(given["ranks"])
    r = [element("estimate-challenge", digest, at.to_bytes(4, "big")) for at in range(held)] + [0] * (6 - held)
    return {"digest": digest.hex(), "r": [number(x) for x in r], "norm_context": h("estimate-norm", digest).hex()}


def blocks_chi(given: Json) -> Json:
    parts = [un(one) for pair in zip(given["digests"], given["blocks"], strict=True) for one in pair]
    context = h("estimate-batch", *parts)
    return {"context": context.hex(), "chi": number(wide("opening/estimate/chi", context))}


def sampled_records(given: Json) -> Json:
    seed = h("audit-sample", *(un(given[name]) for name in ("nonce", "root", "manifest")))
    tenants: dict[str, list[int]] = {}
    for seq, tenant in given["records"]:
        tenants.setdefault(tenant, []).append(seq)
    total, size = len(given["records"]), given["size"]
    share = {name: min(len(own), max(1, size * len(own) // total)) for name, own in tenants.items()}
    assert sum(share.values()) >= size, "in these vectors rounding leaves nothing over"
    drawn = []
    for name, own in tenants.items():
        drawn += sorted(own, key=lambda seq: h("audit-draw", seed, seq.to_bytes(8, "big")))[: share[name]]
    return {"seqs": sorted(drawn)}


def sampled_blocks(given: Json) -> Json:
    records, n = given["records"], given["n"]
    seed = h("estimate-sample", *(un(part) for part in given["seed_parts"]))
    segments = max(1, records // max(given["tau"], n))
    bounds = [i * records // segments for i in range(segments + 1)]
    runs = [range(a, c) for a, c in zip(bounds, bounds[2:], strict=False)] or [range(records)]
    used = 0

    def below(limit: int) -> int:
        nonlocal used
        used += 1
        return int(h("estimate-draw", seed, used.to_bytes(8, "big")).hex(), 16) % limit

    out = []
    for _ in range(given["count"]):
        run, chosen = runs[below(len(runs))], set[int]()
        for last in range(len(run) - min(n, len(run)), len(run)):
            at = below(last + 1)
            chosen.add(last if at in chosen else at)
        out.append(sorted(run[at] for at in chosen))
    return {"seed": seed.hex(), "blocks": out}


def poseidon(given: Json) -> Json:
    values = [int(given["inputs"][at : at + 64], 16) for at in range(0, len(given["inputs"]), 64)]
    return {"hash": be(apart.poseidon(*values)).hex()}


def permutation(given: Json) -> Json:
    state = [int(given["state"][at : at + 64], 16) for at in range(0, len(given["state"]), 64)]
    return {"state": b"".join(map(be, apart.permuted(state))).hex()}


def lists(given: Json) -> Json:
    """B.6.5."""
    cls, salt, decoys = given["class"], int(given["salt"]), given["class"]["law"] == "decoys"
    width = ((1 if decoys else cls["S"]) * cls["N"] - 1).bit_length() + 1

    def packed(t: list[int]) -> list[int]:
        per = 248 // width
        return [sum(x << width * j for j, x in enumerate(t[at : at + per])) for at in range(0, len(t), per)]

    every = list(zip(given["ids"], given["flags"], strict=True))
    if not decoys:
        return {"t_commits": [number(apart.poseidon(5, salt, *packed([2 * i + flag for i, flag in every])))]}
    out = []
    for shard in range(given["shards"]):
        own = [2 * (i % cls["N"]) + flag for i, flag in every if i // cls["N"] == shard]
        parts = packed(own + [0] * (cls["room"] - len(own)))
        state = apart.poseidon(10, salt, len(own) + shard * 2**32, *parts[:13])
        for at in range(13, len(parts), 14):
            state = apart.poseidon(10, state, *parts[at : at + 14])
        out.append(number(state))
    return {"t_commits": out}


def draws(given: Json) -> Json:
    """M.4.1: Poisson's masses in fractions, cut where 2^-64 is left, rounded down, and the rest to the largest one."""
    L, mean = given["id_bits"], Fraction(given["decoy_rate"], 1 << 16)
    bits = -(-64 // L) * L
    weight, left, weights = Fraction(1), _exponential(mean), list[Fraction]()
    while not weights or left > _exponential(mean) / 2**64:
        weights.append(weight)
        left -= weight
        weight = weight * mean / len(weights)
    masses = [int(one * 2**bits / sum(weights)) for one in weights]
    masses[masses.index(max(masses))] += 2**bits - sum(masses)
    rows = [sum(masses[: j + 1]) for j in range(len(masses))]
    return {"draws": len(masses) - 1, "bits": bits, "rows": [number(x) for x in rows]}


def _exponential(x: Fraction) -> Fraction:
    """e^x to 2^-200 of itself."""
    total, term, k = Fraction(0), Fraction(1), 0
    while k <= x or term * 2**200 > total:
        total, k = total + term, k + 1
        term = term * x / k
    return total


def chosen(given: Json) -> Json:
    """M.5.3: what is drawn, and the best others, by sorting."""
    cls, lo, rows = given["class"], given["lo"], draws({**given, "id_bits": (given["class"]["N"] - 1).bit_length()})
    N, L, key = cls["N"], (cls["N"] - 1).bit_length(), int(given["key"])
    u, per, per_list = -(-64 // L), 208 // L, [list[int]() for _ in given["y"]]
    numbers, y = list[int](), [x for own in given["y"] for x in own]
    for shard in range(len(given["y"])):
        outputs = [x for block in range(-(-(u + cls["draws"]) // (per * 16)))
                   for x in apart.permuted([0, key, block + 9 * 2**32, shard] + [0] * 13)[1:17]]  # fmt: skip
        ids = [(x >> L * j) % 2**L for x in outputs for j in range(per)]
        uniform = sum(x << L * j for j, x in enumerate(ids[:u]))
        numbers.append(sum(uniform >= int(row) for row in rows["rows"]))
        per_list[shard] = sorted({one for one in ids[u : u + numbers[-1]] if one < N})
    taken = {N * shard + one for shard, own in enumerate(per_list) for one in own}
    best = sorted((-y[i], i) for i in range(len(y)) if y[i] > lo and i not in taken)
    results = [i for _, i in best[: max(0, given["ids"] - len(taken))]]
    T = sorted(taken | set(results))
    short, over = len(T) < given["ids"], len(T) > given["ids"]
    slot = results[-1] if results and not short else len(y) - 1
    beyond = max([lo + 1, *(y[i] + 1 for i in range(len(y)) if i not in T)])
    threshold = lo + 1 if short else y[slot] if results else beyond
    return {"draws": numbers, "drawn": per_list, "ids": T, "flags": [y[i] > lo for i in T], "short": short,
            "over": over, "threshold": threshold, "threshold_slot": slot}  # fmt: skip


def _halves(seed: str) -> tuple[int, int]:
    return int(seed[:32], 16), int(seed[32:], 16)


def score(given: Json) -> Json:
    """lo and gain stand in the policy behind name, two digests, dimension, claim and coin."""
    c_y = apart.total(un(given["columns"] + given["b"]), [*given["e"], int(given["rho"])])
    policy = un(given["policy"])
    at = 1 + len(b"policy") + 2
    at += 4 + int.from_bytes(policy[at : at + 4], "big") + 64 + 4
    at += 4 + int.from_bytes(policy[at : at + 4], "big") + 4
    lo, gain = int.from_bytes(policy[at : at + 4], "big"), int.from_bytes(policy[at + 8 : at + 12], "big")
    rows = len(given["y"]) // 128
    c_w = apart.total(c_y + un(given["y"]), [gain, *[-gain * lo] * rows])
    return {"c_y": c_y.hex(), "c_w": c_w.hex()}


def embedding(given: Json) -> Json:
    bases = b"".join(apart.generator(b"ragseal/v1/embedding-generators", j) for j in range(len(given["e"]) + 1))
    return {"c_e": apart.total(bases, [*given["e"], int(given["blinder"])]).hex()}


def text_leaf(given: Json) -> Json:
    content = given["content"]
    present, data = (b"\x00", b"") if content is None else (b"\x01", un(content))
    return {"leaf": h("slot-text", un(given["salt"]), be(given["slot"], 4), present, data).hex()}


def generators(given: Json) -> Json:
    made = [apart.generator(given["domain"].encode(), j) for j in range(given["count"])]
    return {"points": b"".join(made).hex()}


#: Whatever prover and verifier compute by one function, a second time.
APART: dict[str, Callable[[Json], Json]] = {
    "tagged-hash": tagged,
    "message-digest": lambda g: {"digest": h(label_of(g["tag"]), un(g["bytes"])).hex()},
    "beacon": beacon,
    "beacon-commitment": lambda g: {"commitment": h("beacon-nonce", g["owner"].encode(), un(g["nonce"])).hex()},
    "ctx": lambda g: {"ctx": number(element("ctx", un(g["request"])))},
    "columns-digest": lambda g: {"digest": h("columns", un(g["columns"])).hex()},
    "columns-chi": columns,
    "alpha-beta": alpha_beta,
    "batch-chi": batch,
    "proof-equations": equations,
    "added-up": added_up,
    "opening-challenges": opening,
    "fold-challenge": fold_step,
    "fold": fold,
    "block": block,
    "blocks-chi": blocks_chi,
    "records-digest": lambda g: {"digest": h("estimate-records", *map(un, g["records"])).hex()},
    "sampled-records": sampled_records,
    "sampled-blocks": sampled_blocks,
    "merkle-root": lambda g: {"root": apart.root([un(entry) for entry in g["entries"]]).hex()},
    "poseidon": poseidon,
    "poseidon-permutation": permutation,
    "seed-commitment": lambda g: {"c_seed": number(apart.poseidon(1, *_halves(g["seed"])))},
    "noise-key": lambda g: {"key": number(apart.poseidon(2, *_halves(g["seed"]), int(g["beacon"]), int(g["ctx"])))},
    "list-commitments": lists,
    "draw-table": draws,
    "select-decoys": chosen,
    "row-noise": row_noise,
    "score-commitment": score,
    "embedding-commitment": embedding,
    "text-leaf": text_leaf,
    "generators": generators,
    "verifying-key": lambda g: {"digest": hashlib.sha256(un(g["bytes"])).hexdigest()},
    "msm": lambda g: {"point": apart.total(un(g["points"]), _numbers(g["scalars"])).hex()},
}

LABELS = {"tenant-index": "index-version", "folded-opening": "columns-opening", "registry-ask": "ask",
          "proofs-ask": "ask", "links-ask": "ask", "blocks-ask": "ask"}  # fmt: skip


def label_of(tag: str) -> str:
    """The hash's tag is the message's but for these."""
    return LABELS.get(tag, tag)


def _numbers(packed: str) -> list[int]:
    return [int(packed[at : at + 64], 16) for at in range(0, len(packed), 64)]


@pytest.mark.parametrize("path", of(*APART))
def test_what_is_shared_is_computed_apart(path: str) -> None:
    case = all_cases()[path]
    found = APART[case["operation"]](case["input"])
    assert found
    assert {name: case["expected"][name] for name in found} == found


@pytest.mark.parametrize("path", of(*APART, kind="claimed"))
def test_what_is_claimed_is_not_what_is_computed_apart(path: str) -> None:
    case = all_cases()[path]
    found = APART[case["operation"]](case["input"])
    assert case["claimed"].keys() <= found.keys()
    assert all(found[name] != value for name, value in case["claimed"].items())


def test_every_shared_function_is_here() -> None:
    """The beacon, ctx and every challenge, and what they hash."""
    shared = {case["operation"] for path, case in all_cases().items() if path.startswith(("challenges/", "beacon/"))}
    assert shared <= APART.keys()


@pytest.mark.parametrize("path", of("signature", "signed-message"))
def test_signatures_by_the_library(path: str) -> None:
    """G.4: Ed25519 over H("sign/<purpose>", body)."""
    case = all_cases()[path]
    given = {**case["input"], **case["expected"]}
    data = un(given.get("bytes", ""))
    proofs = [un(given["signature"])] if "signature" in given else [data[at : at + 64] for at in range(len(data) - 63)]
    key = Ed25519PublicKey.from_public_bytes(un(given["public_key"]))
    signed = h(f"sign/{given['purpose']}", un(given["body"]))
    assert any(_holds(key, proof, signed) for proof in proofs[-400:]), "no 64 bytes of the message are its signature"


def _holds(key: Ed25519PublicKey, proof: bytes, signed: bytes) -> bool:
    try:
        key.verify(proof, signed)
    except InvalidSignature:
        return False
    return True


@pytest.mark.parametrize("path", of("unseal"))
def test_sealed_text_by_the_library(path: str) -> None:
    given, output = all_cases()[path]["input"], all_cases()[path]["expected"]
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    private = X25519PrivateKey.from_private_bytes(un(given["private_key"]))
    assert suite.decrypt(un(given["sealed"]), private, un(given["info"])) == un(output["plaintext"])
