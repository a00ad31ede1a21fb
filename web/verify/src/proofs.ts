// SPDX-License-Identifier: GPL-3.0-or-later
/** Attestation keys and the proofs of a window's records. SPEC A.15, B.5 to B.7, B.10, B.11, D.8. */
import type { Asked } from "./asked.js";
import { hex, join, need, refuse, same, split, utf8 } from "./bytes.js";
import { type Committed, checkCommitted, countOf } from "./committed.js";
import { G1, type G1Point, POINT_BYTES, encodePoints, msm, multiple, point, points } from "./curve.js";
import type { AttestationClass } from "./generated/classes.js";
import type { Policy, ProofBatch, ProofEntry } from "./generated/messages.js";
import type { ScoreBases } from "./indices.js";
import { type Equations, type Relation, checkOpening } from "./opening.js";
import type { Placed } from "./records.js";
import { type Stated, statedOf } from "./stated.js";
import { R, challenge, nonzeroElement, pack, taggedElement, taggedHash } from "./transcript.js";
import { type Equation, PROOF_BYTES, type VerifyingKey, decodeProof } from "./verifying_key.js";
import type { Entered } from "./window.js";

export const BATCH = 256;
/** Proofs in one product of pairings: a batch over 64 shards has 16,384, and each takes memory of its own. */
const TOGETHER = 256;

/** A verifying key cut into the bases of an attestation's commitments. */
export class AttestationKey implements ScoreBases {
  readonly bases: readonly G1Point[];
  readonly stated: Stated;
  private readonly sumY: G1Point;

  constructor(
    readonly key: VerifyingKey,
    readonly cls: AttestationClass,
  ) {
    const { slots, clear, inputs } = cls;
    need(key.size === inputs, `this key has ${key.size} public inputs, its class needs ${inputs}`);
    const y = key.bases(clear + 1, slots);
    this.bases = [...y, ...key.bases(clear, 1)];
    this.stated = statedOf(cls, key);
    this.sumY = y.reduce((sum, one) => sum.add(one), G1.ZERO);
  }

  get digest(): Uint8Array {
    return this.key.digest;
  }

  get blinder(): G1Point {
    return this.bases.at(-1) as G1Point;
  }

  /** C_w = gain (C_y - lo sum_i Y_i) of every C_y, of the claim answers 2^c (gain C_y + sum_i Y_i), of decoys C_y. */
  shifted(cY: readonly G1Point[], { claim, gain, lo }: Policy): G1Point[] {
    if (this.cls.kind === "decoys") return [...cY];
    const answers = claim === "answers";
    const step = 1n << BigInt(this.cls.stepBits);
    const shift = multiple(this.sumY, answers ? step : -BigInt(gain) * BigInt(lo));
    const factor = answers ? BigInt(gain) * step : BigInt(gain);
    const found = cY.map((one) => multiple(one, factor).add(shift));
    need(!found.some((one) => one.is0()), "C_w is the identity point");
    return found;
  }
}

/** What every batch of a window is checked against. */
export interface Basis {
  readonly window: Entered;
  readonly key: AttestationKey;
  /** Of records of a tenant's. */
  readonly asked: (tenant: string) => Asked;
  readonly beacon: bigint;
  /** H_0 .. H_d. */
  readonly generators: readonly G1Point[];
  /** Columns and B of each version by its digest: one array for each, since sums over one array are taken together. */
  readonly columns: ReadonlyMap<string, readonly G1Point[]>;
  readonly random: (count: number) => Uint8Array;
}

/** What a record's entry shows: of every shard a proof and its commitments, and one commitment of all of them. */
interface Item {
  readonly placed: Placed;
  readonly equations: readonly Equation[];
  readonly committed: Committed;
}

/** C_w of every shard of a record, as points and as bytes. */
interface Scores {
  readonly points: readonly G1Point[];
  readonly encoded: readonly Uint8Array[];
}

/** c_seed, beacon, ctx and what the policy asks: the beginning of every statement about a record. */
function first({ window, beacon, asked }: Basis, { record, version }: Placed): bigint[] {
  return [window.manifest.c_seed, beacon, taggedElement("ctx", record.signed.request.raw), ...asked(version.tenant).inputs];
}

