// SPDX-License-Identifier: GPL-3.0-or-later
/** What a PASS claims, as its line and the signed statement have it. SPEC D.12.5, D.18. */
import { need } from "./bytes.js";

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

type Json = { readonly [name: string]: unknown };

/** A bound of the statement, and the same in the line, rounded up to six digits. */
function same(value: unknown, text: string): boolean {
  const exact = value === "inf" ? Infinity : typeof value === "number" ? value : NaN;
  const shown = text === "inf" ? Infinity : Number(text);
  return exact === shown || (exact >= 0 && shown >= exact * (1 - 1e-12) && shown <= exact * (1 + 1e-5));
}

/** A PASS names claim, coalition, queries, delta and period in its members and, the same, at the beginning of its line. */
export function checkClaimed(found: Json): void {
  const { verdict, claimName, coalition, queries, periodFrom, leftOut, epsilonOfTheLog, providersWord } = found;
  const word = providersWord as unknown[];
  const numbers = ["epsilon", "delta", "unseen", "return"].map((name) => found[name]);
  if (verdict !== "PASS" && verdict !== "SAMPLED-PASS") {
    const some = [...numbers, claimName, coalition, queries, periodFrom, leftOut, epsilonOfTheLog].some((one) => one !== null);
    need(!some && word.length === 0, `a ${String(verdict)} claims nothing, and this one has numbers of a claim`);
    return;
  }
  const counted = claimName === "every-list";
  const delivered = claimName === "until-delivered";
  need(counted || delivered || claimName === "answers", "the verdict's claim is not known");
  for (const one of [coalition, queries]) {
    need(counted ? typeof one === "number" && Number.isInteger(one) && one > 0 : one === "any", "claim, coalition and queries do not fit");
  }
  need(typeof periodFrom === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\dZ$/u.test(periodFrom), "the budget period has no beginning");
  need(typeof leftOut === "number" && leftOut >= 0 && (leftOut > 0) === (epsilonOfTheLog !== null),
    "windows left out and epsilon of the whole log are named together");
  const ordered = Object.keys(WORD_OF_THE_PROVIDER).filter((one) => word.includes(one));
  need(ordered.length === word.length && ordered.every((one, at) => one === word[at]), "the provider's word is not named in order");
  const [epsilon, delta, unseen, back] = numbers;
  need(delivered ? unseen === epsilon && back !== null : unseen === null && back === null, "claim, unseen and return do not fit");
  const expected: (readonly [string, unknown])[] = [
    ["epsilon_audit", epsilon], ["claim", claimName], ["coalition", coalition], ["queries", queries],
    ...(delivered ? ([["unseen", unseen], ["return", back]] as const) : []),
    ["delta", delta], ["period_from", periodFrom], ["left_out", leftOut],
    ...(leftOut > 0 ? ([["epsilon_log", epsilonOfTheLog]] as const) : []),
    ...ordered.map((one) => (WORD_OF_THE_PROVIDER[one] ?? "").split("=") as [string, string]),
  ];
  const bounds = ["epsilon_audit", "unseen", "return", "delta", "epsilon_log"];
  const fields = (found["line"] as string).split(" ").slice(1);
  for (const [at, [name, value]] of expected.entries()) {
    const field = fields[at] ?? "";
    const text = field.slice(name.length + 1);
    const fits = text === String(value) || (bounds.includes(name) && same(value, text));
    need(field.startsWith(`${name}=`) && fits, `the signed verdict's line has not the ${name} that its members have`);
  }
}
