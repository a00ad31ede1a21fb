# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier plant`` and ``probe``: the replace-pair attack against a live provider, in a test window.

The operator cooperates: it puts the canary into one tenant and its replacement into another, registers the auditor's
accounts in both, and opens a window.  The accounts ask through the account's own program, which checks every answer.
A probe can show that noise is missing.  It cannot show that noise is always there: that is what the proofs are for.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from ragseal.accounting.claims import claim_of
from ragseal.kernel.attestation import Record
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import Manifest
from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.kernel.policy import Policy, check_policy
from ragseal.ledger.note import NoteVerifier
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.terminal import JSON, client_tls, progress_bars
from ragseal.runtime.tls import ClientTls
from ragseal.verifier.audit.audit import Target
from ragseal.verifier.base.builds import class_build, find_class
from ragseal.verifier.evidence.evidence import Evidence, Refused
from ragseal.verifier.probe.canary import VIOLATION, Finding, judge
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.turns import read_log

Option = Callable[[Callable[..., None]], Callable[..., None]]

EXIT_VIOLATION = 3
PLANT = "plant.json"
EVIDENCE = "probe.json"
_WORDS = re.findall(
    r"\w+",
    "amber anchor basalt beacon birch bridge canyon cedar cinder comet copper coral delta ember falcon fern glacier "
    "granite harbor hazel indigo island jasper juniper kettle lagoon lantern maple marble meadow mirror nickel oasis "
    "olive orchid pebble pepper quartz raven saddle salmon thistle timber tulip valley velvet walnut willow",
)


@dataclass(frozen=True, slots=True)
class Plant:
    """The planted pair; the canary's text is also the query, so its score is the largest there is."""

    canary: str
    replacement: str

    @property
    def query(self) -> str:
        return self.canary


