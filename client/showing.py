# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers on a terminal, or as JSON: those that just came, and those that an account keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ragseal.client import excerpts
from ragseal.client.result import kept_result
from ragseal.kernel.claims import form_of
from ragseal.kernel.printable import printable
from ragseal.runtime.terminal import tell_result

if TYPE_CHECKING:
    from ragseal.client.receipts import KeptReceipt
    from ragseal.client.result import Opened, Result


EVERYTHING = 1 << 30  #: texts


def show(
    result: Result, as_json: bool, hidden: float = 0.0, top: int = excerpts.TOP, fetched: Sequence[Result] = ()
) -> None:
    """An answer: ids, texts and metadata, best first where it is ranked.

    Args:
        hidden: the share of documents that the window's coins hide.
        top: texts that are printed whole.
        fetched: what came beside it, because the folder lacked it.
    """
    request, body = result.record.signed.request, result.receipt.body
    order: Sequence[Opened] = result.opened if result.ranked is None else result.ranked
    shown: list[dict[str, Any]] = [
        {"slot": one.slot, "id": one.id, "text": one.text, "metadata": dict(one.metadata)} for one in order
    ]
    for item, ranked in zip(shown, result.ranked or (), strict=False):
        item["cosine"] = round(ranked.cosine, 4)
    facts = {
        "texts": shown,
        "returned_slots": list(result.returned),
        "unread_slots": list(result.unread),
        "withheld_slots": list(result.withheld),
        "documents": len(result.slots),
        "checked": result.checked,
        "window": request.window,
        "claim": result.claim,
        "unanswered": list(result.unanswered),
        "fetched": [{"window": one.window, "ctr": one.ctr} for one in (two.record.signed.request for two in fetched)],
        "ctr": request.ctr,
        "seq": body.seq,
        "ledger_index": body.index,
        "receipt": result.receipt.digest().hex(),
    }
    if result.answer is not None:
        told = {"answer": result.answer, "keywords": list(result.keywords)}
        facts = {**told, **facts, "texts": [], "unread_slots": [], "documents": 0}
    lines = []
    if result.answer is not None:
        lines.append(printable(result.answer, keep=excerpts.BREAKS))
        lines.append("keywords: " + printable(", ".join(result.keywords)))
    lines += excerpts.texts(order if result.answer is None else (), top)
    lines += excerpts.rest(result, top)
    lines.append(f"-- {result.held}")
    lines += excerpts.missed(result, hidden)
    lines.append(
        f"-- answer checked; embedding {'checked' if result.checked else 'NOT checked by this client'}; "
        f"window {request.window}, query {request.ctr}, ledger entry {body.index}; {_claimed(result.claim)}"
    )
    tell_result(as_json, facts, "\n".join(lines))


def _claimed(claim: str) -> str:
    """What is claimed of the account's tenant."""
    return f"claim {claim}{'' if form_of(claim).private else ': NOTHING IS PRIVATE'}"


def show_kept(one: KeptReceipt, as_json: bool) -> None:
    """An answer from an account's folder, all of it, with its question where that is kept."""
    question = one.question
    if question is not None and not as_json:
        click.echo(f"-- question: {printable(question, keep=excerpts.BREAKS)}")
    show(kept_result(one.answer, one.window.rules), as_json, top=EVERYTHING)
