# SPDX-License-Identifier: GPL-3.0-or-later
"""Who audited, when, what and with which programs; and how a reader of the page finds out that nobody changed it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ragseal.accounting.rounding import for_people
from ragseal.runtime import face
from ragseal.verifier.report import summary
from ragseal.verifier.report.document import SIGNED_NAME

CHECK = f"ragseal-verifier verdict verify {SIGNED_NAME} --auditor KEY"


def auditor(report: Mapping[str, Any]) -> str:
    """Its name in the window, and as much of its key as tells it from others."""
    found = report["auditor"]
    name, key = found.get("name"), face.shortened(str(found.get("key")))
    return f"{name} (key {key})" if name else f"the auditor with key {key}"


def by(report: Mapping[str, Any]) -> str:
    """For the banner: whose verdict it is, of when, and with what it was made."""
    program = report["program"]
    return (
        f"Audited by {auditor(report)} on {face.issued(report['issued'])} with "
        f"{program.get('name')} {program.get('version')}."
    )


def section(report: Mapping[str, Any]) -> str:
    """Everything about the verdict's origin, as a section of the page."""
    found, program, times = report["auditor"], report["program"], report["window_times"]
    rows = [
        ("auditor", for_people(found.get("name")) if found.get("name") else "without a name in this window"),
        ("auditor's key", for_people(found.get("key"))),
        ("audited", face.issued(report["issued"])),
        ("programs", _programs(program)),
    ]
    if times:
        rows += _times(times)
    if report["manifest"]:
        rows.append(("manifest", str(report["manifest"])))
    if summary.passed(report):
        rows.append(("the line that is signed", str(report["line"])))
    cells = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="mono">{escape(value)}</td></tr>' for name, value in rows
    )
    return (
        "<h2>Who, when, with what</h2>"
        f'<div class="scroll"><table class="pairs"><tbody>{cells}</tbody></table></div>'
        f"<p>The auditor signed this page. The signed file is <code>{SIGNED_NAME}</code>; it holds the SHA-256 of this "
        "page and of report.json. In a folder with all three, this command checks the signature and both files:</p>"
        f"<pre>{escape(CHECK)}</pre>"
        "<p>KEY is the auditor's key. Get it from the auditor: a changed page may name another one.</p>"
    )


def _times(times: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Of the window: as the log shows them, and as its policy would have allowed."""
    closed, first, last = times.get("closed"), times.get("first_record"), times.get("last_record")
    return [
        ("window opened", face.when(times.get("opened"))),
        ("window closed", face.when(closed) if closed else "no end of it is in the log"),
        *([("first answer recorded", face.when(first)), ("last answer recorded", face.when(last))] if last else []),
        ("allowed by its policy", f"{face.when(times.get('allowed_from'))} to {face.when(times.get('allowed_until'))}"),
    ]


def _programs(program: Mapping[str, Any]) -> str:
    used = program.get("with")
    others = (
        [f"{name} {version}" for name, version in used.items() if name != "ragseal"]
        if isinstance(used, Mapping)
        else []
    )
    return ", ".join([f"{program.get('name')} {program.get('version')}", *others])
