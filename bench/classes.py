# SPDX-License-Identifier: GPL-3.0-or-later
"""The circuit classes that measurements are about where nothing else is asked for; by size, one each."""

from __future__ import annotations

QUICK = "ranked-tiny-two"  #: 126 slots: shows that everything is measured
SMALL = "ranked-small-two-10"
BASE = "ranked-base-two-10"
LARGE = "ranked-large-two-10"
