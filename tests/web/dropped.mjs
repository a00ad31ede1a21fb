// SPDX-License-Identifier: GPL-3.0-or-later
// What the page says of files that a visitor drops on it.  usage: node dropped.mjs LOG_KEY AUDITOR_KEY FILE...   ("-": none)
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";

const { checkDropped } = createRequire(import.meta.url)("../../ledger/web/verify.js");
const [logKey, auditorKey, ...files] = process.argv.slice(2).map((one) => (one === "-" ? undefined : one));
const given = files.map((file) => ({ name: basename(file), data: new Uint8Array(readFileSync(file)) }));
console.log(JSON.stringify(checkDropped(given, { logKey, auditorKey })));
