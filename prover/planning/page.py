# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan on disk: plan.json, the plot as plan.png, and plan.html with everything in it."""

from __future__ import annotations

import base64
import io
import json
import math
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ragseal.accounting.claims import planned
from ragseal.accounting.guess import STRONG
from ragseal.accounting.rounding import for_people
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime import face
from ragseal.runtime.edges.filesystem import why

_NIGHT = "#0d1117"  # the page's paper in a dark setting (ledger/web/face.css)
NO_PLOT = "no plot: it needs matplotlib, run pip install 'ragseal[plot]'"
COLUMNS = (
    "claim", "law", "scale", "decoys", "results_mean", "results_least", "window", "K", "n_max", "k_max", "epsilon",
    "unseen", "return", "hidden_share", "ndcg10", "recall", "top1", "class", "gain",
)  # fmt: skip

#: Of the page: what a column is called.
HEADS = {
    "claim": "claim", "epsilon": "epsilon", "unseen": "unseen", "return": "return", "guess": "attacker's best guess",
    "hidden_share": "documents hidden", "ndcg10": "nDCG@10", "recall": "recall", "top1": "first answer right",
    "law": "law", "K": "returned (K)", "window": "score window", "n_max": "questions per account",
    "k_max": "accounts together", "listed_by_chance": "ids shown by chance", "class": "circuit class", "gain": "gain",
    "scale": "signal / noise", "decoys": "decoys an answer",
    "results_mean": "places for results", "results_least": "of these nearly always",
}  # fmt: skip


def has_plot() -> bool:
    """Whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def cell(row: Mapping[str, Any], name: str) -> str:
    """One value of a row for people; measured ones with their standard error."""
    value = row[name]
    if value is None:
        return "-"
    if name == "k_max":
        return planned(row["claim"]).accounts(row)
    if name in ("hidden_share", "listed_by_chance"):
        return f"{value:.1%}"
    if name == "window":
        return f"[{value[0]:g}, {value[1]:g}]" if row["gain"] is not None else f"above {value[0]:g}"
    if name in ("ndcg10", "recall", "top1"):
        return f"{value:.3f} +- {row[name + '_se']:.3f}"
    if name == "class":
        return str(value) + ("" if row["class_available"] else " (to be built)")
    if name in ("epsilon", "unseen", "return"):
        return for_people(value, bound=True)
    return f"{value:.4g}" if isinstance(value, float) and math.isfinite(value) else for_people(value)


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows in columns, for a terminal."""
    lines = [COLUMNS, *(tuple(cell(row, name) for name in COLUMNS) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


def draw(plan: Mapping[str, Any], dark: bool = False) -> bytes:
    """The frontier as a PNG: nDCG@10 over return or epsilon, a line for every claim, law, K, window and budget.

    Full lines are of claim until-delivered, dashed ones of every-list.  What each line is stands below the axes, where
    it covers none of them.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in plan["frontier"]:
        K = row["K"] if row["decoys"] is None else None  # which grows with decoys along a line
        key = (row["claim"], row["law"], K, *row["window"], row["n_max"], row["k_max"])
        lines.setdefault(key, []).append(row)
    with plt.style.context(["dark_background", {"figure.facecolor": _NIGHT, "axes.facecolor": _NIGHT}] if dark else []):
        return _drawn(plan, lines)


def _drawn(plan: Mapping[str, Any], lines: Mapping[tuple[Any, ...], list[Mapping[str, Any]]]) -> bytes:
    """In the colours that are set."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5.5))
    for (claim, law, K, _lo, _hi, n_max, k_max), rows in lines.items():
        how = planned(claim)
        rows.sort(key=how.traded)
        axes.errorbar(
            [how.traded(row) for row in rows], [row["ndcg10"] for row in rows], [row["ndcg10_se"] for row in rows],
            marker="o", markersize=3, capsize=2, linewidth=1, linestyle=how.line,
            label=f"{law}, {'' if K is None else f'K={K}, '}{cell(rows[0], 'window')}, {how.label(n_max, k_max)}",
        )  # fmt: skip
    axes.axhline(plan["noise_free"]["ndcg10"], color="grey", linestyle=":")
    best = plan["recommended"] or plan["nearest"]
    if best:
        name = "recommended" if plan["recommended"] else "nearest"
        ink = plt.rcParams["text.color"]
        axes.plot([planned(best["claim"]).traded(best)], [best["ndcg10"]], "*", markersize=16, color=ink, label=name)
    axes.set(
        xscale="log", xlabel="until delivered: return; every list: epsilon, as an audit reports it", ylabel="nDCG@10",
        title="Privacy against answers (full: until delivered; dashed: every list; dotted: without noise)",
    )  # fmt: skip
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.12), ncols=2, frameon=False)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120, bbox_inches="tight")
    plt.close(figure)
    return out.getvalue()


