// SPDX-License-Identifier: GPL-3.0-or-later
// Opens the observer's page of a folder in a real Chromium, does with it what a visitor does, and prints what is seen.
// usage: node browser.mjs CHROMIUM FOLDER TASK [FILE...]     TASK: window | files | faces
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, normalize } from "node:path";

const [executablePath, folder, task, ...files] = process.argv.slice(2);
const require = createRequire(new URL("../../web/verify/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");

const TYPES = { html: "text/html; charset=utf-8", json: "application/json" };
const server = createServer(async (request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url, "http://x").pathname)).replace(/^\/+/, "") || "index.html";
  try {
    const data = await readFile(join(folder, path));
    response.writeHead(200, { "Content-Type": TYPES[path.split(".").pop()] ?? "application/octet-stream" }).end(data);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${server.address().port}/`;

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage();
const troubles = [];
const requests = [];
page.on("console", (message) => message.type() === "error" && troubles.push(message.text()));
page.on("pageerror", (error) => troubles.push(String(error)));
page.on("request", (request) => requests.push(request.url()));

const shown = (list) => page.$$eval(`#${list} > li`, (items) => items.map((item) => item.textContent));
const state = (id) => page.$eval(`#${id}`, (element) => ({ kind: element.className, text: element.textContent }));
const wide = () => page.evaluate(() => document.documentElement.scrollWidth);
const violations = async () => {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  return found.violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.target} (${one.help})`));
};
/** Tab, as often as it takes, to an element. */
async function tabTo(id) {
  for (let i = 0; i < 60; i++) {
    if ((await page.evaluate(() => document.activeElement?.id)) === id) return i;
    await page.keyboard.press("Tab");
  }
  throw new Error(`${id} is not reached by the Tab key`);
}
const ended = () => page.waitForFunction(() => /^[✔✘–]/.test(document.getElementById("window-said").textContent)
  && !document.getElementById("check-window").disabled && document.querySelectorAll("#window-checks > li").length > 0, null, { timeout: 240000 });

const out = {};
await page.goto(address);
await page.waitForFunction(() => !document.getElementById("headline").textContent.startsWith("…"));
out.headline = await state("headline");
if (task === "window") {
  out.tabs = await tabTo("check-window");
  await page.keyboard.press("Enter");
  await ended();
  out.focused = await page.evaluate(() => document.activeElement?.id);
  out.said = await state("window-said");
  out.checks = await shown("window-checks");
  out.requests = requests.map((one) => one.replace(address, "/")).filter((one) => !one.startsWith("blob:"));
} else if (task === "files") {
  const before = requests.length;
  await page.context().setOffline(true);
  await page.setInputFiles("#files", files);
  await page.waitForFunction(() => document.querySelectorAll("#file-checks > li").length > 0);
  out.said = await state("file-said");
  out.checks = await shown("file-checks");
  const data = await Promise.all(files.map(async (file) => ({ name: file.split("/").pop(), text: (await readFile(file)).toString("base64") })));
  await page.evaluate((given) => {
    document.getElementById("file-checks").replaceChildren();
    const transfer = new DataTransfer();
    for (const { name, text } of given) transfer.items.add(new File([Uint8Array.from(atob(text), (char) => char.charCodeAt(0))], name));
    document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, cancelable: true, bubbles: true }));
  }, data);
  await page.waitForFunction(() => document.querySelectorAll("#file-checks > li").length > 0);
  out.dropped = await shown("file-checks");
  out.fetched = requests.slice(before);
  await page.evaluate(() => {
    File.prototype.arrayBuffer = () => Promise.reject(new Error("a folder")); // as a browser has it
    document.getElementById("files").dispatchEvent(new Event("change"));
  });
  await page.waitForFunction(() => !/All of it|…/.test(document.getElementById("file-said").textContent));
  out.unreadable = { ...(await state("file-said")), checks: await shown("file-checks") };
} else if (task === "faces") {
  await page.click("#check-window");
  await ended();
  out.light = await violations();
  await page.setViewportSize({ width: 360, height: 740 });
  out.wide = await wide();
  await page.click("summary");
  out.wideWithPolicy = await wide();
  await page.emulateMedia({ colorScheme: "dark" });
  out.dark = await violations();
  out.paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ media: "print" });
  out.printed = await page.evaluate(() => ["window-form", "file-form", "drop", "copy", "jump"]
    .filter((id) => getComputedStyle(document.getElementById(id)).display !== "none"));
  await page.emulateMedia({ media: "screen" });
  out.stranger = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "globalThis.strangerRan = true";
    document.body.append(script);
    return globalThis.strangerRan === true;
  });
  out.refused = troubles.splice(0).filter((one) => /Content Security Policy/.test(one)).length;
}
out.troubles = troubles;
console.log(JSON.stringify(out));
await browser.close();
server.close();
