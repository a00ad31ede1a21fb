// SPDX-License-Identifier: GPL-3.0-or-later
/** What coins hide is empty in what a window answers from, and nothing else is. SPEC A.11, A.12.4. */
import { fromNumber, need, refuse, same, utf8 } from "./bytes.js";
import { type G1Point, POINT_BYTES, point } from "./curve.js";
import { decode } from "./decoder.js";
import type { CoinCommitment, EmptiedShard, ThinnedShard } from "./generated/messages.js";
import { type IndexVersion, type ScoreBases, checkColumns, checkNamed, columnsOf, columnsPath } from "./indices.js";
import { type Files, type Log, file } from "./log.js";
import { type Equations, type Relation, checkOpening } from "./opening.js";
import { type AttestationKey, weighted } from "./proofs.js";
import { nonzeroElement, pack, taggedElement, taggedHash } from "./transcript.js";
import { type VerifyingKey, decodeProof } from "./verifying_key.js";
import type { Entered, Span } from "./window.js";

const CLEAR = 3;

/** A thinning key cut into its bases. */
export class ThinningKey implements ScoreBases {
  /** Y^t_i and B^t. */
  readonly bases: readonly G1Point[];
  /** Y'^t_i and B^t. */
  readonly thinned: readonly G1Point[];

  constructor(
    readonly key: VerifyingKey,
    readonly slots: number,
  ) {
    need(key.size === CLEAR + 1 + 2 * slots, "the thinning key is of another capacity");
    const blinder = key.bases(CLEAR, 1);
    this.bases = [...key.bases(CLEAR + 1, slots), ...blinder];
    this.thinned = [...key.bases(CLEAR + 1 + slots, slots), ...blinder];
  }

  get digest(): Uint8Array {
    return this.key.digest;
  }
}

/** Whose beacon threw the coins. */
export interface Throw {
  readonly manifest: Uint8Array;
  readonly beacon: bigint;
}

export interface CoinBasis {
  readonly window: Entered;
  readonly coin: CoinCommitment;
  readonly key: AttestationKey;
  readonly thinning: ThinningKey;
  readonly thrown: Throw;
}

/**
 * One thinning, of all tenants, between the beacon's last opening, whether a later seal left its owner out or not, and the
 * window's; none where there is no coin.
 */
export function checkThinningEntry(log: Log, window: Entered, last: number, life: Span): void {
  const found = log.of("thinning").filter(([, one]) => same(one.manifest, window.digest));
  if (window.coin === undefined) return need(found.length === 0, "a window without coins was thinned", "log");
  const [index, entry] = found[0] ?? refuse("the window's indices were not thinned", "log");
  need(found.length === 1, "the window's indices were thinned more than once", "log");
  need(index > last && index < life.openIndex, "the indices were thinned before the beacon was complete, or too late", "log");
  const names = entry.tenants.map((one) => one.tenant).join(" ");
  need(names === window.manifest.tenants.map((one) => one.tenant).join(" "), "the thinning is not of the manifest's tenants", "log");
}

interface Statement {
  readonly clear: readonly bigint[];
  readonly digest: Uint8Array;
}

function numbers(basis: CoinBasis, tenant: string, shard: number): bigint[] {
  const { thrown, coin, window } = basis;
  const context = taggedElement("coin-context", thrown.manifest, pack([thrown.beacon]), utf8(tenant), fromNumber(shard, 2));
  return [coin.c_coin, context, BigInt(window.manifest.policy.hidden)];
}

function weights(tag: string, statement: Statement, count: number): bigint[] {
  return Array.from({ length: count }, (_, j) => nonzeroElement(tag, statement.digest, fromNumber(j, 4)));
}

function checkPairing(basis: CoinBasis, clear: readonly bigint[], committed: readonly G1Point[], proof: Uint8Array): void {
  const commitments = committed.map((one) => [one, 1n] as const);
  const holds = basis.thinning.key.holds({ proof: decodeProof(proof), clear, commitments });
  need(holds, "the proof that hidden slots are empty does not hold");
}

/** One shard's columns, as bytes and as points. */
interface Columns {
  readonly data: Uint8Array;
  readonly points: readonly G1Point[];
}

/** Cut into those of the shards, in their order. */
function ofShards(basis: CoinBasis, data: Uint8Array, points: readonly G1Point[]): Columns[] {
  const { dimension, shards } = basis.window.manifest.policy;
  return Array.from({ length: shards }, (_, shard) => {
    const [from, to] = [dimension * shard, dimension * (shard + 1)];
    return { data: data.subarray(POINT_BYTES * from, POINT_BYTES * to), points: points.slice(from, to) };
  });
}

