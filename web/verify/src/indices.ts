// SPDX-License-Identifier: GPL-3.0-or-later
/** Which versions of its indices a window answers from, and the columns of each. SPEC A.3, A.12, D.4. */
import { fromNumber, hex, need, refuse, same } from "./bytes.js";
import { type G1Point, points } from "./curve.js";
import { decode } from "./decoder.js";
import type { IndexUpdate, Opening, Policy, Record as LedgerRecord } from "./generated/messages.js";
import { type Files, type Log, file } from "./log.js";
import { type Equations, checkOpening } from "./opening.js";
import { coinedOf } from "./rules.js";
import { taggedHash } from "./transcript.js";
import type { Entered, Span } from "./window.js";

const ANSWERING = 2;
/** How many of the newest versions a record may name: where the claim is answers, one may come between admission and record. */
const nameable = (policy: Policy): number => (policy.claim === "answers" ? ANSWERING + 1 : ANSWERING);

/** One version of one tenant's index, as the log names it. */
export interface IndexVersion {
  readonly tenant: string;
  /** Of the update; 0: the manifest's. */
  readonly number: number;
  readonly columnsDigest: Uint8Array;
  readonly openingDigest: Uint8Array;
  readonly proofDigest: Uint8Array | undefined;
}

export interface Versions {
  readonly every: number;
  /** How many of the newest a record may name. */
  readonly nameable: number;
  /** By the digest that requests name. */
  readonly known: ReadonlyMap<string, IndexVersion>;
  readonly updates: readonly [number, IndexUpdate][];
}

function checkUpdate(window: Entered, life: Span, number: number, index: number, update: IndexUpdate): void {
  const { policy, tenants } = window.manifest;
  need(index > life.openIndex && index < life.closeIndex, "an update stands outside its window", "log");
  need(update.number === number, `version ${update.number} stands where version ${number} is due`, "log");
  const first = life.open.time - (life.open.time % 60n);
  need(update.time >= first && (update.time - first) % BigInt(policy.version_every) === 0n, `version ${number} is of no tick`, "log");
  need(update.time <= life.open.time + policy.closes - policy.opens, `version ${number} is dated after the window's end`, "log");
  const names = update.tenants.map((one) => one.tenant).join(" ");
  need(names === tenants.map((one) => one.tenant).join(" "), `version ${number} is not of the manifest's tenants`, "log");
  const proven = update.tenants.filter((one) => one.proof_digests.length === 1).map((one) => one.tenant);
  need(proven.join(" ") === coinedOf(window.manifest).join(" "), `version ${number} has wrong proofs`, "log");
}

/** Updates are of all tenants, without gaps, on ticks, and inside their window. */
export function checkUpdates(log: Log, window: Entered, life: Span): Versions {
  const { manifest } = window;
  const every = manifest.policy.version_every;
  const most = nameable(manifest.policy);
  const updates = log.of("index-update").filter(([, one]) => same(one.manifest, window.digest));
  const known = new Map<string, IndexVersion>();
  if (every === 0) {
    need(updates.length === 0, "the window's indices were updated, although its policy gives them one version", "log");
    const thinning = log.of("thinning").find(([, one]) => same(one.manifest, window.digest))?.[1];
    const coined = coinedOf(manifest);
    for (const one of manifest.tenants) {
      const digest = hex(taggedHash("index-version", one.raw));
      const thinned = thinning?.tenants.find((line) => line.tenant === one.tenant);
      const line = coined.includes(one.tenant) ? (thinned ?? refuse("the log names no thinned index of a tenant", "log")) : one;
      known.set(digest, {
        tenant: one.tenant,
        number: 0,
        columnsDigest: line.columns_digest,
        openingDigest: line.opening_digest,
        proofDigest: thinned?.proof_digest,
      });
    }
    return { every, nameable: most, known, updates };
  }
  let before = -1n;
  updates.forEach(([index, update], i) => {
    checkUpdate(window, life, i + 1, index, update);
    need(update.time > before, `version ${update.number} is of no later tick than the one before it`, "log");
    before = update.time;
    for (const line of update.tenants) {
      const digest = taggedHash("updated-index-version", update.manifest, fromNumber(update.number, 4), line.raw);
      known.set(hex(digest), {
        tenant: line.tenant,
        number: update.number,
        columnsDigest: line.columns_digest,
        openingDigest: line.opening_digest,
        proofDigest: line.proof_digests[0],
      });
    }
  });
  return { every, nameable: most, known, updates };
}

/** The version that a record names, which is entry `index` of the log: one of the newest there. SPEC A.12.5, A.12.6. */
export function answering(versions: Versions, index: number, record: LedgerRecord): IndexVersion {
  const named = versions.known.get(hex(record.signed.request.index_digest));
  if (named === undefined) return refuse("the request names an index that no tenant of the window has", "log");
  if (versions.every === 0) return named;
  const newer = versions.updates.filter(([at]) => at < index);
  const newest = newer.at(-1)?.[1];
  need(newest !== undefined && named.number > newer.length - versions.nameable && named.number <= newer.length,
    `the request names a version that is not one of the ${versions.nameable} newest`, "log");
  const late = newest.time + BigInt(ANSWERING * versions.every + 60);
  need(record.time >= newest.time && record.time < late, "the record's time does not fit the newest version's", "log");
  return named;
}

/** Points under which columns are committed. */
export interface ScoreBases {
  readonly digest: Uint8Array;
  /** Y_0 .. Y_(N-1) and B. */
  readonly bases: readonly G1Point[];
}

/** The columns, one for each dimension and shard, open over {Y_i, B} only. */
export function checkColumns(key: ScoreBases, columns: Uint8Array, opening: Opening, count: number, later: Equations): G1Point[] {
  need(columns.length === 64 * count, `${columns.length} bytes of columns, not 64 for each of ${count}`);
  const commitments = points(columns);
  const context = taggedHash("columns-context", key.digest, columns);
  const size = key.bases.length;
  checkOpening("columns", context, [{ bases: key.bases, slots: [[0, size]], commitments }], size, opening, later);
  return commitments;
}

/** Columns of a version of one tenant's index. */
export const columnsOf = ({ dimension, shards }: Policy): number => dimension * shards;

export const columnsPath = (digest: Uint8Array): string => `columns/${hex(digest)}.bin`;

/** Columns and opening are those whose digests the log has. */
export function checkNamed(columns: Uint8Array, opening: Opening, columnsDigest: Uint8Array, openingDigest: Uint8Array): void {
  need(same(taggedHash("columns", columns), columnsDigest), "the columns are not those that the log names");
  need(same(taggedHash("columns-opening", opening.raw), openingDigest), "the opening is not the one that the log names");
}

/** The columns of a version of a tenant without coins, from their file. */
export async function readColumns(files: Files, key: ScoreBases, line: IndexVersion, count: number, later: Equations): Promise<G1Point[]> {
  const found = decode("index-file", await file(files, columnsPath(line.columnsDigest)));
  checkNamed(found.columns, found.opening, line.columnsDigest, line.openingDigest);
  return checkColumns(key, found.columns, found.opening, count, later);
}
