// SPDX-License-Identifier: GPL-3.0-or-later
// vectors/ read by the checks that a browser runs (ledger/web/verify.js).
// node vectors.mjs FOLDER prints {"read": {operation: [outputs, refusals]}, "wrong": ["noun/name: what"]}.
// node vectors.mjs answers lines "TAG HEX" as tests/decoders/decode.mjs does.
import { createRequire } from "node:module";
import { readFileSync, readdirSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { join } from "node:path";

const verify = createRequire(import.meta.url)("../../ledger/web/verify.js");
const { Refusal, decode, fromHex: bytes, hex, internals } = verify;
const n = internals;
const split = (data, size) => Array.from({ length: data.length / size }, (_, i) => data.subarray(i * size, (i + 1) * size));
const number = (data) => (data.length ? BigInt(`0x${hex(data)}`) : 0n);
const R = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;
const scalars = (data) => {
  if (data.length % 32) throw new Refusal("scalars are truncated");
  return split(data, 32).map((one) => {
    if (number(one) >= R) throw new Refusal("a scalar is not below r");
    return number(one);
  });
};
const random = (count) => new Uint8Array(randomBytes(count));
const holds = (fact, why) => {
  if (!fact) throw new Refusal(why);
  return {};
};
const utf8 = (text) => new TextEncoder().encode(text);

// A message as decode.mjs writes it.
const plain = (value) => {
  if (value instanceof Uint8Array) return hex(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (typeof value !== "object") return value;
  if ("bits" in value) return { tag: "number", fields: [hex(value.bits)] };
  const { tag, raw, ...fields } = value;
  return { tag, fields: Object.values(fields).map(plain) };
};

/** Of a relation; each may be a sum of several points. */
function commitmentsOf({ commitments, parts = ["1"] }) {
  const given = Array.isArray(commitments) ? commitments.map(bytes) : split(bytes(commitments), 64 * parts.length);
  return given.map((points) => n.msm(n.points(points), parts.map(BigInt)));
}

const OPERATIONS = {
  message: ({ tag, bytes: data }) => {
    if (hex(decode(tag, bytes(data)).raw) !== data) throw new Error("raw is not the whole encoding");
    return {};
  },
  "tagged-hash": ({ tag, parts }) => {
    const given = parts.map(bytes);
    return {
      digest: hex(n.taggedHash(tag, ...given)),
      element: String(n.taggedElement(tag, ...given)),
      challenge: String(n.challenge(tag, ...given)),
    };
  },
  "public-key": ({ key }) => n.checkPublicKey(bytes(key)),
  "seal-key": ({ key }) => holds(bytes(key).length === 32, "32 bytes") && n.checkSealKey(bytes(key)),
  "log-key": ({ vkey }) => {
    const key = n.parseKey(vkey);
    return { name: key.name, key_id: hex(key.id), algorithm: key.kind, public_key: hex(key.key) };
  },
  signature: (i) => n.checkSignature(bytes(i.public_key), i.purpose, bytes(i.body), bytes(i.signature)),
  points: ({ points }) => void n.points(bytes(points)),
  "verifying-key": ({ bytes: data }) => {
    const key = n.VerifyingKey.decode(bytes(data));
    return { public_inputs: key.size, digest: hex(key.digest) };
  },
  groth16: ({ key, clear, commitments, proof }) => {
    const equation = {
      proof: n.decodeProof(bytes(proof)),
      clear: scalars(bytes(clear)),
      commitments: n.points(bytes(commitments)).map((one) => [one, 1n]),
    };
    return holds(n.VerifyingKey.decode(bytes(key)).allHold([equation, equation], random), "the proof does not hold");
  },
  opening: ({ use, context, relations, size, opening }) => {
    const later = new n.Equations(random);
    const given = relations.map((one) => ({
      bases: n.points(bytes(one.bases)),
      slots: one.slots,
      commitments: commitmentsOf(one),
    }));
    n.checkOpening(use, bytes(context), given, size, decode("folded-opening", bytes(opening)), later);
    return holds(later.hold(), "the opening does not hold");
  },
  "index-file": ({ y, b, key_digest: digest, dimension, index_file: data }) => {
    const file = decode("index-file", bytes(data));
    const later = new n.Equations(random);
    const key = { digest: bytes(digest), bases: n.points(bytes(y + b)) };
    n.checkColumns(key, file.columns, file.opening, dimension, later);
    holds(later.hold(), "the opening does not hold");
    return {
      columns_digest: hex(n.taggedHash("columns", file.columns)),
      opening_digest: hex(n.taggedHash("columns-opening", file.opening.raw)),
    };
  },
  inclusion: ({ entry, index, size, path, root }) =>
    n.checkInclusion(n.leafHash(bytes(entry)), Number(index), Number(size), path.map(bytes), bytes(root)),
  "merkle-root": ({ entries }) => ({ root: hex(n.merkleRoot(entries.map((one) => n.leafHash(bytes(one))))) }),
  checkpoint: ({ note, log_key: log, witnesses = [] }) => {
    const found = n.openCheckpoint(utf8(note), n.parseKey(log));
    const cosigned = witnesses.map(n.parseKey).flatMap((key) => {
      if (key.kind !== 4) throw new Refusal("a witness key has type 4");
      return n.signedBy(found.note, key).map((time) => [key.name, time]);
    });
    const { origin, size, root } = found.checkpoint;
    return { origin, size, root: hex(root), cosigned };
  },
  "alpha-beta": (i) => {
    const parts = [bytes(i.key_digest), bytes(i.record_digest), n.pack(i.clear.map(BigInt)), bytes(i.c_w), bytes(i.committed)];
    return { alpha: String(n.nonzeroElement("alpha", ...parts)), beta: String(n.nonzeroElement("beta", ...parts)) };
  },
  "proof-file": ({ file, entry, log_key: log }) => {
    const { index, path, note } = n.parseProof(file);
    n.included(bytes(entry), index, path, note, n.parseKey(log));
    return {};
  },
};

function allCases(folder) {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const read = files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")));
  const found = new Map(read.flatMap(({ cases }) => cases.map((one) => [one.name, one])));
  for (const one of found.values()) {
    if (one.base === undefined) continue;
    one.input = structuredClone(found.get(one.base).input);
    for (const [path, value] of Object.entries(one.change)) {
      const steps = path.slice(1).split("/");
      let here = one.input;
      for (const step of steps.slice(0, -1)) here = here[step];
      here[steps.at(-1)] = value;
    }
  }
  return found;
}

function differs(one) {
  const wanted = one.expected ?? one.claimed ?? {};
  let got;
  try {
    got = OPERATIONS[one.operation](one.input) ?? {};
  } catch (error) {
    if (!(error instanceof Refusal)) return `fails: ${error.stack}`;
    return one.expected ? `refused: ${error.message}` : "";
  }
  const equal = Object.entries(got).every(([name, value]) => !(name in wanted) || JSON.stringify(value) === JSON.stringify(wanted[name])
    || String(value) === String(wanted[name]));
  if (one.expected) return equal ? "" : `another output: ${JSON.stringify(got)}`;
  return one.claimed && !equal ? "" : "accepted";
}

async function answer() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [tag, data = ""] = line.split(" ");
    let said;
    try {
      said = { ok: plain(decode(tag, bytes(data))) };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      said = { error: error.message };
    }
    process.stdout.write(`${JSON.stringify(said)}\n`);
  }
}

if (process.argv[2] === undefined) await answer();
else {
  const [read, wrong] = [{}, []];
  for (const [path, one] of allCases(process.argv[2])) {
    if (!(one.operation in OPERATIONS)) continue;
    const counts = (read[one.operation] ??= [0, 0]);
    counts[one.expected ? 0 : 1]++;
    const why = differs(one);
    if (why) wrong.push(`${path}: ${why.slice(0, 300)}`);
  }
  console.log(JSON.stringify({ read, wrong }));
}