def make_plant(choose: Callable[[Sequence[str]], str], folder: Path) -> Plant:
    """Write in.jsonl, out.jsonl and plant.json.  Raises ConfigurationError: the folder cannot be written."""
    words = " ".join(choose(_WORDS) for _ in range(12))
    number, hour = ("".join(choose("123456789") for _ in range(n)) for n in (4, 1))
    # A list of things against a sentence about an appointment: no embedder takes one for the other.
    made = Plant(words, f"The meeting about budget line {number} was moved to {hour} o'clock on Monday.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("in", made.canary), ("out", made.replacement)):
            (folder / f"{name}.jsonl").write_text(json.dumps({"id": "planted", "text": text}) + "\n", encoding="utf-8")
        (folder / PLANT).write_text(json.dumps(asdict(made), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write the plant into {folder}: {why(error, folder)}") from None
    return made


def read_plant(folder: Path) -> Plant:
    """Raises ConfigurationError: `plant` did not write it."""
    try:
        return Plant(**json.loads((folder / PLANT).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConfigurationError(f"{folder} holds no planted pair: make one with `ragseal-verifier plant`") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {folder / PLANT}: {why(error, folder / PLANT)}") from None
    except (ValueError, TypeError):
        raise ConfigurationError(f"{folder} holds no planted pair: make one with `ragseal-verifier plant`") from None


# --- asking ----------------------------------------------------------------------------------------------------------


def ask(
    query: str, times: int, account: Path, target: Target, embedder: str, tls: ClientTls
) -> Iterator[dict[str, Any]]:
    """Answers of one account, asked by the account's own program.

    Raises:
        ConfigurationError: the program stopped; the message is its own.
    """
    command = [
        sys.executable, "-m", "ragseal.client.repeat", "ask", query, "--times", str(times), "--state", str(account),
        "--provider", target.address, "--log-key", target.log_key.vkey(), "--embedder", embedder,
    ]  # fmt: skip
    for name, value in (("--ca", tls.authority), ("--cert", tls.certificate), ("--cert-key", tls.key)):
        command += [name, str(value)] if value else []
    command += ["--plain"] if tls.plain else []
    done = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in process.stdout:
                done += 1
                yield json.loads(line)
            said = process.stderr.read().strip()[-1000:]
        finally:
            process.terminate()
    if done != times:
        raise ConfigurationError(f"account {account} stopped after {done} of {times} answers: {said}")


def planted_slot(answers: Sequence[dict[str, Any]], text: str) -> int | None:
    """The slot that a text came from; None if it never came."""
    for answer in answers:
        for slot, found in zip(answer["slots"], answer["texts"], strict=True):
            if found == text:
                return int(slot)
    return None


def locate(plant: Plant, most: int, account: Path, target: Target, embedder: str, tls: ClientTls) -> int:
    """The slot of the replacement, asked for by its own text at most ``most`` times.

    Against the canary it scores nothing, so the slot comes back without a flag: only its number tells that it did.

    Raises:
        ConfigurationError: it never came; says how to go on.
    """
    for _ in range(most):
        slot = planted_slot(list(ask(plant.replacement, 1, account, target, embedder, tls)), plant.replacement)
        if slot is not None:
            return slot
    raise ConfigurationError(
        f"{most} questions for the replacement did not bring it, so its slot is not known: give another --outside "
        "account"
    )


def ask_world(
    plant: Plant, queries: int, accounts: Sequence[Path], target: Target, embedder: str, tls: ClientTls,
    moved: Callable[[], None],
) -> list[dict[str, Any]]:  # fmt: skip
    """``queries`` answers, shared out among a world's accounts."""
    answers = []
    for i, account in enumerate(accounts):
        times = queries // len(accounts) + (i < queries % len(accounts))
        for answer in ask(plant.query, times, account, target, embedder, tls) if times else ():
            answers.append(answer)
            moved()
    return answers


# --- what the log says -----------------------------------------------------------------------------------------------


def window_of(log: LogView, answers: Sequence[dict[str, Any]]) -> Manifest:
    """The one window that all answers are of, as its manifest lies in the log; every answer has its record there.

    Raises:
        Refused: answers of several windows, no such manifest, or a record that the log does not hold.
    """
    manifests = {answer["manifest"] for answer in answers}
    if len(manifests) != 1:
        raise Refused("the answers are of several windows: probe within one")
    wanted = manifests.pop()
    signed = next((s for _, s in log.manifests() if s.manifest.digest().hex() == wanted), None)
    if signed is None:
        raise Refused(f"the log holds no manifest {wanted}")
    signed.verify()
    for answer in answers:
        at = answer["ledger_index"]
        entry = log.messages[at] if at < log.size else None
        if not isinstance(entry, Record) or entry.digest().hex() != answer["record"]:
            raise Refused(f"entry {at} of the log is not the record that account {answer['account']} was shown")
    return signed.manifest


def published(
    link: Evidence, log_key: NoteVerifier, known: LogView, size: int, pause: float = 2.0, patience: float = 150.0
) -> LogView:
    """The log once it shows ``size`` entries: records become public on a coarse tick, a minute apart.

    Raises:
        TransportError: it does not show them in time.
    """
    end = time.monotonic() + patience
    while (log := read_log(link, log_key, known)).size < size:
        if time.monotonic() > end:
            raise TransportError(f"the log shows {log.size} entries, the answers were promised {size}: probe again")
        time.sleep(pause)
        known = log
    return log


def check_budget(log: LogView, queries: int, group: int, inside: int, outside: int) -> int:
    """The newest window's policy allows what is about to be asked by so many accounts inside and outside.

    Returns:
        How many queries the last account outside has left to find the planted slot with, at least 1.

    Raises:
        ConfigurationError: no window, one whose claim has a coin, a trial larger than the policy speaks of, or more
            queries than an account has.
    """
    manifests = log.manifests()
    if not manifests:
        raise ConfigurationError("the provider has no window yet: it must commit and open one first")
    manifest = manifests[-1][1].manifest
    policy = manifest.policy
    why = claim_of(policy).not_probed
    if why:
        raise ConfigurationError(
            f"window {manifest.window!r} claims {policy.claim}: {why}. Ask for a test window with claim = every-list"
        )
    if group > policy.n_max * policy.k_max:
        raise ConfigurationError(
            f"a trial of {group} queries is more than the {policy.n_max * policy.k_max} that the policy speaks of"
        )
    left = policy.n_max - queries // outside
    for option, accounts in (("--inside", inside), ("--outside", outside)):
        each = -(-queries // accounts)
        if each > policy.n_max:
            raise ConfigurationError(
                f"{queries} queries of {accounts} accounts ({option}) are up to {each} of one account, and window "
                f"{manifest.window!r} allows each n_max = {policy.n_max}: give {-(-queries // policy.n_max)} accounts, "
                f"or ask at most {policy.n_max * accounts} times (--queries). No query was spent"
            )
    if left < 1:
        raise ConfigurationError(
            f"the last --outside account has to find the planted slot, and {queries} queries use up its n_max = "
            f"{policy.n_max}: give {outside + 1} accounts, or ask less often (--queries). No query was spent"
        )
    return left


def scores_of(plant: Plant, policy: Policy, embedder: str) -> tuple[int, int]:
    """y of canary and replacement; without an embedder the canary, which is the query, scores at least hi, and the
    replacement is taken to score at most lo."""
    if embedder == "none":
        return policy.hi, policy.lo
    from ragseal.embedder import load_embedder, quantise  # an auditor's installation need not have it

    model = load_embedder(embedder)
    e = quantise(model.embed([plant.query], role="query"))[0].astype(np.int64)
    rows = quantise(model.embed([plant.canary, plant.replacement])).astype(np.int64)
    canary, replacement = (int(y) for y in rows @ e)
    return canary, replacement


def values(
    finding: Finding, manifest: Manifest, cls: AttestationClass, worlds: Sequence[Sequence[bool]], group: int,
    confidence: float,
) -> dict[str, Any]:  # fmt: skip
    """What `--json` prints."""
    return {
        "verdict": finding.verdict,
        "reasons": list(finding.reasons),
        "window": manifest.window,
        "manifest": manifest.digest().hex(),
        "class": cls.name,
        "queries": [len(world) for world in worlds],
        "hits": [sum(world) for world in worlds],
        "group": group,
        "confidence": confidence,
        "auc": {"value": finding.roc.auc, "low": finding.interval[0], "high": finding.interval[1]},
        "epsilon_at_least": finding.bounds.epsilon,
        "advantage_at_least": finding.bounds.advantage,
        "certified": asdict(finding.certified),
        "predicted": asdict(finding.prediction),
    }


def for_people(found: dict[str, Any]) -> str:
    """The outcome in lines."""
    auc, certified, predicted = found["auc"], found["certified"], found["predicted"]
    lines = [
        f"window {found['window']}: planted slot returned {found['hits'][0]} of {found['queries'][0]} times inside, "
        f"{found['hits'][1]} of {found['queries'][1]} outside; honest: {predicted['inside']:.3f} and "
        f"{predicted['outside']:.3f} of the time",
        f"{'':12}{'measured':>28}{'certified':>14}{'honest':>10}",
        f"{'AUC':12}{auc['value']:8.4f} [{auc['low']:.4f}, {auc['high']:.4f}] {certified['auc']:>12.4f}"
        f"{predicted['auc']:>10.4f}",
        f"{'epsilon':12}{'at least':>15} {found['epsilon_at_least']:12.4f}{certified['epsilon']:>14.4f}",
        f"{'advantage':12}{'at least':>15} {found['advantage_at_least']:12.4f}{certified['advantage']:>14.4f}",
        f"confidence {found['confidence']:g}, {found['group']} queries a trial, delta {certified['delta']:g}",
        *found["reasons"],
    ]
    return "\n".join([*lines, f"probe: {found['verdict']}"])


# --- commands --------------------------------------------------------------------------------------------------------


def register(
    main: click.Group,
    provider_option: Option,
    log_key_option: Option,
    target_of: Callable[[str, str, ClientTls], Target],
) -> None:
    """Add both commands to ``ragseal-verifier``."""
    folder = click.Path(path_type=Path, file_okay=False)
    existing = click.Path(path_type=Path, file_okay=False, exists=True)

    @main.command(short_help="Make a planted pair of documents")
    @click.option("--out", type=folder, default=Path("probe"), show_default=True, help="Where the pair goes.")
    @JSON
    def plant(out: Path, as_json: bool) -> None:
        """Make a planted pair of documents for `probe`.

        There is one for each of two tenants of a test window.

        \b
        Then, with the provider's operator (who knows that this is a test):
          ragseal-client keygen --state inside --account probe-in      and the same for "outside", probe-out
          ragseal-provider documents put --tenant probe-in --corpus jsonl:probe/in.jsonl
          ragseal-provider documents put --tenant probe-out --corpus jsonl:probe/out.jsonl
          ragseal-provider accounts add probe-in --tenant probe-in --key ...       and probe-out
          a window is committed and opened as ever; then `ragseal-verifier probe`
        """
        made = make_plant(secrets.choice, out)
        text = f"planted pair in {out}: in.jsonl for one tenant, out.jsonl for another, {PLANT} for `probe`"
        click.echo(json.dumps(asdict(made)) if as_json else text)

    @main.command(short_help="Attack a live provider in a test window")
    @click.option("--plant", "planted", type=existing, default=Path("probe"), show_default=True, help="From `plant`.")
    @provider_option
    @log_key_option
    @client_tls
    @click.option("--inside", type=existing, multiple=True, required=True, help="Account of the canary's tenant.")
    @click.option("--outside", type=existing, multiple=True, required=True, help="Account of the replacement's.")
    @click.option("--queries", type=click.IntRange(min=2), default=50, show_default=True, help="In each tenant.")
    @click.option("--group", type=click.IntRange(min=1), default=1, show_default=True, help="Queries of one trial.")
    @click.option("--embedder", default="minilm", show_default=True, help='"none": the provider embeds.')
    @click.option("--confidence", type=click.FloatRange(0.5, 1, min_open=True, max_open=True), default=0.999,
                  show_default=True, help="Of each of the three limits that can accuse.")  # fmt: skip
    @click.option("--out", type=folder, default=Path("probe"), show_default=True, help=f"Where {EVIDENCE} goes.")
    @JSON
    def probe(
        planted: Path, provider: str, log_key: str, tls: ClientTls, inside: Sequence[Path], outside: Sequence[Path],
        queries: int, group: int, embedder: str, confidence: float, out: Path, as_json: bool,
    ) -> None:  # fmt: skip
        """Attack a live provider in a test window, and compare with what is certified.

        The same question is asked over and over by accounts of two tenants that differ in one planted slot. Measured
        above certified is a violation (exit status 3); below honest is over-noise.
        """
        pair, target = read_plant(planted), target_of(provider, log_key, tls)
        if queries < 2 * group:
            raise ConfigurationError(f"{queries} queries make fewer than two trials of {group}: ask more often")
        with target.connect() as link:
            before = read_log(link, target.log_key)
        left = check_budget(before, queries, group, len(inside), len(outside))
        with progress_bars() as bars:
            task = bars.add_task("asking", total=2 * queries)
            answers = [
                ask_world(pair, queries, accounts, target, embedder, tls, lambda: bars.advance(task))
                for accounts in (inside, outside)
            ]
            slots = [planted_slot(answers[0], pair.canary), planted_slot(answers[1], pair.replacement)]
            if slots[1] is None:
                slots[1] = locate(pair, left, outside[-1], target, embedder, tls)
        with target.connect() as link:
            given = [*answers[0], *answers[1]]
            size = 1 + max(answer["ledger_index"] for answer in given)
            manifest = window_of(published(link, target.log_key, before, size), given)
        policy = manifest.policy
        cls, digest = find_class(class_build(), policy.class_name)
        check_policy(policy, cls, digest)
        hits = [
            [slot in answer["returned_slots"] for answer in world] for world, slot in zip(answers, slots, strict=True)
        ]
        scores = scores_of(pair, policy, embedder)
        finding = judge(policy, cls, hits[0], hits[1], group, scores, confidence, (slots[0], slots[1]))
        found = values(finding, manifest, cls, hits, group, confidence)
        try:
            out.mkdir(parents=True, exist_ok=True)
            evidence = {**found, "answers": {"inside": answers[0], "outside": answers[1]}}
            (out / EVIDENCE).write_text(json.dumps(evidence, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"cannot write the evidence into {out}: {why(error, out)}") from None
        click.echo(json.dumps(found) if as_json else for_people(found))
        if finding.verdict == VIOLATION:
            sys.exit(EXIT_VIOLATION)
