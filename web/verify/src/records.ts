// SPDX-License-Identifier: GPL-3.0-or-later
/** The records of a window as the log has them: in order, without gaps, in budget and in time. SPEC B.2, B.3, D.6. */
import { hex, need, Refusal, refuse } from "./bytes.js";
import { type G1Point, POINT_BYTES, point, points } from "./curve.js";
import type { Record as LedgerRecord } from "./generated/messages.js";
import { type IndexVersion, type Versions, answering } from "./indices.js";
import type { Log } from "./log.js";
import { type Entered, type Span, recordDigest } from "./window.js";

const NO_RECEIPT = "0".repeat(64);

export interface Placed {
  readonly index: number;
  readonly record: LedgerRecord;
  readonly digest: Uint8Array;
  readonly version: IndexVersion;
  readonly cE: G1Point;
  /** Of every shard of the index. */
  readonly cY: readonly G1Point[];
}

function placed(index: number, record: LedgerRecord, window: Entered, versions: Versions): Placed {
  const { request } = record.signed;
  const { origin, policy, window: name } = window.manifest;
  need(request.origin === origin && request.window === name, `the request is for window ${request.window} of ${request.origin}`);
  const first = hex(request.last_receipt) === NO_RECEIPT;
  const shards = record.c_y.length / POINT_BYTES;
  need(shards === policy.shards, `it commits to scores of ${shards} shards, the window's indices have ${policy.shards}`);
  need(request.checked || !policy.checked, "its account did not check the embedding, which the policy demands");
  need((request.ctr === 1) === first, "a first request acknowledges no receipt, every later one a receipt");
  const version = answering(versions, index, record);
  return { index, record, digest: recordDigest(record), version, cE: point(request.c_e), cY: points(record.c_y) };
}

/** What records say together. */
class Order {
  private readonly ctrs = new Map<string, number>();
  private readonly used = new Set<string>();
  private earliest: bigint;
  private readonly latest: bigint;

  constructor(
    private readonly most: number,
    life: Span,
    closes: bigint,
  ) {
    this.earliest = life.open.time - (life.open.time % 60n);
    this.latest = life.close === undefined || life.close.time > closes ? closes : life.close.time;
  }

  next(seq: number, record: LedgerRecord): void {
    const { request } = record.signed;
    need(record.seq === BigInt(seq), `seq ${seq} is missing: a record was dropped or reordered`);
    const ctr = (this.ctrs.get(request.account) ?? 0) + 1;
    this.ctrs.set(request.account, ctr);
    need(request.ctr === ctr, `account ${request.account} jumps to request ${request.ctr}, expected ${ctr}`);
    need(ctr <= this.most, `account ${request.account} exceeds its ${this.most} queries`);
    need(record.time >= this.earliest && record.time <= this.latest, `its time ${record.time} is outside the window`);
    this.earliest = record.time;
    for (const one of [`id ${hex(request.request_id)}`, `nonce ${hex(request.nonce)}`]) {
      need(!this.used.has(`${request.account} ${one}`), `an ${one} was used by this account before`);
      this.used.add(`${request.account} ${one}`);
    }
  }

  get accounts(): number {
    return this.ctrs.size;
  }
}

/** Every record of the window, and how many accounts asked. */
export function checkRecords(log: Log, window: Entered, life: Span, versions: Versions): { found: Placed[]; accounts: number } {
  const { policy } = window.manifest;
  const found: Placed[] = [];
  const order = new Order(policy.n_max, life, life.open.time + policy.closes - policy.opens);
  for (const [index, record] of log.of("record")) {
    const mine = hex(record.manifest) === hex(window.digest);
    const inside = index > life.openIndex && index < life.closeIndex;
    need(mine === inside, `the record at entry ${index} stands in a window that is not its own`, "log");
    if (!mine) continue;
    try {
      order.next(found.length, record);
      found.push(placed(index, record, window, versions));
    } catch (error) {
      if (error instanceof Refusal) refuse(`record ${record.seq}: ${error.message}`, "log");
      throw error;
    }
  }
  const counted = life.close?.records ?? BigInt(found.length);
  need(counted === BigInt(found.length), `the closing entry counts ${counted} records, the log holds ${found.length}`, "log");
  return { found, accounts: order.accounts };
}
