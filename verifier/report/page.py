# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of an audit as one self-contained page: verdict first, then the checklist, then the numbers.

No script, no external resource; everything that comes from outside is escaped.  Status is said in words as well as in
colour, and the page follows the reader's light or dark setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ragseal.accounting.rounding import for_people
from ragseal.kernel.verdict import NONE
from ragseal.runtime import face
from ragseal.verifier.report import board, rests, signature, summary
from ragseal.verifier.report.labels import ACCOUNTS, TIMES, label
from ragseal.verifier.report.svg import Group, clusters_svg

_STATUS_TONES = {
    "ok": "good", "failed": "bad", "no verdict": "open", "not reached": "none", "not asked": "none",
}  # fmt: skip
_LINKS = 100  # links of a tenant that the page shows; report.json has more
_WORD = 20  # characters of a word that gets room in a table
_BOUNDS = ("certified", "second", "return", "chance", "delta", "beta", "share")  # keys of bounds from above ...
_BEGIN = ("epsilon", "unseen", "return_by")  # ... and how others begin
_DIGEST = re.compile(r"[0-9a-f]{32,128}")
_LONGEST = 600  # characters of one value; report.json has all of them


def render(report: Mapping[str, Any]) -> str:
    """The page of a report built by :func:`ragseal.verifier.report.document.build`."""
    title = f"{report['verdict']}: audit of window {report['window'] or '(none)'}"
    body = "\n".join(
        (
            f"<h1>ragseal: audit of window <code>{_text(report['window'])}</code>, "
            f"log <code>{_text(report['origin'])}</code></h1>",
            _verdict(report),
            _claim(report),
            "<h2>In five sentences</h2>",
            face.sentences(summary.sentences(report)),
            board.limits(report),
            *(_by_tenant(report) or (board.grade(report), _facts(report))),
            signature.section(report),
            _beside(report),
            "<h2>Checklist</h2>",
            f'<ol class="steps">{"".join(_step(step, _ending(report)) for step in report["steps"])}</ol>',
            _tenants(report["tenants"]),
            _estimate(report["estimate"]),
            _exclusions(report),
            _folded(*_numbers(report)),
            _folded("Policy", _table(report["policy"].items()) if report["policy"] else ""),
            _folded("Timings (seconds)", _table(report["timings"].items())),
            "<footer>All evidence in full is in report.json.</footer>",
        )
    )
    return face.document(title, body)


def claimed(report: Mapping[str, Any]) -> bool:
    """Whether the claim may stand there: below a NO VERDICT or a FAIL it would be read as one."""
    return summary.passed(report)


def _claim(report: Mapping[str, Any]) -> str:
    said = f"<h2>What is claimed</h2><blockquote>{escape(str(report['claim']))}</blockquote>"
    return f'<section class="claimed">{said}</section>' if claimed(report) else ""


