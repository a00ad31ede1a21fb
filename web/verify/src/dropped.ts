// SPDX-License-Identifier: GPL-3.0-or-later
/** Files that a visitor has: receipts with their records and manifests, tlog proofs, signed verdicts. Nothing is fetched. */
import { Refusal, fromBase64, fromHex, hex, join, need, refuse, same, utf8 } from "./bytes.js";
import { decodeAny, peekTag } from "./decoder.js";
import type { Receipt, Record as LedgerRecord, SignedManifest } from "./generated/messages.js";
import { checkInclusion, leafHash } from "./merkle.js";
import { type NoteKey, openCheckpoint, parseKey } from "./note.js";
import { checkSignature, signatureHolds } from "./signature.js";
import { taggedHash } from "./transcript.js";
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
}

const PROOF = "c2sp.org/tlog-proof@v1\n";
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const STATEMENT = "https://in-toto.io/Statement/v1";
const KINDS = ["receipt", "record", "signed-manifest", "answer"] as const;

type Known =
  | { readonly kind: "proof"; readonly name: string; readonly text: string }
  | { readonly kind: "verdict"; readonly name: string; readonly text: string }
  | { readonly kind: "message"; readonly name: string; readonly message: ReturnType<typeof message> };

const message = (data: Uint8Array) => decodeAny(data, KINDS);

