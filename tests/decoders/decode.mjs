// SPDX-License-Identifier: GPL-3.0-or-later
// A second decoder of the canonical messages, written from the specification (G.1, G.3, A, B) and the tables of fields below.
// It shares nothing with the Python one: no code, no generated schema.
//
// Reads lines "TAG HEX" on standard input; answers each with one line of JSON: {"ok": message} or {"error": text}.
// A message is {"tag": TAG, "fields": [...]}; integers are decimal text, bytes hexadecimal, lists arrays.

import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const VERSION = 1;
export const R = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;

export class Refusal extends Error {}

export const refuse = (why) => {
  throw new Refusal(why);
};

// --- field types: (cursor) -> value ------------------------------------------------------------------------------

export class Cursor {
  constructor(data) {
    this.data = data;
    this.at = 0;
  }
  take(count) {
    if (this.data.length - this.at < count) refuse("truncated");
    this.at += count;
    return this.data.subarray(this.at - count, this.at);
  }
  number(width) {
    let value = 0n;
    for (const byte of this.take(width)) value = (value << 8n) | BigInt(byte);
    return value;
  }
}

const hex = (bytes) => Buffer.from(bytes).toString("hex");

const unsigned = (width) => (cursor) => cursor.number(width).toString();
const signed = (width) => (cursor) => BigInt.asIntN(8 * width, cursor.number(width)).toString();
const flag = (cursor) => {
  const byte = cursor.number(1);
  if (byte > 1n) refuse("a flag is 0 or 1");
  return byte === 1n;
};
const fixed = (size) => (cursor) => hex(cursor.take(size));
const bytes = (cursor, limit) => {
  const size = cursor.number(4);
  if (size > BigInt(limit)) refuse("oversized");
  return cursor.take(Number(size));
};
const blob = (limit) => (cursor) => hex(bytes(cursor, limit));
const text = (limit) => (cursor) => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes(cursor, limit));
  } catch (error) {
    if (error instanceof Refusal) throw error;
    return refuse("not UTF-8");
  }
};
const characters = (least, most) => (cursor) => {
  const value = text(4 * most)(cursor);
  const count = [...value].length;
  if (count < least || count > most) refuse("too few or too many characters");
  return value;
};
const metadataValue = (cursor) => {
  const kind = cursor.number(1);
  if (kind === 0n) return characters(0, 512)(cursor);
  if (kind === 1n) return flag(cursor);
  if (kind !== 2n) refuse("text, boolean or number");
  const data = Buffer.from(cursor.take(8));
  const value = data.readDoubleBE();
  if (!Number.isFinite(value) || Object.is(value, -0)) refuse("a finite number, and one zero");
  return { tag: "number", fields: [hex(data)] };
};
const plain = (limit) => (cursor) => {
  const value = text(limit)(cursor);
  if (!/^[!-~]+$/.test(value)) refuse("identifiers are printable ASCII without spaces, not empty");
  return value;
};
const element = (cursor) => {
  const value = cursor.number(32);
  if (value >= R) refuse("not below r");
  return value.toString();
};
const list = (item, limit) => (cursor) => {
  const count = cursor.number(4);
  if (count > BigInt(limit)) refuse("oversized");
  const out = [];
  for (let i = 0n; i < count; i++) out.push(item(cursor));
  return out;
};
const points = (limit) => (cursor) => {
  const count = cursor.number(limit < 256 ? 1 : 2);
  if (count < 1n || count > BigInt(limit)) refuse("another number of points");
  return hex(cursor.take(64 * Number(count)));
};
const elements = (limit) => (cursor) => {
  const first = cursor.data[cursor.at];
  if (first === undefined || first < 0x80) return [element(cursor)];
  const count = Number(cursor.number(1)) - 0x80;
  if (count < 2 || count > limit) refuse("another number of elements");
  return Array.from({ length: count }, () => element(cursor));
};
const message = (tag) => (cursor) => decode(tag, cursor);

