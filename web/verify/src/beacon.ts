// SPDX-License-Identifier: GPL-3.0-or-later
/** A window's beacon as the log has it: who took part, in which order, and what their nonces give. SPEC A.8, D.5. */
import { need, refuse, same, utf8 } from "./bytes.js";
import type { BeaconCommit, BeaconOpening, BeaconSeal } from "./generated/messages.js";
import type { Log } from "./log.js";
import { checkSignature } from "./signature.js";
import { taggedElement, taggedHash } from "./transcript.js";
import type { Entered } from "./window.js";

const PROVIDER = "provider";
const isAuditor = (owner: string): boolean => owner === "auditor" || (owner.startsWith("auditor-") && owner !== "auditor-");
const isObserver = (owner: string): boolean => owner.startsWith("observer-") && owner !== "observer-";

export interface Beacon {
  readonly value: bigint;
  readonly owners: readonly string[];
  /** The place of the last opening, an auditor's. */
  readonly complete: number;
  /** The place of the last opening of all, also of an owner whom a later seal left out. */
  readonly last: number;
}

function once<T>(seen: Map<string, T>, owner: string, value: T): void {
  need(!seen.has(owner), `${owner} has two beacon entries of one kind`, "log");
  seen.set(owner, value);
}

/** A later seal leaves out observers that had not opened, and nobody else; there is none once an auditor has opened. */
function checkAgain(openings: Map<string, [number, BeaconOpening]>, before: readonly string[], owners: readonly string[], at: number): void {
  const dropped = before.filter((owner) => !owners.includes(owner));
  const fewer = before.filter((owner) => owners.includes(owner)).join(" ") === owners.join(" ");
  need(dropped.length > 0 && fewer, "the beacon was sealed again with others than some of those before", "log");
  const opened = [...openings].filter(([, [index]]) => index < at).map(([owner]) => owner);
  need(!dropped.some((owner) => opened.includes(owner)), "the beacon was sealed again without one whose nonce was known", "log");
  need(!opened.some(isAuditor), "the beacon was sealed again once an auditor's nonce was known", "log");
}

/** Every entry of a beacon holds, its auditors came last, and its value follows. */
export function checkBeacon(log: Log, window: Entered): Beacon {
  const { manifest, digest } = window;
  const commits = new Map<string, [number, BeaconCommit]>();
  const openings = new Map<string, [number, BeaconOpening]>();
  const seals: [number, BeaconSeal][] = [];
  log.messages.forEach((message, index) => {
    if (message.tag !== "beacon-commit" && message.tag !== "beacon-seal" && message.tag !== "beacon-opening") return;
    if (!same(message.manifest, digest)) return;
    need(index > window.index, "a beacon entry precedes its manifest", "log");
    if (message.tag === "beacon-commit") {
      once(commits, message.owner, [index, message]);
      need(message.owner !== PROVIDER, "the provider's commitment stands in the manifest, not in an entry", "log");
      const body = taggedHash("beacon-commit-body", digest, utf8(message.owner), message.public_key, message.commitment);
      checkSignature(message.public_key, "beacon-commit", body, message.signature);
    } else if (message.tag === "beacon-seal") {
      need(new Set(message.owners).size === message.owners.length, "the seal names an owner twice", "log");
      const body = taggedHash("beacon-seal-body", digest, ...message.owners.map(utf8));
      checkSignature(manifest.window_key, "beacon-seal", body, message.signature);
      seals.push([index, message]);
    } else {
      once(openings, message.owner, [index, message]);
      const own = message.owner === PROVIDER ? manifest.beacon_commitment : commits.get(message.owner)?.[1].commitment;
      const opened = taggedHash("beacon-nonce", utf8(message.owner), message.nonce);
      need(own !== undefined && same(own, opened), `the opening of ${message.owner} does not match its commitment`, "log");
    }
  });
  const [first, last] = [seals[0], seals.at(-1)];
  if (first === undefined || last === undefined) return refuse("the beacon was never sealed", "log");
  const [sealIndex, { owners }] = last;
  const there = manifest.auditors.map((seat) => seat.owner).filter((owner) => (commits.get(owner)?.[0] ?? Infinity) < first[0]);
  const firstOpening = Math.min(...[...openings.values()].map(([at]) => at));
  let before: readonly string[] | undefined;
  for (const [index, seal] of seals) {
    const others = seal.owners.slice(1, seal.owners.length - there.length);
    const ordered = [PROVIDER, ...others, ...there].join(" ") === seal.owners.join(" ") && others.every(isObserver);
    need(there.length > 0 && ordered, "the beacon's owners must begin with the provider and end with the auditors that had committed", "log");
    for (const owner of seal.owners.slice(1)) {
      const at = commits.get(owner)?.[0] ?? refuse(`the seal names ${owner}, who never committed to a nonce`, "log");
      need(at < first[0] && at < firstOpening, `${owner} committed to its nonce after the seal or an opening`, "log");
    }
    if (before !== undefined) checkAgain(openings, before, seal.owners, index);
    before = seal.owners;
  }
  for (const [owner, [at]] of openings) {
    const named = seals.find(([, seal]) => seal.owners.includes(owner));
    need(named !== undefined && at > named[0], `${owner} opened its nonce before a seal named it`, "log");
  }
  const places = owners.map((owner) => openings.get(owner)?.[0] ?? refuse(`the beacon lacks the opening of ${owner}`, "log"));
  const complete = Math.max(...places);
  const auditors = places.filter((_, i) => isAuditor(owners[i] as string));
  const others = places.filter((_, i) => !isAuditor(owners[i] as string));
  const late = Math.min(...auditors) > Math.max(...others, sealIndex);
  need(late, "an auditor's opening is not among the beacon's last entries", "log");
  for (const seat of manifest.auditors) {
    const own = commits.get(seat.owner)?.[1].public_key;
    need(own === undefined || same(own, seat.public_key), `${seat.owner} in the beacon has another key than in the manifest`, "log");
  }
  const nonces = owners.flatMap((owner) => [utf8(owner), (openings.get(owner) as [number, BeaconOpening])[1].nonce]);
  const every = [...openings.values()].map(([at]) => at);
  return { value: taggedElement("beacon", digest, ...nonces), owners, complete, last: Math.max(...every) };
}
