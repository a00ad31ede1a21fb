// SPDX-License-Identifier: GPL-3.0-or-later
/** What the fields of a message must say together: each kernel message's validate(). SPEC A, B, C. */
import { compare, hex, need, same, utf8 } from "./bytes.js";
import { LAST_MINUTE, WORD_OF_THE_PROVIDER } from "./claimed.js";
import type { AuditVerdict, Claimed, Manifest, Messages, Policy, Record as LedgerRecord, Rotation, Seat, Tag, TenantLinks, VerdictEntry } from "./generated/messages.js";
import { checkSealKey } from "./signature.js";

/** Seconds. */
const LONGEST_WINDOW = 366n * 86400n;

function gcd(a: bigint, b: bigint): bigint {
  return b === 0n ? a : gcd(b, a % b);
}

/** Numerator and denominator of canonical text "p" or "p/q" in lowest terms. */
export function rational(text: string, name: string): [bigint, bigint] {
  const found = /^(0|[1-9][0-9]*)(?:\/([1-9][0-9]*))?$/.exec(text);
  need(found !== null, `${name}: ${JSON.stringify(text)} is no rational number in lowest terms`);
  const top = BigInt(found[1] ?? "0");
  const bottom = BigInt(found[2] ?? "1");
  need(found[2] !== "1" && gcd(top, bottom) === 1n, `${name} is not in lowest terms`);
  return [top, bottom];
}

function root(value: number): number {
  let found = Math.floor(Math.sqrt(value));
  while (found * found > value) found--;
  while ((found + 1) * (found + 1) <= value) found++;
  return found;
}

/** The least product of two accepted embeddings of one query (SPEC C.2): theta may lie no higher. */
function leastRepeat(dimension: number): number {
  const square = 127 * 127;
  const low = Math.max(0, -Math.floor((root(16 * square * dimension) - 4 * square - dimension) / 4), square - 500);
  return Math.max(0, low - 2 * Math.ceil(dimension / 8));
}

/** What a claim's name means to the bytes: the kernel's `Form`. */
interface Form {
  /** Slots are hidden by coins. */
  readonly coin: boolean;
  /** Lists have neither noise nor decoys: no return is bounded. */
  readonly plain: boolean;
  /** Epsilon is of k_max accounts. */
  readonly counted: boolean;
}

const FORMS: { readonly [claim: string]: Form } = {
  "every-list": { coin: false, plain: false, counted: true },
  "until-delivered": { coin: true, plain: false, counted: false },
  answers: { coin: false, plain: false, counted: false },
  unseen: { coin: true, plain: true, counted: false },
  exact: { coin: false, plain: true, counted: false },
};

/** The form of a claim; none of a name that no claim has. */
export const formOf = (claim: string): Form | undefined => (Object.hasOwn(FORMS, claim) ? FORMS[claim] : undefined);

/** Claims of one circuit, weakest first. SPEC D.24. */
const LADDER: readonly string[] = ["exact", "unseen", "until-delivered"];

/** The claim that holds of a tenant: its own, if it has one below the policy's. */
export const claimOf = ({ policy, tenants }: Manifest, tenant: string): string =>
  tenants.find((one) => one.tenant === tenant)?.claim || policy.claim;

/** The tenants whose slots coins hide, in order. */
export const coinedOf = (m: Manifest): string[] =>
  m.tenants.map((one) => one.tenant).filter((tenant) => formOf(claimOf(m, tenant))?.coin === true);

/** Whether a claim bounds what anybody learns. */
export const isPrivate = (claim: string): boolean => {
  const form = formOf(claim);
  return form !== undefined && (form.coin || !form.plain);
};

/** What means nothing without decoys, or where nothing is private, has one value. */
function plainPolicy(p: Policy, form: Form): void {
  need(p.delta === (form.coin ? "0" : "none") && p.decoy_rate === 0, `the claim ${p.claim} has neither delta nor decoys`);
  if (form.coin) return;
  need(p.epsilon_account === "none" && p.k_max === 1 && !p.gate && p.chunks_max === 1 && p.guard === "off" && p.period_start === p.opens,
    `the claim ${p.claim} bounds nothing: what means nothing has one value`);
}

