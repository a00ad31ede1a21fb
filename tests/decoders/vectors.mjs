// SPDX-License-Identifier: GPL-3.0-or-later
// vectors/ read by a second implementation: canonical bytes by decode.mjs; hashes, Merkle trees, notes, signatures,
// seals, Poseidon and samples written here from the specification, with Node's own Ed25519, X25519 and ChaCha20-Poly1305.
//
// node vectors.mjs FOLDER prints {"read": {operation: [outputs, refusals]}, "wrong": ["noun/name: what"]}.

import {
  createDecipheriv, createHash, createHmac, createPrivateKey, createPublicKey, diffieHellman, verify,
} from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Cursor, P, R, Refusal, decode, decodeWhole, littleEndian, refuse, smallOrder, withoutSign } from "./decode.mjs";

const bytes = (hex) => Buffer.from(hex, "hex");
const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts)).digest();
const big = (value, width) => Buffer.from(BigInt(value).toString(16).padStart(2 * width, "0"), "hex");
const integer = (data) => (data.length ? BigInt(`0x${data.toString("hex")}`) : 0n);
const ascii = (text) => Buffer.from(text, "utf8");

// --- hashes ------------------------------------------------------------------------------------------------------

const hash = (tag, ...parts) => {
  const label = ascii(`ragseal/v1/${tag}`);
  return sha256(big(label.length, 1), label, ...parts.flatMap((part) => [big(part.length, 8), part]));
};
const element = (tag, ...parts) => integer(hash(tag, ...parts).subarray(0, 31));
const wide = (tag, ...parts) => {
  const low = hash(tag, Buffer.from([0]), ...parts);
  return integer(Buffer.concat([hash(tag, Buffer.from([1]), low), low])) % R;
};
const scalar = (value) => big(((BigInt(value) % R) + R) % R, 32);
const LABELS = {
  "tenant-index": "index-version", "folded-opening": "columns-opening", "registry-ask": "ask", "proofs-ask": "ask",
  "links-ask": "ask", "blocks-ask": "ask",
};

// --- signatures --------------------------------------------------------------------------------------------------

const ED25519 = bytes("302a300506032b6570032100");
const publicKey = (key) => {
  if (key.length !== 32) refuse("32 bytes");
  const y = withoutSign(littleEndian(key));
  if (y >= P) refuse("not canonical");
  if (smallOrder(1n + y, 1n - y)) refuse("small order");
  return createPublicKey({ key: Buffer.concat([ED25519, key]), format: "der", type: "spki" });
};
const signedBy = (key, message, signature) => {
  let object;
  try {
    object = publicKey(key);
  } catch (error) {
    refuse(error.message); // no point of the curve at all
  }
  if (signature.length !== 64 || !verify(null, message, object, signature)) refuse("the signature does not hold");
};
const check = (key, purpose, body, signature) => signedBy(key, hash(`sign/${purpose}`, body), signature);

/** Purpose, body and signature of a message that carries one. */
const parts = (tag, data) => {
  const fields = decodeWhole(tag, data).fields;
  const head = 3 + tag.length;
  const given = (...at) => at.map((i) => bytes(fields[i]));
  const text = (i) => ascii(fields[i]);
  const signature = bytes(fields.at(-1).length === 128 ? fields.at(-1) : "");
  const nested = { "signed-manifest": "manifest", "signed-request": "request", "signed-links": "links" };
  if (tag in nested) return [nested[tag], data.subarray(head, -64), signature];
  if (tag === "beacon-commit") {
    const [manifest, key, commitment] = given(0, 2, 3);
    return [tag, hash("beacon-commit-body", manifest, text(1), key, commitment), signature];
  }
  if (tag === "beacon-seal") return [tag, hash("beacon-seal-body", ...given(0), ...fields[1].map(ascii)), signature];
  if (tag === "delivery") return [tag, hash("delivery-body", ...given(0, 1)), signature];
  if (tag === "refusal") return [tag, hash("refusal-body", ...given(0), text(1)), signature];
  const cursor = new Cursor(data.subarray(head));
  decode("receipt-body", cursor);
  return [tag, data.subarray(head, head + cursor.at), bytes(fields[1])];
};

// --- Merkle trees ------------------------------------------------------------------------------------------------

