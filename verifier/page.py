# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of an audit as one self-contained page: verdict first, then the checklist, then the numbers.

No script, no external resource; everything that comes from outside is escaped.  Status is said in words as well as in
colour, and the page follows the reader's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ragseal.verifier.epsilon import upward
from ragseal.verifier.picture import Group, clusters_svg

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --card: #f6f8fa; --line: #d0d7de;
  --good: #116329; --good-bg: #dafbe1; --mid: #7d4e00; --mid-bg: #fff8c5; --bad: #a40e26; --bad-bg: #ffebe9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --card: #161b22;
  --line: #30363d; --good: #7ee787; --good-bg: #12261e; --mid: #e3b341; --mid-bg: #272115; --bad: #ff9a92;
  --bad-bg: #2d1416; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.05rem; font-weight: 600; color: var(--soft); margin: 0 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; }
.verdict { border: 1px solid var(--line); border-left: .5rem solid var(--tone); border-radius: .5rem;
  background: var(--tone-bg); padding: 1.25rem 1.5rem; }
.verdict strong { font-size: 2rem; line-height: 1.2; color: var(--tone); display: block; }
.verdict p { margin: .5rem 0 0; }
.good { --tone: var(--good); --tone-bg: var(--good-bg); } .mid { --tone: var(--mid); --tone-bg: var(--mid-bg); }
.bad { --tone: var(--bad); --tone-bg: var(--bad-bg); } .none { --tone: var(--soft); --tone-bg: var(--card); }
code, .mono { font-family: ui-monospace, monospace; font-size: .86em; overflow-wrap: anywhere; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem; margin: 1rem 0 0; }
dl.facts div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
dl.facts dt { color: var(--soft); font-size: .82rem; } dl.facts dd { margin: 0; font-size: 1.1rem; font-weight: 600;
  overflow-wrap: anywhere; }
ol.steps { list-style: none; margin: 0; padding: 0; border: 1px solid var(--line); border-radius: .5rem; }
ol.steps > li + li { border-top: 1px solid var(--line); }
summary, .row { display: grid; grid-template-columns: 2rem 1fr auto auto; gap: .75rem; padding: .6rem .9rem;
  align-items: baseline; cursor: pointer; }
summary:focus-visible { outline: 2px solid var(--tone, var(--ink)); outline-offset: -2px; }
.badge { color: var(--tone); background: var(--tone-bg); border: 1px solid var(--tone); border-radius: 1rem;
  padding: 0 .6rem; font-size: .82rem; white-space: nowrap; }
.time { color: var(--soft); font-size: .82rem; min-width: 4.5rem; text-align: right;
  font-variant-numeric: tabular-nums; }
