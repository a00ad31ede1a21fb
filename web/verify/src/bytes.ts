// SPDX-License-Identifier: GPL-3.0-or-later
/** Bytes, hexadecimal, base64, and the one kind of error that a check raises. */

/**
 * A check that does not hold. `whose` says who could have made it so: the log's signer, the provider, the auditor, or
 * whoever serves the files, which nobody signed. A page must not blame a provider for what its host altered.
 */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly whose: "files" | "provider" | "log" = "files",
  ) {
    super(message);
  }
}

/** Nothing follows, since this program does not know what it meets: another build of it may. */
export class Unknown extends Error {}

export function refuse(message: string, whose: "files" | "provider" | "log" = "files"): never {
  throw new Refusal(message, whose);
}

export function need(holds: boolean, message: string, whose: "files" | "provider" | "log" = "files"): asserts holds {
  if (!holds) refuse(message, whose);
}

export const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

export function join(...parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export function hex(data: Uint8Array): string {
  let out = "";
  for (const byte of data) out += HEX[byte];
  return out;
}

export function fromHex(text: string): Uint8Array {
  if (!/^([0-9a-f]{2})*$/.test(text)) refuse("not lower-case hexadecimal");
  return Uint8Array.from({ length: text.length / 2 }, (_, i) => parseInt(text.slice(2 * i, 2 * i + 2), 16));
}

export function base64(data: Uint8Array): string {
  let binary = "";
  for (const byte of data) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/** Standard base64 in its one canonical form. */
export function fromBase64(text: string, what: string): Uint8Array {
  let data: Uint8Array;
  try {
    data = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return refuse(`${what}: not base64`);
  }
  need(base64(data) === text, `${what}: not the canonical base64`);
  return data;
}

/** Big-endian. */
export function toNumber(data: Uint8Array): bigint {
  return data.length === 0 ? 0n : BigInt(`0x${hex(data)}`);
}

/** `width` bytes, big-endian, of a number that is not negative. */
export function fromNumber(value: bigint | number, width: number): Uint8Array {
  const text = BigInt(value).toString(16).padStart(2 * width, "0");
  need(text.length === 2 * width && !text.startsWith("-"), `a number does not fit ${width} bytes`);
  return fromHex(text);
}

/** Pieces of `size` bytes. */
export function split(data: Uint8Array, size: number): Uint8Array[] {
  need(data.length % size === 0, `not a multiple of ${size} bytes`);
  return Array.from({ length: data.length / size }, (_, i) => data.subarray(i * size, (i + 1) * size));
}

/** The order of strings of bytes: negative, 0 or positive. */
export function compare(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if (a[i] !== b[i]) return (a[i] as number) - (b[i] as number);
  }
  return a.length - b.length;
}
