// SPDX-License-Identifier: GPL-3.0-or-later
/** What a policy asks of its class's law in every query. SPEC B.5, M.4. */
import { sha256 } from "@noble/hashes/sha2.js";
import { Unknown, fromNumber, hex, join, need, same, utf8 } from "./bytes.js";
import { VERSION } from "./decoder.js";
import { type AttestationClass, type DecoysClass, type NoiseClass, RATE_BITS, TAIL_EXPONENT, UNIFORM_EXPONENT } from "./generated/classes.js";
import type { Policy } from "./generated/messages.js";
import { formOf } from "./rules.js";
import { pack } from "./transcript.js";

/** Clear inputs that the policy gives. */
export interface Asked {
  /** Behind ctx: H of a class with noise; lo and K of decoys. */
  readonly inputs: readonly bigint[];
  /** F(0) .. F(draws) of decoys' table of draws, behind all others; none where the circuit has the table. */
  readonly table: readonly bigint[];
  /** The same, packed. */
  readonly packed: Uint8Array;
}

/** P(J = j) = masses[j] / 2^bits, j = 0 .. J_max. */
export interface DrawTable {
  /** L, bits of an id. */
  readonly idBits: number;
  readonly bits: number;
  readonly masses: readonly bigint[];
}

const TABLE_TAG = "ragseal.draw-table";

/** The smallest L with 2^L >= N. */
const idBits = (slots: number): number => 32 - Math.clz32(slots - 1);

/** The smallest J with P(Poisson(mean) > J) <= 2^-64 P(Poisson(mean) <= J): what is left out is less than a geometric series. */
function smallestDraws(top: bigint, bottom: bigint): number {
  let [weight, total] = [1n, 1n]; // mean^j / j! and its sum, times bottom^j j!
  for (let j = 1; ; j++) {
    weight *= top;
    total *= bottom * BigInt(j);
    const ahead = bottom * BigInt(j + 1) - top;
    if (ahead > 0n && (weight * bottom * BigInt(j + 1)) << BigInt(TAIL_EXPONENT) <= total * ahead) return j - 1;
    total += weight;
  }
}

/** Poisson's law of `rate` 2^-16 draws on average, cut and rounded down; what is missing is the largest mass's. */
export function drawTable(L: number, rate: number): DrawTable {
  const [top, bottom] = [BigInt(rate), 1n << BigInt(RATE_BITS)];
  const cut = smallestDraws(top, bottom);
  const weights = [1n]; // mean^j / j!, times bottom^cut cut!
  for (let j = cut; j > 0; j--) weights.push((weights.at(-1) as bigint) * bottom * BigInt(j));
  weights.reverse();
  let power = 1n;
  for (let j = 0; j <= cut; j++, power *= top) weights[j] = (weights[j] as bigint) * power;
  const bits = Math.ceil(UNIFORM_EXPONENT / L) * L;
  const norm = weights.reduce((sum, one) => sum + one);
  const masses = weights.map((weight) => (weight << BigInt(bits)) / norm);
  const largest = masses.reduce((best, one, j) => (one > (masses[best] as bigint) ? j : best), 0);
  masses[largest] = (masses[largest] as bigint) + (1n << BigInt(bits)) - masses.reduce((sum, one) => sum + one);
  return { idBits: L, bits, masses };
}

/** What a policy binds. */
export function tableDigest({ idBits: L, bits, masses }: DrawTable): Uint8Array {
  const tag = utf8(TABLE_TAG);
  const sizes = [[VERSION, 2], [L, 1], [bits, 2], [masses.length - 1, 4]] as const;
  const width = Math.floor(bits / 8) + 1;
  const numbers = [...sizes, ...masses.map((mass) => [mass, width] as const)];
  return sha256(join(Uint8Array.of(tag.length), tag, ...numbers.map(([value, size]) => fromNumber(value, size))));
}

/** F(0) .. F(draws): sums of masses, for a class of so many draws. */
function rows({ masses }: DrawTable, draws: number): bigint[] {
  let sum = 0n;
  return Array.from({ length: draws + 1 }, (_, j) => (sum += masses[j] ?? 0n));
}

function ofNoise({ claim, gain, hi, lo, ids, decoy_rate: rate, table_digest: digest }: Policy, cls: NoiseClass): Asked {
  if (rate !== 0) throw new Unknown("the policy has decoys, and its class has noise");
  need(formOf(claim)?.plain !== true, `the claim ${claim} is about exact lists, and the policy's class has noise`, "log");
  if (hex(digest) !== cls.tableDigest) throw new Unknown("the policy's noise table is not the one of its class in this build");
  need(claim !== "until-delivered", `noise bounds nothing under the policy's claim, which is ${claim}`, "log");
  need(ids === 0 || ids === cls.ids, `a list of the policy's class has ${cls.ids} ids, not ${ids}`, "log");
  const width = BigInt(gain) * BigInt(hi - lo);
  return { inputs: [claim === "answers" ? 1n + width : width >> BigInt(cls.stepBits)], table: [], packed: pack([]) };
}

function ofDecoys(policy: Policy, cls: DecoysClass): Asked {
  const { claim, gain, hi, lo, ids, decoy_rate: rate, shards } = policy;
  const within = rate >= 0 && rate <= cls.draws * 2 ** RATE_BITS; // before anything is computed from it: a log may hold any
  if (!within) throw new Unknown(`${rate} / 2^${RATE_BITS} draws on average are out of range: the class has room for ${cls.draws}`);
  const table = drawTable(idBits(cls.slots), rate);
  const most = table.masses.length - 1;
  if (most > cls.draws) throw new Unknown(`up to ${most} draws, and the class has room for ${cls.draws}`);
  const known = same(tableDigest(table), policy.table_digest);
  if (!known) throw new Unknown("the policy's table of draws is not the one of its rate in this build");
  const plain = formOf(claim)?.plain === true;
  need(plain || claim === "until-delivered", `decoys bound nothing under the policy's claim, which is ${claim}`, "log");
  need(plain || rate > 0, `without decoys no return is bounded, and the policy's claim is ${claim}`, "log");
  const longest = shards * cls.room;
  need(ids >= 1 && ids <= longest, `a list of the policy's class has 1 to ${longest} ids, not ${ids}`, "log");
  need(hi === lo + 1 && gain === 1, "decoys compare scores as they are: hi is lo + 1 and gain 1", "log");
  const entries = rows(table, cls.draws);
  return { inputs: [BigInt(lo), BigInt(ids)], table: entries, packed: pack(entries) };
}

/** The same for a tenant of a lower claim: nothing is drawn. */
export function undrawn(asked: Asked, cls: AttestationClass): Asked {
  if (cls.kind === "noise") return asked;
  const entries = rows(drawTable(idBits(cls.slots), 0), cls.draws);
  return { inputs: asked.inputs, table: entries, packed: pack(entries) };
}

/** Of a policy that names this class. */
export const askedOf = (policy: Policy, cls: AttestationClass): Asked =>
  cls.kind === "noise" ? ofNoise(policy, cls) : ofDecoys(policy, cls);
