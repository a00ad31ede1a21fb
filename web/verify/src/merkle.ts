// SPDX-License-Identifier: GPL-3.0-or-later
/** RFC 6962 trees. SPEC G.6. */
import { sha256 } from "@noble/hashes/sha2.js";
import { join, need, same } from "./bytes.js";

export const leafHash = (entry: Uint8Array): Uint8Array => sha256(join(Uint8Array.of(0), entry));
const nodeHash = (left: Uint8Array, right: Uint8Array): Uint8Array => sha256(join(Uint8Array.of(1), left, right));

/** The next level: pairs hashed; a last one without a partner stays as it is. */
function above(level: readonly Uint8Array[]): Uint8Array[] {
  const out: Uint8Array[] = [];
  for (let i = 0; i < level.length; i += 2) {
    const [left, right] = [level[i] as Uint8Array, level[i + 1]];
    out.push(right === undefined ? left : nodeHash(left, right));
  }
  return out;
}

export function merkleRoot(leaves: readonly Uint8Array[]): Uint8Array {
  let level = [...leaves];
  while (level.length > 1) level = above(level);
  return level[0] ?? sha256(new Uint8Array());
}

/** The root above perfect subtrees that lie side by side, the last and smallest one first. */
export function rootOf(subtrees: readonly Uint8Array[]): Uint8Array {
  if (subtrees.length === 0) return sha256(new Uint8Array());
  return subtrees.reduce((right, left) => nodeHash(left, right));
}

/** Hashes of the perfect subtrees of `width` leaves, a power of two. */
export function subtrees(leaves: readonly Uint8Array[], width: number): Uint8Array[] {
  let level = leaves.slice(0, leaves.length - (leaves.length % width));
  for (let size = 1; size < width; size *= 2) level = above(level);
  return level;
}

/** The leaf is number `index` of the tree of `size` leaves with this root (RFC 9162, 2.1.3.2). */
export function checkInclusion(
  leaf: Uint8Array,
  index: number,
  size: number,
  path: readonly Uint8Array[],
  root: Uint8Array,
): void {
  need(index >= 0 && index < size, `entry ${index} cannot be in a log of ${size}`);
  let [fn, sn, hash] = [index, size - 1, leaf];
  for (const node of path) {
    need(node.length === 32 && sn > 0, "the path is longer than the tree is high");
    if (fn % 2 === 1 || fn === sn) {
      hash = nodeHash(node, hash);
      while (fn > 0 && fn % 2 === 0) [fn, sn] = [fn / 2, Math.floor(sn / 2)];
    } else hash = nodeHash(hash, node);
    [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
  }
  need(sn === 0, "the path is shorter than the tree is high");
  need(same(hash, root), "the path does not lead to the signed root");
}
