# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirabel's tables on corpora at hand: what its guard detects, hides and costs.  ``python -m bench.mirabel``."""
