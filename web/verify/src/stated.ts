// SPDX-License-Identifier: GPL-3.0-or-later
/** What the circuit of a class states: its commitments, and what a verifier makes of them. SPEC B.5, B.7. */
import type { CommittedBases, Over, Use } from "./committed.js";
import type { G1Point } from "./curve.js";
import { type AttestationClass, BOUND, type DecoysClass, type NoiseClass, SLOT_HINTS } from "./generated/classes.js";
import { R } from "./transcript.js";
import type { VerifyingKey } from "./verifying_key.js";

/** Everything that checks a record's proofs goes through this, and asks nothing else of the law. */
export interface Stated {
  readonly bases: CommittedBases;
  /** What is multiplied with a proof's points before they are added to vk_x: C_w, its commitments, C_v. */
  scales(beta: bigint): readonly bigint[];
  /** Lists that a record commits to. */
  lists(shards: number): number;
  /** Clear inputs of one shard's proof behind its list. */
  ofShard(shard: number, shards: number): readonly bigint[];
}

/** A key's points of public inputs behind the clear ones. */
interface Slices {
  readonly blinder: G1Point;
  readonly scores: readonly G1Point[];
  readonly hints: readonly G1Point[];
  readonly behind: readonly G1Point[];
  readonly shared: readonly G1Point[];
}

/** Over all of these points in their order, and the blinder `at`. */
const whole = (points: readonly G1Point[], blinder: G1Point, at = points.length): Over => ({
  bases: [...points, blinder],
  slots: [[0, points.length], [at, at + 1]],
});

/** C_h over {W_j, B}, C_1 over {G^b_i, B}, with one witness; C_v over {V*, I*, B}. */
function noise({ slots }: NoiseClass, { blinder, hints, behind, shared }: Slices): Stated {
  const size = hints.length;
  const bounds = Array.from({ length: slots }, (_, i) => SLOT_HINTS * i + BOUND);
  const scaled: Over = {
    bases: [...behind, blinder],
    slots: [...bounds.map((at) => [at, at + 1] as const), [size + 1, size + 2]],
  };
  return {
    bases: {
      own: [{ name: "hints", entries: size, over: [whole(hints, blinder), scaled] }],
      shared: { name: "thresholds", entries: shared.length, over: [whole(shared, blinder)] },
      sums: [],
    },
    scales: (beta) => [1n, 1n, beta, 1n],
    lists: () => 1,
    ofShard: (shard, shards) => [BigInt(shard), BigInt(shards)],
  };
}

/**
 * C_m, C_im and C_m'' of one m, over {P_i, B}, {i P_i, B} and {Z_i, B}; C_b and C_b' of one b_1 .. b_N, where b_0 has no
 * base; C_h, and C_n over {NH, B}; of a record C_v, whose last entry the sum of all C_n opens to as well.
 *
 * They are never merged by a challenge: docs/proofs/decoys.md, section 5.
 */
function decoys({ slots: n, chunks, chunkBits }: DecoysClass, { blinder, scores, hints, behind, shared }: Slices): Stated {
  const two = chunks === 2;
  const later = [...scores.slice(1), blinder];
  const members: Over[] = [
    whole(scores, blinder),
    { bases: later, slots: [[1, n], [n + 1, n + 2]], factors: [...later.keys()].map((i) => (i < n - 1 ? BigInt(i + 1) : 1n)) },
    ...(two ? [whole(hints.slice(0, n), blinder, n + 2)] : []),
  ];
  const before: Over[] = [
    { bases: later, slots: [[0, n - 1], [n, n + 1]] },
    { bases: (members[0] as Over).bases, slots: [[0, n], [n + 1, n + 2]] },
  ];
  const values = shared.length;
  const own: Use[] = [
    { name: "members", entries: n, over: members },
    { name: "behind", entries: n, over: before },
    { name: "hints", entries: hints.length, over: [whole(hints, blinder)] },
    { name: "counts", entries: 1, over: [whole(behind, blinder)] },
  ];
  const total: Over = { bases: own[3]?.over[0]?.bases ?? [], slots: [[values - 1, values], [values + 1, values + 2]] };
  return {
    bases: {
      own,
      shared: { name: "lists", entries: values, over: [whole(shared, blinder), total] },
      sums: [members.length + before.length + 1],
    },
    scales: (beta) => {
      const square = (beta * beta) % R;
      const [cube, fourth] = [(square * beta) % R, (square * square) % R];
      const first = beta + (two ? fourth << BigInt(chunkBits) : 0n);
      return [R - 1n, first % R, square, ...(two ? [fourth] : []), (1n + R - cube) % R, cube, 1n, 1n, 1n];
    },
    lists: (shards) => shards,
    ofShard: (shard) => [BigInt(shard)],
  };
}

/** Of a class, under a key of its size. */
export function statedOf(cls: AttestationClass, key: VerifyingKey): Stated {
  const scoresAt = cls.clear + 1;
  const hintsAt = scoresAt + cls.slots;
  const behindAt = hintsAt + cls.hints;
  const sharedAt = behindAt + cls.behind;
  const slices: Slices = {
    blinder: key.bases(cls.clear, 1)[0] as G1Point,
    scores: key.bases(scoresAt, cls.slots),
    hints: key.bases(hintsAt, cls.hints),
    behind: key.bases(behindAt, cls.behind),
    shared: key.bases(sharedAt, cls.inputs - sharedAt),
  };
  return cls.kind === "noise" ? noise(cls, slices) : decoys(cls, slices);
}