const leaf = (entry) => sha256(Buffer.from([0]), entry);
const node = (left, right) => sha256(Buffer.from([1]), left, right);
const half = (count) => {
  let k = 1;
  while (2 * k < count) k *= 2;
  return k;
};
const root = (leaves) => {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return leaves[0];
  const k = half(leaves.length);
  return node(root(leaves.slice(0, k)), root(leaves.slice(k)));
};
const hashes = (...all) => {
  if (all.some((one) => one.length !== 32)) refuse("32 bytes");
};
const size = (value) => {
  if (BigInt(value) < 0n || BigInt(value) >= 1n << 63n) refuse("below 2^63");
  return Number(value);
};
/** The root that a path gives, by the recursion of RFC 6962, section 2.1.1. */
const climb = (own, index, count, path) => {
  if (count === 1) {
    if (path.length) refuse("longer");
    return own;
  }
  if (!path.length) refuse("shorter");
  const [rest, last, k] = [path.slice(0, -1), path.at(-1), half(count)];
  return index < k ? node(climb(own, index, k, rest), last) : node(last, climb(own, index - k, count - k, rest));
};
const included = (own, index, count, path, wanted) => {
  hashes(own, wanted, ...path);
  if (size(index) >= size(count)) refuse("no such leaf");
  if (!climb(own, index, count, path).equals(wanted)) refuse("another root");
};
/** [old root, new root] that a path gives, by the recursion of RFC 6962, section 2.1.2. */
const both = (old, count, path, whole, oldRoot) => {
  if (old === count) {
    if (whole) {
      if (path.length) refuse("longer");
      return [oldRoot, oldRoot];
    }
    if (path.length !== 1) refuse("length");
    return [path[0], path[0]];
  }
  if (!path.length) refuse("shorter");
  const [rest, last, k] = [path.slice(0, -1), path.at(-1), half(count)];
  if (old <= k) {
    const [a, b] = both(old, k, rest, whole, oldRoot);
    return [a, node(b, last)];
  }
  const [a, b] = both(old - k, count - k, rest, false, oldRoot);
  return [node(last, a), node(last, b)];
};
const grown = (old, count, path, oldRoot, newRoot) => {
  hashes(oldRoot, newRoot, ...path);
  if (!(0 < size(old) && old <= size(count))) refuse("sizes");
  const [a, b] = both(old, count, path, true, oldRoot);
  if (!a.equals(oldRoot) || !b.equals(newRoot)) refuse("another root");
};

// --- notes -------------------------------------------------------------------------------------------------------

const base64 = (text) => {
  const data = Buffer.from(text, "base64");
  if (data.toString("base64") !== text) refuse("base64");
  return data;
};
const keyName = (name) => {
  if (!/^[^\s+\p{C}\p{Z}]+$/u.test(name) || ascii(name).length > 255) refuse("name");
  return name;
};
const keyId = (name, material) => sha256(ascii(`${name}\n`), material).subarray(0, 4);
const logKey = (vkey) => {
  const [name, id, ...rest] = vkey.split("+");
  const material = base64(rest.join("+"));
  const [algorithm, key] = [material[0], material.subarray(1)];
  keyName(name);
  if (algorithm !== 1 && algorithm !== 4) refuse("type");
  publicKey(key);
  if (keyId(name, material).toString("hex") !== id) refuse("id");
  return { name, algorithm, key, id };
};
const decimal = (text) => {
  if (!/^(0|[1-9][0-9]{0,18})$/.test(text)) refuse("decimal");
  return size(BigInt(text));
};
const checkpoint = (note, log, witnesses) => {
  if (/[\x00-\x09\x0b-\x1f]/.test(note)) refuse("control characters");
  const at = note.lastIndexOf("\n\n");
  if (at < 0 || !note.endsWith("\n") || note.length === at + 2) refuse("no signature lines");
  const text = note.slice(0, at + 1);
  const lines = note.slice(at + 2, -1).split("\n").map((line) => {
    const [dash, name, data, ...more] = line.split(" ");
    if (dash !== "—" || data === undefined || more.length) refuse("signature line");
    const blob = base64(data);
    if (blob.length < 5) refuse("short");
    return { name: keyName(name), id: blob.subarray(0, 4).toString("hex"), blob: blob.subarray(4) };
  });
  const by = (key) => lines.filter((line) => line.name === key.name && line.id === key.id);
  const times = (key) => by(key).map(({ blob }) => {
    if (key.algorithm === 1) return signedBy(key.key, ascii(text), blob);
    const time = integer(blob.subarray(0, 8));
    signedBy(key.key, ascii(`cosignature/v1\ntime ${time}\n${text}`), blob.subarray(8));
    return [key.name, size(time)];
  });
  if (times(log).length === 0) refuse("not signed by the log");
  const rows = text.split("\n");
  if (rows.length !== 4) refuse("three lines");
  const [origin, count, top] = [keyName(rows[0]), decimal(rows[1]), base64(rows[2])];
  hashes(top);
  if (count === 0 && !top.equals(sha256())) refuse("the empty tree");
  if (origin !== log.name) refuse("another log");
  if (witnesses.some((key) => key.algorithm !== 4)) refuse("no witness key");
  const cosigned = witnesses.flatMap(times);
  return { origin, size: count, root: top.toString("hex"), cosigned };
};

