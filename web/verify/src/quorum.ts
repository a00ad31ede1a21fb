// SPDX-License-Identifier: GPL-3.0-or-later
/** Which witnesses a reader asks for: C2SP's tlog-policy, and whether a note meets it. */
import { need, refuse } from "./bytes.js";
import { COSIGNATURE, type Note, type NoteKey, parseKey, signedBy } from "./note.js";

type Rule = { readonly witness: NoteKey } | { readonly least: number; readonly members: readonly string[] };

export interface Policy {
  readonly logs: readonly NoteKey[];
  readonly rules: ReadonlyMap<string, Rule>;
  /** The group or witness that must have cosigned; "none": nobody has to. */
  readonly quorum: string;
}

/** Lines `log`, `witness`, `group` and one `quorum`; what is named must be defined above. */
export function parsePolicy(text: string): Policy {
  const logs: NoteKey[] = [];
  const rules = new Map<string, Rule>();
  let quorum: string | undefined;
  for (const [number, line] of text.split("\n").entries()) {
    const [word, ...rest] = line.split("#")[0]?.trim().split(/\s+/) ?? [];
    const where = `policy line ${number + 1}`;
    const name = rest[0] ?? "";
    const fresh = (): void => need(name !== "" && name !== "none" && !rules.has(name), `${where}: no new name`);
    if (word === "" || word === undefined) continue;
    if (word === "log") logs.push(parseKey(name));
    else if (word === "witness") {
      fresh();
      const witness = parseKey(rest[1] ?? "");
      need(witness.kind === COSIGNATURE, `${where}: a witness key has type 4`);
      rules.set(name, { witness });
    } else if (word === "group") {
      fresh();
      const members = rest.slice(2);
      need(members.length > 0 && members.every((one) => rules.has(one)), `${where}: unknown members`);
      need(new Set(members).size === members.length, `${where}: a member stands twice`);
      const least = rest[1] === "any" ? 1 : rest[1] === "all" ? members.length : Number(rest[1]);
      need(Number.isInteger(least) && least >= 1 && least <= members.length, `${where}: no such threshold`);
      rules.set(name, { least, members });
    } else if (word === "quorum") {
      need(quorum === undefined && (name === "none" || rules.has(name)), `${where}: no such quorum`);
      quorum = name;
    } else refuse(`${where}: ${word} is not known here`);
  }
  if (quorum === undefined) return refuse("the policy has no quorum line");
  return { logs, rules, quorum };
}

/** Names of the witnesses whose cosignatures hold, and whether they make a quorum. A false line refuses the note. */
export function meets(note: Note, policy: Policy): { readonly signed: readonly string[]; readonly quorum: boolean } {
  const signed = new Set<string>();
  for (const [name, rule] of policy.rules) {
    const holds = "witness" in rule ? signedBy(note, rule.witness).length > 0 : false;
    const count = "members" in rule ? rule.members.filter((one) => signed.has(one)).length : 0;
    if (holds || ("least" in rule && count >= rule.least)) signed.add(name);
  }
  const witnesses = [...signed].filter((name) => "witness" in (policy.rules.get(name) as Rule));
  return { signed: witnesses, quorum: policy.quorum === "none" || signed.has(policy.quorum) };
}