/** The file speaks of every shard, in proofs that the log names. SPEC A.15.2. */
function checkShards(basis: CoinBasis, tag: string, shards: readonly (ThinnedShard | EmptiedShard)[], line: IndexVersion): void {
  const named = taggedHash(tag, ...shards.map((one) => one.raw));
  need(line.proofDigest !== undefined && same(named, line.proofDigest), "the proof is not the one that the log names");
  const due = basis.window.manifest.policy.shards;
  need(shards.length === due, `the file speaks of ${shards.length} shards, the window's indices have ${due}`);
}

/** The thinned columns of a tenant: the placed ones of its file, hidden slots emptied. */
export async function readThinned(files: Files, basis: CoinBasis, line: IndexVersion, later: Equations): Promise<G1Point[]> {
  const { window, thinning, key } = basis;
  const count = columnsOf(window.manifest.policy);
  const index = window.manifest.tenants.find((one) => one.tenant === line.tenant) ?? refuse("no such tenant");
  const placed = decode("index-file", await file(files, columnsPath(index.columns_digest)));
  checkNamed(placed.columns, placed.opening, index.columns_digest, index.opening_digest);
  const before = checkColumns(thinning, placed.columns, placed.opening, count, later);

  const found = decode("thinned-file", await file(files, columnsPath(line.columnsDigest)));
  checkNamed(found.columns, found.opening, line.columnsDigest, line.openingDigest);
  checkShards(basis, "thinning-proof", found.shards, line);
  const columns = checkColumns(key, found.columns, found.opening, count, later);
  const [theirs, ours] = [ofShards(basis, placed.columns, before), ofShards(basis, found.columns, columns)];
  found.shards.forEach((one, shard) => {
    checkThinnedShard(basis, numbers(basis, line.tenant, shard), theirs[shard] as Columns, ours[shard] as Columns, one, later);
  });
  return columns;
}

function checkThinnedShard(
  basis: CoinBasis, clear: readonly bigint[], placed: Columns, thinned: Columns, shown: ThinnedShard, later: Equations,
): void {
  const { window, thinning, key } = basis;
  const parts = [thinning.digest, key.digest, window.digest, pack(clear), placed.data, thinned.data];
  const statement = { clear, digest: taggedHash("thinning-statement", ...parts) };
  const factors = weights("thinning-weight", statement, thinned.points.length);
  const after = point(shown.scores);
  const n = thinning.slots;
  const relations: Relation[] = [
    { bases: key.bases, slots: [[0, n + 1]], commitments: [weighted(thinned.points, factors)] },
    { bases: thinning.thinned, slots: [[0, n], [n + 1, n + 2]], commitments: [after] },
  ];
  const context = taggedHash("thinning-link", statement.digest, shown.scores, shown.proof);
  checkOpening("thinning", context, relations, n + 2, shown.link, later);
  checkPairing(basis, clear, [weighted(placed.points, factors), after], shown.proof);
}

/** The columns of a later version: the slots that coins hide are empty in them. */
export async function readEmptied(files: Files, basis: CoinBasis, line: IndexVersion, later: Equations): Promise<G1Point[]> {
  const found = decode("emptied-file", await file(files, columnsPath(line.columnsDigest)));
  checkNamed(found.columns, found.opening, line.columnsDigest, line.openingDigest);
  checkShards(basis, "emptied-proof", found.shards, line);
  const columns = checkColumns(basis.key, found.columns, found.opening, columnsOf(basis.window.manifest.policy), later);
  const ours = ofShards(basis, found.columns, columns);
  found.shards.forEach((one, shard) => {
    checkEmptiedShard(basis, numbers(basis, line.tenant, shard), line.number, ours[shard] as Columns, one, later);
  });
  return columns;
}

function checkEmptiedShard(
  basis: CoinBasis, clear: readonly bigint[], number: number, columns: Columns, shown: EmptiedShard, later: Equations,
): void {
  const { window, thinning, key } = basis;
  const whose = [window.digest, fromNumber(number, 4)];
  const parts = [thinning.digest, key.digest, ...whose, pack(clear), columns.data];
  const statement = { clear, digest: taggedHash("emptied-statement", ...parts) };
  const combined = weighted(columns.points, weights("emptied-weight", statement, columns.points.length));
  const [before, after] = [point(shown.before), point(shown.after)];
  const n = thinning.slots;
  const relations: Relation[] = [
    { bases: key.bases, slots: [[0, n + 1]], commitments: [combined] },
    { bases: thinning.bases, slots: [[0, n], [n + 1, n + 2]], commitments: [before] },
    { bases: thinning.thinned, slots: [[0, n], [n + 2, n + 3]], commitments: [after] },
  ];
  const context = taggedHash("emptied-link", statement.digest, shown.before, shown.after, shown.proof);
  checkOpening("emptied", context, relations, n + 3, shown.link, later);
  checkPairing(basis, clear, [before, after], shown.proof);
}
