// SPDX-License-Identifier: GPL-3.0-or-later
// Checks many recorded logs in one process: lines {"files": {path: base64}, "logKey": ..., "window": ...} on standard
// input, and for each one a report on standard output.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { verifyWindow } = createRequire(import.meta.url)("../../ledger/web/verify.js");
for await (const line of createInterface({ input: process.stdin })) {
  const { files, logKey, window } = JSON.parse(line);
  const read = async (path) => (path in files ? new Uint8Array(Buffer.from(files[path], "base64")) : null);
  try {
    const report = await verifyWindow(read, { logKey, ...(window ? { window } : {}) });
    console.log(JSON.stringify({ lines: report.lines }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message) }));
  }
}
