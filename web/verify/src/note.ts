// SPDX-License-Identifier: GPL-3.0-or-later
/** Signed notes, checkpoints and cosignatures as C2SP has them, strictly parsed. SPEC G.6. */
import { sha256 } from "@noble/hashes/sha2.js";
import { base64, fromBase64, hex, join, need, refuse, same, toNumber, utf8 } from "./bytes.js";
import { checkPublicKey, signatureHolds } from "./signature.js";

export const ED25519 = 1;
export const COSIGNATURE = 4;
const MAX_NOTE = 64 * 1024;
const MAX_SIGNATURES = 128;

export interface NoteKey {
  readonly name: string;
  readonly id: Uint8Array;
  readonly kind: number;
  readonly key: Uint8Array;
  /** Of a log: behind which entries it was signed by which other key. SPEC G.6.13. */
  readonly turns?: readonly Turn[];
}

export interface Turn {
  readonly index: bigint;
  readonly until: bigint;
  readonly key: NoteKey;
}

/** One key counts for one size: up to a turn's index the old one, behind it the new one. */
export function keyAt(log: NoteKey, size: number): NoteKey {
  return (log.turns ?? []).filter((turn) => BigInt(size) > turn.index).at(-1)?.key ?? log;
}

function checkName(name: string): string {
  need(/^[^\s+\p{Cc}\p{Cs}\p{Z}]+$/u.test(name) && utf8(name).length <= 255, `not a key name: ${JSON.stringify(name)}`);
  return name;
}

/** `name+hexadecimal id+base64(kind || key)`. */
export function parseKey(text: string): NoteKey {
  const [name = "", id = "", ...rest] = text.split("+");
  const data = fromBase64(rest.join("+"), "log or witness key");
  const [kind = 0, key] = [data[0], data.slice(1)];
  need(kind === ED25519 || kind === COSIGNATURE, `key ${name}: type ${kind} is not known here`);
  checkPublicKey(key);
  const own = sha256(join(utf8(`${checkName(name)}\n`), data)).slice(0, 4);
  need(hex(own) === id, `key ${name}: its id is not its own`);
  return { name, id: own, kind, key };
}

/** What a manifest calls the log with this key: SHA-256 of the key as text. SPEC A.1. */
export function keyDigest(key: NoteKey): Uint8Array {
  return sha256(utf8(keyText(key)));
}

/** The inverse of parseKey. */
export function keyText({ name, id, kind, key }: NoteKey): string {
  return `${name}+${hex(id)}+${base64(join(Uint8Array.of(kind), key))}`;
}

interface Signature {
  readonly name: string;
  readonly id: Uint8Array;
  readonly blob: Uint8Array;
}

export interface Note {
  readonly text: string;
  readonly signatures: readonly Signature[];
}

export function parseNote(data: Uint8Array): Note {
  need(data.length <= MAX_NOTE, "note: too long");
  let whole: string;
  try {
    whole = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return refuse("note: not UTF-8");
  }
  need(!/[\u0000-\u0009\u000b-\u001f]/.test(whole), "note: control characters other than newline");
  const at = whole.lastIndexOf("\n\n");
  const [text, tail] = [whole.slice(0, at + 1), whole.slice(at + 2)];
  need(at >= 0 && tail.endsWith("\n") && /[^\n]/.test(text), "note: expected a text, an empty line and signatures");
  const lines = tail.slice(0, -1).split("\n");
  need(lines.length <= MAX_SIGNATURES, "note: too many signatures");
  const signatures = lines.map((line) => {
    const parts = line.split(" ");
    need(parts.length === 3 && parts[0] === "\u2014", "signature line: expected an em dash, a key name and base64");
    const blob = fromBase64(parts[2] ?? "", "signature line");
    need(blob.length >= 5, "signature line: shorter than a key id and a signature");
    return { name: checkName(parts[1] ?? ""), id: blob.slice(0, 4), blob: blob.slice(4) };
  });
  return { text, signatures };
}

/** The times of this key's lines: 0 for a log's; none where the note has no line of it. */
export function signedBy(note: Note, key: NoteKey): number[] {
  const own = note.signatures.filter((one) => one.name === key.name && same(one.id, key.id));
  return own.map(({ blob }) => {
    const length = key.kind === COSIGNATURE ? 72 : 64;
    need(blob.length === length, `signature of ${key.name}: ${blob.length} bytes is the wrong length`);
    const time = key.kind === COSIGNATURE ? toNumber(blob.subarray(0, 8)) : 0n;
    need(time < 1n << 63n, `signature of ${key.name}: its time is not below 2^63`);
    const message = utf8(key.kind === COSIGNATURE ? `cosignature/v1\ntime ${time}\n${note.text}` : note.text);
    need(signatureHolds(key.key, message, blob.subarray(length - 64)), `signature of ${key.name} does not verify`);
    return Number(time);
  });
}

export interface Checkpoint {
  readonly origin: string;
  readonly size: number;
  readonly root: Uint8Array;
}

/** A note that this log has signed as its checkpoint, with the key that counts at its size. */
export function openCheckpoint(data: Uint8Array, log: NoteKey): { checkpoint: Checkpoint; note: Note } {
  const note = parseNote(data);
  if (log.turns === undefined) checkSigned(note, log);
  const checkpoint = readCheckpoint(note, log);
  if (log.turns !== undefined) checkSigned(note, keyAt(log, checkpoint.size));
  return { checkpoint, note };
}

function checkSigned(note: Note, key: NoteKey): void {
  need(key.kind === ED25519 && signedBy(note, key).length > 0, `the checkpoint has no signature of ${key.name}`);
}

/** What a note says, whoever signed it. */
export function readCheckpoint(note: Note, log: NoteKey): Checkpoint {
  const lines = note.text.split("\n");
  need(lines.length === 4 && lines[3] === "", "checkpoint: expected origin, size and root, without extensions");
  const [origin = "", size = "", root = ""] = lines;
  need(origin === log.name, `the checkpoint is of the log ${JSON.stringify(origin)}, not of ${log.name}`);
  need(/^(0|[1-9][0-9]{0,15})$/.test(size) && Number.isSafeInteger(Number(size)), "checkpoint: malformed size");
  const bytes = fromBase64(root, "checkpoint root");
  need(bytes.length === 32, "checkpoint: the root has 32 bytes");
  need(Number(size) > 0 || same(bytes, sha256(new Uint8Array())), "checkpoint: an empty log has the empty tree's root");
  return { origin, size: Number(size), root: bytes };
}
