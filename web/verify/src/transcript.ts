// SPDX-License-Identifier: GPL-3.0-or-later
/** Hashes with a tag each, and challenges. SPEC G.2, G.10. */
import { sha256 } from "@noble/hashes/sha2.js";
import { fromNumber, join, need, toNumber, utf8 } from "./bytes.js";

/** The order of BN254's groups. */
export const R = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;

/** SHA-256 over the tag and the parts, each behind its length. */
export function taggedHash(tag: string, ...parts: readonly Uint8Array[]): Uint8Array {
  const label = utf8(`ragseal/v1/${tag}`);
  const hash = sha256.create().update(Uint8Array.of(label.length)).update(label);
  for (const part of parts) hash.update(fromNumber(part.length, 8)).update(part);
  return hash.digest();
}

/** A field element of 31 bytes of the hash. */
export function taggedElement(tag: string, ...parts: readonly Uint8Array[]): bigint {
  return toNumber(taggedHash(tag, ...parts).subarray(0, 31));
}

/** The same; zero is refused. */
export function nonzeroElement(tag: string, ...parts: readonly Uint8Array[]): bigint {
  const value = taggedElement(tag, ...parts);
  need(value !== 0n, `challenge ${tag} is zero`);
  return value;
}

/** Uniform in the scalar field: 512 bits of hash mod r. */
export function challenge(tag: string, ...parts: readonly Uint8Array[]): bigint {
  const low = taggedHash(tag, Uint8Array.of(0), ...parts);
  const high = taggedHash(tag, Uint8Array.of(1), low);
  return toNumber(join(high, low)) % R;
}

/** Packed field elements, 32 bytes each; a negative one stands for r - |x|. */
export function pack(values: readonly bigint[]): Uint8Array {
  return join(...values.map((value) => fromNumber(value < 0n ? value + R : value, 32)));
}
