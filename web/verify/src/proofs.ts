// SPDX-License-Identifier: GPL-3.0-or-later
/** Attestation keys and the proofs of a window's records. SPEC B.5 to B.7, B.10, B.11, D.8. */
import { hex, need, refuse, same, split, utf8 } from "./bytes.js";
import { G1, type G1Point, encodePoints, msm, multiple, point } from "./curve.js";
import type { AttestationClass } from "./generated/classes.js";
import type { Policy, ProofBatch } from "./generated/messages.js";
import type { ScoreBases } from "./indices.js";
import { type Equations, type Relation, checkOpening } from "./opening.js";
import type { Placed } from "./records.js";
import { nonzeroElement, pack, taggedElement, taggedHash } from "./transcript.js";
import { type Equation, type VerifyingKey, decodeProof } from "./verifying_key.js";
import { type Entered, steps } from "./window.js";

export const BATCH = 256;
const CLEAR = 7;
/** A slot's numbers among the hints of a ranked class, and which of them is its bound. */
const [SLOT_HINTS, BOUND] = [4, 2];

/** A verifying key cut into the bases of an attestation's commitments. */
export class AttestationKey implements ScoreBases {
  readonly bases: readonly G1Point[];
  private readonly hintBases: readonly G1Point[];
  private readonly scaledBases: readonly G1Point[];
  private readonly sumY: G1Point;

  constructor(
    readonly key: VerifyingKey,
    readonly cls: AttestationClass,
  ) {
    const { slots, hints, ranked } = cls;
    const scoresAt = CLEAR + 1;
    const wanted = scoresAt + slots + hints + (ranked ? slots : 0);
    need(key.size === wanted, `this key has ${key.size} public inputs, its class needs ${wanted}`);
    const blinder = key.bases(CLEAR, 1);
    const y = key.bases(scoresAt, slots);
    this.bases = [...y, ...blinder];
    this.hintBases = [...key.bases(scoresAt + slots, hints), ...blinder];
    this.scaledBases = ranked ? [...key.bases(scoresAt + slots + hints, slots), ...blinder] : [];
    this.sumY = y.reduce((sum, one) => sum.add(one), G1.ZERO);
  }

  get digest(): Uint8Array {
    return this.key.digest;
  }

  get blinder(): G1Point {
    return this.bases.at(-1) as G1Point;
  }

  /** Commitments to a record's hints: C_h, and C_1 of a ranked class. */
  get commitments(): number {
    return this.cls.ranked ? 2 : 1;
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

  /** Relations of the hints' opening, and its witness's size. */
  hintRelations(committed: readonly (readonly G1Point[])[]): { relations: Relation[]; size: number } {
    const count = this.hintBases.length - 1;
    const relations: Relation[] = [
      { bases: this.hintBases, slots: [[0, count + 1]], commitments: committed.map((one) => one[0] as G1Point) },
    ];
    if (this.cls.ranked) {
      const places = Array.from({ length: this.cls.slots }, (_, i) => SLOT_HINTS * i + BOUND);
      relations.push({
        bases: this.scaledBases,
        slots: [...places.map((at) => [at, at + 1] as const), [count + 1, count + 2]],
        commitments: committed.map((one) => one[1] as G1Point),
      });
    }
    return { relations, size: count + this.commitments };
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

interface Item {
  readonly placed: Placed;
  readonly equation: Equation;
  readonly hints: readonly G1Point[];
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
  const cW = basis.key.shifted(part.map((one) => one.cY), manifest.policy);
  const encoded = encodePoints(cW);
  const parts: Uint8Array[] = [];
  const items = part.map((placed, i): Item => {
    const { record, digest } = placed;
    const entry = batch.entries[i] ?? refuse("an entry is missing");
    const ctx = taggedElement("ctx", record.signed.request.raw);
    const statement = [manifest.c_seed, basis.beacon, ctx, hmax, record.t_commit];
    const packed = pack(statement);
    const own = encoded[i] as Uint8Array;
    const hashed = [basis.key.digest, digest, packed, own, entry.c_h];
    const alpha = nonzeroElement("alpha", ...hashed);
    const beta = nonzeroElement("beta", ...hashed);
    const hints = split(entry.c_h, 64).map(point);
    need(hints.length === basis.key.commitments, `commitments to hints: ${hints.length} points`);
    const scaled = hints.map((one, k): readonly [G1Point, bigint] => [one, k === 0 ? 1n : beta]);
    parts.push(digest, packed, record.signed.request.c_e, record.c_y, own, entry.c_h, entry.proof);
    const commitments = [[cW[i] as G1Point, 1n] as const, ...scaled];
    return { placed, hints, equation: { proof: decodeProof(entry.proof), clear: [...statement, alpha, beta], commitments } };
  });
  checkPairings(basis, items);
  const context = taggedHash("batch", basis.key.digest, basis.window.digest, ...parts);
  const { relations, size } = basis.key.hintRelations(items.map((one) => one.hints));
  checkOpening("hints", context, relations, size, batch.hints, later);
  checkLinks(basis, items, batch, context, later);
}

function checkPairings(basis: Basis, items: readonly Item[]): void {
  const { key } = basis.key;
  if (key.allHold(items.map((one) => one.equation), basis.random)) return;
  const culprit = items.find((one) => !key.holds(one.equation));
  refuse(culprit ? `the proof of record ${culprit.placed.record.seq} does not hold` : "proofs do not hold together");
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
    if (basis.window.manifest.policy.claim === "answers") {
      const { bases } = basis.key;
      const histograms: Relation = { bases, slots: [[0, bases.length]], commitments: own.map((one) => one.placed.cY) };
      const about = taggedHash("histogram", context, utf8(version.tenant), digest);
      const opening = batch.links[i]?.opening ?? refuse("an opening is missing");
      checkOpening("histogram", about, [histograms], bases.length, opening, later);
      return;
    }
    const columns = basis.columns.get(hex(digest)) ?? refuse("the columns of a version are missing");
    const d = columns.length - 1;
    const relations: Relation[] = [
      { bases: basis.generators, slots: [[0, d + 1]], commitments: own.map((one) => one.placed.cE) },
      { bases: columns, slots: [[0, d], [d + 1, d + 2]], commitments: own.map((one) => one.placed.cY) },
    ];
    const here = taggedHash("link", context, utf8(version.tenant), digest);
    checkOpening("link", here, relations, d + 2, batch.links[i]?.opening ?? refuse("a link is missing"), later);
  });
}

/** Used by coins as well: a weighted sum of columns. */
export function weighted(columns: readonly G1Point[], weights: readonly bigint[]): G1Point {
  const sum = msm(columns, weights);
  need(!sum.is0(), "the combined columns are the identity point");
  return sum;
}

export const batchPath = (manifest: Uint8Array, start: number): string => `proofs/${hex(manifest)}/${start}.bin`;
export const keyPath = (digest: Uint8Array): string => `vk-${hex(digest)}.bin`;
