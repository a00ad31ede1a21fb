// SPDX-License-Identifier: GPL-3.0-or-later
/** A whole window from static files: what was checked and what was not, line by line. SPEC G.15. */
import { type Asked, askedOf, undrawn } from "./asked.js";
import { Refusal, Unknown, hex, need, same, utf8 } from "./bytes.js";
import { type Beacon, checkBeacon } from "./beacon.js";
import { type CoinBasis, ThinningKey, checkThinningEntry, readEmptied, readThinned } from "./coins.js";
import { type G1Point, generators } from "./curve.js";
import { decode } from "./decoder.js";
import { type AttestationClass, CLASSES } from "./generated/classes.js";
import type { Manifest } from "./generated/messages.js";
import { type Versions, checkUpdates, columnsOf, readColumns } from "./indices.js";
import { type Files, Log, Missing, type Tree, checkTiles, file, readNote, readTree, turnedBy } from "./log.js";
import { leafHash, merkleRoot } from "./merkle.js";
import { COSIGNATURE, type Checkpoint, type Note, type NoteKey, keyDigest, openCheckpoint, parseKey, parseNote, signedBy } from "./note.js";
import { Equations } from "./opening.js";
import { AttestationKey, BATCH, type Basis, batchPath, checkBatch, keyPath } from "./proofs.js";
import { type Policy, asksNobody, isFor, meets, parsePolicy } from "./quorum.js";
import { printable } from "./printable.js";
import { type Placed, checkRecords } from "./records.js";
import { claimOf, coinedOf, isPrivate } from "./rules.js";
import { hasUnknownLine } from "./turns.js";
import { VerifyingKey } from "./verifying_key.js";
import { type Entered, type Span, checkLife, checkManifest, classOf, findWindow, thrownBy } from "./window.js";
import { NOT_CHECKED } from "./words.js";

export type State = "good" | "bad" | "open";

/** One thing that was checked and holds, was checked and does not, or was not checked. */
export interface Line {
  readonly step: string;
  readonly state: State;
  readonly text: string;
  /** Of what does not hold: who could have made it so. */
  readonly whose?: Refusal["whose"];
  /** Notes of one log that contradict each other: the evidence, to be kept. */
  readonly notes?: readonly string[];
}

export interface Report {
  /** bad: something does not hold; open: what the proofs rest on is not all here; good: all of it holds. */
  readonly state: State;
  readonly window: string | undefined;
  readonly records: number;
  readonly proven: number;
  readonly lines: readonly Line[];
}

export interface Options {
  /** Of the log, as the provider published it: `name+id+base64`. */
  readonly logKey: string;
  /** By name; the newest that was opened if there is none. */
  readonly window?: string | undefined;
  /** A C2SP tlog-policy, as text or as the octets of its file: then its quorum must have cosigned. */
  readonly policy?: string | Uint8Array | undefined;
  /** Keys of witnesses that must have cosigned, where no policy is given. */
  readonly witnesses?: readonly string[] | undefined;
  /** A signed checkpoint of this log that the reader has from elsewhere: the files must be of a log that continues it. */
  readonly kept?: string | undefined;
  readonly classes?: { readonly [name: string]: AttestationClass } | undefined;
  /** Bytes of the log's entries that are read at most. */
  readonly most?: number | undefined;
  readonly random?: ((count: number) => Uint8Array) | undefined;
  /** Told every line as it is found. */
  readonly tell?: ((line: Line) => void) | undefined;
  /** Told how far the proofs are. */
  readonly progress?: ((done: number, of: number) => void) | undefined;
}

class Stop extends Error {}

/** Tenants whose claim is lower than the policy's. */
const lowerClaims = (m: Manifest): string =>
  m.tenants
    .filter((one) => one.claim !== "")
    .map((one) => `; of tenant ${one.tenant} it claims ${one.claim} only${isPrivate(one.claim) ? "" : ", so nothing of it is private"}`)
    .join("");

/** Two notes under one key that no log can have both of. */
class Fork extends Refusal {
  constructor(readonly notes: readonly string[]) {
    super("the log has signed another history than the one whose checkpoint was kept: keep both notes", "log");
  }
}

const randomBytes = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count));

class Run {
  readonly lines: Line[] = [];
  private readonly random: (count: number) => Uint8Array;
  private key: NoteKey;
  private readonly policy: Policy | undefined;
  private readonly known: readonly NoteKey[];
  private kept: Checkpoint | undefined;
  /** What the reader asked for is not shown: a quorum, or that the log is the one whose checkpoint was kept. SPEC G.15.6. */
  short = false;
  window: Entered | undefined;
  placed: readonly Placed[] = [];
  proven = 0;

