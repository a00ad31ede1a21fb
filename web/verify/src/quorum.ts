// SPDX-License-Identifier: GPL-3.0-or-later
/** Which witnesses a reader asks for: C2SP's tlog-policy, and whether a note meets it. As ledger/policy.py. SPEC G.6.9. */
import { Refusal, hex, need, refuse } from "./bytes.js";
import { COSIGNATURE, ED25519, type Note, type NoteKey, parseKey, signedBy } from "./note.js";

const MAX_BYTES = 256 * 1024;
const MAX_OF_A_KIND = 64;
const NONE = "none";

type Rule = { readonly witness: NoteKey } | { readonly least: number; readonly members: readonly string[] };

export interface Policy {
  /** Empty: it is for any log. */
  readonly logs: readonly NoteKey[];
  /** Members stand before their groups. Names are octets, one character each. */
  readonly rules: ReadonlyMap<string, Rule>;
  /** The group or witness that must have cosigned; "none": nobody has to. */
  readonly quorum: string;
}

const text = (octets: string): Uint8Array => Uint8Array.from(octets, (char) => char.charCodeAt(0));

/** A name for people. */
const shown = (name: string): string => JSON.stringify(new TextDecoder().decode(text(name)).slice(0, 80));

function vkey(word: string, kind: number, otherwise: string): NoteKey {
  let key: NoteKey;
  try {
    key = parseKey(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(text(word)));
  } catch (error) {
    return refuse(error instanceof Refusal ? error.message : "the key's name is not UTF-8");
  }
  need(key.kind === kind, otherwise);
  return key;
}

/** A policy line by line. A line names only what stands above it, and nothing is a member twice. */
class Reader {
  readonly logs: NoteKey[] = [];
  readonly rules = new Map<string, Rule>();
  quorum: string | undefined;
  private readonly keys = new Set<string>();
  private readonly members = new Set<string>();
  private readonly counts = new Map<string, number>();

  line(line: string): void {
    need(/^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(line), "control characters: lines end in a newline alone, and hold tabs only");
    const [kind, ...words] = line.split(/[\t ]/).filter((word) => word !== "");
    if (kind === undefined || kind.startsWith("#")) return;
    if (kind === "log") this.log(words);
    else if (kind === "witness") this.witness(words);
    else if (kind === "group") this.group(words);
    else if (kind === "quorum") this.only(words);
    else refuse(`${shown(kind)} is none of log, witness, group and quorum; comments begin with #`);
  }

  private log([key = "", ...rest]: readonly string[]): void {
    need(key !== "" && rest.length <= 1, "expected `log VKEY [URL]`");
    this.logs.push(this.fresh(vkey(key, ED25519, "a log's key has type 1"), "log"));
  }

  private witness([name = "", key = "", ...rest]: readonly string[]): void {
    need(key !== "" && rest.length <= 1, "expected `witness NAME VKEY [URL]`");
    const witness = this.fresh(vkey(key, COSIGNATURE, "a witness's key has type 4"), "witness");
    this.rules.set(this.named(name), { witness });
  }

  private group([name = "", threshold = "", ...members]: readonly string[]): void {
    need(members.length > 0, "expected `group NAME all|any|K MEMBER...`, with at least one member");
    for (const [at, member] of members.entries()) {
      this.defined(member);
      need(!this.members.has(member) && !members.slice(0, at).includes(member), `${shown(member)} is a member of a group already: each name counts once`);
    }
    need(/^(any|all|[0-9]{1,4})$/.test(threshold), `${shown(threshold)} is none of all, any and a number`);
    const least = threshold === "any" ? 1 : threshold === "all" ? members.length : Number(threshold);
    need(least >= 1 && least <= members.length, `${least} of ${members.length} members: the number is from 1 to ${members.length}`);
    this.bounded("group");
    this.rules.set(this.named(name), { least, members });
    for (const member of members) this.members.add(member);
  }

  private only([name = "", ...rest]: readonly string[]): void {
    need(name !== "" && rest.length === 0, "expected `quorum NAME`: a witness, a group, or none");
    need(this.quorum === undefined, "there is a quorum above already: a policy has one");
    if (name !== NONE) this.defined(name);
    this.quorum = name;
  }

  /** One key counts once. */
  private fresh(key: NoteKey, kind: string): NoteKey {
    const whose = `${kind} ${hex(key.key)}`;
    need(!this.keys.has(whose), `this ${kind}'s key stands above already`);
    this.keys.add(whose);
    this.bounded(kind);
    return key;
  }

  private bounded(kind: string): void {
    const count = (this.counts.get(kind) ?? 0) + 1;
    need(count <= MAX_OF_A_KIND, `more than ${MAX_OF_A_KIND} lines that begin with ${kind}`);
    this.counts.set(kind, count);
  }

  private named(name: string): string {
    need(name !== NONE, "`none` has a meaning of its own: take another name");
    need(!this.rules.has(name), `${shown(name)} is defined above already: take another name`);
    return name;
  }

  private defined(name: string): void {
    need(this.rules.has(name), `${shown(name)} is not defined above this line: witnesses and groups come first`);
  }
}

/** The octets of a policy file: lines `log`, `witness` and `group`, and one `quorum`. */
export function parsePolicy(data: Uint8Array): Policy {
  need(data.length <= MAX_BYTES, `policy: more than ${MAX_BYTES} bytes`);
  let octets = "";
  for (const byte of data) octets += String.fromCharCode(byte);
  const reader = new Reader();
  for (const [at, line] of octets.split("\n").entries()) {
    try {
      reader.line(line);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refuse(`policy line ${at + 1}: ${error.message}`);
    }
  }
  const { logs, rules, quorum } = reader;
  if (quorum === undefined) return refuse("the policy has no quorum: end with `quorum NAME`, or `quorum none`");
  return { logs, rules, quorum };
}

/** Whether a policy may be used for a log. */
export function isFor(policy: Policy, log: NoteKey): boolean {
  return policy.logs.length === 0 || policy.logs.some((one) => hex(one.key) === hex(log.key) && one.name === log.name);
}

/** Names of the witnesses whose cosignatures hold, and whether they make a quorum. A false line refuses the note. */
export function meets(note: Note, policy: Policy): { readonly signed: readonly string[]; readonly quorum: boolean } {
  const signed = new Set<string>();
  for (const [name, rule] of policy.rules) {
    const holds = "witness" in rule ? signedBy(note, rule.witness).length > 0 : rule.members.filter((one) => signed.has(one)).length >= rule.least;
    if (holds) signed.add(name);
  }
  const witnesses = [...signed].filter((name) => "witness" in (policy.rules.get(name) as Rule));
  return { signed: witnesses.map((name) => new TextDecoder().decode(text(name))), quorum: policy.quorum === NONE || signed.has(policy.quorum) };
}

export const asksNobody = (policy: Policy): boolean => policy.quorum === NONE;
