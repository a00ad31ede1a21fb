// SPDX-License-Identifier: GPL-3.0-or-later
/** Attestation keys and the proofs of a window's records. SPEC A.15, B.5 to B.7, B.10, B.11, D.8. */
import { hex, join, need, refuse, same, split, utf8 } from "./bytes.js";
import { G1, type G1Point, POINT_BYTES, encodePoints, msm, multiple, point, points } from "./curve.js";
import { type AttestationClass, BOUND, SLOT_HINTS, STATED, THRESHOLD } from "./generated/classes.js";
import type { Policy, ProofBatch, ProofEntry } from "./generated/messages.js";
import type { ScoreBases } from "./indices.js";
import { type Equations, type Relation, checkOpening } from "./opening.js";
import type { Placed } from "./records.js";
import { R, challenge, nonzeroElement, pack, taggedElement, taggedHash } from "./transcript.js";
import { type Equation, PROOF_BYTES, type VerifyingKey, decodeProof } from "./verifying_key.js";
import { type Entered, prizesOf, steps } from "./window.js";

export const BATCH = 256;
/** Proofs in one product of pairings: a batch over 64 shards has 16,384, and each takes memory of its own. */
const TOGETHER = 256;
/** Commitments to a shard's hints: C_h, and C_1 of slots' bounds. */
const COMMITMENTS = 2;

/** A verifying key cut into the bases of an attestation's commitments. */
export class AttestationKey implements ScoreBases {
  readonly bases: readonly G1Point[];
  private readonly hintBases: readonly G1Point[];
  private readonly scaledBases: readonly G1Point[];
  /** V*, I* and B of a class whose shards have one threshold, else none. */
  private readonly thresholdBases: readonly G1Point[];
  private readonly sumY: G1Point;

  constructor(
    readonly key: VerifyingKey,
    readonly cls: AttestationClass,
  ) {
    const { slots, clear, hints, inputs } = cls;
    need(key.size === inputs, `this key has ${key.size} public inputs, its class needs ${inputs}`);
    const hintsAt = clear + 1 + slots;
    const blinder = key.bases(clear, 1);
    const y = key.bases(clear + 1, slots);
    this.bases = [...y, ...blinder];
    this.hintBases = [...key.bases(hintsAt, hints), ...blinder];
    this.scaledBases = [...key.bases(hintsAt + hints, slots), ...blinder];
    this.thresholdBases = this.committed ? [...key.bases(inputs - THRESHOLD, THRESHOLD), ...blinder] : [];
    this.sumY = y.reduce((sum, one) => sum.add(one), G1.ZERO);
  }

  get digest(): Uint8Array {
    return this.key.digest;
  }

  get blinder(): G1Point {
    return this.bases.at(-1) as G1Point;
  }

  /** Whether the threshold is committed to, by one C_v for all shards, and numbers of shards are stated. */
  get committed(): boolean {
    return this.cls.kind === "noise";
  }

  /** C_w = gain (C_y - lo sum_i Y_i) of every C_y, of the claim answers 2^c (gain C_y + sum_i Y_i). */
  shifted(cY: readonly G1Point[], { claim, gain, lo }: Policy): G1Point[] {
    const answers = claim === "answers";
    const step = 1n << BigInt(this.cls.stepBits);
    const shift = multiple(this.sumY, answers ? step : -BigInt(gain) * BigInt(lo));
    const factor = answers ? BigInt(gain) * step : BigInt(gain);
    const found = cY.map((one) => multiple(one, factor).add(shift));
    need(!found.some((one) => one.is0()), "C_w is the identity point");
    return found;
  }

  /** C_v of every record over {V*, I*, B} and nothing else: else it could change other inputs of every shard's proof. */
  checkThresholds(context: Uint8Array, committed: readonly G1Point[], batch: ProofBatch, later: Equations): void {
    const due = this.committed ? 1 : 0;
    need(batch.thresholds.length === due, `the batch has ${batch.thresholds.length} openings of thresholds, where ${due} is due`);
    const bases = this.thresholdBases;
    for (const one of batch.thresholds) {
      checkOpening("thresholds", context, [{ bases, slots: [[0, bases.length]], commitments: committed }], bases.length, one, later);
    }
  }

  /** Relations of the hints' opening, and its witness's size. */
  hintRelations(committed: readonly (readonly G1Point[])[]): { relations: Relation[]; size: number } {
    const count = this.hintBases.length - 1;
    const places = Array.from({ length: this.cls.slots }, (_, i) => SLOT_HINTS * i + BOUND);
    const relations: Relation[] = [
      { bases: this.hintBases, slots: [[0, count + 1]], commitments: committed.map((one) => one[0] as G1Point) },
      {
        bases: this.scaledBases,
        slots: [...places.map((at) => [at, at + 1] as const), [count + 1, count + 2]],
        commitments: committed.map((one) => one[1] as G1Point),
      },
    ];
    return { relations, size: count + COMMITMENTS };
  }
}