function policy(p: Policy): void {
  const form = formOf(p.claim);
  if (form === undefined) return need(false, "the policy's claim is unknown");
  if (form.plain) plainPolicy(p, form);
  else {
    const [deltaTop, deltaBottom] = rational(p.delta, "delta");
    need(deltaTop > 0n && deltaTop < deltaBottom, "delta must lie strictly between 0 and 1");
  }
  const coined = form.coin;
  const answers = p.claim === "answers";
  const gated = p.gate || !form.counted;
  need(coined ? p.hidden >= 1 && p.hidden <= 255 : p.hidden === 0 && gated, "claim, coin and gate do not fit");
  const said = [p.vocabulary.some((byte) => byte !== 0), ...[p.words_max, p.participations, p.similarity].map((n) => n > 0)];
  need(said.every((one) => one === answers), "claim and vocabulary do not fit");
  need(!answers || p.lo === 0, "counts begin at 0");
  const by = p.answered_by;
  need(answers ? by >= 1 && by <= 300 : by === 0, "answered_by must lie in 1..300 where the claim is answers, else be 0");
  need(!answers || p.version_every === 0 || by <= p.version_every - 60, "answered_by is above version_every - 60");
  need(p.opens + BigInt(by) <= p.closes, "answered_by is longer than the window");
  const advertised = form.plain && !coined ? 1n : rational(p.epsilon_account, "epsilon_account")[0];
  need(advertised > 0n, "epsilon_account must be positive");
  const [thetaTop, thetaBottom] = rational(p.theta, "theta");
  need(thetaTop > 0n && thetaTop <= thetaBottom, "theta must lie in (0, 1]");
  need(p.lo >= 0 && p.lo < p.hi, "the score window needs 0 <= lo < hi");
  need([p.gain, p.n_max, p.k_max, p.tau, p.chunks_max].every((value) => value >= 1), "a number of the policy is 0");
  need(p.tau_time % 60 === 0 && BigInt(p.tau_time) <= LONGEST_WINDOW, "tau_time must be whole minutes of 366 days");
  need(p.dimension >= 1 && p.dimension <= 4096, "dimension must lie in 1..4096");
  need(p.shards >= 1 && p.shards <= 64, "shards must lie in 1..64");
  const threshold = (thetaTop * 16129n + thetaBottom - 1n) / thetaBottom;
  need(threshold <= BigInt(leastRepeat(p.dimension)), "theta does not link every repeat of a query");
  need(p.unit === "slot", 'the only privacy unit is "slot"');
  const every = p.version_every;
  need(every === 0 || (every % 60 === 0 && every <= 86400), "version_every must be 0 or whole minutes of a day");
  const rho = rational(p.guard_rho, "guard_rho");
  const formulas = ["precise", "paper"];
  if (p.guard === "off") need(p.guard_rho === "0" && p.guard_formula === "none", "a policy without a guard has neither rho nor formula");
  else {
    need(p.guard === "returned", "the policy's guard is unknown");
    need(rho[0] > 0n && rho[0] < rho[1] && formulas.includes(p.guard_formula), "the guard's rho or formula is none");
  }
  need(p.period_start <= p.opens && p.opens < p.closes, "needs period_start <= opens < closes");
  need(p.closes - p.opens <= LONGEST_WINDOW, "a window is longer than 366 days");
}

/** Tenants are distinct and sorted, at least one. */
function increasing(lines: readonly { readonly tenant: string }[]): void {
  need(lines.length > 0, "no tenant");
  for (let i = 1; i < lines.length; i++) {
    need((lines[i - 1] as { tenant: string }).tenant < (lines[i] as { tenant: string }).tenant, "tenants are not sorted");
  }
}