const u8 = unsigned(1);
const u16 = unsigned(2);
const u32 = unsigned(4);
const u64 = unsigned(8);
const i32 = signed(4);
const hash = fixed(32);
const point = fixed(64);
const signature = fixed(64);
// Curve25519 and Ed25519 are one curve, u = (1 + y) / (1 - y).  A point (X : Z) of order 1, 2, 4 or 8 is the neutral one,
// Z = 0, after three doublings (RFC 7748, A = 486662); nothing here is a list that was copied.
export const P = (1n << 255n) - 19n;
export const littleEndian = (data) => BigInt(`0x${hex(Uint8Array.from(data).reverse())}`);
export const withoutSign = (number) => number & ((1n << 255n) - 1n);
export const smallOrder = (x, z) => {
  for (let i = 0; i < 3; i++) {
    const [square, product] = [x * x - z * z, x * z];
    [x, z] = [(square * square) % P, (4n * product * (x * x + 486662n * product + z * z)) % P];
  }
  return z === 0n;
};
const publicKey = (cursor) => {
  const data = cursor.take(32);
  const y = withoutSign(littleEndian(data));
  if (y >= P) refuse("a public key is canonical");
  if (smallOrder(1n + y, 1n - y)) refuse("a public key is no point of small order");
  return hex(data);
};
const name = plain(128);

// --- what fields must say together -------------------------------------------------------------------------------

const gcd = (a, b) => (b === 0n ? a : gcd(b, a % b));

/** [numerator, denominator] of a rational in lowest terms, as text. */
const rational = (value) => {
  const match = /^(-?)(0|[1-9][0-9]*)(?:\/([1-9][0-9]*))?$/.exec(value);
  if (!match) refuse("no rational in lowest terms");
  const top = BigInt(match[2]);
  const bottom = match[3] === undefined ? 1n : BigInt(match[3]);
  if (match[3] === "1" || gcd(top, bottom) !== 1n || (match[1] && top === 0n)) refuse("not in lowest terms");
  return [match[1] ? -top : top, bottom];
};

const DIMENSIONS = 4096;
const SHARDS = 64;
const PROOF = 256;
const SIDES = 3;

/** Names of a list's messages that come in increasing order, at least one. */
const increasing = (names) => {
  if (names.length === 0) refuse("no tenant");
  for (let i = 1; i < names.length; i++) if (!(names[i - 1] < names[i])) refuse("tenants are sorted and distinct");
};

const WORD = ["late", "filter", "histograms", "texts", "vocabulary", "embeddings", "neighbours"];

function verdict(outcome, claimed) {
  const passed = outcome === "PASS" || outcome === "SAMPLED-PASS";
  if (!passed && outcome !== "FAIL" && outcome !== "NO-VERDICT") refuse("one of four outcomes");
  if (claimed.length > 0 !== passed) refuse("a pass claims something, and nothing else does");
  const claims = claimed.map((one) => one.fields[0]), tenants = claimed.flatMap((one) => one.fields[10]);
  if (claimed.length < 2 ? tenants.length > 0 : claims.join() !== LADDER.filter((one) => claims.includes(one)).join()) {
    refuse("the weakest claim first, each once, and one alone is of every tenant");
  }
  if (claimed.length > 1 && (claimed.some((one) => !one.fields[10].length) || new Set(tenants).size < tenants.length)) {
    refuse("each of several claims names its tenants, and a tenant has one claim");
  }
}

/** Claims that tenants of one window may have beside each other, the weakest first. */
const LADDER = ["exact", "unseen", "until-delivered"];

function claimed([claim, epsilon, back, delta, coalition, queries, from, leftOut, whole, word, tenants]) {
  if (tenants.length > 0) increasing(tenants);
  const bound = /^(inf|(0|[1-9][0-9]{0,14})(\.[0-9]{1,12})?(e[+-][0-9]{2,3})?)$/;
  const ordered = WORD.filter((one) => word.includes(one));
  if (ordered.length !== word.length || ordered.some((one, at) => one !== word[at])) refuse("words in order, each once");
  if (!["every-list", "until-delivered", "answers", "unseen", "exact"].includes(claim)) refuse("an unknown claim");
  if (claim === "exact") {
    if ([epsilon, delta, coalition, queries].some((one) => one !== "none")) refuse("a number of what bounds nothing");
    if (back !== "" || whole !== "" || BigInt(from) !== 0n || BigInt(leftOut) !== 0n) refuse("more than nothing");
    if (word.some((one) => one !== "embeddings")) refuse("a word that nothing rests on");
    return;
  }
  if (claim === "unseen" && (back !== "inf" || delta !== "0")) refuse("neither return nor delta without decoys");
  if (!bound.test(epsilon) || !bound.test(delta)) refuse("bounds are plain numbers or inf");
  if (claim === "until-delivered" || claim === "unseen" ? !bound.test(back) : back !== "") refuse("a return goes with until-delivered");
  const counts = claim === "every-list";
  for (const one of [coalition, queries]) {
    if (counts ? !/^[1-9][0-9]{0,19}$/.test(one) : one !== "any") refuse("whom it holds against");
  }
  if (BigInt(from) % 60n !== 0n || BigInt(from) > 253402300740n) refuse("a period begins with a minute");
  if ((BigInt(leftOut) > 0n) !== (whole !== "")) refuse("the whole log and what was left out go together");
  if (whole !== "" && whole !== "unknown" && !bound.test(whole)) refuse("the whole log's epsilon");
}

