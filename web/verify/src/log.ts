// SPDX-License-Identifier: GPL-3.0-or-later
/** A log as static files: entries and hashes in C2SP's tlog-tiles, under a signed note. SPEC G.6, D.1. */
import { Refusal, Unknown, need, same, split } from "./bytes.js";
import { decodeAny, isForeign } from "./decoder.js";
import { ENTRIES, type Messages, type Tag } from "./generated/messages.js";
import { MOST_OF_A_LOG, limitOf } from "./limits.js";
import { leafHash, merkleRoot, subtrees } from "./merkle.js";
import { type Checkpoint, type Note, type NoteKey, openCheckpoint, parseNote, readCheckpoint } from "./note.js";
import { hasUnknownLine, turnsIn } from "./turns.js";

/** The files of a folder by path; null: there is no such file. */
export type Files = (path: string) => Promise<Uint8Array | null>;

export type Entry = Messages[(typeof ENTRIES)[number]];

const WIDTH = 256;
const MAX_ENTRIES = 1 << 22;
const LEVELS = 4;

export function tilePath(level: number | "entries", number: number, width = WIDTH): string {
  const groups = [String(number % 1000).padStart(3, "0")];
  for (let rest = Math.floor(number / 1000); rest > 0; rest = Math.floor(rest / 1000)) {
    groups.unshift(`x${String(rest % 1000).padStart(3, "0")}`);
  }
  return `tile/${level}/${groups.join("/")}${width === WIDTH ? "" : `.p/${width}`}`;
}

export class Missing extends Error {
  constructor(readonly path: string) {
    super(`${path} is not among the files`);
  }
}

export async function file(files: Files, path: string): Promise<Uint8Array> {
  const found = await files(path);
  if (found === null) throw new Missing(path);
  need(found.length <= limitOf(path), `${path}: more than ${limitOf(path)} bytes`);
  return found;
}

/** A log whose entries hash to the root that its key has signed. */
export interface Tree {
  readonly checkpoint: Checkpoint;
  readonly note: Note;
  readonly entries: readonly Uint8Array[];
}

function unbundled(data: Uint8Array, count: number, path: string): Uint8Array[] {
  const out: Uint8Array[] = [];
  let at = 0;
  while (at < data.length) {
    const size = 256 * (data[at] as number) + (data[at + 1] ?? NaN);
    need(data.length - at - 2 >= size, `${path}: an entry is truncated`);
    out.push(data.subarray(at + 2, at + 2 + size));
    at += 2 + size;
  }
  need(out.length === count, `${path}: ${out.length} entries, where ${count} are expected`);
  return out;
}

/** The signed checkpoint, and its file. */
export interface Signed {
  readonly checkpoint: Checkpoint;
  readonly note: Note;
  readonly data: Uint8Array;
}

/**
 * The newest note, and the log's key with the turns that it was signed after: where the note has a line by another key of
 * the log's name, the entries may turn to that. SPEC G.6.13.
 */
export async function readNote(files: Files, key: NoteKey, most = MOST_OF_A_LOG): Promise<Signed & { key: NoteKey }> {
  const data = await file(files, "checkpoint");
  const note = parseNote(data);
  if (!hasUnknownLine(note, key)) return { ...openCheckpoint(data, key), data, key };
  let found = key;
  try {
    const unsigned = { checkpoint: readCheckpoint(note, key), note, data };
    const turns = turnsIn(key, (await readTree(files, unsigned, most)).entries);
    if (turns.wrong !== undefined) throw turns.wrong;
    found = turns.key;
    openCheckpoint(data, found);
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof Unknown || error instanceof Missing)) throw error;
    found = key; // nobody has signed what was read
  }
  return { ...openCheckpoint(data, found), data, key: found };
}

/** The log's key behind all of its entries: the note is signed by the one that counts then. */
export function turnedBy({ entries }: Tree, key: NoteKey, data: Uint8Array): NoteKey {
  const { turns: _, ...first } = key;
  const { key: found, wrong } = turnsIn(first, entries);
  if (found.turns !== undefined) {
    try {
      openCheckpoint(data, found);
    } catch {
      throw new Unknown("the checkpoint is signed by a key alone that the log has given up before: whoever stole that key can show it");
    }
  }
  if (wrong !== undefined) throw wrong; // not before: a thief of an old key can enter whatever it likes, and sign it
  return found;
}

/** Every entry hashed to the signed root, of a log of at most so many bytes. */
export async function readTree(files: Files, signed: Signed, most = MOST_OF_A_LOG): Promise<Tree> {
  const { size, root } = signed.checkpoint;
  if (size > MAX_ENTRIES) throw new Unknown(`the log has ${size} entries, at most ${MAX_ENTRIES} are read here`);
  const entries: Uint8Array[] = [];
  let bytes = 0;
  for (let at = 0; at < size; at += WIDTH) {
    const count = Math.min(WIDTH, size - at);
    const path = tilePath("entries", at / WIDTH, count);
    const data = await file(files, path);
    bytes += data.length;
    if (bytes > most) throw new Unknown(`the entries have more than ${most} bytes together: that is not read here`);
    entries.push(...unbundled(data, count, path));
  }
  need(same(merkleRoot(entries.map(leafHash)), root), "the entries do not hash to the signed root: one was changed");
  return { ...signed, entries };
}

/** The files of hashes are those of the entries; gives their number. What other tools read of this log rests on them. */
export async function checkTiles(files: Files, tree: Tree): Promise<number> {
  let [hashes, count] = [tree.entries.map(leafHash), 0];
  for (let level = 0; level < LEVELS && hashes.length > 0; level++) {
    for (let at = 0; at < hashes.length; at += WIDTH) {
      const own = hashes.slice(at, at + WIDTH);
      const path = tilePath(level, at / WIDTH, own.length);
      const given = split(await file(files, path), 32);
      need(given.length === own.length && given.every((one, i) => same(one, own[i] as Uint8Array)),
        `${path}: a hash is not that of the entries`);
      count++;
    }
    hashes = subtrees(hashes, WIDTH);
  }
  return count;
}

/** The entries as messages. What does not decode under a signed root is the provider's. */
export class Log {
  readonly messages: readonly Entry[];

  constructor(readonly tree: Tree) {
    this.messages = tree.entries.map((data, index) => {
      try {
        return decodeAny(data, ENTRIES);
      } catch (error) {
        if (isForeign(data, ENTRIES)) throw new Unknown(`entry ${index} is of a kind or version that this build does not know`);
        need(false, `entry ${index} is no message of this protocol: ${(error as Error).message}`, "log");
      }
    });
  }

  get size(): number {
    return this.messages.length;
  }

  /** Entries of one kind with their places, in order. */
  of<T extends Tag>(tag: T): [number, Messages[T]][] {
    return this.messages.flatMap((message, index) =>
      message.tag === (tag as string) ? [[index, message as unknown as Messages[T]] as [number, Messages[T]]] : [],
    );
  }
}