def _ending(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Why there is no PASS; empty below one."""
    found: Mapping[str, Any] = report["failure"] or report.get("no_verdict") or {}
    return found


def _verdict(report: Mapping[str, Any]) -> str:
    """The banner: the word, whose it is and when; the guess below a PASS, else the reason.

    What would decide it is the fifth sentence, right below.
    """
    ending, guess = _ending(report), summary.guess_line(report)
    said = f"<p>{_text(ending['message'])}</p>" if ending else ""
    strength = f'<p class="guess">{_text(guess)}</p>' if guess else ""
    return (
        f'<section class="verdict {summary.tone(report)}" aria-label="Verdict">'
        f"<strong>{_text(summary.heading(report))}</strong>{strength}{said}"
        f'<p class="by">{_text(signature.by(report))}</p></section>'
    )


def _facts(report: Mapping[str, Any]) -> str:
    """The numbers that no sentence and no table above has, in boxes."""
    if _ending(report):
        return ""  # the five sentences say what was found
    facts = summary.claim_of(report).facts(report)
    facts += [
        *([("delta", for_people(report["delta"], bound=True))] if report["delta"] != NONE else []),
        ("mode", report["mode"]),
        ("keys made by", ", ".join([report["keys"], *(report.get("participants") or ())])),
        *([("beacon drawn with", report["beacon_of"])] if report["beacon_of"] else []),
        ("answers proven", f"{report['proven']} of {report['records']}"),
    ]
    if report["beta"] is not None:
        facts += [("share that may be unprovable", _bound(report["beta"])), ("confidence", report["confidence"])]
    boxes = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{boxes}</dl>'


def _beside(report: Mapping[str, Any]) -> str:
    """Other windows of the period, what was handed in but set aside, and what could not be written down."""
    unkept = "".join(f"<p>Not kept by this auditor: {_text(why)}</p>" for why in report.get("not_kept") or ())
    return (
        unkept
        + _rows("Other windows of the period", report.get("other_windows_of_the_period") or ())
        + _rows("Probes of observers, counted again; no verdict rests on them", report.get("probes") or ())
        + _rows("Set aside: handed in, and no evidence of anything", report.get("set_aside") or ())
    )


def _step(step: Mapping[str, Any], ending: Mapping[str, Any]) -> str:
    """``ending``: of the audit; its message stands in the banner, and is not said again here."""
    status = str(step["status"])
    tone = _STATUS_TONES.get(status, "bad")
    head = (
        f"<span>{_text(step['number'])}</span><span>{_text(step['title'])}</span>"
        f'<span class="badge {tone}">{_text(status)}</span><span class="time">{float(step["seconds"]):.3f} s</span>'
    )
    known = step["number"] == ending.get("step") and step["message"] == ending.get("message")
    message = f"<p>{_text(step['message'])}</p>" if step["message"] and not known else ""
    if not step["evidence"] and not message:
        return f'<li><div class="row">{head}</div></li>'
    opened = " open" if status in ("failed", "no verdict") else ""
    return (
        f'<li><details{opened}><summary>{head}</summary><div class="inside">{message}'
        f"{_table(step['evidence'].items())}</div></details></li>"
    )


def _by_tenant(report: Mapping[str, Any]) -> list[str]:
    """A section for each claim of a window whose tenants have several, with whose it is; none where all have one."""
    return [
        f'<section class="tenancy"><h2>Tenants with the claim {_text(summary.claim_of(one).name)}: {_text(names)}</h2>'
        f"<p>{_text(rests.sentence(one))}</p>{board.grade(one)}{_facts(one)}</section>"
        for names, one in summary.of_each_claim(report)
    ]


def _tenants(tenants: Iterable[Mapping[str, Any]]) -> str:
    columns = ("tenant", "total", "checked", "unchecked", "acknowledged")
    found = [[tenant[column] for column in columns] for tenant in tenants]
    heads = ("tenant", "answers", "embedding checked", "not checked", "acknowledged")
    return _grid("Answers by tenant", heads, found, "h2")


def _estimate(estimate: Mapping[str, Any] | None) -> str:
    """The coalition estimate: what it is, which accounts ask as one, and by which records."""
    if not estimate:
        return ""
    caught = estimate["caught"]
    complete = all(one["list"] == "complete" for one in estimate["tenants"])
    # of a spanning list nobody proves more: links inside a group that its list joins may well be missing from it
    unlisted = "links that are not listed" if complete else "links between groups that the list does not join"
    nothing = "no link is left out of the list" if complete else "no link between groups is left out of the list"
    rule = f"cosine at least {estimate['theta']}, at most {estimate['tau']} records apart"
    rule += f" or {estimate['tau_time']} s by the provider's times" if estimate["tau_time"] else ""
    facts: list[tuple[str, Any]] = [
        ("accounts that ask as one", f"{estimate['c']}; k_max of the policy is {estimate['k_max']}"),
        *_which(estimate),
        ("two records are linked", rule),
        ("links", f"{estimate['links']}{'' if complete else ' listed, as many as join the same records'}"),
        ("certificate", f"{estimate['certificate']}: " + (
            f"at {caught['confidence']:.0%} confidence at most {caught['share']:.2g} of all pairs are {unlisted}"
            if caught["share"] else nothing)),
    ]  # fmt: skip
    parts = ["<h2>Coalition estimate</h2>", _table(facts)]
    for tenant in estimate["tenants"]:
        name = _text(tenant["tenant"])
        joined = _joined(tenant)
        pairs = [(one["accounts"][0], one["accounts"][1]) for one in tenant["listed"]]
        drawn = clusters_svg(f"Accounts joined in tenant {tenant['tenant']}", joined, pairs)
        rows = [(_names(group.accounts, ", "), group.records, _links(tenant, group.accounts)) for group in joined]
        parts.append(
            (_scroll(f"Accounts joined in tenant {name}, drawn", drawn) if drawn else "")
            + _grid(f"Accounts joined, tenant {name}", ("accounts", "answers", "linked answers"), rows)
        )
    return "".join(parts)


def _which(estimate: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The largest coalition, unless a table below shows just these accounts."""
    members = set(estimate["members"])
    shown = any(set(one["accounts"]) == members for tenant in estimate["tenants"] for one in tenant["clusters"])
    return [] if shown else [("which", _names(estimate["members"], ", ") or "none")]


def _joined(tenant: Mapping[str, Any]) -> list[Group]:
    """Accounts that are joined, each set of them once, however many questions joined it; the largest first."""
    found: dict[tuple[str, ...], Any] = {}
    for one in tenant["clusters"]:
        accounts = tuple(one["accounts"])
        found[accounts] = found[accounts] + one["records"] if accounts in found else one["records"]
    return [Group(accounts, records) for accounts, records in found.items()]


def _links(tenant: Mapping[str, Any], accounts: Sequence[str]) -> str:
    """Which answers of these accounts were linked, in pairs; report.json has all of them."""
    own = set(accounts)
    found = [" and ".join(map(str, one["seqs"])) for one in tenant["listed"] if set(one["accounts"]) <= own]
    more = f"; and {len(found) - _LINKS} more" if len(found) > _LINKS else ""
    return "; ".join(found[:_LINKS]) + more


def _names(accounts: Sequence[str], between: str) -> str:
    """Pseudonyms, as much of each as tells them apart; report.json has them whole."""
    return between.join(map(face.shortened, accounts))


def _grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], level: str = "h3") -> str:
    """A titled table, nothing where there are no rows; ``title`` is escaped already."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{_text(c)}</th>' for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(x)}</td>" for x in row) + "</tr>" for row in rows)
    return f"<{level}>{title}</{level}>" + _scroll(
        title, f'<table class="wide"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _exclusions(report: Mapping[str, Any]) -> str:
    """All that a PASS does not say; what is no PASS says nothing."""
    if not claimed(report):
        return ""
    notes = "".join(f"<li>{escape(str(note))}</li>" for note in report["does_not_say"])
    return f'<h2 id="{board.LIMITS}">What the verdict does not say</h2><ul>{notes}</ul>'


def _folded(title: str, content: str) -> str:
    """A part that most readers leave closed; nothing where there is nothing in it."""
    if not content:
        return ""
    return f'<details class="more"><summary><h2>{title}</h2></summary><div class="inside">{content}</div></details>'


def _numbers(report: Mapping[str, Any]) -> tuple[str, str]:
    """Title and content of step 11's part."""
    values = report["epsilon"]
    if values and "odometer" not in values:  # of a claim without a number
        plain = [(name, value) for name, value in values.items() if name != "conditions"]
        return "What is claimed, in detail", _table(plain) + _rows("Conditions of the claim", values["conditions"])
    return f"{'Epsilon' if 'epsilon_audit' in (values or {}) else 'Unseen'}, in detail", _epsilon(values)


