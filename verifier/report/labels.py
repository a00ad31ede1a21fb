# SPDX-License-Identifier: GPL-3.0-or-later
"""What the keys of a report are called on its page; report.json keeps the keys themselves."""

from __future__ import annotations

from typing import Any

LABELS = {
    "acknowledged": "acknowledged by the account",
    "advertised_to_one_account": "epsilon advertised to one account",
    "beta": "share that may be unprovable (beta)",
    "c": "accounts that ask as one (c)",
    "c_e": "commitment to the embedding",
    "chunks_max": "slots one document may fill",
    "class_digest": "digest of the circuit class",
    "class_name": "circuit class",
    "closes": "closes",
    "coalition_queries": "questions of the coalition",
    "delta": "delta",
    "delta_inf": "delta at epsilon without end",
    "dimension": "dimensions of the embedding",
    "epsilon_account": "epsilon advertised to one account",
    "epsilon_audit": "epsilon (epsilon_audit)",
    "epsilon_of_one_account": "epsilon of one account",
    "form": "form of the claim",
    "gain": "gain, signal against the noise",
    "guard": "guard (returned: one text of each answer is withheld)",
    "guard_formula": "formula of the guard's threshold",
    "guard_rho": "significance of the guard (rho)",
    "hi": "score window, upper end (16129 is cosine 1)",
    "k_max": "accounts a coalition may have (k_max)",
    "k_max_of_the_period": "accounts of the coalition",
    "ledger_index": "entry of the log",
    "lo": "score window, lower end (16129 is cosine 1)",
    "message": "kind",
    "n_max": "questions an account may ask (n_max)",
    "opens": "opens",
    "period_start": "budget counts from",
    "records": "answers",
    "return": "return: how often a slot's id comes back, in nats; no part of epsilon",
    "returned": "the same, so far",
    "later_windows": "windows that were opened later",
    "places_of_late_documents": "places of late documents, filled or not",
    "seq": "number of the answer",
    "seqs": "numbers of the answers",
    "table_digest": "digest of the noise table",
    "tau": "links reach so many answers back (tau)",
    "tau_time": "and so many seconds by the provider's times (tau_time; 0: tau alone)",
    "theta": "cosine that links two questions (theta)",
    "total_seconds": "all steps",
    "unchecked": "embedding not checked by the account",
    "unit": "privacy unit",
    "version_every": "seconds between two versions of the index (0: one for the window)",
    "versions": "versions of the index",
    "windows": "windows of the period",
}

#: Keys whose values are seconds since 1970.
TIMES = frozenset({"opens", "closes", "period_start", "period_from", "time", "opened_at", "closed_at", "since"})
#: Keys whose values are pseudonyms of accounts.
ACCOUNTS = frozenset({"account", "accounts", "members"})


def label(key: Any) -> str:
    """For people."""
    text = str(key)
    return LABELS.get(text, text.replace("_", " "))