summary > span:nth-child(2)::after { content: " \\25B8"; color: var(--soft); }
details[open] > summary > span:nth-child(2)::after { content: " \\25BE"; }
.inside { padding: 0 .9rem .9rem 3.65rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th[scope=row] { font-weight: 500; color: var(--soft); width: 16rem; } .n { text-align: right; }
blockquote { margin: 0; padding: .8rem 1.1rem; background: var(--card); border-left: .25rem solid var(--line); }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media print { details > .inside { display: block; } }
"""

_TONES = {"PASS": "good", "SAMPLED-PASS": "mid", "UNSAFE": "bad", "FAIL": "bad"}
_STATUS_TONES = {"ok": "good", "failed": "bad", "not reached": "none"}
_LINKS = 100  # links of a tenant that the page shows; report.json has more
_LONGEST = 600  # characters of one value; report.json has all of them


def render(report: Mapping[str, Any]) -> str:
    """The page of a report built by :func:`ragseal.verifier.report.build`."""
    verdict = str(report["verdict"])
    title = f"{verdict}: audit of window {report['window'] or '(none)'}"
    body = "\n".join(
        (
            f"<h1>ragseal audit of window <code>{_text(report['window'])}</code>, "
            f"log <code>{_text(report['origin'])}</code></h1>",
            _verdict(report, verdict),
            "<h2>Checklist</h2>",
            f'<ol class="steps">{"".join(_step(step) for step in report["steps"])}</ol>',
            _tenants(report["tenants"]),
            _estimate(report["estimate"]),
            _epsilon(report["epsilon"]),
            f"<h2>What is claimed</h2><blockquote>{_text(report['claim'])}</blockquote>",
            "<h2>What the verdict does not say</h2>",
            f"<ul>{''.join(f'<li>{_text(note)}</li>' for note in report['does_not_say'])}</ul>",
            _section("Policy", report["policy"]),
            _section("Timings (seconds)", report["timings"]),
            f"<footer>Manifest <code>{_text(report['manifest'])}</code>. "
            "All evidence in full is in report.json.</footer>",
        )
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _verdict(report: Mapping[str, Any], verdict: str) -> str:
    tone = _TONES.get(verdict, "bad")
    failure = report["failure"]
    if failure:
        facts: list[tuple[str, Any]] = [("failed step", failure["step"]), ("records checked", report["records"])]
        said = f"<p>{_text(failure['message'])}</p>"
    else:
        facts = [
            ("epsilon of the coalition", _bound(report["epsilon_audit"])),
            ("delta", report["delta"]),
            ("mode", report["mode"]),
            ("keys made by", report["keys"]),
            ("records proven", f"{report['proven']} of {report['records']}"),
        ]
        if report["beta"] is not None:
            facts += [("beta", _bound(report["beta"])), ("confidence", report["confidence"])]
        said = ""
    boxes = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in facts)
    return (
        f'<section class="verdict {tone}" aria-label="Verdict"><strong>{_text(verdict)}</strong>{said}'
        f'<p><code>{_text(report["line"])}</code></p></section><dl class="facts">{boxes}</dl>'
    )


def _step(step: Mapping[str, Any]) -> str:
    status = str(step["status"])
    tone = _STATUS_TONES.get(status, "bad")
    head = (
        f"<span>{_text(step['number'])}</span><span>{_text(step['title'])}</span>"
        f'<span class="badge {tone}">{_text(status)}</span><span class="time">{float(step["seconds"]):.3f} s</span>'
    )
    if not step["evidence"] and not step["message"]:
        return f'<li><div class="row" style="cursor: default">{head}</div></li>'
    message = f"<p>{_text(step['message'])}</p>" if step["message"] else ""
    opened = " open" if status == "failed" else ""
    return (
        f'<li><details{opened}><summary>{head}</summary><div class="inside">{message}'
        f"{_table(step['evidence'].items())}</div></details></li>"
    )


def _tenants(tenants: Iterable[Mapping[str, Any]]) -> str:
    columns = ("tenant", "total", "checked", "unchecked", "acknowledged")
    rows = "".join(
        "<tr>" + "".join(f"<td{' class=n' if c != 'tenant' else ''}>{_text(t[c])}</td>" for c in columns) + "</tr>"
        for t in tenants
    )
    if not rows:
        return ""
    head = "".join(f'<th scope="col"{" class=n" if c != "tenant" else ""}>{c}</th>' for c in columns)
    return (
        "<h2>Records by tenant</h2><div class=scroll><table><thead><tr>"
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _estimate(estimate: Mapping[str, Any] | None) -> str:
    """The coalition estimate: what it is, which accounts ask as one, and by which records."""
    if not estimate:
        return ""
    caught = estimate["caught"]
    complete = all(one["list"] == "complete" for one in estimate["tenants"])
    rule = f"cosine at least {estimate['theta']}, at most {estimate['tau']} records apart"
    facts: list[tuple[str, Any]] = [
        ("accounts that ask as one", f"{estimate['c']} of at most {estimate['k_max']}"),
        ("members", ", ".join(estimate["members"]) or "none"),
        ("two records are linked", rule),
        ("links", f"{estimate['links']}{'' if complete else ' listed, as many as join the same records'}"),
        ("certificate", f"{estimate['certificate']}: at {caught['confidence']:.0%} confidence at most "
                        f"{caught['share']:.2g} of all pairs are links that are not listed"),
    ]  # fmt: skip
    parts = ["<h2>Coalition estimate</h2>", _table(facts)]
    for tenant in estimate["tenants"]:
        name = _text(tenant["tenant"])
        groups = [Group(c["accounts"], c["records"]) for c in tenant["clusters"]]
        pairs = [(one["accounts"][0], one["accounts"][1]) for one in tenant["listed"]]
        parts.append(
            clusters_svg(f"Accounts joined in tenant {tenant['tenant']}", groups, pairs)
            + _grid(f"Accounts joined, tenant {name}", ("accounts", "records"),
                  [(", ".join(c["accounts"]), c["records"]) for c in tenant["clusters"]])
            + _grid(f"Links, tenant {name}", ("records", "accounts"),
                    [(" and ".join(map(str, one["seqs"])), " and ".join(one["accounts"]))
                     for one in tenant["listed"][:_LINKS]])
        )  # fmt: skip
    return "".join(parts)


def _grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A titled table, nothing where there are no rows; ``title`` is escaped already."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{_text(c)}</th>' for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(x)}</td>" for x in row) + "</tr>" for row in rows)
    return f"<h3>{title}</h3><div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _epsilon(values: Mapping[str, Any] | None) -> str:
    """Step 11's numbers: what is claimed, how it grew, by which accountant, where delta goes."""
    if not values:
        return ""
    lists = ("odometer", "windows_of_the_period", "windows_left_out", "conditions")
    plain = [(k, v) for k, v in values.items() if k not in (*lists, "accounting", "second_implementation")]
    parts = [
        f"<h2>Epsilon</h2>{_table(plain)}",
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
    parts.append(_rows("Conditions of Theorems A and B", values["conditions"]))
    return "".join(parts)


def _rows(title: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """Entries of equal keys as one table."""
    if not entries:
        return ""
    head = "".join(f'<th scope="col">{_label(key)}</th>' for key in entries[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{_value(value)}</td>" for value in entry.values()) + "</tr>" for entry in entries
    )
    return (
        f"<h3>{_text(title)}</h3><div class=scroll><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _section(title: str, values: Any) -> str:
    return f"<h2>{_text(title)}</h2>{_table(values.items())}" if values else ""


def _table(rows: Iterable[tuple[str, Any]]) -> str:
    cells = "".join(f'<tr><th scope="row">{_label(k)}</th><td class="mono">{_value(v)}</td></tr>' for k, v in rows)
    return f'<div class="scroll"><table><tbody>{cells}</tbody></table></div>'


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "<br>".join(f"{_label(k)}: {_value(v)}" for k, v in value.items())
    if isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        return "<br>".join(_value(entry) for entry in value)
    if isinstance(value, list):
        return _text(", ".join(str(entry) for entry in value))
    return _number(value) if isinstance(value, float) else _text(value)


def _bound(value: Any) -> str:
    return upward(value) if isinstance(value, float) else _text(value)


def _label(value: Any) -> str:
    return _text(value).replace("_", " ")


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _text(value)


def _text(value: Any) -> str:
    text = "none" if value is None else str(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} ... ({len(text)} characters)"
    return escape(text, quote=True)
