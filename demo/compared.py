# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's two windows side by side: what each promises, what it found, what a proof cost."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from ragseal.accounting.audit import FULL
from ragseal.accounting.rounding import upward
from ragseal.circuits.circuit import load_classes
from ragseal.circuits.search import count_rows
from ragseal.demo.window import Outcome

CORE_HOUR = 0.04  #: what an hour of a core costs: an assumption, as docs/scale.md makes it


def compared(outcomes: Sequence[Outcome]) -> Table:
    """A column for each window."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    for one in outcomes:
        whose = "the paper's" if one.plan.form.counted else "the default"
        table.add_column(f"{one.plan.claim}, {whose}", overflow="fold")
    for name, row in (
        ("who may work together", _whom),
        ("about what", _what),
        ("epsilon", lambda one: upward(float(one.report["epsilon_audit"])) if one.report["epsilon_audit"] else "none"),
        ("of plain search's first ten came back", _kept),
        ("a proof is of", _rows),
        ("processor time of the provider for a question", _seconds),
    ):
        table.add_row(name, *(row(one) for one in outcomes))
    return table


def _whom(one: Outcome) -> str:
    policy = one.report["policy"]
    if one.plan.form.counted:
        return f"{policy['k_max']} accounts with {policy['n_max']} questions each"
    return "any number of accounts, with any number of questions"


def _what(one: Outcome) -> str:
    if one.plan.form.counted:
        return "what one slot holds, from all their lists up to the first that shows it"
    return "whether a document is absent, until it is delivered to them"


def _kept(one: Outcome) -> str:
    return "not measured" if one.worth is None else f"{one.worth.kept:.0%}"


def _rows(one: Outcome) -> str:
    rows = count_rows(load_classes()[one.plan.class_name]).rows
    return f"{rows:,} rows" + (f", {one.plan.shards} proofs a question" if one.plan.shards > 1 else "")


def _seconds(one: Outcome) -> str:
    return f"{one.proof_seconds:.2f} s" if one.proof_seconds else "not known"


def price(one: Outcome) -> str:
    """What a record costs its provider, who answers and proves."""
    proofs, money = one.plan.shards, 1000 * one.proof_seconds * CORE_HOUR / 3600
    return (
        f"a record took {one.proof_seconds:.2f} s of the provider's processor time, answer included, and has {proofs} "
        f"{'proofs' if proofs > 1 else 'proof'}: {money:.2f} for a thousand records at {CORE_HOUR} a core-hour"
    )


def papers_numbers(one: Outcome) -> str:
    """What the paper's formulas give for the same window, beside what was audited."""
    found = one.report["epsilon"]["accounting"][one.plan.class_name]
    published = found["published"]
    all_scores = next(bound["certified"] for bound in found["bounds"] if bound["accountant"] == FULL)
    audited = upward(float(one.report["epsilon_audit"]))
    return (
        f"the paper's formulas for this window, which bound nothing here: sqrt(k) epsilon_acc "
        f"{upward(published['closed_form'])}, with the residual of (3.2) {upward(published['closed_form_in_full'])}, "
        f"on its Renyi grid {upward(published['renyi_grid'])}. Had all noisy scores been released: "
        f"{upward(all_scores)}, exactly. Released were sets of slots, and audited {audited}"
    )