def _epsilon(values: Mapping[str, Any] | None) -> str:
    """Step 11's numbers: what is claimed, how it grew, by which accountant, where delta goes."""
    if not values:
        return ""
    lists = ("odometer", "windows_of_the_period", "windows_left_out", "conditions")
    plain = [(k, v) for k, v in values.items() if k not in (*lists, "accounting", "second_implementation")]
    parts = [
        _table(plain),
        _rows("Odometer of the period", values["odometer"]),
        _rows("Windows left out, which ended before the period began", values["windows_left_out"]),
    ]
    for name, one in values["accounting"].items():
        kept = {k: v for k, v in one.items() if k not in ("bounds", "delta", "published", "computational")}
        parts += [
            _rows(f"Accountants of class {name}", one["bounds"]),
            f"<h3>Second implementation</h3>{_table(values['second_implementation'].get(name, {}).items())}",
            f"<h3>Where delta goes</h3>{_table(one['delta'].items())}",
            f"<p>Not in delta: {_text('; '.join(one['computational']))}.</p>",
            f"<h3>The paper's numbers, for comparison; no bounds</h3>{_table(one['published'].items())}",
            f"<h3>Accounting of class {_text(name)}</h3>{_table(kept.items())}",
        ]
    parts.append(_rows("Conditions of the claim", values["conditions"]))
    return "".join(parts)