const sealKey = (key) => {
  const u = littleEndian(Buffer.from(key, "hex"));
  if (u >= P || smallOrder(u, 1n)) refuse("nothing can be sealed to a key of small order, or in a second form");
};

const rules = {
  "audit-verdict": (f) => verdict(f[4], f[5]),
  "verdict-entry": (f) => verdict(f[6], f[7]),
  claimed,
  policy(f) {
    const [, , , dimension, claim, hidden, lo, hi, gain, nMax, kMax, delta, epsilon, theta, tau, gate, unit] = f;
    const [chunks, start, opens, closes, every, guard, rho, formula] = f.slice(17);
    const [vocabulary, words, participations, similarity, shards, by, , rate, , seconds] = f.slice(25);
    const within = ([top, bottom], most) => top > 0n && (most ? top <= bottom : top < bottom);
    const plain = claim === "unseen" || claim === "exact";
    if (plain ? delta !== (claim === "exact" ? "none" : "0") || BigInt(rate) !== 0n : !within(rational(delta), false)) refuse("delta");
    if (claim === "exact") {
      if (epsilon !== "none" || BigInt(kMax) !== 1n || gate || BigInt(chunks) !== 1n) refuse("what means nothing");
      if (guard !== "off" || BigInt(start) !== BigInt(opens)) refuse("what means nothing");
    } else if (rational(epsilon)[0] <= 0n) refuse("epsilon");
    const coin = BigInt(hidden);
    if (claim === "until-delivered" || claim === "unseen") {
      if (coin < 1n || coin > 255n) refuse("coin");
    } else if (coin !== 0n || !(claim === "answers" || claim === "exact" || (claim === "every-list" && gate))) {
      refuse("claim");
    }
    const said = [!/^0*$/u.test(vocabulary), ...[words, participations, similarity].map((value) => BigInt(value) > 0n)];
    if (said.some((one) => one !== (claim === "answers"))) refuse("vocabulary");
    if (claim === "answers" ? BigInt(by) < 1n || BigInt(by) > 300n : BigInt(by) !== 0n) refuse("answered_by");
    if (claim === "answers" && BigInt(every) !== 0n && BigInt(by) + 60n > BigInt(every)) {
      refuse("answered_by above version_every - 60");
    }
    if (BigInt(opens) + BigInt(by) > BigInt(closes)) refuse("answered_by is longer than the window");
    if (claim === "answers" && BigInt(lo) !== 0n) refuse("counts begin at 0");
    if (!within(rational(theta), true)) refuse("theta");
    if (BigInt(lo) < 0n || BigInt(lo) >= BigInt(hi)) refuse("score window");
    if ([gain, nMax, kMax, tau, chunks].some((value) => BigInt(value) < 1n)) refuse("at least 1");
    if (BigInt(seconds) % 60n !== 0n || BigInt(seconds) > 366n * 86400n) refuse("tau_time");
    if (BigInt(dimension) < 1n || BigInt(dimension) > BigInt(DIMENSIONS)) refuse("dimension");
    if (BigInt(shards) < 1n || BigInt(shards) > BigInt(SHARDS)) refuse("shards");
    if (unit !== "slot") refuse("unit");
    const tick = BigInt(every);
    if (tick !== 0n && (tick % 60n !== 0n || tick > 86400n)) refuse("version_every");
    const about = rational(rho);
    if (guard === "off") {
      if (rho !== "0" || formula !== "none") refuse("no guard");
    } else if (guard !== "returned" || !within(about, false) || !["precise", "paper"].includes(formula)) refuse("guard");
    if (!(BigInt(start) <= BigInt(opens) && BigInt(opens) < BigInt(closes))) refuse("times");
    if (BigInt(closes) - BigInt(opens) > 366n * 86400n) refuse("length");
  },
  thinning(f) {
    increasing(f[1].map((tenant) => tenant.fields[0]));
  },
  "index-update"(f) {
    increasing(f[3].map((line) => line.fields[0]));
    if (BigInt(f[1]) < 1n) refuse("updates are counted from 1");
  },
  enrolment(f) {
    if (BigInt(f[3]) !== 0n && BigInt(f[3]) <= BigInt(f[2])) refuse("an account leaves after it came");
  },
  manifest(f) {
    const [, , , policy, , , tenants] = f;
    if (["until-delivered", "unseen"].includes(policy.fields[4]) !== (f[14].length === 1)) refuse("a coin and its claim");
    increasing(tenants.map((tenant) => tenant.fields[0]));
    if (tenants.some((tenant) => tenant.fields[1] !== policy.fields[3])) refuse("dimension");
    const lower = LADDER.slice(0, Math.max(0, LADDER.indexOf(policy.fields[4])));
    const own = tenants.map((tenant) => tenant.fields[5]);
    if (own.some((claim) => claim !== "" && !lower.includes(claim))) refuse("a claim that is none below the policy's");
    if (!own.includes("")) refuse("no tenant has the policy's claim");
    const owners = f[13].map((seat) => seat.fields[0]), keys = f[13].map((seat) => seat.fields[1]);
    if (!owners.length || new Set(owners).size < owners.length) refuse("auditors, each by a name of its own");
    if (new Set(keys).size < keys.length) refuse("auditors, each with a key of its own");
    if (keys.includes(f[10]) || keys.includes(f[11])) refuse("the provider is not its own auditor");
    if (f[11] === f[10]) refuse("a window has a key of its own");
  },
  "auditor-seat"(f) {
    if (f[0] !== "auditor" && !/^auditor-./u.test(f[0])) refuse("an auditor's name");
  },
  metadata(f) {
    const keys = f[0].map((pair) => Buffer.from(pair.fields[0], "utf8"));
    for (let i = 1; i < keys.length; i++) if (Buffer.compare(keys[i - 1], keys[i]) >= 0) refuse("unsorted metadata");
  },
  request: (f) => sealKey(f[12]),
  "answer-ask": (f) => sealKey(f[3]),
  record(f) {
    const [manifest, , { fields: [request] }, , , time, mode] = f;
    if (BigInt(time) % 60n !== 0n) refuse("time");
    if (BigInt(mode) > 1n) refuse("mode");
    if (request.fields[2] !== manifest) refuse("request of another window");
  },
  "proof-entry"(f) {
    if (f[3].length === 0 || f[3].length % (2 * PROOF)) refuse("whole proofs, one at least");
  },
  embedder(f) {
    const [, , , , tokens, , , dimension, quantisation] = f;
    if (quantisation !== "int8/127/half-even") refuse("quantisation");
    if (BigInt(dimension) < 1n || BigInt(dimension) > 65535n || BigInt(tokens) < 1n) refuse("dimension");
  },
  "declared-embedder"(f) {
    if (f[4] !== "unit" || f[5] !== "int8/127/half-even") refuse("normalisation or quantisation");
    if (BigInt(f[2]) < 1n || BigInt(f[2]) > 65535n) refuse("dimension");
  },
  "log-rotation"(f) {
    const [, number, oldKey, newKey, index, , until] = f;
    if (BigInt(number) < 1n || BigInt(number) > 64n) refuse("turns are numbered 1 to 64");
    if (oldKey === newKey) refuse("a turn goes to another key");
    const behind = BigInt(until) - BigInt(index);
    if (behind < 1n || behind > 1048577n) refuse("overlap");
  },
  "tenant-links"(f) {
    const [, records, , complete, packed] = f;
    if (packed.length % 16) refuse("links are pairs of u32");
    let previous = -1n;
    for (let at = 0; at < packed.length; at += 16) {
      const [a, b] = [BigInt(`0x${packed.slice(at, at + 8)}`), BigInt(`0x${packed.slice(at + 8, at + 16)}`)];
      const both = (a << 32n) | b;
      if (a >= b || b >= BigInt(records) || both <= previous) refuse("links are increasing");
      previous = both;
    }
    const most = BigInt(records) > 1n ? BigInt(records) - 1n : 0n;
    if (!complete && BigInt(packed.length / 16) > most) refuse("spanning links");
  },
};

