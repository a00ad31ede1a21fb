// SPDX-License-Identifier: GPL-3.0-or-later
/** What coins hide is empty in what a window answers from, and nothing else is. SPEC A.11, A.12.4. */
import { fromNumber, join, need, refuse, same, utf8 } from "./bytes.js";
import { type G1Point, POINT_BYTES, encodePoint, point } from "./curve.js";
import { decode } from "./decoder.js";
import type { CoinCommitment, CoinPoints, CoinProof, EmptiedShard, ThinnedShard } from "./generated/messages.js";
import { type IndexVersion, type ScoreBases, checkColumns, checkNamed, columnsOf, columnsPath } from "./indices.js";
import { type Files, type Log, file } from "./log.js";
import { type Equations, type Relation, checkOpening } from "./opening.js";
import { type AttestationKey, weighted } from "./proofs.js";
import { coinedOf } from "./rules.js";
import { R, nonzeroElement, pack, taggedElement, taggedHash } from "./transcript.js";
import { type VerifyingKey, decodeProof } from "./verifying_key.js";
import type { Entered, Span } from "./window.js";

const CLEAR = 4;
const COINS = 26; // of an element
const PAIRS = 256; // (h, coin) of one j
const TOP_BYTES = 5;
const TOPS = Number((R >> 208n) >> BigInt(8 * TOP_BYTES)) + 1;

/** A thinning key cut into its bases. */
export class ThinningKey implements ScoreBases {
  /** Y^t_i and B^t. */
  readonly bases: readonly G1Point[];
  /** Y'^t_i and B^t. */
  readonly mixed: readonly G1Point[];
  private readonly blinder: readonly G1Point[];
  private readonly plain: number;
  private readonly known = new Map<number, readonly G1Point[]>();

  constructor(
    readonly key: VerifyingKey,
    readonly slots: number,
  ) {
    const elements = Math.ceil(slots / COINS);
    this.plain = elements + TOP_BYTES * elements + (COINS * elements - slots) + TOPS + PAIRS;
    need(key.size === CLEAR + 1 + 2 * slots + this.plain + 2 * PAIRS, "the thinning key is of another capacity");
    this.blinder = key.bases(CLEAR, 1);
    this.bases = [...key.bases(CLEAR + 1, slots), ...this.blinder];
    this.mixed = [...key.bases(CLEAR + 1 + slots, slots), ...this.blinder];
  }