// --- Poseidon ----------------------------------------------------------------------------------------------------

const PARTIAL = [56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65, 70, 60, 64, 68];
const power = (base, exponent) => {
  let out = 1n;
  for (; exponent; exponent >>= 1n, base = (base * base) % R) if (exponent & 1n) out = (out * base) % R;
  return out;
};
const known = new Map();
const parameters = (width) => {
  if (known.has(width)) return known.get(width);
  const partial = PARTIAL[width - 2];
  const binary = (value, count) => value.toString(2).padStart(count, "0");
  const instance = binary(254, 12) + binary(width, 12) + binary(8, 10) + binary(partial, 10);
  const bits = [...`010000${instance}${"1".repeat(30)}`].map(Number);
  const step = () => {
    bits.push(bits[62] ^ bits[51] ^ bits[38] ^ bits[23] ^ bits[13] ^ bits[0]);
    bits.shift();
    return bits[79];
  };
  for (let i = 0; i < 160; i++) step();
  const draw = () => {
    let text = "";
    while (text.length < 254) {
      while (!step()) step(); // of each pair the second counts where the first is 1
      text += step();
    }
    return BigInt(`0b${text}`);
  };
  const constants = [];
  while (constants.length < width * (8 + partial)) {
    const value = draw();
    if (value < R) constants.push(value);
  }
  const drawn = Array.from({ length: 2 * width }, () => draw() % R);
  const matrix = drawn.slice(0, width).map((x) => drawn.slice(width).map((y) => power((x + y) % R, R - 2n)));
  known.set(width, { partial, constants, matrix });
  return known.get(width);
};
const permuted = (given) => {
  const { partial, constants, matrix } = parameters(given.length);
  let state = [...given];
  for (let round = 0; round < 8 + partial; round++) {
    state = state.map((x, i) => (x + constants[round * state.length + i]) % R);
    const full = round < 4 || round >= 4 + partial;
    state = state.map((x, i) => (full || i === 0 ? power(x, 5n) : x));
    state = matrix.map((row) => row.reduce((sum, m, i) => sum + m * state[i], 0n) % R);
  }
  return state;
};
const poseidon = (...inputs) => permuted([0n, ...inputs])[0];
const elements = (packed) => {
  const data = bytes(packed);
  if (data.length % 32) refuse("truncated");
  const out = [];
  for (let at = 0; at < data.length; at += 32) out.push(integer(data.subarray(at, at + 32)));
  if (out.some((x) => x >= R)) refuse("not below r");
  return out;
};
const limbs = (seed) => [integer(bytes(seed).subarray(0, 16)), integer(bytes(seed).subarray(16))];

// --- seals -------------------------------------------------------------------------------------------------------