  constructor(
    private readonly files: Files,
    private readonly options: Options,
  ) {
    this.random = options.random ?? randomBytes;
    this.key = parseKey(options.logKey.trim());
    const { policy } = options;
    this.policy = policy === undefined ? undefined : parsePolicy(typeof policy === "string" ? utf8(policy) : policy);
    need(this.policy === undefined || isFor(this.policy, this.key), `the policy has log lines, and none for ${this.key.name}: add one, or remove them`);
    this.known = (options.witnesses ?? []).map((one) => parseKey(one.trim()));
    for (const one of this.known) need(one.kind === COSIGNATURE, `the key of ${one.name} is no witness's: those have type 4`);
    const later = options.kept !== undefined && hasUnknownLine(parseNote(utf8(options.kept)), this.key); // of a key to come
    this.kept = options.kept === undefined || later ? undefined : openCheckpoint(utf8(options.kept), this.key).checkpoint;
  }

  private say(step: string, state: State, text: string, whose?: Refusal["whose"], notes?: readonly string[]): void {
    const line: Line = { step, state, text: printable(text), ...(whose && { whose }), ...(notes && { notes }) };
    this.lines.push(line);
    this.options.tell?.(line);
  }

  /** Run one check; `said` tells what was found. What fails, or cannot be read, ends everything that rests on it. */
  private async step<T>(step: string, check: () => T | Promise<T>, said: (found: T) => string): Promise<T> {
    try {
      const found = await check();
      const text = said(found);
      if (text) this.say(step, "good", text);
      return found;
    } catch (error) {
      if (error instanceof Missing || error instanceof Unknown) this.say(step, "open", error.message);
      else if (error instanceof Fork) this.say(step, "bad", error.message, "log", error.notes);
      else if (error instanceof Refusal) this.say(step, "bad", error.message, error.whose);
      else throw error;
      throw new Stop();
    }
  }

  /** The same, where nothing rests on it. */
  private async aside<T>(step: string, check: () => T | Promise<T>, said: (found: T) => string): Promise<void> {
    try {
      await this.step(step, check, said);
    } catch (error) {
      if (!(error instanceof Stop)) throw error;
    }
  }

  async all(): Promise<void> {
    const signed = await this.step("checkpoint", () => readNote(this.files, this.key, this.options.most),
      ({ checkpoint }) => `the log ${checkpoint.origin} has signed ${checkpoint.size} entries`);
    this.key = signed.key;
    await this.aside("witnesses", () => this.witnesses(signed.note, this.key), (text) => text);
    if (this.options.kept !== undefined && this.kept === undefined) {
      this.keptLater(this.options.kept);
    }
    await this.step("kept checkpoint", () => this.sameSize(signed.checkpoint, signed.data), () => "");
    const tree = await this.step("entries", () => readTree(this.files, signed, this.options.most),
      ({ entries }) => `all ${entries.length} entries hash to the signed root`);
    this.key = await this.step("log keys", () => turnedBy(tree, this.key, signed.data), ({ turns }) =>
      turns ? `the log has turned its key ${turns.length} times, each time by the word of the key before` : "");
    await this.step("kept checkpoint", () => this.continues(tree, signed.data), (text) => text);
    await this.aside("tiles", () => checkTiles(this.files, tree),
      (count) => `the ${count} files of hashes are those of the entries`);
    await this.inside(tree);
  }

  /** A kept note of no key that the log has shown: of one that these files do not reach, or of another log. Neither is the log's fault. */
  private keptLater(note: string): void {
    try {
      this.kept = openCheckpoint(utf8(note), this.key).checkpoint;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.short = true;
      this.say("kept checkpoint", "open", `${error.message}: it was signed by a key that these files do not show; they may be older than it, `
        + "or it is another log's");
    }
  }

  /**
   * The kept note is signed, but not by the key that counts at its size: whoever stole an old key could show it to a reader
   * who did not know of the turn. It convicts nobody. SPEC G.6.13.5.
   */
  private isVoid(): boolean {
    try {
      openCheckpoint(utf8(this.options.kept ?? ""), this.key);
      return false;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return true;
    }
  }

  /** Of two notes of one size no entry is needed. */
  private sameSize({ size, root }: Checkpoint, note: Uint8Array): void {
    if (this.kept?.size === size && !same(this.kept.root, root)) this.forked(note);
  }

  /** The log whose entries these are is the one whose checkpoint the reader has, as far as both go. SPEC G.15.5. */
  private continues({ entries, checkpoint }: Tree, note: Uint8Array): string {
    const kept = this.kept;
    if (kept === undefined) return "";
    if (checkpoint.size < kept.size) {
      this.short = true;
      this.say("kept checkpoint", "open", `these files end at ${checkpoint.size} entries, the checkpoint that was kept has ${kept.size}: only `
        + "newer files show whether they are of the same log");
      return "";
    }
    if (!same(merkleRoot(entries.slice(0, kept.size).map(leafHash)), kept.root)) this.forked(note);
    return `the files are of the log whose checkpoint of ${kept.size} entries was kept`;
  }

