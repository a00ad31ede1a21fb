// SPDX-License-Identifier: GPL-3.0-or-later
// Policies as the page reads them: of each line on its input, {"policy", "note"} in base64, whether the note meets it.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { Refusal, internals } = createRequire(import.meta.url)("../../ledger/web/verify.js");
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const [logKey] = process.argv.slice(2);
for await (const line of createInterface({ input: process.stdin })) {
  const { policy, note } = JSON.parse(line);
  let said;
  try {
    const read = internals.parsePolicy(bytes(policy));
    said = { logs: read.logs.length };
    said.quorum = internals.meets(internals.openCheckpoint(bytes(note), internals.parseKey(logKey)).note, read).quorum;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    said = { ...said, error: error.message };
  }
  console.log(JSON.stringify(said));
}
