// SPDX-License-Identifier: GPL-3.0-or-later
/** Files that a visitor has: receipts with their records and manifests, tlog proofs, signed verdicts. Nothing is fetched. */
import { Refusal, fromBase64, fromHex, hex, need, refuse, same, utf8 } from "./bytes.js";
import { decode, decodeAny, peekTag } from "./decoder.js";
import type { Answer, Receipt, Record as LedgerRecord, SignedManifest } from "./generated/messages.js";
import { checkInclusion, leafHash } from "./merkle.js";
import { type Checkpoint, type NoteKey, openCheckpoint, parseKey } from "./note.js";
import { checkSignature } from "./signature.js";
import { taggedHash } from "./transcript.js";
import { printable } from "./printable.js";
import { follow, withTurns } from "./turns.js";
import { readVerdict } from "./verdict.js";
import type { Line, State } from "./verify.js";
import { manifestDigest, recordDigest } from "./window.js";

export interface Dropped {
  readonly name: string;
  readonly data: Uint8Array;
}

export interface DroppedOptions {
  /** Of the log, as its provider published it; without one the log's signatures are not checked. */
  readonly logKey?: string | undefined;
  /** The auditor's key, 64 hexadecimal digits; without one the signer of a verdict is named only. */
  readonly auditorKey?: string | undefined;
  /** Turns of the log's key with their proofs, in order, as its observer shows them. */
  readonly turns?: readonly Uint8Array[] | undefined;
}

const PROOF = "c2sp.org/tlog-proof@v1\n";
const MAX_BYTES = 1 << 24; // of a file
const KINDS = ["receipt", "record", "signed-manifest", "answer", "kept-turns", "turn-proof"] as const;

type Known =
  | { readonly kind: "proof"; readonly name: string; readonly data: Uint8Array }
  | { readonly kind: "verdict"; readonly name: string; readonly data: Uint8Array }
  | { readonly kind: "message"; readonly name: string; readonly message: ReturnType<typeof message> };

const message = (data: Uint8Array) => decodeAny(data, KINDS);

function recognised({ name, data }: Dropped): Known {
  need(data.length <= MAX_BYTES, `more than ${MAX_BYTES} bytes`);
  const begins = new TextDecoder().decode(data.subarray(0, 64));
  if (begins.startsWith(PROOF)) return { kind: "proof", name, data };
  if (begins.trimStart().startsWith("{")) return { kind: "verdict", name, data };
  let tag: string;
  try {
    tag = peekTag(data);
  } catch {
    return refuse("neither a receipt, a record, a manifest, a .tlog-proof nor a signed verdict");
  }
  need(KINDS.some((one) => one === tag), `a ${tag} message, which is not checked here`);
  return { kind: "message", name, message: message(data) };
}

/** The parts of a C2SP tlog-proof. */
export function parseProof(text: string): { readonly index: number; readonly path: Uint8Array[]; readonly note: Uint8Array } {
  const at = text.indexOf("\n\n");
  need(text.startsWith(PROOF) && at > 0 && text.length < 1 << 17, "a proof, an empty line and a checkpoint are expected");
  const [first = "", ...hashes] = text.slice(PROOF.length, at).split("\n");
  const index = /^index (0|[1-9][0-9]{0,14})$/.exec(first)?.[1];
  need(index !== undefined && hashes.length <= 63, "an index line and at most 63 hashes are expected");
  const path = hashes.map((line) => fromBase64(line, "a hash of the proof"));
  need(path.every((node) => node.length === 32), "a hash of the proof does not have 32 bytes");
  return { index: Number(index), path, note: utf8(text.slice(at + 2)) };
}

/** Where an entry stands, by a path under a checkpoint that is signed. */
function placed(entry: Uint8Array, index: number, path: readonly Uint8Array[], { origin, size, root }: Checkpoint): string {
  checkInclusion(leafHash(entry), index, size, path, root);
  return `entry ${index} of the log ${origin}, under a checkpoint of ${size} entries that it signed`;
}

/** The same, under a note. */
export function included(entry: Uint8Array, index: number, path: readonly Uint8Array[], note: Uint8Array, log: NoteKey): string {
  return placed(entry, index, path, openCheckpoint(note, log).checkpoint);
}