  private forked(note: Uint8Array): never {
    this.short = true;
    if (this.isVoid()) {
      throw new Unknown("the log does not continue the checkpoint that was kept, which a key alone signed that the log had "
        + "given up by that size: whoever stole that key showed it, or the log did. Compare with others what they were shown");
    }
    throw new Fork([this.options.kept ?? "", new TextDecoder().decode(note)]);
  }

  private witnesses(note: Note, log: NoteKey): string {
    const open = (text: string): "" => (this.say("witnesses", "open", text), "");
    const short = (text: string): never => {
      this.short = true;
      throw new Unknown(text);
    };
    if (this.policy !== undefined) {
      const { signed, quorum } = meets(note, this.policy);
      const who = signed.join(", ") || "none";
      if (asksNobody(this.policy)) return open(`that others were shown the same log: the policy asks nobody (${who} of its witnesses cosigned)`);
      return quorum ? `a quorum cosigned this checkpoint: ${who}` : short(`no quorum: of the policy's witnesses ${who} cosigned this checkpoint`);
    }
    if (this.known.length > 0) {
      const missing = this.known.filter((one) => signedBy(note, one).length === 0).map((one) => one.name);
      if (missing.length > 0) short(`this checkpoint has no line of ${missing.join(", ")}`);
      return `cosigned by ${this.known.map((one) => one.name).join(", ")}; no policy says whether that is enough`;
    }
    const names = note.signatures.map((one) => one.name).filter((name) => name !== log.name);
    const known = names.length > 0 ? `there are lines of ${names.join(", ")}, whose keys were not given` : "no line of any";
    return open(`that others were shown the same log: ${known}`);
  }

  private async inside(tree: Tree): Promise<void> {
    const log = await this.step("messages", () => new Log(tree), (found) => `all ${found.size} entries decode`);
    const window = await this.step("window", () => findWindow(log, this.options.window ?? ""), () => "");
    this.window = window;
    const { manifest } = window;
    await this.step("manifest", () => checkManifest(log, window, keyDigest(this.key)),
      () => `the provider ${hex(manifest.provider_key).slice(0, 16)}... has signed the manifest of window ${manifest.window}, of claim ${manifest.policy.claim}`
        + (isPrivate(manifest.policy.claim) ? "" : ": nothing in it is private") + lowerClaims(manifest));
    const life = await this.step("opening and closing", () => checkLife(log, window),
      ({ close }) => (close ? "the window was opened and closed once, in its turn" : "the window was opened, and is not closed yet"));
    const beacon = await this.step("beacon", () => this.beacon(log, window, life),
      ({ owners }) => `the randomness is what ${owners.join(", ")} drew, the auditor last`);
    const versions = await this.step("index versions", () => {
      checkThinningEntry(log, window, beacon.last, life);
      return checkUpdates(log, window, life);
    }, ({ known }) => `${known.size} index versions are named, each in its turn`);
    const { found: placed } = await this.step("records", () => checkRecords(log, window, life, versions),
      ({ found, accounts }) => `${found.length} records of ${accounts} accounts stand in order, without a gap, in budget and in time`);
    this.placed = placed;
    if (life.close === undefined) return this.say("proofs", "open", "proofs are published once the window is closed");
    await this.proofs(log, window, versions, beacon.value);
  }

  private beacon(log: Log, window: Entered, life: Span): Beacon {
    const found = checkBeacon(log, window);
    need(found.complete < life.openIndex, "the window was opened before its beacon was complete", "log");
    need(found.value === life.open.beacon, "the opened window's beacon is not what the nonces give", "log");
    return found;
  }

  private async proofs(log: Log, window: Entered, versions: Versions, beacon: bigint): Promise<void> {
    const { manifest } = window;
    const { key, asked } = await this.step("verifying key", async () => {
      const cls = classOf(manifest, this.options.classes ?? CLASSES);
      const own = askedOf(manifest.policy, cls);
      const lower = undrawn(own, cls);
      const asked = (tenant: string): Asked => (claimOf(manifest, tenant) === manifest.policy.claim ? own : lower);
      return { key: new AttestationKey(await this.keyFile(manifest.key_digest), cls), asked };
    }, () => "the verifying key is the one that the manifest names, of the class that the policy names");
    const later = new Equations(this.random);
    const columns = await this.step("columns", async () => {
      const read = await this.columns(log, window, versions, beacon, key, later);
      need(later.hold(), "an index has a component outside its bases: a proof of opening does not hold");
      return read;
    }, (read) => `the ${read.size} index versions are those that the log names, and open over their bases only`
      + (window.coin === undefined ? "" : `; the slots that the coins hide are empty in ${coinedOf(manifest).length < manifest.tenants.length ? "those of tenants with a coin" : "them"}, and no others`));
    const basis: Basis = {
      window,
      key,
      asked,
      beacon,
      generators: generators(manifest.policy.dimension + 1),
      columns: new Map([...columns].map(([digest, points]) => [digest, [...points, key.blinder]])),
      random: this.random,
    };
    await this.batches(basis);
  }

