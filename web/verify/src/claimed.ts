// SPDX-License-Identifier: GPL-3.0-or-later
/** What a PASS claims, as its line and the signed statement have it. SPEC D.12.5, D.18. */
import { sha256 } from "@noble/hashes/sha2.js";
import { hex, need, refuse, utf8 } from "./bytes.js";
import { claimsFit, inOrder } from "./rules.js";
import { checkSample } from "./sample.js";

/** Of the year 9999, in seconds since 1970. */
export const LAST_MINUTE = 253402300740n;

/** What rests on the provider's word, and how a line says it, in this order. */
export const WORD_OF_THE_PROVIDER: { readonly [name: string]: string } = {
  late: "late=unproven",
  filter: "filter=provider",
  histograms: "histograms=provider",
  texts: "texts=provider",
  vocabulary: "vocabulary=provider",
  embeddings: "embeddings=provider",
  neighbours: "neighbours=provider",
};

/** How each claim's text begins: so many characters, all ASCII, with this SHA-256. */
const TEXTS: { readonly [name: string]: readonly [number, string] } = {
  "every-list": [375, "1e730cb78fef3953d46ca65abaa9899aeed0928350c143e6a2b7e6fae2c6ab43"],
  "until-delivered": [877, "6e3265ed1b8bde5a9b431b19ff1dca9d96386cf0b72dde53a5eca6bf906048e7"],
  unseen: [759, "6295b3e354ad936a20fea06a2f048f7753a7297c4c6b9a9422f6dcd978f26ad2"],
  exact: [520, "e8cbf88a5eac7b205d27129f90423e8b28f78fab55eb11d588cafa65c54eb6d2"],
  answers: [695, "68be0b7ca5b31a7b124bd404bb7349fef6446efd2e7c07bd94631bb52509044c"],
};

const DIGITS = 6; // significant ones of a bound
const ENOUGH = 99; // decimals of a double by which it is told from any number of six digits

type Json = { readonly [name: string]: unknown };

/** A bound as a line writes it: at most six digits and, below 1, six decimals, rounded up. `accounting/rounding.py`. */
export function upward(value: number): string {
  if (!Number.isFinite(value)) return "inf";
  if (value === 0) return "0";
  const [mantissa = "", power = ""] = value.toExponential(ENOUGH).split("e");
  const all = mantissa.replace(".", "");
  const kept = value >= 1e-4 && value < 1 ? Number(power) + 1 + DIGITS : DIGITS;
  const whole = String(BigInt(all.slice(0, kept)) + (/[1-9]/u.test(all.slice(kept)) ? 1n : 0n));
  const first = Number(power) - kept + whole.length; // power of ten of its first digit
  const digits = whole.replace(/0+$/u, "");
  const [head, tail] = [digits.slice(0, 1), digits.slice(1)];
  if (first < -4 || first >= DIGITS) {
    const text = `${head}${tail && `.${tail}`}e${first < 0 ? "-" : "+"}${String(Math.abs(first)).padStart(2, "0")}`;
    return Number.isFinite(Number(text)) ? text : "inf";
  }
  if (first < 0) return `0.${"0".repeat(-first - 1)}${digits}`;
  const padded = digits.padEnd(first + 1, "0");
  return padded.length > first + 1 ? `${padded.slice(0, first + 1)}.${padded.slice(first + 1)}` : padded;
}

function bound(value: unknown, name: string): string {
  if (value === "inf") return value;
  const exact = typeof value === "number" || typeof value === "bigint" ? Number(value) : NaN;
  need(exact >= 0 && !Object.is(exact, -0), `${name} of the verdict is no bound`);
  return upward(exact);
}

/** Whether it is a minute of the calendar, in UTC and not before 1970, as `2026-11-27T00:00Z`. */
function isMinute(text: unknown): boolean {
  if (typeof text !== "string" || !/^\d{4}-\d\d-\d\dT\d\d:\d\dZ$/u.test(text)) return false;
  const seconds = Date.parse(text.replace("Z", ":00Z"));
  return seconds >= 0 && new Date(seconds).toISOString() === text.replace("Z", ":00.000Z");
}

