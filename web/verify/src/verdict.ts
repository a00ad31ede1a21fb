// SPDX-License-Identifier: GPL-3.0-or-later
/** Signed verdicts: a DSSE envelope, and the in-toto statement in it. What verifier/signed/ refuses is refused. SPEC D.18. */
import { Refusal, fromBase64, fromHex, hex, join, need, refuse, utf8 } from "./bytes.js";
import { TENANTS, checkAbout, checkClaimed } from "./claimed.js";
import { decode } from "./decoder.js";
import { parseJson } from "./json.js";
import { type Checkpoint, type NoteKey, openCheckpoint, parseKey } from "./note.js";
import { signatureHolds } from "./signature.js";
import { turned } from "./turns.js";

const MAX_BYTES = 1 << 24;
const MAX_SIGNATURES = 64;
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE = "https://ragseal.example/verdict/v2";
const WORDS = ["PASS", "SAMPLED-PASS", "FAIL", "NO VERDICT"];
const MANIFEST = "manifest of window ";
const REPORTS = ["report.json", "report.html"]; // of one verdict; each is signed by its digest

type Json = { readonly [name: string]: unknown };
type Kind = "text" | "number" | "whole" | "list" | "object" | "null";

/** Members of the predicate and the kinds that each may have. */
const MEMBERS: { readonly [name: string]: readonly Kind[] } = {
  verdict: ["text"],
  line: ["text"],
  claim: ["text"],
  doesNotSay: ["list"],
  epsilon: ["number", "text", "null"],
  delta: ["number", "text", "null"],
  claimName: ["text", "null"],
  coalition: ["whole", "text", "null"],
  queries: ["whole", "text", "null"],
  periodFrom: ["text", "null"],
  leftOut: ["whole", "null"],
  epsilonOfTheLog: ["number", "text", "null"],
  providersWord: ["list"],
  unseen: ["number", "text", "null"],
  return: ["number", "text", "null"],
  mode: ["text"],
  keys: ["text"],
  beaconOf: ["text", "null"],
  records: ["whole"],
  proven: ["whole"],
  beta: ["number", "null"],
  confidence: ["text", "null"],
  window: ["text", "null"],
  log: ["object"],
  circuit: ["object", "null"],
  steps: ["list"],
  ending: ["object", "null"],
  otherWindows: ["list"],
  issued: ["text"],
  program: ["object"],
  reports: ["object"],
  verdictLog: ["object", "null"],
};

function kinds(value: unknown): readonly Kind[] {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["list"];
  if (typeof value === "string") return ["text"];
  if (typeof value === "bigint") return ["number", "whole"];
  if (typeof value === "number") return ["number"];
  return typeof value === "object" ? ["object"] : [];
}

const isObject = (value: unknown): value is Json => kinds(value)[0] === "object";

function parsed(data: Uint8Array, what: string): Json {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return refuse(`the ${what} is not UTF-8`);
  }
  const found = parseJson(text);
  return isObject(found) ? found : refuse(`the ${what} is not a JSON object`);
}

/** Base64 of either alphabet, as DSSE asks readers to take it. */
function fromEither(text: unknown, what: string): Uint8Array {
  need(typeof text === "string", `the envelope's ${what} is not text`);
  const standard = text.replaceAll("-", "+").replaceAll("_", "/");
  need(standard.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(standard), `the envelope's ${what} is not base64`);
  return Uint8Array.from(atob(standard), (char) => char.charCodeAt(0));
}

/** The key that a signature names, if it names one: a hint, and no more. */
function named(one: Json): Uint8Array | undefined {
  const id = one["keyid"];
  return typeof id === "string" && /^[0-9a-f]{64}$/.test(id) ? fromHex(id) : undefined;
}

function holds(key: Uint8Array, signed: Uint8Array, signature: Uint8Array): boolean {
  try {
    return signatureHolds(key, signed, signature);
  } catch (error) {
    if (error instanceof Refusal) return false; // a key of small order, which somebody named
    throw error;
  }
}

/** The payload, and who has signed it: the wanted key, or else one that stands beside its signature. At most 64 are tried. */
function opened(data: Uint8Array, wanted: Uint8Array | undefined): { readonly payload: Uint8Array; readonly signer: Uint8Array } {
  need(data.length <= MAX_BYTES, `the envelope has more than ${MAX_BYTES} bytes`);
  const { payloadType, payload: text, signatures } = parsed(data, "envelope");
  need(payloadType === PAYLOAD_TYPE, "not a signed in-toto statement");
  const payload = fromEither(text, "payload");
  const some = Array.isArray(signatures) && signatures.length >= 1 && signatures.length <= MAX_SIGNATURES;
  if (!some) return refuse(`an envelope has 1 to ${MAX_SIGNATURES} signatures`);
  const signed = join(utf8(`DSSEv1 ${utf8(PAYLOAD_TYPE).length} ${PAYLOAD_TYPE} ${payload.length} `), payload);
  for (const one of signatures as unknown[]) {
    need(isObject(one) && "sig" in one, "a signature of the envelope has no sig");
    const signature = fromEither(one["sig"], "sig");
    const signer = wanted ?? named(one);
    if (signer !== undefined && holds(signer, signed, signature)) return { payload, signer };
  }
  return refuse(wanted ? `no signature is by the auditor's key ${hex(wanted)}` : "no signature is by a key that it names");
}

