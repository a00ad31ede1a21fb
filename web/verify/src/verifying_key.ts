// SPDX-License-Identifier: GPL-3.0-or-later
/** Groth16 verifying keys whose IC points are a Pedersen basis: what is committed is added to vk_x. SPEC B.10. */
import { normalizeZ } from "@noble/curves/abstract/curve.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { hex, need, split, toNumber } from "./bytes.js";
import { G1, G2, type G1Point, type G2Point, G2_BYTES, POINT_BYTES, msm, multiple, pairingIsOne, point, pointG2, points } from "./curve.js";
import { R } from "./transcript.js";

export const PROOF_BYTES = 2 * POINT_BYTES + G2_BYTES;
const HEAD = POINT_BYTES + 3 * G2_BYTES + 4;
const WEIGHT_BYTES = 16;

export interface Proof {
  readonly a: G1Point;
  readonly b: G2Point;
  readonly c: G1Point;
}

export function decodeProof(data: Uint8Array): Proof {
  need(data.length === PROOF_BYTES, `a proof has ${PROOF_BYTES} bytes, not ${data.length}`);
  return { a: point(data.subarray(0, 64)), b: pointG2(data.subarray(64, 192)), c: point(data.subarray(192)) };
}

/** One proof with its clear inputs and the commitments to the others, each with the factor that it is added with. */
export interface Equation {
  readonly proof: Proof;
  readonly clear: readonly bigint[];
  readonly commitments: readonly (readonly [G1Point, bigint])[];
}

const MOST = 16;

/** Whether some b beta + c gamma is d delta or the identity, for |b|, |c|, |d| <= 16: anybody could prove anything. SPEC A.9.17. */
function related(beta: G2Point, gamma: G2Point, delta: G2Point): boolean {
  const multiples = (one: G2Point): G2Point[] => {
    const found = [one];
    while (found.length < MOST) found.push((found.at(-1) as G2Point).add(one));
    return found;
  };
  const [ofBeta, ofGamma] = [multiples(beta), multiples(gamma)];
  const sums = ofBeta.flatMap((b) => ofGamma.flatMap((c) => [b.add(c), b.subtract(c)]));
  if (sums.some((one) => one.is0())) return true;
  const x = (one: G2Point): string => Object.values(one.toAffine().x).join();
  const seen = new Set(normalizeZ(G2, multiples(delta)).map(x));
  return normalizeZ(G2, [...sums, ...ofBeta, ...ofGamma]).some((one) => seen.has(x(one)));
}

/** Whether a P = b Q for two of the points, 1 <= |a|, |b| <= 16: a proof holds for other statements, too. SPEC A.9.17. */
function aligned(given: readonly G1Point[]): boolean {
  const xs = new Set<bigint>();
  let multiples = [...given];
  for (let factor = 1; factor <= MOST; factor++) {
    if (factor > 1) multiples = multiples.map((one, i) => one.add(given[i] as G1Point));
    for (const one of normalizeZ(G1, multiples)) xs.add(one.toAffine().x);
  }
  return xs.size < MOST * given.length;
}

/** By digest: the next window is mostly of the key of the one before, and looking at its points takes longest. */
const KEPT = 8;
const decoded = new Map<string, VerifyingKey>();

export class VerifyingKey {
  private constructor(
    readonly digest: Uint8Array,
    private readonly alpha: G1Point,
    private readonly beta: G2Point,
    private readonly gamma: G2Point,
    private readonly delta: G2Point,
    private readonly ic: readonly G1Point[],
  ) {}

  /** alpha_1, beta_2, gamma_2, delta_2, a count, IC; every point is checked, once of a key. */
  static decode(data: Uint8Array): VerifyingKey {
    const name = hex(sha256(data));
    const key = decoded.get(name) ?? VerifyingKey.read(data);
    if (decoded.size === KEPT) decoded.clear();
    decoded.set(name, key);
    return key;
  }

  private static read(data: Uint8Array): VerifyingKey {
    need(data.length >= HEAD, "the verifying key is truncated");
    const count = Number(toNumber(data.subarray(HEAD - 4, HEAD)));
    need(data.length - HEAD === count * POINT_BYTES, `the verifying key does not have its ${count} IC points`);
    need(count >= 2, `a key with ${count} IC points`);
    const [beta, gamma, delta] = split(data.subarray(64, HEAD - 4), G2_BYTES).map(pointG2) as [G2Point, G2Point, G2Point];
    need(!gamma.equals(delta), "gamma equals delta: such a key proves anything");
    need(!related(beta, gamma, delta), "beta, gamma and delta are small multiples of each other: such a key proves anything");
    const [alpha, ic] = [point(data.subarray(0, 64)), points(data.subarray(HEAD))];
    need(!aligned([alpha, ...ic]), "a point of alpha and IC is a small multiple of another one: a proof holds for other statements, too");
    return new VerifyingKey(sha256(data), alpha, beta, gamma, delta, ic);
  }

  /** Public inputs. */
  get size(): number {
    return this.ic.length - 1;
  }

  /** The points of `count` public inputs from `at` on; that of the constant is in front of them all. */
  bases(at: number, count: number): G1Point[] {
    need(at >= 0 && at + 1 + count <= this.ic.length, `the key has no public inputs ${at}..${at + count}`);
    return this.ic.slice(at + 1, at + 1 + count);
  }

  private checked({ clear, commitments }: Equation): void {
    need(clear.every((value) => value >= 0n && value < R), "a clear input is not below r");
    need(clear.length <= this.size, `${clear.length} clear inputs, the key has ${this.size} public inputs`);
    need(clear.length === this.size || commitments.length > 0, "no commitment to the inputs that are not clear");
    need(commitments.every(([one]) => !one.is0()), "the identity point is refused");
  }

  /** Whether one proof holds. */
  holds(equation: Equation): boolean {
    return this.allHold([equation], () => Uint8Array.of(1));
  }

  /**
   * Whether all of them hold, by one product of pairings with factors of 128 random bits: a false proof is hidden by at
   * most one of 2^128 - 1 factors, and none of them is known to whoever made the proofs.
   */
  allHold(equations: readonly Equation[], random: (count: number) => Uint8Array): boolean {
    need(equations.length > 0, "no proof to check");
    const width = equations[0]?.clear.length ?? 0;
    const sums = Array.from({ length: width + 1 }, () => 0n);
    const bases: G1Point[] = [];
    const scalars: bigint[] = [];
    const pairs: (readonly [G1Point, G2Point])[] = [];
    const last: G1Point[] = [];
    const factors: bigint[] = [];
    for (const equation of equations) {
      this.checked(equation);
      need(equation.clear.length === width, "clear inputs differ in number");
      let factor = 0n;
      while (factor === 0n) factor = toNumber(random(WEIGHT_BYTES));
      [1n, ...equation.clear].forEach((value, i) => {
        sums[i] = ((sums[i] as bigint) + factor * value) % R;
      });
      for (const [base, scale] of equation.commitments) {
        bases.push(base);
        scalars.push((factor * scale) % R);
      }
      pairs.push([multiple(equation.proof.a, factor), equation.proof.b]);
      last.push(equation.proof.c);
      factors.push(factor);
    }
    const x = msm([...this.ic.slice(0, width + 1), ...bases], [...sums, ...scalars]);
    pairs.push([x.negate(), this.gamma], [msm(last, factors).negate(), this.delta]);
    pairs.push([multiple(this.alpha, sums[0] as bigint).negate(), this.beta]);
    return pairingIsOne(pairs);
  }
}