/** Of a claim that bounds nothing: no number stands anywhere, and none is written as `none`, which nobody takes for 0. */
function nothing(found: Json): string {
  const { epsilon, delta, coalition, queries, providersWord } = found;
  const rest = ["unseen", "return", "periodFrom", "leftOut", "epsilonOfTheLog"].map((name) => found[name]);
  const none = [epsilon, delta, coalition, queries].every((one) => one === "none") && rest.every((one) => one === null);
  need(none && (providersWord as unknown[]).every((one) => one === "embeddings"), "the claim exact has no number, and this verdict has one");
  return "claim=exact epsilon=none private=nothing";
}

/** Of every other claim: whom it holds against, for what time, and its numbers. */
function numbers(found: Json, claim: string): string {
  const { coalition, queries, periodFrom, leftOut, epsilonOfTheLog, epsilon, delta, unseen, return: back } = found;
  const counted = claim === "every-list";
  const plain = claim === "unseen"; // coins without decoys: no return is bounded, and no epsilon is printed
  const delivered = plain || claim === "until-delivered";
  for (const one of [coalition, queries]) {
    need(counted ? typeof one === "bigint" && one > 0n && one < 10n ** 20n : one === "any", "claim, coalition and queries do not fit");
  }
  need(isMinute(periodFrom), "the budget period has no beginning");
  need(typeof leftOut === "bigint" && leftOut >= 0n && leftOut < 1n << 64n && (leftOut > 0n) === (epsilonOfTheLog !== null),
    "windows left out and epsilon of the whole log are named together");
  need(plain ? epsilon === "none" && back === "inf" && Number(delta) === 0 : true, "the claim unseen has no epsilon, no delta and no return");
  need(delivered ? (plain || unseen === epsilon) && back !== null : unseen === null && back === null, "claim, unseen and return do not fit");
  const spent = bound(plain ? unseen : epsilon, "epsilon");
  const whole = epsilonOfTheLog === "unknown" ? epsilonOfTheLog : epsilonOfTheLog === null ? "" : bound(epsilonOfTheLog, "epsilon of the whole log");
  return [
    ...(plain ? [] : [`epsilon_audit=${spent}`]),
    `claim=${claim} coalition=${String(coalition)} queries=${String(queries)}`,
    ...(delivered ? [`unseen=${spent} return=${bound(back, "return")}`] : []),
    `delta=${bound(delta, "delta")} period_from=${String(periodFrom)} left_out=${String(leftOut)}`,
    ...(whole ? [`${plain ? "unseen" : "epsilon"}_log=${whole}`] : []),
  ].join(" ");
}

/** The text of a claim's name. */
const textOf = (name: unknown): readonly [number, string] =>
  (typeof name === "string" && Object.hasOwn(TEXTS, name) && TEXTS[name]) || refuse("the verdict's claim is not known");

/** What a line has of one claim. */
function said(found: Json): string {
  const { claimName, providersWord } = found;
  const word = providersWord as unknown[];
  textOf(claimName);
  const ordered = Object.keys(WORD_OF_THE_PROVIDER).filter((one) => word.includes(one));
  need(ordered.length === word.length && ordered.every((one, at) => one === word[at]), "the provider's word is not named in order");
  const own = claimName === "exact" ? nothing(found) : numbers(found, claimName as string);
  return [own, ...ordered.map((one) => WORD_OF_THE_PROVIDER[one] ?? "")].join(" ");
}

/** Whether a text has that of a claim in it, behind a blank or at its beginning. */
function describes(text: string, name: string): boolean {
  const [length, digest] = textOf(name);
  const starts = [0, ...[...text.matchAll(/ (?=For |Every )/gu)].map((found) => found.index + 1)];
  return starts.some((at) => hex(sha256(utf8(text.slice(at, at + length)))) === digest);
}

/** The member that only a PASS of several claims has. */
export const TENANTS = "tenants";

const CLAIM_MEMBERS = [
  "epsilon", "delta", "unseen", "return", "claimName", "coalition", "queries", "periodFrom", "leftOut", "epsilonOfTheLog", "providersWord",
];

const isText = (value: unknown): value is string => typeof value === "string";
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);

