// SPDX-License-Identifier: GPL-3.0-or-later
/** The batched, folded proof of opening: many commitments are what they claim. SPEC B.7. */
import { fromNumber, join, need, toNumber } from "./bytes.js";
import { type G1Point, encodePoint, msm, point } from "./curve.js";
import type { Opening } from "./generated/messages.js";
import { R, challenge, nonzeroElement, taggedHash } from "./transcript.js";

const SHORTEST = 8;
const FACTOR_BYTES = 16;

/** Commitments that open over `bases`, base j taking the witness's entry `slots[j]`. */
export interface Relation {
  /** The same array wherever the bases are the same: sums over them are computed together. */
  readonly bases: readonly G1Point[];
  /** Ranges of the witness, one behind the other. */
  readonly slots: readonly (readonly [number, number])[];
  /** What each base is multiplied with; nothing: 1. */
  readonly factors?: readonly bigint[];
  readonly commitments: readonly G1Point[];
}

/** Lengths of the folded vector, from the whole to what is sent. */
function lengths(size: number, relations: number): number[] {
  const out = [size];
  for (let last = size; last > SHORTEST * relations; ) out.push((last = Math.floor((last + 1) / 2)));
  return out;
}

/**
 * Equations between points that are checked as one sum, each times 128 random bits that are drawn once the proofs are
 * here (SPEC B.7.7).
 */
export class Equations {
  private readonly over = new Map<readonly G1Point[], bigint[]>();
  private readonly points: G1Point[] = [];
  private readonly scalars: bigint[] = [];

  constructor(private readonly random: (count: number) => Uint8Array) {}

  /** <coefficients, bases> + <scalars, points> = 0. */
  add(bases: readonly G1Point[], coefficients: readonly bigint[], points: readonly G1Point[], scalars: readonly bigint[]): void {
    need(bases.length === coefficients.length && points.length === scalars.length, "bases and coefficients differ in number");
    let factor = 0n;
    while (factor === 0n) factor = toNumber(this.random(FACTOR_BYTES));
    const sums = this.over.get(bases) ?? Array.from(bases, () => 0n);
    coefficients.forEach((value, i) => {
      sums[i] = ((sums[i] as bigint) + factor * value) % R;
    });
    this.over.set(bases, sums);
    for (const one of points) this.points.push(one);
    for (const value of scalars) this.scalars.push((factor * value) % R);
  }

  /** Whether all of them hold; none is left then. */
  hold(): boolean {
    const all = [...this.over.keys()].flat().concat(this.points);
    const sum = msm(all, [...this.over.values()].flat().concat(this.scalars));
    this.over.clear();
    this.points.length = this.scalars.length = 0;
    return sum.is0();
  }
}

function pick(vector: readonly bigint[], slots: Relation["slots"]): bigint[] {
  return slots.flatMap(([from, to]) => vector.slice(from, to));
}

/** Check an opening of `size` witness entries; its equations go to `later`. Raises a Refusal where its shape is wrong. */
export function checkOpening(
  use: string,
  context: Uint8Array,
  relations: readonly Relation[],
  size: number,
  proof: Opening,
  later: Equations,
): void {
  const count = relations.length;
  need(proof.announcements.length === count, `${use} opening: ${count} announcements expected`);
  const steps = lengths(size, count);
  const rounds = steps.length - 1;
  need(proof.folds.length === 2 * count * rounds, `${use} opening: ${rounds} rounds of folding expected`);
  need(proof.responses.length === steps[rounds], `${use} opening: ${steps[rounds]} responses expected`);
  const announced = proof.announcements.map(point);
  const folds = proof.folds.map(point);
  const chi = challenge(`opening/${use}/chi`, context);
  const combined = relations.map(({ commitments }) => {
    need(commitments.length > 0, "a batch of no commitments proves nothing");
    need(!commitments.some((one) => one.is0()), "the identity point is refused");
    const powers: bigint[] = [];
    for (let power = 1n; powers.length < commitments.length; power = (power * chi) % R) powers.push(power);
    return msm(commitments, powers);
  });
  const parts = [fromNumber(size, 4), join(...combined.map(encodePoint)), join(...proof.announcements)];
  let transcript = taggedHash(`opening/${use}/announced`, context, ...parts);
  const c = challenge(`opening/${use}`, transcript);
  const drawn: bigint[] = [];
  for (let i = 0; i < folds.length; i += 2 * count) {
    transcript = taggedHash(`opening/${use}/fold`, transcript, join(...proof.folds.slice(i, i + 2 * count)));
    drawn.push(nonzeroElement(`opening/${use}/u`, transcript));
  }
  let coefficients: bigint[] = [...proof.responses];
  const weights: bigint[] = [];
  let after = 1n;
  for (let round = rounds - 1; round >= 0; round--) {
    const u = drawn[round] as bigint;
    const folded = coefficients;
    coefficients = folded.map((value) => (value * u) % R);
    coefficients.push(...folded.slice(0, (steps[round] as number) - folded.length));
    weights.unshift(after, (((after * u) % R) * u) % R);
    after = (after * u) % R;
  }
  const closing = [after, (after * c) % R, ...weights].map((weight) => (R - weight) % R);
  relations.forEach((relation, k) => {
    const picked = pick(coefficients, relation.slots);
    const { factors } = relation;
    need(factors === undefined || factors.length === picked.length, "bases and factors differ in number");
    const own = factors === undefined ? picked : picked.map((value, i) => (value * (factors[i] as bigint)) % R);
    const points = [announced[k] as G1Point, combined[k] as G1Point, ...folds.filter((_, i) => i % count === k)];
    later.add(relation.bases, own, points, closing);
  });
}
