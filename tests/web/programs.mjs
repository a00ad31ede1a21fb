// SPDX-License-Identifier: GPL-3.0-or-later
// Runs verify-window.mjs again and again in one process, whose compiled code stays warm: a line of arguments, a JSON list,
// comes in, and a line {"status": .., "out": .., "err": ..} goes out for it.
import { createInterface } from "node:readline";

class Exit extends Error {
  constructor(status) {
    super(`exit ${status}`);
    this.status = status;
  }
}

const program = new URL("../../web/verify/bin/verify-window.mjs", import.meta.url);
const answer = process.stdout.write.bind(process.stdout);
const said = { out: [], err: [] };
console.log = (text) => said.out.push(text);
console.error = (text) => said.err.push(text);
process.exit = (status) => {
  throw new Exit(status ?? 0);
};

let run = 0;
for await (const line of createInterface({ input: process.stdin })) {
  process.argv.splice(2, Infinity, ...JSON.parse(line));
  said.out = [];
  said.err = [];
  let status = 0;
  try {
    await import(`${program}?run=${run++}`); // a module of its own for each name
  } catch (error) {
    status = error instanceof Exit ? error.status : 1;
    if (!(error instanceof Exit)) said.err.push(error.stack);
  }
  answer(`${JSON.stringify({ status, out: said.out.join("\n"), err: said.err.join("\n") })}\n`);
}