/** Of several claims each with its tenants, the weakest first, which is the verdict's own; how the line has them. */
function tenantsOf(found: Json): { readonly field: string; readonly names: readonly string[] } {
  const all: unknown = found[TENANTS];
  if (!Array.isArray(all) || all.length < 2) return refuse("the tenants of a signed verdict are a list of two claims at least, or left out");
  const claims = (all as Json[]).map((one) => {
    const known = typeof one === "object" && one !== null && Object.keys(one).length === CLAIM_MEMBERS.length + 1;
    need(known && [...CLAIM_MEMBERS, TENANTS].every((name) => Object.hasOwn(one, name)), "a claim of tenants has other members than this version's");
    const { tenants, providersWord, claimName } = one;
    if (!isTexts(tenants) || !isTexts(providersWord)) return refuse("a claim in the signed verdict does not name its tenants");
    need(tenants.every((name) => /^[!-~]{1,128}$/u.test(name)) && inOrder(tenants), "the tenants of a claim are named in order, each once");
    said(one);
    return { claim: claimName as string, tenants };
  });
  need(claimsFit(claims), "the claims of the signed verdict do not fit each other");
  const first = (all as Json[])[0] as Json;
  const same = CLAIM_MEMBERS.every((name) => {
    const [one, other] = [first[name], found[name]];
    return one === other || (isTexts(one) && isTexts(other) && one.join(" ") === other.join(" "));
  });
  need(same, "the signed verdict's own claim is not the weakest of its tenants'");
  const named = claims.flatMap((one) => one.tenants.map((tenant) => `${one.claim}:${word(tenant)}`));
  return { field: ` tenants=${named.join(",")}`, names: claims.map((one) => one.claim) };
}

/** A PASS has a claim with all that it needs, and its line begins with the same; nothing else claims anything. */
export function checkClaimed(found: Json): void {
  const { verdict, claim, claimName, coalition, queries, periodFrom, leftOut, epsilonOfTheLog, providersWord } = found;
  const { epsilon, delta, unseen, return: back } = found;
  if (verdict !== "PASS" && verdict !== "SAMPLED-PASS") {
    const all = [epsilon, delta, unseen, back, claimName, coalition, queries, periodFrom, leftOut, epsilonOfTheLog];
    const bare = all.every((one) => one === null) && (providersWord as unknown[]).length === 0 && !Object.hasOwn(found, TENANTS);
    need(bare, `a ${String(verdict)} claims nothing, and this one has numbers of a claim`);
    return;
  }
  const [length, digest] = textOf(claimName);
  const own = said(found);
  const { field, names: lower } = Object.hasOwn(found, TENANTS) ? tenantsOf(found) : { field: "", names: [] };
  const line = found["line"] as string;
  need(line.startsWith(`${verdict} ${own}${field} `), "the signed verdict's line does not have the claim that its members have");
  const names = line.split(" ").slice(1).map((one) => /^([a-z_]+)=[!-~]+$/u.exec(one)?.[1]);
  need(!names.includes(undefined) && new Set(names).size === names.length, "the signed verdict's line has a field twice, or something that is no field");
  need(names.includes("tenants") === lower.length > 0, "the signed verdict's line names tenants whose claims its members do not have");
  checkSample(found, bound);
  need(hex(sha256(utf8((claim as string).slice(0, length)))) === digest, "the signed verdict describes another claim than it names");
  need(lower.every((name) => describes(claim as string, name)), "the signed verdict does not describe a claim of its tenants");
}

/** A name in a line: without blanks and without what separates it from the next field. */
function word(name: string): string {
  const code = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(name).replace(/[!'()*]/gu, code).replace(/%2F/gu, "/").replace(/%3A/gu, ":").replace(/%2B/gu, "+");
}

/** A line ends with the window and the log that it is about; a PASS is about both. */
export function checkAbout(found: Json, manifest: string | undefined): void {
  const { verdict, line, window } = found as { verdict: string; line: string; window: string | null };
  const log = found["log"] as { readonly origin: string; readonly checkpoint?: unknown };
  need((window === null) === (manifest === undefined), "the signed verdict names a window without its manifest");
  need(manifest === undefined || /^[0-9a-f]{64}$/u.test(manifest), "the manifest's digest in the signed verdict is not a SHA-256");
  const named = window === null || manifest === undefined ? "" : ` window=${word(window)}@${manifest.slice(0, 8)}`;
  need(line.endsWith(`${named} log=${word(log.origin)}`) && (named !== "" || !line.includes(" window=")),
    "the signed verdict's line does not end with what it is about");
  const passed = verdict === "PASS" || verdict === "SAMPLED-PASS";
  need(!passed || (manifest !== undefined && typeof log.checkpoint === "string"), `a ${verdict} is about a window's manifest and a log's checkpoint`);
}
