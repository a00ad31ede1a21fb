#!/usr/bin/env node
// SPDX-License-Identifier: GPL-3.0-or-later
// Checks a window of a log from a folder of static files, or from a web server that offers one.
// usage: node verify-window.mjs FOLDER|URL --log-key KEY [--window NAME] [--policy FILE] [--witness KEY]... [--kept NOTE] [--json]
import { createReadStream, existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";

// In the repository the bundle is the one that the observer's page has; in the package it lies beside this file.
const bundles = ["../../../ledger/web/verify.js", "../dist/verify.cjs"].map((path) => new URL(path, import.meta.url));
const { printable, readBody, verifyWindow } = createRequire(import.meta.url)(bundles.find((one) => existsSync(one)).pathname);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    "log-key": { type: "string" },
    window: { type: "string" },
    policy: { type: "string" },
    witness: { type: "string", multiple: true },
    kept: { type: "string" },
    json: { type: "boolean" },
  },
});
const [from] = positionals;
if (from === undefined || values["log-key"] === undefined) {
  console.error("usage: verify-window FOLDER|URL --log-key KEY [--window NAME] [--policy FILE] [--witness KEY]... [--kept NOTE] [--json]");
  process.exit(2);
}

const onDisk = async (path) => {
  try {
    return await readBody(path, createReadStream(join(from, path)));
  } catch (error) {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return null;
    throw error;
  }
};
const onServer = async (path) => {
  const answer = await fetch(new URL(path, from.endsWith("/") ? from : `${from}/`));
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`${path}: the server answers ${answer.status}`);
  return readBody(path, answer.body);
};

async function checked(...given) {
  try {
    return await verifyWindow(...given);
  } catch (error) {
    console.error(`verify-window: ${printable(error.message)}`);
    process.exit(2);
  }
}

const MARKS = { good: "ok      ", bad: "FAILS   ", open: "not seen" };
const report = await checked(/^https?:/.test(from) ? onServer : onDisk, {
  logKey: values["log-key"],
  window: values.window,
  policy: values.policy === undefined ? undefined : new Uint8Array(await readFile(values.policy)),
  witnesses: values.witness,
  kept: values.kept === undefined ? undefined : await readFile(values.kept, "utf8"),
  tell: values.json ? undefined : (line) => console.log(`${MARKS[line.state]}  ${line.step}: ${line.text}`),
});
if (values.json) console.log(JSON.stringify(report));
else {
  const said = { good: "what is here holds", bad: "something does not hold", open: "not everything is here" }[report.state];
  console.log(`\nwindow ${report.window ?? "?"}: ${said}; ${report.proven} of ${report.records} records proven`);
}
process.exit({ good: 0, bad: 1, open: 3 }[report.state]);
