// SPDX-License-Identifier: GPL-3.0-or-later
/** How much of a file is read, by its path: whoever serves it decides how long it is. */
import { join, need } from "./bytes.js";
import { printable } from "./printable.js";

const BUNDLE = 256 * (2 + 65535);
/** Of the entries of a log together. */
export const MOST_OF_A_LOG = 2 ** 30;

/** Bytes that a file of this name has at most. */
export function limitOf(path: string): number {
  if (path === "checkpoint") return 64 * 1024;
  if (path.startsWith("tile/entries/")) return BUNDLE;
  if (path.startsWith("tile/")) return 256 * 32;
  return 64 * 1024 * 1024; // keys, columns, proofs
}

/** A body as far as a file of this path may go; a longer one is refused as soon as it is. */
export async function readBody(path: string, body: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | null): Promise<Uint8Array> {
  const most = limitOf(path);
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body === null ? [] : chunks(body)) {
    size += part.length;
    need(size <= most, `${printable(path)}: more than ${most} bytes`);
    parts.push(part);
  }
  return join(...parts);
}

/** Not every browser can walk a stream; leaving this early ends the download. */
async function* chunks(body: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (!("getReader" in body)) return yield* body;
  const reader = body.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}
