// SPDX-License-Identifier: GPL-3.0-or-later
/** Ed25519 under domain-separated digests, and which keys bind their owner. SPEC G.4. */
import { ed25519 } from "@noble/curves/ed25519.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { join, need, same, toNumber } from "./bytes.js";
import { taggedHash } from "./transcript.js";

const { Point } = ed25519;
const PRIME = (1n << 255n) - 19n;
const MASK = (1n << 255n) - 1n;

const modulo = (value: bigint): bigint => ((value % PRIME) + PRIME) % PRIME;

/** Whether (x : z) of Curve25519 is of order 1, 2, 4 or 8: three doublings lead to the neutral element. */
export function smallOrder(x: bigint, z: bigint): boolean {
  for (let i = 0; i < 3; i++) {
    const square = modulo(x * x - z * z);
    const product = modulo(x * z);
    [x, z] = [modulo(square * square), modulo(4n * product * (x * x + 486662n * product + z * z))];
  }
  return z === 0n;
}

const unsigned = (data: Uint8Array): bigint => toNumber(Uint8Array.from(data).reverse());

/** A coordinate: without the highest bit, which is a sign or means nothing. */
export const littleEndian = (data: Uint8Array): bigint => unsigned(data) & MASK;

/** Canonical, and no point of small order: under such a key one signature fits many texts. */
export function checkPublicKey(key: Uint8Array): void {
  need(key.length === 32, "an Ed25519 public key has 32 bytes");
  const y = littleEndian(key);
  need(y < PRIME, "the public key is not in canonical form");
  need(!smallOrder(modulo(1n + y), modulo(1n - y)), "the public key is a point of small order");
}

/** An X25519 key to which something can be sealed, in the one form that it has: not even the highest bit is ignored. */
export function checkSealKey(key: Uint8Array): void {
  const u = unsigned(key);
  need(u < PRIME, "the X25519 key is not in canonical form");
  need(!smallOrder(u, 1n), "nothing can be sealed to a key of small order");
}

/**
 * Ed25519 as OpenSSL and the other readers have it: the one R that S, key and message lead to, byte for byte, and S below
 * the order. Multiplied by the cofactor, as RFC 8032 also allows, the equation would hold for signatures that an auditor
 * does not take as evidence. SPEC G.4.2.
 */
export function signatureHolds(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  checkPublicKey(key);
  if (signature.length !== 64) return false;
  const [r, s] = [signature.slice(0, 32), unsigned(signature.slice(32))];
  if (s >= Point.Fn.ORDER) return false;
  const challenge = unsigned(sha512(join(r, key, message))) % Point.Fn.ORDER;
  let found: Uint8Array;
  try {
    // Both factors may be 0, and nothing here is secret.
    found = Point.BASE.multiplyUnsafe(s).subtract(Point.fromBytes(key).multiplyUnsafe(challenge)).toBytes();
  } catch {
    return false; // the key is no point
  }
  return same(found, r);
}

/** A signature of one purpose over a body. */
export function checkSignature(key: Uint8Array, purpose: string, body: Uint8Array, signature: Uint8Array): void {
  need(signatureHolds(key, taggedHash(`sign/${purpose}`, body), signature), `the ${purpose} signature does not hold`);
}
