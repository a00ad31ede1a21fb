// SPDX-License-Identifier: GPL-3.0-or-later
/** What a signed verdict says of its sample, held against its line and against what such a sample can show. SPEC D.8.2. */

import { need, refuse } from "./bytes.js";

type Fraction = readonly [bigint, bigint];
type Json = Readonly<Record<string, unknown>>;

const MOST_RECORDS = 1n << 32n;

/** 1 less a confidence as it is written; 0.3.0 wrote the fraction. */
function doubt(text: string): Fraction {
  if (text === "99/100") return [1n, 100n];
  const decimal = /^0\.([0-9]{1,90})$/u.exec(text)?.[1];
  const power = /^1-(2|10)\^-([1-9][0-9]{0,2})$/u.exec(text);
  const scientific = /^1-([1-9])(?:\.([0-9]{1,9}))?e-([1-9][0-9]{0,2})$/u.exec(text);
  let found: Fraction = [1n, 1n];
  if (decimal !== undefined) {
    const whole = 10n ** BigInt(decimal.length);
    found = [whole - BigInt(decimal), whole];
  } else if (power) {
    found = [1n, BigInt(power[1] ?? "") ** BigInt(power[2] ?? "")];
  } else if (scientific) {
    const [, first = "", point = "", exponent = ""] = scientific;
    found = [BigInt(first + point), 10n ** (BigInt(point.length) + BigInt(exponent))];
  }
  need(found[0] < found[1] && found[0] << 256n >= found[1], "not a confidence that a sample can have");
  return found;
}

/** A confidence as lines write it. */
function written([above, below]: Fraction): string {
  let [a, b] = [above, below];
  while (b > 0n) [a, b] = [b, a % b];
  const [left, whole] = [above / a, below / a];
  for (const [base, exponent] of [[2n, whole.toString(2).length - 1], [10n, whole.toString().length - 1]] as const) {
    if (exponent > 6 && left === 1n && whole === base ** BigInt(exponent)) return `1-${base}^-${exponent}`;
  }
  for (let digits = 1; digits < 90; digits++) {
    const scaled = (whole - left) * 10n ** BigInt(digits);
    if (scaled % whole === 0n) return `0.${(scaled / whole).toString().padStart(digits, "0")}`;
  }
  return `${whole - left}/${whole}`;
}

/** Whether a clean sample of so many of so many can rule out a larger share; rounded so that it refuses less. */
function attainable(records: bigint, proven: bigint, beta: number, [left, whole]: Fraction): boolean {
  const bad = ((BigInt(Math.floor(beta * 2 ** 1000)) * records) >> 1000n) + 1n;
  if (bad > records) return true;
  const [few, many] = bad < proven ? [bad, proven] : [proven, bad];
  let [above, below] = [1n, 1n];
  for (let i = 0n; i < few; i++) {
    const rest = records - many - i;
    [above, below] = [above * (rest > 0n ? rest : 0n), below * (records - i)];
    if (above * whole <= left * below) return true;
    if (below >> 4096n > 0n) [above, below] = [(above << 1024n) / below, 1n << 1024n];
  }
  return false;
}

/** `upward`: a bound as lines write it. */
export function checkSample(found: Json, upward: (value: unknown, what: string) => string): void {
  const { verdict, line, beta, confidence, records, proven } = found;
  const fields = new Map((line as string).split(" ").slice(1).map((one) => [one.split("=", 1)[0], one.slice(one.indexOf("=") + 1)]));
  const told = ["proven", "beta", "confidence"].map((name) => fields.get(name));
  if (verdict !== "SAMPLED-PASS") {
    need(beta === null && confidence === null && told.every((one) => one === undefined), "a PASS of all records has no beta and no confidence");
    return;
  }
  if (typeof records !== "bigint" || typeof proven !== "bigint" || typeof confidence !== "string" || beta === null) refuse("a sample has its numbers");
  const share = Number(beta);
  need(proven >= 0n && proven <= records && records <= MOST_RECORDS && share >= 0 && share <= 2, "a sample has its numbers");
  const left = doubt(confidence);
  need(told[0] === String(proven) && told[1] === upward(beta, "beta") && told[2] === written(left),
    "the signed verdict's line says something else of its sample than its members");
  need(attainable(records, proven, share, left), "the signed verdict claims more than its sample shows");
}
