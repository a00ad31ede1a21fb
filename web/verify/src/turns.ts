// SPDX-License-Identifier: GPL-3.0-or-later
/** Turns of a log's key, taken from its entries. SPEC G.6.13. */
import { sha256 } from "@noble/hashes/sha2.js";
import { Refusal, fromNumber, hex, join, need, same, utf8 } from "./bytes.js";
import { decode, peekTag } from "./decoder.js";
import type { Rotation, TurnProof } from "./generated/messages.js";
import { checkInclusion, leafHash, merkleRoot, rootOf } from "./merkle.js";
import { ED25519, type NoteKey, type Note, keyAt, keyDigest, keyText, parseKey, parseNote, readCheckpoint, signedBy } from "./note.js";
import { checkSignature } from "./signature.js";
import { taggedHash } from "./transcript.js";

const TAG = "log-rotation";

/** What both keys sign. */
function body(turn: Rotation): Uint8Array {
  const numbers = [turn.number, turn.index, turn.until].map((value) => fromNumber(value, 8));
  return taggedHash("log-rotation-body", turn.log, ...numbers, turn.old_key, turn.new_key, turn.root);
}

/** A log's key with one more turn, signed by both keys; its place in the log is the caller's to check. */
export function turned(log: NoteKey, turn: Rotation): NoteKey {
  const before = log.turns ?? [];
  const last = before.at(-1);
  need(same(turn.log, keyDigest(log)), "a turn in the log is of another log's key");
  need(turn.number === before.length + 1, `turn ${turn.number} does not come behind turn ${before.length}`);
  need(same(turn.old_key, last?.key.key ?? log.key), `turn ${turn.number} gives up a key that did not sign the log`);
  need(last === undefined || turn.index >= last.until, `turn ${turn.number} begins in the overlap of the one before it`);
  const id = sha256(join(utf8(`${log.name}\n`), Uint8Array.of(ED25519), turn.new_key)).slice(0, 4);
  const had = [log, ...before.map((one) => one.key)].some((one) => same(one.id, id));
  need(!had, `turn ${turn.number} goes to a key with the id of one that the log had`);
  for (const [key, signature] of [[turn.old_key, turn.by_old], [turn.new_key, turn.by_new]] as const) {
    checkSignature(key, TAG, body(turn), signature);
  }
  const key: NoteKey = { name: log.name, id, kind: ED25519, key: turn.new_key };
  return { ...log, turns: [...before, { index: turn.index, until: turn.until, key }] };
}

function isTurn(entry: Uint8Array): boolean {
  try {
    return peekTag(entry) === TAG;
  } catch {
    return false;
  }
}

/** A log's key with the turns in its entries, each signed for its place and what stands before it, up to one that is none. */
export function turnsIn(log: NoteKey, entries: readonly Uint8Array[]): { readonly key: NoteKey; readonly wrong?: Refusal } {
  let key = log;
  for (const [index, entry] of entries.entries()) {
    if (!isTurn(entry)) continue;
    try {
      const turn = decode(TAG, entry);
      need(turn.index === BigInt(index), `entry ${index} is a turn that was signed for another place or history`);
      const root = merkleRoot(entries.slice(0, index).map(leafHash));
      need(same(turn.root, root), `entry ${index} is a turn that was signed for another place or history`);
      key = turned(key, turn);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { key, wrong: error };
    }
  }
  return { key };
}

/** Every key of a log, in their order. */
export function keysOf(log: NoteKey): readonly NoteKey[] {
  return [log, ...(log.turns ?? []).map((turn) => turn.key)];
}

/** Whether a note has a line under the log's name by a key that is none of the known ones; a witness's are longer. */
export function hasUnknownLine(note: Note, log: NoteKey): boolean {
  const known = keysOf(log).map((key) => hex(key.id));
  return note.signatures.some((line) => line.name === log.name && line.blob.length === 64 && !known.includes(hex(line.id)));
}

/** Whether a turn is one that is known: then it changes nothing, whatever else is shown with it. */
function isKnown(log: NoteKey, turn: Rotation): boolean {
  const known = log.turns?.[turn.number - 1];
  return known !== undefined && known.index === turn.index && known.until === turn.until && same(known.key.key, turn.new_key);
}

/** A log's key behind turns that a reader kept, each proven to whoever kept it: both keys signed them, in their order. */
export function withTurns(log: NoteKey, turns: readonly Rotation[]): NoteKey {
  return turns.reduce((key, turn) => (isKnown(key, turn) ? key : turned(key, turn)), log);
}

/** A log's key behind a turn that is shown in its place, under the note of that size, which both keys have signed. */
export function follow(log: NoteKey, { turn, path, checkpoint }: TurnProof): NoteKey {
  if (isKnown(log, turn)) return log;
  const found = turned(log, turn);
  const note = parseNote(checkpoint);
  for (const key of keysOf(found).slice(-2)) {
    need(signedBy(note, key).length > 0, `turn ${turn.number} is in no history that both of its keys signed`);
  }
  const { size, root } = readCheckpoint(note, log);
  need(BigInt(size) === turn.index + 1n, `turn ${turn.number} is shown under a note of another size than its own`);
  checkInclusion(leafHash(turn.raw), Number(turn.index), Number(turn.index) + 1, path, root);
  // RFC 9162: the path of a tree's last leaf is the perfect subtrees before it, the smallest first.
  need(same(rootOf(path), turn.root), `turn ${turn.number} was signed for another history than it is shown in`);
  return found;
}

/** The log's public key, as text, that counts at a size, behind turns that are shown with their proofs. */
export function signingKey(logKey: string, proofs: readonly Uint8Array[], size: number): string {
  const first = parseKey(logKey.trim());
  need(proofs.length <= 64, "a log turns its key at most 64 times");
  return keyText(keyAt(proofs.reduce<NoteKey>((key, proof) => follow(key, decode("turn-proof", proof)), first), size));
}
