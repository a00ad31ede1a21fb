// SPDX-License-Identifier: GPL-3.0-or-later
/** In a worker: check a window of the site that the page is on, and tell the page line by line. */
import { readBody } from "./limits.js";
import { printable } from "./printable.js";
import { type Line, type Report, verifyWindow } from "./verify.js";

export interface Order {
  /** Address of the folder with the files. */
  readonly base: string;
  readonly logKey: string;
  readonly window?: string;
  readonly policy?: string;
  readonly witnesses?: readonly string[];
  /** The checkpoint that the page has checked. */
  readonly kept?: string;
}

export type News = { readonly line: Line } | { readonly progress: readonly [number, number] } | { readonly report: Report } | { readonly error: string };

async function work(order: Order, tell: (news: News) => void): Promise<void> {
  const files = async (path: string): Promise<Uint8Array | null> => {
    const answer = await fetch(new URL(path, order.base), { cache: "no-store" });
    if (answer.status === 404) return null;
    if (!answer.ok) throw new Error(`${path}: the server answers ${answer.status}`);
    return readBody(path, answer.body);
  };
  try {
    const report = await verifyWindow(files, {
      ...order,
      tell: (line) => tell({ line }),
      progress: (done, of) => tell({ progress: [done, of] }),
    });
    tell({ report });
  } catch (error) {
    tell({ error: printable(error instanceof Error ? error.message : String(error)) });
  }
}

/** Where this file runs as a worker, it takes orders. */
export function takeOrders(): void {
  const scope = globalThis as unknown as { WorkerGlobalScope?: unknown; onmessage?: unknown; postMessage(news: News): void };
  if (typeof scope.WorkerGlobalScope !== "function") return;
  scope.onmessage = (event: MessageEvent<Order>) => void work(event.data, (news) => scope.postMessage(news));
}