def sentences(plan: Mapping[str, Any], now: float) -> list[str]:
    """What everybody should read first: who, when, which log, what is bounded, how weak."""
    best = plan["recommended"]
    shown = best or plan["nearest"]
    out = [
        f"This is a provider's plan, measured on {plan['workload']}.",
        f"It was made on {face.when(now)}, before any window was opened.",
        "No log knows of it: it becomes a promise when a policy is committed to, and a fact when an auditor passes it.",
    ]
    if shown is None:
        return [*out, "Nothing would be bounded: no policy was found.", "The reasons are below."]
    quality = f"answers reach nDCG@10 {shown['ndcg10']:.3f} of {plan['noise_free']['ndcg10']:.3f} without noise."
    which = "recommended" if best else "nearest to the target"
    return [*out, *planned(shown["claim"]).sentences(shown, which, quality)]


def _shown(row: Mapping[str, Any], name: str) -> str:
    return (
        planned(row["claim"]).guess(row) if name == "guess" else cell(row, name).replace(" +- ", "\u00a0\u00b1\u00a0")
    )


def _image(picture: bytes | None, night: bytes | None) -> str:
    """The chart, in the reader's light or dark setting."""
    if not picture:
        return f"<p>{escape(NO_PLOT)}</p>"
    light, dark = (f"data:image/png;base64,{base64.b64encode(one).decode()}" for one in (picture, night or picture))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img alt="nDCG@10 against epsilon" src="{light}"></picture>'
    )


def _points(marked: Sequence[Mapping[str, Any]], frontier: Sequence[Mapping[str, Any]]) -> str:
    """All points, the marked ones first, then the best answers first; what is the same of all of them said once."""
    others = [row for row in frontier if row not in marked]
    rows = [*marked, *sorted(others, key=lambda row: -float(row["ndcg10"] or 0))]
    if not rows:
        return "<p>No point was computed.</p>"
    values = {name: [_shown(row, name) for row in rows] for name in HEADS}
    same = [name for name in HEADS if len(set(values[name])) == 1]
    different = [name for name in HEADS if name not in same]
    pairs = "".join(
        f'<tr><th scope="row">{escape(HEADS[name])}</th><td>{escape(values[name][0])}</td></tr>' for name in same
    )
    shared = f'<h3>The same for all points</h3><table class="pairs"><tbody>{pairs}</tbody></table>' if same else ""
    if not different:
        return shared
    heads = "".join(f"<th scope=col>{escape(HEADS[name])}</th>" for name in different)
    body = "".join(
        f"<tr{' class=best' if at < len(marked) else ''}>"
        + "".join(f'<td data-name="{escape(HEADS[name])}">{escape(values[name][at])}</td>' for name in different)
        + "</tr>"
        for at in range(len(rows))
    )
    table = f'<table class="cards fit"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return (
        f"{shared}<p>The marked one is the policy above; the others follow by their answers, the best first.</p>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="All points">{table}</div>'
    )


def page(plan: Mapping[str, Any], picture: bytes | None, now: float, night: bytes | None = None) -> str:
    """plan.html: nothing outside of it is needed; ``night``: the picture for readers with a dark setting."""
    best = plan["recommended"]
    shown = best or plan["nearest"]
    head = "Recommended policy" if best else "The target cannot be met; the nearest policy"
    bound = planned(best["claim"]).protects(best) if best else 0.0
    tone = "mid" if bound > STRONG else "good" if best else "bad"
    strength = f'<p class="guess">{escape(planned(shown["claim"]).headline(shown))}</p>' if shown else ""
    marked = [shown] if shown else []
    file = f"<h2>{head}</h2><pre>{escape(shown['policy'])}</pre>" if shown else ""
    body = (
        "<h1>ragseal: privacy against answers, a plan</h1>"
        f'<section class="verdict {tone}" aria-label="Outcome"><strong>{head}</strong>{strength}</section>'
        f"{face.sentences(sentences(plan, now))}{file}"
        f"<h2>What privacy costs</h2>{_image(picture, night)}"
        f"<h2>Reasons</h2><ul>{''.join(f'<li>{escape(reason)}</li>' for reason in plan['reasons'])}</ul>"
        f"<h2>All points</h2>{_points(marked, plan['frontier'])}"
    )
    return face.document("ragseal: a plan", body)


def save(folder: Path, plan: Mapping[str, Any]) -> list[Path]:
    """Write the plan, with a picture where matplotlib is there, and the policy that it recommends, if there is one.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    picture, night = (draw(plan), draw(plan, dark=True)) if has_plot() else (None, None)
    now = time.time()
    files = {
        "plan.json": json.dumps(plan, indent=1).encode() + b"\n",
        "plan.html": page(plan, picture, now, night).encode(),
    }
    if picture is not None:
        files["plan.png"] = picture
    if plan["recommended"]:
        files["policy.toml"] = plan["recommended"]["policy"].encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise ConfigurationError(f"cannot write the plan into {folder}: {why(error, folder)}") from None
    return [folder / name for name in files]
