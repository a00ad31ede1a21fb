// SPDX-License-Identifier: GPL-3.0-or-later
/** Canonical messages from bytes. What a field may hold comes from the kernel's CODECS (generated/messages.ts). SPEC G.1. */
import { Refusal, hex, need, refuse, toNumber } from "./bytes.js";
import { type Codec, FIELDS, LATER, type MetadataNumber, type Messages, type Tag } from "./generated/messages.js";
import { checkRules } from "./rules.js";
import { checkPublicKey } from "./signature.js";
import { R } from "./transcript.js";

/** Of the protocol. */
export const VERSION = 1;
/** Of messages that have got fields since: numbers, which are 0 in all of version 1. */
const LATER_VERSION = 2;
const SEVERAL = 0x80;
const SMALL = 6;

class Cursor {
  at = 0;
  constructor(readonly data: Uint8Array) {}

  take(count: number): Uint8Array {
    need(this.data.length - this.at >= count, "truncated");
    this.at += count;
    return this.data.subarray(this.at - count, this.at);
  }

  number(width: number): number {
    let value = 0;
    for (const byte of this.take(width)) value = 256 * value + byte;
    return value;
  }

  sized(limit: number): Uint8Array {
    const size = this.number(4);
    need(size <= limit, `oversized: ${size} bytes announced, at most ${limit}`);
    return this.take(size);
  }

  text(limit: number): string {
    const data = this.sized(limit);
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    } catch {
      return refuse("text is not UTF-8");
    }
  }
}

function characters(cursor: Cursor, least: number, most: number): string {
  const value = cursor.text(4 * most);
  const count = [...value].length;
  need(count >= least && count <= most, `${count} characters, where ${least} to ${most} can stand`);
  return value;
}

function metadataValue(cursor: Cursor): string | boolean | MetadataNumber {
  const kind = cursor.number(1);
  if (kind === 0) return characters(cursor, 0, 512);
  if (kind === 1) return flag(cursor);
  need(kind === 2, "a value is text, a boolean or a number");
  const bits = cursor.take(8);
  const value = new DataView(bits.buffer, bits.byteOffset, 8).getFloat64(0);
  need(Number.isFinite(value), "a number is finite");
  need(!Object.is(value, -0), "zero has no sign");
  return { bits };
}

function flag(cursor: Cursor): boolean {
  const byte = cursor.number(1);
  need(byte <= 1, "a flag is 0 or 1");
  return byte === 1;
}

function read(cursor: Cursor, codec: Codec): unknown {
  switch (codec[0]) {
    case "uint":
      return codec[1] <= SMALL ? cursor.number(codec[1]) : toNumber(cursor.take(codec[1]));
    case "int": {
      const value = BigInt.asIntN(8 * codec[1], toNumber(cursor.take(codec[1])));
      return codec[1] <= SMALL ? Number(value) : value;
    }
    case "flag":
      return flag(cursor);
    case "fixed":
      return cursor.take(codec[1]);
    case "blob":
      return cursor.sized(codec[1]);
    case "text":
      return cursor.text(codec[1]);
    case "name": {
      const value = cursor.text(codec[1]);
      need(/^[!-~]+$/.test(value), "an identifier is printable ASCII without spaces, not empty");
      return value;
    }
    case "characters":
      return characters(cursor, codec[1], codec[2]);
    case "metadata-value":
      return metadataValue(cursor);
    case "element": {
      const value = toNumber(cursor.take(32));
      need(value < R, "field element is not canonical (>= r)");
      return value;
    }
    case "key": {
      const key = cursor.take(32);
      checkPublicKey(key);
      return key;
    }
    case "points": {
      const count = cursor.number(codec[1] < 256 ? 1 : 2);
      need(count >= 1 && count <= codec[1], `${count} points, where 1 to ${codec[1]} can stand`);
      return cursor.take(64 * count);
    }
    case "elements": {
      const first = cursor.data[cursor.at] ?? 0;
      if (first < SEVERAL) return [read(cursor, ["element"])];
      const count = cursor.number(1) - SEVERAL;
      need(count >= 2 && count <= codec[1], `${count} elements announced, where 2 to ${codec[1]} can stand`);
      return Array.from({ length: count }, () => read(cursor, ["element"]));
    }
    case "many": {
      const count = cursor.number(4);
      need(count <= codec[2] && count <= cursor.data.length - cursor.at + 1, `oversized: ${count} items announced`);
      return Array.from({ length: count }, () => read(cursor, codec[1]));
    }
    case "message":
      return message(cursor, codec[1]);
  }
}

/** What a later field is in version 1. */
function nothing(codec: Codec): unknown {
  if (codec[0] === "many") return [];
  if (codec[0] === "text") return "";
  return codec[0] === "flag" ? false : 0;
}

const isNothing = (value: unknown): boolean =>
  value === 0 || value === "" || value === false || (Array.isArray(value) && value.length === 0);

function message<T extends Tag>(cursor: Cursor, tag: T): Messages[T] {
  const start = cursor.at;
  const size = cursor.number(1);
  need(size === tag.length && String.fromCharCode(...cursor.take(size)) === tag, `not a ${tag} message`);
  const version = cursor.number(2);
  const later = LATER[tag] ?? 0;
  const known = version === VERSION || (version === LATER_VERSION && later > 0);
  need(known, `${tag}: protocol version ${version}, this program speaks ${later > 0 ? LATER_VERSION : VERSION}`);
  const out: { [name: string]: unknown } = { tag };
  const added = FIELDS[tag].length - later;
  for (const [at, [name, codec]] of FIELDS[tag].entries()) {
    try {
      out[name] = at >= added && version === VERSION ? nothing(codec) : read(cursor, codec);
    } catch (error) {
      if (error instanceof Refusal) refuse(`${tag}.${name}: ${error.message}`, error.whose);
      throw error;
    }
  }
  const some = FIELDS[tag].slice(added).some(([name]) => !isNothing(out[name]));
  need(version === VERSION || some, `${tag}: not the canonical encoding`);
  out["raw"] = cursor.data.subarray(start, cursor.at);
  const found = out as unknown as Messages[T];
  checkRules(found as Messages[Tag]);
  return found;
}

/** Exactly these bytes as a message of this tag; a Refusal otherwise. */
export function decode<T extends Tag>(tag: T, data: Uint8Array): Messages[T] {
  const cursor = new Cursor(data);
  const found = message(cursor, tag);
  need(cursor.at === data.length, `${tag}: ${data.length - cursor.at} bytes too many`);
  return found;
}

/** The tag that an encoded message carries. */
export function peekTag(data: Uint8Array): string {
  const size = data[0] ?? 0;
  need(size >= 1 && size <= 32 && data.length > size, "not an encoded message");
  const tag = String.fromCharCode(...data.subarray(1, 1 + size));
  need(/^[!-~]+$/.test(tag), `message tag is malformed: ${hex(data.subarray(0, 8))}`);
  return tag;
}

/** Whether an entry names a kind or a version of the protocol that another build may know. */
export function isForeign(data: Uint8Array, tags: readonly string[]): boolean {
  try {
    const tag = peekTag(data);
    const [high, low] = data.subarray(1 + tag.length);
    return !tags.includes(tag) || high !== 0 || low !== VERSION;
  } catch {
    return false;
  }
}

/** As whichever of these kinds the tag names. */
export function decodeAny<T extends Tag>(data: Uint8Array, tags: readonly T[]): Messages[T] {
  const tag = peekTag(data);
  const found = tags.find((one) => one === tag);
  if (found === undefined) return refuse(`unexpected message ${JSON.stringify(tag)}`);
  return decode(found, data);
}