const KEM = Buffer.concat([ascii("KEM"), big(0x20, 2)]);
const HPKE = Buffer.concat([ascii("HPKE"), big(0x20, 2), big(1, 2), big(3, 2)]);
const hmac = (key, ...data) => createHmac("sha256", key).update(Buffer.concat(data)).digest();
const extract = (suite, salt, label, ikm) => {
  return hmac(salt.length ? salt : Buffer.alloc(32), ascii("HPKE-v1"), suite, ascii(label), ikm);
};
const expand = (suite, prk, label, info, count) => {
  const labeled = [big(count, 2), ascii("HPKE-v1"), suite, ascii(label), info];
  return hmac(prk, ...labeled, Buffer.from([1])).subarray(0, count);
};
const X25519 = { secret: bytes("302e020100300506032b656e04220420"), open: bytes("302a300506032b656e032100") };
const unseal = (secret, info, sealed) => {
  if (sealed.length < 48) refuse("short");
  const [sent, text, tag] = [sealed.subarray(0, 32), sealed.subarray(32, -16), sealed.subarray(-16)];
  const der = (head, key) => ({ key: Buffer.concat([head, key]), format: "der" });
  const privateKey = createPrivateKey({ ...der(X25519.secret, secret), type: "pkcs8" });
  const own = createPublicKey(privateKey).export({ format: "der", type: "spki" }).subarray(-32);
  try {
    const theirs = createPublicKey({ ...der(X25519.open, sent), type: "spki" });
    const shared = diffieHellman({ privateKey, publicKey: theirs });
    const prk = extract(KEM, Buffer.alloc(0), "eae_prk", shared);
    const kem = expand(KEM, prk, "shared_secret", Buffer.concat([sent, own]), 32);
    const empty = Buffer.alloc(0);
    const hashed = [["psk_id_hash", empty], ["info_hash", info]].map(([label, of]) => extract(HPKE, empty, label, of));
    const about = Buffer.concat([big(0, 1), ...hashed]);
    const schedule = extract(HPKE, kem, "secret", empty);
    const [key, nonce] = [expand(HPKE, schedule, "key", about, 32), expand(HPKE, schedule, "base_nonce", about, 12)];
    const open = createDecipheriv("chacha20-poly1305", key, nonce, { authTagLength: 16 });
    open.setAuthTag(tag);
    return Buffer.concat([open.update(text), open.final()]);
  } catch {
    return refuse("it does not open");
  }
};

// --- samples -----------------------------------------------------------------------------------------------------

const sampledRecords = ({ records, size: wanted, nonce, root: top, manifest }) => {
  if (wanted < 1) refuse("at least one record");
  const seed = hash("audit-sample", bytes(nonce), bytes(top), bytes(manifest));
  const tenants = new Map();
  for (const [seq, tenant] of records) tenants.set(tenant, [...(tenants.get(tenant) ?? []), seq]);
  const order = (seq) => hash("audit-draw", seed, big(seq, 8)).toString("hex");
  const drawn = [...tenants.values()].flatMap((own) => {
    const share = Math.min(own.length, Math.max(1, Math.floor((wanted * own.length) / records.length)));
    return own.toSorted((a, b) => (order(a) < order(b) ? -1 : 1)).slice(0, share);
  });
  return { seqs: drawn.toSorted((a, b) => a - b) };
};
/** A decimal, one with an exponent, or 1 less such a number or a power: numerator and denominator. */
const rational = (text) => {
  const [, whole, point = "", power = "0"] = /^([0-9]*)(?:\.([0-9]+))?(?:e-([0-9]+))?$/.exec(text) ?? refuse("not a number");
  return [BigInt(whole + point), 10n ** BigInt(point.length + Number(power))];
};
const doubtOf = (text) => {
  const power = /^1-(2|10)\^-([0-9]+)$/.exec(text);
  if (power) return [1n, BigInt(power[1]) ** BigInt(power[2])];
  if (text.startsWith("1-")) return rational(text.slice(2));
  const [sure, one] = rational(text);
  if (sure <= 0n || sure >= one) refuse("not a confidence");
  return [one - sure, one];
};
const sampleSize = ({ sizes, detect, confidence }) => {
  const [doubt, of] = doubtOf(confidence);
  const [share, whole] = rational(detect);
  const tenants = Object.entries(sizes);
  const total = tenants.reduce((sum, [, n]) => sum + n, 0);
  const least = Number((share * BigInt(total) + whole - 1n) / whole);
  const taken = (size) => {
    const counts = Object.fromEntries(tenants.map(([t, n]) => [t, Math.min(n, Math.max(1, Math.floor((size * n) / total)))]));
    const due = (t) => size * sizes[t] - counts[t] * total;
    while (Object.values(counts).reduce((a, b) => a + b) < size) {
      const open = Object.keys(counts).filter((t) => counts[t] < sizes[t]);
      counts[open.toSorted((a, b) => due(b) - due(a) || (a < b ? 1 : -1))[0]] += 1;
    }
    return counts;
  };
  /** The most bad records that are missed with more than the doubt, each next one where it is missed most easily. */
  const undetected = (counts) => {
    const left = tenants.map(([t, n]) => [n, counts[t]]);
    for (let [bad, above, below] = [0, 1n, 1n]; ; bad++) {
      const [best] = left.filter(([n]) => n > 0).toSorted((a, b) => a[1] * b[0] - b[1] * a[0]);
      if (!best || best[0] === best[1]) return bad;
      [above, below] = [above * BigInt(best[0] - best[1]), below * BigInt(best[0])];
      best[0] -= 1;
      if (above * of <= doubt * below) return bad;
    }
  };
  let size = 1;
  while (undetected(taken(size)) >= least) size++;
  return { size, taken: taken(size), undetected: undetected(taken(size)) };
};
const sampledBlocks = ({ records, tau, n, count, seed_parts: from }) => {
  if (count < 1) refuse("at least one block");
  const seed = hash("estimate-sample", ...from.map(bytes));
  const segments = Math.max(1, Math.floor(records / Math.max(tau, n)));
  const bounds = Array.from({ length: segments + 1 }, (_, i) => Math.floor((i * records) / segments));
  const runs = segments === 1 ? [[0, records]] : bounds.slice(2).map((end, i) => [bounds[i], end]);
  let used = 0;
  const below = (limit) => Number(integer(hash("estimate-draw", seed, big(++used, 8))) % BigInt(limit));
  const blocks = Array.from({ length: count }, () => {
    const [start, end] = runs[below(runs.length)];
    const chosen = new Set();
    for (let last = Math.max(0, end - start - n); last < end - start; last++) {
      const at = below(last + 1);
      chosen.add(chosen.has(at) ? last : at);
    }
    return [...chosen].map((at) => start + at).toSorted((a, b) => a - b);
  });
  return { seed: seed.toString("hex"), blocks };
};