// --- the messages: tag -> fields in order ------------------------------------------------------------------------

const LINKS = 2000000;
const opening = message("folded-opening");
const MESSAGES = {
  // phase A
  policy: [
    name, hash, hash, u32, name, u32, i32, i32, u32, u32, u32, plain(64), plain(64), plain(64), u32, flag, text(64),
    u32, u64, u64, u64, u32, name, plain(64), name, hash, u32, u32, u32, u16, u32, u32, u32, flag, u32,
  ],
  "tenant-index": [name, u16, hash, hash, hash, text(32)],
  account: [name, name, publicKey, hash],
  registry: [list(message("account"), 1048576)],
  "account-ask": [hash, name],
  membership: [message("account"), u32, list(hash, 64)],
  manifest: [
    name, hash, name, message("policy"), hash, hash, list(message("tenant-index"), 256), element, hash, u32, publicKey,
    publicKey, hash, list(message("auditor-seat"), 8), list(message("coin-commitment"), 1),
  ],
  "auditor-seat": [name, publicKey],
  "coin-commitment": [element, hash, list(hash, 1)],
  "thinned-index": [name, hash, hash, hash],
  thinning: [hash, list(message("thinned-index"), 256)],
  "thinned-file": [blob(64 * DIMENSIONS * SHARDS), opening, list(message("thinned-shard"), SHARDS)],
  "thinned-shard": [point, message("coin-proof")],
  "coin-points": [list(point, SIDES), list(point, SIDES), list(point, SIDES), point],
  "coin-proof": [message("coin-points"), fixed(PROOF), opening, opening],
  "updated-index": [name, hash, hash, list(hash, 1), hash],
  "index-update": [hash, u32, u64, list(message("updated-index"), 256), hash],
  enrolment: [message("account"), u32, u32, u32],
  enrolments: [hash, list(message("enrolment"), 1048576)],
  "late-membership": [message("account"), u32, hash, list(hash, 64), u64],
  "emptied-file": [blob(64 * DIMENSIONS * SHARDS), opening, list(message("emptied-shard"), SHARDS)],
  "emptied-shard": [point, point, message("coin-proof")],
  "signed-manifest": [message("manifest"), signature],
  "beacon-commit": [hash, name, publicKey, hash, signature],
  "beacon-opening": [hash, name, hash],
  "beacon-seal": [hash, list(name, 64), signature],
  "window-open": [hash, element, u64],
  "window-close": [hash, u64, u64],
  // phase D
  "audit-verdict": [hash, hash, publicKey, hash, name, list(message("claimed"), 3), signature],
  claimed: [name, text(24), text(24), text(24), text(24), text(24), u64, u64, text(24), list(name, 7), list(name, 256)],
  "verdict-entry": [publicKey, hash, hash, text(255), text(128), list(hash, 1), name, list(message("claimed"), 3), u64],
  // probes of observers
  "probe-answer": [fixed(32), text(65536), message("answer")],
  planted: [name, text(65536)],
  "probe-statement": [
    hash, publicKey, list(message("planted"), 2), list(u32, 2), list(message("probe-answer"), 16384), signature,
  ],
  // the log's own
  "log-rotation": [hash, u8, publicKey, publicKey, u64, hash, u64, signature, signature],
  "kept-turns": [list(message("log-rotation"), 64)],
  "turn-proof": [message("log-rotation"), list(hash, 63), blob(65536)],
  // phase A
  "index-file": [blob(64 * DIMENSIONS * SHARDS), opening],
  embedder: [hash, hash, text(1024), text(1024), u32, text(4096), text(4096), u32, name],
  "declared-embedder": [name, name, u32, flag, name, name],
  // phase B
  prepare: [hash, name, fixed(16), fixed(32), text(65536), blob(DIMENSIONS)],
  prepared: [fixed(16), blob(DIMENSIONS), point, element, hash, u64],
  request: [name, name, hash, name, u32, fixed(16), hash, point, hash, flag, fixed(16), hash, hash],
  "signed-request": [message("request"), signature],
  "answer-ask": [hash, name, u32, hash],
  record: [hash, u64, message("signed-request"), points(SHARDS), elements(SHARDS), u64, u8],
  "metadata-pair": [characters(1, 64), metadataValue],
  metadata: [list(message("metadata-pair"), 16)],
  "slot-text": [characters(1, 512), text(1048576), message("metadata")],
  "text-opening": [message("slot-text"), fixed(32), list(hash, 32)],
  "slot-opening": [u32, flag, list(message("text-opening"), 1)],
  openings: [element, list(message("slot-opening"), 8192), text(65536)],
  "receipt-body": [hash, hash, hash, u64, u64, hash, hash, blob(65536)],
  receipt: [message("receipt-body"), signature, list(hash, 64)],
  "sealed-answer": [message("record"), blob(67108864 + 48), message("receipt")],
  answer: [message("record"), message("openings"), message("receipt")],
  // what the auditor asks for, and what it gets
  "registry-ask": [hash, u64, fixed(16)],
  "proofs-ask": [hash, u64, fixed(16), list(u64, 65536)],
  "links-ask": [hash, u64, fixed(16)],
  "blocks-ask": [hash, u64, fixed(16), hash, name, list(list(u32, 4096), 1024)],
  delivery: [hash, blob(268435456), signature],
  refusal: [hash, text(2000), signature],
  // proofs and openings: at most four relations, folded in halves from 2^24 entries down to eight
  "folded-opening": [list(point, 4), list(point, 2 * 4 * 21), list(element, 8 * 4)],
  "proof-entry": [u64, hash, points(7 * SHARDS), blob(PROOF * SHARDS), point],
  "link-opening": [name, opening, u32],
  "proof-batch": [hash, list(message("proof-entry"), 65536), list(message("link-opening"), 65536), list(opening, 5)],
  // phase C
  "squared-norm": [point, point, point, blob(32 * (DIMENSIONS + 1)), element],
  "tenant-links": [name, u32, hash, flag, blob(8 * LINKS)],
  "link-list": [hash, list(message("tenant-links"), 256)],
  "signed-links": [message("link-list"), signature],
  "block-proof": [point, point, message("squared-norm"), fixed(PROOF)],
  "block-batch": [hash, list(message("block-proof"), 64), opening],
  // the log
  inclusion: [u64, list(hash, 63), blob(65536)],
};