/** By the provider key that it names; throws where it is not. */
function checkManifest({ manifest, signature }: SignedManifest): void {
  checkSignature(manifest.provider_key, "manifest", manifest.raw, signature);
}

/** Whether it is: of one that is not, no key in it says anything. */
function isSigned(signed: SignedManifest): boolean {
  try {
    checkManifest(signed);
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return false;
  }
}

class Checker {
  readonly lines: Line[] = [];
  private log: NoteKey | undefined;
  private readonly auditor: Uint8Array | undefined;
  private readonly manifests: SignedManifest[] = [];
  /** Records that were dropped, alone or within answers, by their digests. */
  private readonly records = new Map<string, LedgerRecord>();
  /** Digests of those that something else here is about. */
  private readonly used = new Set<string>();

  constructor(
    known: readonly Known[],
    private readonly options: DroppedOptions,
  ) {
    this.log = options.logKey ? parseKey(options.logKey.trim()) : undefined;
    for (const one of options.turns ?? []) if (this.log !== undefined) this.log = follow(this.log, decode("turn-proof", one));
    const auditor = options.auditorKey?.trim();
    need(!auditor || /^[0-9a-f]{64}$/.test(auditor), "the auditor's key is 64 hexadecimal digits, in lower case");
    this.auditor = auditor ? fromHex(auditor) : undefined;
    for (const one of known) {
      if (one.kind !== "message") continue;
      const { message } = one;
      if (message.tag === "signed-manifest") this.manifests.push(message);
      const record = message.tag === "record" ? message : message.tag === "answer" ? message.record : undefined;
      if (record !== undefined) this.records.set(hex(recordDigest(record)), record);
    }
  }

  say(step: string, state: State, text: string): void {
    this.lines.push({ step: printable(step), state, text: printable(text) });
  }

  all(known: readonly Known[]): void {
    this.turns(known);
    for (const one of known) this.file(one);
    for (const one of known) {
      if (one.kind !== "message" || one.message.tag !== "record" || this.used.has(hex(recordDigest(one.message)))) continue;
      this.say(one.name, "open", "a record that no other file here is about: drop its receipt or its .tlog-proof with it");
    }
  }

  /** Turns of the log's key among the files, in the log's order; what does not hold is said, and changes no key. */
  private turns(known: readonly Known[]): void {
    const found = known.flatMap(({ name, ...one }) => {
      if (one.kind !== "message") return [];
      const { message } = one;
      if (message.tag === "turn-proof") return [{ name, at: message.turn.number, by: (log: NoteKey) => follow(log, message) }];
      return message.tag === "kept-turns" ? [{ name, at: 65, by: (log: NoteKey) => withTurns(log, message.turns) }] : [];
    });
    for (const { name, by } of found.sort((one, other) => one.at - other.at)) {
      if (this.log === undefined) {
        this.say(name, "open", "turns of a log's key: give the log's key");
        continue;
      }
      try {
        this.log = by(this.log);
        this.say(name, "good", `the log's key has turned ${this.log.turns?.length ?? 0} times, each time by the word of the key before`);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        this.say(name, "bad", error.message);
      }
    }
  }

  /** One file; what does not hold is said of it. */
  private file(one: Known): void {
    try {
      if (one.kind === "proof") this.proof(one.name, one.data);
      else if (one.kind === "verdict") this.verdict(one.name, one.data);
      else if (one.message.tag === "receipt") this.receipt(one.name, one.message);
      else if (one.message.tag === "answer") this.answer(one.name, one.message);
      else if (one.message.tag === "signed-manifest") this.manifest(one.name, one.message);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.say(one.name, "bad", error.message);
    }
  }

  private manifest(name: string, signed: SignedManifest): void {
    const { manifest } = signed;
    checkManifest(signed);
    this.say(name, "good", `the manifest of window ${manifest.window} is signed by the provider key ${hex(manifest.provider_key)} that it names`);
  }

  private answer(name: string, answer: Answer): void {
    const { body } = answer.receipt;
    need(same(taggedHash("openings", answer.openings.raw), body.openings_digest), "the receipt is for other openings");
    need(same(recordDigest(answer.record), body.record_digest), "the receipt is for another record than the answer's");
    this.receipt(name, answer.receipt);
    this.say(name, "open", "slots and texts of the answer: the account's own program checks them");
  }