/** What a record's proofs state but for the table: shards are numbered here, and by nobody else. SPEC B.5, A.15.3. */
function statements(basis: Basis, placed: Placed): bigint[][] {
  const { stated } = basis.key;
  const { shards } = basis.window.manifest.policy;
  const lists = placed.record.t_commits;
  const due = stated.lists(shards);
  need(lists.length === due, `record ${placed.record.seq} commits to ${lists.length} lists, where ${due} are due`, "log");
  const common = first(basis, placed);
  return Array.from({ length: shards }, (_, shard) => {
    const list = lists[due > 1 ? shard : 0] as bigint;
    return [...common, list, ...stated.ofShard(shard, shards)];
  });
}

function itemOf(basis: Basis, placed: Placed, entry: ProofEntry, cW: Scores): Item {
  const { key } = basis;
  const { shards } = basis.window.manifest.policy;
  const proofs = split(entry.proof, PROOF_BYTES);
  need(proofs.length === shards && cW.points.length === shards, `a record over ${shards} shards has as many proofs, not ${proofs.length}`);
  const all = points(entry.committed);
  const count = countOf(key.stated.bases);
  need(all.length === shards * count, `a record over ${shards} shards has ${count} commitments to hidden inputs each, not ${all.length} in all`);
  const shared = point(entry.c_v);
  const committed = Array.from({ length: shards }, (_, shard) => all.slice(count * shard, count * (shard + 1)));
  const bytes = split(entry.committed, count * POINT_BYTES);
  const asked = basis.asked(placed.version.tenant);
  const equations = statements(basis, placed).map((own, shard): Equation => {
    const clear = join(pack(own), asked.packed);
    const hashed = [key.digest, placed.digest, clear, cW.encoded[shard] as Uint8Array, join(bytes[shard] as Uint8Array, entry.c_v)];
    const alpha = nonzeroElement("alpha", ...hashed);
    const beta = nonzeroElement("beta", ...hashed);
    const added = [cW.points[shard] as G1Point, ...(committed[shard] as G1Point[]), shared];
    const scales = key.stated.scales(beta);
    const commitments = added.map((one, k): readonly [G1Point, bigint] => [one, scales[k] as bigint]);
    return { proof: decodeProof(proofs[shard] as Uint8Array), clear: [...own, ...asked.table, alpha, beta], commitments };
  });
  return { placed, equations, committed: { shards: committed, shared } };
}

/** The batch holds exactly these records, and all of their proofs. What its openings claim goes to `later`. */
export function checkBatch(basis: Basis, part: readonly Placed[], batch: ProofBatch, later: Equations): void {
  need(same(batch.manifest, basis.window.digest), "the batch belongs to another window");
  const exact =
    batch.entries.length === part.length &&
    part.every(({ record, digest }, i) => {
      const entry = batch.entries[i];
      return entry !== undefined && entry.seq === record.seq && same(entry.record_digest, digest);
    });
  need(exact, "the batch does not hold exactly the records that the log has here");
  const { shards } = basis.window.manifest.policy;
  const cW = basis.key.shifted(part.flatMap((one) => one.cY), basis.window.manifest.policy);
  const encoded = encodePoints(cW);
  const parts: Uint8Array[] = [];
  const items = part.map((placed, i): Item => {
    const { record, digest } = placed;
    const entry = batch.entries[i] ?? refuse("an entry is missing");
    const [from, to] = [shards * i, shards * (i + 1)];
    const own: Scores = { points: cW.slice(from, to), encoded: encoded.slice(from, to) };
    const said = pack([...first(basis, placed), ...record.t_commits]);
    parts.push(digest, said, record.signed.request.c_e, record.c_y, join(...own.encoded), entry.committed, entry.c_v, entry.proof);
    return itemOf(basis, placed, entry, own);
  });
  checkPairings(basis, items);
  const context = taggedHash("batch", basis.key.digest, basis.window.digest, ...parts);
  checkCommitted(basis.key.stated.bases, context, items.map((one) => one.committed), batch.openings, later);
  checkLinks(basis, items, batch, context, later);
}

