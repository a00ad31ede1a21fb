// SPDX-License-Identifier: GPL-3.0-or-later
/** Text of others, made fit for a page and a terminal, as kernel/printable.py has it. SPEC G.5.1. */

const NAMED: { readonly [char: string]: string } = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

function escaped(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  const digits = code.toString(16);
  return NAMED[char] ?? (code < 0x100 ? `\\x${digits.padStart(2, "0")}` : code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`);
}

/** Control and formatting characters, half surrogate pairs and odd spaces are escaped: a name could turn a line round. */
export function printable(text: string): string {
  return text.replace(/[\p{C}\p{Z}]/gu, (char) => (char === " " ? char : escaped(char)));
}