  private receipt(name: string, receipt: Receipt): void {
    const { body } = receipt;
    const digest = hex(body.record_digest);
    const record = this.records.get(digest);
    if (record === undefined) {
      need(this.records.size === 0, "none of the records that were dropped is the receipt's");
      this.say(name, "open", "the record that the receipt is for: drop its .record file with it");
    } else {
      const { request } = record.signed;
      need(same(record.manifest, body.manifest), "the receipt is of another window");
      need(same(taggedHash("request", request.raw), body.request_digest), "the receipt is for another request");
      need(record.seq === body.seq, "the receipt states another number than the record has");
      this.used.add(digest);
      this.say(name, "good", `a receipt for record ${body.seq} of window ${request.window}, request ${request.ctr} of account ${request.account}`);
      if (this.log === undefined) this.say(name, "open", "the log's signature: give the log's key");
      else {
        const { checkpoint } = openCheckpoint(body.checkpoint, this.log);
        need(BigInt(checkpoint.size) === body.index + 1n, "the record is not the last entry of the receipt's checkpoint");
        this.say(name, "good", placed(record.raw, Number(body.index), receipt.path, checkpoint));
      }
    }
    const signed = this.manifests.find(
      (one) => record !== undefined && same(manifestDigest(one.manifest), record.manifest) && isSigned(one),
    );
    if (signed === undefined) return this.say(name, "open", "the provider's signature: drop the record and the window's .manifest file with it");
    checkSignature(signed.manifest.window_key, "receipt", body.raw, receipt.signature);
    this.say(name, "good", `signed by the window's key ${hex(signed.manifest.window_key)}, which the provider key ${hex(signed.manifest.provider_key)} certifies in the manifest`);
  }

  private proof(name: string, data: Uint8Array): void {
    const { index, path, note } = parseProof(strict(data));
    if (this.log === undefined) return this.say(name, "open", "the log's signature: give the log's key");
    const { checkpoint } = openCheckpoint(note, this.log);
    this.say(name, "good", `its checkpoint of ${checkpoint.size} entries is signed by the log ${checkpoint.origin}`);
    if (this.records.size === 0) return this.say(name, "open", `entry ${index} itself: drop its .record file with it`);
    for (const [digest, record] of this.records) {
      let where: string;
      try {
        where = placed(record.raw, index, path, checkpoint);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        continue;
      }
      this.used.add(digest);
      return this.say(name, "good", `record ${record.seq} is ${where}`); // no other one hashes to the same leaf
    }
    refuse(`none of the records that were dropped is entry ${index} of that log`);
  }

  private verdict(name: string, data: Uint8Array): void {
    const { signer, line, log, checkpoint } = readVerdict(data, this.auditor);
    const known = this.auditor !== undefined;
    this.say(name, known ? "good" : "open", `signed by the auditor key ${signer}${known ? "" : ": compare it with the key that the auditor published"}`);
    const given = this.options.logKey?.trim();
    if (given) need(given === log, `it is about another log, with the key ${log}`);
    if (checkpoint === undefined) this.say(name, "open", "the log that was audited: the verdict has no checkpoint of it");
    else if (given) this.say(name, "good", `about this log, whose first ${checkpoint.size} entries it has signed`);
    else this.say(name, "open", `about a log whose first ${checkpoint.size} entries the key ${log} has signed: compare it with the log's own`);
    // Whoever typed no key was told nothing about whose word this is. SPEC D.18.1.
    this.say(name, known ? "good" : "open", known ? `it says: ${line}` : `it says, whoever has signed it: ${line}`);
    this.say(name, "open", "the numbers are the auditor's word: check the window above, or audit it yourself");
  }
}

function strict(data: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return refuse("not UTF-8");
  }
}

/** Check files that belong together, as they lie on a visitor's disk. Never throws for what they hold. */
export function checkDropped(files: readonly Dropped[], options: DroppedOptions = {}): Line[] {
  const lines: Line[] = [];
  const known: Known[] = [];
  for (const one of files) {
    try {
      known.push(recognised(one));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      lines.push({ step: printable(one.name), state: "bad", text: printable(error.message) });
    }
  }
  try {
    const checker = new Checker(known, options);
    checker.all(known);
    lines.push(...checker.lines);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    lines.push({ step: "keys", state: "bad", text: printable(error.message) });
  }
  return lines;
}
