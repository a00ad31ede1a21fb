// SPDX-License-Identifier: GPL-3.0-or-later
// Runs the page's script with a tiny DOM over the files of a folder, and prints what a visitor would read.
// usage: node page_harness.mjs FOLDER MEMORY.json
import { readFileSync, writeFileSync, existsSync } from "node:fs";
import { webcrypto } from "node:crypto";
import vm from "node:vm";

const [folder, memory] = process.argv.slice(2);
const remembered = existsSync(memory) ? JSON.parse(readFileSync(memory, "utf8")) : {};
class Element {
  constructor() { this.dataset = {}; this.children = []; this.textContent = ""; this.className = ""; this.hidden = false; }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  focus() {}
  get text() { return this.textContent + this.children.map(c => (typeof c === "string" ? c : c.text)).join(""); }
}
const byId = {};
const element = id => (byId[id] ??= new Element());
const context = vm.createContext({
  document: { getElementById: element, createElement: () => new Element(), title: "" },
  localStorage: { getItem: k => remembered[k] ?? null, setItem: (k, v) => { remembered[k] = v; },
    removeItem: k => { delete remembered[k]; } },
  fetch: async name => existsSync(`${folder}/${name}`)
    ? { ok: true, json: async () => JSON.parse(readFileSync(`${folder}/${name}`, "utf8")) } : { ok: false, status: 404 },
  crypto: webcrypto, TextEncoder, Uint8Array, DataView, atob, btoa, Date, Math, Number, JSON, Promise, console,
  location: { hash: "" }, navigator: {},
});
context.TextDecoder = TextDecoder;
const html = readFileSync(`${folder}/index.html`, "utf8");
const start = html.indexOf("<script>") + 8; // the page's own: that of whole windows runs in tests/web, in a real browser
const verify = html.indexOf('<script id="verify">') + 20;
vm.runInContext(html.slice(verify, html.indexOf("</script>", verify)) + "\nglobalThis.ragsealVerify = ragsealVerify;", context);
vm.runInContext(html.slice(start, html.indexOf("</script>", start)) + "\nglobalThis.settled = true;", context);
for (let round = 0, still = 0, before = ""; round < 2000 && (still < 10 || !element("status").dataset.state); round++) {
  await new Promise(done => setTimeout(done, 10));
  const now = JSON.stringify(Object.values(byId).map(e => e.text));
  still = now === before ? still + 1 : 0; before = now;
}
writeFileSync(memory, JSON.stringify(remembered));
console.log(JSON.stringify({
  key: element("vkey").text, log: context.checkedLog ?? null,
  evidence: ["older", "newer"].map(side => element(`${side}-evidence`).href),
  headline: element("headline").text, state: element("status").dataset.state,
  checks: element("checks").children.map(c => c.text), facts: element("facts").children.map(c => c.text),
  rows: element("rows").children.map(row => [row.children[0].text, row.children[1].text, row.children[3].text]),
}));