/** How many of a message's last fields stand in version 2 alone; in version 1 they are 0. */
const LATER = { policy: 4, claimed: 1, "tenant-index": 1 };

export function decode(tag, cursor) {
  const head = Buffer.from(tag, "ascii");
  if (cursor.number(1) !== BigInt(head.length) || !head.equals(cursor.take(head.length))) refuse(`not a ${tag}`);
  const later = LATER[tag] ?? 0;
  const version = Number(cursor.number(2));
  if (version !== VERSION && !(later && version === 2)) refuse("version");
  const all = MESSAGES[tag];
  const first = all.slice(0, all.length - later).map((read) => read(cursor));
  const added = all.slice(all.length - later);
  const none = added.map((read) => read(new Cursor(Buffer.alloc(8)))); // 0, nothing, and of a list no item
  const newer = version === VERSION ? none : added.map((read) => read(cursor));
  if (version !== VERSION && JSON.stringify(newer) === JSON.stringify(none)) refuse("not the canonical encoding");
  const fields = [...first, ...newer];
  rules[tag]?.(fields);
  return { tag, fields };
}

/** Exactly these bytes as a message of this tag. */
export function decodeWhole(tag, data) {
  if (!Object.hasOwn(MESSAGES, tag)) refuse("unknown message");
  const cursor = new Cursor(data);
  const found = decode(tag, cursor);
  if (cursor.at !== cursor.data.length) refuse("bytes too many");
  return found;
}

async function answerLines() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [tag, data = ""] = line.split(" ");
    let answer;
    try {
      answer = { ok: decodeWhole(tag, Buffer.from(data, "hex")) };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      answer = { error: error.message };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await answerLines();