  private async keyFile(digest: Uint8Array): Promise<VerifyingKey> {
    const found = VerifyingKey.decode(await file(this.files, keyPath(digest)));
    need(hex(found.digest) === hex(digest), "the verifying key is not the one that the manifest names");
    return found;
  }

  private async columns(
    log: Log, window: Entered, versions: Versions, beacon: bigint, key: AttestationKey, later: Equations,
  ): Promise<Map<string, G1Point[]>> {
    const { policy, tenants } = window.manifest;
    const out = new Map<string, G1Point[]>();
    const coined = coinedOf(window.manifest);
    for (const [digest, line] of versions.known) {
      if (!coined.includes(line.tenant)) out.set(digest, await readColumns(this.files, key, line, columnsOf(policy), later));
    }
    for (const one of versions.every === 0 ? [] : tenants) {
      const line = { tenant: one.tenant, number: 0, columnsDigest: one.columns_digest, openingDigest: one.opening_digest, proofDigest: undefined };
      if (!coined.includes(one.tenant)) await readColumns(this.files, key, line, columnsOf(policy), later);
    }
    if (window.coin === undefined) return out;
    const first = thrownBy(log, window);
    const thrown = { manifest: first.digest, beacon };
    if (first !== window) {
      const found = checkBeacon(log, first);
      need(found.complete < window.index, "the carried coins were not thrown when the manifest was entered", "log");
      thrown.beacon = found.value;
    }
    const thinning = new ThinningKey(await this.keyFile(window.coin.key_digest), key.cls.slots);
    const basis: CoinBasis = { window, coin: window.coin, key, thinning, thrown };
    const entry = log.of("thinning").find(([, one]) => hex(one.manifest) === hex(window.digest))?.[1];
    for (const one of entry?.tenants ?? []) {
      const line = { tenant: one.tenant, number: 0, columnsDigest: one.columns_digest, openingDigest: one.opening_digest, proofDigest: one.proof_digest };
      const points = await readThinned(this.files, basis, line, later);
      for (const [digest, named] of versions.known) if (named.number === 0 && named.tenant === one.tenant) out.set(digest, points);
    }
    for (const [digest, line] of versions.known) {
      if (line.number > 0 && coined.includes(line.tenant)) out.set(digest, await readEmptied(this.files, basis, line, later));
    }
    return out;
  }

  private async batches(basis: Basis): Promise<void> {
    const later = new Equations(this.random);
    const { digest, manifest } = basis.window;
    const of = manifest.policy.shards > 1 ? ` of each of ${manifest.policy.shards} shards` : "";
    await this.step("proofs", async () => {
      for (let at = 0; at < this.placed.length; at += BATCH) {
        this.options.progress?.(at, this.placed.length);
        const part = this.placed.slice(at, at + BATCH);
        checkBatch(basis, part, decode("proof-batch", await file(this.files, batchPath(digest, at))), later);
        await new Promise((resume) => setTimeout(resume, 0));
      }
      this.options.progress?.(this.placed.length, this.placed.length);
    }, () => `${this.placed.length} records have a Groth16 proof${of} that holds for what the log says of them`);
    await this.step("openings", () => need(later.hold(), "an opening of hidden inputs or of an embedding does not hold"),
      () => "hidden inputs, and embeddings under the columns that records name, open over their bases only");
    this.proven = this.placed.length;
  }
}

/** Check a window of a log from its files. Throws a Refusal for options that are malformed, never for what files hold. */
export async function verifyWindow(files: Files, options: Options): Promise<Report> {
  const run = new Run(files, options);
  try {
    await run.all();
  } catch (error) {
    if (!(error instanceof Stop)) throw error;
  }
  const found = run.lines.some((line) => line.state === "bad");
  const whole = run.window !== undefined && !run.short && run.lines.some((line) => line.step === "openings");
  const state = found ? "bad" : whole ? "good" : "open";
  const lines = [...run.lines];
  for (const [step, text] of NOT_CHECKED) {
    const line: Line = { step, state: "open", text };
    lines.push(line);
    options.tell?.(line);
  }
  return { state, window: run.window?.manifest.window, records: run.placed.length, proven: run.proven, lines };
}
