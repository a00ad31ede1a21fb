// SPDX-License-Identifier: GPL-3.0-or-later
/**
 * JSON of signed texts: each number in one of two kinds, as it is written, and no member twice. SPEC D.18.2.
 *
 * JSON.parse reads 3.0 as the whole number 3 and the last of two members; another reader need not.
 */
import { need, refuse } from "./bytes.js";

export type Json = null | boolean | string | bigint | number | readonly Json[] | { readonly [name: string]: Json };

const MAX_DEPTH = 32;
const MAX_DIGITS = 32; // characters of a number

class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  all(): Json {
    const found = this.value(0);
    this.blank();
    need(this.at === this.text.length, "more than one JSON value");
    return found;
  }

  private blank(): string {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at++;
    return this.text[this.at] ?? "";
  }

  private take(sign: string): boolean {
    const there = this.blank() === sign;
    if (there) this.at++;
    return there;
  }

  private value(depth: number): Json {
    need(depth <= MAX_DEPTH, `JSON that is nested deeper than ${MAX_DEPTH}`);
    if (this.take("{")) return this.object(depth);
    if (this.take("[")) return this.list(depth);
    if (this.blank() === '"') return this.string();
    for (const [word, meant] of [["null", null], ["true", true], ["false", false]] as const) {
      if (!this.text.startsWith(word, this.at)) continue;
      this.at += word.length;
      return meant;
    }
    return this.number();
  }

  private object(depth: number): Json {
    const out = Object.create(null) as { [name: string]: Json };
    if (this.take("}")) return out;
    do {
      need(this.blank() === '"', "a member of a JSON object has no name");
      const name = this.string();
      need(!Object.hasOwn(out, name), `a JSON object has the member ${JSON.stringify(name)} twice`);
      need(this.take(":"), "a member of a JSON object has no value");
      out[name] = this.value(depth + 1);
    } while (this.take(","));
    need(this.take("}"), "a JSON object does not end");
    return out;
  }

  private list(depth: number): Json {
    const out: Json[] = [];
    if (this.take("]")) return out;
    do out.push(this.value(depth + 1));
    while (this.take(","));
    need(this.take("]"), "a JSON list does not end");
    return out;
  }

  private string(): string {
    const start = this.at;
    let escapes: number;
    do {
      this.at = this.text.indexOf('"', this.at + 1);
      need(this.at > start, "a JSON string does not end");
      for (escapes = 0; this.text[this.at - 1 - escapes] === "\\"; escapes++);
    } while (escapes % 2 === 1);
    this.at++;
    let found: string;
    try {
      found = JSON.parse(this.text.slice(start, this.at)) as string;
    } catch {
      return refuse("a JSON string holds what none can hold");
    }
    need(!/[\ud800-\udfff]/u.test(found), "a JSON string holds half a character");
    return found;
  }

  private number(): bigint | number {
    const [all, fraction, exponent] = /^-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/.exec(this.text.slice(this.at, this.at + MAX_DIGITS + 1)) ?? [""];
    need(all.length >= 1 && all.length <= MAX_DIGITS, "not JSON");
    this.at += all.length;
    if (fraction === undefined && exponent === undefined) return BigInt(all);
    const found = Number(all);
    need(Number.isFinite(found), "a JSON number is finite");
    return found;
  }
}

/** One JSON value; a Refusal where it is none. */
export function parseJson(text: string): Json {
  return new Reader(text).all();
}
