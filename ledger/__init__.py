# SPDX-License-Identifier: GPL-3.0-or-later
"""The append-only Merkle ledger, its checkpoints, witnesses and the observer."""

if __name__ != "ragseal.ledger":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.ledger, not ledger")
