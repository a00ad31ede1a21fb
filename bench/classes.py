# SPDX-License-Identifier: GPL-3.0-or-later
"""The circuit classes that measurements are about where nothing else is asked for; by size, one each."""

from __future__ import annotations

QUICK = "noise-tiny-two"  #: 126 slots: shows that everything is measured
SMALL = "noise-small-two-50"
LARGE = "noise-large-gaussian-50"
