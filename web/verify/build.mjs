// SPDX-License-Identifier: GPL-3.0-or-later
// Bundles src/index.ts into one file that runs as a script, in a worker and in Node; with --check says whether the
// committed one is what the sources give.  usage: node build.mjs [--check]
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const here = new URL("./", import.meta.url);
const target = new URL("../../ledger/web/verify.js", here);
const digest = new URL("../../ledger/web/verify.js.sha256", here);
const license = readFileSync(new URL("node_modules/@noble/curves/LICENSE", here), "utf8").trim();
const banner = `/* ragseal verify: checks a window's public files.  SPDX-License-Identifier: GPL-3.0-or-later
Built by web/verify/build.mjs from web/verify/src and from @noble/curves and @noble/hashes, which are under this license:

${license} */`;

const made = await build({
  entryPoints: [new URL("src/index.ts", here).pathname],
  absWorkingDir: here.pathname,
  bundle: true,
  write: false,
  minify: true,
  charset: "ascii", // it is read as text of an HTML page too
  legalComments: "none",
  target: "es2022",
  format: "iife",
  globalName: "ragsealVerify",
  banner: { js: banner },
  footer: { js: 'if (typeof module === "object") module.exports = ragsealVerify;' },
});
const [{ contents }] = made.outputFiles;
if (/<\/script|<!--/i.test(Buffer.from(contents).toString())) throw new Error("the bundle would end its own script element");
const line = `${createHash("sha256").update(contents).digest("hex")}  verify.js\n`;

const read = (url) => {
  try {
    return readFileSync(url);
  } catch {
    return Buffer.alloc(0);
  }
};
if (process.argv.includes("--check")) {
  if (!read(target).equals(Buffer.from(contents)) || read(digest).toString() !== line) {
    console.error("ledger/web/verify.js is not what web/verify gives: run `npm run build` in web/verify");
    process.exit(1);
  }
} else {
  writeFileSync(target, contents);
  writeFileSync(digest, line);
  mkdirSync(new URL("dist/", here), { recursive: true });
  writeFileSync(new URL("dist/verify.cjs", here), contents);
}
