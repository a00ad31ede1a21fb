// SPDX-License-Identifier: GPL-3.0-or-later
/** Points of BN254 as they stand on the wire, sums of multiples of them, and pairing products. SPEC G.3, G.9. */
import { pippenger, normalizeZ } from "@noble/curves/abstract/curve.js";
import { bn254 } from "@noble/curves/bn254.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { fromNumber, join, need, refuse, split, toNumber, utf8 } from "./bytes.js";
import { R } from "./transcript.js";

export const G1 = bn254.G1.Point;
export const G2 = bn254.G2.Point;
export type G1Point = InstanceType<typeof G1>;
export type G2Point = InstanceType<typeof G2>;

const P = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
const TWIST = [
  19485874751759354771024239261021720505790618469301721065564631296452457478373n,
  266929791119991161246907387137283842545076965332900288569378510910307636690n,
] as const;
export const POINT_BYTES = 64;
export const G2_BYTES = 128;

const modulo = (value: bigint): bigint => ((value % P) + P) % P;

/** A proper point of G1: canonical, on the curve, not the identity. */
export function point(data: Uint8Array): G1Point {
  need(data.length === POINT_BYTES, `a G1 point has ${POINT_BYTES} bytes, not ${data.length}`);
  const [x, y] = [toNumber(data.subarray(0, 32)), toNumber(data.subarray(32))];
  need(x !== 0n || y !== 0n, "the identity point is refused");
  need(x < P && y < P, "point coordinate is not canonical (>= p)");
  need((y * y - x * x * x - 3n) % P === 0n, "point is not on the curve");
  return G1.fromAffine({ x, y });
}

export function points(data: Uint8Array): G1Point[] {
  return split(data, POINT_BYTES).map(point);
}

/** 64 bytes of each; 64 zero bytes for the identity. */
export function encodePoints(given: readonly G1Point[]): Uint8Array[] {
  const proper = given.filter((one) => !one.is0());
  const affine = normalizeZ(G1, proper).values();
  return given.map((one) => {
    if (one.is0()) return new Uint8Array(POINT_BYTES);
    const { x, y } = (affine.next().value as G1Point).toAffine();
    return join(fromNumber(x, 32), fromNumber(y, 32));
  });
}

export function encodePoint(given: G1Point): Uint8Array {
  return encodePoints([given])[0] as Uint8Array;
}

/** A proper point of G2 from 128 bytes, imaginary parts first. */
export function pointG2(data: Uint8Array): G2Point {
  need(data.length === G2_BYTES, `a G2 point has ${G2_BYTES} bytes, not ${data.length}`);
  const [x1, x0, y1, y0] = split(data, 32).map(toNumber) as [bigint, bigint, bigint, bigint];
  need(x0 < P && x1 < P && y0 < P && y1 < P, "a point coordinate is not canonical (>= p)");
  need(x0 !== 0n || x1 !== 0n || y0 !== 0n || y1 !== 0n, "the G2 identity is refused");
  const [s0, s1] = [modulo(x0 * x0 - x1 * x1), modulo(2n * x0 * x1)];
  const [c0, c1] = [modulo(s0 * x0 - s1 * x1 + TWIST[0]), modulo(s0 * x1 + s1 * x0 + TWIST[1])];
  need(modulo(y0 * y0 - y1 * y1 - c0) === 0n && modulo(2n * y0 * y1 - c1) === 0n, "a G2 point is not on the curve");
  const found = G2.fromAffine({ x: { c0: x0, c1: x1 }, y: { c0: y0, c1: y1 } });
  need(found.isTorsionFree(), "a G2 point is outside the subgroup");
  return found;
}

const residue = (value: bigint): bigint => ((value % R) + R) % R;

/** The sum of multiples; no points give the identity. */
export function msm(bases: readonly G1Point[], scalars: readonly bigint[]): G1Point {
  need(bases.length === scalars.length, `${bases.length} points but ${scalars.length} scalars`);
  const used: G1Point[] = [];
  const values: bigint[] = [];
  bases.forEach((base, i) => {
    const value = residue(scalars[i] as bigint);
    if (value === 0n || base.is0()) return;
    used.push(base);
    values.push(value);
  });
  if (used.length === 0) return G1.ZERO;
  if (used.length < 4) {
    return used.reduce((sum, base, i) => sum.add(base.multiplyUnsafe(values[i] as bigint)), G1.ZERO);
  }
  return pippenger(G1, used, values);
}

export function multiple(base: G1Point, scalar: bigint): G1Point {
  const value = residue(scalar);
  return value === 0n ? G1.ZERO : base.multiplyUnsafe(value);
}

/** Whether the product of these pairings is 1. */
export function pairingIsOne(pairs: readonly (readonly [G1Point, G2Point])[]): boolean {
  const proper = pairs.filter(([one]) => !one.is0()).map(([g1, g2]) => ({ g1, g2 }));
  const { Fp12 } = bn254.fields;
  return proper.length === 0 || Fp12.eql(bn254.pairingBatch(proper), Fp12.ONE);
}

function power(base: bigint, exponent: bigint): bigint {
  let out = 1n;
  for (let factor = base % P; exponent > 0n; exponent >>= 1n, factor = (factor * factor) % P) {
    if (exponent & 1n) out = (out * factor) % P;
  }
  return out;
}

/** H_0 .. H_(count-1), hashed to the curve by trying. */
export function generators(count: number): G1Point[] {
  const domain = utf8("ragseal/v1/embedding-generators");
  return Array.from({ length: count }, (_, index) => {
    for (let attempt = 0; attempt < 1 << 16; attempt++) {
      const digest = sha512(join(domain, fromNumber(index, 4), fromNumber(attempt, 4)));
      const x = toNumber(digest) % P;
      const square = (x * x * x + 3n) % P;
      const y = power(square, (P + 1n) / 4n);
      if ((y * y) % P !== square || y === 0n) continue;
      const odd = BigInt((digest[0] as number) >> 7);
      return G1.fromAffine({ x, y: (y & 1n) === odd ? y : P - y });
    }
    return refuse("no generator was found");
  });
}