function recognised({ name, data }: Dropped): Known {
  const begins = new TextDecoder().decode(data.subarray(0, 64));
  if (begins.startsWith(PROOF)) return { kind: "proof", name, text: new TextDecoder().decode(data) };
  if (begins.trimStart().startsWith("{")) return { kind: "verdict", name, text: new TextDecoder().decode(data) };
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

/** Where an entry stands, by a path under a signed note. */
export function included(entry: Uint8Array, index: number, path: readonly Uint8Array[], note: Uint8Array, log: NoteKey): string {
  const { checkpoint } = openCheckpoint(note, log);
  checkInclusion(leafHash(entry), index, checkpoint.size, path, checkpoint.root);
  return `entry ${index} of the log ${checkpoint.origin}, under a checkpoint of ${checkpoint.size} entries that it signed`;
}

class Checker {
  readonly lines: Line[] = [];
  private readonly log: NoteKey | undefined;
  private readonly records: LedgerRecord[] = [];
  private readonly manifests: SignedManifest[] = [];
  /** Nothing came that says anything of a record. */
  private readonly alone: boolean;

  constructor(
    known: readonly Known[],
    private readonly options: DroppedOptions,
  ) {
    this.log = options.logKey ? parseKey(options.logKey) : undefined;
    this.alone = !known.some((one) => one.kind === "proof" || (one.kind === "message" && /^(receipt|answer)$/.test(one.message.tag)));
    for (const one of known) {
      if (one.kind !== "message") continue;
      if (one.message.tag === "record") this.records.push(one.message);
      if (one.message.tag === "answer") this.records.push(one.message.record);
      if (one.message.tag === "signed-manifest") this.manifests.push(one.message);
    }
  }

  say(step: string, state: State, text: string): void {
    this.lines.push({ step, state, text });
  }

  /** One file; what does not hold is said of it. */
  file(one: Known): void {
    try {
      if (one.kind === "proof") this.proof(one.name, one.text);
      else if (one.kind === "verdict") this.verdict(one.name, one.text);
      else if (one.message.tag === "receipt") this.receipt(one.name, one.message);
      else if (one.message.tag === "answer") {
        const openings = taggedHash("openings", one.message.openings.raw);
        need(same(openings, one.message.receipt.body.openings_digest), "the receipt is for other openings");
        this.receipt(one.name, one.message.receipt);
        this.say(one.name, "open", "slots and texts of the answer: the account's own program checks them");
      } else if (one.message.tag === "signed-manifest") this.manifest(one.name, one.message);
      else if (this.alone) this.say(one.name, "open", "a record: drop its receipt or its .tlog-proof with it");
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.say(one.name, "bad", error.message);
    }
  }

  private manifest(name: string, signed: SignedManifest): void {
    const { manifest } = signed;
    checkSignature(manifest.provider_key, "manifest", manifest.raw, signed.signature);
    this.say(name, "good", `the manifest of window ${manifest.window} is signed by the provider key ${hex(manifest.provider_key)} that it names`);
  }

  private receipt(name: string, receipt: Receipt): void {
    const { body } = receipt;
    const record = this.records.find((one) => same(recordDigest(one), body.record_digest));
    if (record === undefined) {
      need(this.records.length === 0, "none of the records that were dropped is the receipt's");
      this.say(name, "open", "the record that the receipt is for: drop its .record file with it");
    } else {
      const { request } = record.signed;
      need(same(taggedHash("request", request.raw), body.request_digest), "the receipt is for another request");
      need(record.seq === body.seq, "the receipt states another number than the record has");
      this.say(name, "good", `a receipt for record ${body.seq} of window ${request.window}, request ${request.ctr} of account ${request.account}`);
      if (this.log === undefined) this.say(name, "open", "the log's signature: give the log's key");
      else {
        const { checkpoint } = openCheckpoint(body.checkpoint, this.log);
        need(BigInt(checkpoint.size) === body.index + 1n, "the record is not the last entry of the receipt's checkpoint");
        this.say(name, "good", included(record.raw, Number(body.index), receipt.path, body.checkpoint, this.log));
      }
    }
    const signed = this.manifests.find((one) => record !== undefined && same(manifestDigest(one.manifest), record.manifest));
    if (signed === undefined) return this.say(name, "open", "the provider's signature: drop the record and the window's .manifest file with it");
    checkSignature(signed.manifest.provider_key, "receipt", body.raw, receipt.signature);
    this.say(name, "good", `signed by the provider key ${hex(signed.manifest.provider_key)} of the manifest`);
  }

  private proof(name: string, text: string): void {
    const { index, path, note } = parseProof(text);
    if (this.log === undefined) return this.say(name, "open", "the log's signature: give the log's key");
    const { checkpoint } = openCheckpoint(note, this.log);
    this.say(name, "good", `its checkpoint of ${checkpoint.size} entries is signed by the log ${checkpoint.origin}`);
    if (this.records.length === 0) return this.say(name, "open", `entry ${index} itself: drop its .record file with it`);
    for (const record of this.records) {
      try {
        return this.say(name, "good", `record ${record.seq} is ${included(record.raw, index, path, note, this.log)}`);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
      }
    }
    refuse(`none of the records that were dropped is entry ${index} of that log`);
  }

  private verdict(name: string, text: string): void {
    const envelope = parsed(text, "envelope");
    const { payloadType, payload, signatures } = envelope as { payloadType?: unknown; payload?: unknown; signatures?: unknown };
    need(payloadType === PAYLOAD_TYPE && typeof payload === "string" && Array.isArray(signatures), "not a signed in-toto statement");
    const data = fromBase64(payload.replaceAll("-", "+").replaceAll("_", "/"), "payload");
    const signed = join(utf8(`DSSEv1 ${utf8(PAYLOAD_TYPE).length} ${PAYLOAD_TYPE} ${data.length} `), data);
    const wanted = this.options.auditorKey?.trim();
    const keys = wanted ? [wanted] : signatures.map((one: { keyid?: unknown } | null) => String(one?.keyid));
    const signer = keys.find((key) => {
      const bytes = fromHex(key);
      return signatures.some((one: { sig?: unknown } | null) => signatureHolds(bytes, signed, fromBase64(String(one?.sig), "sig")));
    });
    need(signer !== undefined, wanted ? `no signature is by the auditor's key ${wanted}` : "no signature is by a key that it names");
    const statement = parsed(new TextDecoder().decode(data), "statement") as { [name: string]: unknown };
    need(statement["_type"] === STATEMENT, "the signed payload is no in-toto statement");
    const said = statement["predicate"] as { verdict?: unknown; line?: unknown; log?: { key?: unknown; checkpoint?: unknown } };
    need(typeof said?.verdict === "string" && typeof said.line === "string", "the signed statement is no verdict");
    need(said.line.startsWith(`${said.verdict} `), "the signed verdict and its line contradict each other");
    this.say(name, wanted ? "good" : "open", `signed by the auditor key ${signer}${wanted ? "" : ": compare it with the key that the auditor published"}`);
    this.checkpoint(name, said.log, statement["subject"]);
    this.say(name, "good", `it says: ${said.line}`);
    this.say(name, "open", "the numbers are the auditor's word: check the window above, or audit it yourself");
  }

  /** The log that a verdict is about has signed the checkpoint in it, and its root is a subject. */
  private checkpoint(name: string, log: { key?: unknown; checkpoint?: unknown } | undefined, subjects: unknown): void {
    need(typeof log?.key === "string", "the verdict does not name its log");
    if (typeof log.checkpoint !== "string") return this.say(name, "open", "the log that was audited: the verdict has no checkpoint of it");
    const { checkpoint } = openCheckpoint(utf8(log.checkpoint), parseKey(log.key));
    const roots = Array.isArray(subjects) ? subjects.map((one: { digest?: { sha256?: unknown } } | null) => one?.digest?.sha256) : [];
    need(roots.includes(hex(checkpoint.root)), "the checkpoint's root is not a subject of the statement");
    if (this.options.logKey) need(this.options.logKey.trim() === log.key, `it is about another log, with the key ${log.key}`);
    const same = this.options.logKey ? "this log" : `the log with the key ${log.key}`;
    this.say(name, "good", `about ${same}, whose first ${checkpoint.size} entries it has signed`);
  }
}

function parsed(text: string, what: string): object {
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null) return found;
  } catch {
    // said below
  }
  return refuse(`the ${what} is not a JSON object`);
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
      lines.push({ step: one.name, state: "bad", text: error.message });
    }
  }
  try {
    const checker = new Checker(known, options);
    for (const one of known) checker.file(one);
    lines.push(...checker.lines);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    lines.push({ step: "log key", state: "bad", text: error.message });
  }
  return lines;
}
