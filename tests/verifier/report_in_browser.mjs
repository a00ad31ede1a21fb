// SPDX-License-Identifier: GPL-3.0-or-later
// Reports in a real Chromium: node report_in_browser.mjs MODULES CHROMIUM FILE...; prints what it saw of each as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, executablePath, ...files] = process.argv.slice(2);
const need = createRequire(`${modules}/`);
const { chromium } = need("playwright-core");
const axe = readFileSync(need.resolve("axe-core/axe.min.js"), "utf8");
const A4 = { width: 718, height: 1047 }; // pixels of a sheet within margins of 1 cm

async function look(browser, file, colorScheme, width) {
  // its own policy allows no script, so the one that looks at it is let past it
  const context = await browser.newContext({ bypassCSP: true, colorScheme, viewport: { width, height: 800 } });
  const page = await context.newPage();
  const asked = [], said = [];
  page.on("request", (one) => asked.push(one.url()));
  page.on("console", (one) => said.push(one.text()));
  await page.goto(pathToFileURL(file).href);
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  const violations = found.violations.map((one) => [one.id, one.nodes.map((node) => node.target.join(" "))]);
  const rules = found.passes?.length ?? 0;
  await context.close();
  return { colorScheme, width, violations, wide, rules, asked: asked.slice(1), said };
}

/** Tab by tab through the page: what gets the focus, and whether it can be seen. */
async function walk(browser, file) {
  const page = await browser.newPage();
  await page.goto(pathToFileURL(file).href);
  const seen = [];
  for (let at = 0; at < 200; at++) {
    await page.keyboard.press("Tab");
    const one = await page.evaluate(() => {
      const here = document.activeElement;
      if (!here || here === document.body) return null;
      const style = getComputedStyle(here);
      return { tag: here.tagName.toLowerCase(), outline: style.outlineStyle !== "none" && style.outlineWidth !== "0px" };
    });
    if (!one) break;
    seen.push(one);
  }
  const before = await page.locator("details[open]").count();
  await page.locator("details:not([open]) > summary").first().focus();
  await page.keyboard.press("Enter");
  const opened = (await page.locator("details[open]").count()) - before;
  const limits = page.locator('a[href="#limits"]');
  let jumped = null;
  if (await limits.count()) {
    await limits.focus();
    await page.keyboard.press("Enter");
    jumped = await page.evaluate(() => document.querySelector("#limits").getBoundingClientRect().top < innerHeight);
  }
  await page.close();
  return { seen, opened, jumped };
}

/** Printed: where the first page's parts end, and whether closed details are printed. */
async function print(browser, file) {
  const page = await browser.newPage({ viewport: A4 });
  await page.goto(pathToFileURL(file).href);
  await page.emulateMedia({ media: "print" });
  const ends = await page.evaluate(() =>
    Object.fromEntries([".verdict", ".claimed", ".plain", ".limits"].map((name) => {
      const part = document.querySelector(name);
      return [name, part ? Math.round(part.getBoundingClientRect().bottom) : null];
    })));
  const inside = await page.evaluate(() =>
    [...document.querySelectorAll("details:not([open]) > .inside")].map((one) => one.getBoundingClientRect().height));
  const pdf = await page.pdf({ format: "A4" });
  await page.close();
  return { ends, sheet: A4.height, hidden: inside.filter((height) => height === 0).length, bytes: pdf.length };
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const out = {};
try {
  for (const file of files) {
    const looks = [];
    for (const scheme of ["light", "dark"]) for (const width of [360, 1280]) looks.push(await look(browser, file, scheme, width));
    out[file] = { looks, walk: await walk(browser, file), print: await print(browser, file) };
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(out));