// --- operations --------------------------------------------------------------------------------------------------

/** A decoded value as the JSON of a vector has it, all integers as text; compared with `text` of the JSON. */
const plain = (value) => {
  if (Array.isArray(value)) return value.map(plain);
  return value?.tag ? value.fields.map(plain) : value;
};
const text = (value) => {
  if (typeof value === "number") return String(value);
  if (Array.isArray(value)) return value.map(text);
  return value !== null && typeof value === "object" ? Object.values(value).map(text) : value;
};
const account = (data) => {
  const [name, , key, salt] = decodeWhole("account", bytes(data)).fields;
  return { name, key, pseudonym: hash("pseudonym", bytes(salt), ascii(name)).subarray(0, 16).toString("hex") };
};
const distinct = (list) => {
  if (new Set(list).size !== list.length) refuse("not distinct");
};
const clear = (list) => Buffer.concat(list.map(scalar));
const hex = (data) => data.toString("hex");

const OPERATIONS = {
  message: ({ tag, bytes: data }) => ({ fields: plain(decodeWhole(tag, bytes(data))) }),
  "tagged-hash": ({ tag, parts: list }) => {
    const given = list.map(bytes);
    return { digest: hex(hash(tag, ...given)), element: element(tag, ...given), challenge: wide(tag, ...given) };
  },
  "message-digest": ({ tag, bytes: data }) => {
    decodeWhole(tag, bytes(data));
    return { label: LABELS[tag] ?? tag, digest: hex(hash(LABELS[tag] ?? tag, bytes(data))) };
  },
  "public-key": ({ key }) => publicKey(bytes(key)) && {},
  "seal-key": ({ key }) => {
    const data = bytes(key);
    const u = littleEndian(data);
    if (data.length !== 32 || u >= P || smallOrder(u, 1n)) refuse("small order, or a second form");
    return {};
  },
  "log-key": ({ vkey }) => {
    const { name, id, algorithm, key } = logKey(vkey);
    return { name, key_id: id, algorithm, public_key: hex(key) };
  },
  signature: ({ public_key: key, purpose, body, signature }) => {
    check(bytes(key), purpose, bytes(body), bytes(signature));
    return {};
  },
  "signed-message": ({ tag, bytes: data, public_key: key, ask, ask_tag: asked }) => {
    const [purpose, body, signature] = parts(tag, bytes(data));
    if (asked && hex(hash("ask", bytes(ask))) !== decodeWhole(tag, bytes(data)).fields[0]) refuse("another ask");
    check(bytes(key), purpose, body, signature);
    return { purpose, body: hex(body) };
  },
  ask: ({ tag, bytes: data, public_key: key, signature, now }) => {
    const fields = decodeWhole(tag, bytes(data)).fields;
    check(bytes(key), "ask", bytes(data), bytes(signature));
    if (Math.abs(now - Number(fields[1])) > 600) refuse("old");
    return { digest: hex(hash("ask", bytes(data))) };
  },
  retrieval: ({ signed_request: data, public_key: key, signature }) => {
    decodeWhole("signed-request", bytes(data));
    check(bytes(key), "retrieve", bytes(data), bytes(signature));
    return {};
  },
  poseidon: ({ inputs }) => ({ hash: hex(scalar(poseidon(...elements(inputs)))) }),
  "poseidon-permutation": ({ state }) => ({ state: hex(Buffer.concat(permuted(elements(state)).map(scalar))) }),
  "seed-commitment": ({ seed }) => ({ c_seed: poseidon(1n, ...limbs(seed)) }),
  "noise-key": ({ seed, beacon, ctx }) => ({ key: poseidon(2n, ...limbs(seed), BigInt(beacon), BigInt(ctx)) }),
  "list-commitments": ({ class: cls, salt, shards, ids, flags }) => {
    const bits = (slots) => BigInt((slots - 1).toString(2).length);
    const pack = (t, width) => {
      const [per, packed] = [Number(248n / width), []];
      for (let at = 0; at < t.length; at += per) {
        packed.push(t.slice(at, at + per).reduce((sum, x, j) => sum + (x << (width * BigInt(j))), 0n));
      }
      return packed;
    };
    const t = ids.map((id, k) => ({ id, flag: flags[k] ? 1n : 0n }));
    if (cls.law !== "decoys") {
      const packed = pack(t.map(({ id, flag }) => 2n * BigInt(id) + flag), bits((cls.S ?? 1) * cls.N) + 1n);
      return { t_commits: [poseidon(5n, BigInt(salt), ...packed)] };
    }
    const commitments = Array.from({ length: shards }, (_, shard) => {
      const own = t.filter(({ id }) => Math.floor(id / cls.N) === shard);
      if (own.length > cls.room) refuse("more ids than there is room for");
      const values = own.map(({ id, flag }) => 2n * BigInt(id % cls.N) + flag);
      const packed = pack([...values, ...Array(cls.room - own.length).fill(0n)], bits(cls.N) + 1n);
      const length = BigInt(own.length) + (BigInt(shard) << 32n);
      let state = poseidon(10n, BigInt(salt), length, ...packed.splice(0, 13));
      while (packed.length) state = poseidon(10n, state, ...packed.splice(0, 14));
      return state;
    });
    return { t_commits: commitments };
  },
  "beacon-commitment": ({ owner, nonce }) => ({ commitment: hex(hash("beacon-nonce", ascii(owner), bytes(nonce))) }),
  beacon: ({ manifest, openings }) => {
    const given = openings.flatMap(([owner, nonce]) => [ascii(owner), bytes(nonce)]);
    return { beacon: element("beacon", bytes(manifest), ...given) };
  },
  pseudonym: ({ account: data }) => ({ pseudonym: account(data).pseudonym }),
  registry: ({ accounts }) => {
    const list = accounts.map(account);
    const names = list.map((one) => one.pseudonym);
    if (names.some((name, i) => i > 0 && !(names[i - 1] < name))) refuse("unsorted");
    distinct(list.map((one) => one.name));
    distinct(list.map((one) => one.key));
    return { root: hex(root(accounts.map((data) => leaf(bytes(data))))) };
  },
  "text-leaf": ({ salt, slot, content }) => {
    const present = Buffer.from([content === null ? 0 : 1]);
    if (content !== null) decodeWhole("slot-text", bytes(content));
    return { leaf: hex(hash("slot-text", bytes(salt), big(slot, 4), present, bytes(content ?? ""))) };
  },
  "columns-digest": ({ columns }) => ({ digest: hex(hash("columns", bytes(columns))) }),
  "query-digest": ({ prepare }) => {
    const [, , , salt, query] = decodeWhole("prepare", bytes(prepare)).fields;
    return { digest: hex(hash("query", bytes(salt), ascii(query))) };
  },
  ctx: ({ request }) => {
    decodeWhole("request", bytes(request));
    return { ctx: element("ctx", bytes(request)) };
  },
  "alpha-beta": (given) => {
    const names = ["key_digest", "record_digest", "c_w", "committed"];
    const [key, record, cW, committed] = names.map((name) => bytes(given[name]));
    const list = [key, record, clear(given.clear), cW, committed];
    return { alpha: element("alpha", ...list), beta: element("beta", ...list) };
  },
  "columns-chi": ({ key_digest: key, columns }) => {
    const context = hash("columns-context", bytes(key), bytes(columns));
    return { context: hex(context), chi: wide("opening/columns/chi", context) };
  },
  "batch-chi": ({ key_digest: key, manifest, items, tenant, uses, index_digest: index }) => {
    const list = items.flatMap((item) => {
      const [, , { fields: [request] }, cY, lists] = decodeWhole("record", bytes(item.record)).fields;
      const own = [request.fields[7], cY, item.c_w, item.committed, item.c_v, item.proof].map(bytes);
      return [hash("record", bytes(item.record)), clear([...item.clear, ...lists]), ...own];
    });
    const context = hash("batch", bytes(key), bytes(manifest), ...list);
    const link = hash("link", context, ascii(tenant), bytes(index));
    return {
      context: hex(context), chi: uses.map((use) => wide(`opening/${use}/chi`, context)), link_context: hex(link),
      link_chi: wide("opening/link/chi", link), psi: wide("opening/link/shards", link),
    };
  },
  "proof-equations": ({ class: cls, key_digest: key, record, clear: asked, table, c_w: scores, entry }) => {
    const [, , points, proofs, shared] = decodeWhole("proof-entry", bytes(entry)).fields;
    const lists = decodeWhole("record", bytes(record)).fields[4];
    const shards = scores.length / 128;
    const decoys = cls.law === "decoys";
    const width = 128 * (decoys ? 5 + cls.chunks : 2); // C_m, C_im, C_m'', C_b, C_b', C_h, C_n; C_h and C_1
    if (shards > (cls.S ?? 1)) refuse("more shards than the class is for");
    if (points.length !== width * shards || proofs.length !== 512 * shards) refuse("not all shards, each once");
    if (lists.length !== (decoys ? shards : 1)) refuse("another number of lists");
    const part = (text, size, at) => text.slice(size * at, size * (at + 1));
    const equations = Array.from({ length: shards }, (_, shard) => {
      const behind = decoys ? [lists[shard], shard, ...table] : [lists[0], shard, shards];
      const own = [...asked, ...behind];
      const [cW, committed] = [part(scores, 128, shard), part(points, width, shard) + shared];
      const list = [bytes(key), hash("record", bytes(record)), clear(own), bytes(cW), bytes(committed)];
      const whole = [...own, element("alpha", ...list), element("beta", ...list)];
      return { clear: whole, c_w: cW, committed, proof: part(proofs, 512, shard) };
    });
    return { equations };
  },
  "opening-challenges": ({ use, context, size: count, combined, announcements }) => {
    const sent = [combined, announcements].map((list) => Buffer.concat(list.map(bytes)));
    const transcript = hash(`opening/${use}/announced`, bytes(context), big(count, 4), ...sent);
    const [chi, c] = [wide(`opening/${use}/chi`, bytes(context)), wide(`opening/${use}`, transcript)];
    return { chi, transcript: hex(transcript), c };
  },
  "fold-challenge": ({ use, transcript, points }) => {
    const after = hash(`opening/${use}/fold`, bytes(transcript), Buffer.concat(points.map(bytes)));
    return { transcript: hex(after), u: element(`opening/${use}/u`, after) };
  },
  unseal: ({ private_key: key, info, sealed }) => ({ plaintext: hex(unseal(bytes(key), bytes(info), bytes(sealed))) }),
  "sealed-answer": ({ private_key: key, sealed_answer: data }) => {
    const whole = bytes(data);
    const cursor = new Cursor(whole.subarray(3 + "sealed-answer".length));
    decodeWhole("sealed-answer", whole);
    const start = cursor.at;
    decode("record", cursor);
    const record = cursor.data.subarray(start, cursor.at);
    const sealed = cursor.take(Number(cursor.number(4)));
    const receipt = cursor.data.subarray(cursor.at);
    const named = decodeWhole("receipt", receipt).fields[0].fields[6];
    if (hex(hash("sealed-openings", sealed)) !== named) refuse("other sealed openings");
    const openings = unseal(bytes(key), hash("seal-info", hash("record", record)), sealed);
    decodeWhole("openings", openings);
    const head = Buffer.concat([big(6, 1), ascii("answer"), big(1, 2)]);
    return { answer: hex(Buffer.concat([head, record, openings, receipt])) };
  },
  "blocks-chi": ({ digests, blocks }) => {
    const context = hash("estimate-batch", ...digests.flatMap((digest, i) => [bytes(digest), bytes(blocks[i])]));
    return { context: hex(context), chi: wide("opening/estimate/chi", context) };
  },
  "records-digest": ({ records }) => ({ digest: hex(hash("estimate-records", ...records.map(bytes))) }),
  "merkle-root": ({ entries }) => ({ root: hex(root(entries.map((entry) => leaf(bytes(entry))))) }),
  inclusion: ({ entry, index, size: count, path, root: top }) => {
    included(leaf(bytes(entry)), index, count, path.map(bytes), bytes(top));
    return {};
  },
  consistency: ({ old, new: count, path, old_root: first, new_root: second }) => {
    grown(old, count, path.map(bytes), bytes(first), bytes(second));
    return {};
  },
  checkpoint: ({ note, log_key: log, witnesses }) => checkpoint(note, logKey(log), witnesses.map(logKey)),
  growth: ({ older, newer, path, log_key: key }) => {
    const [a, b] = [older, newer].map((note) => checkpoint(note, logKey(key), []));
    if (b.size < a.size) refuse("rolled back");
    if (a.size === b.size && a.root !== b.root) refuse("fork");
    if (a.size === b.size || a.size === 0) return path.length ? refuse("nothing to prove") : {};
    grown(a.size, b.size, path.map(bytes), bytes(a.root), bytes(b.root));
    return {};
  },
  "sampled-records": sampledRecords,
  "sample-size": sampleSize,
  "sampled-blocks": sampledBlocks,
};

