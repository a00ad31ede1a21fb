# SPDX-License-Identifier: GPL-3.0-or-later
"""The append-only Merkle ledger, its checkpoints, witnesses and the observer."""