function checkPairings(basis: Basis, items: readonly Item[]): void {
  const { key } = basis.key;
  const all = items.flatMap(({ placed, equations }) =>
    equations.map((equation, shard) => ({ equation, name: `${placed.record.seq}${equations.length > 1 ? ` for shard ${shard}` : ""}` })),
  );
  for (let at = 0; at < all.length; at += TOGETHER) {
    const part = all.slice(at, at + TOGETHER);
    if (key.allHold(part.map((one) => one.equation), basis.random)) continue;
    const culprit = part.find((one) => !key.holds(one.equation));
    refuse(culprit ? `the proof of record ${culprit.name} does not hold` : "proofs do not hold together");
  }
}

/**
 * C_e and C_y of one e, over the columns of the version that the record names; of the claim answers that C_y opens over
 * the score bases (SPEC B.7.8).
 */
function checkLinks(basis: Basis, items: readonly Item[], batch: ProofBatch, context: Uint8Array, later: Equations): void {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const at = hex(item.placed.record.signed.request.index_digest);
    groups.set(at, [...(groups.get(at) ?? []), item]);
  }
  const order = [...groups.values()].map((own) => ({ own, version: (own[0] as Item).placed.version }));
  order.sort((a, b) => {
    const [x, y] = [a.version, b.version];
    return x.tenant === y.tenant ? x.number - y.number : x.tenant < y.tenant ? -1 : 1;
  });
  const fits =
    batch.links.length === order.length &&
    order.every(({ version }, i) => batch.links[i]?.tenant === version.tenant && batch.links[i]?.number === version.number);
  need(fits, "the batch needs one link opening for each version that its records name");
  order.forEach(({ own, version }, i) => {
    const digest = (own[0] as Item).placed.record.signed.request.index_digest;
    const { claim, dimension: d, shards } = basis.window.manifest.policy;
    if (claim === "answers") {
      const { bases } = basis.key;
      const histograms: Relation = { bases, slots: [[0, bases.length]], commitments: own.flatMap((one) => one.placed.cY) };
      const about = taggedHash("histogram", context, utf8(version.tenant), digest);
      const opening = batch.links[i]?.opening ?? refuse("an opening is missing");
      checkOpening("histogram", about, [histograms], bases.length, opening, later);
      return;
    }
    const columns = basis.columns.get(hex(digest)) ?? refuse("the columns of a version are missing");
    need(columns.length === d * shards + 1, "a version has columns of another number of shards");
    const here = taggedHash("link", context, utf8(version.tenant), digest);
    const powers = shardWeights(here, shards);
    const relations: Relation[] = [
      { bases: basis.generators, slots: [[0, d + 1]], commitments: own.map((one) => one.placed.cE) },
      {
        bases: columns,
        slots: [...powers.map(() => [0, d] as const), [d + 1, d + 2]],
        factors: [...powers.flatMap((power) => Array.from({ length: d }, () => power)), 1n],
        commitments: own.map((one) => msm(one.placed.cY, powers)),
      },
    ];
    checkOpening("link", here, relations, d + 2, batch.links[i]?.opening ?? refuse("a link is missing"), later);
  });
}

/** 1, psi, psi^2, ..: what the shards' C_y and columns are added up with. SPEC B.7.9. */
function shardWeights(here: Uint8Array, shards: number): bigint[] {
  const psi = shards > 1 ? challenge("opening/link/shards", here) : 1n;
  const powers: bigint[] = [];
  for (let power = 1n; powers.length < shards; power = (power * psi) % R) powers.push(power);
  return powers;
}

/** Used by coins as well: a weighted sum of columns. */
export function weighted(columns: readonly G1Point[], weights: readonly bigint[]): G1Point {
  const sum = msm(columns, weights);
  need(!sum.is0(), "the combined columns are the identity point");
  return sum;
}

export const batchPath = (manifest: Uint8Array, start: number): string => `proofs/${hex(manifest)}/${start}.bin`;
export const keyPath = (digest: Uint8Array): string => `vk-${hex(digest)}.bin`;