  /** Points of hints and B^t; of the numbers of pairs those of h = 0 and coins from j on, and of h = 1 and coins below j. */
  hints(hidden: number): readonly G1Point[] {
    const at = CLEAR + 1 + 2 * this.slots;
    const found = this.known.get(hidden) ?? [
      ...this.key.bases(at, this.plain), ...this.key.bases(at + this.plain + hidden, PAIRS), ...this.blinder,
    ];
    this.known.set(hidden, found);
    return found;
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
 * One thinning, of all tenants with a coin, between the beacon's last opening, whether a later seal left its owner out or not, and the
 * window's; none where there is no coin.
 */
export function checkThinningEntry(log: Log, window: Entered, last: number, life: Span): void {
  const found = log.of("thinning").filter(([, one]) => same(one.manifest, window.digest));
  if (window.coin === undefined) return need(found.length === 0, "a window without coins was thinned", "log");
  const [index, entry] = found[0] ?? refuse("the window's indices were not thinned", "log");
  need(found.length === 1, "the window's indices were thinned more than once", "log");
  need(index > last && index < life.openIndex, "the indices were thinned before the beacon was complete, or too late", "log");
  const names = entry.tenants.map((one) => one.tenant).join(" ");
  need(names === coinedOf(window.manifest).join(" "), "the thinning is not of the manifest's tenants with a coin", "log");
}

/** C_coin, context and j. */
function numbers(basis: CoinBasis, tenant: string, shard: number): [bigint, bigint, bigint] {
  const { thrown, coin, window } = basis;
  const context = taggedElement("coin-context", thrown.manifest, pack([thrown.beacon]), utf8(tenant), fromNumber(shard, 2));
  return [coin.c_coin, context, BigInt(window.manifest.policy.hidden)];
}

function weights(tag: string, digest: Uint8Array, count: number): bigint[] {
  return Array.from({ length: count }, (_, j) => nonzeroElement(tag, digest, fromNumber(j, 4)));
}

/** A commitment to w' and the points that it is made over. */
type Side = readonly [readonly G1Point[], G1Point];

/** What a shard shows of its coins; the last side is over the points that the circuit sees. */
function checkShown(
  basis: CoinBasis, name: string, digest: Uint8Array, said: readonly [bigint, bigint, bigint], sides: readonly Side[],
  placed: G1Point, shown: CoinProof, later: Equations,
): void {
  const { thinning } = basis;
  const [n, count] = [thinning.slots, sides.length];
  const scores = sides.map(([, one]) => one);
  const points: CoinPoints = shown.points;
  const held = [points.products, points.hides, points.coins];
  need(held.every((own) => own.length === count), `commitments to coins, each over ${count} keys' points, are expected`);
  const [products, hides, coins] = held.map((own) => own.map(point)) as [G1Point[], G1Point[], G1Point[]];
  const slots = [scores, products, hides, coins];
  const parts = [digest, join(...scores.map(encodePoint)), points.raw];
  const [alpha, beta] = [nonzeroElement(`${name}-alpha`, ...parts), nonzeroElement(`${name}-beta`, ...parts)];
  const context = taggedHash(`${name}-link`, ...parts, shown.proof);
  const relations = sides.map(([bases], k): Relation => ({
    bases, slots: [[0, n], [n + k, n + k + 1]], commitments: slots.map((own) => own[k] as G1Point),
  }));
  checkOpening(name, context, relations, n + count, shown.slots, later);
  const bases = thinning.hints(Number(said[2]));
  const hints = point(points.hints);
  checkOpening(
    `${name}-hints`, context, [{ bases, slots: [[0, bases.length]], commitments: [hints] }], bases.length, shown.hints, later,
  );
  const last = slots.map((own) => own[count - 1] as G1Point);
  const square = (beta * beta) % R;
  const scales = [1n, 1n, R - beta, square, (square * beta) % R, 1n];
  const commitments = [placed, ...last, hints].map((one, k) => [one, scales[k] as bigint] as const);
  const clear = [said[0], said[1], alpha, beta];
  const holds = thinning.key.holds({ proof: decodeProof(shown.proof), clear, commitments });
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
  basis: CoinBasis, said: readonly [bigint, bigint, bigint], placed: Columns, thinned: Columns, shown: ThinnedShard,
  later: Equations,
): void {
  const { window, thinning, key } = basis;
  const parts = [thinning.digest, key.digest, window.digest, pack(said), placed.data, thinned.data];
  const digest = taggedHash("thinning-statement", ...parts);
  const factors = weights("thinning-weight", digest, thinned.points.length);
  const sides: Side[] = [[key.bases, weighted(thinned.points, factors)], [thinning.mixed, point(shown.scores)]];
  checkShown(basis, "thinning", digest, said, sides, weighted(placed.points, factors), shown.shown, later);
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
  basis: CoinBasis, said: readonly [bigint, bigint, bigint], number: number, columns: Columns, shown: EmptiedShard,
  later: Equations,
): void {
  const { window, thinning, key } = basis;
  const whose = [window.digest, fromNumber(number, 4)];
  const parts = [thinning.digest, key.digest, ...whose, pack(said), columns.data];
  const digest = taggedHash("emptied-statement", ...parts);
  const combined = weighted(columns.points, weights("emptied-weight", digest, columns.points.length));
  const [before, after] = [point(shown.before), point(shown.after)];
  const sides: Side[] = [[key.bases, combined], [thinning.bases, before], [thinning.mixed, after]];
  checkShown(basis, "emptied", digest, said, sides, before, shown.shown, later);
}
