// SPDX-License-Identifier: GPL-3.0-or-later
/** Commitments that stand for a proof's hidden inputs, and what their batched openings prove. SPEC B.5, B.7. */
import { need } from "./bytes.js";
import type { G1Point } from "./curve.js";
import type { Opening } from "./generated/messages.js";
import { type Equations, type Relation, checkOpening } from "./opening.js";

/** What one commitment is made over. */
export type Over = Omit<Relation, "commitments">;

/** Commitments that one witness opens. */
export interface Use {
  /** Of the opening, in its challenges. */
  readonly name: string;
  /** Of the witness, blinders left out: each commitment has one behind them. */
  readonly entries: number;
  readonly over: readonly Over[];
}

/** All bases of one class under one key. */
export interface CommittedBases {
  /** Of a shard's proof: its commitments stand in this order. */
  readonly own: readonly Use[];
  /** Of a record: C_v, and behind it sums over its shards. */
  readonly shared: Use;
  /** Which of a shard's commitments those are sums of. */
  readonly sums: readonly number[];
}

/** Commitments of a shard's proof. */
export const countOf = (bases: CommittedBases): number => bases.own.reduce((sum, use) => sum + use.over.length, 0);

/** The commitments of a record. */
export interface Committed {
  /** Of every shard's proof. */
  readonly shards: readonly (readonly G1Point[])[];
  /** C_v. */
  readonly shared: G1Point;
}

const ofEach = (use: Use, commitments: readonly (readonly G1Point[])[]): Relation[] =>
  use.over.map((one, k) => ({ ...one, commitments: commitments.map((points) => points[k] as G1Point) }));

/** Every commitment of a batch opens over its own bases and nothing else: else it could change other inputs of a proof. */
export function checkCommitted(
  bases: CommittedBases, context: Uint8Array, records: readonly Committed[], openings: readonly Opening[], later: Equations,
): void {
  const uses = [...bases.own, bases.shared];
  const due = uses.map((use) => use.name).join(", ");
  need(openings.length === uses.length, `the batch has ${openings.length} openings, where ${due} are due`);
  const proofs = records.flatMap((one) => one.shards);
  let at = 0;
  const relations = bases.own.map((use) => {
    const end = at + use.over.length;
    const found = ofEach(use, proofs.map((points) => points.slice(at, end)));
    at = end;
    return found;
  });
  const sumsOf = ({ shards, shared }: Committed): G1Point[] => [
    shared,
    ...bases.sums.map((k) => shards.map((points) => points[k] as G1Point).reduce((sum, one) => sum.add(one))),
  ];
  relations.push(ofEach(bases.shared, records.map(sumsOf)));
  uses.forEach((use, k) => {
    checkOpening(use.name, context, relations[k] as Relation[], use.entries + use.over.length, openings[k] as Opening, later);
  });
}