def _rows(title: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """Entries of equal keys as one table."""
    if not entries:
        return ""
    head = "".join(f'<th scope="col">{_label(key)}</th>' for key in entries[0])
    body = "".join("<tr>" + "".join(_cell(*item) for item in entry.items()) + "</tr>" for entry in entries)
    return f"<h3>{_text(title)}</h3>" + _scroll(
        _text(title), f'<table class="wide"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _scroll(label: str, content: str) -> str:
    """What may be wider than a narrow page: whoever has no mouse moves it once it has the focus; both are escaped."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{content}</div>'


def _cell(key: str, value: Any) -> str:
    """Of a table with several columns; a digest is shortened, other long words get room."""
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return f'<td class="mono" title="{_text(value)}">{_text(face.shortened(value))}</td>'
    long = any(len(word) > _WORD for word in str(value).split())
    return f"<td{' class=long' if long else ''}>{_value(value, key)}</td>"


def _table(rows: Iterable[tuple[str, Any]]) -> str:
    """Names and values; on a narrow page the value stands below its name."""
    cells = "".join(
        f'<tr><th scope="row">{_label(k)}</th><td class="mono">{_value(v, str(k))}</td></tr>' for k, v in rows
    )
    return f'<div class="scroll"><table class="pairs"><tbody>{cells}</tbody></table></div>'


def _value(value: Any, key: str = "") -> str:
    if isinstance(value, Mapping):
        return "<br>".join(f"{_label(k)}: {_value(v, str(k))}" for k, v in value.items())
    if isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        return "<br>".join(_value(entry) for entry in value)
    if isinstance(value, list):
        entries = (face.shortened(str(x)) if key in ACCOUNTS else for_people(x, _is_bound(key)) for x in value)
        return _text(", ".join(entries) or "none")
    if key in ACCOUNTS and isinstance(value, str):
        return _text(face.shortened(value))
    if key in TIMES:
        return _text(face.when(value))
    return _text(for_people(value, _is_bound(key)))


def _is_bound(key: str) -> bool:
    """Whether a value of this key is a bound from above, as in the verdict's line."""
    return key in _BOUNDS or key.startswith(_BEGIN)


def _bound(value: Any) -> str:
    return for_people(value, bound=True)


def _label(value: Any) -> str:
    return _text(label(value))


def _text(value: Any) -> str:
    text = for_people(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} ... ({len(text)} characters)"
    return escape(text, quote=True)
