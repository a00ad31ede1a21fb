// SPDX-License-Identifier: GPL-3.0-or-later
// Which of the envelopes that stand on its input, one in base64 a line, the page takes.  usage: node verdicts.mjs AUDITOR_KEY
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { Refusal, fromHex, internals } = createRequire(import.meta.url)("../../ledger/web/verify.js");
for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = { ok: internals.readVerdict(new Uint8Array(Buffer.from(line, "base64")), fromHex(process.argv[2])).line };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    said = { error: error.message };
  }
  console.log(JSON.stringify(said));
}