function manifest(m: Manifest): void {
  increasing(m.tenants);
  need(m.tenants.every((one) => one.dimension === m.policy.dimension), "an index has another dimension than the policy");
  const lower = LADDER.slice(0, Math.max(0, LADDER.indexOf(m.policy.claim)));
  need(m.tenants.every((one) => one.claim === "" || lower.includes(one.claim)), "a tenant's claim is none below the policy's");
  need(m.tenants.some((one) => one.claim === ""), "no tenant has the policy's claim, which is the highest of them");
  need((m.coins.length === 1) === (formOf(m.policy.claim)?.coin === true), "the claim and its coins do not fit");
  const keys = m.auditors.map((seat) => hex(seat.public_key));
  need(keys.length > 0 && new Set(keys).size === keys.length, "auditors have a key of their own each, one at least");
  need(new Set(m.auditors.map((seat) => seat.owner)).size === keys.length, "auditors have a name of their own each");
  need(!keys.includes(hex(m.provider_key)) && !keys.includes(hex(m.window_key)), "the provider is not its own auditor");
  need(!same(m.window_key, m.provider_key), "a window has a key of its own");
}

function seat(s: Seat): void {
  need(/^auditor(-.+)?$/su.test(s.owner), "an auditor is called auditor, or auditor-<name>");
}

function verdict(v: AuditVerdict | VerdictEntry): void {
  const passed = v.outcome === "PASS" || v.outcome === "SAMPLED-PASS";
  need(passed || v.outcome === "FAIL" || v.outcome === "NO-VERDICT", "a verdict is one of four outcomes");
  need(v.claimed.length > 0 === passed, "a PASS says what it claims, and no other outcome claims anything");
  need(v.claimed.length < 2 || claimsFit(v.claimed), "the claims of a verdict do not fit each other");
  need(v.claimed.length !== 1 || v.claimed[0]?.tenants.length === 0, "the one claim of a verdict is about every tenant");
}

/** Of several claims the weakest comes first, each once; each names its tenants, and a tenant has one. */
export function claimsFit(claims: readonly { readonly claim: string; readonly tenants: readonly string[] }[]): boolean {
  const named = claims.flatMap((one) => one.tenants);
  const places = claims.map((one) => LADDER.indexOf(one.claim));
  return (
    places.every((place, at) => place > (places[at - 1] ?? -1)) &&
    claims.every((one) => one.tenants.length > 0) &&
    new Set(named).size === named.length
  );
}

/** Names in order, each once. */
export const inOrder = (names: readonly string[]): boolean => names.every((name, at) => at === 0 || (names[at - 1] as string) < name);

const BOUND = /^(inf|(0|[1-9][0-9]{0,14})(\.[0-9]{1,12})?(e[+-][0-9]{2,3})?)$/u;

/** What a PASS claims, with every number that the claim needs. SPEC D.12.5. */
function claimed(c: Claimed): void {
  const form = formOf(c.claim);
  if (form === undefined) return need(false, "the verdict's claim is not known");
  need(inOrder(c.tenants), "the tenants of a claim are named in order, each once");
  const ordered = Object.keys(WORD_OF_THE_PROVIDER).filter((one) => c.word.includes(one));
  need(ordered.length === c.word.length && ordered.every((one, at) => one === c.word[at]), "the provider's word is not named in order");
  if (form.plain && !form.coin) {
    const numbers = [c.epsilon, c.delta, c.coalition, c.queries].every((one) => one === "none");
    const beside = c.returned === "" && c.epsilon_log === "" && c.period_from === 0n && c.left_out === 0n;
    return need(numbers && beside && c.word.every((one) => one === "embeddings"), `the claim ${c.claim} has no number, and says none`);
  }
  need(BOUND.test(c.epsilon) && BOUND.test(c.delta), "epsilon and delta of a verdict are numbers, or inf");
  need(form.coin ? BOUND.test(c.returned) : c.returned === "", "claim and return do not fit");
  need(!form.plain || (c.returned === "inf" && c.delta === "0"), `the claim ${c.claim} bounds no return, and nothing of it takes a delta`);
  for (const one of [c.coalition, c.queries]) {
    need(form.counted ? /^[1-9][0-9]{0,19}$/u.test(one) : one === "any", "claim, coalition and queries do not fit");
  }
  need(c.period_from % 60n === 0n && c.period_from <= LAST_MINUTE, "a budget period begins with a whole minute");
  need((c.left_out > 0n) === (c.epsilon_log !== ""), "windows left out and epsilon of the whole log are named together");
  need(["", "unknown"].includes(c.epsilon_log) || BOUND.test(c.epsilon_log), "epsilon of the whole log is a number, or inf");
}