/** What every batch of a window is checked against. */
export interface Basis {
  readonly window: Entered;
  readonly key: AttestationKey;
  readonly beacon: bigint;
  /** H_0 .. H_d. */
  readonly generators: readonly G1Point[];
  /** Columns and B of each version by its digest: one array for each, since sums over one array are taken together. */
  readonly columns: ReadonlyMap<string, readonly G1Point[]>;
  readonly random: (count: number) => Uint8Array;
}

/** What a record's entry shows: of every shard a proof and commitments to hints, and of all of them one threshold. */
interface Item {
  readonly placed: Placed;
  readonly equations: readonly Equation[];
  readonly hints: readonly (readonly G1Point[])[];
  readonly threshold: readonly G1Point[];
}

/** What a record's proofs state, by name; what a circuit has no such input for is not stated. */
interface Statement {
  readonly c_seed: bigint;
  readonly beacon: bigint;
  readonly ctx: bigint;
  readonly hmax: bigint;
  readonly t_commit: bigint;
  readonly prizes: bigint;
  /** Of one shard's proof. */
  readonly shard?: bigint;
  readonly shards?: bigint;
}

/** The clear inputs of a statement, in the order of its circuit; without a shard those that all shards share. */
function inOrder(key: AttestationKey, statement: Statement): bigint[] {
  return STATED[key.cls.kind].flatMap((name) => statement[name] ?? []);
}

/** The statements of a record's proofs: shards are numbered here, and by nobody else. SPEC B.5.3, A.15.3. */
function statements(basis: Basis, common: Statement): bigint[][] {
  const { shards } = basis.window.manifest.policy;
  return Array.from({ length: shards }, (_, shard) =>
    inOrder(basis.key, { ...common, shard: BigInt(shard), shards: BigInt(shards) }),
  );
}

/** Of one record: `cW` of every shard, `common` the clear inputs that its proofs share. */
function itemOf(basis: Basis, placed: Placed, entry: ProofEntry, cW: readonly G1Point[], encoded: readonly Uint8Array[], common: Statement): Item {
  const { key } = basis;
  const { shards } = basis.window.manifest.policy;
  const proofs = split(entry.proof, PROOF_BYTES);
  need(proofs.length === shards && cW.length === shards, `a record over ${shards} shards has as many proofs, not ${proofs.length}`);
  const committed = split(entry.c_h, COMMITMENTS * POINT_BYTES);
  need(committed.length === shards, `commitments to the hints of ${committed.length} shards, not of ${shards}`);
  need(entry.c_v.length === (key.committed ? 1 : 0), `${entry.c_v.length} commitments to a threshold`);
  const threshold = entry.c_v.map(point);
  const hints = committed.map(points);
  const equations = statements(basis, common).map((clear, shard): Equation => {
    const all = join(committed[shard] as Uint8Array, ...entry.c_v);
    const hashed = [key.digest, placed.digest, pack(clear), encoded[shard] as Uint8Array, all];
    const alpha = nonzeroElement("alpha", ...hashed);
    const beta = nonzeroElement("beta", ...hashed);
    const scaled = (hints[shard] as G1Point[]).map((one, k): readonly [G1Point, bigint] => [one, k === 0 ? 1n : beta]);
    const commitments = [[cW[shard] as G1Point, 1n] as const, ...scaled, ...threshold.map((one) => [one, 1n] as const)];
    return { proof: decodeProof(proofs[shard] as Uint8Array), clear: [...clear, alpha, beta], commitments };
  });
  return { placed, equations, hints, threshold };
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
  const { manifest } = basis.window;
  const hmax = steps(manifest, basis.key.cls);
  const prizes = prizesOf(manifest, basis.key.cls);
  const { shards } = manifest.policy;
  const cW = basis.key.shifted(part.flatMap((one) => one.cY), manifest.policy);
  const encoded = encodePoints(cW);
  const parts: Uint8Array[] = [];
  const items = part.map((placed, i): Item => {
    const { record, digest } = placed;
    const entry = batch.entries[i] ?? refuse("an entry is missing");
    const ctx = taggedElement("ctx", record.signed.request.raw);
    const common = { c_seed: manifest.c_seed, beacon: basis.beacon, ctx, hmax, t_commit: record.t_commit, prizes };
    const [from, to] = [shards * i, shards * (i + 1)];
    const own = encoded.slice(from, to);
    const threshold = join(...entry.c_v);
    parts.push(digest, pack(inOrder(basis.key, common)), record.signed.request.c_e, record.c_y, join(...own), entry.c_h, threshold, entry.proof);
    return itemOf(basis, placed, entry, cW.slice(from, to), own, common);
  });
  checkPairings(basis, items);
  const context = taggedHash("batch", basis.key.digest, basis.window.digest, ...parts);
  const { relations, size } = basis.key.hintRelations(items.flatMap((one) => one.hints));
  checkOpening("hints", context, relations, size, batch.hints, later);
  basis.key.checkThresholds(context, items.flatMap((one) => one.threshold), batch, later);
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
