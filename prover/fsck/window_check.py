# SPDX-License-Identifier: GPL-3.0-or-later
"""``fsck``'s part for windows: seeds, texts, matrices, blinders, accounts and links against the ledger's manifests.

Every record is held against the secrets kept for it in ``record_check.py``; a retired window in ``retired_check.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragseal.groth16.keys import KeyView, ThinningView
from ragseal.kernel.commitment import Manifest
from ragseal.kernel.errors import UnavailableError
from ragseal.kernel.link_list import SignedLinks
from ragseal.kernel.versions import ANSWERING
from ragseal.prover.base.check_report import Report
from ragseal.prover.commitment.columns import commit_columns
from ragseal.prover.commitment.dropped import is_dropped
from ragseal.prover.commitment.enrolling import enrolments, registry_root
from ragseal.prover.commitment.index import Columns, Version
from ragseal.prover.commitment.update_secrets import load_update
from ragseal.prover.commitment.window_secrets import WindowSecrets, load_window
from ragseal.prover.fsck import participation_check, retired_check
from ragseal.prover.fsck.record_check import RecordCheck
from ragseal.prover.fsck.retired_check import dropped_problems
from ragseal.prover.provider.backends import Backends
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.retirement import is_retired
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.runtime.progress import Progress


def check_columns(
    secrets: WindowSecrets, versions: Mapping[str, Version], tools: Backends, key: KeyView, report: Report
) -> None:
    """The committed columns open to the stored matrices and blinders; with a coin, the thinned ones too."""
    manifest = secrets.signed.manifest
    for version in versions.values():
        report.count("indices")
        of = f", version {version.number}" if version.number else ""
        where = f"index of tenant {version.tenant!r} in window {manifest.window!r}{of}"
        with report.guard(where):
            placed = _thinning_key(tools, manifest) if version.coined else key
            kept = [(placed, Columns(version.matrix, version.blinders, version.public.columns))]
            if version.thinned is not None:
                kept.append((key, version.in_force))
            for on, columns in kept:
                if commit_columns(tools.group, on.scores, columns.matrix, columns.blinders) != columns.points:
                    report.found(
                        f"{where}: the stored matrix and blinders do not open the committed columns, no record of it "
                        "can be proven: restore them from a backup"
                    )
                    break


def _thinning_key(tools: Backends, manifest: Manifest) -> ThinningView:
    """The key under whose points a window with a coin places columns.  UnavailableError: there is none."""
    if tools.thinning_keys is None:
        raise UnavailableError("there are no keys of the thinning circuit: `ragseal-provider fetch-keys`")
    return tools.thinning_keys.view(manifest.coin.key_digest)


def check_window(provider: Provider, window: Window, whole: bool, report: Report, progress: Progress) -> None:
    """A window of the ledger against what is kept of it."""
    state, journal, tools, manifest = provider.state, provider.journal, provider.backends, window.manifest
    where = f"window {manifest.window!r}"
    report.count("windows")
    if is_retired(state, window.digest):
        return check_retired(state, window, report)
    report.count("records", len(window.records))
    check, done = RecordCheck(state, journal, window), 0
    total = len(window.records)

    def moved(count: int) -> None:
        nonlocal done
        done += count
        if done % 64 == 0 or done == total:
            progress(f"records of {where}", done, total)

    with report.guard(where):
        for problem in (*check.quick(moved), *participation_check.quick(state, window)):
            report.found(problem)
        if check.unrecorded() > 0:
            report.notes.append(
                f"{where}: {check.unrecorded()} requests have secrets and no record: stopped before they entered the "
                "ledger, they are answered when they are sent again"
            )
    served = window in (journal.history.open, journal.history.following)
    if not whole and not served:
        return
    with report.guard(where):
        secrets = (
            provider.window_secrets(window.digest) if served else load_window(state, window.digest, window.thinning)
        )
        with report.guard(f"key of {where}"):
            key = tools.keys.view(manifest.key_digest)
            report.count("keys")
            check_columns(secrets, secrets.versions, tools, key, report)
            for _, update in window.updates if whole else window.updates[-ANSWERING:]:
                if is_dropped(state, window.digest, update.number):
                    for problem in dropped_problems(state, window, update):
                        report.found(f"{where}: {problem}")
                else:
                    kept = load_update(state, update)
                    check_columns(secrets, kept.versions, tools, key, report)
                made = enrolments(state, window.digest, update.number)
                if registry_root(made, manifest, update.number) != update.registry_root:
                    report.found(f"{where}: its accounts are not those that version {update.number} commits to")
            if whole:
                tools.keys.backend(manifest.key_digest)
                done = 0
                opened = provider.windows.holding(window, secrets)
                for problem in check.whole(opened, tools, moved):
                    report.found(problem)
                for problem in participation_check.whole(journal, state, opened, check.unrecorded()):
                    report.found(problem)


def check_retired(state: State, window: Window, report: Report) -> None:
    """A window whose secrets are purged: nothing of them is left, and what auditors still ask for is there."""
    where = f"window {window.manifest.window!r}"
    report.count("retired windows")
    if retired_check.unfinished(state, window):
        report.notes.append(f"{where} is being retired: the next start of `serve` goes on with it")
        return
    with report.guard(where):
        for problem in retired_check.problems(state, window):
            report.found(f"{where}: {problem}")
        missing = retired_check.unproven(state, window)
        if missing and window.beacon is not None:
            report.notes.append(f"{where} was retired with {missing} records that have no proof: no audit of it passes")


def check_links(provider: Provider, window: Window, whole: bool, report: Report) -> None:
    """The signed links of a window, if an auditor asked for them: signed here; with ``whole``, found anew."""
    estimates, name = provider.new_estimates(), window.manifest.window
    with report.guard(f"links of window {name!r}"):
        stored = estimates.stored(window.digest)
        if stored is None:
            return
        report.count("estimates")
        signed = SignedLinks.decode(stored)
        signed.verify(window.manifest.window_key)
        again = whole and not is_retired(provider.state, window.digest)
        body = estimates.find(window.digest) if again else signed.body
        if signed.body.manifest != window.digest or signed.body != body:
            report.found(
                f"links of window {name!r}: the list that was signed is not the one that the window's records make"
            )


def check_unknown_windows(state: State, journal: Journal, report: Report) -> None:
    """Windows that the state knows and the ledger does not: never published, or the ledger lost them."""
    for manifest, name in state.rows("SELECT manifest, name FROM windows"):
        if manifest in journal.history.windows:
            continue
        used = state.row("SELECT COUNT(*) FROM queries WHERE manifest = ?", (manifest,))
        if used is not None and used[0]:
            report.found(f"window {name!r} has {used[0]} requests and is not in the ledger: the ledger was rolled back")
        else:
            report.notes.append(f"window {name!r} was prepared and never entered the ledger")