function rotation(t: Rotation): void {
  need(t.number >= 1 && t.number <= 64, "a log's turns are numbered 1 to 64");
  need(!same(t.old_key, t.new_key), "a turn's new key is another one than its old key");
  need(t.until > t.index && t.until <= t.index + 1n + (1n << 20n), "the overlap is behind the turn, at most 2^20 sizes");
}

function record(r: LedgerRecord): void {
  need(r.time % 60n === 0n, "a record's time is a multiple of 60 s");
  need(r.proof_mode <= 1, "unknown proof mode");
  need(same(r.signed.request.manifest, r.manifest), "the record's request belongs to another window");
}

function tenantLinks(t: TenantLinks): void {
  need(t.packed.length % 8 === 0, "links are pairs of u32");
  const view = new DataView(t.packed.buffer, t.packed.byteOffset, t.packed.length);
  let before = -1n;
  for (let at = 0; at < t.packed.length; at += 8) {
    const [a, b] = [view.getUint32(at), view.getUint32(at + 4)];
    const both = (BigInt(a) << 32n) | BigInt(b);
    need(a < b && b < t.records && both > before, "links are increasing pairs of records");
    before = both;
  }
  need(t.complete || t.packed.length / 8 < Math.max(1, t.records), "a spanning list has fewer links than records");
}

/** Raises a Refusal where a message contradicts itself. */
export function checkRules(message: Messages[Tag]): void {
  switch (message.tag) {
    case "policy":
      return policy(message);
    case "manifest":
      return manifest(message);
    case "audit-verdict":
    case "verdict-entry":
      return verdict(message);
    case "claimed":
      return claimed(message);
    case "log-rotation":
      return rotation(message);
    case "auditor-seat":
      return seat(message);
    case "record":
      return record(message);
    case "proof-entry":
      return need(message.proof.length > 0 && message.proof.length % 256 === 0, "proofs have 256 bytes each");
    case "request":
    case "answer-ask":
      return checkSealKey(message.seal_key);
    case "thinning":
      return increasing(message.tenants);
    case "index-update":
      increasing(message.tenants);
      return need(message.number >= 1, "updates of a window's indices are counted from 1");
    case "enrolment":
      return need(message.until === 0 || message.until > message.since, "an account leaves after it came");
    case "metadata":
      for (let i = 1; i < message.pairs.length; i++) {
        const [one, other] = [message.pairs[i - 1]?.key ?? "", message.pairs[i]?.key ?? ""];
        need(compare(utf8(one), utf8(other)) < 0, "metadata is sorted by key, and each key stands once");
      }
      return;
    case "embedder":
      need(message.quantisation === "int8/127/half-even", "the quantisation is not known");
      return need(message.dimension >= 1 && message.dimension <= 65535 && message.max_tokens >= 1, "no dimension or no tokens");
    case "declared-embedder":
      need(message.normalisation === "unit", "the normalisation is not known");
      need(message.quantisation === "int8/127/half-even", "the quantisation is not known");
      return need(message.dimension >= 1 && message.dimension <= 65535, "no dimension");
    case "tenant-links":
      return tenantLinks(message);
    default:
      return;
  }
}