// --- the folder --------------------------------------------------------------------------------------------------

const folder = process.argv[2];
const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
const parsed = files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")));
const all = new Map(parsed.flatMap(({ cases }) => cases.map((one) => [one.name, one])));
const inputOf = (one) => {
  if (!one.base) return one.input;
  const out = structuredClone(all.get(one.base).input);
  for (const [path, value] of Object.entries(one.change)) {
    const steps = path.slice(1).split("/");
    const last = steps.pop();
    steps.reduce((here, step) => here[step], out)[last] = value;
  }
  return out;
};
const same = (found, stated) => {
  const shown = JSON.stringify(found, (_, x) => (typeof x === "bigint" ? String(x) : x));
  return JSON.stringify(text(JSON.parse(shown))) === JSON.stringify(text(stated));
};

const read = {};
const wrong = [];
for (const [path, one] of [...all].sort(([a], [b]) => (a < b ? -1 : 1))) {
  const compute = OPERATIONS[one.operation];
  if (!compute) continue;
  const counts = (read[one.operation] ??= [0, 0]);
  let found = null;
  let refusal = null;
  try {
    found = compute(inputOf(one));
  } catch (error) {
    if (!(error instanceof Refusal)) throw new Error(`${path}: ${error.stack}`);
    refusal = error.message;
  }
  if (one.expected) {
    counts[0] += 1;
    if (!found || !same(found, one.expected)) wrong.push(`${path}: ${refusal ?? "another output"}`);
  } else {
    counts[1] += 1;
    const claimed = one.claimed && Object.entries(one.claimed);
    const held = claimed ? found && claimed.every(([name, value]) => !same(found[name], value)) : refusal !== null;
    if (!held) wrong.push(`${path}: not refused`);
  }
}
process.stdout.write(`${JSON.stringify({ read, wrong })}\n`);
