// SPDX-License-Identifier: GPL-3.0-or-later
// Checks many recorded logs in one process: lines {"files": {path: base64}, "logKey": ..., "window": ...} on standard
// input, and for each one a report on standard output.  usage: node second_reader.mjs [WORDS]
// With WORDS the one refusal of the page that says them is taken away.  A line may have "classes": by name, what the page
// is told of a class otherwise than it was built with.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

/** The bundle without the call that says `words`: what is called stands for nothing, its arguments are looked at. */
function without(bundle, words) {
  const at = bundle.indexOf(words);
  if (at < 0 || bundle.includes(words, at + 1)) throw new Error(`not one refusal says ${JSON.stringify(words)}`);
  let depth = 0;
  let open = at;
  while (depth <= 0) depth += { "(": 1, ")": -1 }[bundle[--open]] ?? 0;
  const name = /[\w$]+$/.exec(bundle.slice(0, open))[0];
  return `${bundle.slice(0, open - name.length)}void${bundle.slice(open)}`;
}

const bundle = readFileSync(new URL("../../ledger/web/verify.js", import.meta.url), "utf8");
const words = process.argv[2];
const module = { exports: {} };
new Function("module", words ? without(bundle, words) : bundle)(module);
for await (const line of createInterface({ input: process.stdin })) {
  const { files, logKey, window, classes: told } = JSON.parse(line);
  const { CLASSES } = module.exports;
  const classes = { ...CLASSES };
  for (const [name, changes] of Object.entries(told ?? {})) classes[name] = { ...CLASSES[name], ...changes };
  const read = async (path) => (path in files ? new Uint8Array(Buffer.from(files[path], "base64")) : null);
  try {
    const report = await module.exports.verifyWindow(read, { logKey, classes, ...(window ? { window } : {}) });
    console.log(JSON.stringify({ state: report.state, lines: report.lines }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message) }));
  }
}
