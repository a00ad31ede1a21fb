// SPDX-License-Identifier: GPL-3.0-or-later
/** Ed25519 under domain-separated digests, and which keys bind their owner. SPEC G.4. */
import { ed25519 } from "@noble/curves/ed25519.js";
import { need, toNumber } from "./bytes.js";
import { taggedHash } from "./transcript.js";

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

export function littleEndian(data: Uint8Array): bigint {
  return toNumber(Uint8Array.from(data).reverse()) & MASK;
}

/** Canonical, and no point of small order: under such a key one signature fits many texts. */
export function checkPublicKey(key: Uint8Array): void {
  need(key.length === 32, "an Ed25519 public key has 32 bytes");
  const y = littleEndian(key);
  need(y < PRIME, "the public key is not in canonical form");
  need(!smallOrder(modulo(1n + y), modulo(1n - y)), "the public key is a point of small order");
}

/** An X25519 key to which something can be sealed. */
export function checkSealKey(key: Uint8Array): void {
  need(!smallOrder(modulo(littleEndian(key)), 1n), "nothing can be sealed to a key of small order");
}

/** Ed25519 as RFC 8032 has it, without the leniency that ZIP 215 adds. */
export function signatureHolds(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  checkPublicKey(key);
  try {
    return signature.length === 64 && ed25519.verify(signature, message, key, { zip215: false });
  } catch {
    return false;
  }
}

/** A signature of one purpose over a body. */
export function checkSignature(key: Uint8Array, purpose: string, body: Uint8Array, signature: Uint8Array): void {
  need(signatureHolds(key, taggedHash(`sign/${purpose}`, body), signature), `the ${purpose} signature does not hold`);
}
