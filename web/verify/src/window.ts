// SPDX-License-Identifier: GPL-3.0-or-later
/** A window in the log: its manifest, and that it was opened and closed once, in its turn. SPEC A.1, D.2. */
import { Unknown, hex, need, refuse, same } from "./bytes.js";
import type { AttestationClass } from "./generated/classes.js";
import type { CoinCommitment, Manifest, Policy, Record as LedgerRecord, WindowClose, WindowOpen } from "./generated/messages.js";
import type { Log } from "./log.js";
import { coinedOf } from "./rules.js";
import { checkSignature } from "./signature.js";
import { taggedHash } from "./transcript.js";

export const manifestDigest = (manifest: Manifest): Uint8Array => taggedHash("manifest", manifest.raw);

export interface Entered {
  readonly index: number;
  readonly manifest: Manifest;
  readonly digest: Uint8Array;
  readonly coin: CoinCommitment | undefined;
}

export interface Span {
  readonly openIndex: number;
  readonly open: WindowOpen;
  /** The log's size as long as the window is open. */
  readonly closeIndex: number;
  readonly close: WindowClose | undefined;
}

export function entered(index: number, manifest: Manifest): Entered {
  return { index, manifest, digest: manifestDigest(manifest), coin: manifest.coins[0] };
}

/** The manifests of the log, in order. */
export function manifests(log: Log): Entered[] {
  return log.of("signed-manifest").map(([index, signed]) => entered(index, signed.manifest));
}

/** A window by name; without a name, the newest that was opened. */
export function findWindow(log: Log, name: string): Entered {
  const opened = new Set(log.of("window-open").map(([, message]) => hex(message.manifest)));
  const all = manifests(log);
  const found = name ? all.filter((one) => one.manifest.window === name)[0] : all.filter((one) => opened.has(hex(one.digest))).at(-1);
  return found ?? refuse(name ? `the log holds no window ${JSON.stringify(name)}` : "the log holds no opened window");
}

/** Under an entered manifest. */
function signatureOf(log: Log, window: Entered): Uint8Array {
  const found = log.of("signed-manifest").find(([index]) => index === window.index)?.[1];
  return found?.signature ?? refuse("no such manifest");
}

/** Signed by the key that it names, of this log, and with nothing in it that another manifest had. */
export function checkManifest(log: Log, window: Entered, logKey: Uint8Array): void {
  const { manifest } = window;
  checkSignature(manifest.provider_key, "manifest", manifest.raw, signatureOf(log, window));
  need(manifest.origin === log.tree.checkpoint.origin, `the manifest is of the log ${manifest.origin}`, "log");
  need(same(manifest.log, logKey), `the manifest is of a log ${manifest.origin} with another key than this one's`, "log");
  const period = (one: Entered): Uint8Array => one.coin?.thrown_by[0] ?? one.digest;
  for (const other of manifests(log)) {
    if (other.index === window.index) continue;
    need(other.manifest.window !== manifest.window, `the window ${manifest.window} occurs in two manifests`, "log");
    if (other.index > window.index) continue;
    need(other.manifest.c_seed !== manifest.c_seed, "the seed commitment was used by an earlier window", "log");
    need(!same(other.manifest.beacon_commitment, manifest.beacon_commitment), "the provider's beacon commitment was used before", "log");
    const one = other.coin && window.coin && other.coin.c_coin === window.coin.c_coin;
    need(!one || same(period(other), period(window)), "the coin seed was used by an earlier window", "log");
  }
  thrownBy(log, window);
}

/** The auditors of a manifest, to be compared. */
const seats = (m: Manifest): string => m.auditors.map((seat) => `${hex(seat.public_key)} ${seat.owner}`).join(", ");

/** Whether a slot's id names one coin under either policy: its coin is of its shard and its place there. */
const sameCoins = (a: Policy, b: Policy): boolean => (a.shards === 1 && b.shards === 1) || same(a.class_digest, b.class_digest);

