# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan on disk: plan.json, the plot as plan.png, and plan.html with everything in it."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError

NO_PLOT = "no plot: it needs matplotlib, run pip install 'ragseal[plot]'"
COLUMNS = ("law", "scale", "window", "K", "n_max", "k_max", "epsilon", "ndcg10", "recall", "class", "gain")

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 0 auto; padding: 2rem 1.25rem; }
table { border-collapse: collapse; font-size: .9rem; } td, th { padding: .25rem .7rem; text-align: right; }
th { border-bottom: 1px solid; } tr.best td { font-weight: 700; } .scroll { overflow-x: auto; }
pre { border: 1px solid; border-radius: .4rem; padding: .8rem; overflow-x: auto; }
img { max-width: 100%; background: white; border-radius: .4rem; }
"""


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
    if name == "window":
        return f"[{value[0]:g}, {value[1]:g}]"
    if name in ("ndcg10", "recall"):
        return f"{value:.3f} +- {row[name + '_se']:.3f}"
    if name == "class":
        return str(value) + ("" if row["class_available"] else " (to be built)")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows in columns, for a terminal."""
    lines = [COLUMNS, *(tuple(cell(row, name) for name in COLUMNS) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


def draw(plan: Mapping[str, Any]) -> bytes:
    """The frontier as a PNG: nDCG@10 over epsilon, a line for every law, K, window and budget."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in plan["frontier"]:
        key = (row["law"], row["K"], *row["window"], row["n_max"], row["k_max"])
        lines.setdefault(key, []).append(row)
    figure, axes = plt.subplots(figsize=(9, 5.5))
    for (law, K, lo, hi, n_max, k_max), rows in lines.items():
        rows.sort(key=lambda row: row["epsilon"])
        axes.errorbar(
            [row["epsilon"] for row in rows], [row["ndcg10"] for row in rows], [row["ndcg10_se"] for row in rows],
            marker="o", markersize=3, capsize=2, linewidth=1, linestyle="-" if law == "geometric" else "--",
            label=f"{law}, K={K}, [{lo:g}, {hi:g}], {k_max} x {n_max}",
        )  # fmt: skip
    axes.axhline(plan["noise_free"]["ndcg10"], color="grey", linestyle=":")
    best = plan["recommended"] or plan["nearest"]
    if best:
        name = "recommended" if plan["recommended"] else "nearest"
        axes.plot([best["epsilon"]], [best["ndcg10"]], "*", markersize=16, color="black", label=name)
    axes.set(
        xscale="log", xlabel="epsilon of the coalition, as an audit reports it", ylabel="nDCG@10",
        title="Privacy against answers (dotted: without noise)",
    )  # fmt: skip
    axes.legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120)
    plt.close(figure)
    return out.getvalue()


def page(plan: Mapping[str, Any], picture: bytes | None) -> str:
    """plan.html: nothing outside of it is needed."""
    best = plan["recommended"]
    shown = best or plan["nearest"]
    marked = [shown] if shown else []
    rows = "".join(
        f"<tr{' class=best' if row in marked else ''}>"
        + "".join(f"<td>{escape(cell(row, name))}</td>" for name in COLUMNS)
        + "</tr>"
        for row in [*marked, *plan["frontier"]]
    )
    image = (
        f'<img alt="nDCG@10 against epsilon" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
        if picture
        else f"<p>{escape(NO_PLOT)}</p>"
    )
    head = "Recommended policy" if best else "The target cannot be met; the nearest policy"
    file = f"<h2>{head}</h2><pre>{escape(shown['policy'])}</pre>" if shown else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>ragseal plan</title>'
        f"<style>{_STYLE}</style><h1>Privacy against answers</h1><p>{escape(plan['workload'])}</p>{image}{file}"
        f"<h2>Reasons</h2><ul>{''.join(f'<li>{escape(reason)}</li>' for reason in plan['reasons'])}</ul>"
        "<h2>All points</h2><div class=scroll><table><tr>"
        f"{''.join(f'<th>{name}</th>' for name in COLUMNS)}</tr>{rows}</table></div></html>\n"
    )


def save(folder: Path, plan: Mapping[str, Any]) -> list[Path]:
    """Write the three files, or two where matplotlib is missing.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    picture = draw(plan) if has_plot() else None
    files = {"plan.json": json.dumps(plan, indent=1).encode() + b"\n", "plan.html": page(plan, picture).encode()}
    if picture is not None:
        files["plan.png"] = picture
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise ConfigurationError(f"cannot write the plan into {folder}: {error.strerror}") from None
    return [folder / name for name in files]