function exactly(found: Json, names: readonly string[]): boolean {
  return Object.keys(found).length === names.length && names.every((name) => Object.hasOwn(found, name));
}

function isStep(one: unknown): boolean {
  if (!isObject(one) || !exactly(one, ["number", "title", "status", "message"])) return false;
  return typeof one["number"] === "bigint" && [one["title"], one["status"], one["message"]].every((text) => typeof text === "string");
}

function readPredicate(found: unknown): Json {
  const several = isObject(found) && Object.hasOwn(found, TENANTS) ? [TENANTS] : [];
  need(isObject(found) && exactly(found, [...Object.keys(MEMBERS), ...several]), "the signed verdict has other members than this version's");
  for (const [name, allowed] of Object.entries(MEMBERS)) {
    need(kinds(found[name]).some((kind) => allowed.includes(kind)), `the signed verdict's ${name} is of another type`);
  }
  const entered = found["verdictLog"];
  need(entered === null || (isObject(entered) && exactly(entered, ["key", "turns"]) && typeof entered["key"] === "string"),
    "the signed verdict's verdictLog is not a key with its turns");
  const reports = found["reports"] as Json;
  const digest = (one: unknown): boolean => isObject(one) && exactly(one, ["sha256"]) && typeof one["sha256"] === "string";
  need(exactly(reports, REPORTS) && Object.values(reports).every(digest),
    "the signed verdict does not name the SHA-256 of report.json and report.html");
  const { verdict, line } = found as { verdict: string; line: string };
  need(WORDS.includes(verdict) && line.startsWith(`${verdict} `), "the signed verdict and its line contradict each other");
  const steps = found["steps"] as readonly Json[];
  need(steps.every(isStep), "a step of the signed verdict is not number, title, status and message");
  const undone = steps.some(({ status }) => status === "failed" || status === "no verdict");
  need(!undone || !["PASS", "SAMPLED-PASS"].includes(verdict), `a ${verdict} has no step that failed or could not be decided`);
  checkClaimed(found);
  return found;
}

function readSubjects(found: unknown): ReadonlyMap<string, string> {
  const subjects = new Map<string, string>();
  for (const one of Array.isArray(found) ? (found as unknown[]) : []) {
    const [name, digest] = isObject(one) ? [one["name"], one["digest"]] : [];
    const sha256 = isObject(digest) && Object.hasOwn(digest, "sha256") ? digest["sha256"] : undefined;
    need(typeof name === "string" && typeof sha256 === "string", "a subject of the signed statement has no name or no SHA-256");
    subjects.set(name, sha256);
  }
  need(subjects.size > 0, "the signed statement has no subject");
  return subjects;
}

/** The log that it names has signed the checkpoint in it, whose root is a subject under its own name. */
function readLog(log: Json, subjects: ReadonlyMap<string, string>): Checkpoint | undefined {
  const { origin, key, checkpoint: note } = log;
  need(typeof origin === "string" && typeof key === "string", "the signed verdict does not name its log");
  const verifier = parseKey(key);
  need(verifier.name === origin, "the signed verdict's log and its key have different names");
  if (note === null || note === undefined) return undefined;
  need(typeof note === "string", "the signed verdict's checkpoint is not text");
  const turns = log["turns"];
  need(Array.isArray(turns) && turns.length <= 64, "the signed verdict's log has no list of turns of its key");
  const newest = (turns as unknown[]).reduce<NoteKey>((found, one) => {
    need(typeof one === "string", "a turn of the log's key is no text");
    return turned(found, decode("log-rotation", fromBase64(one, "turn of the log's key")));
  }, verifier);
  const { checkpoint } = openCheckpoint(utf8(note), newest);
  const subject = subjects.get(`log ${checkpoint.origin} at ${checkpoint.size} entries`);
  need(subject === hex(checkpoint.root), "the checkpoint's root is not a subject of the statement");
  return checkpoint;
}

export interface Verdict {
  /** The key that signed it, in hexadecimal. */
  readonly signer: string;
  readonly line: string;
  /** The key of the log that it is about, as text. */
  readonly log: string;
  /** Of that log, as it was audited; none where none was found. */
  readonly checkpoint: Checkpoint | undefined;
}

/** A verdict whose signature holds, by the auditor's key or, without one, by a key that it names itself. */
export function readVerdict(data: Uint8Array, auditor?: Uint8Array): Verdict {
  const { payload, signer } = opened(data, auditor);
  const statement = parsed(payload, "signed payload");
  need(exactly(statement, ["_type", "subject", "predicateType", "predicate"]), "the signed payload is no in-toto statement");
  const known = statement["_type"] === STATEMENT_TYPE && statement["predicateType"] === PREDICATE_TYPE;
  need(known, "the signed statement is not a verdict of this version");
  const predicate = readPredicate(statement["predicate"]);
  const subjects = readSubjects(statement["subject"]);
  const log = predicate["log"] as Json;
  const checkpoint = readLog(log, subjects);
  const about = [...subjects.keys()].filter((name) => name.startsWith(MANIFEST)).map((name) => name.slice(MANIFEST.length));
  need(about.every((name) => name === predicate["window"]), "the signed verdict is about the manifest of another window than it names");
  checkAbout(predicate, about.length ? subjects.get(`${MANIFEST}${about[0] ?? ""}`) : undefined);
  return { signer: hex(signer), line: predicate["line"] as string, log: log["key"] as string, checkpoint };
}