/** The window whose beacon threw the coins: itself, or an earlier manifest that carries the same policy on. SPEC A.11.9. */
export function thrownBy(log: Log, window: Entered): Entered {
  const named = window.coin?.thrown_by[0];
  if (named === undefined) return window;
  const found = manifests(log).find((one) => one.index < window.index && same(one.digest, named));
  if (found === undefined || found.coin === undefined) {
    return refuse("the manifest carries on coins of a manifest that the log does not hold before it", "log");
  }
  const [a, b] = [window.manifest, found.manifest];
  checkSignature(b.provider_key, "manifest", b.raw, signatureOf(log, found));
  const fits =
    found.coin.thrown_by.length === 0 &&
    found.coin.c_coin === window.coin?.c_coin &&
    a.policy.hidden === b.policy.hidden &&
    sameCoins(a.policy, b.policy) &&
    a.policy.period_start === b.policy.period_start &&
    seats(a) === seats(b) &&
    a.origin === b.origin &&
    same(a.log, b.log) &&
    coinedOf(a).every((one) => coinedOf(b).includes(one)) &&
    same(a.provider_key, b.provider_key);
  need(fits, "the manifest carries on coins that are not its own to carry on", "log");
  return found;
}

/** The class that the policy names is the one of this build, and goes with its shards and claim. SPEC M.9.2, A.15.4. */
export function classOf(manifest: Manifest, classes: { readonly [name: string]: AttestationClass }): AttestationClass {
  const { class_name: name, class_digest: digest } = manifest.policy;
  const found = Object.hasOwn(classes, name) ? classes[name] : undefined;
  const known = found !== undefined && hex(digest) === found.classDigest;
  if (!known) throw new Unknown(`the policy names a circuit class ${name}, or a build of it, that this build does not know`);
  const { claim, shards } = manifest.policy;
  need(shards <= found.shards, `the policy has ${shards} shards, its class is for at most ${found.shards}`, "log");
  need(claim !== "answers" || shards === 1, `the claim answers counts keywords in one shard, the policy has ${shards}`, "log");
  return found;
}

/** Seconds from its policy's opening time in which a window may open that lasts shorter. */
const OPENS_WITHIN = 3600n;

/** Opened once after its manifest, closed at most once, in its time, overlapping no other window. */
export function checkLife(log: Log, window: Entered): Span {
  const mine = (message: { readonly manifest: Uint8Array }): boolean => same(message.manifest, window.digest);
  const opens = log.of("window-open").filter(([, one]) => mine(one));
  const closes = log.of("window-close").filter(([, one]) => mine(one));
  need(opens.length <= 1 && closes.length <= 1, "the window was opened or closed more than once", "log");
  const [openIndex, open] = opens[0] ?? refuse("the window was not opened: there is nothing in it");
  const [closeIndex, close] = closes[0] ?? [log.size, undefined];
  need(window.index < openIndex && openIndex < closeIndex, "manifest, opening and closing are out of order", "log");
  const newer = manifests(log).find((one) => one.index > window.index && one.index < openIndex);
  need(newer === undefined, "the window was opened although a newer one had been committed", "log");
  const { opens: from, closes: until } = window.manifest.policy;
  const to = until - from > OPENS_WITHIN ? until : from + OPENS_WITHIN;
  need(open.time >= from - (from % 60n) && open.time <= to, "the window was opened outside the time of its policy", "log");
  need(close === undefined || close.time >= open.time, "the window was closed before it was opened", "log");
  const ends = new Map(log.of("window-close").reverse().map(([at, one]) => [hex(one.manifest), [at, one.time] as const]));
  for (const [start, other] of log.of("window-open")) {
    if (mine(other)) continue;
    const [stop, ended] = ends.get(hex(other.manifest)) ?? [log.size, 0n];
    need(start >= closeIndex || openIndex >= stop, "the window overlaps another one of this log", "log");
    const late = stop < openIndex && ended > open.time;
    need(!late, "the window was opened before an earlier one was closed", "log");
  }
  return { openIndex, open, closeIndex, close };
}

export const recordDigest = (record: LedgerRecord): Uint8Array => taggedHash("record", record.raw);
