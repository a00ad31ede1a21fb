# SPDX-License-Identifier: GPL-3.0-or-later
"""The law "decoys": exact answers among slots that were drawn by chance.  docs/proofs/decoys.md."""
